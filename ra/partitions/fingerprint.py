"""Fingerprints of relations: a 64-bit number computed from a relation's contents, which is the same in every process, for any
order of the tuples and any number of partitions.

The ids of symbols and records differ between processes, so the contents that they denote are hashed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from semi_naive.balance.hashing import mix
from semi_naive.ra.ir import Kind, Relation, Type
from semi_naive.ra.lanes import combined
from semi_naive.ra.partitions.partitioned import PartitionedRelation
from semi_naive.ra.partitions.reading import pieces_of
from semi_naive.ra.text.hashing import hash_rows, hash_strings
from semi_naive.ra.values import branches
from semi_naive.ra.values.distinct import distinct_with_inverse

if TYPE_CHECKING:
    from semi_naive.ra.values.values import Lookups


@dataclass
class Fingerprint:
    """A function from columns (arity, n) of distinct tuples to their fingerprint. The fingerprints of disjoint parts of a
    relation add up to that of the relation, modulo 2^64.
    """

    relation: Relation
    types: dict[str, Type]  # by name, for the fields of records
    values: "Lookups"  # the symbols and records that the ids denote

    def __call__(self, columns: np.ndarray) -> int:
        """Return the fingerprint of distinct tuples (arity, n): the sum of their hashes and their number, modulo 2^64."""
        types = [type_ for _, type_ in self.relation.attributes]
        contents = [self._contents(column, type_.name, type_.kind) for column, type_ in zip(columns, types, strict=True)]
        words = combined(np.array(contents, np.int64).reshape(columns.shape))
        return (int(mix(words).sum()) + words.size) % (1 << 64)  # mix(0) is 0: only the size counts a tuple of zeros

    def _contents(self, column: np.ndarray, type_: str, kind: Kind) -> np.ndarray:
        """Return a column with the id of each symbol or record replaced by the hash of its contents."""
        if kind == Kind.SYMBOL:
            ids, places = distinct_with_inverse(column)
            return hash_strings(self.values.arrow(ids)).view(np.int64)[places]
        if kind == Kind.RECORD:
            return self._records(column, type_)
        return column

    def _records(self, column: np.ndarray, type_: str) -> np.ndarray:
        """Return the hashes of records, whose fields may be records, to any depth. First the ids at each depth are collected,
        then hashed from the deepest to the outermost."""
        levels = [{type_: np.unique(column)}]  # for each depth, the ascending ids by type
        hashes: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # (ids, hashes) by type, of the last hashed depth
        while levels[-1]:
            levels.append(self._inner_records(levels[-1]))
        for level in reversed(levels[:-1]):  # the last level is empty
            hashes = {name: (ids, self._hash_records(name, ids, hashes)) for name, ids in level.items()}
        ids, hashed = hashes[type_]
        return hashed[np.searchsorted(ids, column)]

    def _inner_records(self, level: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the ids of the records in the fields of records. Both are given by the name of their type."""
        ids_by_type: dict[str, list] = {}
        for name, ids in level.items():
            for branch in self._branches(name, ids):
                for values, inner in branch.fields:
                    if values.size and self.types[inner].kind == Kind.RECORD:
                        ids_by_type.setdefault(inner, []).append(values)
        return {name: np.unique(np.concatenate(parts)) for name, parts in ids_by_type.items()}

    def _branches(self, name: str, ids: np.ndarray) -> list["_Branch"]:
        """Return the fields of records of type `name`, separately for each branch of an algebraic data type."""
        type_, is_record = self.types[name], ids != 0
        if not type_.branches:
            columns = self.values.fields(ids[is_record], len(type_.fields))
            return [_Branch(is_record, [(column, inner) for column, (_, inner) in zip(columns, type_.fields, strict=True)])]
        tags, payloads = branches.tags_and_payloads(ids, self.values)
        parts = []
        for tag in np.unique(tags).tolist():
            field_types = [inner for _, inner in type_.branches[tag].fields]
            columns = branches.fields(payloads[tags == tag], len(field_types), self.values)
            parts.append(_Branch(tags == tag, list(zip(columns, field_types, strict=True)), tag))
        return parts

    def _hash_records(self, name: str, ids: np.ndarray, inner_hashes: dict[str, tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Return the hash of each record of a type. inner_hashes: for each type, the (ids, hashes) of the records one level
        deeper."""
        hashed = np.zeros(ids.size, np.int64)  # nil stays 0
        for branch in self._branches(name, ids):
            contents = [] if branch.tag is None else [np.full(np.count_nonzero(branch.rows), branch.tag)]
            for values, inner in branch.fields:
                if self.types[inner].kind == Kind.RECORD:
                    known, known_hashes = inner_hashes.get(inner, (values, values))  # missing: `values` is empty
                    contents.append(known_hashes[np.searchsorted(known, values)])
                else:
                    contents.append(self._contents(values, inner, self.types[inner].kind))
            hashed[branch.rows] = hash_rows(np.array(contents, np.int64).reshape(len(contents), -1)).view(np.int64)
        return hashed


@dataclass
class _Branch:
    """The records of one branch of a type: a mask `rows` of them, their fields as (column, type name), and the branch's tag."""

    rows: np.ndarray
    fields: list[tuple[np.ndarray, str]]
    tag: int | None = None


@dataclass
class FingerprintPieces:
    """A task that yields the fingerprints of the pieces of its partition's tuples."""

    fingerprint: Fingerprint
    spread: PartitionedRelation

    def __call__(self, partition, records):
        yield from map(self.fingerprint, pieces_of(self.spread, partition))
