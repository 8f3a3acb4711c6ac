"""Clean up at the end of the process: end child processes, and remove temporary files.

This is done when Python ends, or by `end` if it ends at once. A process that is killed by signal 9 cannot clean up: then
children end by themselves (`ra.spark.java`), or a later process removes the files (`Store.create`).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

ORDERLY_END_SECONDS = 5.0  # seconds that a process has to end after its standard input is closed
SECOND_REMOVAL_SECONDS = 0.1  # seconds after which paths are removed again: ending processes may have written there

_processes: list[tuple[int, subprocess.Popen]] = []  # (id of the process that registered it, process)
_paths: dict[str, int] = {}  # with the id of the process that registered it; forks of that process do not remove it


def add(path: str) -> None:
    """Register a file or folder to be removed at exit, if it still exists."""
    _paths[path] = os.getpid()


def forget(path: str) -> None:
    """Undo `add`."""
    _paths.pop(path, None)


def add_process(process: subprocess.Popen) -> None:
    """Register a process to be ended at exit. It leads a session of its own, and ends when its standard input is closed."""
    _processes.append((os.getpid(), process))


def is_ours(process: subprocess.Popen | None) -> bool:
    """True if a process is registered to be ended at exit."""
    return any(registered is process for _, registered in _processes)


def folders() -> list[str]:
    """Return the registered files and folders."""
    return list(_paths)


def end_process(process: subprocess.Popen, patience: float = ORDERLY_END_SECONDS) -> None:
    """Close a process's standard input, and kill its process group unless it has ended in time."""
    _processes[:] = [(started, other) for started, other in _processes if other is not process]
    with contextlib.suppress(OSError):
        if process.stdin:
            process.stdin.close()
    import subprocess

    with contextlib.suppress(subprocess.TimeoutExpired):
        return_code = process.wait(patience) if patience else process.poll()
        if return_code is not None:
            return
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end(patience: float = 0.0) -> None:
    """End all registered processes and remove all paths; by default without waiting."""
    ours = os.getpid()
    ended = [process for started, process in list(_processes) if started == ours]
    for process in ended:
        end_process(process, patience)
    paths = [path for path, registrar in list(_paths.items()) if registrar == ours]
    for path in paths:
        _remove(path)
    if ended and not patience:  # processes that were not waited for may have written there meanwhile
        time.sleep(SECOND_REMOVAL_SECONDS)
        for path in paths:
            _remove(path)
    _paths.clear()


def _remove(path: str) -> None:
    """Remove a file or folder, if it exists."""
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil

        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)


@atexit.register
def _at_exit() -> None:
    end(ORDERLY_END_SECONDS)
