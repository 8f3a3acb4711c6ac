"""The suite of programs: its answers at toy size, and how folders of programs are measured beside Soufflé."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from bench import compilers, side_by_side, souffle, suite
from bench.closure import WrongCount
from bench.fuzz.checks import same_relations
from bench.fuzz.oracle import as_written, solve
from semi_naive import Program

LARGE = [name for name, (_, sizes) in suite.NAMES.items() if "large" in sizes]
CHEAP = ("cyk", "genealogy", "triangles", "wide", *LARGE)  # the oracle's nested loops take milliseconds on these
PATH = ".decl edge(x: number, y: number)\n.input edge\n.decl path(x: number, y: number)\n.output path\n.printsize path\n"
PATH += "path(x, y) :- edge(x, y).\npath(x, z) :- path(x, y), edge(y, z).\n"
COMPILER = """#!/bin/sh
[ "$1" = --version ] && printf 'Version: 2.5\\nWord size: %d bits\\n' && exit
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\nwhile [ "$1" != -D ]; do shift; done\\nprintf "%s" > "$2/path.csv"\\nprintf "path\\\\t3\\\\n"\\n' > "$2"
chmod +x "$2"
"""


def test_every_program_has_facts_for_what_it_reads(tmp_path):
    assert {path.stem for path in suite.program("cyk").parent.glob("*.dl")} == {*suite.NAMES}
    for name, (make, sizes) in suite.NAMES.items():
        program = Program.from_file(str(suite.program(name)))
        read = {each.relation for each in program.checked.directives if each.kind == "input"}
        assert {*made(make, sizes["toy"])} == read, name


@pytest.mark.parametrize("name", CHEAP)
def test_toy_answers_are_the_oracles(name):
    make, sizes = suite.NAMES[name]
    facts, program = made(make, sizes["toy"]), Program.from_file(str(suite.program(name)))
    with program.run(facts=facts) as result:
        found = {each: result[each].to_set() for each in result}
    expected = solve(as_written(program.checked), facts)
    assert found and any(found.values())
    same_relations(found, expected)


def made(make, numbers: tuple) -> dict[str, set[tuple]]:
    rows = make(np.random.default_rng(suite.SEED), *numbers)
    return {name: {tuple(each if isinstance(each, str) else int(each) for each in row) for row in rows[name]} for name in rows}


def test_facts_are_the_same_each_time(tmp_path):
    one, other = (suite.write_facts("wide", "toy", tmp_path / each) for each in ("a", "b"))
    assert {path.name: path.read_text() for path in one.iterdir()} == {path.name: path.read_text() for path in other.iterdir()}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Makes a suite of one program, and a compiler whose binaries write given lines."""
    monkeypatch.setattr(compilers, "BINARIES", tmp_path / "binaries")
    facts = tmp_path / "programs" / "reach" / "facts"
    facts.mkdir(parents=True)
    (facts / "edge.facts").write_text("1\t2\n2\t3\n")
    (facts.parent / "reach.dl").write_text(PATH)

    def made(lines: str) -> Path:
        path = tmp_path / "souffle"
        path.write_text(COMPILER % (64, lines))
        path.chmod(0o755)
        return tmp_path

    return made


def test_a_folder_is_measured_and_its_outputs_agree(folder, capsys):
    here = folder(r"2\\t3\\n1\\t2\\n1\\t3\\n")
    out = here / "results.json"
    asked = [
        "--suite",
        str(here / "programs"),
        "--souffle",
        str(here),
        "--toy",
        "--repeat",
        "1",
        "--timeout",
        "60",
        "--out",
        str(out),
    ]
    assert souffle.main(asked) == 0
    results = json.loads(out.read_text())
    assert results["souffle"][0]["bits"] == 64
    samples = results["rows"]["reach"]["samples"]
    assert samples["souffle64"][0]["tuples"] == samples["ours"][0]["tuples"] == 4
    [mine] = samples["ours"]
    assert 0 < mine["processor"] and 10e6 < mine["bytes"] and not mine["stopped"]
    assert "reach" in (told := capsys.readouterr().out) and "geometric mean" in told


def test_other_tuples_are_an_error_that_shows_them(tmp_path):
    folders = [tmp_path / "one", tmp_path / "other"]
    for each, lines in zip(folders, ("1\t2\n1\t3\n", "1\t3\n1\t4\n1\t4\n"), strict=True):
        each.mkdir()
        (each / "path.csv").write_text(lines)
    one, other = ((each.name, each, side_by_side.outputs(each)) for each in folders)
    side_by_side.agree("reach", one, one)
    with pytest.raises(WrongCount, match=r"2 lines of one, 2 of other; only one has \['1.t2'\]; only other has \['1.t4'\]"):
        side_by_side.agree("reach", one, other)


def test_a_run_is_stopped_and_a_failure_is_told(tmp_path):
    sample = side_by_side.watched(["sh", "-c", "sleep 60; :"], tmp_path / "a", 0.2)
    assert sample.stopped and 0.2 <= sample.seconds < 30
    with pytest.raises(ValueError, match="it broke"):
        side_by_side.watched(["sh", "-c", "echo it broke >&2; exit 3"], tmp_path / "b", 5)


def test_the_table_has_the_least_ratio_and_the_mean_of_those_that_both_finish():
    def samples(seconds, stopped=False):
        return [{"seconds": seconds, "processor": 2 * seconds, "bytes": 1e6 * seconds, "stopped": stopped}]

    rows = {
        "a": {"samples": {"souffle64": samples(8), "ours": samples(2)}},
        "b": {"samples": {"souffle64": samples(1), "ours": samples(1)}},
        "c": {"samples": {"souffle64": samples(60, True), "ours": samples(2)}},
    }
    table = side_by_side.table({"rows": rows, "engines": ["souffle64"], "title": "both"})
    cells = [[*column.cells] for column in table.columns]
    assert cells[4] == ["4.00×", "1.00×", "> 30.00×", "1.00×", "2.00×"]
    assert cells[1] == ["8.00", "1.00", "> 60", "", ""]


def test_a_folder_without_programs_is_told(tmp_path, capsys, folder):
    here = str(folder(""))
    assert souffle.main(["--suite", os.path.join(here, "binaries"), "--souffle", here]) == 1
    assert "NAME/NAME.dl" in capsys.readouterr().err
