"""A stratum in the machine: its relations, its rules, and how far it has come."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time import machine
from semi_naive.ra.tuple_at_a_time.assembled import Dated, Searched, Versions, assembled
from semi_naive.ra.tuple_at_a_time.described import BlockLists, Listed
from semi_naive.ra.tuple_at_a_time.indexing import forget_new, index_rows
from semi_naive.ra.tuple_at_a_time.inserting import insert_proposed, insert_rows
from semi_naive.ra.tuple_at_a_time.rows import INITIAL_ROWS, NewRows
from semi_naive.ra.tuple_at_a_time.sharing import MIN_SHARED_DELTA_TUPLES, NEVER, Cursors, InThreads, Shares, address_of

SLICE_INSTRUCTIONS = 1_000_000  # between two checks of limits and interrupts: some 20 ms


@dataclass
class Bounds:
    """The conditions under which the machine stops at the end of an iteration, and the bound of one. `iterations`: None if it
    never stops."""

    small: int  # tuples of a delta
    most: int  # tuples of all relations
    made: int  # heads of one iteration, with repetitions
    work: int  # instructions of one iteration
    iterations: int | None = None
    slice: int = SLICE_INSTRUCTIONS  # instructions between two looks at the world outside


class Interpreter:
    """An evaluator of the delta versions of a stratum's rules, which starts from tables with a delta.

    `versions`: (derivation, relation of the delta); `slow`: the places of versions that are not to run here. `tables`: the
    stratum's tables, unchanged until `store`; `beside`: other tables whose delta some versions begin with in the first
    iteration. `context`: the `ra.rules.steps.Context` of block-wise evaluation. `in_threads`: calls a function for each share
    of an iteration, in `cores` threads. Raises Unknown if it can run no version.
    """

    def __init__(
        self, versions: Versions, tables: dict, limits: dict[str, int], context: Any, slow=(),
        beside: dict | None = None, cores: int = 1, in_threads: InThreads = map, kept: dict | None = None,
    ):  # fmt: skip
        self.context, self.cores, self.in_threads, self.stored = context, cores, in_threads, set(tables)
        every = tables | (beside or {})
        self.program = assembled({} if kept is None else kept, versions, set(slow), every, context.values)
        self.known, self.others, self.binary = self.program.known, self.program.others, self.program.binary
        shapes = self.program.shapes
        self.relations = {name: NewRows(table, shapes[name], limits.get(name)) for name, table in every.items()}
        clocks = {id(table.clock): table.clock for table in tables.values() if hasattr(table, "clock")}
        self.time = next(iter(clocks.values()), None)
        self.clock = np.array([self.time.now if self.time else 0])
        self._lay_out()

    # -- what the machine works on

    def _lay_out(self) -> None:
        """Lay out code, registers, relations and state as arrays that the machine reads."""
        program = self.program
        lists = BlockLists(list(map(self._listed, program.lists)))
        self.block_words, self.kept = lists.words, lists.kept
        self.code, self.registers = program.placed(lists.begins), program.begun()
        self.cursors, self.versions = Cursors(program.cursors, program.sets), program.entries.copy()
        self.relation_table, self.index_words = program.relations.copy(), program.indexes.copy()
        self.index_table = self.index_words[: program.count * at.INDEX_SIZE].reshape(program.count, at.INDEX_SIZE)
        for rows in self.relations.values():
            entry = self.relation_table[rows.number]
            entry[at.BASED], entry[at.LIMIT] = rows.based, -1 if rows.limit is None else rows.limit
            entry[at.DELTA_BEGIN], entry[at.DELTA_END], entry[at.COUNT] = rows.begin, rows.count, rows.count
        self.entries = np.zeros((at.ENTRIES, at.ENTRY_SIZE), np.int64)
        self.state = state = np.zeros(at.STATE_SIZE, np.int64)
        state[at.COUNTER], state[at.VERSION] = -1, -at.VERSION_SIZE
        state[at.RELATIONS_END], state[at.VERSIONS_END] = self.relation_table.size, self.versions.size
        state[at.HAS_OTHERS], state[at.SHARED] = len(self.others), MIN_SHARED_DELTA_TUPLES if self.cores > 1 else NEVER
        state[at.COURSE], state[at.COURSE_STEPS] = address_of(self.entries), 1
        self.shares: Shares | None = None  # once an iteration is shared
        for rows in self.relations.values():
            self._give_room(rows, room_for(rows.count))

    def _listed(self, wanted: Searched | Dated) -> Listed:
        """Return the entries of a list for the tables as they are now."""
        if isinstance(wanted, Dated):
            return [(layer.block, layer.block.arity, layer.ticks) for layer in wanted.now.layers(wanted.relation)], ()
        relation, order, keys, part = wanted
        rows = self.relations.get(relation)
        blocks = self.context.blocks(relation, part, order) if rows is None else rows.base(order, part)
        key = rows.key if rows is not None and rows.sort >= at.MIN else ()
        return [(block, keys, None) for block in blocks if block.size], tuple(map(order.index, key))

    def _give_room(self, rows: NewRows, room: int) -> None:
        """Give a relation room for a number of rows, and put its rows into every index again."""
        rows.grow(room)
        entry = self.relation_table[rows.number]
        entry[at.ROWS], entry[at.ROOM], entry[at.DEAD] = address_of(rows.rows), room, address_of(rows.dead)
        if rows.times is not None:
            entry[at.TIMES], entry[at.CLOCK] = address_of(rows.times), address_of(self.clock)
        for index in rows.indexes:
            described = self.index_table[index.number]
            described[at.SLOTS], described[at.MASK] = address_of(index.slots), index.slots.size - 1
            described[at.NEXT] = address_of(index.chain)
            described[at.EARLIER] = address_of(index.earlier) if index.skipped else 0
        if entry[at.COUNT]:
            index_rows(address_of(self.relation_table), rows.number * at.RELATION_SIZE, address_of(self.index_words))

    # -- running

    def run(self, bounds: Bounds, pause: Callable[[], bool], do_others: Callable[[], bool]) -> int:
        """Run to the end of an iteration with a reason to stop: `layout.FIXPOINT` and the reasons after it. `pause`: called
        about every 20 ms, or after a slice; if it returns False, the iteration is rolled back. `do_others`: called once in each
        iteration, to `insert` the heads of the versions in `others`; it returns False if that was not possible."""
        iterations = -1 if bounds.iterations is None else bounds.iterations
        self.state[[at.SMALL, at.MOST, at.BUDGET, at.ITERATIONS]] = bounds.small, bounds.most, bounds.made, iterations
        self.state[[at.MOST_WORK, at.SLICE]] = bounds.work, bounds.slice
        while True:
            why = self._share(bounds.slice, pause) if self._is_for_threads() else self._go_on()
            if why == at.SHARING:
                continue
            if why == at.GROW and self.state[at.GROWING] < 0:
                self.cursors.grow(-1 - int(self.state[at.GROWING]))
            elif why == at.GROW:
                self._grow()
            elif why == at.COMPACT:
                self._compact()
            elif why == at.PAUSED and pause():
                self.state[at.SLICE] = bounds.slice
            elif why == at.OTHERS and self._advised(do_others):
                continue
            else:
                why = at.FAULT if why in (at.OTHERS, at.PAUSED) else why
                if why in (at.FAULT, at.TOO_MANY):
                    self._forget()
                return why

    def _go_on(self) -> int:
        return machine.run_machine(
            *map(address_of, (self.code, self.registers, self.cursors.words, self.relation_table, self.index_words)),
            *map(address_of, (self.block_words, self.versions, self.state)),
        )

    def _is_for_threads(self) -> bool:
        """True if an iteration begins that several threads are to share."""
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
        """Run the versions that the machine cannot, with the tables as they are in this iteration."""
        self.store()
        return do_others() and self.state[at.ITERATION_MADE] <= self.state[at.BUDGET]

    def insert(self, relation: str, columns: list[np.ndarray], size: int) -> int:
        """Heads of a relation, as columns in their own order, with repetitions; how many tuples were born."""
        rows, done, born = np.ascontiguousarray(np.array(columns, np.int64).reshape(len(columns), size).T), 0, 0
        self.state[at.ITERATION_MADE] += size
        while True:
            place = address_of(rows) + done * rows.strides[0]
            some, new = insert_rows(
                address_of(self.code), self.program.inserting[relation],
                *map(address_of, (self.registers, self.relation_table, self.index_words, self.block_words, self.state)),
                place, size - done,
            )  # fmt: skip
            done, born = done + some, born + new
            if done == size:
                return born
            self._grow()

    def has_delta(self, relation: str) -> bool:
        begin, end = self._delta(self.relations[relation])
        return begin < end

    def _grow(self) -> None:
        """Make room for the row that did not fit, and more."""
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

    def _delta(self, rows: NewRows) -> tuple[int, int]:
        entry = self.relation_table[rows.number]
        return entry[at.DELTA_BEGIN], entry[at.DELTA_END]

    def store(self) -> None:
        """Return all rows to the tables: the tuples born last are their delta."""
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
        """The sizes of the iterations, in their order: see `layout.ENTRY_SIZE`."""
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

    def counts(self) -> dict[str, int]:
        """Tuples of each relation of the stratum."""
        table = self.relation_table
        sizes = table[:, at.COUNT] - table[:, at.DEAD_COUNT] + table[:, at.BASED]
        return {name: int(sizes[self.relations[name].number]) for name in self.stored}

    @property
    def begun(self) -> int:
        """About how many of them this iteration began with."""
        return int((self.relation_table[:, at.DELTA_END] + self.relation_table[:, at.BASED]).sum())

    @property
    def nbytes(self) -> int:
        shares = self.shares.nbytes if self.shares else 0
        return self.cursors.nbytes + shares + sum(rows.nbytes for rows in self.relations.values())


def room_for(count: int) -> int:
    """Room for so many rows and as many more: a power of two.

    >>> room_for(1000)
    2048
    """
    return max(INITIAL_ROWS, 1 << (2 * count - 1).bit_length())
