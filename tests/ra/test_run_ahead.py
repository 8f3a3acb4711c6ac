"""Many iterations in one job: the same tuples, born in the same iterations, as one job an iteration makes."""

from math import inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz.oracle import closure
from semi_naive import Config, Program
from semi_naive.balance.record import checked
from semi_naive.balance.trace import VERSION

DECLARED = """
.decl base(x: number, y: number)
.decl edge(x: number, y: number)
.decl back(x: number, y: number)
.decl path(x: number, y: number)
.input base
.input edge
.input back
.output path
path(x, y) :- base(x, y).
"""
FORWARD = "path(x, z) :- path(x, y), edge(y, z).\npath(x, z) :- back(z, y), path(x, y)."
BACKWARD = "path(x, z) :- edge(x, y), path(y, z)."
LAYOUTS = [
    {"partitions": 1},
    {"partitions": 3, "buckets": 5},
    {"partitions": 2, "buckets": 4, "rollover_threshold": 1},
    {"partitions": 3, "buckets": 3, "refinement_minimum": 1, "tolerance": 1.0, "grain": 0.1, "horizon": inf},
]
pairs = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), max_size=60)


def births(record) -> list[int]:
    return [born for entry in record["iterations"] for born in entry["births"] if born]


@pytest.mark.parametrize("options", LAYOUTS, ids=str)
@settings(max_examples=15)
@given(base=pairs, edge=pairs, back=pairs)
def test_random_walks(here, options, base, edge, back):
    facts = {"base": base, "edge": edge, "back": back}
    for rules, known in (
        (FORWARD, closure(edge + [(b, a) for a, b in back], begin=base)),
        (BACKWARD, {(z, x) for x, z in closure([(b, a) for a, b in edge], begin=[(b, a) for a, b in base])}),
    ):
        found = []
        for run_ahead in (1, 0):
            config = Config(local_tuples=0, run_ahead=run_ahead, **options)
            with Program(DECLARED + rules).run(facts, here, config, plan="balanced") as result:
                assert result["path"].to_set() == known
                found.append(births(checked(result.trace, VERSION)["strata"][-1]["trace"]))
        assert found[0] == found[1]


def test_few_jobs_and_bounded_rounds(here):
    """A chain of 300 takes nine jobs, not 300; a job ends within a batch of groups of its threshold."""
    chain = np.column_stack([np.arange(300), np.arange(1, 301)])
    with Program(DECLARED + FORWARD).run(
        {"base": chain, "edge": chain, "back": []}, here, local_tuples=0, plan="balanced"
    ) as result:
        trace = result.trace["strata"][-1]["trace"]
        assert result["path"].count() == 300 * 301 // 2
        assert len(trace["iterations"]) <= 11 and sum(entry["steps"] for entry in trace["iterations"]) >= 300
    options = {"local_tuples": 0, "plan": "balanced", "rollover_threshold": 500, "partitions": 2}
    with Program(DECLARED + FORWARD).run({"base": chain, "edge": chain, "back": []}, here, **options) as result:
        trace = result.trace["strata"][-1]["trace"]
        assert result["path"].count() == 300 * 301 // 2
        sent = [n for entry in trace["iterations"] for phase in entry["phases"] for n in phase["sent"]]
        assert max(sent) <= 500 + 64 * 300 and any(event["event"] == "roll-over" for event in trace["events"])


@pytest.mark.parametrize("options", [{}, {"run_ahead": 0}, {"buckets": 1, "refinement_minimum": 1}], ids=str)
def test_runs_that_were_merged_are_removed(here, options):
    """What a chain leaves on disk is its tuples, 8 bytes each, however many iterations there were."""
    chain = np.column_stack([np.arange(120), np.arange(1, 121)])
    facts, base = {"base": chain, "edge": chain, "back": []}, {"local_tuples": 0, "plan": "balanced", "partitions": 2}
    with Program(DECLARED + FORWARD).run(facts, here, **base, **options) as result:
        pairs = result["path"].count()
        left = sum(file.stat().st_size for file in Path(result.cluster.root).rglob("path-*"))
        assert pairs == 120 * 121 // 2 and left <= 1.1 * 8 * pairs


@pytest.mark.parametrize("shift", [-5, 1 << 40])
def test_values_that_are_no_places(here, shift):
    """Negative and far-apart values are joined as all others are."""
    base = [(shift + i, shift + i + 1) for i in range(20)]
    with Program(DECLARED + FORWARD).run(
        {"base": base, "edge": base, "back": []}, here, local_tuples=0, plan="balanced"
    ) as result:
        assert result["path"].to_set() == closure(base)
