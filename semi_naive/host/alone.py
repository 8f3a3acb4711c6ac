"""What the processes of a host do one at a time: one of them makes something, while the others that need it wait.

The lock is the system's (flock), so it ends with the process that has it, however that ends. It saves work and keeps
nothing right: whoever makes something writes it under another name and renames it, so two who do so do no harm.
"""

import contextlib
import logging
import os
import time
from collections.abc import Iterator

from semi_naive.host.private import opener

try:
    import fcntl
except ImportError:  # not on Windows: there everybody makes everything
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("semi_naive")

LOOK = 0.005  # seconds between two looks at a lock
PATIENCE = 60.0  # seconds to wait for another process: what it makes takes 3, ten times that on a busy machine


@contextlib.contextmanager
def alone(path: str | os.PathLike, patience: float = PATIENCE) -> Iterator[bool]:
    """Be the only process of the host in here with that path; the lock file is gone afterwards.

    False if this one goes on without being so: after `patience` seconds, or where files cannot be locked.
    """
    file = _locked(path, patience)
    try:
        yield file is not None
    finally:
        if file is not None:
            with contextlib.suppress(OSError):
                os.unlink(path)
            fcntl.flock(file, fcntl.LOCK_UN)  # also for a copy that a forked process may have
            file.close()


def _locked(path, patience: float):
    """The lock file, open and ours; None where that takes too long or cannot be."""
    until = time.monotonic() + patience
    try:
        while fcntl is not None:
            file = open(path, "ab", opener=opener)
            if _taken(file, until) and _is_at(file, path):  # else whoever had it has removed the file
                return file
            file.close()
    except OSError as error:
        log.info("going on without the lock %s: %s", path, error)
    return None


def _taken(file, until: float) -> bool:
    """True once it is; TimeoutError."""
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError("another process has not finished what it makes") from None
            time.sleep(LOOK)


def _is_at(file, path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
