"""`Program` and its results as a person uses them: facts from anywhere, answers to anywhere, wherever the tuples are."""

import gc
import os
from pathlib import Path

import numpy as np
import pandas as pd
import paths
import pyarrow as pa
import pytest
from pyarrow import parquet

from semi_naive import EvaluationError, Program
from semi_naive.io.errors import BadInput

PATHS = (
    paths.PATHS
    + """.decl ends(x: number)
.output ends
ends(x) :- path(_, x), !edge(x, _).
"""
)
EDGES = [(1, 2), (2, 3), (2, 4)]
PATH = {(1, 2), (2, 3), (2, 4), (1, 3), (1, 4)}

KINDS = """
.type Place = [name: symbol, at: number]
.decl in(s: symbol, f: float, u: unsigned, p: Place)
.input in
.decl out(s: symbol, f: float, u: unsigned, p: Place)
.output out
out(cat(s, "!"), f, u, p) :- in(s, f, u, p).
out(s, f, u, q) :- out(s, f, u, p), p = [n, i], i < 2, q = [n, i + 1].
"""
ROWS = [("a", 0.5, 2**64 - 1, ("here", 0)), ("ü", -1.25, 0, ("there", 2)), ("b,\"c\"", 3.0, 7, None)]  # fmt: skip
OUT = {
    ("a!", 0.5, 2**64 - 1, ("here", 0)), ("a!", 0.5, 2**64 - 1, ("here", 1)), ("a!", 0.5, 2**64 - 1, ("here", 2)),
    ("ü!", -1.25, 0, ("there", 2)), ('b,"c"!', 3.0, 7, None),
}  # fmt: skip

WHERE = pytest.mark.parametrize("local_tuples", [0, 100_000], ids=["partitions", "driver"])


# -- facts


@pytest.mark.parametrize("kind", ["list", "generator", "numpy", "pandas", "arrow", "spark", "tsv", "csv", "parquet", "folder"])
def test_facts_from_anywhere(kind, tmp_path, request):
    frame = pd.DataFrame(EDGES, columns=["x", "y"])
    table = pa.Table.from_pandas(frame)
    (tmp_path / "edge.facts").write_text("".join(f"{x}\t{y}\n" for x, y in EDGES))
    (tmp_path / "edge.csv").write_text("".join(f"{x},{y}\n" for x, y in EDGES))
    parquet.write_table(table, tmp_path / "edge.parquet")
    made = {
        "list": lambda: EDGES,
        "generator": lambda: (pair for pair in EDGES),
        "numpy": lambda: np.array(EDGES),
        "pandas": lambda: frame[["y", "x"]],  # by their names
        "arrow": lambda: table,
        "spark": lambda: request.getfixturevalue("spark").createDataFrame(EDGES, "a long, b long"),
        "tsv": lambda: tmp_path / "edge.facts",
        "csv": lambda: str(tmp_path / "edge.csv"),
        "parquet": lambda: tmp_path / "edge.parquet",
    }
    facts = tmp_path if kind == "folder" else {"edge": made[kind]()}
    result = Program(PATHS).run(facts)
    assert result["path"].to_set() == PATH and result["ends"].to_set() == {(3,), (4,)}


def test_facts_besides_those_of_the_program():
    program = Program(PATHS + "edge(4, 5).\npath(7, 8).\n")
    assert program.run({"edge": EDGES, "path": [(8, 9)]})["path"].count() == 5 + 3 + 2


WRONG_FACTS = {
    "relation": (
        {"egde": EDGES},
        ValueError,
        r"facts: unknown relation 'egde'; did you mean 'edge'\? There are edge, ends, path",
    ),
    "width": ({"edge": [(1, 2, 3)]}, BadInput, r"\(1, 2, 3\) is not a fact of edge\(x: number, y: number\)"),
    "value": ({"edge": [(1, 2), (1, "b")]}, BadInput, r"edge\[1\]\.y"),
    "shape": ({"edge": np.zeros((2, 3), np.int64)}, BadInput, r"edge has 2 attributes, found an array of shape \(2, 3\)"),
    "kind": ({"edge": pd.DataFrame({"x": ["a"], "y": ["b"]})}, BadInput, r"column edge\.x has type .*string"),
    "null": ({"edge": pa.table({"x": [1, None], "y": [1, 2]})}, BadInput, r"column edge\.x, row 1: the value is null"),
    "type": ({"edge": 3}, BadInput, "an int holds no facts of edge"),
    "no relation": (
        EDGES,
        BadInput,
        "a list does not say of which relation its facts are\n  facts is a folder, or {relation: data}",
    ),
    "file": ({"edge": "none.facts"}, BadInput, "Cannot open fact file none.facts"),
    "folder": ("nowhere", BadInput, "Cannot open fact file edge.facts: there is no folder 'nowhere'"),
}


@pytest.mark.parametrize("facts, error, message", WRONG_FACTS.values(), ids=WRONG_FACTS)
def test_wrong_facts_name_the_relation(facts, error, message):
    with pytest.raises(error, match=message):
        Program(PATHS).run(facts)


@pytest.mark.parametrize("given", ["dir/paths.dl", Path("dir/paths.dl")])
def test_the_name_of_a_file_is_no_program(given):
    with pytest.raises(
        BadInput, match=r"^dir/paths.dl is the name of a file, and no program\n  Program.from_file\('dir/paths.dl'\)"
    ):
        Program(given)


def test_facts_of_no_relation_are_refused_everywhere():
    for use in (Program(PATHS).session, Program(PATHS).explain):
        with pytest.raises(BadInput, match="ndarray does not say of which relation"):
            use(np.array(EDGES))


@WHERE
def test_errors_of_evaluation_name_the_rule(local_tuples, here):
    program = Program(
        ".decl a(x: number)\n.decl b(x: number)\n.output b\nb(10 / x) :- a(x).\nb(x - 1) :- b(x), x > 7.\n", "z.dl"
    )
    with pytest.raises(EvaluationError, match=r"in file z\.dl at line 4, column 1, in the rule\n  b\(10 / x\) :- a\(x\)\."):
        program.run({"a": [(1,), (0,)]}, here, local_tuples=local_tuples)


# -- answers


@WHERE
def test_every_kind_of_value_in_every_form(local_tuples, spark):
    with Program(KINDS).run({"in": ROWS}, spark, local_tuples=local_tuples) as result:
        out = result["out"]
        assert out.on_partitions == (local_tuples == 0)
        assert len(out) == out.count() == 5 and out.to_set() == set(out.to_list()) == OUT
        place = pa.struct([("name", pa.string()), ("at", pa.int64())])
        assert out.to_arrow().schema == pa.schema([("s", pa.string()), ("f", pa.float64()), ("u", pa.uint64()), ("p", place)])
        frame = out.to_pandas().sort_values(["s", "f"]).reset_index(drop=True)
        assert list(frame.columns) == ["s", "f", "u", "p"] and frame.u.max() == 2**64 - 1
        assert out.to_numpy().shape == (5, 4)
        rows = out.to_df().collect()
        assert {(r.s, r.f, int(r.u), r.p and tuple(r.p)) for r in rows} == OUT


@WHERE
def test_frames_are_read_where_the_tuples_are(local_tuples, spark):
    text = PATHS.replace("path(x, y), edge(y, z)", "path(x, y), edge(y, z), x != z")  # not a closure
    result = Program(text).run({"edge": EDGES}, spark, local_tuples=local_tuples)
    frame = result["path"].to_df()
    ends = result["ends"].to_df()
    assert frame.columns == ["x", "y"] and ends.columns == ["x"]
    result["path"].frame()  # one that nobody keeps pins nothing
    del result
    gc.collect()
    assert {tuple(row) for row in frame.collect()} == PATH
    assert sorted(tuple(row) for row in frame.join(ends, frame.y == ends.x).select("y").distinct().collect()) == [(3,), (4,)]


def test_a_closure_is_an_answer_as_any(spark, tmp_path):
    with Program(PATHS).run({"edge": EDGES}, spark, local_tuples=0) as result:
        assert result["path"].to_set() == PATH
    alone = PATHS[: PATHS.index(".decl ends")]
    with Program(alone).run({"edge": EDGES}, spark, local_tuples=0) as result:
        assert result.trace["strata"][-1]["plan"] == "decomposed"
        assert result["path"].to_set() == {tuple(row) for row in result["path"].to_df().collect()} == PATH
        result["path"].write(tmp_path / "p.parquet")
        assert {tuple(row) for row in spark.read.parquet(str(tmp_path / "p.parquet")).collect()} == PATH


def test_numbers_are_an_array():
    result = Program(PATHS).run({"edge": EDGES})
    array = result["path"].to_numpy()
    assert array.dtype == np.int64 and set(map(tuple, array.tolist())) == PATH
    assert Program(".decl yes()\n.output yes\nyes().").run()["yes"].to_list() == [()]


# -- files


@WHERE
@pytest.mark.parametrize("name", ["o.parquet", "o.csv", "o.tsv", "o.facts.gz"])
def test_what_is_written_can_be_read_again(local_tuples, name, here, tmp_path):
    with Program(KINDS).run({"in": ROWS}, here, local_tuples=local_tuples) as result:
        for _ in "12":  # the second replaces the first
            result["out"].write(tmp_path / name)
        assert os.listdir(tmp_path) == [name]
    copied = Program(KINDS.replace("out(s, f, u, q) :- out(s, f, u, p), p = [n, i], i < 2, q = [n, i + 1].", ""))
    again = copied.run({"out": tmp_path / name, "in": []})
    assert again["out"].to_set() == OUT


def test_writing_what_cannot_be(tmp_path):
    result = Program(PATHS).run({"edge": EDGES})
    with pytest.raises(ValueError, match=r"o\.doc: cannot tell the format: expected a name that ends in \.tsv"):
        result["path"].write(tmp_path / "o.doc")
    with pytest.raises(BadInput, match="there is no folder"):
        result["path"].write(tmp_path / "none" / "o.csv")


def test_outputs_appear_together(tmp_path):
    result = Program(PATHS + '.output ends(filename="none/ends.csv")\n').run({"edge": EDGES})
    with pytest.raises(BadInput, match="there is no folder"):
        result.write(tmp_path)
    assert os.listdir(tmp_path) == []
    (tmp_path / "none").mkdir()
    written = result.write(tmp_path)
    assert sorted(os.path.basename(path) for path in written) == ["ends.csv", "ends.csv", "path.csv"]
    assert (tmp_path / "none" / "ends.csv").read_text() == "3\n4\n"


# -- results


@WHERE
def test_closed_results(local_tuples, here, tmp_path):
    result = Program(KINDS).run({"in": ROWS}, here, local_tuples=local_tuples, local_dir=str(tmp_path))
    out = result["out"]
    with result:
        assert out.count() == 5
    for use in (out.to_arrow, out.to_df, out.to_list, lambda: out.write(tmp_path / "o.csv"), lambda: result.write(tmp_path)):
        with pytest.raises(ValueError, match="this result has been closed"):
            use()
    assert os.listdir(tmp_path) == []
    result.close()


def test_a_result_is_a_mapping():
    result = Program(PATHS).run({"edge": EDGES})
    assert list(result) == list(result.keys()) == ["edge", "path", "ends"] and len(result) == 3 and "path" in result
    with pytest.raises(KeyError, match=r"unknown relation 'paths'; did you mean 'path'\? There are edge, ends, path"):
        result["paths"]
    assert list(Program(PATHS).run({"edge": EDGES}, only_outputs=True)) == ["edge", "path", "ends"]
    assert result.trace["result"]["relations"] == {"edge": 3, "path": 5, "ends": 2}


def test_how_they_look():
    program = Program(PATHS, "p.dl")
    assert repr(program) == "<Program p.dl: 3 relations, 3 rules; outputs: path, ends>"
    result = program.run({"edge": EDGES})
    assert repr(result["path"]) == "<path(x: number, y: number): 5 tuples>"
    assert repr(result).splitlines()[1:] == [f"  {result[name]!r}" for name in result]
    assert "<summary>path(x: number, y: number)</summary>" in result._repr_html_()
    named = Program(".decl s(x: symbol)\n.output s").run({"s": [("<b>",)]})["s"]
    assert "&lt;b&gt;" in named._repr_html_() and "<b>" not in named._repr_html_()
    many = Program(".decl n(x: number)\n.output n").run({"n": [(i,) for i in range(1000)]})["n"]
    assert many._repr_html_().count("<tr>") == 11 and "… and 990 more tuples" in many._repr_html_()


def test_only_outputs_leaves_out_the_rest():
    text = PATHS + ".decl far(x: number)\nfar(x) :- path(1, x).\n"
    assert set(Program(text).run({"edge": EDGES})) == {"edge", "path", "ends", "far"}
    assert set(Program(text).run({"edge": EDGES}, only_outputs=True)) == {"edge", "path", "ends"}


def test_records_that_contain_themselves_are_tuples_at_any_depth(here):
    text = """
    .type List = [head: number, tail: List]
    .type Named = [name: symbol, list: List]
    .decl list(l: Named)
    .input list
    .output list
    .decl longer(l: Named, f: float)
    .output longer
    longer([s, [7, l]], 1.5) :- list([s, l]).
    """
    long: tuple | None = None
    for n in range(300):
        long = (n, long)
    facts = {"list": [(("a", None),), (("b", (1, None)),), (("c", long),), (None,)]}
    longer = {((name, (7, rest)), 1.5) for name, rest in (("a", None), ("b", (1, None)), ("c", long))}
    for options in ({}, {"local_tuples": 0, "replicate_bytes": 0, "partitions": 2}):
        with Program(text).run(facts, here, **options) as result:
            assert result["longer"].to_set() == set(result["longer"].first(9)) == longer
            assert result["list"].to_set() == set(facts["list"])
    with Program(text).session({"list": []}) as session:
        change = session.insert("list", facts["list"]).changes["longer"]
        assert set(change) == {(*row, 1) for row in longer} and set(session["longer"]) == longer


def test_names_may_have_question_marks(here):
    text = """
    .type T? <: number
    .decl e(x: T?, ?: T?)
    .input e
    .decl ?(x: T?, ?x: T?)
    .output ?
    ?(?x, x) :- e(?x, x).
    ?(x, ?z) :- ?(x, ?x), e(?x, ?z), e(_, x), x != 9.
    .decl p, p?, p?0(?: T?)
    .output p, p?, p?0
    p(x) :- ?(x, x).
    p?(x) :- p(?x), p(x), ?(?x, x), x > ?x.
    p?0(?x) :- p?(?x), !p(7).
    """
    facts, circle = {"e": [(1, 2), (2, 3), (3, 1), (4, 5)]}, {1, 2, 3}
    for options in ({}, {"local_tuples": 0, "replicate_bytes": 0, "partitions": 2, "plan": "balanced"}):
        with Program(text).run(facts, here, **options) as result:
            assert result["?"].to_set() == {(x, y) for x in circle for y in circle} | {(4, 5)}
            assert result["p?0"].to_set() == {(2,), (3,)} and result.why("p?0", (2,)).height == 6
            assert "there is no p?(1)" in str(result.why_not("p?0", (1,)))
            assert "? " in result.explain()
    with Program(text).session(facts) as session:
        session.register("asked?", ".decl asked?(?: number)\nasked?(?) :- ?($?, ?), p($?).")
        for _ in range(3):
            session.delete("e", [(3, 1)])
            assert session["p?"].count() == 0 and session["?"].to_set() == {(1, 2), (2, 3), (4, 5)}
            session.insert("e", [(3, 1)])
            assert session.query("?(1, ?x)").to_set() == {(1,), (2,), (3,)}
        assert session.query("asked?(?)", **{"?": 2}).count() == 3
