"""The graph algorithms and the large programs at toy size: all engines agree, and the tables say what was measured."""

import json

import numpy as np
import pytest

pytest.importorskip("duckdb")

from bench import compiling, graphs  # noqa: E402
from bench.closure import WrongCount  # noqa: E402


def test_every_algorithm_has_the_answers_of_its_peers(tmp_path, capsys):
    out = tmp_path / "results.json"
    assert graphs.main(["--toy", "--repeat", "1", "--graphs", "rmat,grid", "--out", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 2 * len(graphs.ALGORITHMS)
    for row in rows.values():
        assert {sample["pairs"] for samples in row["samples"].values() for sample in samples} == {row["pairs"]}
    assert rows["pagerank rmat"]["pairs"] > 0 and "cdlp grid" in capsys.readouterr().out


def test_an_answer_that_differs_is_an_error(monkeypatch):
    monkeypatch.setitem(graphs.ALGORITHMS["bfs"], "duckdb", lambda facts, spark, timeout: graphs.Sample(1.0, -1))
    with pytest.raises(WrongCount, match="duckdb found -1"):
        graphs.run(graphs.parsed(["--toy", "--rows", "bfs", "--graphs", "rmat", "--repeat", "1"]))


def test_floats_are_compared_by_their_squares():
    assert graphs.total(np.array([0.5, 0.5])) == 500_000 and graphs.total(np.array([3, 4])) == 7


def test_graphs_and_algorithms_that_are_not_there_are_refused(capsys):
    assert graphs.main(["--toy", "--graphs", "moon"]) == 1 and graphs.main(["--toy", "--rows", "moon"]) == 1
    assert capsys.readouterr().err.count("expected") == 2


def test_programs_of_many_rules_run(capsys):
    assert compiling.main(["--toy", "--repeat", "1"]) == 0
    told = capsys.readouterr().out
    assert all(f"{name} 40" in told for name in compiling.PROGRAMS)
    assert compiling.main(["--toy", "--rows", "moon"]) == 1
