"""`semi-naive run -e RULES -F edge=FILE --format …`: declarations that are left out, facts from any file, results printed."""

import contextlib
import csv
import io
import json
import sqlite3
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semi_naive import BadInput, Program
from semi_naive.io.columns import inferred_columns
from semi_naive.io.results.printing import FORMATS, MAX_TABLE_ROWS
from semi_naive.language.errors import ProgramError
from semi_naive.language.parsing.parse import parse
from semi_naive.language.types.undeclared import with_declarations

PATHS = "path(x, y) :- edge(x, y). path(x, z) :- path(x, y), edge(y, z)."
CLOSED = "a\tb\na\tc\nb\tc\n"


@pytest.fixture
def edges(tmp_path):
    (tmp_path / "edges.tsv").write_text("a\tb\nb\tc\n")
    return tmp_path


def types(text, **columns) -> dict[str, str]:
    """The declarations that are made, by name: "x: number, y: symbol"."""
    source = with_declarations(parse(text), columns)
    return {
        each.name: ", ".join(map(": ".join, each.attributes))
        for each in source.statements
        if type(each).__name__ == "RelationDecl"
    }


def outputs(text, **columns) -> list[str]:
    return [each.relation for each in with_declarations(parse(text), columns).statements if type(each).__name__ == "Directive"]


PAIR = [("x", "symbol"), ("n", "float")]
TYPES = {
    "of facts": ('a(1, "x", 2.5, 3u).', {"a": "column1: number, column2: symbol, column3: float, column4: unsigned"}),
    "of columns": ("a(n, x) :- e(x, n).", {"a": "n: float, x: symbol", "e": "x: symbol, n: float"}),
    "of names without names": ("a(v) :- f(v, _w, _).", {"a": "v: number", "f": "v: number, column2: float, column3: symbol"}),
    "through recursion": ("p(x, y) :- e(x, y). p(x, z) :- p(x, _), e(_, z).", {"p": "x: symbol, y: float"}),
    "first used, then made": ("a(y) :- b(y). b(x) :- e(x, _).", {"a": "y: symbol", "b": "x: symbol"}),
    "round a circle": ("a(x) :- b(x). b(x) :- a(x). b(x) :- e(x, _).", {"a": "x: symbol", "b": "x: symbol"}),
    "of half a circle": ("a(x, s) :- b(x), e(s, _). b(x) :- a(x, _).", {"a": "x: number, s: symbol", "b": "x: number"}),
    "of functors": ('a(cat(x, "!"), strlen(x), n * 2.0) :- e(x, n).', {"a": "cat: symbol, strlen: number, column3: float"}),
    "of aggregates": ("a(x, count(n), sum(n)) :- e(x, n).", {"a": "x: symbol, count: number, sum: float"}),
    "of an aggregate's value": ("a(c, m) :- c = count : e(_, _), m = max n : e(_, n).", {"a": "c: number, m: float"}),
    "of a declared relation": (".decl d(i: unsigned)\nd(1).\na(x) :- d(x), !e(_, _).", {"a": "x: unsigned"}),
    "of a declared type": (".type Id <: symbol\n.decl d(i: Id)\nd(\"q\").\na(x) :- d(x).", {"a": "x: Id"}),
    "of a record": (
        ".type P = [u: number, v: symbol]\n.decl d(p: P)\nd([1, \"q\"]).\na(p, v) :- d(p), p = [_, v].",
        {"a": "p: P, v: symbol"},
    ),
    "of nobody": ("a(x) :- b(x). b(x) :- a(x).", {"a": "x: number", "b": "x: number"}),
    "none": ("a() :- e(_, _). b() :- a().", {"a": "", "b": ""}),
}  # fmt: skip


@pytest.mark.parametrize("text, expected", TYPES.values(), ids=TYPES)
def test_what_is_declared(text, expected):
    found = types(text, e=PAIR, f=[("", "number"), ("", "float"), ("", "symbol")])
    assert expected.items() <= found.items(), found
    Program.from_source(with_declarations(parse(text), {"e": PAIR, "f": [("", "number"), ("", "float"), ("", "symbol")]}))


def test_what_is_output():
    assert outputs(PATHS, edge=PAIR) == ["path"]
    assert outputs("a(1). b(x) :- a(x). c(x) :- a(x).") == ["b", "c"]
    assert outputs("a(1). a(x) :- b(x). b(x) :- a(x).") == ["b"], "each is read: that of the last rule"
    assert outputs("a(1).") == ["a"]
    assert outputs("a(1). b(x) :- a(x).\n.output a") == ["a"]
    assert outputs("a(1). b(x) :- a(x).\n.printsize b") == ["b"]


def test_what_nobody_fills():
    with pytest.raises(ProgramError, match=r"(?s)Relation b has neither.*-F b=FILE.*Relation c has neither") as wrong:
        with_declarations(parse("a(x) :- b(x), !c(x)."), {})
    assert [problem.span.column for problem in wrong.value.problems] == [9, 16]
    with pytest.raises(ProgramError, match="e has 1 attribute here, and its file 2 columns: x, n"):
        with_declarations(parse("a(x) :- e(x)."), {"e": PAIR})


COLUMNS = {
    "a.tsv": ("1\t2.5\tx\n-3\t4\t5\n", [("", "number"), ("", "float"), ("", "symbol")]),
    "a.csv": ('"a, b",1e5\n"c",2\n', [("", "symbol"), ("", "float")]),
    "a.facts": ("1\t\n", [("", "number"), ("", "symbol")]),
    "a.txt": ("# a comment\n1 2\n3 4\n", [("", "number"), ("", "number")]),
    "a.mtx": (
        "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 0.5\n",
        [("", "number"), ("", "number"), ("", "float")],
    ),
    "a.json": ('[{"n": 1, "s": "2"}, {"n": 2, "s": "x"}]', [("n", "number"), ("s", "symbol")]),
    "c.json": ('[{"n": null, "b": true}, {"n": 2, "b": false}]', [("n", "number"), ("b", "bool")]),
    "b.json": ("[[1, 2.5], [2, 3]]", [("", "number"), ("", "float")]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_columns_of_a_file(tmp_path, name):
    text, expected = COLUMNS[name]
    (tmp_path / name).write_text(text)
    assert inferred_columns(str(tmp_path / name)) == expected


def test_the_columns_of_parquet_and_of_headers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pa.table({"a b": pa.array([1], pa.uint64()), "s": ["x"], "f": [1.5], "2": pa.array([1], pa.int8())})
    pq.write_table(table, "t.parquet")
    expected = [("a_b", "unsigned"), ("s", "symbol"), ("f", "float"), ("_2", "number")]
    assert inferred_columns("t.parquet") == expected == inferred_columns("*.parquet")
    (tmp_path / "h.csv").write_text("from,to id\n1,x\n")
    assert inferred_columns("h.csv", header=True) == [("from", "number"), ("to_id", "symbol")]
    pq.write_table(pa.table({"when": pa.array([0], pa.date32()), "ok": [True]}), "w.parquet")
    assert inferred_columns("w.parquet") == [("when", "date"), ("ok", "bool")]
    pq.write_table(pa.table({"when": [[0]]}), "d.parquet")
    (tmp_path / "n.tsv").write_text("x\ty\n1\t2\n")
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "q.sqlite").write_text("")
    for path, why in {
        "d.parquet": "column 'when' has type list", "n.tsv": "the first row has names.*x, y", "empty.tsv": "there is no row",
        "q.sqlite": "the database has nothing", "none.tsv": "no such file", "*.txt": "no file fits",
    }.items():  # fmt: skip
        with pytest.raises(BadInput, match=why):
            inferred_columns(path)


def test_the_columns_of_a_database(run, edges):
    with contextlib.closing(sqlite3.connect("d.sqlite")) as database:
        database.execute("CREATE TABLE road (source TEXT, km INTEGER, hours, 'a b' BLOB)")
        database.execute("CREATE VIEW far AS SELECT source, km * 1.5 AS miles FROM road")
        assert inferred_columns("d.sqlite", table="road") == [
            ("source", "symbol"), ("km", "number"), ("hours", "symbol"), ("a_b", "symbol")
        ]  # fmt: skip
        database.execute("INSERT INTO road VALUES ('7', 430, 4, 'x'), ('Ulm', 5, 2.5, '')")
        database.commit()
    assert [type_ for _, type_ in inferred_columns("d.sqlite", table="road")] == ["symbol", "number", "float", "symbol"]
    assert inferred_columns("d.sqlite", table="far") == [("source", "symbol"), ("miles", "float")]
    assert run("run", "-e", "a(x, k + 1) :- road(x, k, h, _), h < 3.", "-F", "road=d.sqlite") == (0, "Ulm\t6\n", "")
    status, _, errors = run("run", "-e", "a(x) :- roads(x).", "-F", "roads=d.sqlite")
    assert status == 2 and "relation roads: roads" in errors and "the database has road, far" in errors


def test_a_line(run, edges):
    assert run("run", "-e", PATHS, "-F", "edge=edges.tsv") == (0, CLOSED, "")
    assert run("run", "--rules", PATHS, "-Fedge=*.tsv", "-D", "out") == (0, "", "")
    assert (edges / "out" / "path.csv").read_text() == CLOSED
    assert run("run", "-e", "n(count(x)) :- edge(x, _).", "-Fedge=edges.tsv") == (0, "2\n", "")
    assert run("run", "-e", "e(x, z) :- e(x, y), e(y, z).", "-Fe=edges.tsv") == (0, CLOSED, ""), "facts and rules"
    assert run("run", "-e", ".decl edge(x: symbol, y: symbol) .output edge", "-Fedge=edges.tsv")[1] == "a\tb\nb\tc\n"


def test_facts_of_the_folder(run, edges):
    (edges / "edge.facts").write_text("1\t2\n")
    assert run("run", "-e", "a(y) :- edge(_, y).") == (0, "2\n", "")
    assert run("run", "-e", "a(y) :- edge(_, y).", "-F", ".") == (0, "2\n", "")
    (edges / "box").mkdir()
    status, _, errors = run("run", "-e", "a(y) :- edge(_, y).", "--sandbox", "box", "-D-")
    assert status == 1 and "Relation edge has neither rules nor facts" in errors


def test_files_of_a_program_with_declarations(run, edges):
    """With and without .input, beside a folder for the others, and wide parquet by its columns' names."""
    text = (
        ".decl edge(x: symbol, y: symbol)\n.decl only(x: symbol)\n.input only\n"
        ".decl a(y: symbol)\n.output a\na(y) :- edge(x, y), only(x).\n"
    )
    (edges / "p.dl").write_text(text)
    (edges / "facts").mkdir()
    (edges / "facts" / "only.facts").write_text("b\n")
    assert run("run", "p.dl", "-F", "facts", "-F", "edge=edges.tsv", "--format", "tsv") == (0, "c\n", "")
    pq.write_table(pa.table({"z": [1], "y": ["q"], "x": ["b"]}), edges / "wide.parquet")
    assert run("run", "p.dl", "-F", "facts", "-F", "edge=wide.parquet", "--format", "tsv") == (0, "q\n", "")
    (edges / "p.dl").write_text(text.replace(".decl only", ".input edge\n.decl only") + '.pragma "fact-dir" "facts"\n')
    assert run("run", "p.dl", "-F", "edge=edges.tsv", "--format", "tsv") == (0, "c\n", "")
    assert "edge" in run("run", "p.dl", "-F", "edge=edges.tsv", "--explain")[1]


def test_headers_that_nobody_has_told_of(run, edges):
    (edges / "p.dl").write_text(".decl h(x: number, w: number)\n.output h\n")
    (edges / "h.csv").write_text("from,weight\n1,2\nx,2\n")
    status, out, errors = run("run", "p.dl", "-F", "h=h.csv", "-D-")
    assert (status, out) == (2, "") and "h.csv:1:1: 'from' is not a number" in errors and "headers=true" in errors
    assert "--header" in errors and "--header" in run("tc", "h.csv")[2] and "header=True" not in run("tc", "h.csv")[2]
    assert "headers=" not in run("run", "p.dl", "-F", "h=h.csv", "--header", "-D-")[2], "of line 3 that is no advice"


def test_headers(run, edges):
    (edges / "h.csv").write_text("from,weight\nx,1\ny,2\n")
    assert run("run", "-e", "a(x, w + 1) :- h(x, w).", "-F", "h=h.csv", "--header") == (0, "x\t2\ny\t3\n", "")
    assert json.loads(run("run", "-e", "a(from, w) :- h(from, w).", "-F", "h=h.csv", "--header", "--format=json")[1])["a"][
        1
    ] == {"from": "y", "w": 2}
    (edges / "p.dl").write_text(".decl h(x: symbol, w: number)\n.output h\n")
    assert run("run", "p.dl", "-F", "h=h.csv", "--header", "--format", "tsv") == (0, "x\t1\ny\t2\n", "")


WRONG = {
    "both": (["p.dl", "-e", "a(1)."], "-e is in place of a PROGRAM"),
    "neither": (["-F", "facts"], "name a PROGRAM, or rules by -e"),
    "two folders": (["-e", "a(1).", "-F", ".", "-F", "edges"], "there are two folders"),
    "twice": (["-e", "a(1).", "-F", "e=x", "-F", "e=y"], "e is named twice"),
    "no file": (["-e", "a(x) :- e(x).", "-F", "e=none.tsv"], "none.tsv: no such file"),
    "no pattern": (["-e", "a(x) :- e(x).", "-F", "e=none*.tsv"], "no file fits this pattern"),
    "no relation": (["-e", "a(1).", "-F", "e=edges.tsv"], "unknown relation 'e'"),
    "no form": (["-e", "a(1).", "--format", "yaml"], "yaml"),
    "a form of files": (["-e", "a(1).", "--format", "csv", "-D", "out"], "--format csv applies to results printed with -D -"),
    "header": (["-e", "a(1).", "--header"], "--header is of files that -F NAME=FILE names"),
}  # fmt: skip


@pytest.mark.parametrize("arguments, expected", WRONG.values(), ids=WRONG)
def test_what_is_wrong(run, edges, arguments, expected):
    status, out, errors = run("run", *arguments)
    assert (status, out) == (2, "") and expected in errors and "Traceback" not in errors


def test_an_error_of_the_line_has_its_place(run, edges):
    status, out, errors = run("run", "-e", "a(x) :- edge(x, y), b(y.", "-F", "edge=edges.tsv")
    assert (status, out) == (1, "") and "in file -e at line 1, column 24" in errors
    status, _, errors = run("run", "-e", "a(x) :- edge(x, y), y < 3.", "-F", "edge=edges.tsv")
    assert status == 1 and "in file -e at line 1" in errors


SHOWN_AS = """
.decl a(name: symbol, x: number, f: float)
.output a
a("x|y", -1, 0.5). a("q\\"t", 2, 1.0). a("line\\nend", 3, 2.25).
.decl b(u: unsigned)
.output b
b(18446744073709551615).
.printsize b
.decl yes() .output yes
yes().
.decl no() .output no
"""


def test_forms(run, tmp_path):
    (tmp_path / "p.dl").write_text(SHOWN_AS)
    found = {}
    for form in FORMATS:
        status, found[form], errors = run("run", "p.dl", "--wno=all", "--format", form)
        assert (status, errors) == (0, "b\t1\n" if form != "souffle" else "")
    assert found["souffle"] == run("run", "p.dl", "--wno=all", "-D-")[1]
    assert json.loads(found["json"]) == {
        "a": [{"name": 'line\nend', "x": 3, "f": 2.25}, {"name": 'q"t', "x": 2, "f": 1.0}, {"name": "x|y", "x": -1, "f": 0.5}],
        "b": [{"u": 18446744073709551615}], "yes": [{}], "no": [],
    }  # fmt: skip
    blocks = found["csv"].split("\n\n")
    rows = list(csv.reader(io.StringIO(blocks[0] + "\n")))
    assert rows == [["a"], ["name", "x", "f"], ["line\nend", "3", "2.25"], ['q"t', "2", "1"], ["x|y", "-1", "0.5"]]
    assert blocks[1] == "b\nu\n18446744073709551615"
    assert found["tsv"].endswith("b\n18446744073709551615\n\nyes\n()\n\nno\n")
    assert "**a**\n\n| name | x | f |\n| --- | --: | --: |\n| line<br>end | 3 | 2.25 |\n" in found["markdown"]
    assert "| x\\|y | -1 | 0.5 |" in found["markdown"]
    assert "3 tuples" in found["table"] and "18446744073709551615" in found["table"] and "1 tuple\n" in found["table"]


def test_one_relation_has_no_line_of_its_name(run, edges):
    line = ["run", "-e", PATHS, "-F", "edge=edges.tsv", "--format"]
    assert run(*line, "csv")[1] == 'x,y\n"a","b"\n"a","c"\n"b","c"\n'
    assert run(*line, "json")[1] == '{\n"path": [{"x": "a", "y": "b"},\n{"x": "a", "y": "c"},\n{"x": "b", "y": "c"}]\n}\n'


@pytest.mark.parametrize("rows", [MAX_TABLE_ROWS, MAX_TABLE_ROWS + 1, 6000])
def test_a_table_has_the_first_rows(run, tmp_path, rows):
    """Of few rows and of many, in order; numbers, text and records."""
    numbers = np.random.default_rng(1).permutation(rows).tolist()
    (tmp_path / "n.tsv").write_text("".join(f"{n}\tname {n:05}\n" for n in numbers))
    text = ".type P = [n: number, s: symbol]\na(n, s, [n, s], as(n, unsigned), n * 1.5) :- n(n, s).".replace(
        "n * 1.5", "to_float(n) * 1.5"
    )
    text = f".decl a(n: number, s: symbol, p: P, u: unsigned, f: float)\n{text}"
    status, out, errors = run("run", "-e", text, "-F", "n=n.tsv", "--format", "table")
    assert (status, errors) == (0, "")
    lines = [line.split() for line in out.splitlines() if "[" in line]
    assert lines == [f"{n} name {n:05} [{n}, name {n:05}] {n} {n * 1.5:g}".split() for n in range(min(rows, MAX_TABLE_ROWS))]
    told = f"{rows:,} tuples" + f", the first {MAX_TABLE_ROWS} are shown" * (rows > MAX_TABLE_ROWS)
    assert out.splitlines()[-1] == told


def test_a_person_gets_a_table(run, edges, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    status, out, _ = run("run", "-e", PATHS, "-F", "edge=edges.tsv", "-q")
    assert status == 0 and "symbol" in out and "3 tuples" in out
    assert run("run", "-e", PATHS, "-F", "edge=edges.tsv", "-q", "-D-")[1].startswith("---------------\npath\n")


def test_a_result_is_printed_in_python(capsys):
    with Program(".decl a(x: number)\n.output a\na(1).").run() as result:
        assert result.write("-", format="csv") == [] and capsys.readouterr().out == "x\n1\n"
        for folder, form in (("-", "yaml"), (".", "csv")):
            with pytest.raises(ValueError, match="expected one of souffle, table"):
                result.write(folder, form)
