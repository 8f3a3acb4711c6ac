"""The evaluation of a stratum in the machine: it lays out the relations and rules as arrays, runs the interpreter, and stores
the new tuples in the tables.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.assembled import Dated, Searched, Versions, assembled
from semi_naive.ra.tuple_at_a_time.described import BlockLists, ListEntries
from semi_naive.ra.tuple_at_a_time.machine import index_rows, insert_proposed, insert_rows, remove_new_rows
from semi_naive.ra.tuple_at_a_time.rows import INITIAL_ROWS, NewRows
from semi_naive.ra.tuple_at_a_time.sharing import (
    MIN_SHARED_DELTA_TUPLES,
    NEVER,
    Cursors,
    InThreads,
    Shares,
    address_of,
    run_to_stop,
)

SLICE_INSTRUCTIONS = 1_000_000  # between two checks of limits and interrupts: some 20 ms


@dataclass
class Bounds:
    """Limits above which the machine stops: `heads` in the middle of an iteration, which is rolled back, the others at the end
    of an iteration."""

    small: int  # tuples of a delta
    most: int  # tuples of all relations
    heads: int  # of one iteration, duplicates included
    work: int  # instructions of one iteration
    iterations: int | None = None  # None for no limit
    slice: int = SLICE_INSTRUCTIONS  # not a limit: instructions between two calls of `pause`


class Interpreter:
    """An evaluator of the delta versions of a stratum's rules, which starts from tables with a delta.

    versions: (derivation, relation of the delta) for each rule version.
    slow: the places of versions that are not to run in the machine.
    tables: the stratum's tables, unchanged until `store`.
    beside: other tables, whose delta some versions read in the first iteration.
    limits: for some relations, the number of tuples at which the evaluation stops.
    context: the `ra.rules.steps.Context` of block-wise evaluation.
    in_threads: calls a function for each part of an iteration, in `cores` threads.
    program_cache: assembled programs, which later evaluations of the same versions use again.
    runnable, others: the places of the versions that the machine runs, and of those that it cannot run.
    binary: the places, among `runnable`, of versions with binary joins instead of a multiway join.
    own: the names of `tables`; relations: the rows of each relation of `tables` and `beside`.
    clock, tick: the `Clock` of tables that record ticks, or None, and its time, which the machine reads and advances.

    Raises Unknown if the machine can run no version.
    """

    def __init__(
        self, versions: Versions, tables: dict, limits: dict[str, int], context: Any, slow=(),
        beside: dict | None = None, cores: int = 1, in_threads: InThreads = map, program_cache: dict | None = None,
    ):  # fmt: skip
        self.context, self.cores, self.in_threads, self.own = context, cores, in_threads, list(tables)
        every = tables | (beside or {})
        self.program = assembled({} if program_cache is None else program_cache, versions, set(slow), every, context.values)
        self.runnable, self.others, self.binary = self.program.runnable, self.program.others, self.program.binary
        shapes = self.program.shapes
        self.relations = {name: NewRows(table, shapes[name], limits.get(name)) for name, table in every.items()}
        self.clock = next((table.clock for table in tables.values() if hasattr(table, "clock")), None)
        self.tick = np.array([self.clock.now if self.clock else 0])
        self._lay_out()

    # -- the machine's arrays

    def _lay_out(self) -> None:
        """Lay out code, registers, relations and state as arrays that the machine reads."""
        program = self.program
        lists = BlockLists(list(map(self._blocks_of_list, program.lists)))
        self.block_words, self.kept_alive = lists.words, lists.kept_alive
        self.code, self.registers = program.code_with_lists(lists.begins), program.initial_registers()
        self.cursors, self.versions = Cursors(program.cursors, program.set_widths), program.entries.copy()
        self.relation_table, self.index_words = program.relations.copy(), program.indexes.copy()
        self.index_table = self.index_words[: program.index_count * at.INDEX_SIZE].reshape(-1, at.INDEX_SIZE)
        for rows in self.relations.values():
            entry = self.relation_table[rows.number]
            entry[at.BASED], entry[at.LIMIT] = rows.tuples_in_blocks, -1 if rows.limit is None else rows.limit  # -1: no limit
            entry[at.DELTA_BEGIN], entry[at.DELTA_END], entry[at.COUNT] = rows.begin, rows.count, rows.count
        self.entries = np.zeros((at.ENTRIES, at.ENTRY_SIZE), np.int64)
        self.state = state = np.zeros(at.STATE_SIZE, np.int64)
        state[at.COUNTER], state[at.VERSION] = -1, -at.VERSION_SIZE  # before the first version
        state[at.RELATIONS_END], state[at.VERSIONS_END] = self.relation_table.size, self.versions.size
        state[at.HAS_OTHERS], state[at.SHARED] = len(self.others), MIN_SHARED_DELTA_TUPLES if self.cores > 1 else NEVER
        state[at.COURSE], state[at.COURSE_STRIDE] = address_of(self.entries), 1
        self.shares: Shares | None = None  # once an iteration is shared
        for rows in self.relations.values():
            self._give_room(rows, room_for(rows.count))

    def _blocks_of_list(self, searched: Searched | Dated) -> ListEntries:
        """Return the blocks of the current tables that a list refers to, and the places of a lattice's key columns in them."""
        if isinstance(searched, Dated):
            return [(layer.block, layer.block.arity, layer.ticks) for layer in searched.now.layers(searched.relation)], ()
        relation, order, keys, part = searched
        rows = self.relations.get(relation)
        blocks = self.context.blocks(relation, part, order) if rows is None else rows.blocks_beside_rows(order, part)
        key = rows.key if rows is not None and rows.sort >= at.MIN else ()
        key_places = tuple(map(order.index, key))
        return [(block, keys, None) for block in blocks if block.size], key_places

    def _give_room(self, rows: NewRows, room: int) -> None:
        """Set a relation's capacity to `room` rows, and build its indexes again."""
        rows.grow(room)
        entry = self.relation_table[rows.number]
        entry[at.ROWS], entry[at.ROOM], entry[at.DEAD] = address_of(rows.rows), room, address_of(rows.dead)
        if rows.times is not None:
            entry[at.TIMES], entry[at.CLOCK] = address_of(rows.times), address_of(self.tick)
        for index in rows.indexes:
            index_entry = self.index_table[index.number]
            index_entry[at.SLOTS], index_entry[at.MASK] = address_of(index.slots), index.slots.size - 1
            index_entry[at.NEXT] = address_of(index.chain)
            index_entry[at.EARLIER] = address_of(index.earlier) if index.skipped else 0
        if entry[at.COUNT]:
            index_rows(address_of(self.relation_table), rows.number * at.RELATION_SIZE, address_of(self.index_words))

    # -- running

    def run(self, bounds: Bounds, pause: Callable[[], bool], do_others: Callable[[], bool]) -> int:
        """Run iterations until there is a reason to stop, and return it: `layout.FIXPOINT` or one of those after it. If it is
        FAULT or TOO_MANY, the last iteration is rolled back.

        pause: called after each slice of instructions, about every 20 ms; if it returns False, the reason is FAULT.
        do_others: called once in each iteration, to `insert` the heads of the versions in `others`; if it returns False, the
        reason is FAULT.
        """
        iterations = -1 if bounds.iterations is None else bounds.iterations  # -1: a number that is never reached
        self.state[[at.SMALL, at.MOST, at.BUDGET, at.ITERATIONS]] = bounds.small, bounds.most, bounds.heads, iterations
        self.state[[at.MOST_WORK, at.SLICE]] = bounds.work, bounds.slice
        while True:
            if self._begins_shared_iteration():
                reason = self._run_in_threads(bounds.slice, pause)
            else:
                reason = run_to_stop(self, self.registers, self.cursors, self.relation_table, self.versions, self.state)
            if reason == at.SHARING:
                continue
            if reason == at.GROW:
                self._grow()
            elif reason == at.COMPACT:
                self._compact()
            elif reason == at.PAUSED and pause():
                self.state[at.SLICE] = bounds.slice
            elif reason == at.OTHERS and self._evaluate_others(do_others):
                continue
            else:
                reason = at.FAULT if reason in (at.OTHERS, at.PAUSED) else reason
                if reason in (at.FAULT, at.TOO_MANY):
                    self._roll_back()
                return reason

    def _begins_shared_iteration(self) -> bool:
        """True if the machine is at the beginning of an iteration that several threads are to share."""
        return self.state[at.COUNTER] < 0 and self.state[at.VERSION] < 0 and self.delta >= self.state[at.SHARED]

    def _run_in_threads(self, instructions: int, pause: Callable[[], bool]) -> int:
        """Evaluate an iteration in threads, `instructions` at a time, and insert its heads. Return SHARING, or the reason for a
        failure. Return PAUSED before it begins if the slice is used up."""
        if self.state[at.SLICE] < 0:
            return at.PAUSED
        self.shares = self.shares or Shares(self, self.cores, self.in_threads)
        reason = self.shares.evaluate(instructions, pause)
        if reason == at.SHARING:
            heads = self.shares.proposed_heads()
            while not insert_proposed(
                *map(address_of, (self.code, self.registers, self.relation_table, self.index_words)),
                *map(address_of, (self.block_words, self.versions, self.state, heads)), heads.size, self.shares.width,
            ):  # fmt: skip
                self._grow()
            self.state[at.VERSION] = self.state[at.VERSIONS_END]  # the machine has no version left to run in this iteration
        return reason

    def _evaluate_others(self, do_others: Callable[[], bool]) -> bool:
        """Call `do_others`, with the tables of this iteration. Return False if the iteration has to be rolled back."""
        self.store()
        return do_others() and self.state[at.ITERATION_MADE] <= self.state[at.BUDGET]

    def insert(self, relation: str, columns: list[np.ndarray], size: int) -> int:
        """Insert heads of a relation, given as columns (size,), duplicates allowed; return the number of new tuples."""
        rows, inserted, born = np.ascontiguousarray(np.array(columns, np.int64).reshape(len(columns), size).T), 0, 0
        self.state[at.ITERATION_MADE] += size
        while True:
            remaining = address_of(rows) + inserted * rows.strides[0]
            count, new = insert_rows(
                address_of(self.code), self.program.inserting[relation],
                *map(address_of, (self.registers, self.relation_table, self.index_words, self.block_words, self.state)),
                remaining, size - inserted,
            )  # fmt: skip
            inserted, born = inserted + count, born + new
            if inserted == size:
                return born
            self._grow()

    def has_delta(self, relation: str) -> bool:
        """True if the delta of a relation has tuples in this iteration."""
        begin, end = self._delta(self.relations[relation])
        return begin < end

    def _grow(self) -> None:
        """Enlarge the relation whose capacity was exceeded."""
        number = self.state[at.GROWING] // at.RELATION_SIZE
        rows = next(rows for rows in self.relations.values() if rows.number == number)
        self._give_room(rows, room_for(max(rows.room, int(self.state[at.NEEDED]))))

    def stop_after_iteration(self) -> None:
        """Make `run` stop at the end of the running iteration."""
        self.state[at.SMALL] = -1  # every delta is larger

    def _compact(self) -> None:
        """Remove superseded rows, between two iterations."""
        for rows in self.relations.values():
            entry = self.relation_table[rows.number]
            if rows.sort >= at.MIN and entry[at.DEAD_COUNT]:
                entry[at.DELTA_BEGIN], entry[at.COUNT] = rows.compact(*self._delta(rows)), rows.rows.shape[0]
                entry[at.DELTA_END], entry[at.DEAD_COUNT] = entry[at.COUNT], 0
                self._give_room(rows, room_for(rows.rows.shape[0]))

    def _roll_back(self) -> None:
        """Roll back to the beginning of the iteration: reset the counts of rule versions, and remove the rows of new tuples."""
        self.versions[:, [at.MADE, at.BORN, at.RUNS]] = self.versions[:, [at.MADE_THEN, at.BORN_THEN, at.RUNS_THEN]]
        for rows in self.relations.values():
            entry = self.relation_table[rows.number]
            remove_new_rows(address_of(self.relation_table), rows.number * at.RELATION_SIZE, address_of(self.index_words))
            rows.dead[entry[at.COUNT] :] = at.ALIVE  # earlier rows are marked only at the end of an iteration
            entry[at.DEAD_COUNT] = np.count_nonzero(rows.dead)

    def _delta(self, rows: NewRows) -> tuple[int, int]:
        """Return the range [begin, end) of the delta's rows."""
        entry = self.relation_table[rows.number]
        return entry[at.DELTA_BEGIN], entry[at.DELTA_END]

    def store(self) -> None:
        """Store all rows in the stratum's tables; the tuples born in the last finished iteration are their delta."""
        if self.clock:
            self.clock.now = int(self.tick[0])
        for name in self.own:
            self.relations[name].store(*self._delta(self.relations[name]))

    # -- statistics

    @property
    def iterations(self) -> int:
        """The number of finished iterations."""
        return int(self.state[at.ITERATION])

    @property
    def course(self) -> np.ndarray:
        """The record of iterations: for each entry, the number of iterations, born tuples, all tuples, and instructions."""
        return self.entries[self.entries[:, at.ENTRY_ITERATIONS] > 0]

    @property
    def delta(self) -> int:
        """The number of tuples in all deltas."""
        return int((self.relation_table[:, at.DELTA_END] - self.relation_table[:, at.DELTA_BEGIN]).sum())

    def _sizes(self) -> np.ndarray:
        """Return the number of tuples of each relation, by the relation's number."""
        table = self.relation_table
        return table[:, at.COUNT] - table[:, at.DEAD_COUNT] + table[:, at.BASED]

    @property
    def tuples(self) -> int:
        """The number of tuples of all relations."""
        return int(self._sizes().sum())

    def counts(self) -> dict[str, int]:
        """Return the number of tuples of each relation of the stratum."""
        sizes = self._sizes()
        return {name: int(sizes[self.relations[name].number]) for name in self.own}

    @property
    def tuples_before(self) -> int:
        """About the number of tuples at the beginning of the running iteration."""
        return int((self.relation_table[:, at.DELTA_END] + self.relation_table[:, at.BASED]).sum())

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays of rows, indexes, sets of bindings and threads, without the tables."""
        shares = self.shares.nbytes if self.shares else 0
        return self.cursors.nbytes + shares + sum(rows.nbytes for rows in self.relations.values())


def room_for(count: int) -> int:
    """Return a capacity for `count` rows and as many more, a power of two.

    >>> room_for(1000)
    2048
    """
    return max(INITIAL_ROWS, 1 << (2 * count - 1).bit_length())
