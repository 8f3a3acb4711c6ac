"""Detect a Spark whose Java process has ended, report it in one error, and reset pyspark so that another one can be started."""

import contextlib
import warnings

from semi_naive.host import leftovers

ENDING_SECONDS = 2.0  # that a Java process may take to end after its connection was closed
REMEDY_FOR_OURS = "run again, and another one is started"
REMEDY_FOR_USERS = "start a new SparkSession, and run again"


class SparkLost(RuntimeError):
    """The Java process of Spark has ended, or its context was stopped; the data it held is gone."""


class RunsLost(RuntimeError):
    """Runs are lost with their executor or disk; the fixpoint returns to its last checkpoint, or to the start."""


def is_lost(sc) -> bool:
    """True if a SparkContext can no longer be used. Costs a call of Java, a third of a millisecond."""
    if not hasattr(sc, "_jsc"):  # a stand-in for a SparkContext
        return False
    if sc._jsc is None or ended(sc._gateway):
        return True
    try:
        return bool(sc._jsc.sc().isStopped())
    except Exception:  # py4j raises different errors if the connection is closed
        return True


def ended(gateway, patience: float = 0.0) -> bool:
    """True if the Java process of pyspark's connection has ended, or ends within `patience` seconds."""
    process = getattr(gateway, "proc", None)
    return process is not None and _status(process, patience) is not None


def lost_error(gateway) -> SparkLost:
    """Return the error for a lost context, with the remedy for a context of the engine or of the user."""
    process = getattr(gateway, "proc", None)
    status = _status(process, ENDING_SECONDS) if process is not None else None
    how = "has ended" if status is None else f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    what = f"Spark's Java process {how}" if process is None or status is not None else "the SparkContext was stopped"
    return SparkLost(f"{what}: {REMEDY_FOR_OURS if leftovers.is_ours(process) else REMEDY_FOR_USERS}")


def _status(process, patience: float) -> int | None:
    """Return the exit status of a process, or None if it still runs after `patience` seconds."""
    import subprocess

    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(patience) if patience else process.poll()
    return None


def forget_context(sc=None) -> None:
    """Reset pyspark's references to a context that is lost or was never made, and to its Java process if that has ended.

    pyspark does not do so itself and has no function for it. A test checks that the private names used here exist.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with warnings.catch_warnings(), contextlib.suppress(Exception):  # it warns that Java has crashed
        warnings.simplefilter("ignore")
        if sc is not None:
            sc.stop()
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    gateway = SparkContext._gateway
    if gateway is not None and ended(gateway):
        with contextlib.suppress(Exception):
            gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
