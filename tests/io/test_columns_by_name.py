"""Columns by the attributes' names: every reader finds them by one rule, in this process and in Spark's tasks."""

import gzip
import io
import json
import sqlite3
import sys

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semi_naive import BadInput, Program, transitive_closure
from semi_naive.graphs import as_edges
from semi_naive.io.parallel import ReadSpan, frame_parts
from semi_naive.io.python_data import source_of
from semi_naive.io.reading import source_of_path
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.ir import Kind, Relation, Type
from semi_naive.ra.values.values import Values

SYMBOL = Type("symbol", Kind.SYMBOL)
EDGE = Relation("edge", (("src", SYMBOL), ("dst", SYMBOL)))
MARK = b"\xef\xbb\xbf"
FRAMES = {
    "arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "pandas objects": lambda table: table.to_pandas().assign(odd=[object()] * table.num_rows),
    "polars": pl.from_arrow,
    "polars lazy": lambda table: pl.from_arrow(table).lazy(),
    "duckdb": lambda facts: duckdb.sql("SELECT * FROM facts"),
}
TEXTS = {".csv": ",", ".tsv": "\t", ".facts.gz": "\t", ".txt": "\t", ".txt with blanks": " "}
FILES = [*TEXTS, "parquet", "json", "sqlite"]


def written(kind: str, columns, rows, folder) -> str:
    """The path of a file of this kind with named columns."""
    path = str(folder / f"edge.{kind}")
    if kind in TEXTS:
        path = str(folder / f"edge{kind.split()[0]}")
        text = "".join(TEXTS[kind].join(row) + "\n" for row in (columns, *rows)).encode()
        with (gzip.open if path.endswith(".gz") else open)(path, "wb") as file:
            file.write(text)
    elif kind == "parquet":
        pq.write_table(table_of(columns, rows), path, row_group_size=1)
    elif kind == "json":
        with open(path, "w") as file:
            json.dump([dict(zip(columns, row, strict=True)) for row in rows], file)
    else:
        database = sqlite3.connect(path)
        database.execute(f"CREATE TABLE edge ({', '.join(columns)})")
        database.executemany(f"INSERT INTO edge VALUES ({', '.join('?' * len(columns))})", rows)
        database.commit()
        database.close()
    return path


def table_of(columns, rows):
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(columns)})


@pytest.fixture
def found(tmp_path, spark):
    """Read facts of `EDGE` by every reader that there is for a kind; they agree. Returns the tuples."""

    def read(kind: str, columns, rows) -> list[tuple]:
        if kind == "spark":
            source = source_of(spark.createDataFrame(rows, list(columns)).coalesce(1), EDGE, {})
            by_tasks = frame_parts(source).collect()
        elif kind in FRAMES:
            source, by_tasks = source_of(FRAMES[kind](table_of(columns, rows)), EDGE, {}), []
        else:
            source = source_of_path(written(kind, columns, rows, tmp_path), EDGE, BUILT_IN, header=True)
            spans = source.spans() if source.can_spread else []
            by_tasks = [part for span in spans for part in ReadSpan(source)(span)]
        values = Values()
        tuples = list(zip(*(values.strings(column) for column in source.columns(values)), strict=True))
        parts = [part.numbered([0, 1], values) for part in by_tasks]
        spread = [row for part in parts for row in zip(*(values.strings(column) for column in part), strict=True)]
        assert not by_tasks or spread == tuples
        return tuples

    return read


@pytest.mark.parametrize("kind", [*FILES, *FRAMES, "spark"])
class TestEveryReader:
    def test_names_in_another_order(self, found, kind):
        assert found(kind, ("dst", "src"), [("B", "A"), ("C", "B")]) == [("A", "B"), ("B", "C")]

    def test_names_among_others(self, found, kind):
        assert found(kind, ("n", "dst", "more", "src"), [("1", "B", "x", "A")]) == [("A", "B")]

    def test_a_partial_match_shows_both_lists(self, found, kind):
        with pytest.raises(
            BadInput, match="edge has the attributes src, dst, its facts have the columns dst, weight"
        ) as caught:
            found(kind, ("dst", "weight"), [("B", "7")])
        assert "only dst is in both lists" in caught.value.message

    def test_other_names_go_by_position_with_a_note(self, found, kind, caplog):
        if kind == "pandas objects":
            pytest.skip("it has a third column")
        assert found(kind, ("a", "b"), [("A", "B")]) == [("A", "B")]
        assert "the columns a, b are read in their order: none is an attribute of edge(src, dst)" in caplog.text


def test_columns_without_names_have_no_note(caplog):
    with Program(".decl edge(src: number, dst: number)\n.output edge\n").run({"edge": pd.DataFrame([(1, 2)])}) as result:
        assert result["edge"].to_list() == [(1, 2)] and not caplog.text


@pytest.mark.parametrize("kind", [*FILES, *FRAMES])
def test_the_edges_of_a_closure(tmp_path, kind):
    """By name; a partial match is an error; a data frame's closure has the names of its columns."""
    given = [("weight", "target", "source"), [("7", "B", "A")]]
    if kind in FRAMES:
        data, reading = FRAMES[kind](table_of(*given)), {}
    else:
        data, reading = written(kind, *given, tmp_path), {"header": True} if kind in TEXTS else {}
    assert as_edges(data, **reading).named() == [("A", "B")]
    with transitive_closure(data, **reading) as closure:
        assert closure.to_list() == [("A", "B")]
        assert closure.columns == (("source", "target") if kind in FRAMES else ("x", "y"))


def test_a_graph_s_columns_have_several_usual_names():
    assert as_edges(pa.table({"to": [2], "from": [1]})).named() == [(1, 2)]
    assert as_edges(pa.table({"a b": [1], "c": [2]})).named() == [(1, 2)]
    with pytest.raises(BadInput, match="edges has the attributes src, dst, its facts have the columns src, to"):
        as_edges(pa.table({"src": [1], "to": [2]}))


PROGRAM = '.decl edge(src: symbol, dst: symbol)\n.input edge(filename="e.facts", headers=true{})\n.output edge\n'


def test_headers_of_input(run, tmp_path):
    """By name, with a quoted name, or as `columns` says; both lists in one error with the place."""
    (tmp_path / "p.dl").write_text(PROGRAM.format(""))
    for text in ("dst\tsrc\nB\tA\n", "\ufeffdst\tn\tsrc\r\nB\t1\tA\r\n"):
        (tmp_path / "e.facts").write_bytes(text.encode())
        assert run("run", "p.dl", "-D-", "--format=tsv") == (0, "A\tB\n", "")
    (tmp_path / "e.facts").write_text("src\tweight\nB\tA\n")
    status, _, errors = run("run", "p.dl", "-D-")
    assert status == 2 and "e.facts:1: edge has the attributes src, dst" in errors and "src, weight" in errors
    (tmp_path / "p.dl").write_text(PROGRAM.format(', columns="1:0"'))
    assert run("run", "p.dl", "-D-", "--format=tsv") == (0, "A\tB\n", "")
    (tmp_path / "p.dl").write_text(PROGRAM.format(", rfc4180=true"))
    (tmp_path / "e.facts").write_text('"more\nthan ""a"" line","dst",src\n1,B,A\n')
    assert run("run", "p.dl", "-D-", "--format=tsv") == (0, "A\tB\n", "")


def test_files_of_a_pattern_may_have_different_orders(run, tmp_path):
    (tmp_path / "p.dl").write_text(".decl edge(src: number, dst: number)\n.output edge\n")
    (tmp_path / "1.csv").write_text("src,dst\n1,2\n")
    (tmp_path / "2.csv").write_text("dst,src\n3,2\n")
    assert run("run", "p.dl", "-F", "edge=?.csv", "--header", "--format=tsv") == (0, "1\t2\n2\t3\n", "")
    assert run("tc", "1.csv", "2.csv", "--header", "-o", "c.tsv")[0] == 0
    assert sorted((tmp_path / "c.tsv").read_text().splitlines()) == ["1\t2", "1\t3", "2\t3"]


def test_headers_of_undeclared_relations(run, tmp_path):
    """Names that are none, and names that repeat: the columns have those of the relation that is declared for them."""
    (tmp_path / "e.csv").write_text(",a b,a b,2nd\nw,x,y,z\n")
    assert run("run", "-e", "a(p, q, r, s) :- e(p, q, r, s).", "-F", "e=e.csv", "--header") == (0, "w\tx\ty\tz\n", "")


def test_text_with_a_header_is_read_by_the_kernel(tmp_path, monkeypatch):
    """Columns in another order, and some that are not read, too."""
    monkeypatch.setattr("semi_naive.io.sources.read_by_rules", lambda *given: pytest.fail("by the rules"))
    path = written(".tsv", ("n", "dst", "src"), [("1", "B", "A")], tmp_path)
    assert source_of_path(path, EDGE, BUILT_IN, header=True).columns(Values()).shape == (2, 1)


# Byte order marks

BOM = {
    "e.facts": b"A\tB\n", "e.csv": b'"A",B\n', "e.csv.gz": b"A,B\n", "e.txt": b"A\tB\n", "e.tsv": b"A\tB\r\n",
    "e.json": b'[["A", "B"]]',
}  # fmt: skip


@pytest.mark.parametrize("name", BOM)
def test_a_byte_order_mark_is_skipped(tmp_path, name):
    data = MARK + BOM[name]
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    source = source_of(tmp_path / name, EDGE, {})
    for _ in range(2):
        values = Values()
        assert [values.strings(column) for column in source.columns(values)] == [["A"], ["B"]]
    if source.can_spread:
        (part,) = (part for span in source.spans() for part in ReadSpan(source)(span))
        assert part.symbols.to_pylist() == ["A", "B"]


def test_a_byte_order_mark_of_other_texts(run, tmp_path, monkeypatch):
    """Standard input, a matrix, a file that is looked at for its types, the commands of a session."""
    (tmp_path / "p.dl").write_text(".decl edge(src: symbol, dst: symbol)\n.input edge(IO=stdin)\n.output edge\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MARK + b"A\tB\n")))
    assert run("run", "p.dl", "--format=tsv") == (0, "A\tB\n", "")
    (tmp_path / "m.mtx").write_bytes(MARK + b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
    assert as_edges(tmp_path / "m.mtx").named() == [(1, 2)]
    (tmp_path / "n.tsv").write_bytes(MARK + b"1\t2\n")
    assert run("run", "-e", "a(x + y) :- n(x, y).", "-F", "n=n.tsv") == (0, "3\n", "")
    (tmp_path / "p.dl").write_text(".decl edge(src: number, dst: number)\n.input edge\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\ufeffsubscribe edge\ninsert edge 1 2\n"))
    assert run("session", "p.dl") == (0, "edge\t+1\t1\t2\n", "")


def test_a_mark_within_a_file_is_part_of_a_symbol(tmp_path):
    (tmp_path / "e.facts").write_bytes(b"A\tB\n" + MARK + b"A\tB\n")
    values = Values()
    assert values.strings(source_of(tmp_path / "e.facts", EDGE, {}).columns(values)[0]) == ["A", "\ufeffA"]
