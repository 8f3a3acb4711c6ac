"""How a recursive stratum has come along in the driver: what each iteration made, in entries of which there are never many.

An entry is one iteration, and later several: where there would be more than `ROOM` entries, two neighbours become one, and from
then on an entry is of twice as many iterations. So a record of a million iterations is as large as one of a thousand.
"""

import time

import numpy as np

ROOM = 1024  # entries; a figure shows no more
FIGURES = ("iteration", "steps", "compiled", "born", "full", "seconds")  # of an entry


class Course:
    """The entries, the oldest first: the number of its last iteration, how many iterations it is of, how many of these the
    machine did a tuple at a time; tuples born in them, tuples there were after them, and how long they took."""

    def __init__(self) -> None:
        self.entries: list[list] = []
        self.stride, self.before, self.since = 1, 0, time.perf_counter()

    @property
    def last(self) -> int:
        """The number of the last iteration."""
        return self.entries[-1][0] if self.entries else 0

    def begin(self, anew: bool) -> None:
        """Iterations follow from here on; `anew`: from the first, after those of an earlier round."""
        self.before = self.last if anew else self.before
        self.since = time.perf_counter()

    def note(self, iteration: int, born: int, full: int) -> None:
        """An iteration a block at a time is complete, if it is a new one."""
        if self.before + iteration > self.last:
            now = time.perf_counter()
            self._add([self.before + iteration, 1, 0, born, full, now - self.since])
            self.since = now

    def note_compiled(self, iteration: int, found: np.ndarray, seconds: float) -> None:
        """The machine has done iterations, the first after this one. found: a row for each few of them: how many, tuples born,
        tuples after them, instructions, by which they share the seconds."""
        each, iteration = seconds / max(1, int(found[:, 3].sum())), self.before + iteration
        for steps, born, full, work in found.tolist():
            iteration += steps
            self._add([iteration, steps, steps, born, full, each * work])
        self.since = time.perf_counter()

    def _add(self, entry: list) -> None:
        if self.entries and self.entries[-1][1] + entry[1] <= self.stride:
            entry = _merge_entries(self.entries.pop(), entry)
        self.entries.append(entry)
        if len(self.entries) > ROOM:
            pairs = zip(self.entries[::2], self.entries[1::2], strict=False)
            self.entries = [_merge_entries(*pair) for pair in pairs] + self.entries[len(self.entries) // 2 * 2 :]
            self.stride *= 2

    def to_json(self) -> dict[str, list]:
        """A list for each of `FIGURES`."""
        return {name: [entry[place] for entry in self.entries] for place, name in enumerate(FIGURES)}


def _merge_entries(first: list, second: list) -> list:
    """Two neighbours as one entry."""
    (_, *counts, _, seconds), (iteration, *more, full, took) = first, second
    return [iteration, *(a + b for a, b in zip(counts, more, strict=True)), full, seconds + took]
