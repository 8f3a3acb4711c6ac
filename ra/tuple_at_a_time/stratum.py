"""A stratum in the machine: its relations, its rules, and how far it has come."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from semi_naive.ra.rules.ages import Ticks
from semi_naive.ra.rules.block import Block
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.ir import Order
from semi_naive.ra.rules.thinned import Thinned
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time import machine
from semi_naive.ra.tuple_at_a_time.assembler import Assembler, Unknown
from semi_naive.ra.tuple_at_a_time.indexing import forget_new, index_rows
from semi_naive.ra.tuple_at_a_time.inserting import insert_proposed, insert_rows
from semi_naive.ra.tuple_at_a_time.rows import LEAST_ROOM, Rows
from semi_naive.ra.tuple_at_a_time.sharing import LEAST, NEVER, Cursors, InThreads, Shares, address_of

SLICE = 1_000_000  # instructions between two looks at the world outside: some 20 ms
WORD = 1 << 64
NOTHING = np.zeros(0, np.int64)


@dataclass
class Bounds:
    """When the machine stops at the end of an iteration, and how much one may make. `iterations`: None if it never stops."""

    small: int  # tuples of a delta
    most: int  # tuples of all relations
    made: int  # heads of one iteration, with repetitions
    work: int  # instructions of one iteration
    iterations: int | None = None
    slice: int | None = None  # instructions between two looks at the world outside, if these are fewer than `SLICE`


class Interpreter:
    """Evaluates the delta versions of a stratum's rules, from tables whose delta is there.

    `versions`: (derivation, relation of the delta); `slow`: the places of those that are not to be run here. `tables`: the
    stratum's, which stay as they are until `store`; `beside`: others whose delta some versions begin with, in the first
    iteration. `context`: the `ra.rules.steps.Context` in which a block at a time would be
    evaluated. `in_threads`: calls a function with each of some shares of an iteration, in `cores` threads. Unknown if it knows
    no version.
    """

    def __init__(
        self, versions: list[tuple[Derivation, str]], tables: dict, limits: dict[str, int], context: Any, slow=(),
        beside: dict | None = None, cores: int = 1, in_threads: InThreads = map,
    ):  # fmt: skip
        self.context, self.slow, self.cores, self.in_threads, self.stored = context, slow, cores, in_threads, set(tables)
        every = enumerate((tables | (beside or {})).items())
        self.relations = {name: Rows(table, number, limits.get(name)) for number, (name, table) in every}
        self.numbers = itertools.count()
        for rows in self.relations.values():
            for columns in (rows.key, (0,)) if rows.sort == at.EQUIVALENCE else (rows.key,):
                rows.index_by(columns, self.numbers)
        self.kept: list[np.ndarray] = []  # arrays that only the machine knows, by their addresses
        self.blocks: list[int] = []
        self.lists: dict[tuple, int] = {}
        clocks = {id(table.clock): table.clock for table in tables.values() if hasattr(table, "clock")}
        self.time = next(iter(clocks.values()), None)
        self.clock = np.array([self.time.now if self.time else 0])
        self._assemble(versions)
        self._lay_out()

    # -- what the machine works on

    def _assemble(self, versions) -> None:
        assembler = Assembler(self._access, self._ages, self.context.values)
        entries, self.known, self.others = [], [], []  # the places of versions that the machine runs, and of those it does not
        self.binary: list[int] = []  # among those that it runs, what has binary joins instead of a cyclic core
        unknown = Unknown("what is slow")
        for place, (derivation, delta) in enumerate(versions):
            try:
                if place in self.slow:
                    raise unknown
                entry = assembler.version(derivation, self.relations[derivation.relation].table.home)
                self.binary += [len(entries)] * assembler.binary
                entries.append((entry, self.relations[delta].number * at.RELATION_SIZE, int(assembler.splits)))
                self.known.append(place)
            except Unknown as step:
                unknown = step
                self.others.append(place)
        if not entries:
            raise unknown
        heads = {versions[place][0].relation for place in self.others}
        self.inserting = {name: assembler.inserting(name, self.relations[name].table.home) for name in heads}
        self.code, self.registers = np.array(assembler.code, np.int64), np.array(assembler.registers + [0], np.int64)
        self.cursors = Cursors(assembler.cursors, assembler.sets)
        self.versions = np.zeros((len(entries), at.VERSION_SIZE), np.int64)
        self.versions[:, [at.ENTRY, at.DELTA_RELATION, at.SPLITS]] = entries

    def _access(self, relation: str, order: Order, keys: int, part: str | None = None) -> tuple[int, int, int]:
        """(list of blocks, relation, index) for a search by the first columns of an order; -1 where there is none."""
        rows = self.relations.get(relation)
        if rows is None:
            part = part or "all"
            return self._list(relation, order, keys, part, self.context.blocks(relation, part, order)), -1, -1
        if part is None:
            keys = len(rows.key)  # a head
        listed = self._list(relation, order, keys, part, rows.base(order, part), rows.key if rows.sort >= at.MIN else ())
        index = -1
        if keys and part is not None:
            index = rows.index_by(order[:keys], self.numbers).number * at.INDEX_SIZE
        return listed, rows.number * at.RELATION_SIZE, index

    def _list(self, relation: str, order: Order, keys: int, part: str | None, blocks: list[Block], key: Order = ()) -> int:
        name = relation, order, keys, part
        if name not in self.lists:
            begins = [self._block(block, keys) for block in blocks if block.size]
            self.lists[name] = len(self.blocks)
            self.blocks += [len(begins), *begins, *map(order.index, key)]
        return self.lists[name]

    def _ages(self, ticks: Ticks, relation: str) -> int:
        """A list of the ages of a relation, the newest first."""
        layers = [layer for layer in reversed(ticks.layers.get(relation, ())) if layer.block.size]
        begins = [self._block(layer.block, layer.block.arity) for layer in layers]
        begin, self.kept = len(self.blocks), [*self.kept, *(layer.ticks for layer in layers)]
        self.blocks.append(len(layers))
        for block, layer in zip(begins, layers, strict=True):
            self.blocks += [block, address_of(layer.ticks)]
        return begin

    def _block(self, block: Block, keys: int) -> int:
        gone = NOTHING
        if isinstance(block, Thinned) and not block.spelt:
            block, gone = block.whole, np.ascontiguousarray(block.gone)
        begin, found = len(self.blocks), described(block, keys)
        self.blocks += found.words
        if gone.size:
            self.blocks[begin + at.GONE], self.blocks[begin + at.GONE_COUNT] = address_of(gone), gone.size
        self.kept += [*found.arrays, gone]
        return begin

    def _lay_out(self) -> None:
        number = next(self.numbers)
        lists: list[int] = []
        self.index_table = np.zeros((number, at.INDEX_SIZE), np.int64)
        self.relation_table = np.zeros((len(self.relations), at.RELATION_SIZE), np.int64)
        for rows in self.relations.values():
            entry = self.relation_table[rows.number]
            entry[at.INDEX_LIST], entry[at.INDEXES] = number * at.INDEX_SIZE + len(lists), len(rows.indexes)
            lists += [index.number * at.INDEX_SIZE for index in rows.indexes]
            for index in rows.indexes:
                described = self.index_table[index.number]
                described[at.INDEX_KEYS] = len(index.columns)
                described[at.INDEX_COLUMNS] = number * at.INDEX_SIZE + len(lists)
                lists += index.columns
            entry[at.ARITY], entry[at.SORT], entry[at.BASED] = rows.table.arity, rows.sort, rows.based
            entry[at.LIMIT] = -1 if rows.limit is None else rows.limit
            entry[at.COUNT] = entry[at.DELTA_END] = rows.count
            entry[at.DELTA_BEGIN] = rows.begin
        self.index_words = np.concatenate([self.index_table.reshape(-1), np.array(lists, np.int64)])
        self.index_table = self.index_words[: number * at.INDEX_SIZE].reshape(number, at.INDEX_SIZE)
        self.block_words = np.array(self.blocks or [0], np.int64)
        self.state = np.zeros(at.STATE_SIZE, np.int64)
        self.state[[at.COUNTER, at.VERSION]] = -1, -at.VERSION_SIZE
        self.state[[at.RELATIONS_END, at.VERSIONS_END]] = self.relation_table.size, self.versions.size
        self.state[at.HAS_OTHERS], self.state[at.SHARED] = len(self.others), LEAST if self.cores > 1 else NEVER
        self.entries = np.zeros((at.ENTRIES, at.ENTRY_SIZE), np.int64)
        self.state[[at.COURSE, at.COURSE_STEPS]] = address_of(self.entries), 1
        self.shares: Shares | None = None  # once an iteration is shared
        for rows in self.relations.values():
            self._give_room(rows, room_for(rows.count))

    def _give_room(self, rows: Rows, room: int) -> None:
        """Room for so many rows, and every row in every index."""
        rows.grow(room)
        entry = self.relation_table[rows.number]
        entry[at.ROWS], entry[at.ROOM], entry[at.DEAD] = address_of(rows.rows), room, address_of(rows.dead)
        if rows.times is not None:
            entry[at.TIMES], entry[at.CLOCK] = address_of(rows.times), address_of(self.clock)
        for index in rows.indexes:
            described = self.index_table[index.number]
            described[at.SLOTS], described[at.MASK] = address_of(index.slots), index.slots.size - 1
            described[at.NEXT] = address_of(index.chain)
        index_rows(address_of(self.relation_table), rows.number * at.RELATION_SIZE, address_of(self.index_words))

    # -- running

    def run(self, bounds: Bounds, pause: Callable[[], bool], do_others: Callable[[], bool]) -> int:
        """To the end of an iteration after which there is a reason to stop: `layout.FIXPOINT` and those after it. `pause`:
        called every some 20 ms, or after a slice, it says whether to go on; if not, the iteration is forgotten. `do_others`:
        once in each iteration, to `insert` what the versions of `others` make, if there are any. It says whether that could be
        done."""
        iterations = -1 if bounds.iterations is None else bounds.iterations
        self.state[[at.SMALL, at.MOST, at.BUDGET, at.ITERATIONS]] = bounds.small, bounds.most, bounds.made, iterations
        size = min(SLICE, bounds.slice or SLICE)
        self.state[[at.MOST_WORK, at.SLICE]] = bounds.work, size
        while True:
            why = self._share(size, pause) if self._is_for_threads() else self._go_on()
            if why == at.SHARING:
                continue
            if why == at.GROW and self.state[at.GROWING] < 0:
                self.cursors.grow(-1 - int(self.state[at.GROWING]))
            elif why == at.GROW:
                self._grow()
            elif why == at.COMPACT:
                self._compact()
            elif why == at.PAUSED and pause():
                self.state[at.SLICE] = size
            elif why == at.OTHERS and self._advised(do_others):
                continue
            else:
                why = at.FAULT if why in (at.OTHERS, at.PAUSED) else why
                if why in (at.FAULT, at.TOO_MANY):
                    self._forget()
                return why

    def _go_on(self) -> int:
        return machine.run(
            *map(address_of, (self.code, self.registers, self.cursors.words, self.relation_table, self.index_words)),
            *map(address_of, (self.block_words, self.versions, self.state)),
        )

    def _is_for_threads(self) -> bool:
        """Whether an iteration begins that several threads are to share."""
        return self.state[at.COUNTER] < 0 and self.state[at.VERSION] < 0 and self.delta >= self.state[at.SHARED]

    def _share(self, size: int, pause: Callable[[], bool]) -> int:
        """All versions of an iteration, by threads; PAUSED, and none, if it is time to."""
        if self.state[at.SLICE] < 0:
            return at.PAUSED
        self.shares = self.shares or Shares(self, self.cores, self.in_threads)
        why = self.shares.make(size, pause)
        if why == at.SHARING:
            listed = self.shares.listed()
            while not insert_proposed(
                *map(address_of, (self.code, self.registers, self.relation_table, self.index_words)),
                *map(address_of, (self.block_words, self.versions, self.state, listed)), listed.size, self.shares.width,
            ):  # fmt: skip
                self._grow()
            self.state[at.VERSION] = self.state[at.VERSIONS_END]
        return why

    def _advised(self, do_others: Callable[[], bool]) -> bool:
        """Do what the machine does not know, with the tables as they are in this iteration."""
        self.store()
        return do_others() and self.state[at.ITERATION_MADE] <= self.state[at.BUDGET]

    def insert(self, relation: str, columns: list[np.ndarray], size: int) -> int:
        """Heads of a relation, as columns in their own order, with repetitions; how many tuples were born."""
        rows, done, born = np.ascontiguousarray(np.array(columns, np.int64).reshape(len(columns), size).T), 0, 0
        self.state[at.ITERATION_MADE] += size
        while True:
            place = address_of(rows) + done * rows.strides[0]
            some, new = insert_rows(
                address_of(self.code), self.inserting[relation], address_of(self.registers), address_of(self.relation_table),
                address_of(self.index_words), address_of(self.block_words), address_of(self.state), place, size - done,
            )  # fmt: skip
            done, born = done + some, born + new
            if done == size:
                return born
            self._grow()

    def has_delta(self, relation: str) -> bool:
        begin, end = self._delta(self.relations[relation])
        return begin < end

    def _grow(self) -> None:
        """Room for what could not be inserted, and more."""
        number = self.state[at.GROWING] // at.RELATION_SIZE
        rows = next(rows for rows in self.relations.values() if rows.number == number)
        self._give_room(rows, room_for(max(rows.room, int(self.state[at.NEEDED]))))

    def leave(self) -> None:
        """Stop at the end of this iteration."""
        self.state[at.SMALL] = -1

    def _compact(self) -> None:
        """Between two iterations: without the rows that have been superseded."""
        for rows in self.relations.values():
            entry = self.relation_table[rows.number]
            if rows.sort >= at.MIN and entry[at.DEAD_COUNT]:
                entry[at.DELTA_BEGIN], entry[at.COUNT] = rows.compact(*self._delta(rows)), rows.rows.shape[0]
                entry[at.DELTA_END], entry[at.DEAD_COUNT] = entry[at.COUNT], 0
                self._give_room(rows, room_for(rows.rows.shape[0]))

    def _forget(self) -> None:
        """Go back to the beginning of the iteration."""
        self.versions[:, [at.MADE, at.BORN, at.RUNS]] = self.versions[:, [at.MADE_THEN, at.BORN_THEN, at.RUNS_THEN]]
        for rows in self.relations.values():
            entry = self.relation_table[rows.number]
            forget_new(address_of(self.relation_table), rows.number * at.RELATION_SIZE, address_of(self.index_words))
            rows.dead[entry[at.COUNT] :] = at.ALIVE
            entry[at.DEAD_COUNT] = np.count_nonzero(rows.dead)

    def _delta(self, rows: Rows) -> tuple[int, int]:
        entry = self.relation_table[rows.number]
        return entry[at.DELTA_BEGIN], entry[at.DELTA_END]

    def store(self) -> None:
        """Hand everything back to the tables: what was born last is their delta."""
        if self.time:
            self.time.now = int(self.clock[0])
        for name in self.stored:
            self.relations[name].hand_over(*self._delta(self.relations[name]))

    # -- what there is to tell

    @property
    def iterations(self) -> int:
        return int(self.state[at.ITERATION])

    @property
    def course(self) -> np.ndarray:
        """What the iterations have made, in their order: see `layout.ENTRY_SIZE`."""
        return self.entries[self.entries[:, at.STEPS_DONE] > 0]

    @property
    def delta(self) -> int:
        """Tuples of the delta."""
        return int((self.relation_table[:, at.DELTA_END] - self.relation_table[:, at.DELTA_BEGIN]).sum())

    @property
    def tuples(self) -> int:
        """Tuples of all relations."""
        table = self.relation_table
        return int((table[:, at.COUNT] - table[:, at.DEAD_COUNT] + table[:, at.BASED]).sum())

    @property
    def begun(self) -> int:
        """About how many of them this iteration began with."""
        return int((self.relation_table[:, at.DELTA_END] + self.relation_table[:, at.BASED]).sum())

    @property
    def nbytes(self) -> int:
        shares = self.shares.nbytes if self.shares else 0
        return self.cursors.nbytes + shares + sum(rows.nbytes for rows in self.relations.values())


@dataclass
class Described:
    """A block as `layout` has it, where nothing of it is gone. arrays: those whose addresses are among the words."""

    words: list[int]
    arrays: list[np.ndarray]


def described(block: Block, keys: int) -> Described:
    """A block that is searched by so many columns. Kept with it: most blocks are those of the last time."""
    if keys not in block.described:
        words, fields = np.ascontiguousarray(block.words), block.packing.fields
        rest, base, coarse, starts = 0, 0, 0, np.zeros(2, np.int64)
        present, least, within, cells = np.zeros(1, np.uint64), 0, 0, 0
        first = [place.shift for place in fields[:keys] if place.lane == 0]
        if first and first[-1] < 64:
            rest = first[-1]
            base, coarse, starts = block.directory(rest)
        if keys:
            present, least, within, cells = block.present
        found = [address_of(words), block.size, words.shape[0], rest, signed(int(base)), coarse, address_of(starts)]
        found += [starts.size - 1, address_of(present), least, within, cells, 0, 0]
        for place, (low, high) in zip(fields, block.packing.bounds, strict=True):
            found += [place.lane, min(place.shift, 63), signed((1 << place.bits) - 1), low, high]
        block.described[keys] = Described(found, [words, starts, present])
    return block.described[keys]


def room_for(count: int) -> int:
    """Room for so many rows and as many more: a power of two.

    >>> room_for(1000)
    2048
    """
    return max(LEAST_ROOM, 1 << (2 * count - 1).bit_length())


def signed(word: int) -> int:
    """The int64 of the same 64 bits.

    >>> signed((1 << 64) - 1)
    -1
    """
    return word - WORD if word >= WORD >> 1 else word
