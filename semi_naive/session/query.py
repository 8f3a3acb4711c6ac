"""An atom with constants, `_` and variables, answered from the relation as it is: the values of the variables, each once."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from semi_naive.io.bits import BUILT_IN, EXPECTED, Mismatch
from semi_naive.io.errors import BadInput
from semi_naive.io.fields import bits_of_values
from semi_naive.language import syntax
from semi_naive.language.parse import parse
from semi_naive.ra.rules.block import Block, bounds_of, snug
from semi_naive.ra.rules.ir import Relation
from semi_naive.ra.rules.loading import blocks_of
from semi_naive.ra.rules.partitioned import PartitionedRelation
from semi_naive.ra.rules.values import Values
from semi_naive.running.on_partitions import OnPartitions, unless_lost

EXPECTS = 'a query is one atom with constants, _ and variables, as in path(1, y) or name(x, "Ann")'


@dataclass(frozen=True)
class Asking:
    """`relation(terms)`, of which `constants` are by place and in 64 bits, and `variables` by place."""

    relation: Relation
    constants: dict[int, int]
    variables: dict[int, str]

    @property
    def answer(self) -> Relation:
        """The relation of the answers: an attribute for each variable."""
        first = {name: place for place, name in reversed(self.variables.items())}
        names = list(dict.fromkeys(self.variables.values()))
        return Relation(self.relation.name, tuple((name, self.relation.attributes[first[name]][1]) for name in names))

    def on_partitions(self, spread: OnPartitions) -> np.ndarray:
        """The answers from a relation on the partitions: each is asked, by this process if it sees the runs."""
        task, partitions = AskRuns(self, spread.relation), range(spread.pieces)
        if spread.cluster.local:
            parts = list(unless_lost(part for partition in partitions for part in task(partition, ())))
        else:
            parts = spread.cluster.jobs.job(task)
        columns = np.concatenate(parts, axis=1)
        if not len(columns):
            return columns[:, :1]
        return np.array(Block.of(list(columns), columns.shape[1]).columns(), np.int64)

    def of(self, table: Any) -> np.ndarray:
        """The answers as columns. An index that begins with constants is searched; without one all tuples are looked at."""
        columns, size = self._candidates(table)
        rows = np.ones(size, np.bool_)
        for place, value in self.constants.items():
            rows &= columns[place] == value
        first: dict[str, int] = {}
        for place, name in self.variables.items():
            rows &= columns[place] == columns[first.setdefault(name, place)]
        found = [np.ascontiguousarray(columns[place][rows]) for place in first.values()]
        if not found:
            return np.empty((0, min(1, int(np.count_nonzero(rows)))), np.int64)
        return np.array(Block.of(found, found[0].size, snug(bounds_of(found))).columns(), np.int64)

    def _candidates(self, table: Any) -> tuple[list[np.ndarray], int]:
        """(columns in the relation's own order, size) of tuples among which all answers are."""
        order = max(list(table.full), key=self._bound)
        keys = [np.array([self.constants[place]]) for place in order[: self._bound(order)]]
        parts = []
        for block in table.blocks("all", order):
            low, high = (int(ends[0]) for ends in block.ranges(keys, 1))
            positions = np.arange(low, high)
            parts.append([block.column(order.index(place), positions) for place in range(table.arity)])
        columns = [np.concatenate([np.empty(0, np.int64), *column]) for column in zip(*parts, strict=True)]
        if not columns:
            return [np.empty(0, np.int64)] * table.arity, table.count if not table.arity else 0
        return columns, columns[0].size

    def _bound(self, order: tuple[int, ...]) -> int:
        """How many columns at the beginning of an order are constants."""
        return next((number for number, place in enumerate(order) if place not in self.constants), len(order))


def name_of(text: str) -> str:
    """The relation that a query asks for, which may not be there."""
    return text.split("(")[0].strip()


def asking(text: str, relations: dict[str, Relation], types: dict, values: Values) -> Asking:
    """What a text asks. ProgramError for what is no atom, BadInput for a constant that is not of its attribute's type."""
    statements = parse(f"{text.strip().removesuffix('.')}.", "<query>").statements
    atoms = statements[0].heads if len(statements) == 1 and isinstance(statements[0], syntax.Clause) else ()
    if len(atoms) != 1 or statements[0].body is not None:
        raise BadInput(f"{text.strip()!r} is no query", hint=EXPECTS)
    [atom] = atoms
    if atom.relation not in relations:
        raise BadInput(f"there is no relation {atom.relation}", hint=f"there are {', '.join(sorted(relations))}")
    relation = relations[atom.relation]
    if len(atom.args) != relation.arity:
        raise BadInput(f"{relation.name} has {relation.arity} attributes, and the query has {len(atom.args)}", hint=EXPECTS)
    constants, variables = {}, {}
    for place, term in enumerate(atom.args):
        if isinstance(term, syntax.Variable):
            variables[place] = term.name
        elif not isinstance(term, syntax.Underscore):
            constants[place] = _bits(term, relation.attributes[place], relation, BUILT_IN | types, _Known(values))
    return Asking(relation, constants, variables)


def _bits(term, attribute: tuple, relation: Relation, types: dict, known: Any) -> int:
    name, type_ = attribute
    fault = partial(_fault, f"{relation.name}.{name}", EXPECTED[type_.kind])
    return int(bits_of_values([_value(term)], type_, types, known, fault)[0])


def _fault(place: str, expected: str, row: int, wrong: Mismatch) -> BadInput:
    return BadInput(str(wrong), place, hint=wrong.hint or f"expected {expected}")


def _value(term):
    """The Python value of a constant."""
    if isinstance(term, syntax.Number | syntax.String):
        return term.value
    if isinstance(term, syntax.Nil):
        return None
    if isinstance(term, syntax.Record):
        return tuple(map(_value, term.args))
    raise BadInput("a query computes nothing", "<query>", hint=EXPECTS)


@dataclass
class AskRuns:
    """A task that answers from what its partition has of a relation."""

    asking: Asking
    relation: PartitionedRelation

    def __call__(self, partition, records):
        yield self.asking.of(_Runs(self.relation, partition))


@dataclass
class _Runs:
    """The same face as a table: what a partition has, in one order."""

    relation: PartitionedRelation
    partition: int

    @property
    def arity(self) -> int:
        return self.relation.arity

    @property
    def full(self) -> tuple:
        return (self.relation.home.order,)

    def blocks(self, part: str, order) -> list[Block]:
        return list(blocks_of(self.relation, self.partition, order))


@dataclass
class _Known:
    """Symbols and records that are looked up and not numbered: what is new has an id that no tuple has."""

    values: Values

    def intern(self, strings) -> np.ndarray:
        return self.values.find(strings)

    def pack(self, columns: np.ndarray) -> np.ndarray:
        return self.values.find_records(columns)
