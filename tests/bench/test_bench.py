"""The benchmark at toy size: the engines agree, its figures add up, and a wrong count stops it."""

import json
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("psutil")

from bench import closure, inputs  # noqa: E402
from bench.memory import now  # noqa: E402
from bench.peers import Sample, alarm, duckdb  # noqa: E402
from bench.report import Measure, ratios, tables  # noqa: E402


def test_the_engines_agree_and_the_results_are_written(spark, tmp_path, capsys):
    out = tmp_path / "results.json"
    assert closure.main(["--toy", "--rows", "tree", "--repeat", "1", "--no-extras", "--out", str(out)]) == 0
    results = json.loads(out.read_text())
    assert results["rows"]["tree"]["pairs"] == 98
    for row in results["rows"].values():
        assert list(row["samples"]) == ["decomposed", "balanced", "duckdb", "written", "duckdb_written", "dataframes"]
        assert {sample["pairs"] for samples in row["samples"].values() for sample in samples} == {row["pairs"]}
    assert results["machine"]["spark_cores"] == spark.sparkContext.defaultParallelism
    ratio = next(m for m in results["measures"] if m["name"] == "tree: DuckDB ÷ decomposed")
    seconds = {name: samples[0]["seconds"] for name, samples in results["rows"]["tree"]["samples"].items()}
    assert ratio["value"] == pytest.approx(seconds["duckdb"] / seconds["decomposed"])
    assert "98" in capsys.readouterr().out


def engine(pairs: int | None, seconds: float = 1.0):
    return lambda path, spark, timeout: Sample(seconds, pairs)


def test_a_wrong_count_raises():
    known, unknown = inputs.Row("tree", "", 258), inputs.Row("gnp", "", None)
    with pytest.raises(closure.WrongCount, match="a found 257 pairs; 258 are known"):
        closure.compare(known, {"a": engine(257)}, None, 1, 1)
    with pytest.raises(closure.WrongCount, match="a found 3, b found 4"):
        closure.compare(unknown, {"a": engine(3), "b": engine(4)}, None, 1, 1)


def test_a_peer_that_is_stopped_runs_once_and_its_ratio_is_a_lower_bound():
    engines = {"decomposed": engine(5, 2.0), "duckdb": engine(None, 600.0)}
    row = closure.compare(inputs.Row("rmat", "", 5), engines, None, 3, 600)
    assert [len(samples) for samples in row["samples"].values()] == [3, 1]
    measure = ratios({"rmat": row})[0]
    assert (measure.value, measure.bound, measure.met) == (300, True, True)
    assert (measure.limit, measure.target()) == (15, "≥ 15×: met")
    assert Measure("far", 2, "×", 8, at_least=True, bound=True).target() == "≥ 8×: unknown"
    assert tables({"rows": {"rmat": row}, "extras": {}, "toy": False})[0].row_count == 1


def test_duckdb_can_be_stopped(tmp_path):
    path = inputs.write(inputs.graphs.chain(1500), tmp_path / "chain.tsv")
    session = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1))
    sample = duckdb(path, session, 0.05)
    assert sample.pairs is None


def test_alarms_that_are_not_needed_do_not_ring():
    rung = []
    with alarm(0.05, lambda: rung.append(1)):
        pass
    import time

    time.sleep(0.1)
    assert not rung


def test_memory_of_a_process_is_seen():
    import psutil

    sizes = now(psutil.Process())
    assert sizes["python"] > 1 << 20 or not sys.executable.rpartition("/")[2].startswith("python")


def test_unknown_graphs_are_refused(tmp_path):
    with pytest.raises(ValueError, match="expected some of gnp"):
        inputs.rows(["gnp", "moon"], tmp_path)
