"""Helpers of tests of small deltas: run a program a tuple at a time, by threads, and a block at a time, and compare."""

from contextlib import contextmanager

import pytest

from semi_naive import EvaluationError, Program
from semi_naive.ra.tuple_at_a_time import sharing, stratum
from semi_naive.running.driver import small

BLOCKS = {"small_delta": 0}
used = []


@pytest.fixture(autouse=True)
def machines(machine, monkeypatch):
    """Every machine that a test has run, so that none passes without one."""
    used.clear()
    run = stratum.Interpreter.run

    def counted(self, *arguments):
        used.append(self)
        return run(self, *arguments)

    monkeypatch.setattr(stratum.Interpreter, "run", counted)


def answers(text: str, facts: dict, **options):
    """All tuples of the outputs, how often each rule has run, and what was born of it but in a lattice; or what the error
    says."""
    try:
        with Program(text).run(facts, **options) as result:
            told = ("iterations",) if "min(w)" in text or "max(w)" in text else ("iterations", "tuples")
            rules = sorted((rule["rule"], rule["line"], *map(rule.get, told)) for rule in result.trace["profile"]["rules"])
            return {name: sorted(result[name].to_list()) for name in result}, rules
    except EvaluationError as error:
        return str(error)


@contextmanager
def sharing_all(threads: int = 3):
    """Every iteration of every machine is shared, of each delta two rows at a time."""

    def made(*given, **options):
        return stratum.Interpreter(*given, **options | {"cores": threads})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stratum, "MIN_SHARED_DELTA_TUPLES", 1)
        patch.setattr(sharing, "ROWS_PER_TURN", 2)
        patch.setattr(small, "Interpreter", made)
        yield


def agree(text: str, facts: dict, **options):
    """Evaluate a program in all ways, and return their common answer."""
    by_tuples, by_blocks = answers(text, facts, **options), answers(text, facts, **options | BLOCKS)
    assert used, "no machine was used"
    alone = list(used)
    with sharing_all():
        by_threads = answers(text, facts, **options)
    assert used[-1].shares, "no iteration was shared"
    used[:] = alone
    assert repr(by_tuples) == repr(by_blocks)  # by which -0.0 is not 0.0, and a nan is itself
    assert repr(by_threads) == repr(by_blocks)
    return by_tuples


def grown(size: int) -> str:
    return f".decl a(x: number, y: number)\n.output a\na(0, 0).\na(x + 1, y) :- a(x, y), x < {size}.\n"
