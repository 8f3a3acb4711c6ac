"""On two hosts that share no disk (see `private_cluster`): the answers of one process; nothing is left; an executor killed."""

import json
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

from bench.private_cluster import private_cluster, refused

CASES = [
    "reachability", "same generation", "strings, negation, aggregates", "partitioned: strings, negation, aggregates",
    "partitioned: same generation", "partitioned: triangles", "closure",
    "closure of names, balanced: batches, files, frames", "closure of names, decomposed: batches, files, frames",
    "triangles as a rule", "triangles, leapfrog",
    "triangles, boxed", "triangles, bigjoin", "facts as a DataFrame", "results as a DataFrame", "results in files",
    "facts of strings as a DataFrame", "a session", "a busy host", "killed", "after it", "a session whose host was lost",
]  # fmt: skip

LONGEST = 1800  # seconds that all cases may take: three minutes where nothing else runs, and fifteen on a busy machine


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the driver says of its cases, by name; `left`: what is on the hosts before the executor is killed; `said`."""
    if reason := refused():
        text = f"NOT TESTED: whether programs run on hosts that share no disk. No namespace can be made here: {reason}"
        warnings.warn(text, stacklevel=1)
        pytest.skip(text)
    folder, logs = tmp_path_factory.mktemp("disk"), tmp_path_factory.mktemp("logs")
    with private_cluster(folder, logs) as cluster, open(logs / "driver", "w+") as errors:
        driver = subprocess.Popen(
            [sys.executable, Path(__file__).parents[1] / "on_cluster.py", cluster.master],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=cluster.environment(),
        )  # fmt: skip
        found, late = {}, threading.Timer(LONGEST, driver.kill)
        late.start()
        for line in driver.stdout:
            if line == "kill\n":
                found["left"] = cluster.left()
                cluster.an_executor().kill()
            elif line != "stop\n":
                found |= {case["case"]: case for case in [json.loads(line)]}
                continue
            driver.stdin.write("\n")
            driver.stdin.flush()
        late.cancel()
        errors.seek(0)
        found["said"], found["status"] = errors.read(), driver.wait(60)
        yield found


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
