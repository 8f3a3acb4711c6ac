"""`semi-naive run` and `semi-naive profile` as a person uses them: what they read, print, write and refuse."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

PATHS = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
.printsize path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
EDGES, CLOSED = "1\t2\n2\t3\n", "1\t2\n1\t3\n2\t3\n"
TABLE = f"---------------\npath\nx\ty\n===============\n{CLOSED}===============\n"


@pytest.fixture
def paths(tmp_path):
    """A program, its facts in facts/, and no folder for results."""
    (tmp_path / "p.dl").write_text(PATHS)
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.facts").write_text(EDGES)
    return tmp_path


def test_a_pragma_names_folders_that_the_command_line_does_not(run, paths):
    (paths / "p.dl").write_text(f'.pragma "fact-dir" "facts"\n.pragma "output-dir" "out"\n{PATHS}')
    assert run("run", "p.dl") == (0, "path\t3\n", "")
    assert (paths / "out" / "path.csv").read_text() == CLOSED and not os.path.exists("path.csv")
    assert run("run", "p.dl", "-D", ".")[0] == 0 and (paths / "path.csv").read_text() == CLOSED
    (paths / "p.dl").write_text(f'.pragma "fact-dir" "none"\n{PATHS}')
    status, _, errors = run("run", "p.dl")
    assert status == 2 and "fact directory none does not exist" in errors
    assert run("run", "p.dl", "-F", "facts")[0] == 0


def test_a_pragma_leads_out_of_no_sandbox(run, paths):
    (paths / "box").mkdir()
    (paths / "box" / "p.dl").write_text(f'.pragma "fact-dir" "{paths}/facts"\n{PATHS}')
    status, _, errors = run("run", "box/p.dl", "--sandbox", "box", "-D", "-")
    assert status == 2 and "of a .pragma is outside of the sandbox" in errors


def test_runs_from_a_folder_to_a_folder(run, paths):
    assert run("run", "p.dl", "-F", "facts", "-D", "out") == (0, "path\t3\n", "")
    assert os.listdir("out") == ["path.csv"] and (paths / "out" / "path.csv").read_text() == CLOSED


def test_the_working_directory_is_the_default(run, paths):
    (paths / "edge.facts").write_text("7\t8\n")
    assert run("run", "p.dl")[:2] == (0, "path\t1\n")
    assert (paths / "path.csv").read_text() == "7\t8\n"


def test_everything_on_standard_output(run, paths):
    for arguments in (["-Ffacts", "-D-"], ["--fact-dir=facts", "--output-dir", "-"]):
        status, out, _ = run("run", "p.dl", *arguments)
        assert status == 0 and sorted(out.split("\n")) == sorted(f"{TABLE}path\t3\n".split("\n"))
    assert not (paths / "path.csv").exists()


def test_the_program_on_standard_input(run, paths, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(PATHS))
    assert run("run", "-", "-F", "facts")[:2] == (0, "path\t3\n")


def test_macros_and_include_directories(run, paths):
    (paths / "inc").mkdir()
    (paths / "inc" / "more.dl").write_text('.decl r(x: number, s: symbol)\n.output r\nr(N, "LETTER").\n')
    (paths / "m.dl").write_text('#ifdef ON\n#include "more.dl"\n#endif\n')
    assert run("run", "m.dl", "-I", "inc", "-M", "N=5 ON", "-D-")[:2] == (
        0, "---------------\nr\nx\ts\n===============\n5\tLETTER\n===============\n",
    )  # fmt: skip
    assert run("run", "m.dl", "-I", "inc") == (0, "", "")


def test_missing_facts(run, paths):
    os.remove("facts/edge.facts")
    status, out, errors = run("run", "p.dl", "-F", "facts", "-D", "out")
    assert (status, out) == (2, "") and "Cannot open fact file edge.facts" in errors and "-w" in errors
    assert not os.path.exists("out")
    status, out, errors = run("run", "p.dl", "-F", "facts", "-D", "out", "-w")
    assert (status, out) == (0, "path\t0\n") and (paths / "out" / "path.csv").read_text() == ""


def test_wrong_facts_have_a_place(run, paths):
    (paths / "facts" / "edge.facts").write_text("1\t2\n2\tx\n")
    status, out, errors = run("run", "p.dl", "-F", "facts", "-D", "out")
    assert (status, out) == (2, "")
    assert "edge.facts:2:3: 'x' is not a number (attribute y: number of edge)" in errors
    assert not os.path.exists("out")


def test_wrong_programs(run, paths):
    (paths / "w.dl").write_text(".decl a(x: number)\na(x) :- b(x).\na(y) :- c(y).\n")
    status, out, errors = run("run", "w.dl")
    assert (status, out) == (1, "") and "Traceback" not in errors
    assert "w.dl at line 2" in errors and "w.dl at line 3" in errors and "2 errors generated, evaluation aborted" in errors


def test_warnings(run, paths):
    (paths / "w.dl").write_text(".decl a(x: number)\n.output a\n.decl b(x: number, y: number)\nb(1, 2).\na(x) :- b(x, once).\n")
    status, out, errors = run("run", "w.dl", "-D-")
    assert status == 0 and "Warning: Variable once only occurs once" in errors and "line 5" in errors
    assert "1\n" in out and "Warning" not in out
    assert run("run", "w.dl", "-D-", "-w")[2] == ""


BAD = {
    "no program": (["none.dl"], "none.dl: no such file"),
    "a folder": (["facts"], "facts"),
    "no facts": (["p.dl", "-F", "none"], "fact directory none does not exist"),
    "no output": (["p.dl", "-F", "facts", "-D", "none/out"], "output directory none/out does not exist"),
    "a file for a folder": (
        ["p.dl", "-F", "facts", "-D", "p.dl"],
        "output directory p.dl is a file\n  -D (--output-dir) names",
    ),
    "no include": (["p.dl", "-I", "none"], "include directory none does not exist"),
    "jobs": (["p.dl", "-F", "facts", "-j", "0"], "-j 0: expected a number of cores"),
    "show": (["p.dl", "--show=ram"], "--show=ram"),
    "option": (["p.dl", "--set", "bukets=3"], "unknown option 'bukets'; did you mean 'buckets'?"),
    "value": (["p.dl", "--set", "buckets=few"], "buckets=few: expected a whole number, or none"),
    "trace": (["p.dl", "--trace", "none/t.json"], "there is no directory 'none'"),
    "usage": ([], "PROGRAM"),
}


@pytest.mark.parametrize("arguments, expected", BAD.values(), ids=BAD)
def test_bad_usage(run, paths, arguments, expected):
    status, out, errors = run("run", *arguments)
    assert (status, out) == (2, "") and expected in errors and "Traceback" not in errors
    assert sorted(os.listdir(paths)) == ["facts", "p.dl"]


def test_show(run, paths):
    status, out, _ = run("run", "p.dl", "--show=initial-datalog")
    assert status == 0 and ".decl path(x: number, y: number)" in out and "path(x, z) :- path(x, y), edge(y, z)." in out
    assert run("run", "p.dl", "--show=transformed-ast")[1].count("path(") >= 3
    assert run("run", "p.dl", "--show", "precedence-graph") == (0, "edge:\npath: edge path\n", "")
    assert run("run", "p.dl", "--show", "scc-graph")[1] == "1: {edge}\n2: {path} recursive after 1\n"
    assert run("run", "p.dl", "--show=scc-graph,precedence-graph")[1].count("path") == 3
    assert not (paths / "path.csv").exists()


def test_show_what_is_read_negated_or_aggregated(run, paths):
    (paths / "n.dl").write_text(
        ".decl a(x: number)\n.decl b(x: number)\n.decl c(x: number)\n.output c\na(1). b(2).\n"
        "c(x) :- a(x), !b(x).\nc(n) :- n = count : { b(_) }.\n"
    )
    assert "c: !b a\n" in run("run", "n.dl", "--show=precedence-graph")[1]


def test_show_parse_errors(run, paths):
    assert run("run", "p.dl", "--show=parse-errors") == (0, "0 errors generated\n", "")
    (paths / "w.dl").write_text(".decl a(x: number)\na(x :- a(x).\n.decl b(x number)\n")
    status, out, _ = run("run", "w.dl", "--show=parse-errors")
    assert status >= 1 and "line 2" in out


def test_explain(run, paths):
    status, out, _ = run("run", "p.dl", "-F", "facts", "--explain")
    assert status == 0 and "path" in out
    assert not (paths / "path.csv").exists()


def test_trace_and_profile(run, paths):
    arguments = ["-F", "facts", "-D", "out", "--trace", "t.json", "-p", "prof.json"]
    assert run("run", "p.dl", *arguments)[0] == 0
    assert json.loads((paths / "t.json").read_text())["profile"]["version"] == 1
    record = json.loads((paths / "prof.json").read_text())
    assert {rule["relation"] for rule in record["rules"]} == {"path"}
    status, out, _ = run("profile", "prof.json")
    assert status == 0 and "path(x, z) :- path(x, y), edge(y, z)." in out and "p.dl:8" in out
    held = {entry["relation"]: entry["bytes"] for entry in record["relations"]}
    assert sum(held.values()) == record["memory"]["tables"] > 0 and record["memory"]["peak"] > 1 << 20
    assert "B in the driver's tables, at most " in out and "bytes a tuple" in out and f"{held['path']:,}" in out


def test_a_profile_counts_the_runs_of_a_rule_and_not_the_iterations(run, paths):
    """Each recursive atom that has something new makes one, so the second rule has two in most iterations."""
    chain = "".join(f"edge({n}, {n + 1}). " for n in range(16))
    both = "path(x, y) :- edge(x, y). path(x, z) :- path(x, y), path(y, z)."
    declared = ".decl edge(x: number, y: number) .decl path(x: number, y: number) .output path "
    (paths / "both.dl").write_text(declared + chain + both)
    assert run("run", "both.dl", "-D", "out", "-p", "prof.json", "--trace", "t.json")[0] == 0
    first, second = sorted(json.loads((paths / "prof.json").read_text())["rules"], key=lambda rule: rule["runs"])
    iterations = sum(json.loads((paths / "t.json").read_text())["strata"][-1]["course"]["steps"])
    assert first["runs"] == 1 and iterations < second["runs"] <= 2 * iterations
    out = run("profile", "prof.json")[1]
    assert "  runs  rule" in out and f" {second['runs']}  path(x, z)" in out and "iterations" not in out


def record(**changes):
    rule = {"relation": "r", "stratum": 1, "file": "dir/p.dl", "recursive": False, "runs": 1, "made": 5}
    rules = [
        rule | {"rule": "cold(x) :- a(x).", "line": 3, "seconds": 0.25, "tuples": 10},
        rule | {"rule": "hot(x) :- b[x].", "line": 4, "seconds": 2.5, "tuples": 1_000_000, "recursive": True, "runs": 7},
    ]
    relations = [{"relation": "cold", "tuples": 10, "seconds": 0.25}, {"relation": "hot", "tuples": 1_000_000, "seconds": 2.5}]
    return {"version": 1, "program": "p.dl", "seconds": 3.0, "rules": rules, "relations": relations, "strata": []} | changes


def test_profiles_are_shown_hottest_first(run, tmp_path):
    (tmp_path / "p.json").write_text(json.dumps(record()))
    status, out, _ = run("profile", "p.json")
    assert status == 0 and "p.dl: 3.000 s" in out and "hot(x) :- b[x].  [p.dl:4]" in out
    assert out.index("hot(x)") < out.index("cold(x)") and "1,000,000" in out
    assert "in the driver" not in out, "what other versions have written is without bytes"
    cut = run("profile", "p.json", "--top", 1)[1]
    assert "cold" not in cut and "1 more rule;" in cut and "cold" in run("profile", "p.json", "--top", 1, "--all")[1]


def test_a_profile_tells_of_a_closure_that_no_rule_accounts_for(run, tmp_path):
    closure = {"number": 1, "relations": ["path"], "recursive": True, "seconds": 9.0, "reason": "a transitive closure"}
    both = [closure | {"account": {"spark": 6.5, "iterate": 2.5}}, closure | {"relations": ["r"]}]
    (tmp_path / "p.json").write_text(json.dumps(record(rules=[], strata=both[:1])))
    status, out, _ = run("profile", "p.json")
    assert status == 0 and "2.500 s for the rules of path together: a transitive closure\n" in out and "  rule" not in out
    (tmp_path / "p.json").write_text(json.dumps(record(strata=both)))
    assert run("profile", "p.json")[1].count("together") == 1, "r has rules"


def test_profiles_are_shown_in_any_order_and_rules_whole(run, tmp_path):
    long = {
        "rule": "also(x) :-\n    " + ",\n    ".join(f"a{i}(x)" for i in range(40)) + ".",
        "line": 9,
        "seconds": 0.0,
        "tuples": 99,
    }
    (tmp_path / "p.json").write_text(json.dumps(record(rules=[*record()["rules"], record()["rules"][0] | long])))
    shown = {sort: run("profile", "p.json", "--sort", sort)[1].partition("relation")[0] for sort in ("time", "tuples", "name")}
    heads = {sort: re.findall(r"(hot|cold|also)\(x\) :-", text) for sort, text in shown.items()}
    assert heads == {"time": ["hot", "cold", "also"], "tuples": ["hot", "also", "cold"], "name": ["also", "cold", "hot"]}
    assert " 91%" in shown["time"] and " 9%" in shown["time"], "shares of what rules took"
    (line,) = [line for line in shown["name"].splitlines() if "also" in line]
    assert "a0(x), a1(x)" in line and line.rstrip().endswith("a39(x).  [p.dl:9]"), "a rule is one line"
    assert len(run("profile", "p.json", "--whole")[1].splitlines()) > len(shown["time"].splitlines()) + 40


@pytest.mark.parametrize("text", ["{", "[]", json.dumps(record(version=2)), json.dumps({"version": 1})])
def test_what_is_no_profile(run, tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    status, out, errors = run("profile", "p.json")
    assert (status, out) == (2, "") and "p.json" in errors and "semi-naive run -p" in errors


def test_a_failing_evaluation(run, paths):
    (paths / "z.dl").write_text(".decl a(x: number)\n.output a\n.decl b(x: number)\nb(0).\na(1 / x) :- b(x).\n")
    status, out, errors = run("run", "z.dl", "-D", "out")
    assert (status, out) == (1, "") and "zero" in errors and "Traceback" not in errors
    assert not os.path.exists("out")


def test_the_shell_sees_nothing_else(paths):
    """A process of its own, for small facts without Spark or Java: quick, and quiet."""
    command = [sys.executable, "-m", "semi_naive", "run", "p.dl", "-F", "facts", "-D-"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=paths, env=os.environ | {"JAVA_HOME": "/nowhere"})
    assert (done.returncode, done.stderr) == (0, "") and sorted(done.stdout) == sorted(f"{TABLE}path\t3\n")


def test_interrupted(paths):
    """Ctrl-C in a run that would take long: status 130, no result, no other file."""
    text = ".decl n(x: number)\n.input n(IO=stdin)\n.output n\nn(x + 1) :- n(x), x < 1000000000.\n"
    (paths / "long.dl").write_text(text)
    command = [sys.executable, "-m", "semi_naive", "run", "long.dl", "-D", "out"]
    process = subprocess.Popen(command, cwd=paths, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdin.write("0\n" * 100_000)  # more than a pipe holds: done when they are being read
    process.stdin.close()
    begun = busy(process)
    while busy(process) < begun + 0.5:  # reading them takes a tenth of that
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    errors = process.stderr.read()
    assert process.wait(60) == 130 and "interrupted" in errors and "Traceback" not in errors
    assert sorted(os.listdir(paths)) == ["facts", "long.dl", "p.dl"]


def busy(process) -> float:
    """Seconds of CPU time."""
    return psutil.Process(process.pid).cpu_times().user
