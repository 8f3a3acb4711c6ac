"""The benchmark against Soufflé at toy size, with a stand-in for it whose binaries run our own engine."""

import gzip
import json
import os
import sys
from types import SimpleNamespace

import pytest

from bench import compilers, souffle
from bench.closure import WrongCount
from bench.peers import Sample

COMPILER = """#!{python}
import os, sys
if "--version" in sys.argv:
    sys.exit(print("Version: 2.5-stand-in"))
binary, program = sys.argv[sys.argv.index("-o") + 1], sys.argv[-1]
with open(binary, "w") as file:
    file.write('#!/bin/sh\\n{python} -m semi_naive run "%s" --quiet "$@"%s\\n' % (program, {after!r}))
os.chmod(binary, 0o755)
"""


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Makes a folder with a `souffle`, after whose binaries' output comes the output of `after`."""
    monkeypatch.setattr(compilers, "BINARIES", tmp_path / "binaries")

    def made(after: str = "") -> str:
        folder = tmp_path / "souffle"
        folder.mkdir()
        path = folder / "souffle"
        path.write_text(COMPILER.format(python=sys.executable, after=after))
        path.chmod(0o755)
        return str(folder)

    return made


def test_rows_are_measured_and_their_sizes_agree(compiler, tmp_path, capsys):
    out, folder = tmp_path / "results.json", compiler()
    asked = ["--rows", "two-counters,functors,doop", "--souffle", folder]
    assert souffle.main([*asked, "--quick", "--repeat", "1", "--out", str(out)]) == 0
    results = json.loads(out.read_text())
    assert list(results["rows"]) == ["two counters", "functors"], "there is no doop without --data"
    assert results["rows"]["two counters"]["samples"]["souffle"][0]["facts"] == {"a": 51, "b": 50}
    assert {len(samples) for samples in results["rows"]["functors"]["samples"].values()} == {1}
    assert results["souffle"] == "2.5-stand-in" and "two counters" in capsys.readouterr().out
    assert len(os.listdir(tmp_path / "binaries")) == 2


def test_sizes_that_differ_stop_it(compiler, capsys):
    folder = compiler(after="; printf 'c\\t1\\n'")
    assert souffle.main(["--rows", "counter", "--quick", "--repeat", "1", "--souffle", folder]) == 1
    assert "found 102" in capsys.readouterr().err


def test_the_size_of_each_relation_counts(monkeypatch, tmp_path):
    [workload] = souffle.workloads.workloads(["counter"], tmp_path, quick=True, known=souffle.NAMES)
    facts = iter([{"b": 101}, {"c": 101}])
    monkeypatch.setattr(souffle, "compiled", lambda program, compiler: "binary")
    monkeypatch.setattr(souffle, "shell", lambda *asked: Sample(1.0, 101, next(facts)))
    given = SimpleNamespace(compilers=[compilers.SouffleCompiler("", "", 64)], repeat=1, timeout=1)
    with pytest.raises(WrongCount, match="'b': 101} and {'c': 101}"):
        souffle.measured(souffle.sized(workload), tmp_path, given)


def test_facts_that_come_packed_are_unpacked_for_both(tmp_path):
    folder = tmp_path / "doop" / "facts"
    folder.mkdir(parents=True)
    (folder / "a.facts.gz").write_bytes(gzip.compress(b"1\n"))
    (folder.parent / "doop.dl").write_text(".decl a(x: number)\n.input a\n.decl b(x: number)\n.output b, a\nb(x) :- a(x).")
    [workload] = souffle.workloads.workloads(["doop"], tmp_path / "made", tmp_path, known=souffle.NAMES)
    assert (tmp_path / "made" / "doop" / "a.facts").read_bytes() == b"1\n"
    workload = souffle.sized(workload)
    assert workload.counted == ("b", "a") and ".output" not in workload.text


def test_without_souffle_it_says_so(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert souffle.main(["--quick"]) == 2
    assert "--souffle DIR" in capsys.readouterr().err


def test_the_table_shows_ratios_of_both():
    samples = {name: [{"seconds": seconds, "pairs": 5}] for name, seconds in [("souffle", 6), ("command", 4), ("warm", 2)]}
    table = souffle.table({"rows": {"a": {"pairs": 5, "samples": samples}}})
    cells = [list(column.cells)[0] for column in table.columns]
    assert cells == ["a", "5", "6.00 (6.00–6.00)", "4.00 (4.00–4.00)", "1.50×", "2.00 (2.00–2.00)", "3.00×"]
