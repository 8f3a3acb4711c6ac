"""Runs a command and watches it: `python -m bench.watched SECONDS FILE COMMAND...` writes what it took to FILE, as JSON.

A small process of its own, as the kernel counts the memory of the process that starts a command as the command's. The
processor time is that of all descendants, also those that outlive their parent (Spark's Java): this process adopts them.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import threading
import time
from glob import glob
from pathlib import Path

EVERY = 0.1  # seconds between looks at the memory of several processes
PR_SET_CHILD_SUBREAPER = 36  # of Linux's prctl


def main(timeout: str, file: str, *command: str) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    begun = time.perf_counter()
    child = os.fork()
    if not child:
        os.setsid()
        os.execvp(command[0], command)
    stopped, ended, peaks = threading.Event(), threading.Event(), [0]
    alarm = threading.Timer(float(timeout), lambda: (stopped.set(), os.killpg(child, signal.SIGKILL)))
    alarm.daemon = True
    alarm.start()
    threading.Thread(target=look, args=(child, peaks, ended), daemon=True).start()
    _, status = os.waitpid(child, 0)
    seconds = time.perf_counter() - begun
    ended.set()
    alarm.cancel()
    adopted(stopped.is_set() and child)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024
    found = {
        "seconds": seconds, "processor": used.ru_utime + used.ru_stime, "bytes": max(used.ru_maxrss * unit, *peaks),
        "status": os.waitstatus_to_exitcode(status), "stopped": stopped.is_set(),
    }  # fmt: skip
    with open(file, "w") as out:
        json.dump(found, out)


def adopted(group: int) -> None:
    """Wait for descendants that have outlived the command; kill them if the command was stopped."""
    try:
        while True:
            if group:
                os.killpg(group, signal.SIGKILL)
            os.wait()
    except (ChildProcessError, ProcessLookupError):
        pass


def look(root: int, peaks: list[int], ended: threading.Event) -> None:
    """Keep the greatest sum of the memory of a process and its descendants, if it ever has some."""
    while not ended.wait(EVERY):
        if several(root):
            import psutil

            from bench.memory import now

            try:
                sums = now(psutil.Process(root))
            except psutil.Error:
                return
            peaks.append(sums["python"] + sums["jvm"])


def several(root: int) -> bool:
    """True if a process has children; False where the system does not say so."""
    try:
        return any(Path(each, "children").read_text() for each in glob(f"/proc/{root}/task/*"))
    except OSError:
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
