"""Every flag of Soufflé 2.5: `semi-naive run` takes it, with the same answer or a line that says why not; docs/souffle.md."""

import re
from pathlib import Path

import page_commands
import pytest
from paths import PATHS

from semi_naive.cli.souffle import FLAGS, WARNINGS

PAGE = (Path(__file__).parents[2] / "docs" / "souffle.md").read_text()
SOUFFLE = """
-a --auto-schedule=; -c --compile; -C --compile-many; -r --debug-report=; -z --disable-transformers=; -o --dl-program=;
--emit-statistics; -F --fact-dir=; -g --generate=; -G --generate-many=; -N --generate-namespace=; -h --help; -I --include-dir=;
--inline-exclude=; -j --jobs=; --legacy; -l --libraries=; -L --library-dir=; --live-profile; -M --macro=; -m --magic-transform=;
--magic-transform-exclude=; --no-preprocessor; -w --no-warn; -D --output-dir=; --parse-errors; -P --pragma=; --preprocessor=;
-p --profile=; --profile-frequency; -t --provenance=; --show=; -s --swig=; -v --verbose; --version; -W --warn=; --wno=
"""  # all that `souffle --help` of 2.5 has
ANSWER = "---------------\npath\nx\ty\n===============\n1\t2\n1\t3\n2\t3\n===============\n"
GIVEN = {  # to flags that take something: what changes no answer
    "auto-schedule": "none", "debug-report": "none/r.html", "disable-transformers": "MagicSet", "dl-program": "path",
    "fact-dir": "facts", "generate": "path.cpp", "generate-many": "code", "generate-namespace": "space", "include-dir": "facts",
    "inline-exclude": "path", "jobs": "auto", "libraries": "f.py", "library-dir": ".", "macro": "A=1 B",
    "magic-transform": "*", "magic-transform-exclude": "path", "output-dir": "-", "pragma": "magic-transform:path",
    "preprocessor": "gcc -x c -E", "profile": "p.json", "provenance": "none", "swig": "java", "warn": "all", "wno": "all",
}  # fmt: skip
ELSEWHERE = {"help", "version", "show"}  # which print something else
NOT_FOR_TESTS = {"live-profile": "serves a page"}


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "p.dl").write_text(PATHS)
    (tmp_path / "f.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.facts").write_text("1\t2\n2\t3\n")
    return tmp_path


def test_the_table_is_souffles():
    found = [f"-{flag.letter} --{flag.name}" if flag.letter else f"--{flag.name}" for flag in FLAGS]
    takes = [name + "=" * bool(flag.argument) for name, flag in zip(found, FLAGS, strict=True)]
    assert takes == [" ".join(one.split()) for one in SOUFFLE.split(";")]


def test_the_page_has_every_flag_and_says_what_becomes_of_it():
    rows = dict(re.findall(r"^\| (`.*?`) \| (.*) \|$", PAGE.split("<!-- the flags -->")[1].split("\n\n")[0], re.MULTILINE))
    assert set(rows) == {_shown(flag) for flag in FLAGS}
    for flag in FLAGS:
        said = "error" if flag.refused else "noted" if flag.here else ""
        assert re.match(r"noted|error|", rows[_shown(flag)])[0] == said, flag


def _shown(flag) -> str:
    long = f"`--{flag.name}" + f"={flag.argument}".replace("|", "\\|") * bool(flag.argument) + "`"
    return f"`-{flag.letter}`, {long}" if flag.letter else long


def forms(flag):
    """How a flag may be written."""
    if not flag.argument:
        return [[f"--{flag.name}"]] + [[f"-{flag.letter}"]] * bool(flag.letter)
    value = GIVEN[flag.name]
    long = [[f"--{flag.name}={value}"], [f"--{flag.name}", value]]
    return long + ([[f"-{flag.letter}{value}"], [f"-{flag.letter}", value]] if flag.letter else [])


@pytest.mark.parametrize(
    "flag", [each for each in FLAGS if each.name not in ELSEWHERE | NOT_FOR_TESTS.keys()], ids=lambda f: f.name
)
def test_every_flag_is_taken(run, paths, flag):
    """In every form that Soufflé takes: with the same answer, and with one line for what there is nothing to do."""
    folders = [] if flag.name == "fact-dir" else ["-F", "facts"]
    for given in forms(flag):
        status, out, errors = run("run", "p.dl", *folders, "-D-", *given)
        if flag.refused:
            assert (status, out) == (2, "") and errors == f"semi-naive: {flag}: {flag.here}\n" and "leave" in errors
            assert not list(paths.glob("path*"))
        else:
            assert (status, out) == (0, ANSWER), errors
            assert errors == f"semi-naive: {flag}: {flag.here}\n" * bool(flag.here) or flag.name == "verbose"
            assert run("run", "p.dl", *folders, "-D-", "-w", *given)[2] == "" or flag.name == "verbose"


def test_what_prints_something_else(run, paths):
    assert "Usage" in run("run", "-h")[1] and "2.5" in run("run", "--help")[1]
    for (
        mode
    ) in "initial-ast parse-errors precedence-graph precedence-graph-text scc-graph transformed-ast type-analysis".split():
        status, out, errors = run("run", "p.dl", f"--show={mode}")
        assert (status, errors) == (0, "") and out
    assert (
        run("run", "p.dl", "--show=scc-graph-text")[1]
        == 'digraph {\n\t_0[label = "edge"];\n\t_1[label = "path"];\n\t_0 -> _1;\n}\n'
    )
    status, _, errors = run("run", "p.dl", "--show=initial-ram")
    assert status == 2 and "there is no RAM" in errors


def test_every_command_has_a_version(run):
    from semi_naive.__main__ import cli

    said = run("--version")[1]
    assert said.endswith(f"{__import__('semi_naive').__version__}\n")
    assert {run(name, "--version")[1] for name in cli.commands} == {said}


def test_live_profile_serves_the_page_of_live(run, paths):
    status, out, errors = run("run", "p.dl", "-Ffacts", "-D-", "--live-profile")
    assert (status, out) == (0, ANSWER) and re.fullmatch(r"live: http://127.0.0.1:\d+\S*\n", errors)


def test_a_preprocessor_that_is_another_one(run, paths):
    status, out, errors = run("run", "p.dl", "-Ffacts", "--preprocessor=m4 -P")
    assert (status, out) == (2, "") and "m4 -P PROGRAM | semi-naive run -" in errors


def test_a_preprocessor_without_a_name_is_the_one_that_is_built_in(run, paths):
    status, _, errors = run("run", "p.dl", "-Ffacts", "-P", "preprocessor")
    assert status == 0 and "the preprocessor is built in" in errors


def test_magic_and_inlining_on_the_command_line(run, paths):
    """They go to the program as its own pragmas do, and win over them."""
    magic = '.pragma "magic-transform" "*"\n' + PATHS.replace(".output path\n", "")
    (paths / "q.dl").write_text(magic + ".decl from1(y: number)\n.output from1\nfrom1(y) :- path(1, y).")
    assert "path@" in run("run", "q.dl", "--show=transformed-ast")[1]
    assert "path@" not in run("run", "q.dl", "--show=transformed-ast", "-m", "edge")[1]
    assert "path@" not in run("run", "q.dl", "--show=transformed-ast", "--magic-transform-exclude=path")[1]
    assert "path@" not in run("run", "q.dl", "--show=transformed-ast", "-P", "magic-transform:edge")[1]
    (paths / "i.dl").write_text(
        ".decl a(x: number)\n.decl b(x: number) inline\n.output c\n.decl c(x: number)\na(1).\nb(x) :- a(x).\nc(x) :- b(x).\n"
    )
    assert "c(x) :- a(x)." in run("run", "i.dl", "--show=transformed-ast")[1]
    assert "c(x) :- b(x)." in run("run", "i.dl", "--show=transformed-ast", "--inline-exclude=b")[1]


def test_warnings_by_name(run, paths):
    (paths / "w.dl").write_text(".type T\n.decl a(x: number) output\n.decl b(x: number, y: number)\na(x) :- b(x, once).\n")
    said = {
        "deprecated-type-decl": "Deprecated type", "deprecated-qualifier": "Deprecated output",
        "no-rules-nor-facts": "No rules/facts", "var-appears-once": "only occurs once",
    }  # fmt: skip
    assert said.keys() <= set(WARNINGS)

    def named(*flags):
        status, _, errors = run("run", "w.dl", "-D-", *flags)
        assert status == 0
        return {name for name, text in said.items() if text in errors}

    assert named() == named("-Wall") == named("--wno=none") == set(said)
    for name in said:
        assert named("-W", name) == {name} and named(f"--wno={name}") == said.keys() - {name}
    assert named("-Wvar-appears-once", "-Wno-rules-nor-facts") == {"var-appears-once", "no-rules-nor-facts"}
    assert named("-Wall", "--wno=all") == named("-w") == named("-P", "no-warn") == set()
    for flag in ("-W", "--wno"):
        status, _, errors = run("run", "w.dl", flag, "nosuch")
        assert status == 2 and "there is no warning 'nosuch'" in errors and "var-appears-once" in errors


def test_pragmas_are_flags(run, paths):
    assert run("run", "p.dl", "-P", "fact-dir:facts", "-P", "output-dir:-", "-P", "jobs:1")[:2] == (0, ANSWER)
    assert run("run", "p.dl", "-P", "output-dir:none", "-Ffacts", "-D-")[:2] == (0, ANSWER), "the flag itself wins"
    assert "-j 0: expected" in run("run", "p.dl", "-P", "jobs:0")[2]
    assert "nothing is compiled" in run("run", "p.dl", "-Ffacts", "-D-", "-P", "compile")[2]
    assert run("run", "p.dl", "-Ffacts", "-P", "generate:-")[0] == 2
    assert run("run", "p.dl", "-Ffacts", "-D-", "-P", "nosuch:1")[1:] == (
        ANSWER,
        "semi-naive: -P nosuch: no flag has this name\n",
    )
    (paths / "q.dl").write_text('.pragma "fact-dir" "facts"\n.pragma "profile" "q.json"\n.pragma "jobs" "1"\n' + PATHS)
    assert run("run", "q.dl", "-D-")[:2] == (0, ANSWER) and (paths / "q.json").exists()
    status, _, errors = run("run", "q.dl", "-D-", "--sandbox", "facts")
    assert status == 2 and "outside of the sandbox" in errors


def test_verbose(run, paths):
    status, out, errors = run("run", "p.dl", "-Ffacts", "-D-", "-v")
    assert (status, out) == (0, ANSWER)
    assert re.search(r"^semi-naive: path: 3 tuples, local, [0-9.]+ s = ", errors, re.MULTILINE) and " compile " in errors


def test_the_commands_of_the_page(run, tmp_path):
    page_commands.write_files(PAGE, tmp_path)
    found = page_commands.commands(PAGE)
    assert len(found) > 8
    for command, said in found:
        assert page_commands.trimmed(page_commands.printed(command, run)) == page_commands.trimmed(said), command
