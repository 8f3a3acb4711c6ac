"""Facts that Spark's tasks read and deal to the partitions: the same answers and errors as where the driver reads them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semi_naive import BadInput, Program, RunsLost
from semi_naive.io import Source, edge_source
from semi_naive.io.edges import as_edges
from semi_naive.ra.values.values import Values
from semi_naive.running.balanced.partitioned import Partitioned
from semi_naive.running.relations.on_partitions import OnPartitions

PROGRAM = """
.decl edge(x: {kind}, y: {kind})
.input edge
.decl path(x: {kind}, y: {kind})
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.decl end(x: {kind})
.output end
end(y) :- edge(_, y), !edge(y, _).
{more}
"""
NODES = st.integers(0, 9)
GRAPHS = st.lists(st.tuples(NODES, NODES), min_size=1, max_size=25)
reusing = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)


@pytest.fixture
def spread(here, monkeypatch):
    """Run a program on partitions, every file read in pieces of 40 bytes by tasks."""
    monkeypatch.setattr("semi_naive.io.unread.MIN_BYTES_FOR_JOB", 0)
    monkeypatch.setattr("semi_naive.io.sources.SPAN_BYTES", 40)

    def run(text, facts, partitions=3, **options):
        return Program(text).run(facts, spark=here, local_tuples=0, partitions=partitions, run_ahead=0, **options)

    return run


def contents(result):
    return {name: sorted(result[name].to_list()) for name in result}


@reusing
@given(pairs=GRAPHS, symbols=st.booleans(), partitions=st.integers(1, 4), constant=st.booleans())
def test_files_by_tasks(spread, tmp_path, pairs, symbols, partitions, constant):
    name = (lambda node: f"n{node}") if symbols else str
    (tmp_path / "edge.facts").write_text("".join(f"{name(x)}\t{name(y)}\n" for x, y in pairs))
    shown = '"n3", "äöü"' if symbols else "3, 77"
    text = PROGRAM.format(kind="symbol" if symbols else "number", more=f"edge({shown})." * constant)
    with spread(text, tmp_path, partitions) as result, Program(text).run(tmp_path) as expected:
        assert result["edge"].on_partitions and not expected["edge"].on_partitions
        assert contents(result) == contents(expected)


def test_new_symbols_after_numbered_ones(spread, tmp_path):
    (tmp_path / "edge.facts").write_text("".join(f"a{n}\tb{n}\n" for n in range(30)))
    text = PROGRAM.format(kind="symbol", more=".decl long(x: symbol)\n.output long\nlong(cat(x, y)) :- edge(x, y).")
    with spread(text, tmp_path) as result:
        assert result["long"].to_set() == {(f"a{n}b{n}",) for n in range(30)}
        assert result["end"].to_set() == {(f"b{n}",) for n in range(30)}


def test_two_inputs_of_one_relation_and_two_relations(spread, tmp_path):
    (tmp_path / "one").write_text("a\tb\nb\tc\n" * 9)
    (tmp_path / "two").write_text("c\td\nb\tc\n" * 9)
    (tmp_path / "mark.facts").write_text("zz\nc\n" * 9)
    text = """.decl edge(x: symbol, y: symbol)
    .input edge(filename="one")
    .input edge(filename="two")
    .decl mark(x: symbol)
    .input mark
    .decl out(x: symbol, y: symbol)
    .output out
    out(x, y) :- edge(x, y), mark(y)."""
    with spread(text, tmp_path) as result:
        assert result["edge"].to_set() == {("a", "b"), ("b", "c"), ("c", "d")} and result["edge"].count() == 3
        assert result["out"].to_set() == {("b", "c")} and result["mark"].to_set() == {("zz",), ("c",)}


def test_matrices_and_parquet_by_tasks(spread, tmp_path):
    rows = "".join(f"{i + 1} {i} 0.5\n" for i in range(1, 40))
    (tmp_path / "m.mtx").write_text("%%MatrixMarket matrix coordinate real symmetric\n40 40 39\n" + rows)
    pq.write_table(pa.table({"x": range(20), "y": range(1, 21)}), tmp_path / "e.parquet", row_group_size=6)
    text = PROGRAM.format(kind="number", more="")
    for name in ("m.mtx", "e.parquet"):
        with spread(text, {"edge": tmp_path / name}) as result:
            assert result["edge"].on_partitions
            assert sorted(result["edge"].to_list()) == sorted(set(as_edges(tmp_path / name).named()))


MATRIX = "%%MatrixMarket matrix coordinate pattern general\n9 9 41\n" + "1 2\n" * 40
FAULTS = {
    "text": ("e.facts", "1\t2\n" * 40 + "7\tx\n1\n", r"e\.facts:41:3: 'x' is not a number"),
    "loose": ("e.txt", "# c\n" + "1 2\n" * 40 + "1 2 3\n", r"e\.txt:42:5: Too many values: 3 found"),
    "index": ("e.mtx", MATRIX + "1 10\n", r"e\.mtx:43:3: index 10"),
    "size": ("e.mtx", MATRIX, r"e\.mtx:2: declares 41 entries"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), FAULTS.values(), ids=FAULTS)
def test_faults_have_the_line_of_the_file(spread, tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    program = PROGRAM.format(kind="number", more="")
    for run in (spread, lambda text, facts: Program(text).run(facts)):
        with pytest.raises(BadInput, match=expected):
            run(program, {"edge": tmp_path / name})


def test_a_source_of_edges_is_a_program_s_facts(spread, tmp_path):
    (tmp_path / "e.csv").write_text("from,to\n" + "".join(f"{n},{n + 1}\n" for n in range(30)))
    source = edge_source(tmp_path / "e.csv", header=True)
    assert source.columns(Values()).tolist() == [list(range(30)), list(range(1, 31))]
    with spread(PROGRAM.format(kind=source.relation.kinds[0], more=""), {"edge": source}) as result:
        assert result["edge"].on_partitions and result["path"].count() == 30 * 31 // 2
    with pytest.raises(BadInput, match="edge has attributes of the kinds symbol, symbol, the source has number, number"):
        Program(PROGRAM.format(kind="symbol", more="")).run({"edge": source})


def test_frames_by_tasks(spark):
    frame = spark.range(300).selectExpr("cast(id as int) as x", "id + 1 as y")
    with Program(PROGRAM.format(kind="number", more="")).run({"edge": frame}, spark=spark, local_tuples=0) as result:
        assert result["edge"].on_partitions and result["path"].count() == 300 * 301 // 2
        assert np.array_equal(np.sort(result["edge"].encoded()[0]), np.arange(300))
    names = frame.selectExpr("concat('n', x) as x", "concat('n', y) as y")
    program = Program(PROGRAM.format(kind="symbol", more=""))
    for most in (200, 100_000):  # fewer tuples than that the driver takes, after they have been counted
        with program.run({"edge": names}, spark=spark, local_tuples=most) as result:
            assert result["edge"].on_partitions == (most == 200)
            assert result["end"].to_list() == [("n300",)] and result["path"].count() == 300 * 301 // 2
    with pytest.raises(BadInput, match="column edge.y: the value is null"):
        bad = {"edge": frame.selectExpr("x", "nullif(y, 7) as y")}
        Program(PROGRAM.format(kind="number", more="")).run(bad, spark=spark, local_tuples=0)


DERIVED = """
.decl edge(x: {kind}, y: {kind})
.input edge
.decl path(x: {kind}, y: {kind})
.input path
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z){more}.
.decl twice(x: {kind}, y: {kind})
.input twice
.output twice
twice(x, z) :- path(x, y), path(y, z).
"""


@reusing
@given(
    pairs=st.tuples(*[GRAPHS] * 3), symbols=st.booleans(), plan=st.sampled_from(["auto", "balanced", "decomposed"]),
    local=st.sampled_from([0, 10, None]), partitions=st.integers(1, 4), budget=st.sampled_from([0, 1 << 30]),
    more=st.sampled_from(["", ", x != z"]),
)  # fmt: skip
def test_facts_of_derived_relations_stay_on_the_partitions(
    here, tmp_path, monkeypatch, pairs, symbols, plan, local, partitions, budget, more
):
    monkeypatch.setattr("semi_naive.io.unread.MIN_BYTES_FOR_JOB", 0)
    monkeypatch.setattr("semi_naive.io.sources.SPAN_BYTES", 40)
    for relation, rows in zip(("edge", "path", "twice"), pairs, strict=True):
        text = "".join(f"{'n' * symbols}{x}\t{'n' * symbols}{y}\n" for x, y in rows)
        (tmp_path / f"{relation}.facts").write_text(text)
    program = Program(DERIVED.format(kind="symbol" if symbols else "number", more=more))
    options = {"local_tuples": local, "partitions": partitions, "replicate_bytes": budget, "plan": plan}
    with program.run(tmp_path, here, **options) as result:
        found = contents(result)
    monkeypatch.setattr("semi_naive.io.unread.MIN_BYTES_FOR_JOB", 1 << 60)
    with program.run(tmp_path) as expected:
        assert found == contents(expected)


def test_no_fact_comes_to_the_driver_that_has_no_room(spread, tmp_path, monkeypatch):
    for relation in ("edge", "path", "twice"):
        (tmp_path / f"{relation}.facts").write_text("".join(f"{n}\t{n + 1}\n" for n in range(30)))
    text = DERIVED.format(kind="number", more=", x >= 0")
    with monkeypatch.context() as patch:
        for held in (OnPartitions, Source):
            patch.setattr(held, "columns", None)
        patch.setattr("semi_naive.io.sources.TextFile.columns", None)
        result = spread(text, tmp_path, replicate_bytes=0)
    with result, Program(text).run(tmp_path) as expected:
        assert contents(result) == contents(expected)


def test_facts_of_derived_relations_are_read_again_after_runs_were_lost(spread, tmp_path, monkeypatch):
    (tmp_path / "edge.facts").write_text("".join(f"{n}\t{n + 1}\n" for n in range(30)))
    (tmp_path / "path.facts").write_text("".join(f"{n + 40}\t{n}\n" for n in range(30)))
    (tmp_path / "twice.facts").write_text("1\t1\n")
    evaluate, lost = Partitioned.iterate, [1, 3]

    def losing(self, chosen):
        if lost and self.iteration == lost[0]:
            raise RunsLost(f"lost in iteration {lost.pop(0)}")
        evaluate(self, chosen)

    text = DERIVED.format(kind="number", more=", x >= 0")
    with Program(text).run(tmp_path) as expected:
        monkeypatch.setattr(Partitioned, "iterate", losing)
        with spread(text, tmp_path, plan="balanced") as result:
            assert not lost and contents(result) == contents(expected)
