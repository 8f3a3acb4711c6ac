"""The errors that a fault may end in: a message and an exit status; and what no error may look like."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Allowed:
    """One message on standard error, as a pattern, and the exit statuses that go with it."""

    pattern: str
    statuses: tuple[int, ...]

    def fits(self, status: int, said: str) -> bool:
        """Whether a child ended so.

        >>> INTERRUPTED.fits(130, "semi-naive: interrupted"), INTERRUPTED.fits(1, "semi-naive: interrupted")
        (True, False)
        """
        return status in self.statuses and re.fullmatch(f"semi-naive: {self.pattern}", said, re.DOTALL) is not None


INTERRUPTED = Allowed("interrupted", (130,))
TERMINATED = Allowed("terminated", (143,))
HUNG_UP = Allowed("its terminal is gone", (129,))
JVM_DEAD = Allowed(r"(Spark's Java process (was killed|ended|has ended).*: run again.*|Spark did not start: .*)", (1,))
RUNS_LOST = Allowed("a run is (missing|damaged or cut short): .*", (1,))
NO_ROOM = Allowed(
    "(no space left in .* local_dir .*|.*cannot be written: No space left on device.*|a disk of a host has no room left .*)",
    (1, 2),
)
LIMIT = Allowed(r"evaluation stopped( in .*)?: it has (taken|made) .* \(query_(seconds|bytes)\).*", (1,))
NO_MEMORY = Allowed("(out of memory.*local_tuples.*|Spark did not start: .*)", (1,))
CHECKPOINT_DAMAGED = Allowed(
    "the checkpoint in .* cannot be taken up: .* remove .*|.*manifest.json is damaged .* remove .*", (2,)
)
CHECKPOINT_BUSY = Allowed(".*checkpoint.*(another run|in use|uses).*", (1, 2))

# What a library says in its own words.
STACK = re.compile(
    r"Traceback \(most|^\s+at [\w.$]+\(|py4j|java\.\w+\.|org\.apache|numba\.core|ArrowInvalid|Exception ignored", re.M
)
# Lines that are no errors: what the engine warns of when it goes on, and of it is the same from every JVM.
NOISE = re.compile(
    r"a Python worker or an executor was lost; running the job again|: running the job again$"
    r"|away from its runs: they are sent there"
    r"|^WARNING: Using incubator modules|^Picked up |NOTE: Picked up|runs were lost|^semi-naive: warning"
    r"|^the settings? .* ha(s|ve) no effect: |^serving .* at http://"
)
SPARKS_OWN = re.compile(r"^(spark-|blockmgr-|hsperfdata|liblz4|libzstd|libsnappy|snappy-|lz4-|zstd|libnetty|jffi|executor-)")
SPARKS_ON_CLUSTERS = re.compile(rf"{SPARKS_OWN.pattern}|^\.[-\w]+\.sock$")  # executors are not ours to tidy up after
