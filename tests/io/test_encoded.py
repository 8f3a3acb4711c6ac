"""bool, date, timestamp and duration: the same values through every format, and against Arrow."""

import datetime as dt
import json
import sqlite3

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semi_naive import BadInput, Config, Program
from semi_naive.ra.ir import ENCODED, Kind
from semi_naive.ra.values.encoded import (
    arrow_of_numbers,
    bits_of_encoded,
    bits_of_encoded_text,
    bits_of_encoded_texts,
    encoded_text,
    encoded_values,
    numbers_of_arrow,
)

UTC = dt.UTC
COLUMNS = "b: bool, d: date, t: timestamp, u: duration, n: number"
COPY = f".decl r({COLUMNS}) .input r\n.decl o({COLUMNS}) .output o\no(b, d, t, u, n) :- r(b, d, t, u, n)."
ROWS = [
    (True, dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 12, 30, tzinfo=UTC), dt.timedelta(hours=1.5), 1),
    (False, dt.date(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), dt.timedelta(microseconds=-1), 2),
    (False, dt.date(9999, 12, 31), dt.datetime(9999, 12, 31, tzinfo=UTC), dt.timedelta(days=400), 3),
]
days = st.integers(-719_162, 2_932_896)
microseconds = st.integers(-(2**62), 2**62)
moments = days.flatmap(lambda day: st.integers(day * 86_400_000_000, (day + 1) * 86_400_000_000 - 1))
numbers = st.one_of(
    st.tuples(st.just(Kind.BOOL), st.integers(0, 1)),
    st.tuples(st.just(Kind.DATE), days),
    st.tuples(st.just(Kind.TIMESTAMP), moments),
    st.tuples(st.just(Kind.DURATION), microseconds),
)


@pytest.fixture(scope="module")
def copy():
    return Program(COPY)


def copied(program, data, **config) -> set:
    return set(program.run({"r": data}, config=Config(**config))["o"].to_list())


@given(numbers)
def test_text_python_and_arrow_agree_with_the_number(drawn):
    kind, number = drawn
    text, column = encoded_text(number, kind), np.array([number])
    (value,) = encoded_values(column, kind)
    assert bits_of_encoded_text(text, kind) == bits_of_encoded(value, kind) == number
    array = arrow_of_numbers(column, kind)
    assert array.to_pylist() == [value]
    assert numbers_of_arrow(array, kind).tolist() == [number]
    if (by_arrow := bits_of_encoded_texts(pa.array([text]), kind)) is not None:
        assert by_arrow.tolist() == [number]


@given(st.text("0123456789-:TZPDHMS.+ ", max_size=25), st.sampled_from(sorted(ENCODED)))
def test_text_that_arrow_reads_has_the_same_number_here(text, kind):
    if (by_arrow := bits_of_encoded_texts(pa.array([text]), kind)) is not None and bits_of_encoded_text(text, kind) is not None:
        assert by_arrow.tolist() == [bits_of_encoded_text(text, kind)]


@pytest.mark.parametrize("form", ["rows", "arrow", "pandas", "polars", "numpy"])
def test_python_values_come_back(copy, form):
    result = copy.run({"r": ROWS})["o"]
    if form == "numpy":
        data = np.array(ROWS, object)
    else:
        data = {"rows": lambda: ROWS, "arrow": result.to_arrow, "pandas": result.to_pandas, "polars": result.to_polars}[form]()
    assert copied(copy, data) == set(ROWS)


@pytest.mark.parametrize("name", ["o.csv", "o.tsv", "o.facts", "o.csv.gz", "o.parquet", "o.json", "o.jsonl", "o.arrow"])
def test_files_come_back(copy, tmp_path, name):
    copy.run({"r": ROWS})["o"].write(tmp_path / name)
    assert copied(copy, str(tmp_path / name)) == set(ROWS)


@pytest.mark.parametrize(
    "parameters",
    [
        "IO=jsonfile",
        "IO=jsonlines",
        "IO=jsonlines",
        'IO=jsonfile, format="object"',
        "IO=sqlite",
        "IO=parquet",
        "IO=arrow",
        "rfc4180=true",
    ],
)
def test_directives_write_what_they_read(tmp_path, parameters):
    text = COPY.replace(".input r", "").replace(".output o", f'.output o({parameters}, filename="o")')
    Program(text).run({"r": ROWS}).write(tmp_path)
    read = COPY.replace(".input r", f'.input r({parameters}, filename="o")').replace("o(", "x(", 0)
    if "sqlite" in parameters:
        read = read.replace('filename="o"', 'filename="o", name="o"')
    assert set(Program(read).run(tmp_path)["o"].to_list()) == set(ROWS)


def test_many_rows_equal_arrow_on_partitions_and_in_files(copy, tmp_path):
    count = 20_000
    table = pa.table(
        {
            "b": pa.array(np.arange(count) % 2 == 0),
            "d": pa.array(np.arange(count, dtype=np.int32)).cast(pa.date32()),
            "t": pa.array(np.arange(count) * 10**9).cast(pa.timestamp("us", "UTC")),
            "u": pa.array(np.arange(count)).cast(pa.duration("us")),
            "n": np.arange(count),
        }
    )
    pq.write_table(table, tmp_path / "r.parquet")
    found = copy.run({"r": str(tmp_path / "r.parquet")}, config=Config(local_tuples=0, partitions=3))["o"]
    assert found.to_arrow().sort_by("n") == table
    frame = found.to_df()
    assert dict(frame.dtypes) | {"n": ""} == {
        "b": "boolean", "d": "date", "t": "timestamp", "u": "interval day to second", "n": "",
    }  # fmt: skip
    assert copy.run({"r": frame})["o"].to_arrow().sort_by("n") == table
    found.write(tmp_path / "o.csv")
    assert copy.run({"r": str(tmp_path / "o.csv")})["o"].to_arrow().sort_by("n") == table


def test_units_and_zones_are_converted(copy):
    moment = dt.datetime(2026, 1, 31, 11, 30, tzinfo=UTC)
    for arrow_type in (pa.timestamp("s"), pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("ns", "UTC")):
        columns = {
            "b": [True], "d": pa.array([dt.date(1970, 1, 2)], pa.date64()),
            "t": pa.array([moment]).cast(pa.timestamp("us", arrow_type.tz)).cast(arrow_type),
            "u": pa.array([5], pa.duration("s")), "n": [1],
        }  # fmt: skip
        assert copied(copy, pa.table(columns)) == {(True, dt.date(1970, 1, 2), moment, dt.timedelta(seconds=5), 1)}


def test_text_of_other_forms():
    texts = [
        "2026-01-31",
        "2026-01-31 12:30",
        "2026-01-31T12:30:00Z",
        "2026-01-31T13:30:00.000001+01:00",
        "2026-01-31T12:30:00.5",
    ]
    found = [bits_of_encoded_text(text, Kind.TIMESTAMP) - 1_769_817_600_000_000 for text in texts]
    noon = 45_000_000_000
    assert found == [0, noon, noon, noon + 1, noon + 500_000]
    assert [bits_of_encoded_text(text, Kind.BOOL) for text in ("true", "False", "1", "yes")] == [1, 0, 1, None]
    assert bits_of_encoded_text("P1W2DT3H4M5.000006S", Kind.DURATION) == 788_645_000_006
    for kind, text in (
        (Kind.DATE, "2026-02-30"),
        (Kind.DATE, "20260131"),
        (Kind.TIMESTAMP, "2026-01-31T25:00"),
        (Kind.DURATION, "P"),
    ):
        assert bits_of_encoded_text(text, kind) is None


def test_a_file_with_a_wrong_date_is_an_error_with_its_place(tmp_path):
    (tmp_path / "r.facts").write_text("2026-01-31\t1\n2026-02-30\t2\n")
    program = Program(".decl r(d: date, n: number) .input r\n.decl o(d: date) .output o\no(d) :- r(d, _).")
    with pytest.raises(BadInput, match=r"r.facts:2:1: '2026-02-30' is not a date \(attribute d: date of r\)"):
        program.run(tmp_path)


@pytest.mark.parametrize(
    "value, told",
    [
        (5, "5 (int) is not a date"),
        (dt.datetime(2026, 1, 1), "is not a date"),
        ("x", "'x' is not a date"),
    ],
)
def test_other_python_values_are_refused(value, told):
    with pytest.raises(BadInput) as caught:
        Program(".decl r(d: date) .input r\n.decl o(d: date) .output o\no(d) :- r(d).").run({"r": [(value,)]})
    assert told in str(caught.value) and "such as 2026-01-31" in str(caught.value)


def test_a_missing_date_is_an_error_that_names_the_choice():
    with pytest.raises(BadInput, match='None \\(NoneType\\) is not a date\n  null="skip" leaves out rows'):
        Program(".decl r(d: date) .input r\n.decl o(d: date) .output o\no(d) :- r(d).").run({"r": [(None,)]})


def test_nanoseconds_are_refused_as_they_would_be_cut(copy):
    columns = {
        "b": [True],
        "d": [dt.date(2026, 1, 1)],
        "t": pa.array([1500], pa.timestamp("ns")),
        "u": pa.array([0], pa.duration("us")),
    }
    with pytest.raises(BadInput, match=r"column r.t, row 0: .* is not a timestamp"):
        copied(copy, pa.table(columns | {"n": [1]}))


def test_records_hold_encoded_values(tmp_path):
    text = """
    .type Visit = [who: symbol, at: timestamp, paid: bool]
    .decl visit(v: Visit) .input visit
    .decl o(v: Visit) .output o
    o(v) :- visit(v), v = [_, at, _], at >= "2026-01-31".
    """
    (tmp_path / "visit.facts").write_text('["ann", 2026-01-31T10:00:00Z, true]\n[bob, 2026-01-30, false]\n')
    result = Program(text).run(tmp_path)["o"]
    assert result.to_list() == [(("ann", dt.datetime(2026, 1, 31, 10, tzinfo=UTC), True),)]
    result.write(tmp_path / "o.tsv")
    assert (tmp_path / "o.tsv").read_text() == "[ann, 2026-01-31T10:00:00Z, true]\n"
    assert result.to_arrow()["v"].to_pylist() == [{"who": "ann", "at": dt.datetime(2026, 1, 31, 10, tzinfo=UTC), "paid": True}]


def test_sqlite_stores_text_and_numbers(tmp_path):
    text = COPY.replace(".input r", "").replace(".output o", '.output o(IO=sqlite, filename="o.sqlite")')
    Program(text).run({"r": ROWS[:1]}).write(tmp_path)
    with sqlite3.connect(tmp_path / "o.sqlite") as database:
        assert database.execute("SELECT * FROM o").fetchall() == [(1, "2026-01-31", "2026-01-31T12:30:00Z", "PT1H30M", 1)]


def test_json_has_truth_values_and_text(tmp_path):
    text = COPY.replace(".input r", "").replace(".output o", '.output o(IO=jsonfile, filename="o.json")')
    Program(text).run({"r": ROWS[:1]}).write(tmp_path)
    assert json.loads((tmp_path / "o.json").read_text()) == [[True, "2026-01-31", "2026-01-31T12:30:00Z", "PT1H30M", 1]]


def test_decimals_are_read_as_text_that_is_not_rounded():
    table = pa.table({"price": pa.array(["12345678901234567890.1200"]).cast(pa.decimal128(30, 4))})
    program = Program(".decl r(price: symbol) .input r\n.decl o(price: symbol) .output o\no(x) :- r(x).")
    assert program.run({"r": table})["o"].to_list() == [("12345678901234567890.1200",)]
