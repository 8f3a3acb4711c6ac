"""Mutual exclusion among the processes of a host: one process makes something while the others that need it wait.

The lock is the system's (flock), so the end of a process always releases it. It only saves work: correctness does not depend on
it, as files are written under temporary names and renamed, so two processes that make the same file do no harm. A fork closes
its copies of its parent's locks.
"""

import contextlib
import logging
import os
import time
from collections.abc import Iterator
from functools import partial

from semi_naive.host.interrupts import afterwards
from semi_naive.host.private import opener

try:
    import fcntl
except ImportError:  # missing on Windows, where each process makes everything itself
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("semi_naive")

_files: set = set()  # files of the locks that this process holds

POLL_SECONDS = 0.005  # seconds between two attempts to get a lock
LOCK_TIMEOUT_SECONDS = 60.0  # seconds to wait for another process, which takes 3, or ten times as long on a busy machine


@contextlib.contextmanager
def exclusive(path: str | os.PathLike, patience: float = LOCK_TIMEOUT_SECONDS) -> Iterator[bool]:
    """Hold the lock of a path, exclusively on this host; the lock file is removed afterwards.

    Yields False if this process continues without the lock: after `patience` seconds, or if files cannot be locked.
    """
    opened: list = []
    with afterwards(partial(_release, path, opened)):
        yield _lock(path, patience, opened)


def _lock(path, patience: float, opened: list) -> bool:
    """Lock the file of a path, and append it to `opened`. Return False after a timeout, or if it cannot be locked."""
    deadline = time.monotonic() + patience
    try:
        while fcntl is not None:
            opened.append(open(path, "ab", opener=opener))
            _wait_for_lock(opened[0], deadline)
            if _is_file_at(opened[0], path):  # otherwise the last holder has removed the file
                _files.add(opened[0])
                return True
            opened.pop().close()
    except OSError as error:
        log.info("going on without the lock %s: %s", path, error)
    return False


def _release(path, opened: list) -> None:
    """Release a lock and remove its file."""
    for file in opened:
        if file in _files and not file.closed:
            _files.discard(file)
            with contextlib.suppress(OSError):
                os.unlink(path)  # while it is locked: the next process to lock this file then notices (`_is_file_at`)
            fcntl.flock(file, fcntl.LOCK_UN)  # also releases a copy in a process that a library forked
        file.close()


def _close_copies() -> None:
    """Close the copies of the parent's lock files, in a forked process."""
    while _files:
        _files.pop().close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_copies)


def _wait_for_lock(file, deadline: float) -> None:
    """Lock an open file. Raises TimeoutError if another process still holds the lock at the deadline."""
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError("another process holds the lock") from None
            time.sleep(POLL_SECONDS)


def _is_file_at(file, path) -> bool:
    """True if a path still names an open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
