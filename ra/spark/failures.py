"""Translate failures of Spark and of the machine into errors of the package, with cause, place and remedy, and without Java's
stack.
"""

import contextlib
import errno
import os
import re

from semi_naive.host import leftovers
from semi_naive.host.limits import LimitExceeded
from semi_naive.host.memory import OutOfMemory, is_memory, out_of_memory
from semi_naive.host.numbers import quantity
from semi_naive.ra.spark import lost
from semi_naive.ra.spark.lost import SparkLost
from semi_naive.ra.spark.masters import on_this_host

DISK_FULL_NUMBERS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
DISK_FULL_TEXTS = [os.strerror(number) for number in sorted(DISK_FULL_NUMBERS)]
TEMPORARY = "TMPDIR names another folder for all that is temporary"
INSTALLED = "every host needs semi-naive, with what it requires, for the Python that PYSPARK_PYTHON names"


class DiskFull(RuntimeError):
    """A disk has no space left for runs or shuffles."""


class JobFailed(RuntimeError):
    """A job failed in a way that a repetition does not cure."""


class WorkerLost(JobFailed):
    """A Python worker or an executor ended during a task."""


WORKER_LOST_TEXTS = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "Connection reset",
    "worker died",
    "EOFException",
)
LOST_EXECUTOR = re.compile(r"\((\S+) executor (\S+)\): ExecutorLostFailure \(.*?\) Reason: (.*)")
CANCELLED = re.compile(r"Job \d+ cancelled(?! because SparkContext)[^\n]*")
MEMORY_HINT = "if its memory was used up, raise spark.executor.memory or spark.executor.memoryOverhead, or set more partitions"
PACKAGE_ERRORS = (DiskFull, JobFailed, LimitExceeded, OutOfMemory, SparkLost)


@contextlib.contextmanager
def translate_failures(sc=lambda: None, folder: str | None = None):
    """Translate failures of Spark, of a full disk and of exhausted memory in the block into errors of the package. sc: returns
    the SparkContext in use, or None. folder: a folder outside of the package's own that the block writes to."""
    try:
        yield
    except Exception as error:
        translated = failure(error, sc(), folder)
        if translated is None:
            raise
        raise translated from error


def failure(error: Exception, sc=None, folder: str | None = None) -> Exception | None:
    """Return the package's error for a failure of Spark, of a full disk or of memory; None for any other error, and for one of
    the package."""
    if isinstance(error, PACKAGE_ERRORS):
        return None
    connection_lost = isinstance(error, (ConnectionError, EOFError)) and sc is not None and lost.is_lost(sc)
    if connection_lost or type(error).__module__.split(".")[0] in ("py4j", "pyspark"):
        return job_failure(error, sc, folder)
    if isinstance(error, OSError) and error.errno in DISK_FULL_NUMBERS:
        return disk_full(sc, folder)
    return out_of_memory(error) if is_memory(error) else None


def job_failure(error: Exception, sc=None, folder: str | None = None) -> Exception:
    """Return the package's error for Spark's report of a failed job."""
    text = str(error)
    if isinstance(error, PACKAGE_ERRORS):
        return error
    if sc is not None and lost.is_lost(sc):  # this is then the cause of the report
        return lost.lost_error(sc._gateway)
    if any(disk_full_text in text for disk_full_text in DISK_FULL_TEXTS):
        return disk_full(sc, folder)
    if is_memory(text):
        return out_of_memory(text)
    if cancelled := CANCELLED.search(text):
        return JobFailed(f"the run was cancelled from outside: Spark says {cancelled[0]!r}")
    if worker_output := _start_error_of_worker(text):
        return JobFailed(f"a Python worker of Spark did not start: {worker_output}\n  {INSTALLED}")
    is_worker_lost = any(sign in text for sign in WORKER_LOST_TEXTS)
    return WorkerLost(_cause(text)) if is_worker_lost else JobFailed(_cause(text))


def disk_full(sc=None, folder: str | None = None) -> DiskFull:
    """Return the error for a full disk. It names the fullest of the folders that the engine writes to, and the setting that
    selects another."""
    if sc is not None and not on_this_host(sc.master):
        return DiskFull(
            "a disk of a host has no room left for runs or for what Spark shuffles: the setting local_dir names another"
            " folder for runs, Spark's spark.local.dir (SPARK_LOCAL_DIRS) one for shuffles"
        )
    import shutil

    free, fullest = min((shutil.disk_usage(name).free, name) for name in _folders(sc, folder))
    return DiskFull(
        f"no space left in {fullest} ({quantity(free, 'byte')} free): the setting local_dir names another folder for runs;"
        f" {TEMPORARY}, also for what Spark shuffles (in a Spark session of your own that is spark.local.dir)"
    )


def _folders(sc, folder: str | None) -> list[str]:
    """Return the folders that evaluations of this process write to."""
    names = {os.path.dirname(path) for path in leftovers.folders()} | {folder}
    with contextlib.suppress(Exception):  # there is no context, or it is lost
        names.add(sc.getConf().get("spark.local.dir"))
    return [name for name in names if name and os.path.isdir(name)] or [os.getcwd()]


def _start_error_of_worker(text: str) -> str:
    """Return the last line of output of a Python worker that ended at its start, from Spark's report; "" if there is none.
    Usually the worker could not import a module, so a repetition is useless."""
    _, found, after = text.partition("Error from python worker:\n")
    lines = [line.strip() for line in after.partition("PYTHONPATH was:")[0].splitlines()]
    return next((line for line in reversed(lines) if line), "") if found else ""


def _cause(text: str) -> str:
    """Return the essential line of Spark's report: the executor that was lost, or the Python error in a worker's traceback."""
    if match := LOST_EXECUTOR.search(text):
        host, number, reason = match.groups()
        return f"executor {number} on {host} was lost: {reason.strip()}\n  {MEMORY_HINT}"
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "\t", "Traceback"))]
    python_errors = [line for line in lines if ": " in line and line.split(":")[0].isidentifier()]
    java_causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    task_failures = re.findall(r"most recent failure: .*?\): (\S+: \S.*)", text)
    return [*(lines[:1] or [text]), *java_causes, *task_failures, *python_errors][-1]  # the most specific kind is last
