"""What tests share: one Spark session of two cores, the command line, and which random cases are looked at."""

import logging
import math
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from cluster_outcome import begin, shared
from hypothesis import is_hypothesis_test, settings

from bench.fuzz.checks import load_machine
from bench.fuzz.jobs_here import in_this_process
from bench.fuzz.rounds import TIMES
from bench.private_cluster import refused
from semi_naive.__main__ import main
from semi_naive.host.exclusive import exclusive
from semi_naive.ra.spark import spark_context
from semi_naive.ra.text.symbols import SymbolTable
from semi_naive.ra.values.values import Values

# Each room of tests/ has the name of the room of the house that it tests. Tests of one may use what those of another share.
sys.path += [str(room) for room in sorted(Path(__file__).parent.iterdir()) if room.is_dir()]

# A JVM of a few minutes does not win back what its second compiler takes: starting Spark, 10.6 s of CPU time and 5.9 without.
# With the classes that `make` has kept a third less, and with a data frame 8 s in place of 14.
CLASSES = Path(sys.prefix, "spark.jsa")
KEPT = f" -XX:SharedArchiveFile={CLASSES} -Xlog:cds=off -Xlog:cds+dynamic=off" if CLASSES.exists() else ""
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:TieredStopAtLevel=1{KEPT}")

# Commands that the tests start are sent signals. Who runs the tests in the background, or by nohup, has them ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# They take half a minute and more each: where files are shared among processes, one that began last would be waited for.
FIRST = [f"test_{name}.py" for name in ("failure", "paper", "session_random", "uncompiled", "datalog_engine", "faults")]
LAST = "test_cluster.py"  # of what began with the first


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Processes collect one after the other: what the first compiles, of tests and of packages, the others load."""
    is_worker = hasattr(session.config, "workerinput")
    with exclusive(Path(sys.prefix, ".collecting")) if is_worker else nullcontext():
        return (yield)


LEAST_EXAMPLES = 6  # of a test of hypothesis, if it has as many


def pytest_collection_modifyitems(items):
    for test in {getattr(item.obj, "__func__", item.obj) for item in items if is_hypothesis_test(getattr(item, "obj", None))}:
        most = test._hypothesis_internal_use_settings.max_examples  # no public name changes it once a test has settings
        fewer = max(min(most, LEAST_EXAMPLES), math.ceil(TIMES * most))
        test._hypothesis_internal_use_settings = settings(test._hypothesis_internal_use_settings, max_examples=fewer)
    items.sort(
        key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST) + (item.path.name == LAST)
    )


@pytest.fixture(scope="session", autouse=True)
def cluster_beside(request, tmp_path_factory):
    """The driver on a cluster runs beside the other tests."""
    if any(item.path.name == LAST for item in request.session.items) and not refused():
        begin(shared(tmp_path_factory))


@pytest.fixture(scope="session")
def spark():
    """Failed tasks are tried again."""
    return spark_context.start(cores=2)


@pytest.fixture(scope="session")
def here():
    """In place of Spark, for evaluations of hundreds of jobs: they run in this process (see `jobs_here`)."""
    with in_this_process() as context:
        yield context


@pytest.fixture(scope="session")
def machine():
    """Compiled, or loaded: small iterations go there from the first one on."""
    load_machine()


@pytest.fixture
def processes(monkeypatch):
    """Every run has symbols of its own, as in a process of its own, and saves at the end of each stratum."""

    def values():
        table = SymbolTable()
        table.intern([f"junk {i}" for i in range(np.random.default_rng().integers(1, 50))])
        return Values(table)

    monkeypatch.setattr("semi_naive.running.progress.state.Values", values)
    monkeypatch.setattr("semi_naive.running.progress.checkpoint.CHECKPOINT_SECONDS", -1.0)


@pytest.fixture(autouse=True)
def warnings_are_told():
    """A command with --no-warn has the process say less."""
    logger = logging.getLogger("semi_naive")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run the command in `tmp_path`; returns (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        status = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            status = stop.code or 0
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def patient(monkeypatch):
    """Maintenance has no budget: a stratum is never computed anew because its maintenance takes too long."""
    monkeypatch.setattr("semi_naive.session.maintenance.recomputation.MIN_BUDGET", math.inf)


@pytest.fixture
def many_edges(monkeypatch):
    """However few edges a closure follows, they count as many: it follows by its rules."""
    monkeypatch.setattr("semi_naive.session.maintenance.closures.MAX_QUICK_EDGES", -1)


@pytest.fixture
def anew(monkeypatch):
    """The relations of the strata that have been computed anew in transactions."""
    from semi_naive.session.maintenance.recomputation import Recomputation

    strata = []
    again = Recomputation.recompute

    def told(recomputation, number, before):
        strata.append(recomputation.run.strata[number].relations)
        return again(recomputation, number, before)

    monkeypatch.setattr(Recomputation, "recompute", told)
    return strata


@pytest.fixture
def thin(monkeypatch):
    """Blocks are not copied for what is gone, however small they are, and searched for however many bindings."""
    monkeypatch.setattr("semi_naive.ra.blocks.thinned.MIN_THINNED_SIZE", 0)
    monkeypatch.setattr("semi_naive.ra.blocks.thinned.MAX_DROPPED_FRACTION", 1.0)
    monkeypatch.setattr("semi_naive.ra.blocks.thinned.TUPLES_PER_SEARCH", 0)
    monkeypatch.setattr("semi_naive.ra.blocks.changes.SEARCH_RATIO", 0)


@pytest.fixture
def guarded(request, monkeypatch):
    """Recursive strata know their ticks from the beginning; which relations have been guarded, without the machine."""
    from semi_naive.ra.rules.ages import Older
    from semi_naive.ra.rules.exists import Without
    from semi_naive.session.maintenance.recomputation import Recomputation

    relations, anew, drop = set(), Recomputation.compute, Without.__call__

    def timed(recomputation, number):
        recomputation.relations.closures.pop(number, None)  # it is detected again if there are no ticks
        if recomputation.may_have_ticks(number):
            recomputation.wants_ticks[number] = True
        anew(recomputation, number)

    def told(without, batch, context):
        for left in drop(without, batch, context):
            if left.size < batch.size:
                relations.update(step.relation for step in without.steps if isinstance(step, Older))
            yield left

    if "machine" not in request.fixturenames:  # whoever has loaded it before
        for module in ("running.driver.local", "session.maintenance.incremental"):
            monkeypatch.setattr(f"semi_naive.{module}.machine_is_ready", lambda spent: False)
    monkeypatch.setattr("semi_naive.ra.rules.ages.MIN_DIRECTORY_TUPLES", 1)
    monkeypatch.setattr(Recomputation, "compute", timed)
    monkeypatch.setattr(Without, "__call__", told)
    return relations


# The same cases every time, so that a change is judged by its own doing; HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)  # however busy the machine
settings.register_profile("search", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture
def implied(monkeypatch):
    """However small a closure is, it is known by its edges, and changes are counted."""
    monkeypatch.setattr("semi_naive.session.maintenance.recomputation.MIN_JOB_EDGES", 0)
    for name, value in {"MIN_IMPLIED_PAIRS": 1, "MAX_PAIRS_AT_ONCE": 0}.items():
        monkeypatch.setattr(f"semi_naive.session.maintenance.implied.{name}", value)
