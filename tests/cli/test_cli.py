"""The command line as a person uses it: what it prints, writes and refuses, with what exit status."""

import errno
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.fuzz.oracle import closure
from semi_naive.__main__ import cli, main
from semi_naive.ra.spark.java import NoJava, check_java

EDGES = [(1, 2), (2, 3), (3, 1), (4, 1)]


@pytest.fixture
def run(spark, run):
    """The command, where Spark runs already."""
    return run


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "edges.tsv"
    path.write_text("".join(f"{x}\t{y}\n" for x, y in EDGES))
    return path


def test_prints_what_happened(run, edges):
    status, out, _ = run("tc", edges)
    lines = dict(line.split(None, 1) for line in out.splitlines() if line[:1] != " ")
    assert status == 0
    assert lines["pairs"].strip() == str(len(closure(EDGES))) and lines["plan"].startswith("local")
    assert run("tc", edges, "-q")[:2] == (0, f"{len(closure(EDGES))}\n")


def test_writes_output_trace_and_plot(run, edges, tmp_path):
    status, _, errors = run("tc", edges, "-o", "o.tsv.gz", "--trace", "run.json", "--plot", "b.png", "--plan", "balanced")
    assert status == 0, errors
    with gzip.open("o.tsv.gz", "rt") as file:
        assert {tuple(map(int, line.split())) for line in file} == closure(EDGES)
    assert json.loads((tmp_path / "run.json").read_text())["plan"] == "balanced"
    assert (tmp_path / "b.png").read_bytes()[:4] == b"\x89PNG"
    status, out, _ = run("plot", "run.json", "-o", "figures", "--only", "heat,times")
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert status == 0 and drawn == sorted(out.replace("figures/", "").split()) and "run-heat.svg" in drawn


def test_options_reach_the_evaluation(run, edges, tmp_path):
    status, _, _ = run("tc", edges, "--set", "buckets=3", "--set", "rule=path-path", "--trace", "t.json", "--max-iterations", 2)
    trace = json.loads((tmp_path / "t.json").read_text())
    assert status == 0
    assert (trace["config"]["buckets"], trace["rule"], trace["config"]["max_iterations"]) == (3, "path-path", 2)


BAD = {
    "missing": (None, [], "no such file"),
    "ragged": ("1\t2\n3\n", [], "bad.tsv:2:"),
    "too many columns": ("1\t2\n3\t4\t5\n", [], "bad.tsv:2:"),
    "not an integer": ("1\t2\n# a\n3\tx\n", [], "bad.tsv:3:3: 'x' is not an integer"),
    "nan": ("1\t2\nNaN\t4\n", [], "bad.tsv:2:1"),
    "empty": ("", [], "is empty"),
    "negative": ("1\t-2\n", [], "bad.tsv:1:3"),
    "too large": ("1\t2\n1\t4294967297\n", [], "bad.tsv:2:3"),
    "option": ("1\t2\n", ["--set", "bukets=3"], "bukets"),
    "option value": ("1\t2\n", ["--set", "buckets=many"], "buckets=many"),
    "option text": ("1\t2\n", ["--set", "buckets"], "NAME=VALUE"),
    "plan": ("1\t2\n", ["--plan", "best"], "best"),
    "no directory": ("1\t2\n", ["-o", "none/o.csv"], "there is no directory 'none'"),
    "output format": ("1\t2\n", ["-o", "o.xlsx"], "cannot tell the format"),
}


@pytest.mark.parametrize("text, options, expected", BAD.values(), ids=BAD)
def test_bad_input(run, tmp_path, text, options, expected):
    if text is not None:
        (tmp_path / "bad.tsv").write_text(text)
    status, out, errors = run("tc", "bad.tsv", *(options or ["-o", "o.csv"]))
    assert (status, out) == (2, "") and expected in errors
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ([] if text is None else ["bad.tsv"])


def test_unreadable_gzip(run, tmp_path):
    (tmp_path / "g.tsv.gz").write_bytes(gzip.compress(b"1\t2\n" * 9999)[:-20])
    status, _, errors = run("tc", "g.tsv.gz")
    assert status == 2 and "g.tsv.gz" in errors and "Traceback" not in errors


def test_usage_errors(run):
    assert run()[0] == 2 or run()[0] == 0
    assert run("tc")[0] == 2 and run("tc", "a", "b")[0] == 2 and run("fly")[0] == 2
    assert run("--version")[0] == 0 and run("tc", "--help")[0] == 0


def test_no_java(tmp_path, monkeypatch):
    """Said by a process that would have to start Spark; told apart from a Java that is too old."""
    (tmp_path / "e.tsv").write_text("1\t2\n")
    command = [sys.executable, "-m", "semi_naive", "tc", str(tmp_path / "e.tsv"), "--plan", "balanced"]
    env = {"JAVA_HOME": str(tmp_path / "none"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 2 and "there is no" in done.stderr and "apt-get install" in done.stderr
    assert "Traceback" not in done.stderr
    old = tmp_path / "old" / "bin"
    old.mkdir(parents=True)
    (old / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    (old / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(old.parent))
    with pytest.raises(NoJava, match=r'is openjdk version "11\.0\.2".*apt-get install'):
        check_java()


def test_no_pyspark(tmp_path):
    """What is small does not need it. Where Spark would be started, one line says how it is installed, as setup.cfg does."""
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError(\"No module named 'pyspark'\")\n")
    (tmp_path / "e.tsv").write_text("1\t2\n2\t3\n")
    small = [sys.executable, "-m", "semi_naive", "tc", "-q", str(tmp_path / "e.tsv")]
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(small, capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
    done = subprocess.run([*small, "--plan", "balanced"], capture_output=True, text=True, env=env)
    told = (
        "Spark, on which what is large runs, needs the package pyspark, which is not installed: pip install 'pyspark>=4.1,<5'"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"semi-naive: {told}\n")
    assert "pyspark >=4.1,<5\n" in (Path(__file__).parents[2] / "setup.cfg").read_text()
    frame = "from semi_naive import transitive_closure; transitive_closure([(1, 2)]).to_df()"
    done = subprocess.run([sys.executable, "-c", frame], capture_output=True, text=True, env=env)
    assert done.stderr.endswith(f"NotInstalled: {told}\n")


def test_the_shell_prints_one_thing(tmp_path):
    """A process of its own: nothing of Spark's or Java's start on the terminal."""
    (tmp_path / "e.tsv").write_text("1\t2\n2\t3\n")
    command = [sys.executable, "-m", "semi_naive", "tc", "-q", str(tmp_path / "e.tsv")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_importing_the_package_loads_no_kernels():
    heavy = "('numba', 'pyspark', 'pandas', 'pyarrow')"
    program = f"import sys; from semi_naive import transitive_closure, Config; print([m for m in sys.modules if m in {heavy}])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_a_full_disk_that_does_not_say_where_is_told_with_its_folder(monkeypatch, capsys):
    def fails(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("semi_naive.__main__.cli.main", fails)
    with pytest.raises(SystemExit) as ended:
        main(["tc", "edges.tsv"])
    assert ended.value.code == 1 and "local_dir names another folder" in capsys.readouterr().err


def test_the_end_of_a_file_is_no_interrupt(monkeypatch):
    def cut_short(*_, **__):
        raise EOFError("Ran out of input")

    monkeypatch.setattr("semi_naive.cli.run.run_program", cut_short)
    with pytest.raises(EOFError, match="Ran out of input"):
        main(["run", "p.dl"])


def test_what_is_meant_by_somebody_who_leaves_the_command_out(run, tmp_path):
    status, out, errors = run("p.dl", "-F", "facts")
    assert (status, out) == (2, "") and "To run a program: semi-naive run p.dl -F facts" in errors
    assert "To run" not in run("nosuch")[2]
    assert "To compute the closure of edges: semi-naive tc edges.tsv -j 2" in run("edges.tsv", "-j", "2")[2]


def test_each_command_is_told_in_a_line(run):
    status, out, _ = run("--help")
    lines = out[out.index("Commands:") :].splitlines()[1:]
    assert status == 0 and len(lines) == len(cli.commands) and all(line.endswith(".") and "..." not in line for line in lines)


def test_a_program_is_no_graph_and_edges_are_no_program(run, edges):
    for command in (["tc", "p.dl"], ["subgraphs", "p.dl", "--pattern", "triangle"]):
        status, out, errors = run(*command)
        assert (status, out) == (2, "") and "to run a program: semi-naive run p.dl" in errors
    for command in ("run", "session", "check"):
        status, out, errors = run(command, "edges.tsv")
        assert (status, out) == (2, "") and "its closure: semi-naive tc edges.tsv" in errors


def test_a_program_and_edges_are_simulated_with_their_files(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.dl").write_text(
        ".decl edge(x: number, y: number)\n.decl path(x: number, y: number)\n.output path\n"
        "path(x, y) :- edge(x, y).\npath(x, z) :- path(x, y), edge(y, z).\n"
    )
    (tmp_path / "e.csv").write_text("x,y\n1,2\n2,3\n3,4\n")
    options = ["--ranks", "2", "-q", "--header", "--trace", "t.json"]
    for source in (["e.csv"], ["p.dl", "-F", "edge=e.csv"]):
        assert run("simulate", *source, *options)[::2] == (0, "")
        assert json.loads((tmp_path / "t.json").read_text())["result"]["tuples"] == 6, source
    status, out, errors = run("simulate", "e.csv", "-F", "edge=e.csv", *options)
    assert (status, out) == (2, "") and "-F edge=e.csv is of a program (.dl), which e.csv is not" in errors


def test_files_that_are_not_there_or_are_folders(run, tmp_path):
    assert run("plot", "none.json") == (2, "", "semi-naive: none.json: No such file or directory\n")
    for command in (["tc", "."], ["subgraphs", ".", "--pattern", "triangle"]):
        status, out, errors = run(*command)
        assert (status, out) == (2, "") and ".: is a directory" in errors and "./*.tsv" in errors
