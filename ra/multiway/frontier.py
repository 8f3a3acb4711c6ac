"""Prefixes that wait to be extended, each with its proposer and with what remains of its extensions; and BiGJoin of one worker.

The deepest stage that has work goes first, with at most B' proposals at a time, so there are never more than B' prefixes
at a stage (section 3.3): a prefix that has more extensions is left partially extended, with a mark of where to go on.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ra.multiway.lists import Lists
from ra.multiway.stages import Plan, Stage
from ra.multiway.verbs import NEVER, Indexes


class Proposals(NamedTuple):
    """Extensions number low to high of each prefix, to be proposed by the verb `proposer` of the stage."""

    proposer: int
    prefixes: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass
class Frontier:
    """Prefixes (width, n) of one stage; row i awaits the extensions low[i] to high[i] of its proposer."""

    prefixes: np.ndarray
    proposer: np.ndarray
    low: np.ndarray
    high: np.ndarray
    row: int = 0  # the first that is left; low[row] is its remaining-extension mark

    @classmethod
    def of(cls, prefixes, proposer, high) -> "Frontier":
        return cls(prefixes, proposer, np.zeros_like(high), high)

    @classmethod
    def empty(cls, width: int) -> "Frontier":
        none = np.empty(0, np.int64)
        return cls(np.empty((width, 0), np.int64), none, none, none)

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
        for proposer in np.unique(proposers).tolist():
            rows = np.flatnonzero(proposers == proposer)
            found.append(Proposals(proposer, self.prefixes[:, self.row + rows], low[rows], high[rows]))
        if taken > whole:
            self.low = self.low.copy()
            self.low[self.row + whole] = high[whole]
        self.row += min(whole, ends.size)
        return found


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


@dataclass
class Tally:
    """What one stage has done so far, for the trace."""

    prefixes: int = 0  # counted
    proposals: int = 0
    survivors: int = 0
    lookups: int = 0  # counts, and candidates looked at by an intersection
    rounds: int = 0


class Worker:
    """BiGJoin of one worker over indexes that are all here. `tallies` are by stage, `peak` the most prefixes and
    candidates that were in flight at one time: batch × stages at most."""

    def __init__(self, plan: Plan, indexes: Indexes, batch: int, listing: bool = True):
        self.plan, self.indexes, self.batch, self.listing = plan, indexes, batch, listing
        self.tallies = [Tally() for _ in plan.stages]
        self.queues = [Frontier.empty(stage.width) for stage in plan.stages]
        self.count = self.peak = 0

    def start(self) -> None:
        """From the one prefix that binds nothing."""
        self._enqueue(0, np.empty((0, 1), np.int64))

    def run(self):
        """Yield whole bindings (variables, n) batch by batch; without `listing` nothing is yielded, only `count` grows."""
        while any(queue.rows for queue in self.queues):
            deepest = max(number for number, queue in enumerate(self.queues) if queue.rows)
            for bindings in self.step(deepest):
                if deepest + 1 < len(self.queues):
                    self._enqueue(deepest + 1, bindings)
                else:
                    yield bindings

    def step(self, number: int) -> list[np.ndarray]:
        """One round: the extended prefixes."""
        stage, tally = self.plan.stages[number], self.tallies[number]
        waiting = sum(queue.rows for queue in self.queues)
        tally.rounds += 1
        found, proposed = [], 0
        for proposals in self.queues[number].take(self.batch):
            lists = stage.verbs[proposals.proposer].propose(self.indexes, *proposals[1:])
            proposed += lists.total
            found += self._intersected(stage, proposals, lists, tally)
        tally.proposals += proposed
        self.peak = max(self.peak, waiting + proposed)
        return [np.concatenate(found, axis=1)] if found else []

    def _intersected(self, stage: Stage, proposals: Proposals, lists: Lists, tally: Tally) -> list[np.ndarray]:
        last = stage.width + 1 == len(self.plan.stages)
        others = [verb for number, verb in enumerate(stage.verbs) if number != proposals.proposer]
        others.sort(key=lambda verb: verb in stage.atoms)  # what needs no index first
        for place, verb in enumerate(others):
            tally.lookups += lists.total
            counting = last and not self.listing and place == len(others) - 1
            lists = verb.intersect(self.indexes, proposals.prefixes, lists, not counting)
        survivors = lists.total
        tally.survivors += survivors
        if last:
            self.count += survivors
        return [] if not survivors or last and not self.listing else [extended(proposals.prefixes, lists)]

    def _enqueue(self, number: int, prefixes: np.ndarray) -> None:
        stage, tally = self.plan.stages[number], self.tallies[number]
        tally.prefixes += prefixes.shape[1]
        tally.lookups += prefixes.shape[1] * len(stage.proposers)
        queue = counted(stage, self.indexes, prefixes)
        assert not self.queues[number].rows, "the deepest stage with work goes first"
        self.queues[number] = queue
