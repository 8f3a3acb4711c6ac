"""How long a stratum may follow a change until it is computed anew.

What a change leads to is not known before: one edge may join two halves of a graph. What is known is how long the stratum takes
when it is computed anew, and how changes of about the size have gone before. So the first one may take a fifth of the former,
and then wastes no more. What following has saved since may be spent on longer attempts, of which no more than half a
computation each time; so all transactions together never take more than a fifth longer than if each had been computed anew.
Changes of a size that fail again and again are not tried for some transactions, each time for twice as many.
"""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

WORTH = 0.2  # of the seconds in which it is computed anew, for any attempt
SPENT = 0.5  # of them, from what has been saved
INVESTED = 1.0  # of them, for ticks: to compute a stratum with those takes about twice as long
KEPT = 2.0  # of them, at most: what has been saved long ago says little
LEAST = 0.005  # seconds that it may follow in any case
AGAIN = 2  # attempts in a row that fail, after which changes of the size are left
LEFT = 32  # transactions at most until one is tried again
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
    """Seconds since it was made: of the clock, or of this process's work, whichever are fewer. Beside other processes the clock
    says too much; where several cores share the work, its seconds do. most: that may pass."""

    most: float = math.inf

    def __post_init__(self):
        self.begun, self.worked = time.perf_counter(), time.process_time()

    @property
    def clock(self) -> float:
        return time.perf_counter() - self.begun

    @property
    def seconds(self) -> float:
        return min(self.clock, time.process_time() - self.worked)

    @property
    def over(self) -> bool:
        return self.clock > self.most and self.seconds > self.most


@dataclass
class Pace:
    """Of one stratum."""

    anew: float = 0.0  # seconds that it takes to compute it anew
    saved: float = 0.0  # seconds
    failed: dict[Kind, int] = field(default_factory=dict)  # attempts in a row
    left: dict[Kind, int] = field(default_factory=dict)  # transactions that are computed anew without an attempt

    def begins(self, seconds: float, tuples: int) -> None:
        """It has been computed for the first time, with all that this process loads for it."""
        self.anew = min(seconds, ROUGH * tuples)

    def allowed(self, kind: Kind) -> float:
        """Seconds that it may follow such a change; 0 if that is not to be tried.

        >>> pace = Pace(anew=1.0)
        >>> pace.allowed((True, 3))
        0.2
        >>> for _ in range(2): pace.failing((True, 3), 0.2)
        >>> [pace.allowed(kind) for kind in ((False, 3), (True, 2), (True, 3), (True, 4))]
        [0.2, 0.2, 0.0, 0.0]
        """
        for each in self.failed:
            if each[0] == kind[0] and each[1] <= kind[1] and self.left.get(each, 0):
                self.left[each] -= 1
                self.saved = min(KEPT * self.anew, self.saved + WORTH * self.anew)
                return 0.0
        return max(LEAST, WORTH * self.anew + min(self.saved, SPENT * self.anew))

    def failing(self, kind: Kind, seconds: float) -> None:
        """It has followed for so long in vain."""
        self.saved = max(0.0, self.saved - max(0.0, seconds - WORTH * self.anew))
        self.failed[kind] = self.failed.get(kind, 0) + 1
        if self.failed[kind] >= AGAIN:
            self.left[kind] = min(LEFT, 1 << self.failed[kind])

    def invests(self) -> bool:
        """Whether what has been saved is enough to compute the stratum in a way that takes longer, and is spent on that."""
        enough = self.saved >= INVESTED * self.anew
        self.saved -= INVESTED * self.anew if enough else 0.0
        return enough

    def forget(self) -> None:
        """What was tried without success may succeed from now on."""
        self.failed, self.left = {}, {}

    def following(self, kind: Kind, seconds: float) -> None:
        """It has followed, and whatever changes no more is worth another attempt; if that took no longer than anew."""
        if seconds > max(self.anew, LEAST):
            return self.failing(kind, seconds)
        self.saved = min(KEPT * self.anew, self.saved + self.anew - seconds)
        for each in [each for each in self.failed if each[0] == kind[0] and each[1] <= kind[1]]:
            del self.failed[each]
            self.left.pop(each, None)
