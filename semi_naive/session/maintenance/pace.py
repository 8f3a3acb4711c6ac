"""How long a stratum may follow a change until it is computed anew.

What a change leads to is not known before: one edge may join two halves of a graph. What is known is how long the stratum takes
when it is computed anew, and how it has followed before. So an attempt may take a small part of the former, and then wastes no
more, or what changes of its size have saved before: then all of them together take no longer than to compute everything. Where
tuples are gone, the time to find suspects, and how many there are, tell the rest. So a following that is likely to be quicker
goes on, and one that is not ends as soon as the suspects are known. Changes of a size that fail twice are not tried for some
transactions. Where a change has been followed, one of more tuples may take as much longer.
The first attempt tells nothing, as it makes indexes; and the loading of kernels takes none of the time.
"""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from semi_naive.host.jit import seconds_loading

WORTH = 0.15  # of the seconds in which it is computed anew, for any attempt
FORETOLD = 0.6  # of them, by what smaller changes have taken: then an attempt may take that
LONGEST = 0.3  # of them, for one that looks good, or that is paid for by what changes of the size have saved before
QUICKER = 0.8  # of them: what is expected to take longer is not gone on with
LIKELY = 1.25  # times as long as expected it may take
AFTER = 4.0  # seconds for each one of looking for suspects, at most, until more is known: 1 to 5 in analyses and closures
LESS = 0.8  # times what is known of that, whenever it ends an attempt: it may have been the making of an index
DEARER = 4.0  # times as long for a tuple it may take as to compute it anew: in a run, most are made several times
INVESTED = 0.4  # of them may be wasted once a stratum has got ticks
KEPT = 2.0  # of them, at most: what has been saved long ago says little
LEAST = 0.0005  # seconds that it may follow in any case
PLANNING = 0.02  # seconds more of the first attempt, which makes plans
AGAIN = 2  # attempts in a row that fail, after which changes of the size are left
OFTEN = 6  # attempts that fail, after which ticks that were in vain are tried again
LEFT = 4  # transactions until one is tried again
ROUGH = 1e-6  # seconds a tuple: the first run of a process loads kernels, so it tells no more than that

Kind = tuple[bool, int]  # whether tuples are lost; how many have changed, as a power of four


def kind_of(sizes: Iterable[tuple[int, int]]) -> Kind:
    """Of a change, by the tuples (born, lost) of each relation.

    >>> kind_of([(3, 0), (1, 0)]), kind_of([(0, 1000)])
    ((False, 1), (True, 5))
    """
    born, lost = (sum(part) for part in zip(*sizes, strict=True))
    return lost > 0, (born + lost).bit_length() // 2


@dataclass
class Stopwatch:
    """Seconds since it was made, without those in which kernels were loaded: of the clock, or of this process's work, whichever
    are fewer. Beside other processes the clock says too much; where several cores share the work, its seconds do. most: that
    may pass; longest: that this may become."""

    most: float = math.inf
    longest: float = math.inf

    def __post_init__(self):
        self.loaded = seconds_loading()
        self.begun, self.worked = time.perf_counter(), time.process_time()

    @property
    def clock(self) -> float:
        return time.perf_counter() - self.begun - (seconds_loading()[0] - self.loaded[0])

    @property
    def seconds(self) -> float:
        return min(self.clock, time.process_time() - self.worked - (seconds_loading()[1] - self.loaded[1]))

    @property
    def over(self) -> bool:
        return self.clock > self.most and self.seconds > self.most

    def goes_on(self, until: float) -> None:
        """So many seconds may pass, if that is not too long."""
        self.most = max(self.most, min(until, self.longest))


@dataclass
class Pace:
    """Of one stratum."""

    anew: float = 0.0  # seconds that it takes to compute it anew
    after: float | None = None  # seconds for each one of looking for suspects, once that is known
    vain: float = math.inf  # as a power of four, the fewest tuples that have changed and were too much even with ticks
    took: dict[Kind, float] = field(default_factory=dict)  # seconds of the last success
    credit: dict[Kind, float] = field(default_factory=dict)  # seconds that changes of the size have saved, and may waste
    failed: dict[Kind, int] = field(default_factory=dict)  # attempts in a row
    tried: set[bool] = field(default_factory=set)  # where tuples are lost, and where none: the first attempt makes indexes
    left: dict[Kind, int] = field(default_factory=dict)  # transactions that are computed anew without an attempt

    def begins(self, seconds: float, tuples: int) -> None:
        """It has been computed for the first time, with all that this process loads for it."""
        self.anew = min(seconds, ROUGH * tuples)

    def allowed(self, kind: Kind) -> float:
        """Seconds that it may follow such a change; 0 if that is not to be tried.

        >>> pace = Pace(anew=1.0, tried={True, False})
        >>> pace.allowed((True, 3)), Pace(anew=1.0).allowed((True, 3)) - PLANNING
        (0.15, 0.15)
        >>> for _ in range(3): pace.failing((True, 3), 0.15)
        >>> [pace.allowed(kind) for kind in ((False, 3), (True, 2), (True, 3), (True, 4))]
        [0.15, 0.15, 0.0, 0.0]
        """
        for each in self.left:
            if each[0] == kind[0] and each[1] <= kind[1] and self.left[each]:
                self.left[each] -= 1
                return 0.0
        foretold = self._foretold(kind)
        paid = min(LONGEST * self.anew, self.credit.get(kind, 0.0))
        most = max(LEAST, WORTH * self.anew, paid, LIKELY * foretold if foretold <= FORETOLD * self.anew else 0.0)
        return most + self._planning(kind)

    def _planning(self, kind: Kind) -> float:
        return 0.0 if kind[0] in self.tried else min(PLANNING, FORETOLD * self.anew)

    def longest(self, kind: Kind) -> float:
        """Seconds that it may follow, however good it looks then."""
        return max(LEAST, LONGEST * self.anew) + self._planning(kind)

    def _foretold(self, kind: Kind) -> float:
        """Seconds by the next smaller change that was followed: as many more as there are tuples.

        >>> pace = Pace(anew=1.0)
        >>> pace.following((True, 3), 0.02)
        >>> [pace.allowed(kind) for kind in ((True, 3), (True, 5), (True, 6), (True, 2))]
        [0.3, 0.4, 0.15, 0.15]
        """
        known = [each for each in self.took if each[0] == kind[0] and each[1] <= kind[1]]
        return self.took[max(known)] * 4.0 ** (kind[1] - max(known)[1]) if known else 0.0

    def expected(self, seconds: float, part: float) -> float:
        """Seconds that it may follow in all, after so many have found that a part of its tuples is suspected; 0 if it is likely
        to take too long.

        >>> pace = Pace(anew=1.0)
        >>> [round(pace.expected(0.1, part), 3) for part in (0.01, 0.1, 1.0)]
        [0.175, 0.625, 0.625]
        >>> [round(pace.expected(seconds, 1.0), 3) for seconds in (0.01, 0.18)]
        [0.15, 0.0]
        >>> pace.after = 1.0
        >>> [round(pace.expected(seconds, 0.5), 3) for seconds in (0.01, 0.1, 0.5)]
        [0.15, 0.25, 0.0]
        """
        after = min(AFTER * seconds, DEARER * part * self.anew) if self.after is None else self.after * seconds
        forecast = seconds + after
        if forecast > max(LEAST, QUICKER * self.anew):
            self.after = self.after and LESS * self.after
            return 0.0
        return max(LEAST, WORTH * self.anew, LIKELY * forecast)

    def each(self, tuples: int) -> float:
        """Seconds that it may follow for each tuple that comes, where nothing is gone and there are so many tuples."""
        return DEARER * self.anew / max(1, tuples)

    def learn(self, suspecting: float, seconds: float) -> None:
        """It has followed, or tried to, for so many seconds, of which it looked for suspects for some."""
        if suspecting and seconds > WORTH / 2 * self.anew and True in self.tried:
            found = seconds / suspecting - 1
            self.after = found if self.after is None or found > self.after else (self.after + found) / 2

    def failing(self, kind: Kind, seconds: float, timed: bool = False) -> None:
        """It has followed for so long in vain; timed: with ticks.

        >>> pace = Pace(anew=1.0)
        >>> pace.following((True, 3), 0.1)
        >>> for _ in range(3): pace.failing((True, 3), 0.25, timed=True)
        >>> pace.is_paid((True, 3)), pace.allowed((True, 3)) > 0, pace.vain
        (True, True, inf)
        """
        if self._is_first(kind):
            return
        self.credit[kind] = max(0.0, self.credit.get(kind, 0.0) - seconds)
        if self.is_paid(kind):
            return
        self.vain = min(self.vain, kind[1]) if timed and kind[0] else self.vain
        self.took = {each: known for each, known in self.took.items() if each[0] != kind[0] or each[1] > kind[1]}
        self.failed[kind] = self.failed.get(kind, 0) + 1
        if self.failed[kind] % OFTEN == 0 and not timed:
            self.vain = math.inf
        if self.failed[kind] >= AGAIN:
            self.left[kind] = LEFT

    def _is_first(self, kind: Kind) -> bool:
        first = kind[0] not in self.tried
        self.tried.add(kind[0])
        return first

    def is_paid(self, kind: Kind) -> bool:
        """Whether changes of the size have saved more than attempts have wasted: some take long, and most do not."""
        return self.credit.get(kind, 0.0) > 0

    def wants_ticks(self, kind: Kind) -> bool:
        """Whether a change that has been followed in vain is worth them: to compute a stratum with ticks takes hardly longer.
        They are not for a change that took too long even with them."""
        return kind[0] and kind[1] < self.vain

    @property
    def in_vain(self) -> bool:
        """Whether changes of some size were too much even with ticks."""
        return self.vain < math.inf

    def invest(self, kind: Kind) -> None:
        """The stratum gets ticks. The next such changes are worth longer attempts, of which the first makes indexes, too."""
        self.tried.discard(True)
        self.credit[kind] = max(self.credit.get(kind, 0.0), INVESTED * self.anew)

    def forget(self) -> None:
        """What was tried without success may succeed from now on."""
        self.left, self.after = {}, None

    def following(self, kind: Kind, seconds: float) -> None:
        """It has followed, and whatever changes no more is worth another attempt; if that took no longer than anew."""
        if seconds > max(self.anew, LEAST):
            return self.failing(kind, seconds)
        self.tried.add(kind[0])
        self.credit[kind] = min(KEPT * self.anew, self.credit.get(kind, 0.0) + self.anew - seconds)
        self.took[kind] = seconds
        self.vain = math.inf if kind[0] and kind[1] >= self.vain else self.vain
        for each in [each for each in self.failed if each[0] == kind[0] and each[1] <= kind[1]]:
            del self.failed[each]
            self.left.pop(each, None)
