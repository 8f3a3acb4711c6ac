"""What the processes of a host have in common, and one of them makes: the first that needs it, while the others wait.

The lock is the system's (flock), so it ends with the process that has it, however that ends. It saves work and keeps
nothing right: whoever makes something writes it under another name and renames it, so two who do so do no harm.
"""

import contextlib
import hashlib
import logging
import os
import pickle
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TypeVar

try:
    import fcntl
except ImportError:  # not on Windows: there everybody makes everything
    fcntl = None

log = logging.getLogger("semi_naive")

LOOK = 0.005  # seconds between two looks at a lock
PATIENCE = 60.0  # seconds to wait for another process: what it makes takes 3, ten times that on a busy machine

Made = TypeVar("Made")


def once(path: str, make: Callable[[], Made], patience: float = PATIENCE) -> Made:
    """What `make` returns, pickled in a file: the first process of the host to ask makes it, the others read it.

    Something small, such as handles of files that `make` has written. The caller answers for the path's directory: what is
    read there is believed.
    """
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with alone(f"{path}.lock", patience):
            if not os.path.exists(path):
                _publish(path, pickle.dumps(make()))
    with open(path, "rb") as file:
        return pickle.load(file)


def _publish(path: str, data: bytes) -> None:
    partial = f"{path}.{uuid.uuid4().hex}.partial"
    with open(partial, "wb") as file:
        file.write(data)
    os.replace(partial, path)


def digest(*things) -> str:
    """A file's name, the same in every process for what is written alike."""
    return hashlib.sha256(repr(things).encode()).hexdigest()[:24]


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
            file = open(path, "ab")
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
