"""The public classes are spelled alike: what frames of others go in and come out, how each is shown, what errors say to do."""

import json
import os
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from paths import NAMED_PATHS as PATHS

import semi_naive
from semi_naive import (
    BadInput,
    Branch,
    Config,
    Libraries,
    Program,
    Relation,
    Vertices,
    simulate,
    subgraphs,
    transforms,
    transitive_closure,
    vectorised,
)
from semi_naive.__main__ import main

EDGES = [("a", "b"), ("b", "c")]
CLOSED = {("a", "b"), ("b", "c"), ("a", "c")}


def paths(**options):
    return Program(PATHS).run({"edge": EDGES}, **options)


# -- frames


@pytest.fixture
def polars():
    return pytest.importorskip("polars")


def test_polars_frames_come_out(polars):
    rows = polars.DataFrame({"n": [1, 2, 3], "f": [0.5, 1.5, 2.5], "s": ["a", "b", "a"]})
    found = Relation.from_polars(rows).to_polars()
    assert list(found.schema.items()) == [("n", polars.Int64), ("f", polars.Float64), ("s", polars.Categorical)]
    assert set(found.rows()) == set(rows.rows())
    assert Relation.from_polars(rows).to_polars(dictionaries=False).schema["s"] == polars.String
    assert Relation.from_polars(rows.lazy(), ["a", "b", "c"]).columns == ("a", "b", "c")
    closure = transitive_closure(rows.select(source="s", target=polars.Series(["b", "c", "c"])))
    assert set(closure.to_polars().rows()) == CLOSED and closure.columns == ("source", "target")
    assert Relation.from_tuples([()], ()).to_polars().height == 1


@pytest.mark.parametrize("text", ["String", "Categorical"])
def test_polars_frames_go_in(polars, text):
    edges = polars.DataFrame({"y": ["b", "c"], "x": ["a", "b"]}, schema_overrides={"x": getattr(polars, text)})
    for facts in (edges, edges.lazy(), polars.concat([edges[:1], edges[1:]], rechunk=False)):
        assert Program(PATHS).run({"edge": facts})["path"].to_set() == CLOSED
    kinds = polars.DataFrame({"x": [1, 2], "y": [2, 3]}, schema={"x": polars.Int8, "y": polars.UInt64})
    assert transitive_closure(kinds.lazy()).to_set() == {(1, 2), (2, 3), (1, 3)}
    with pytest.raises(BadInput, match="column edge.x, row 1: the value is null"):
        Program(PATHS).run({"edge": edges.with_columns(x=polars.Series(["a", None], dtype=getattr(polars, text)))})
    with pytest.raises(BadInput, match="edge"):
        Program(PATHS).run({"edge": edges["x"]})


def test_arrow_dictionaries_are_looked_up_once_a_text():
    coded = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()])
    table = pa.table({"x": coded, "y": pa.array(["b", "c", "c"]).dictionary_encode()})
    assert Program(PATHS).run({"edge": table})["path"].to_set() == CLOSED
    missing = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    with pytest.raises(BadInput, match="column edge.x, row 1: the value is null"):
        Program(PATHS).run({"edge": pa.table({"x": missing, "y": ["b", "c"]})})
    broken = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([b"\xff"]).view(pa.string()))
    with pytest.raises(BadInput, match="0xff is not UTF-8"):
        Program(PATHS).run({"edge": pa.table({"x": broken, "y": ["b"]})})


def test_results_are_facts_of_other_runs_and_what_reads_arrow_reads_them():
    import duckdb

    found = paths()["path"]
    assert Program(PATHS).run({"edge": found})["path"].to_set() == CLOSED == set(found)
    assert transitive_closure(found).to_set() == CLOSED == transitive_closure(transitive_closure(EDGES)).to_set()
    assert pa.table(found).schema == found.arrow_schema() and pa.table(Relation.from_tuples([()], ())).num_rows == 1
    assert duckdb.sql("select count(*), min(x) from found").fetchall() == [(3, "a")]
    assert Program(PATHS).run({"edge": duckdb.sql("select 'a' as x, 'b' as y")})["path"].to_set() == {("a", "b")}
    assert found.to_pandas(dictionaries=True).dtypes["x"] == "category"


@pytest.mark.parametrize("plan", ["auto", "balanced"])
def test_a_closure_keeps_the_names_of_columns(spark, plan):
    frame = spark.createDataFrame(EDGES, ["src", "dst"])
    for edges in (frame, frame.toPandas(), pa.table({"src": ["a", "b"], "dst": ["b", "c"]})):
        with transitive_closure(edges, spark, plan) as found:
            assert found.columns == ("src", "dst") == tuple(found.to_df().columns) and found.to_set() == CLOSED
    for edges in (EDGES, np.array([[1, 2]]), pd.DataFrame([[1, 2]]), pa.table([[1], [2]], ["n", "n"])):
        with transitive_closure(edges, spark, plan) as found:
            assert found.columns == ("x", "y")


def test_transforms_of_data_frames(spark, tmp_path):
    edges = spark.createDataFrame(EDGES, ["src", "dst"])
    closed = edges.transform(transforms.transitive_closure, plan="decomposed")
    assert closed.columns == ["src", "dst"] and set(map(tuple, closed.collect())) == CLOSED
    (tmp_path / "paths.dl").write_text(PATHS)
    for program in (Program(PATHS), tmp_path / "paths.dl"):
        assert set(map(tuple, edges.transform(transforms.evaluated, program).collect())) == CLOSED
    assert edges.transform(transforms.evaluated, Program(PATHS), "edge", "edge", {}).count() == 2
    with pytest.raises(BadInput, match="has not one .input\n  name the relation, reads=…: it has none"):
        edges.transform(transforms.evaluated, Program(".decl a(x: symbol, y: symbol)\n.output a"))


# -- how they are shown


def everything():
    """Every public class, one of each."""
    result, vertices = paths(), Vertices.of(EDGES)
    edge = Relation.from_tuples(EDGES, ["x", "y"])
    session = Program(PATHS).session({"edge": EDGES}, retain=1)
    transaction = session.insert("edge", [("c", "d")])
    return {
        "program": Program(PATHS),
        "result": result,
        "answer": result["path"],
        "branch": Branch("Cons", 1, Branch("Nil")),
        "closure": transitive_closure(EDGES),
        "config": Config(buckets=64),
        "libraries": Libraries([]),
        "proof": result.why("path", ("a", "c")),
        "why not": result.why_not("path", ("c", "a")),
        "relation": edge,
        "evaluated relation": edge.select(x="a").evaluate(),
        "report": result.report(),
        "session": session,
        "epoch": session.at(0),
        "transaction": transaction,
        "changes": transaction.changes["path"],
        "query": session.query('path("a", y)'),
        "subscription": session.subscribe("path", print),
        "sink": session.sink("edge"),
        "simulated": simulate(EDGES, 2),
        "simulated program": simulate(Program(PATHS), 2, facts={"edge": EDGES}),
        "subgraphs": subgraphs(vertices, "triangle", count=False),
        "vectorised": vectorised(len),
        "vertices": vertices,
    }


def test_each_is_shown_in_few_words():
    found = everything()
    for name, each in found.items():
        text = repr(each)
        assert 0 < len(text) < 300 and "object at 0x" not in text and "array" not in text, (name, text)
    assert repr(found["config"]) == "Config(buckets=64)" and repr(Config()) == "Config()"
    assert repr(found["vertices"]) == "<Vertices: 3 vertices, 2 undirected edges>"
    assert repr(found["changes"]) == "<Changes of path: 3 inserted, 0 deleted>"
    assert repr(found["query"]) == "<path(y: symbol): 3 tuples>" and "1 tuple>" in repr(found["evaluated relation"])
    assert repr(found["subscription"]) == "<Subscription to path: told 0×>"
    classes = {type(each) for each in found.values()}
    assert classes >= {one for one in map(vars(semi_naive).get, semi_naive.__all__) if isinstance(one, type)} - {BadInput}


def test_relations_by_name_are_read_alike():
    with Program(PATHS).session({"edge": EDGES}, retain=1) as session:
        session.insert("edge", [("c", "d")])
        for found, size in ((paths(), 3), (session.at(0), 3), (session, 6)):
            assert list(found) == list(found.keys()) == ["edge", "path"] and len(found) == 2 and "path" in found
            assert {name: each.count() for name, each in found.items()}["path"] == size == len(found["path"])


def test_a_report_is_a_page_and_says_where_it_is(tmp_path):
    with paths() as result:
        page, written = result.report(), result.report(tmp_path / "run.html")
    assert page.startswith("<!DOCTYPE html>") and written == (tmp_path / "run.html").read_text()
    assert (
        repr(written).endswith(f"kB, written to {tmp_path}/run.html>")
        and f'href="{tmp_path}/run.html"' in written._repr_html_()
    )
    assert "<script" not in page._repr_html_() and page._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE')


def test_whatever_has_run_is_drawn(tmp_path, here):
    square = [(1, 2), (2, 3), (1, 3), (3, 4)]
    drawn = {
        "result": paths(),
        "answer": paths(local_tuples=0, spark=here)["path"],
        "closure": transitive_closure(EDGES, here, "balanced"),
        "relation": Relation.from_tuples(EDGES, ["x", "y"]).project("x"),
        "facts": Program(".decl p(x: number)\n.output p\np(1). p(2).").run(),
        "subgraphs": subgraphs(square, "triangle", count=False, plan="boxed", memory=10_000),
        "simulated": simulate(EDGES, 2),
    }
    for name, each in drawn.items():
        figure = each.plot(tmp_path / f"{name}.svg")
        assert figure.axes and (tmp_path / f"{name}.svg").read_text().count("<text") > 0, name
    with Program(PATHS).session({"edge": EDGES}) as session, pytest.raises(ValueError, match="no run is recorded"):
        session["path"].plot()


def test_a_simulation_is_its_record():
    found = simulate(EDGES, 2)
    assert json.loads(json.dumps(found)) == found == found.trace and "iterations: 2" in found.explain()
    assert found.report().startswith("<!") and repr(found).startswith("<Simulated: 3 tuples, 2 iterations, ")


# -- what errors say to do


def test_missing_facts_are_asked_for_as_python_has_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paths.dl").write_text(PATHS)
    with pytest.raises(BadInput) as missing:
        Program(PATHS).run()
    assert "facts={'edge': …}" in str(missing.value) and "lenient=True" in str(missing.value) and "-F" not in str(missing.value)
    with pytest.raises(BadInput, match="name the right folder with facts="):
        Program(PATHS).run("nowhere")
    with paths() as result, pytest.raises(BadInput, match="make it, or name another$"):
        result.write("nowhere")
    with pytest.raises(SystemExit):
        main(["run", "paths.dl"])
    said = capsys.readouterr().err
    assert "-F (--fact-dir)" in said and "-w" in said and "facts=" not in said


def test_what_is_closed_says_so_and_what_to_do():
    result, relation = paths(), Relation.from_tuples(EDGES, ["x", "y"]).select(x="a").evaluate()
    session = Program(PATHS).session({"edge": EDGES})
    answers = [result["path"], relation, session["path"]]
    for each in (result, relation, session):
        each.close()
    for answer in answers:
        for read in (answer.to_list, answer.to_arrow, answer.to_numpy, answer.to_df):
            with pytest.raises(ValueError, match="has been closed.*: read or write (them|its tuples) before that"):
                read()


CONNECT = """
from pyspark.sql import SparkSession
from semi_naive import Program, Relation, transforms, transitive_closure

session = SparkSession.builder.remote("local").getOrCreate()
edges = session.createDataFrame([("a", "b"), ("b", "c")], ["src", "dst"])
for plan in ("auto", "balanced"):
    try:
        transitive_closure([(1, 2)], session, plan)
    except ValueError as error:
        print(error)
with transitive_closure(edges) as found:
    assert found.to_set() == {("a", "b"), ("b", "c"), ("a", "c")} and found.columns == ("src", "dst")
    assert found.to_df().filter("src = 'a'").count() == 2
assert edges.transform(transforms.transitive_closure).count() == 3
assert Relation.from_df(edges).project("src").to_df().count() == 2
text = ".decl e(x: symbol, y: symbol)\\n.input e\\n.decl q(y: symbol)\\n.output q\\nq(y) :- e(x, y)."
with Program(text).run({"e": edges}, local_tuples=0) as result:
    assert result["q"].on_partitions and result["q"].to_df().count() == 2
"""


def test_spark_connect_says_what_works_and_that_works(tmp_path):
    pytest.importorskip("grpc_status")
    found = {name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")}
    made = subprocess.run([sys.executable, "-c", CONNECT], capture_output=True, text=True, cwd=tmp_path, env=found, timeout=300)
    assert made.returncode == 0, made.stderr[-3000:]
    assert made.stdout.count("has no SparkContext, which the engine's jobs need: leave spark out") == 2


# -- in notebooks


class Tags(HTMLParser):
    """The elements of HTML, which must be closed in their order."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.names, self.text = [], [], ""
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.names.append(tag)
        if tag not in ("br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.names.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data


HOSTILE = "<script>alert('&\"')</script>"


def hostile():
    """What notebooks show, with names and values that would be elements if nobody escaped them."""
    result = Program(PATHS, HOSTILE).run({"edge": [(HOSTILE, "b"), ("b", "c")]})
    session = Program(PATHS, HOSTILE).session({"edge": [(HOSTILE, "b")]}, retain=1)
    relation = Relation.from_tuples([(HOSTILE, 1)], ["<b>", "n"])
    return {
        "program": Program(PATHS, HOSTILE),
        "result": result,
        "answer": result["path"],
        "answer on partitions": Program(PATHS).run({"edge": [(HOSTILE, "b")]}, local_tuples=0)["path"],
        "closure": transitive_closure([(HOSTILE, "b")]),
        "relation": relation.select(n=1).evaluate(),
        "session": session,
        "epoch": session.at(0),
        "changes": session.insert("edge", [("b", HOSTILE)]).changes["path"],
        "proof": result.why("path", (HOSTILE, "c")),
        "why not": result.why_not("path", ("c", HOSTILE)),
        "subgraphs": subgraphs([(HOSTILE, "b")], ["xy"], directed=True, count=False),
        "simulated": simulate(Program(PATHS, HOSTILE), 2, facts={"edge": EDGES}),
    }


def test_what_notebooks_show_is_small_and_escaped(here):
    for name, each in hostile().items():
        html = each._repr_html_()
        found = Tags(html)
        assert "script" not in found.names and len(html) < 20_000, name
        if name not in ("simulated", "program", "epoch"):
            assert "alert(" in found.text, (name, found.text)


def test_a_program_is_shown_with_its_strata_drawn():
    text = PATHS + ".decl none(x: symbol, y: symbol)\n.output none\nnone(x, y) :- edge(x, _), edge(_, y), !path(x, y).\n"
    found = Tags(Program(text, "p.dl")._repr_html_())
    assert found.names.count("rect") == 3 and "path ↻" in found.text and "reads edge" in found.text
    assert Program(text)._repr_html_().count('stroke-dasharray="4 3"') == 1, "the negation"
    chain = "".join(f".decl r{n}(x: number)\nr{n}(1).\n" for n in range(200))
    assert "200 strata" in Program(chain)._repr_html_() and len(Program(chain)._repr_html_()) < 2000
    many = Program(chain).run()._repr_html_()
    assert "and 170 more relations" in many and len(many) < 20_000


def test_relations_show_their_first_tuples(here):
    rows = [(n, "x" * 200) for n in range(1000)]
    answer = Program(".decl a(n: number, s: symbol)\n.input a\n.output a").run({"a": rows})["a"]
    found = Tags(answer._repr_html_())
    assert found.names.count("tr") == 11 and "… and 990 more tuples" in found.text and len(answer._repr_html_()) < 3000
    assert answer.first(3) == [(n, "x" * 200) for n in range(3)]
    layered = Program(PATHS).run({"edge": [(str(n), str(n + 1)) for n in range(9)]}, small_delta=0)["path"]
    assert len(layered.first(44)) == 44 and layered.first(100) == layered.to_list(), "of as many blocks as it takes"
    relation = Relation.from_tuples(rows, ["n", "s"])
    assert "not evaluated" in relation._repr_html_() and relation._node.result is None
    assert "990 more" in relation.evaluate()._repr_html_()
    answer.close()
    assert "this result has been closed" in answer._repr_html_()
    yes = Program(".decl yes()\n.output yes\nyes().").run()
    assert yes["yes"].first(5) == [()] and "yes" in yes._repr_html_()


@pytest.mark.parametrize("plan", ["auto", "balanced", "decomposed"])
def test_a_closure_shows_its_balance(here, plan):
    edges = [(n, n + 1) for n in range(100)]
    with transitive_closure(edges, here, plan, partitions=4) as closure:
        html = closure._repr_html_()
    assert "new tuples by iteration, of 100" in html and ("by partition, of 4" in html) == (plan == "balanced")
    assert html.count("<rect") >= 50 and "5,050 pairs" in html and len(html) < 20_000
    assert "tuples by rank, of 8" in simulate(edges, 8)._repr_html_()


NOTEBOOK = """
import semi_naive.notebooks.progress as progress
progress.SECONDS_BEFORE_BAR = progress.ProgressText.tick = 0.0
from semi_naive import Program, transitive_closure
def run(**how):
    return Program(".decl n(x: number)\\\\n.output n\\\\nn(0).\\\\nn(x + 1) :- n(x), x < 3000.").run(small_delta=0, **how)
"""


def test_a_notebook_shows_how_far_a_run_is():
    """In a real kernel: the element changes while the run goes on, and is empty afterwards."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = [
        NOTEBOOK.replace("\\\\", "\\"),
        "run()",
        "transitive_closure([(n, n + 1) for n in range(2000)])",
        "run(progress=False)",
        "1 / 0",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    shown = []

    class Client(nbclient.NotebookClient):
        def output(self, outputs, message, display_id, cell_index):
            if message["msg_type"] in ("display_data", "update_display_data"):
                shown.append((cell_index, message["content"]["data"]["text/html"]))
            return super().output(outputs, message, display_id, cell_index)

        def process_message(self, message, cell, cell_index):
            if message["msg_type"] == "update_display_data":
                shown.append((cell_index, message["content"]["data"]["text/html"]))
            return super().process_message(message, cell, cell_index)

    Client(notebook, timeout=300, kernel_name="python3", allow_errors=True).execute()
    assert notebook.cells[-1].outputs[0].ename == "ZeroDivisionError" and not notebook.cells[0].outputs
    for cell, said in ((1, "stratum 1 of 1 · iteration"), (2, "iteration")):
        bars = [html for at, html in shown if at == cell]
        assert len(bars) > 1 and "<progress" in bars[0] and said in bars[0] and bars[-1] == "", bars[:2]
        assert "<table>" in notebook.cells[cell].outputs[-1].data["text/html"]
    assert not [html for at, html in shown if at == 3], "progress=False"


def test_progress_on_a_terminal_is_asked_for(capsys, monkeypatch):
    edges = [(n, n + 1) for n in range(50)]
    assert transitive_closure(edges, progress=True).count() == transitive_closure(edges).count() == 1275
    assert not capsys.readouterr().err, "this is no terminal"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    transitive_closure(edges, progress=True)
    assert "closure" in capsys.readouterr().err
    told = []
    Program(PATHS).run({"edge": EDGES}, progress=lambda *said: told.append(said))
    assert told


# -- many tuples of this process, for Spark


LENT = """
.type Pair = [a: number, b: symbol]
.decl many(x: symbol, X: unsigned, r: Pair)
.input many
.output many
"""


def test_many_tuples_are_lent_to_spark_until_the_result_is_closed(spark, monkeypatch, tmp_path):
    monkeypatch.setattr("semi_naive.running.results.lent.MIN_LENT_TUPLES", 2)
    rows = [("a", 2**64 - 1, (1, "b")), ("b", 0, None), ("c", 5, (2, "d"))]
    result = Program(LENT).run({"many": rows}, spark, local_dir=str(tmp_path))
    frame = result["many"].to_df()
    assert frame.columns == ["x", "X", "r"] and frame.inputFiles() and list(tmp_path.iterdir())
    assert {(row[0], int(row[1]), row[2] and tuple(row[2])) for row in frame.collect()} == set(rows)
    derived = frame.toDF("a", "b", "c").filter("a > 'a'")
    assert derived.count() == 2
    result.close()
    with pytest.raises(Exception, match="the-result-of-this-DataFrame-was-closed--read-or-write-the-DataFrame-before-that"):
        derived.count()
    assert not list(tmp_path.iterdir())
    with Program(LENT).session({"many": rows}, spark=spark, local_dir=str(tmp_path)) as session:
        before = session["many"].to_df()
        session.delete("many", rows[:1])
        assert before.count() == 3 and session["many"].to_df().inputFiles() == []
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    assert Program(LENT).run({"many": rows}, spark)["many"].to_df().inputFiles() == []


def test_a_frame_of_the_partitions_says_that_its_result_has_been_closed(spark):
    edges = [(str(x), str(x + 1)) for x in range(20)]
    result = Program(PATHS).run({"edge": edges}, spark, plan="balanced", local_tuples=0)
    assert result["path"].on_partitions
    frame = result["path"].to_df()
    assert frame.count() == 210
    result.close()
    with pytest.raises(
        Exception, match="the tuples of this DataFrame are gone: the result that made it has been closed"
    ) as error:
        frame.count()
    assert "Traceback" not in str(error.value)
