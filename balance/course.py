"""The course of a recursive stratum in the driver: the sizes and times of its iterations, recorded in a bounded number of
entries.

An entry is one iteration, and later several: when there are more than `ROOM` entries, each two neighbours are merged, and from
then on an entry has twice as many iterations. So the record of a million iterations is as large as that of a thousand.
"""

import time
from typing import NamedTuple

import numpy as np

ROOM = 1024  # entries, at most; a figure cannot show more


class Entry(NamedTuple):
    """Some consecutive iterations, summed up."""

    iteration: int  # the number of the last one
    steps: int  # the number of iterations
    compiled: int  # how many of them the machine ran, a tuple at a time
    born: int
    full: int  # all tuples after them
    seconds: float

    def with_next(self, other: "Entry") -> "Entry":
        """Return this entry and the following one as one."""
        steps, compiled = self.steps + other.steps, self.compiled + other.compiled
        return Entry(other.iteration, steps, compiled, self.born + other.born, other.full, self.seconds + other.seconds)


FIGURES = Entry._fields


class Course:
    """The entries of a stratum, the oldest first. An iteration is added to the last entry while that has fewer than `stride`
    iterations; `stride` is 1 at first, and doubles when neighbours are merged. earlier: the iterations in earlier rounds of the
    stratum; clock: when the last recorded iteration ended.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.stride, self.earlier, self.clock = 1, 0, time.perf_counter()

    @property
    def last(self) -> int:
        """The number of the last iteration."""
        return self.entries[-1].iteration if self.entries else 0

    def begin(self, anew: bool) -> None:
        """Start recording iterations. anew: they are numbered from 1 again, as another round of the stratum begins."""
        self.earlier = self.last if anew else self.earlier
        self.clock = time.perf_counter()

    def note(self, iteration: int, born: int, full: int) -> None:
        """Record an iteration that was run a block at a time, unless it was recorded before. full: all tuples after it."""
        if self.earlier + iteration > self.last:
            now = time.perf_counter()
            self._add(Entry(self.earlier + iteration, 1, 0, born, full, now - self.clock))
            self.clock = now

    def note_compiled(self, iteration: int, rows: np.ndarray, seconds: float) -> None:
        """Record the iterations that the machine has run after an iteration. rows (groups, 4): the number of iterations, tuples
        born, tuples after them, and instructions; the seconds are divided by instructions."""
        instructions = int(rows[:, 3].sum())
        iteration += self.earlier
        for steps, born, full, work in rows.tolist():
            iteration += steps
            self._add(Entry(iteration, steps, steps, born, full, seconds * work / max(1, instructions)))
        self.clock = time.perf_counter()

    def _add(self, entry: Entry) -> None:
        """Append an entry, or merge it with the last one; merge all neighbours if there are too many."""
        if self.entries and self.entries[-1].steps + entry.steps <= self.stride:
            entry = self.entries.pop().with_next(entry)
        self.entries.append(entry)
        if len(self.entries) > ROOM:
            pairs = zip(self.entries[::2], self.entries[1::2], strict=False)
            merged = [first.with_next(second) for first, second in pairs]
            self.entries = merged + self.entries[2 * len(merged) :]  # with the last one, if their number is odd
            self.stride *= 2

    def to_json(self) -> dict[str, list]:
        """Return a list for each of `FIGURES`."""
        return {name: [getattr(entry, name) for entry in self.entries] for name in FIGURES}
