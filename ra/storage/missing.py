"""The error for a run (a file of sorted tuples) that is missing on the host that reads it. It has a module of its own, as all
evaluations import it, and few have runs.
"""

import re
from typing import NamedTuple

MISSING, DAMAGED = "a run is missing", "a run is damaged or cut short"


class RunMissingParts(NamedTuple):
    """The parts of the text of a `RunMissing`. what: MISSING or DAMAGED; path: of the run; host: of the task that reads it;
    partition: that of the task, None for a task that belongs to no partition."""

    what: str
    path: str
    host: str
    partition: int | None


class RunMissing(Exception):
    """A run is not on the host of the task that reads it: it is on another host, its host or disk is lost, or it is damaged.
    partition: the one that reads the run; what: MISSING or DAMAGED.
    """

    def __init__(self, path: str, partition: int | None = None, what: str = MISSING):
        import socket  # takes 2 ms, and few runs are missing

        super().__init__(f"{what}: {path} on {socket.gethostname()}, read by partition {partition}")
        self.path, self.what = path, what

    @classmethod
    def parse(cls, text: str) -> RunMissingParts | None:
        """Parse the text of an error: return the missing run if it contains that of a RunMissing, else None.

        >>> missing = RunMissing.parse(f"Error: {RunMissing('/tmp/a b/7', 3)}")
        >>> missing.what, missing.path, missing.partition
        ('a run is missing', '/tmp/a b/7', 3)
        """
        found = re.search(rf"({MISSING}|{DAMAGED}): (.*) on (.*), read by partition (\w+)", text)
        return found and RunMissingParts(found[1], found[2], found[3], int(found[4]) if found[4].isdigit() else None)
