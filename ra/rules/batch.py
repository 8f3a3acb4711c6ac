"""A batch: some bindings of a rule's variables, as columns, on their way through the steps of the rule's body."""

import numpy as np
from semi_naive.ra import words as single
from semi_naive.ra.rules import kernels
from semi_naive.ra.rules.block import Block, bounds_of, roomy, snug

SAMPLE = 1 << 13  # bindings from which it is known to 1 % how many are repetitions
EVERY_HASH = (1 << 64) - (1 << 11)  # the greatest that a float holds


class Batch:
    """`size` bindings: columns of int64 by variable name. `pair` = (first, second, words): the batch is also at hand as
    sorted distinct words first << 32 | second, and its columns are made only if someone looks at them. What a step that can be
    taken up says of a batch it has made: `at`, where it goes on after it, and `joined`, the pairs of tuples that met in it.
    share = (number, count): of what the next join makes of all bindings, this batch stands for one of so many shares."""

    __slots__ = ("size", "pair", "_columns", "at", "joined", "share")

    def __init__(
        self, size: int, columns: dict[str, np.ndarray] | None = None, pair=None, at=None, joined: int = 0, share=(0, 1)
    ):
        self.size, self.pair, self._columns, self.at, self.joined, self.share = size, pair, columns, at, joined, share

    @property
    def columns(self) -> dict[str, np.ndarray]:
        if self._columns is None:
            first, second, words = self.pair
            self._columns = {
                first: (words >> np.uint64(32)).view(np.int64),
                second: (words & np.uint64(0xFFFFFFFF)).view(np.int64),
            }
        return self._columns

    def take(self, rows: np.ndarray, names) -> dict[str, np.ndarray]:
        """The columns in `names` that there are, of some rows."""
        return {name: column[rows] for name, column in self.columns.items() if name in names}

    def where(self, mask: np.ndarray, names=None) -> "Batch":
        """The bindings for which `mask` holds."""
        kept = {name: column for name, column in self.columns.items() if names is None or name in names}
        if mask.all():
            return Batch(self.size, kept)
        return Batch(int(np.count_nonzero(mask)), {name: column[mask] for name, column in kept.items()})

    def slice(self, begin: int, end: int) -> "Batch":
        """The bindings [begin, end)."""
        if (begin, end) == (0, self.size):
            return self
        if self.pair:
            return Batch(end - begin, pair=(*self.pair[:2], self.pair[2][begin:end]))
        return Batch(end - begin, {name: column[begin:end] for name, column in self.columns.items()})

    def with_columns(self, more: dict[str, np.ndarray]) -> "Batch":
        return Batch(self.size, {**self.columns, **more})

    def distinct(self, names) -> "Batch":
        """The distinct bindings of some variables. 20 to 40 ns a binding."""
        names = tuple(names)
        if self.pair and set(names) == set(self.pair[:2]):
            return self
        if not names:
            return Batch(min(self.size, 1), {})
        columns = [self.columns[name] for name in names]
        block = Block.of(columns, self.size, snug(bounds_of(columns)))
        return Batch(block.size, dict(zip(names, block.columns(), strict=True)))

    def repeats(self, names) -> bool:
        """Whether a tenth or more of the bindings of some variables are repetitions: from all that have one of some hashes,
        2 ns a binding and variable."""
        if not names or self.pair and set(names) == set(self.pair[:2]):
            return True  # and `distinct` has nothing to do
        hashes, share = np.zeros(self.size, np.uint64), min(1.0, SAMPLE / self.size)
        for name in names:
            kernels.mix_in(hashes, np.require(self.columns[name], np.int64, ["C", "W"]))
        rows = np.flatnonzero(hashes <= np.uint64(share * EVERY_HASH))
        return Batch(rows.size, self.take(rows, names)).distinct(names).size < 0.9 * share * self.size

    def as_pair(self, first: str, second: str) -> np.ndarray | None:
        """The distinct bindings of two variables as sorted words of two halves; None if they do not fit."""
        if self.pair and self.pair[:2] == (first, second):
            return self.pair[2]
        if self.pair and self.pair[:2] == (second, first):
            return single.exchanged(self.pair[2], 32)
        columns = [self.columns[first], self.columns[second]]
        packing = roomy(bounds_of(columns))
        if any(low or high != (1 << 32) - 1 for low, high in packing.bounds):
            return None
        return Block.of(columns, self.size, packing).words[0]


def unit() -> Batch:
    """The empty binding: what the body of a rule starts from."""
    return Batch(1, {})


def joined(batches: list[Batch]) -> Batch:
    """Several batches of the same variables as one."""
    if len(batches) == 1:
        return batches[0]
    names = batches[0].columns
    columns = {name: np.concatenate([batch.columns[name] for batch in batches]) for name in names}
    return Batch(sum(batch.size for batch in batches), columns)
