"""The error for a run (a file of sorted tuples) that is missing on the host that reads it. It has a module of its own, as all
evaluations import it, and few have runs.
"""

import re

MISSING, DAMAGED = "a run is missing", "a run is damaged or cut short"


class RunMissing(Exception):
    """A run is not on the host of the task that reads it: it is on another host, its host or disk is lost, or it is damaged.
    partition: the one that reads the run; what: MISSING or DAMAGED.
    """

    def __init__(self, path: str, partition: int | None = None, what: str = MISSING):
        import socket  # takes 2 ms, and few runs are missing

        super().__init__(f"{what}: {path} on {socket.gethostname()}, read by partition {partition}")
        self.path, self.what = path, what

    @classmethod
    def parse(cls, text: str) -> tuple[str, str, str, int | None] | None:
        """Parse the text of an error: return (`what`, path, host, partition) if it contains that of a RunMissing, else None.

        >>> RunMissing.parse(f"Error: {RunMissing('/tmp/a b/7', 3)}")[::3]
        ('a run is missing', 3)
        """
        found = re.search(rf"({MISSING}|{DAMAGED}): (.*) on (.*), read by partition (\w+)", text)
        return found and (found[1], found[2], found[3], int(found[4]) if found[4].isdigit() else None)
