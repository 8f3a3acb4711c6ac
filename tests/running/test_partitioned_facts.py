"""What a stratum reads of others is replicated or partitioned, by its size: answers are the same, no host has everything."""

import numpy as np
import pytest
from test_rollover import CLOSURE

from semi_naive import Program

RULES = """
.decl edge(x: number, y: number)
.input edge
.decl mark(x: number, name: symbol)
.input mark
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y), !mark(y, "wall").
path(x, z) :- path(x, y), edge(y, z), !mark(z, "wall"), x >= 0.
.decl far(y: number, d: number)
.output far
far(0, 0).
far(y, min(d + 1)) :- far(x, d), edge(x, y).
.decl triangle(x: number, y: number, z: number)
.output triangle
triangle(x, y, z) :- edge(x, y), edge(y, z), edge(x, z), !path(_, -1).
.decl ways(x: number, n: number, m: float)
.output ways
ways(x, n, m) :- edge(x, _), n = count : { path(x, y), edge(y, z), far(z, _) },
    m = mean to_float(d) : { far(y, d), edge(x, y) }.
.decl total(n: number, most: number)
.output total
total(n, most) :- n = count : { path(_, _) }, most = max k : { ways(_, k, _), k < t, t = sum d : { far(_, d) } }.
"""
OUTPUTS = ("path", "far", "triangle", "ways", "total")


def facts() -> dict:
    rng = np.random.default_rng(3)
    edges = np.minimum(rng.geometric(0.05, (400, 2)) - 1, 90)
    return {"edge": edges, "mark": [(int(x), "wall" if x % 7 == 0 else "door") for x in range(0, 90, 3)]}


def events(result, kind: str) -> list[dict]:
    traces = [stratum["trace"] for stratum in result.trace["strata"] if "trace" in stratum]
    return [event for trace in traces for event in trace["events"] if event["event"] == kind]


@pytest.mark.parametrize("partitions", [2, 3])
def test_partitioned_facts_give_the_same_answers(here, partitions):
    with Program(RULES).run(facts()) as whole:
        expected = {name: whole[name].to_set() for name in OUTPUTS}
    for budget in (0, 3000, 1 << 30):
        options = {"local_tuples": 0, "partitions": partitions, "buckets": 64, "replicate_bytes": budget}
        with Program(RULES).run(facts(), here, **options) as result:
            assert {name: result[name].to_set() for name in OUTPUTS} == expected
            placed = events(result, "placed")
        apart = [event for event in placed if event["how"] == "partitioned"]
        assert bool(apart) == (budget < 1 << 30)
        assert (budget == 0) == all(event["how"] == "partitioned" or not event["order"] for event in placed)
        for event in apart:
            total = sum(event["tuples"])
            assert max(event["tuples"]) <= 0.6 * total or total < 50, event  # one host's share


def test_nothing_moves_where_the_partners_are_in_the_same_buckets(here):
    """path is kept by y on the bucket map of edge by x: an iteration is the local join and the all-to-all."""
    shuffles = []
    for budget in (0, 1 << 30):
        options = {"local_tuples": 0, "replicate_bytes": budget, "refine": False, "plan": "balanced", "run_ahead": 0}
        with Program(CLOSURE).run({"edge": [(i, i + 1) for i in range(30)]}, here, **options) as result:
            assert result["path"].count() == 30 * 31 // 2
            shuffles.append(result.cluster.jobs.shuffles)
            text = result.explain()
        assert f"edge(x, y): searched by x\n      {'replicated' if budget else 'partitioned'}: " in text
    assert shuffles[0] == shuffles[1] + 1  # the one that partitions the edges


def test_a_plan_that_begins_elsewhere_begins_with_the_delta_on_the_partitions(here):
    for options in ({}, {"replicate_bytes": 0}, {"replicate_bytes": 1 << 30}):
        edges = [(i, i + 1) for i in range(30)]
        with Program(CLOSURE + ".plan 0:(2,1)\n").run({"edge": edges}, here, local_tuples=0, **options) as result:
            assert result["path"].count() == 30 * 31 // 2


def test_what_earlier_strata_left_is_partitioned_where_it_is(here):
    """No tuple comes to the driver on its way from one stratum to the next, and an index that fits is taken as it is."""
    more = ".decl back(x: number, y: number)\n.output back\nback(y, x) :- path(x, y), path(y, x), !path(x, x).\n"
    edges = facts()["edge"]
    for budget in (0, 1 << 30):
        options = {"local_tuples": 0, "partitions": 2, "replicate_bytes": budget}
        with Program(CLOSURE + more).run({"edge": edges}, here, **options) as result:
            assert result["back"].count() == 0
            assert all(sum(event["tuples"]) for event in events(result, "placed") if event["order"])
