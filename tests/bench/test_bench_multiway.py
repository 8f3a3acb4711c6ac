"""The benchmark of joins at toy size: all engines agree on every row, and what is printed is what was measured."""

import json
import tempfile

import networkx as nx
import numpy as np
import pytest

pytest.importorskip("duckdb")
pytest.importorskip("psutil")

from bench import joins, mgt, multiway  # noqa: E402
from bench.closure import WrongCount, compare  # noqa: E402
from bench.inputs import Row  # noqa: E402
from bench.peers import Sample  # noqa: E402
from semi_naive import subgraphs  # noqa: E402
from semi_naive.subgraph_queries.vertices import Vertices  # noqa: E402


def test_the_engines_agree_and_the_results_are_written(spark, tmp_path, capsys):
    out, rows = tmp_path / "results.json", ["triangle", "diamond", "boxed", "bigjoin", "chain", "hubs"]
    assert multiway.main(["--toy", "--repeat", "1", "--rows", ",".join(rows), "--out", str(out)]) == 0
    results = json.loads(out.read_text())
    assert list(results["rows"]) == rows
    for row in results["rows"].values():
        assert {sample["pairs"] for samples in row["samples"].values() for sample in samples} == {row["pairs"]}
    triangles = sum(nx.triangles(nx.Graph(multiway.rmat(18, True).tolist())).values()) // 3
    assert {results["rows"][name]["pairs"] for name in ("triangle", "boxed", "bigjoin")} == {triangles}
    found = {measure["name"]: measure["value"] for measure in results["measures"]}
    seconds = {name: samples[0]["seconds"] for name, samples in results["rows"]["triangle"]["samples"].items()}
    assert found["triangle: duckdb ÷ ours"] == pytest.approx(seconds["duckdb"] / seconds["ours"])
    assert all(value <= 1 for name, value in found.items() if "of the bound" in name or "of the budget" in name)
    assert f"{triangles:,}" in capsys.readouterr().out


def test_mgt_finds_the_same_within_any_memory():
    graph = Vertices.of(multiway.rmat(18, True))
    trie = graph.want(["up"]).trie("up", (0, 1))
    edges, expected = (trie.directory.astype(np.int64), trie.values[-1]), subgraphs(graph, "triangle")
    assert {mgt.count(*edges, threads, memory) for threads in (1, 2) for memory in (None, 4, 100, 5_000)} == {expected}
    with tempfile.NamedTemporaryFile() as file:
        edges[1].tofile(file.name)
        whole, (found, read) = edges[1].nbytes, mgt.count_file(edges[0], file, 2, edges[1].nbytes // 3)
        assert found == expected and 4 * whole <= read <= 5 * whole + 16
    nothing = np.zeros(1, np.int64), np.empty(0, np.int32)
    assert mgt.count(*nothing) == 0


def test_a_wrong_count_stops_it():
    engines = {"ours": joins.searched, "wrong": lambda data, spark, timeout: Sample(1.0, 7)}
    graph = joins.PatternSearch(multiway.rmat(14, True), "triangle")
    with pytest.raises(WrongCount, match="wrong found 7"):
        compare(Row("triangle", graph, None), engines, None, 1, 1)
    graph.close()


def test_ratios_are_of_the_fastest_peer_and_bounds_of_one_that_is_stopped():
    times = {"ours": (2.0, 2.0, 2.0, False), "mgt": (5.0, 5.0, 5.0, False), "graphblas": (3.0, 3.0, 3.0, False)}
    measure = multiway.ratio("triangle", (multiway.ANY, "ours"), (1, True), times)
    assert (measure.name, measure.value, measure.met) == ("triangle: graphblas ÷ ours", 1.5, True)
    assert multiway.ratio("triangle", ("duckdb", "ours"), (20, True), times) is None
    stopped = multiway.ratio("house", ("duckdb", "ours"), (10, True), {**times, "duckdb": (100.0, 100.0, 100.0, True)})
    assert stopped.bound and stopped.met and stopped.target() == "≥ 10×: met"


def test_peers_that_are_not_installed_are_left_out(monkeypatch, capsys):
    monkeypatch.setattr(multiway, "find_spec", lambda package: None)
    assert multiway.installed("mgt") and not multiway.installed("networkit")
    assert "networkit is left out: the package is not installed" in capsys.readouterr().err


def test_unknown_rows_are_refused(capsys):
    assert multiway.main(["--rows", "moon"]) == 1
    assert "there is no row 'moon': expected some of triangle" in capsys.readouterr().err
