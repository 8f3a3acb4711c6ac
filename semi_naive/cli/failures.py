"""The message and the exit status of a command that an error ends."""

import sys
from collections.abc import Mapping

from semi_naive.host.optional_packages import NotInstalled
from semi_naive.io.errors import BadInput

BAD_INPUT_STATUS = 2  # exit status of bad input and bad usage
# Errors of valid runs, by the module of the class. A module that is not loaded has raised nothing, and loading it to find out
# takes as long as a small program.
FAILURES = {
    "semi_naive.ra.spark.failures": ("DiskFull", "JobFailed"),
    "semi_naive.ra.spark.java": ("NotStarted",),
    "semi_naive.ra.spark.lost": ("RunsLost", "SparkLost"),
    "semi_naive.host.limits": ("LimitExceeded",),
    "semi_naive.host.memory": ("OutOfMemory",),
    "semi_naive.ra.text.ids": ("UnknownId",),
    "semi_naive.ra.expressions.arithmetic": ("EvaluationError",),
}
MISSING = {"semi_naive.ra.spark.java": ("NoJava",)}  # errors of missing programs, as above; with the status of bad input


def text_and_status(failed: Exception) -> tuple[str, int] | None:
    """Return the text of an expected error and the exit status, 1 for a run that failed; None for any other error."""
    names_file = getattr(failed, "filename", None) is not None
    error = (None if names_file else _error_of_spark(failed)) or failed
    is_failure = _is_of(error, FAILURES)
    if not is_failure and not _is_of(error, MISSING) and not isinstance(error, (ValueError, NotInstalled, OSError)):
        return None
    text = message(error)
    if names_file and isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    return text, 1 if is_failure else BAD_INPUT_STATUS


def message(error: Exception) -> str:
    """Return the text of an error, with the hints of the command line; a KeyError would quote its own."""
    if isinstance(error, BadInput):
        return str(error.in_shell())
    return str(error.args[0] if isinstance(error, KeyError) and error.args else error)


def _error_of_spark(error: Exception) -> Exception | None:
    """Return the error of this package for an error that Spark has caused, such as a full disk; None for any other."""
    failures, spark = (sys.modules.get(name) for name in ("semi_naive.ra.spark.failures", "pyspark"))
    return failures.failure(error, spark and spark.SparkContext._active_spark_context) if failures else None


def _is_of(error: Exception, classes_of: Mapping[str, tuple[str, ...]]) -> bool:
    """True if an error is of one of some classes, given by module. A module need not be loaded."""
    loaded = [(sys.modules[module], names) for module, names in classes_of.items() if module in sys.modules]
    classes = (getattr(module, name, None) for module, names in loaded for name in names)  # another thread may be loading it
    return isinstance(error, tuple(filter(None, classes)))
