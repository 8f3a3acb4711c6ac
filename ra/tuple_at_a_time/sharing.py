"""Parallel iterations of the machine: each thread evaluates the rules on a part of the delta's rows and buffers the heads that
it makes.

The arrays that threads read do not change meanwhile. When all threads have finished, one of them inserts the buffered heads,
rule version by rule version. So the result, and the statistics of each rule, are the same as with one thread. A delta of fewer
than `MIN_SHARED_DELTA_TUPLES` tuples is evaluated in less time than it takes to start threads, 0.1 ms.
"""

import ctypes
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.machine import run_machine
from semi_naive.ra.tuple_at_a_time.rows import INITIAL_ROWS

MIN_SHARED_DELTA_TUPLES = 1000  # fewer are evaluated in the 0.1 ms that threads take to start
ROWS_PER_TURN = 64  # consecutive rows of the delta that a thread takes at a time
NEVER = 1 << 62  # a threshold that no delta reaches

# numpy declares the buffers of arrays for Python 3.12 and later only
_first_byte: Callable[..., ctypes.c_char] = ctypes.c_char.from_buffer
InThreads = Callable[[Callable[[Any], int], Iterable[Any]], Iterator[int]]


def address_of(array: np.ndarray) -> int:
    """Return the address of an array. Takes 0.3 µs; 1.4 µs for an array that is empty or read-only."""
    try:
        return ctypes.addressof(_first_byte(array))
    except (TypeError, ValueError):
        return array.ctypes.data


class Cursors:
    """The state of a thread's joins and ranges, and its sets of bindings for early projection.

    words: the array that the machine reads and writes (`layout`, cursors and sets).
    widths: the number of variables of each set of bindings, by the position of the set in `words`.
    bindings: the bindings and the slots of each set, whose addresses `words` has, by the same position.
    """

    def __init__(self, size: int, widths: dict[int, int]):
        self.words, self.widths = np.zeros(size + 1, np.int64), widths  # one more, so that the array is never empty
        self.bindings: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for begin in widths:
            self.grow(begin)

    def grow(self, begin: int) -> None:
        """Enlarge the set of bindings at a position of `words`, which is then empty."""
        entry = self.words[begin : begin + at.SET_SIZE]
        capacity = max(INITIAL_ROWS, 4 * entry[at.BINDING_ROOM])
        bindings, slots = np.empty((capacity, self.widths[begin]), np.int64), np.zeros(2 * capacity, np.uint64)
        entry[at.BINDINGS], entry[at.BINDING_SLOTS] = address_of(bindings), address_of(slots)
        entry[at.BINDING_MASK], entry[at.BINDING_COUNT], entry[at.BINDING_ROOM] = 2 * capacity - 1, 0, capacity
        self.bindings[begin] = bindings, slots

    @property
    def nbytes(self) -> int:
        return sum(bindings.nbytes + slots.nbytes for bindings, slots in self.bindings.values())


def run_to_stop(interpreter: Any, registers, cursors: Cursors, relations, versions, state) -> int:
    """Run the machine until it stops for a reason other than a full set of bindings, and return the reason. interpreter: the
    `stratum.Interpreter` whose other arrays it reads."""
    while True:
        reason = run_machine(
            *map(address_of, (interpreter.code, registers, cursors.words, relations, interpreter.index_words)),
            *map(address_of, (interpreter.block_words, versions, state)),
        )
        if reason != at.GROW or state[at.GROWING] >= 0:
            return reason
        cursors.grow(-1 - int(state[at.GROWING]))  # a set of bindings: see `layout`


@dataclass
class ThreadState:
    """The machine's state for one thread, which evaluates part `number` of `count` of an iteration. interpreter: the
    `stratum.Interpreter` whose arrays the threads read. heads: the buffer of the heads that this thread proposes."""

    interpreter: Any
    number: int
    count: int

    def __post_init__(self):
        """Copy the parts of the machine's state that a thread changes."""
        shared = self.interpreter
        self.registers, self.cursors = shared.registers.copy(), Cursors(shared.cursors.words.size, shared.cursors.widths)
        self.versions, self.state = shared.versions.copy(), shared.state.copy()
        self.heads = np.empty((INITIAL_ROWS, at.VALUES + int(shared.relation_table[:, at.ARITY].max())), np.int64)

    def begin(self) -> None:
        """Prepare for an iteration."""
        self.relations = self.interpreter.relation_table.copy()
        self.relations[:, [at.SHARE, at.SHARES, at.TAKEN]] = self.number, self.count, ROWS_PER_TURN
        self.versions[:, [at.MADE, at.WORK]] = 0
        self.state[:] = self.interpreter.state
        self._set_buffer(count=0)

    def _set_buffer(self, count: int) -> None:
        """Tell the machine the address and the capacity of the buffer, which has `count` heads."""
        self.state[[at.PROPOSED, at.PROPOSED_COUNT]] = address_of(self.heads), count
        self.state[[at.PROPOSED_ROOM, at.PROPOSED_SIZE]] = self.heads.shape

    def run(self, instructions: int) -> int:
        """Run a number of instructions. Return PAUSED if more remain, SHARING if this part is finished, else the failure."""
        self.state[at.SLICE] = instructions
        while True:
            reason = run_to_stop(self.interpreter, self.registers, self.cursors, self.relations, self.versions, self.state)
            if reason != at.GROW:
                return reason
            count = len(self.heads)  # the buffer is full
            self.heads = np.concatenate([self.heads, np.empty_like(self.heads)])
            self._set_buffer(count)

    @property
    def head_count(self) -> int:
        """The number of heads made in this iteration, duplicates included."""
        return int(self.state[at.ITERATION_MADE])

    @property
    def nbytes(self) -> int:
        return self.heads.nbytes + self.cursors.nbytes


class Shares:
    """The states of the `count` threads that evaluate an iteration of an interpreter together."""

    def __init__(self, interpreter: Any, count: int, in_threads: InThreads):
        self.interpreter, self.in_threads = interpreter, in_threads
        self.shares = [ThreadState(interpreter, number, count) for number in range(count)]

    def evaluate(self, instructions: int, pause: Callable[[], bool]) -> int:
        """Make the heads of an iteration, without inserting them. Return SHARING; or TOO_MANY, or FAULT, also if `pause`
        returns False. pause: called each time that the threads have run `instructions` together."""
        for share in self.shares:
            share.begin()
        # the first thread runs all versions: its runs are those of the iteration
        runs, running = self.shares[0].versions[:, at.RUNS].copy(), self.shares
        while running:
            reasons = list(self.in_threads(lambda share: share.run(instructions // len(self.shares)), running))
            self._add_statistics()
            head_count = sum(share.head_count for share in self.shares)
            if at.FAULT in reasons:
                return at.FAULT
            if at.TOO_MANY in reasons or head_count > self.interpreter.state[at.BUDGET]:
                return at.TOO_MANY
            running = [share for share, reason in zip(running, reasons, strict=True) if reason == at.PAUSED]
            if running and not pause():
                return at.FAULT
            if running:
                self.interpreter.state[at.SLICE] = instructions
        self.interpreter.versions[:, at.RUNS] += self.shares[0].versions[:, at.RUNS] - runs
        self.interpreter.state[at.ITERATION_MADE] = head_count
        return at.SHARING

    def _add_statistics(self) -> None:
        """Move the threads' counts of heads and instructions to the interpreter."""
        for share in self.shares:
            self.interpreter.state[at.SLICE] -= share.versions[:, at.WORK].sum()
            self.interpreter.versions[:, [at.MADE, at.WORK]] += share.versions[:, [at.MADE, at.WORK]]
            share.versions[:, [at.MADE, at.WORK]] = 0

    def proposed_heads(self) -> np.ndarray:
        """Return (address of the buffer, number of heads, 0) of each thread (threads, 3), for `inserting.insert_proposed`."""
        return np.array([[address_of(share.heads), share.state[at.PROPOSED_COUNT], 0] for share in self.shares], np.int64)

    @property
    def width(self) -> int:
        """The number of int64 values that a buffered head takes."""
        return self.shares[0].heads.shape[1]

    @property
    def nbytes(self) -> int:
        return sum(share.nbytes for share in self.shares)
