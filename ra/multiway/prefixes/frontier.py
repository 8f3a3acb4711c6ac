"""Prefixes that wait to be extended, each with its proposer and with what remains of its extensions.

The deepest stage that has work goes first, with at most B' proposals at a time, so there are never more than B' prefixes
at a stage (section 3.3): a prefix that has more extensions is left partially extended, with a mark of where to go on.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from semi_naive.ra.multiway.prefixes.lists import Lists
from semi_naive.ra.multiway.prefixes.stages import Stage
from semi_naive.ra.multiway.prefixes.verbs import NEVER, Indexes


class Proposals(NamedTuple):
    """Extensions number low to high of each prefix, to be proposed by the verb `proposer` of the stage."""

    proposer: int
    prefixes: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def frontier(self) -> "Frontier":
        """As what is to be proposed yet."""
        return Frontier(self.prefixes, np.full(self.low.size, self.proposer), self.low, self.high)


@dataclass
class Frontier:
    """Prefixes (width, n) of one stage; row i awaits the extensions low[i] to high[i] of its proposer."""

    prefixes: np.ndarray
    proposer: np.ndarray
    low: np.ndarray
    high: np.ndarray
    row: int = 0  # the first that is left; low[row], which is written to, is its remaining-extension mark

    @classmethod
    def of(cls, prefixes, proposer, high) -> "Frontier":
        return cls(prefixes, proposer, np.zeros_like(high), high)

    @classmethod
    def empty(cls, width: int) -> "Frontier":
        none = np.empty(0, np.int64)
        return cls(np.empty((width, 0), np.int64), none, none, none)

    def flat(self) -> np.ndarray:
        """What is left, as one array for a file."""
        own = slice(self.row, None)
        return np.concatenate((*self.prefixes[:, own], self.proposer[own], self.low[own], self.high[own]))

    @classmethod
    def from_flat(cls, flat: np.ndarray, width: int) -> "Frontier":
        """Views of the array."""
        columns = flat.reshape(width + 3, -1)
        return cls(columns[:width], *columns[width:])

    @property
    def rows(self) -> int:
        return self.proposer.size - self.row

    @property
    def left(self) -> int:
        """How many extensions remain to be proposed."""
        return int((self.high[self.row :] - self.low[self.row :]).sum())

    def take(self, most: int) -> list[Proposals]:
        """The next extensions, `most` of them or all that is left; those of each proposer together."""
        part = slice(self.row, self.row + most)  # each row has one extension at least
        low, high = self.low[part], self.high[part].copy()
        ends = np.cumsum(high - low)
        whole = int(np.searchsorted(ends, most, side="right"))
        taken = min(whole + 1, ends.size)
        if whole < ends.size:
            high[whole] -= ends[whole] - most
            taken -= int(high[whole] == low[whole])
        proposers = self.proposer[part][:taken]
        found = []
        for proposer in np.flatnonzero(np.bincount(proposers)).tolist():
            rows = np.flatnonzero(proposers == proposer)
            found.append(Proposals(proposer, self.prefixes[:, self.row + rows], low[rows], high[rows]))
        if taken > whole:
            self.low[self.row + whole] = high[whole]
        self.row += min(whole, ends.size)
        return found


def joined(parts: list[Frontier]) -> Frontier:
    """What is left of several, one after the other; a copy. There is one at least."""
    own = [(part, slice(part.row, None)) for part in parts]
    columns = (np.concatenate([getattr(part, name)[some] for part, some in own]) for name in ("proposer", "low", "high"))
    return Frontier(np.concatenate([part.prefixes[:, some] for part, some in own], axis=1), *columns)


def least(stage: Stage, indexes: Indexes, prefixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count minimisation: the least count of each prefix, and the verb that offers it."""
    counts, proposer = np.full(prefixes.shape[1], NEVER), np.zeros(prefixes.shape[1], np.int64)
    for number in stage.proposers:
        own = stage.verbs[number].count(indexes, prefixes)
        proposer[own < counts] = number
        counts = np.minimum(counts, own)
    return counts, proposer


def counted(stage: Stage, indexes: Indexes, prefixes: np.ndarray) -> Frontier:
    """Prefixes with their proposers; those that nothing extends are gone."""
    counts, proposer = least(stage, indexes, prefixes)
    some = counts > 0
    return Frontier.of(prefixes if some.all() else prefixes[:, some], proposer[some], counts[some])


def extended(prefixes: np.ndarray, lists: Lists) -> np.ndarray:
    """The prefixes with their candidates, (width + 1, n)."""
    rows, values = lists.pairs()
    return np.concatenate((prefixes[:, rows], values[None]))
