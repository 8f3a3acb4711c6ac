"""Missing values: an error, rows that are left out, or a value in their place; the same in every format."""

import json
import math
import sqlite3

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semi_naive import BadInput, Config, Program

ROWS = [("ann", 1, 0.5), ("bob", None, 1.5), (None, 3, 2.5), ("eve", 4, None)]
NAMES = ("who", "n", "x")
TEXT = """
.decl r(who: symbol, n: number, x: float) .input r
.decl o(who: symbol, n: number, x: float) .output o
o(w, n, x) :- r(w, n, x).
"""
SKIPPED = {("ann", 1, 0.5)}
FILLED = {("ann", 1, 0.5), ("bob", 7, 1.5), ("7", 3, 2.5), ("eve", 4, 7.0)}


def arrow():
    return pa.table({name: [row[place] for row in ROWS] for place, name in enumerate(NAMES)})


def as_parquet(folder):
    pq.write_table(arrow(), folder / "r.parquet")
    return str(folder / "r.parquet")


def as_json(folder):
    (folder / "r.json").write_text(json.dumps(ROWS))
    return str(folder / "r.json")


def as_sqlite(folder):
    with sqlite3.connect(folder / "r.sqlite") as database:
        database.execute("CREATE TABLE r (who TEXT, n INTEGER, x REAL)")
        database.executemany("INSERT INTO r VALUES (?, ?, ?)", ROWS)
    return str(folder / "r.sqlite")


FORMS = {
    "rows": lambda folder: ROWS,
    "arrow": lambda folder: arrow(),
    "dictionary": lambda folder: arrow().set_column(0, "who", arrow()["who"].dictionary_encode()),
    "pandas": lambda folder: pd.DataFrame(ROWS, columns=NAMES),
    "polars": lambda folder: pl.from_arrow(arrow()),
    "parquet": as_parquet,
    "json": as_json,
    "sqlite": as_sqlite,
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_skipped_or_filled_in_every_format(form, tmp_path):
    program, data = Program(TEXT), FORMS[form](tmp_path)
    assert set(program.run({"r": data}, null="skip")["o"].to_list()) == SKIPPED
    assert set(program.run({"r": data}, null="7")["o"].to_list()) == FILLED
    with pytest.raises(BadInput) as caught:
        program.run({"r": data})
    assert 'null="skip"' in str(caught.value)


def test_spark_reads_them_alike(tmp_path):
    program = Program(TEXT)
    result = program.run({"r": as_parquet(tmp_path)}, config=Config(local_tuples=0, partitions=2, null="skip"))
    assert set(result["o"].to_list()) == SKIPPED


def test_an_empty_field_of_text_is_missing_unless_it_is_a_symbol(tmp_path):
    (tmp_path / "r.facts").write_text("ann\t1\t0.5\nbob\t\t1.5\n\t3\t2.5\neve\t4\t\n")
    skipping = Program(TEXT.replace(".input r", '.input r(null="skip")'))
    assert set(skipping.run(tmp_path)["o"].to_list()) == {("ann", 1, 0.5), ("", 3, 2.5)}
    assert set(Program(TEXT).run(tmp_path, null="7")["o"].to_list()) == {
        ("ann", 1, 0.5), ("bob", 7, 1.5), ("", 3, 2.5), ("eve", 4, 7.0),
    }  # fmt: skip
    with pytest.raises(BadInput, match="r.facts:2:5"):
        Program(TEXT).run(tmp_path)


def test_a_directive_is_stronger_than_the_run(tmp_path):
    (tmp_path / "r.facts").write_text("ann\t\t0.5\n")
    program = Program(TEXT.replace(".input r", '.input r(null="3")'))
    assert program.run(tmp_path, null="skip")["o"].to_list() == [("ann", 3, 0.5)]


def test_missing_values_count_in_columns_that_no_rule_reads(tmp_path):
    text = ".decl r(who: symbol, n: number, x: float) .input r\n.decl o(x: float) .output o\no(x) :- r(_, _, x)."
    path = as_parquet(tmp_path)
    for outputs in (True, False):
        assert Program(text).run({"r": path}, null="skip", only_outputs=outputs)["o"].to_list() == [(0.5,)]


def test_a_row_of_an_error_is_that_of_the_data():
    table = pa.table({"who": ["a", "b", "c"], "n": pa.array([None, 1, 2**64 - 1], pa.uint64()), "x": [0.0, 0.0, 0.0]})
    with pytest.raises(BadInput, match="row 2"):
        Program(TEXT).run({"r": table}, null="skip")
    with pytest.raises(BadInput, match=r"r\[2\].n"):
        Program(TEXT).run({"r": [("a", None, 0.0), ("b", 1, 0.0), ("c", 2**64, 0.0)]}, null="skip")


def test_nan_is_missing_where_no_float_is_read():
    program = Program(".decl r(n: number) .input r\n.decl o(n: number) .output o\no(n) :- r(n).")
    frame = pd.DataFrame({"n": [1.0, math.nan]})
    assert program.run({"r": frame}, null="skip")["o"].to_list() == [(1,)]


def test_null_is_nil_in_records():
    text = ".type L = [n: number, l: L]\n.decl r(l: L) .input r\n.decl o(l: L) .output o\no(l) :- r(l)."
    assert set(Program(text).run({"r": [(None,), ((1, None),)]}, null="skip")["o"].to_list()) == {(None,), ((1, None),)}


def test_a_value_that_does_not_fit_is_an_error():
    with pytest.raises(BadInput, match="null=x: 'x' is not a number") as caught:
        Program(TEXT).run({"r": arrow()}, null="x")
    assert "null= is error, skip, or a number" in str(caught.value)
