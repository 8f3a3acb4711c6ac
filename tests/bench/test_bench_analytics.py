"""The aggregates over joins at toy size: all rows run, beside DuckDB, with the same outputs."""

import json

from bench import analytics


def test_the_rows_run_and_agree(tmp_path):
    out = tmp_path / "out.json"
    assert analytics.main(["--toy", "--repeat", "1", "--out", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert rows.keys() == {*analytics.ROWS}
    assert all(row["samples"][engine][0]["tuples"] for row in rows.values() for engine in ("ours", "duckdb"))


def test_a_row_that_is_not_there_is_an_error(capsys):
    assert analytics.main(["--toy", "--rows", "moon"]) == 1
    assert "there is no row 'moon'" in capsys.readouterr().err
