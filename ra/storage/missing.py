"""The error of a run that is not where it is read. By itself, as every evaluation expects it, and few have runs."""

import re

MISSING, DAMAGED = "a run is missing", "a run is damaged or cut short"


class RunMissing(Exception):
    """A run is not on the host of the task that reads it: it is on another one, its host or disk is gone, or it is damaged."""

    def __init__(self, path: str, partition: int | None = None, what: str = MISSING):
        import socket  # takes 2 ms, and few runs are missing

        super().__init__(f"{what}: {path} on {socket.gethostname()}, read by partition {partition}")
        self.path, self.what = path, what

    @classmethod
    def told(cls, text: str) -> tuple[str, str, str, int | None] | None:
        """What is wrong, path, host and partition out of an error's text that mentions one.

        >>> RunMissing.told(f"Error: {RunMissing('/tmp/a b/7', 3)}")[::3]
        ('a run is missing', 3)
        """
        found = re.search(rf"({MISSING}|{DAMAGED}): (.*) on (.*), read by partition (\w+)", text)
        return found and (found[1], found[2], found[3], int(found[4]) if found[4].isdigit() else None)
