"""A number for the contents of a relation: the same in every process, for tuples in any order, on any number of partitions.

Ids of symbols and records differ from process to process, so what is hashed is what they stand for.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.balance.hashing import mix
from semi_naive.ra.ir import Kind, Relation, Type
from semi_naive.ra.lanes import combined
from semi_naive.ra.partitions.partitioned import PartitionedRelation
from semi_naive.ra.partitions.reading import pieces_of
from semi_naive.ra.text.hashing import hash_rows, hash_strings
from semi_naive.ra.values import branches
from semi_naive.ra.values.distinct import distinct_with_inverse


@dataclass
class Fingerprint:
    """Call it with columns (arity, n) of distinct tuples. The numbers of disjoint parts add up to that of all, modulo 2^64."""

    relation: Relation
    types: dict[str, Type]
    values: object  # what the ids stand for

    def __call__(self, columns: np.ndarray) -> int:
        contents = [
            self._contents(column, type_.name, type_.kind)
            for column, (_, type_) in zip(columns, self.relation.attributes, strict=True)
        ]
        words = combined(np.array(contents, np.int64).reshape(columns.shape))
        return (int(mix(words).sum()) + words.size) % (1 << 64)

    def _contents(self, column: np.ndarray, type_: str, kind: Kind) -> np.ndarray:
        """The column with the hash of its content in place of each id."""
        if kind == Kind.SYMBOL:
            ids, places = distinct_with_inverse(column)
            return hash_strings(self.values.arrow(ids)).view(np.int64)[places]
        if kind == Kind.RECORD:
            return self._records(column, type_)
        return column

    def _records(self, column: np.ndarray, type_: str) -> np.ndarray:
        """Records may hold records, to any depth: first the ids at each depth, then from the deepest up their hashes."""
        levels, hashes = [{type_: np.unique(column)}], {}
        while levels[-1]:
            levels.append(self._fields(levels[-1]))
        for level in reversed(levels[:-1]):
            hashes = {name: (ids, self._hashed(name, ids, hashes)) for name, ids in level.items()}
        ids, hashed = hashes[type_]
        return hashed[np.searchsorted(ids, column)]

    def _fields(self, level: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The ids of records in the fields of records, by type."""
        found: dict[str, list] = {}
        for name, ids in level.items():
            for part in self._open(name, ids):
                for values, inner in part.fields:
                    if values.size and self.types[inner].kind == Kind.RECORD:
                        found.setdefault(inner, []).append(values)
        return {name: np.unique(np.concatenate(parts)) for name, parts in found.items()}

    def _open(self, name: str, ids: np.ndarray) -> list["_Part"]:
        """The fields of records; of an algebraic data type each branch by itself."""
        type_, there = self.types[name], ids != 0
        if not type_.branches:
            columns = self.values.fields(ids[there], len(type_.fields))
            return [_Part(there, [(column, inner) for column, (_, inner) in zip(columns, type_.fields, strict=True)])]
        tags, payloads = branches.open_(ids, self.values)
        parts = []
        for tag in np.unique(tags).tolist():
            kinds = [inner for _, inner in type_.branches[tag].fields]
            columns = branches.fields(payloads[tags == tag], len(kinds), self.values)
            parts.append(_Part(tags == tag, list(zip(columns, kinds, strict=True)), tag))
        return parts

    def _hashed(self, name: str, ids: np.ndarray, below: dict) -> np.ndarray:
        hashed = np.zeros(ids.size, np.int64)  # nil stays 0
        for part in self._open(name, ids):
            contents = [] if part.tag is None else [np.full(np.count_nonzero(part.rows), part.tag)]
            for values, inner in part.fields:
                if self.types[inner].kind == Kind.RECORD:
                    known, of_known = below.get(inner, (values, values))
                    contents.append(of_known[np.searchsorted(known, values)])
                else:
                    contents.append(self._contents(values, inner, self.types[inner].kind))
            hashed[part.rows] = hash_rows(np.array(contents, np.int64).reshape(len(contents), -1)).view(np.int64)
        return hashed


@dataclass
class _Part:
    """Some of the records of a type: which `rows` they are, their fields as (column, type name), and the tag of a branch."""

    rows: np.ndarray
    fields: list[tuple[np.ndarray, str]]
    tag: int | None = None


@dataclass
class FingerprintPieces:
    """A task that yields the numbers of its partition's tuples."""

    fingerprint: Fingerprint
    spread: PartitionedRelation

    def __call__(self, partition, records):
        yield from map(self.fingerprint, pieces_of(self.spread, partition))
