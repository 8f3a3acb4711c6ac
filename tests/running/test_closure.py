"""The closure is the same under every plan, rule and layout; and it has the sizes that are known."""

import itertools
from math import inf

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.fuzz.oracle import closure
from semi_naive import Config, graphs, transitive_closure
from semi_naive.balance.trace import read_trace, write_trace


def steps(edges) -> int:
    """How many steps the linear fixpoint takes: the length of the longest shortest path."""
    return next(length for length in itertools.count(bool(edges)) if closure(edges, length + 1) == closure(edges, length or 1))


def pairs(result) -> set:
    return set(map(tuple, result.to_numpy().tolist()))


ANY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

edges = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40)
PLANS_AND_RULES = [
    ("decomposed", "path-edge"), ("decomposed", "edge-path"), ("balanced", "path-edge"), ("balanced", "edge-path"),
    ("balanced", "path-path"),
]  # fmt: skip
plans = st.sampled_from(PLANS_AND_RULES)
layouts = st.fixed_dictionaries(
    {
        "buckets": st.sampled_from([1, 2, 7, 64]),
        "partitions": st.integers(1, 8),
        "rollover_threshold": st.sampled_from([10, 40, 8_000_000]),
        "rollover": st.booleans(),
        "refine": st.booleans(),
        "policy": st.sampled_from(["work", "paper"]),
        "tolerance": st.sampled_from([1.0, 1.1]),
        "grain": st.sampled_from([0.05, 0.5]),
        "horizon": st.sampled_from([2.0, inf]),
        "refinement_minimum": st.sampled_from([0, 5]),
        "refinement_ratio": st.sampled_from([1.0, 3.0]),
        "refinement_factor": st.sampled_from([2, 4]),
        "consolidate": st.booleans(),
        "consolidation_fraction": st.sampled_from([0.0, 0.6]),
        "copy_inner": st.booleans(),
        "check_interval": st.sampled_from([1, 3]),
        "run_ahead": st.sampled_from([0, 0, 1_000_000]),
        "run_ahead_budget": st.sampled_from([1, 4_000_000]),
    }
)


def agrees(spark, edges, plan, layout, length):
    """What is evaluated in at most `length` iterations is what the oracle finds."""
    plan, rule = plan
    with transitive_closure(edges, spark, plan, rule=rule, max_iterations=length, **layout) as result:
        found = pairs(result)
        reach = length and (2 ** (length - 1) if rule == "path-path" else length)
        expected = closure(edges, reach)
        assert found == expected, f"missing {expected - found}, extra {found - expected}"
        assert result.count() == len(expected)
        if rule != "path-path" and length is None:
            assert result.iterations == steps(edges)


lengths = st.sampled_from([None, None, 1, 3])


@settings(ANY, max_examples=60)
@given(edges=edges, plan=plans, layout=layouts, length=lengths)
def test_any_layout_gives_the_oracles_answer(here, edges, plan, layout, length):
    agrees(here, edges, plan, layout, length)


@settings(ANY, max_examples=5)
@given(edges=edges, plan=plans, layout=layouts, length=lengths)
def test_so_it_does_on_spark(spark, edges, plan, layout, length):
    agrees(spark, edges, plan, layout, length)


EXTREME = [
    {"rollover_threshold": 1, "buckets": 1, "partitions": 1},
    {"rollover_threshold": 1, "buckets": 5, "partitions": 3, "rule": "path-path"},
    {"policy": "paper", "refinement_ratio": 1.0, "refinement_minimum": 0, "partitions": 5, "copy_inner": False},
    {"policy": "paper", "refinement_ratio": 1.0, "refinement_minimum": 0, "partitions": 5, "rule": "path-path"},
    {"tolerance": 1.0, "grain": 0.01, "horizon": inf, "refinement_minimum": 0, "partitions": 5, "copy_inner": False},
    {"tolerance": 1.0, "grain": 0.01, "horizon": inf, "refinement_minimum": 0, "partitions": 5, "rule": "path-path"},
]


@pytest.mark.parametrize("layout", EXTREME)
def test_extreme_layouts(here, layout):
    pairs_of_edges = graphs.gnp(12, 0.12, seed=5)
    with transitive_closure(pairs_of_edges, here, "balanced", run_ahead=0, **layout) as result:
        assert pairs(result) == closure(set(map(tuple, pairs_of_edges.tolist())))


@pytest.mark.parametrize("layout", [EXTREME[0], EXTREME[-1]])
def test_extreme_layouts_on_spark(spark, layout):
    """On few edges: with a threshold of one tuple, each tuple that is found is a job. Tasks are those of the test before."""
    few = [(1, 2), (2, 3), (3, 1), (3, 4), (1, 4)]
    with transitive_closure(few, spark, "balanced", run_ahead=0, **layout) as result:
        assert pairs(result) == closure(few)


@pytest.mark.parametrize("height", [1, 5, 11])
@pytest.mark.parametrize("direction, plan", list(itertools.product(["up", "down"], ["balanced", "decomposed"])))
def test_tree_closed_form(here, height, direction, plan):
    with transitive_closure(graphs.tree(height, direction), here, plan) as result:
        assert result.count() == (height - 1) * 2 ** (height + 1) + 2
        assert result.iterations == height


@pytest.mark.parametrize("plan", ["balanced", "decomposed"])
def test_bowtie_closed_form(here, plan):
    width, length = 40, 7
    with transitive_closure(graphs.bowtie(width, length), here, plan) as result:
        assert result.count() == width**2 + 2 * width * (length + 1) + length * (length + 1) // 2


@pytest.mark.parametrize("plan", ["balanced", "decomposed"])
def test_bundled_graph_has_its_published_size(spark, plan):
    with transitive_closure(graphs.bundled("p2p-gnutella09"), spark, plan) as result:
        assert (result.count(), result.iterations) == (21_402_960, 20)


def test_roll_over_without_limit_and_with_agree_on_a_graph_that_fills_chunks(here):
    edges = graphs.gnp(1500, 0.003, seed=3)
    sizes = set()
    for options in ({"rollover": False}, {"rollover_threshold": 150_000}, {"run_ahead": 0}):
        with transitive_closure(edges, here, "balanced", **options) as result:
            sizes.add((result.count(), result.iterations))
    with transitive_closure(edges, here, "decomposed") as result:
        sizes.add((result.count(), result.iterations))
    assert len(sizes) == 1, sizes


EXAMPLE = [(1, 2), (2, 3), (3, 1), (7, 1)]


KINDS = ["list", "array", "pandas", "arrow", "networkx", "generator", "tsv", "parquet"]


@pytest.mark.parametrize("kind, plan", [("spark", "balanced"), *((kind, "decomposed") for kind in ["spark", *KINDS])])
def test_every_kind_of_input(here, request, tmp_path, kind, plan):
    """All that this process reads is one thing to a plan."""
    spark = request.getfixturevalue("spark") if kind == "spark" else here
    frame = pd.DataFrame(EXAMPLE, columns=["src", "dst"])
    frame.to_csv(tmp_path / "e.tsv", sep="\t", header=False, index=False)
    frame.to_parquet(tmp_path / "e.parquet")
    source = {
        "list": lambda: EXAMPLE,
        "array": lambda: np.array(EXAMPLE),
        "pandas": lambda: frame,
        "arrow": lambda: pa.Table.from_pandas(frame, preserve_index=False),
        "networkx": lambda: nx.DiGraph(EXAMPLE),
        "spark": lambda: spark.createDataFrame(EXAMPLE, "src long, dst long"),
        "generator": lambda: (edge for edge in EXAMPLE),
        "tsv": lambda: tmp_path / "e.tsv",
        "parquet": lambda: str(tmp_path / "e.parquet"),
    }[kind]()
    with transitive_closure(source, spark, plan) as result:
        assert pairs(result) == closure(EXAMPLE)


@pytest.mark.parametrize("plan", ["balanced", "decomposed"])
def test_strings_are_given_back(spark, plan):
    named = [("a b", "ü"), ("ü", ""), ("", "x,y")]
    for source, (x, y) in ((named, "xy"), (spark.createDataFrame(named, "f string, t string"), "ft")):
        with transitive_closure(source, spark, plan) as result:
            assert pairs(result) == closure(named)
            assert result.to_df().dtypes == [(x, "string"), (y, "string")]


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("budget", [0, 1 << 30])
def test_what_tasks_read_comes_to_the_driver_only_if_it_is_to_be_copied(here, tmp_path, monkeypatch, names, budget):
    monkeypatch.setattr("semi_naive.io.unread.MIN_BYTES_FOR_JOB", 0)
    monkeypatch.setattr("semi_naive.io.sources.SPAN_BYTES", 40)
    edges = [(f"n{x}", f"n{y}") if names else (x, y) for x, y in graphs.gnp(40, 0.05, seed=3).tolist()]
    (tmp_path / "e.tsv").write_text("".join(f"{x}\t{y}\n" for x, y in edges))
    monkeypatch.setattr("semi_naive.io.sources.TextFile.columns", None)
    for plan, rule in [(None, "path-edge"), *PLANS_AND_RULES]:
        options = {"plan": plan} if plan else {}
        with monkeypatch.context() as patch:
            if budget == 0 and plan != "decomposed":
                patch.setattr("semi_naive.running.relations.on_partitions.OnPartitions.columns", None)
            result = transitive_closure(tmp_path / "e.tsv", here, rule=rule, replicate_bytes=budget, partitions=3, **options)
        with result:
            assert pairs(result) == closure(edges) and len(result.to_arrow()) == result.count()
            assert result.plan == plan or (not plan and (result.plan == "balanced") == (budget == 0))


@pytest.mark.parametrize("plan", ["balanced", "decomposed"])
def test_an_empty_graph_is_a_result(spark, tmp_path, plan):
    with transitive_closure([], spark, plan) as result:
        assert (result.count(), result.iterations) == (0, 0)
        assert result.to_df().count() == 0 and result.to_arrow().num_rows == 0 and result.to_numpy().shape == (0, 2)
        result.write(tmp_path / "none.csv")
        result.write(tmp_path / "none.parquet")
        assert (tmp_path / "none.csv").read_bytes() == b""
        assert spark.read.parquet(str(tmp_path / "none.parquet")).count() == 0


@pytest.mark.parametrize("plan", ["balanced", "decomposed"])
def test_outputs_agree(spark, tmp_path, plan):
    edges = graphs.gnp(60, 0.03, seed=2)
    with transitive_closure(edges, spark, plan) as result:
        expected = closure(set(map(tuple, edges.tolist())))
        assert {tuple(row) for row in result.to_df().collect()} == expected
        assert set(result.to_pandas().itertuples(index=False, name=None)) == expected
        for name in ("o.csv", "o.tsv", "o.facts", "o.txt.gz"):
            result.write(tmp_path / name)
            with transitive_closure(tmp_path / name, spark, max_iterations=1) as again:
                assert pairs(again) == expected
        result.write(tmp_path / "o.parquet")
        result.write(tmp_path / "o.parquet")  # replaces
        assert {tuple(row) for row in spark.read.parquet(str(tmp_path / "o.parquet")).collect()} == expected
        assert sorted(p.name for p in tmp_path.iterdir()) == ["o.csv", "o.facts", "o.parquet", "o.tsv", "o.txt.gz"]
        with pytest.raises(ValueError, match="cannot tell the format"):
            result.write(tmp_path / "o.xlsx")
    with pytest.raises(ValueError, match="closed"):
        result.to_df()


@given(edges, st.sampled_from(["path-edge", "edge-path"]), st.sampled_from([None, 1, 2, 3]))
def test_small_closures_in_this_process(edges, rule, length):
    agrees(no_spark, edges, ("auto", rule), {}, length)


def no_spark():
    raise AssertionError("Spark is started")


def test_what_is_asked_of_a_small_closure(tmp_path, spark):
    told = []
    with transitive_closure([("a", "b"), ("b", "c")], no_spark, progress=lambda *given: told.append(given)) as result:
        assert result.plan == "local" and "no job is worth it" in result.reason and result.iterations == 2
        assert told == [(1, 0, 2), (2, 2, 3), (3, 1, 3)]
        assert result.to_set() == {("a", "b"), ("b", "c"), ("a", "c")} == set(result.to_arrow().to_pandas().itertuples(False))
        write_trace(result.trace, tmp_path / "run.json")
        record = read_trace(tmp_path / "run.json")
        assert record["input"] == {"nodes": 3} and record["result"] == {"tuples": 3, "iterations": 2, "disk_bytes": 0}
        assert record["iterations"][0]["births"] == [2, 1] and "3 pairs in 2 iterations" in result.explain()
        assert ">b</td>" in result._repr_html_() and ">c</td>" in result._repr_html_()
        result.plot(tmp_path / "run.svg")
        result.report(tmp_path / "run.html")
        result.write(tmp_path / "run.tsv")
        assert (tmp_path / "run.tsv").read_text().count("\n") == 3
    with transitive_closure([("a", "b"), ("b", "c")], spark) as result:
        assert result.plan == "local" and sorted(map(tuple, result.to_df().collect())) == [("a", "b"), ("a", "c"), ("b", "c")]


def test_what_turns_out_large_goes_to_the_partitions(here, monkeypatch):
    monkeypatch.setattr("semi_naive.running.run.MAX_CLOSURE_PAIRS_IN_DRIVER", 1000)
    with transitive_closure([(i, i + 1) for i in range(60)], here) as result:
        assert result.count() == 1830 and result.plan == "decomposed" and "too many tuples for one process" in result.reason


def test_auto_says_why(here):
    with transitive_closure(EXAMPLE, here, local_tuples=0) as result:
        assert result.plan == "decomposed" and "carries x" in result.reason
    with transitive_closure(EXAMPLE, here, rule="path-path") as result:
        assert result.plan == "balanced" and "carries no column" in result.reason


def test_config_and_options(spark):
    with transitive_closure(EXAMPLE, spark, config=Config(buckets=3), partitions=2) as result:
        assert result.trace["config"]["buckets"] == 3 and result.trace["config"]["partitions"] == 2
    for wrong in ({"bukets": 3}, {"buckets": 0}, {"rule": "path"}, {"plan": "best"}, {"refinement_factor": 1.5}):
        with pytest.raises(ValueError, match="expected|did you mean 'buckets'"):
            transitive_closure(EXAMPLE, spark, **wrong)
    with pytest.raises(ValueError, match="carries"):
        transitive_closure(EXAMPLE, spark, plan="decomposed", rule="path-path")
