"""Patterns of files, edges/*.parquet: as facts in Python, in .input, on the command line, and as graphs."""

import os
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semi_naive import BadInput, Program, subgraphs, transitive_closure
from semi_naive.io.edges import edge_files
from semi_naive.io.patterns import match_files
from semi_naive.io.sources import TextFile

PATHS = """
.decl edge(x: {kind}, y: {kind})
.input edge{how}
.decl path(x: {kind}, y: {kind})
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
CLOSED = {(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)}


def program(kind="number", how="", **options):
    return Program(PATHS.format(kind=kind, how=how), **options)


@pytest.fixture
def edges(tmp_path, monkeypatch):
    """edges/ with three files of three kinds, an edge each; the working directory is where it is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges" / "more").mkdir(parents=True)
    (tmp_path / "edges" / "a.tsv").write_text("1\t2\n")
    (tmp_path / "edges" / "b.csv").write_text("2,3\n")
    pq.write_table(pa.table({"x": [3], "y": [4]}), tmp_path / "edges" / "more" / "c.parquet")
    return tmp_path / "edges"


def test_which_files_fit(edges):
    assert match_files("edges/*.*") == ["edges/a.tsv", "edges/b.csv"] == match_files("edges/?.[ct]s[v]")
    assert match_files("edges/**/*.*") == ["edges/a.tsv", "edges/b.csv", "edges/more/c.parquet"]
    assert match_files("edges/a.tsv") is None and match_files("edges/none.tsv") is None
    assert match_files("edges/*") == ["edges/a.tsv", "edges/b.csv", "edges/more"], "a folder of parquet is one"
    assert match_files("edges/**/*")[2:] == ["edges/more"], "and its files do not count again"
    (edges / "odd[1].tsv").write_text("")
    assert match_files("edges/odd[1].tsv") is None
    assert match_files(f"file://{edges}/*.csv") == [f"file://{edges}/b.csv"]
    for wrong, why in {"edges/*.txt": "no file fits", f"file://{edges}/*/c.parquet": "only the last part of a URI"}.items():
        with pytest.raises(BadInput, match=why):
            match_files(wrong)


def test_facts_of_several_files(edges):
    assert program().run({"edge": "edges/**/*.*"})["path"].to_set() == CLOSED
    assert program().run({"edge": edges / "more" / "*.parquet"})["path"].to_set() == {(3, 4)}
    with pytest.raises(BadInput, match="no file fits this pattern\n.*looked from"):
        program().run({"edge": "edges/*.parquet"})


def test_an_error_names_the_file(edges):
    (edges / "z.tsv").write_text("4\t5\n6\tx\n")
    with pytest.raises(BadInput, match=r"z\.tsv:2:3: 'x' is not a number"):
        program().run({"edge": "edges/*.tsv"})


def test_symbols_of_several_files_are_the_same(edges):
    for number in range(6):
        (edges / f"names{number}.tsv").write_text(f"n{number}\tn{number + 1}\n")
    found = program("symbol").run({"edge": "edges/names*.tsv"})["path"].to_set()
    assert found == {(f"n{x}", f"n{y}") for x in range(7) for y in range(x + 1, 7)}


def test_a_directive_may_name_a_pattern(edges):
    how = '(filename="*/*.tsv")'
    assert program(how=how).run(str(edges.parent))["path"].to_set() == {(1, 2)}
    (edges / "d.tsv").write_text("2\t4\n")
    assert program(how=how).run(str(edges.parent))["path"].to_set() == {(1, 2), (2, 4), (1, 4)}
    nothing = program(how='(filename="none*.tsv")')
    with pytest.raises(BadInput, match="no file fits"):
        nothing.run()
    assert nothing.run(lenient=True)["path"].count() == 0


def test_parquet_is_known_by_its_name(edges):
    """Where a directive does not say IO, and only of .parquet: other names may hold anything, as they may for Soufflé."""
    text = PATHS.format(kind="number", how='(filename="edges/**/*.parquet")')
    with Program(text.replace(".output path", '.output path(filename="paths.parquet")')).run() as result:
        result.write("edges")
    assert pq.read_table("edges/paths.parquet").to_pydict() == {"x": [3], "y": [4]}
    (edges / "t.json").write_text("7\t8\n")
    assert program(how='(filename="edges/t.json")').run()["path"].to_set() == {(7, 8)}


def test_no_pattern_leads_out_of_a_sandbox(edges):
    (edges.parent / "box").mkdir()
    with pytest.raises(BadInput, match="outside of the sandbox"):
        program(how='(filename="../edges/*.tsv")', sandbox="box").run("box")
    os.symlink(edges / "a.tsv", edges.parent / "box" / "a.tsv")
    with pytest.raises(BadInput, match="outside of the sandbox"):
        program(how='(filename="*.tsv")', sandbox="box").run("box")


def test_files_are_read_by_several_threads(edges, monkeypatch):
    threads, prepared = set(), TextFile.prepared

    def seen(source):
        threads.add(threading.get_ident())
        return prepared(source)

    monkeypatch.setattr(TextFile, "prepared", seen)
    assert program().run({"edge": "edges/*.tsv"})["path"].to_set() == {(1, 2)}
    transitive_closure("edges/*.tsv").close()
    assert threads and threading.get_ident() not in threads


@pytest.mark.parametrize("kind", ["number", "symbol"])
def test_tasks_read_several_files(edges, here, monkeypatch, kind):
    """Those that are large together: no row of theirs comes through the driver. Of .csv fields may span lines."""
    os.rename(edges / "b.csv", edges / "b.tsv")
    (edges / "b.tsv").write_text("2\t3\n")
    monkeypatch.setattr("semi_naive.io.unread.MIN_BYTES_FOR_JOB", 0)
    monkeypatch.setattr("semi_naive.io.sources.Files.columns", None)
    monkeypatch.setattr("semi_naive.io.sources.TextFile.prepared", None)
    pq.write_table(pa.table({"x": ["3"], "y": ["4"]}), edges / "more" / "c.parquet") if kind == "symbol" else None
    with program(kind).run({"edge": "edges/**/*.*"}, here, local_tuples=0) as result:
        assert result["path"].to_set() == ({(str(x), str(y)) for x, y in CLOSED} if kind == "symbol" else CLOSED)


def test_tasks_read_those_files_that_they_can(edges, here, monkeypatch):
    monkeypatch.setattr("semi_naive.io.unread.MIN_BYTES_FOR_JOB", 0)
    read, prepared = [], TextFile.prepared
    monkeypatch.setattr(TextFile, "prepared", lambda source: read.append(os.path.basename(source.path)) or prepared(source))
    with program().run({"edge": "edges/**/*.*"}, here, local_tuples=0) as result:
        assert result["path"].to_set() == CLOSED and read == ["b.csv"]


def test_tasks_say_which_file_is_wrong(edges, here, monkeypatch):
    monkeypatch.setattr("semi_naive.io.unread.MIN_BYTES_FOR_JOB", 0)
    (edges / "z.tsv").write_text("4\t5\n6\tx\n")
    with pytest.raises(BadInput, match=r"z\.tsv:2:3: 'x' is not a number"):
        program().run({"edge": "edges/*.tsv"}, here, local_tuples=0)


def test_graphs_of_several_files(edges, run):
    assert transitive_closure("edges/**/*.*").to_set() == CLOSED
    assert transitive_closure(edge_files(["edges/*.?sv", "edges/more"])).to_set() == CLOSED
    assert subgraphs("edges/**/*.*", [(0, 1), (1, 2)]) == 2
    os.chdir(edges.parent)
    assert run("tc", "edges/**/*.*", "-q") == (0, "6\n", "") == run("tc", *match_files("edges/**/*.*"), "-q")
    assert run("subgraphs", "edges/a.tsv", "edges/b.csv", "--pattern", "a-b,b-c") == (0, "1\n", "")
    status, out, errors = run("tc", "edges/*.txt")
    assert (status, out) == (2, "") and "no file fits this pattern" in errors
    (edges / "names.tsv").write_text("x\ty\n")
    with pytest.raises(BadInput, match="some files have numbers and others names"):
        transitive_closure("edges/*.tsv")
    assert transitive_closure("edges/*.tsv", strings=True).to_set() == {("1", "2"), ("x", "y")}
