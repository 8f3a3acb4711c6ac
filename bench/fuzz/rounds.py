"""Random tests: a test runs on cases that are made by seed, and one that fails is reported together with a smaller one.

@random_cases(80, without={"wide"})
def test_something(case, random, tmp_path): ...
"""

import inspect
import math
import os
import time
import zlib
from collections.abc import Callable, Sequence
from random import Random

from bench.fuzz.random_programs import random_case
from semi_naive import ProgramError

TIMES = float(os.environ.get("FUZZ_TIMES", 0.25))  # the share of the cases that a run of the tests takes; `make fuzz` takes all
SEED = int(os.environ.get("FUZZ_SEED", 0))  # added to the seeds: the same cases in every run, or new ones
SHRINKING = 20  # seconds


def random_cases(count: int, make: Callable = random_case, **options):
    """Run the decorated test on so many cases. Its first arguments are a case and a `random.Random` for its own choices; all
    others are fixtures of pytest."""
    import pytest

    def decorate(test):
        def run(**fixtures):
            begin = zlib.crc32(test.__qualname__.encode()) % 1_000_000 + SEED
            for seed in range(begin, begin + math.ceil(count * TIMES)):
                judge(make(Random(seed), **options), seed, lambda case, seed=seed: test(case, Random(seed), **fixtures))

        parameters = [*inspect.signature(test).parameters.values()][2:]
        run.__signature__ = inspect.Signature(parameters)
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(run, name, getattr(test, name))
        run.pytestmark = [pytest.mark.random.mark, *getattr(test, "pytestmark", ())]
        return run

    return decorate


def in_turn(seed: int, ways: Sequence) -> Sequence:
    """Return those of the ways to evaluate the case of a seed that it tries: the next cases try the others, until each way has
    been tried. Where all cases run (`TIMES`), each tries every way."""
    apart = min(len(ways), max(1, round(1 / TIMES)))
    return ways[seed % apart :: apart]


def judge(case, seed: int, check: Callable) -> None:
    """Raise an AssertionError that tells the seed, the case, the error, and a smaller case, if the check raises any error."""
    case.seed = seed
    if (error := raised(check, case)) is not None:
        smaller = shrunk(case, lambda other: kind_of(raised(check, other)) == kind_of(error))
        told = f"seed {seed}: {told_of(error)}\n{case}\n\na smaller case: {told_of(raised(check, smaller))}\n{smaller}"
        raise AssertionError(told) from (None if isinstance(error, ProgramError) else error)


def told_of(error: Exception | None) -> str:
    """The error, without warnings beside it."""
    if isinstance(error, ProgramError):
        error.problems = [each for each in error.problems if each.severity == "Error"]
        return error.render()
    return f"{type(error).__name__}: {error}" if error else "none any more"


def kind_of(error: Exception | None) -> tuple:
    """What errors of the same cause have in common, as far as that can be told."""
    if isinstance(error, ProgramError):
        return type(error), next(each.message for each in error.problems if each.severity == "Error")
    return type(error), "" if isinstance(error, AssertionError) else str(error).split()[:6]


def raised(check: Callable, case) -> Exception | None:
    try:
        check(case)
    except Exception as error:
        return error
    return None


def shrunk(case, fails: Callable, seconds: float = SHRINKING):
    """The case without all parts that it fails without: tried by halves, by quarters, …, one by one."""
    until, parts, gone = time.monotonic() + seconds, case.parts(), set()
    size = len(parts)
    while size > 1 or gone:
        size, before = max(1, size // 2), len(gone)
        for begin in range(0, len(parts), size):
            some = gone | set(parts[begin : begin + size])
            if some != gone and time.monotonic() < until and fails(case.without(some)):
                gone = some
        if size == 1 and len(gone) == before:
            break
    smaller = case.without(gone)
    return smaller.trimmed() if fails(smaller.trimmed()) else smaller
