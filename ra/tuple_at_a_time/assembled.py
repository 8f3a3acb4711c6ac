"""The assembled program of a stratum: the machine's instructions for all its rule versions, and the layout of its relations and
lists of blocks. It is independent of the tuples.

It is cached: assembling takes 0.2 ms, as long as a session takes for most changes. `code` refers to a list of blocks by its
number, which is replaced by the list's position when the tables are known.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Order
from semi_naive.ra.rules.ages import TicksRef
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.assembler import Access, Assembler, Unknown
from semi_naive.ra.tuple_at_a_time.rows import sort_of

Versions = list[tuple[Derivation, str]]  # rule versions, each with the relation whose delta it reads
MAX_CACHED_PROGRAMS = 64  # assembled programs cached for one stratum, one for each set of versions


class Searched(NamedTuple):
    """A list of blocks that instructions search: a part of a relation in a column order, by its first `keys` columns. part:
    None for the tuples with which a head is compared."""

    relation: str
    order: Order
    keys: int
    part: str | None


class Dated(NamedTuple):
    """A list of the blocks of a relation, with the ticks of their tuples."""

    now: TicksRef
    relation: str


MEMBERS: dict[int, list[Order]] = {at.EQUIVALENCE: [(0,)], at.CLASSES: [(1,)]}  # indexes that enumerate a class


@dataclass
class RelationLayout:
    """The references of instructions to a relation of the stratum.

    number: its number among the relations; home: its home order; sort: its reduction (`layout.PLAIN` and those after it).
    indexes: the number of each hash index among all indexes of the stratum, by its columns.
    skipped: the numbers of the indexes whose searches skip the delta.
    """

    number: int
    arity: int
    home: Order
    sort: int
    indexes: dict[Order, int] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)

    @property
    def key(self) -> Order:
        """The columns by which known tuples are found: all, or for a lattice all but the last."""
        return tuple(range(self.arity - (self.sort >= at.MIN)))


class Assembled:
    """The instructions and layouts of a stratum.

    versions: the rule versions; slow: the places among them of those that are to run a block at a time.
    shapes: the layout of each relation.
    runnable, others: the places of the versions that run in the machine, and of all others.
    binary: the places, among `runnable`, of those with binary joins instead of a multiway join.
    inserting: for each relation whose heads `others` derive, the position of the instruction that inserts them.
    lists: the number of each list of blocks. index_count: the number of hash indexes of all relations.
    unknown: why the last of `others` cannot run in the machine.
    code, registers, relations, indexes, entries: the arrays of the machine as they are before the tables are known.
    list_operands, symbols, cursors, set_widths: see `Assembler`.
    """

    def __init__(self, versions: Versions, slow: set[int], shapes: dict[str, RelationLayout], values: Any):
        self.versions, self.shapes, self.values, self.index_count = versions, shapes, values, 0
        self.lists: dict[Searched | Dated, int] = {}
        for shape in shapes.values():  # the indexes that insertions search come first: `layout.INDEX_LIST`
            for columns in (shape.key, *MEMBERS.get(shape.sort, ())):
                self._index(shape, columns)
        self.runnable: list[int] = []
        self.others: list[int] = []
        self.binary: list[int] = []
        self._assemble(slow)
        self._lay_out()

    def _assemble(self, slow: set[int]) -> None:
        """Assemble each version that the machine can run, and collect the places of the others."""
        assembler = Assembler(self._add_search, self._add_head, self._add_ages, self.values)
        entries: list[tuple[int, int, int]] = []
        self.unknown = Unknown("slow versions only")
        for place, (derivation, delta) in enumerate(self.versions):
            if place in slow:
                self.others.append(place)
                continue
            try:
                entry = assembler.version(derivation, self.shapes[derivation.relation].home)
            except Unknown as unknown:
                self.unknown = unknown
                self.others.append(place)
                continue
            self.binary += [len(entries)] * assembler.binary
            entries.append((entry, self.shapes[delta].number * at.RELATION_SIZE, int(assembler.splits)))
            self.runnable.append(place)
        heads = {self.versions[place][0].relation for place in self.others} if entries else ()
        self.inserting = {name: assembler.inserting(name, self.shapes[name].home) for name in heads}
        # with one register more, the array is never empty
        self.code, self.registers = np.array(assembler.code, np.int64), np.array([*assembler.registers, 0], np.int64)
        self.list_operands, self.symbols = np.array(assembler.list_operands, np.int64), assembler.symbols
        self.cursors, self.set_widths = assembler.cursors, assembler.set_widths
        self.entries = np.zeros((len(entries), at.VERSION_SIZE), np.int64)
        self.entries[:, [at.ENTRY, at.DELTA_RELATION, at.SPLITS]] = np.array(entries, np.int64).reshape(-1, 3)

    def _add_search(self, relation: str, order: Order, keys: int, part: str) -> Access:
        """Return the access of a search in a part of a relation by the first `keys` columns of an order. Its list of blocks is
        added, and for a relation of the stratum the hash index by these columns."""
        blocks = self._list(Searched(relation, order, keys, part))
        if relation not in self.shapes:
            return Access(blocks)
        shape, index = self.shapes[relation], -1  # -1: a search without keys reads the rows in order
        if keys:
            number = self._index(shape, order[:keys])
            if part == "full":
                shape.skipped.add(number)
            index = number * at.INDEX_SIZE
        return Access(blocks, shape.number * at.RELATION_SIZE, index)

    def _add_head(self, relation: str, order: Order) -> Access:
        """Return the access of the known tuples with which heads of a relation of the stratum are compared, by its key. Their
        list of blocks is added; the index by the key has been there since `__init__`."""
        shape = self.shapes[relation]
        blocks = self._list(Searched(relation, order, len(shape.key), part=None))
        return Access(blocks, shape.number * at.RELATION_SIZE)

    def _add_ages(self, ticks: TicksRef, relation: str) -> int:
        """Return the number of the list of a relation's blocks with the ticks of their tuples, which is added if it is new."""
        return self._list(Dated(ticks, relation))

    def _list(self, searched: Searched | Dated) -> int:
        """Return the number of a list, which is added if it is new."""
        return self.lists.setdefault(searched, len(self.lists))

    def _index(self, shape: RelationLayout, columns: Order) -> int:
        """Return the number of a relation's hash index by some columns, which is added if it is new."""
        if columns not in shape.indexes:
            shape.indexes[columns] = self.index_count
            self.index_count += 1
        return shape.indexes[columns]

    def _lay_out(self) -> None:
        """Lay out the relations and their indexes, without the parts that depend on the tables."""
        begin = self.index_count * at.INDEX_SIZE
        lists: list[int] = []  # they follow the indexes, in one array
        indexes = np.zeros((self.index_count, at.INDEX_SIZE), np.int64)
        self.relations = np.zeros((len(self.shapes), at.RELATION_SIZE), np.int64)
        for shape in self.shapes.values():
            entry = self.relations[shape.number]
            entry[at.ARITY], entry[at.SORT] = shape.arity, shape.sort
            entry[at.INDEX_LIST], entry[at.INDEXES] = begin + len(lists), len(shape.indexes)
            lists += [number * at.INDEX_SIZE for number in shape.indexes.values()]
            for columns, number in shape.indexes.items():
                indexes[number, at.INDEX_KEYS], indexes[number, at.INDEX_COLUMNS] = len(columns), begin + len(lists)
                lists += columns
        self.indexes = np.concatenate([indexes.reshape(-1), np.array(lists, np.int64)])

    def code_with_lists(self, begins: list[int]) -> np.ndarray:
        """Return the code with each list's number replaced by its position. begins: the position of each list."""
        code = self.code.copy()
        code[self.list_operands] = np.array(begins, np.int64)[code[self.list_operands]]
        return code

    def initial_registers(self) -> np.ndarray:
        """Return the initial values of the registers. Strings are numbered each time, as a failed transaction removes its
        numbers."""
        registers = self.registers.copy()
        for register, term in self.symbols:
            registers[register] = evaluate(term, {}, 1, self.values)[0]
        return registers


def assembled(cache: dict, versions: Versions, slow: set[int], tables: dict[str, Any], values: Any) -> Assembled:
    """Return the assembled program of rule versions, from the cache `cache` if the versions and the tables' reductions are
    unchanged. slow: the places of versions that are not to run in the machine; values: the content of ids. Raises Unknown if
    the machine can run none of the versions."""
    sorts = tuple((name, sort_of(table), table.arity, table.home) for name, table in tables.items())
    # An id is enough: the cached program keeps its derivations alive (`Assembled.versions`), so no id is used again.
    key = tuple((id(derivation), delta) for derivation, delta in versions), frozenset(slow), sorts
    if key not in cache:
        if len(cache) >= MAX_CACHED_PROGRAMS:
            cache.clear()
        shapes = {name: RelationLayout(number, arity, home, sort) for number, (name, sort, arity, home) in enumerate(sorts)}
        cache[key] = Assembled(versions, slow, shapes, values)
    if not cache[key].runnable:
        raise cache[key].unknown
    return cache[key]
