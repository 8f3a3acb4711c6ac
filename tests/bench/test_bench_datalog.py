"""The Datalog benchmark at toy size: all engines agree on every row, and the table says what was measured."""

import json

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("psutil")

from bench import analyses, datalog, workloads  # noqa: E402
from bench.closure import WrongCount, compare  # noqa: E402
from bench.peers import Sample  # noqa: E402


def test_every_row_is_computed_by_every_engine_with_the_same_answer(spark, tmp_path, capsys):
    out = tmp_path / "results.json"
    assert datalog.main(["--quick", "--repeat", "1", "--out", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == len(workloads.NAMES)
    for row in rows.values():
        assert {sample["pairs"] for samples in row["samples"].values() for sample in samples} == {row["pairs"]}
        assert row["pairs"] > 0
    assert list(rows["components"]["samples"]) == ["datalog", "duckdb", "loop"]
    assert list(rows["closure"]["samples"]) == ["datalog", "written", "duckdb", "duckdb_written", "transitive_closure"]
    assert "andersen" in capsys.readouterr().out


def test_engines_that_disagree_stop_it(tmp_path):
    [workload] = workloads.workloads(["small-rules"], tmp_path, quick=True)
    with pytest.raises(WrongCount, match="wrong found 319; 320|wrong found 319 pairs; 320"):
        compare(workload, {"wrong": lambda path, spark, timeout: Sample(1.0, 319)}, None, 1, 1)


def test_rows_without_their_data_are_left_out_and_unknown_ones_refused(tmp_path):
    assert workloads.workloads(["sg-tg"], tmp_path) == []
    with pytest.raises(ValueError, match="expected some of sg-gnutella"):
        workloads.workloads(["moon"], tmp_path)


def test_the_table_shows_ratios_and_bounds():
    sample = {"seconds": 2.0, "pairs": 5}
    samples = {"datalog": [sample], "duckdb": [{"seconds": 6.0, "pairs": 5}], "loop": [{"seconds": 9.0, "pairs": None}]}
    table = datalog.table({"rows": {"a": {"pairs": 5, "samples": samples}}})
    cells = [list(column.cells)[0] for column in table.columns]
    assert cells == ["a", "5", "2.00 (2.00–2.00)", "6.00 (6.00–6.00)\n3.00×", "–", "–", "> 9\n≥ 4.50×", "–"]


def test_analyses_are_the_same_each_time_and_mostly_local():
    first, again = analyses.andersen(5000, seed=3), analyses.andersen(5000, seed=3)
    assert all((first[name] == again[name]).all() for name in first)
    copy = first["copy"]
    assert len(copy) > 2000 and 0.9 < (copy[:, 0] // analyses.BLOCK == copy[:, 1] // analyses.BLOCK).mean() < 1
