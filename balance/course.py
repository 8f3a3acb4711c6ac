"""The course of a recursive stratum in the driver: the sizes and times of its iterations, recorded in a bounded number of
entries.

An entry is one iteration, and later several: when there are more than `ROOM` entries, each two neighbours are merged, and from
then on an entry has twice as many iterations. So the record of a million iterations is as large as that of a thousand.
"""

import time

import numpy as np

ROOM = 1024  # entries, at most; a figure cannot show more
FIGURES = ("iteration", "steps", "compiled", "born", "full", "seconds")  # the numbers of an entry


class Course:
    """The entries, the oldest first. An entry has: the number of its last iteration, the number of iterations, how many of
    these the machine ran a tuple at a time, tuples born in them, all tuples after them, and seconds.
    """

    def __init__(self) -> None:
        self.entries: list[list] = []
        self.stride, self.before, self.since = 1, 0, time.perf_counter()

    @property
    def last(self) -> int:
        """The number of the last iteration."""
        return self.entries[-1][0] if self.entries else 0

    def begin(self, anew: bool) -> None:
        """Start recording iterations. anew: they are numbered from 1 again, as another round of the stratum begins."""
        self.before = self.last if anew else self.before
        self.since = time.perf_counter()

    def note(self, iteration: int, born: int, full: int) -> None:
        """Record an iteration that was run a block at a time, unless it was recorded before. full: all tuples after it."""
        if self.before + iteration > self.last:
            now = time.perf_counter()
            self._add([self.before + iteration, 1, 0, born, full, now - self.since])
            self.since = now

    def note_compiled(self, iteration: int, rows: np.ndarray, seconds: float) -> None:
        """Record the iterations that the machine (compiled evaluation) has run after an iteration. rows: (number of iterations,
        tuples born, tuples after them, instructions) of each group; the seconds are divided by instructions."""
        seconds_per_instruction, iteration = seconds / max(1, int(rows[:, 3].sum())), self.before + iteration
        for steps, born, full, work in rows.tolist():
            iteration += steps
            self._add([iteration, steps, steps, born, full, seconds_per_instruction * work])
        self.since = time.perf_counter()

    def _add(self, entry: list) -> None:
        """Append an entry, or merge it with the last one; merge all neighbours if there are too many."""
        if self.entries and self.entries[-1][1] + entry[1] <= self.stride:
            entry = _merge_entries(self.entries.pop(), entry)
        self.entries.append(entry)
        if len(self.entries) > ROOM:
            pairs = zip(self.entries[::2], self.entries[1::2], strict=False)
            self.entries = [_merge_entries(*pair) for pair in pairs] + self.entries[len(self.entries) // 2 * 2 :]
            self.stride *= 2

    def to_json(self) -> dict[str, list]:
        """Return a list for each of `FIGURES`."""
        return {name: [entry[place] for entry in self.entries] for place, name in enumerate(FIGURES)}


def _merge_entries(first: list, second: list) -> list:
    """Return two neighbouring entries as one."""
    (_, *counts, _, seconds), (iteration, *more, full, took) = first, second
    return [iteration, *(a + b for a, b in zip(counts, more, strict=True)), full, seconds + took]
