"""On two hosts that share no disk (see `private_cluster`): the answers of one process; nothing is left; an executor killed."""

import warnings

import pytest
from cluster_outcome import outcome, shared

from bench.private_cluster import refused

CASES = [
    "reachability", "same generation", "strings, negation, aggregates", "partitioned: strings, negation, aggregates",
    "partitioned: same generation", "partitioned: triangles", "closure",
    "closure of names, balanced: batches, files, frames", "closure of names, decomposed: batches, files, frames",
    "triangles as a rule", "triangles, leapfrog",
    "triangles, boxed", "triangles, bigjoin", "facts as a DataFrame", "results as a DataFrame", "results in files",
    "facts of strings as a DataFrame", "a session", "a session by copies", "a busy host", "killed", "after it",
    "a session whose host was lost",
]  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """See `cluster_outcome.outcome`."""
    if reason := refused():
        text = f"NOT TESTED: whether programs run on hosts that share no disk. No namespace can be made here: {reason}"
        warnings.warn(text, stacklevel=1)
        pytest.skip(text)
    return outcome(shared(tmp_path_factory))


@pytest.mark.parametrize("case", CASES)
def test_the_answers_are_those_of_one_process(told, case):
    assert case in told, told["said"][-3000:]
    assert told[case]["right"], told[case]


def test_strata_are_on_the_partitions(told):
    assert "balanced" in told["same generation"]["plans"] and set(told["reachability"]["plans"]) == {"balanced"}


def test_no_host_holds_more_than_a_fair_share_of_partitioned_facts(told):
    held = [share for case in CASES if case.startswith("partitioned") for share in told[case]["held"]]
    assert held and max(held) <= 0.6


def test_runs_follow_a_partition_to_another_host(told):
    assert "away from its runs" in told["said"]


def test_a_killed_executor_is_one_clear_error(told):
    assert told["killed"]["error"] is None or "a run is missing" in told["killed"]["error"]


def test_nothing_is_left_on_the_hosts(told):
    assert told["status"] == 0 and len(told["left"]) <= 4, told["left"]  # of a session and of a run, when a host is lost
