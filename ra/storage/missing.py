"""The error for a run (a file of sorted tuples) that is missing on the host that reads it. It has a module of its own, as all
evaluations import it, and few have runs.
"""

import re

MISSING, DAMAGED = "a run is missing", "a run is damaged or cut short"


class RunMissing(Exception):
    """A run is not on the host of the task that reads it: it is on another host, its host or disk is lost, or it is damaged.
    partition: the one that reads the run, None for a task that belongs to no partition; what: MISSING or DAMAGED; host: of the
    task, by default this one.
    """

    def __init__(self, path: str, partition: int | None = None, what: str = MISSING, host: str = ""):
        import socket  # takes 2 ms, and few runs are missing

        self.path, self.partition, self.what, self.host = path, partition, what, host or socket.gethostname()
        super().__init__(f"{what}: {path} on {self.host}, read by partition {partition}")

    @classmethod
    def parse(cls, text: str) -> "RunMissing | None":
        """Return the error of which the text of another one, such as Spark's, contains the text; None if there is none.

        >>> missing = RunMissing.parse(f"Error: {RunMissing('/tmp/a b/7', 3)}")
        >>> missing.what, missing.path, missing.partition
        ('a run is missing', '/tmp/a b/7', 3)
        """
        match = re.search(rf"({MISSING}|{DAMAGED}): (.*) on (.*), read by partition (\w+)", text)
        return match and cls(match[2], int(match[4]) if match[4].isdigit() else None, match[1], match[3])
