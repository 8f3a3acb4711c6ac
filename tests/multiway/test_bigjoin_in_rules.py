"""BiGJoin as steps of a rule's body: cyclic bodies whose relations are partitioned have the same answers in every layout."""

import re
from math import inf

import numpy as np
import pytest
from test_checkpoints import Killed, dying
from test_multiway_datalog import interpreted  # noqa: F401

from bench.fuzz.checks import LAYOUTS, check, layouts, run
from bench.fuzz.random_programs import cyclic_case
from bench.fuzz.rounds import in_turn, random_cases
from semi_naive import Program
from semi_naive.graphs import generators
from semi_naive.planning.joins import multiway
from semi_naive.ra.by_variable import bigjoin

PARTITIONED = {"local_tuples": 0, "replicate_bytes": 0, "partitions": 3, "buckets": 8}
GRAPH = np.unique(generators.rmat(7, 6 << 7, seed=1), axis=0)
STAR = [(i, 0) for i in range(1, 300)] + [(0, i) for i in range(1, 300)] + [(1, 2), (2, 3)]
HEAD = """
.decl edge(x: number, y: number)
.decl wide(a: number, b: number, c: number, d: number)
.input edge, wide
.decl found(x: number, y: number, z: number)
.output found
"""
TRIANGLES = HEAD + "found(x, y, z) :- edge(x, y), edge(y, z), edge(x, z)."
GROWING = HEAD + "found(x, y, y) :- edge(x, y).\nfound(x, y, z) :- found(x, y, _), found(y, z, _), found(x, z, _), x != z."


@pytest.fixture
def wherever(monkeypatch):
    """BiGJoin is taken for the least there is."""
    for name in ("MIN_BIGJOIN_BINDINGS", "MIN_BIGJOIN_FANOUT", "BIGJOIN_COST_RATIO"):
        monkeypatch.setattr(multiway, name, 0)


@pytest.mark.usefixtures("interpreted", "wherever")
@random_cases(40, cyclic_case)
def test_cyclic_bodies_agree_with_the_oracle(case, random, here):
    """In every layout, none or some of the relations replicated."""
    mode = random.choice(["auto", "always"])
    check(case, *in_turn(case.seed, [config.with_options({"multiway": mode}) for config in layouts(0, 100)]), spark=here)


@pytest.mark.usefixtures("interpreted", "wherever")
@random_cases(15, cyclic_case)
def test_what_was_stopped_is_resumed_on_another_layout(case, random, here, processes, tmp_path):  # noqa: F811
    options = {"checkpoint_dir": str(tmp_path), "checkpoint_interval": 1, "replicate_bytes": 0}
    first, second = (random.choice(LAYOUTS).with_options(options) for _ in range(2))
    for after in range(1, 6):
        try:
            run(case, first, here, progress=dying(after))
            break
        except Killed:
            check(case, second, spark=here)


def facts(edges) -> dict:
    return {"edge": edges, "wide": np.random.default_rng(4).integers(0, 12, (900, 4))}


def runs(text: str, given, here, **options) -> dict:
    """What a program finds by BiGJoin and without, which is the same; and the trace and the explanation by BiGJoin."""
    with Program(text).run(given, multiway="never") as expected:
        whole = expected["found"].to_set()
    with Program(text).run(given, here, **PARTITIONED | options) as result:
        assert result["found"].to_set() == whole != set()
        return {"trace": result.trace["strata"][-1]["trace"], "text": result.explain()}


def shipped(trace: dict) -> int:
    """The bindings that go between the segments of a body, at most."""
    phases = [phase for entry in trace["iterations"] for phase in entry["phases"] if phase["phase"] == "intra-bucket"]
    return sum(sum(phase["sent"]) for phase in phases)


@pytest.mark.parametrize(
    "rule",
    [
        "edge(x, y), edge(y, z), edge(z, x), x < y, x < z",
        "edge(x, y), edge(y, z), edge(x, z), edge(y, 1), !edge(z, x)",
        "edge(x, y), edge(y, z), edge(z, w), edge(w, x), edge(x, z), edge(_, w)",
        "edge(x, y), edge(y, z), edge(x, z), edge(z, z)",
        "edge(x, y), edge(x, z), edge(y, z), edge(z, w), edge(z + 1, w)",
        "x = range(0, 40), edge(x, y), edge(y, z), edge(x, z)",
        "wide(x, y, v, v), edge(y, z), wide(_, x, z, u)",
        "edge(x, y), edge(y, z), edge(x, z), n = count : { edge(z, _) }, n > y",
    ],
)
@pytest.mark.parametrize("threshold", [8_000_000, 200])
def test_patterns_by_bigjoin(here, rule, threshold):
    loops = np.concatenate([GRAPH, np.column_stack([np.arange(0, 128, 3)] * 2)])
    found = runs(f"{HEAD}found(x, y, z) :- {rule}.", facts(loops), here, multiway="always", rollover_threshold=threshold)
    assert "whichever has the fewest tuples proposes" in found["text"]
    assert any(event["event"] == "roll-over" for event in found["trace"]["events"]) == (threshold == 200)


def test_a_hub_is_never_expanded(here):
    """A node with all others before and after it: binary joins ship every pair of those, BiGJoin a few times the edges."""
    by = {mode: runs(TRIANGLES, facts(STAR), here, multiway=mode)["trace"] for mode in ("always", "never")}
    assert shipped(by["never"]) > 80_000 and shipped(by["always"]) < 6 * len(STAR)


@pytest.mark.parametrize("policy", ["work", "paper"])
def test_what_grows_is_refined_all_the_same(here, policy, wherever):
    """Of a bucket in several subbuckets one tells how many tuples there are, and all propose theirs."""
    options = {
        "refinement_minimum": 1,
        "policy": policy,
        "grain": 0.1,
        "horizon": inf,
        "refinement_ratio": 1.1,
        "tolerance": 1.0,
    }
    some = np.unique(np.minimum(np.random.default_rng(5).geometric(0.08, (90, 2)), 30), axis=0)
    found = runs(GROWING, facts(some), here, check_interval=1, buckets=3, **options)
    assert found["text"].count("whichever has the fewest tuples proposes") == 3  # from each of the deltas
    assert any(event["event"] == "refine" for event in found["trace"]["events"])


def test_the_planner_says_which_and_why(here, monkeypatch):
    few = runs(TRIANGLES, facts(GRAPH), here)["text"]
    assert re.search(r"the body is cyclic; binary joins all the same: they are expected to make [\d,]+ bindings\n", few)
    monkeypatch.setattr(multiway, "MIN_BIGJOIN_BINDINGS", 100)
    many = runs(TRIANGLES, facts(STAR), here)["text"]
    found = re.search(r"edge\(.*\) or edge\(.*\) +whichever has the fewest tuples proposes . → [\d,]+ bindings; (.*)\n", many)
    assert re.fullmatch(r"the cyclic core, partitioned: binary joins are expected to make [\d,]+ bindings", found[1])
    assert "binary joins as Config.multiway asks" in runs(TRIANGLES, facts(GRAPH), here, multiway="never")["text"]
    assert "proposes" not in runs(TRIANGLES + " .join binary", facts(GRAPH), here)["text"]


def test_where_all_nodes_are_alike_binary_joins_ship_no_more(here, monkeypatch):
    monkeypatch.setattr(multiway, "MIN_BIGJOIN_BINDINGS", 1000)
    text = runs(TRIANGLES, facts(np.random.default_rng(1).integers(0, 60, (500, 2))), here)["text"]
    assert re.search(
        r"binary joins all the same: they are expected to make [\d,]+ bindings, and BiGJoin to ship [\d,]+\n", text
    )


def test_a_visit_is_no_step_that_is_run():
    with pytest.raises(TypeError, match="not callable"):
        bigjoin.Visit((), 0, frozenset())(None, None)


def test_what_is_replicated_in_one_order_is_not_read_in_buckets(here, wherever):
    """The first atom's relation is partitioned in another order, and its index of this order is on every host."""
    text = """
.decl e, f(x: number, y: number)
.decl u(x: number)
.decl w(x: number, y: number, z: number)
.decl r(x: number, y: number)
.output r
e(1, 1). e(2, 4). e(3, 1). e(3, 2).
f(1, 2). f(2, 2). f(3, 1). f(3, 2). f(3, 3).
u(3).
w(1, 1, 3). w(1, 3, 1). w(1, 3, 2). w(1, 3, 3).
r(x, y) :- e(x, y).
r(t, y) :- e(x, y), u(x), e(z, t), f(s, t), f(z, x), e(z, y).
r(z, x) :- e(t, z), w(y, z, x), f(x, t).
"""
    with Program(text).run({}, multiway="never") as expected:
        whole = expected["r"].to_set()
    for budget in range(40, 200, 10):
        with Program(text).run({}, here, **PARTITIONED | {"replicate_bytes": budget, "buckets": 5}) as result:
            assert result["r"].to_set() == whole
