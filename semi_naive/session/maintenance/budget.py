"""The budget of a stratum: how many bindings its maintenance may visit until the stratum is computed anew.

The effect of a change is not known in advance: one edge may connect two halves of a graph. So maintenance begins, and ends as
soon as it has visited a part (`Config.follow`) of the bindings that the stratum took when it was computed last. All decisions
are made by counts, so a session makes the same ones on every machine (see `host.budget`).
"""

from dataclasses import dataclass, field

FREE = 10_000  # bindings that any maintenance may visit: 20 batches, some 1 ms
TRIES = 2  # expensive attempts among `ROUND` changes, while they exceed the budget; without it `small` of bench.sessions: 1.4×
ROUND = 6
INSERTED = 5  # factor of the part for insertions without recursion; without it 10 % in `triangles listed` takes 3.3×


@dataclass
class Budget:
    """The budget of one stratum. Changes that delete tuples and changes that only insert some are counted apart, by `loses`."""

    visited: int = 0  # bindings when the stratum was computed last
    in_vain: dict[bool, int] = field(default_factory=dict)  # consecutive changes that exceeded the budget, or were not tried
    helped: bool = False  # a deletion was maintained within the budget since the stratum has ticks

    def bindings(self, follow: float, bounded: bool = False) -> float:
        """The bindings that maintenance may visit: a part (`follow`) of those of a computation. bounded: it only inserts
        into a stratum without recursion, so the work is a multiple of its size.

        >>> Budget(10 ** 6).bindings(0.2), Budget(10 ** 6).bindings(0.2, bounded=True), Budget().bindings(0.15)
        (200000.0, 1000000.0, 10000)
        """
        part = INSERTED * follow if bounded else follow
        return max(FREE, part * self.visited) if follow else 0

    def tries(self, loses: bool, expensive: bool) -> bool:
        """True if maintenance tries the next change. expensive: an attempt may take more than the part of a computation, as it
        may visit `FREE` bindings, or counts are unknown.

        >>> budget, tried = Budget(), []
        >>> for _ in range(12):
        ...     tried.append(budget.tries(loses=True, expensive=True))
        ...     if tried[-1]:
        ...         _ = budget.exceeded(loses=True, ticks=False)
        >>> [place for place, each in enumerate(tried) if each], budget.tries(loses=False, expensive=True)
        ([0, 1, 6, 7], True)
        """
        tried = not expensive or self.in_vain.get(loses, 0) % ROUND < TRIES
        self.in_vain[loses] = self.in_vain.get(loses, 0) + (not tried)
        return tried

    def kept(self, loses: bool, ticks: bool) -> None:
        """Note that a change was followed within the budget, of a stratum with or without ticks."""
        self.in_vain[loses] = 0
        self.helped |= loses and ticks

    def exceeded(self, loses: bool, ticks: bool) -> bool:
        """Note that a change exceeded the budget. True if the stratum is computed with ticks the next time: after a deletion
        without ticks, and if its ticks have helped. They take little time to compute.

        >>> budget = Budget()
        >>> budget.exceeded(loses=False, ticks=False), budget.exceeded(loses=True, ticks=False)
        (False, True)
        >>> budget.kept(loses=True, ticks=True)
        >>> budget.exceeded(loses=True, ticks=True), budget.exceeded(loses=True, ticks=True)
        (True, False)
        """
        self.in_vain[loses] = self.in_vain.get(loses, 0) + 1
        wanted, self.helped = self.helped if ticks else loses, False
        return wanted
