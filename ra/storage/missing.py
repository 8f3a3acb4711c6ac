"""The error for a run (a file of sorted tuples) that is missing on the host that reads it. In a module of its own, since all
evaluation imports it, and few evaluations have runs.
"""

import re

MISSING, DAMAGED = "a run is missing", "a run is damaged or cut short"


class RunMissing(Exception):
    """A run is not on the host of the task that reads it: it is on another host, its host or disk is lost, or it is damaged."""

    def __init__(self, path: str, partition: int | None = None, what: str = MISSING):
        """partition: the one that reads it; what: missing or damaged."""
        import socket  # takes 2 ms, and few runs are missing

        super().__init__(f"{what}: {path} on {socket.gethostname()}, read by partition {partition}")
        self.path, self.what = path, what

    @classmethod
    def told(cls, text: str) -> tuple[str, str, str, int | None] | None:
        """Parse the text of an error: (missing or damaged, path, host, partition) if it mentions a RunMissing, else None.

        >>> RunMissing.told(f"Error: {RunMissing('/tmp/a b/7', 3)}")[::3]
        ('a run is missing', 3)
        """
        found = re.search(rf"({MISSING}|{DAMAGED}): (.*) on (.*), read by partition (\w+)", text)
        return found and (found[1], found[2], found[3], int(found[4]) if found[4].isdigit() else None)
