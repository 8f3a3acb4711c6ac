"""All readers of a file agree: the driver's, the same in pieces, Spark's tasks on a few bytes each, the slow one by lines."""

import sqlite3

import pytest
from fact_files import FLOAT, NUMBER, SYMBOL, TYPES, UNSIGNED, relation
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.fuzz import facts, tables
from semi_naive.io import as_columns, read
from semi_naive.io.errors import BadInput
from semi_naive.ra.ir import FileDirective, Kind

in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=120)
TWO = (Kind.SYMBOL, Kind.SYMBOL)
INPUT = {"filename": "r.facts"}
QUOTED = INPUT | {"rfc4180": "true"}


@in_one_folder
@given(st.randoms(use_true_random=False).map(facts.random_case))
def test_text_by_all_readers(tmp_path, case):
    assert facts.difference(case, tmp_path) is None


@in_one_folder
@given(st.randoms(use_true_random=False).map(tables.random_case))
def test_tables_by_all_readers(tmp_path, case):
    assert tables.difference(case, tmp_path) is None


@pytest.mark.parametrize(
    "types, parameters, data",
    [
        (TWO, INPUT, b"a\tb\n\nc\td\n"),
        (TWO, INPUT, b"\na\tb\n"),
        (TWO, INPUT, b"a\tb\n\n"),
        (TWO, INPUT, b"a\tb\r\n\r\nc\td"),
        ((Kind.NUMBER,), INPUT, b"\xef\xbb\xbf1\n2\n"),
        ((Kind.SYMBOL,), INPUT, b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n\xef\xbb\xbfc\n"),
        ((Kind.NUMBER,), INPUT, b"0xFFFFFFFFFFFFFFFF\n"),
        ((Kind.FLOAT,), INPUT, b"1e999\ninf\n"),
        ((Kind.UNSIGNED,), INPUT, b"0X1f\n"),
        (TWO, INPUT | {"delimiter": ","}, b"]a,b\n"),
        (TWO, INPUT | {"columns": "1:0"}, b"a\tb\n\nc\td\n"),
        (TWO, INPUT | {"columns": "1:2"}, b"a\tb\nc\td\te\n"),
        (TWO, INPUT | {"columns": "1:0"}, b"a\tb\t\xff\nc\td\te\n"),
        (TWO, QUOTED, b'"a"x,b\n'),
        (TWO, QUOTED, b'""x,b\n'),
        (TWO, QUOTED, b'"a\r\nb",c\r\nd,e\r\n'),
        (TWO, QUOTED, b'a"b,"c\nd"\ne,f,g\n'),
    ],
)
def test_what_arrow_reads_otherwise(tmp_path, types, parameters, data):
    assert facts.difference(facts.FactFile("r.facts", data, types, parameters), tmp_path) is None


def test_blanks_where_a_row_is_one_symbol(tmp_path):
    assert facts.difference(facts.FactFile("r.txt", b"a\n \nb\n", (Kind.SYMBOL,), None), tmp_path) is None


def test_a_quote_that_holds_the_end_of_a_line_of_a_graph(tmp_path):
    case = facts.FactFile("edges.csv", b'a,"b\n"\nc,d\n', None, None)
    assert facts.difference(case, tmp_path) is None


@pytest.mark.parametrize(
    "text, types, parameters, expected",
    [
        ("a\tb\n\nc\td\n", (SYMBOL, SYMBOL), {}, "r.facts:2:1: Values missing: 1 found, r(a, b) has 2"),
        ("1\t" + "9" * 5000, (NUMBER, NUMBER), {}, "r.facts:1:3: '99999"),
        ("-" + "7" * 4301, (UNSIGNED,), {}, "r.facts:1:1: '-7777"),
        ("0x" + "f" * 5000, (NUMBER,), {}, "r.facts:1:1: an integer of 20000 bits is out of range of number"),
        ("1e999\n", (FLOAT,), {}, "r.facts:1:1: '1e999' is out of range of float"),
        ('"a\n\nb",1\nx,y\n', (SYMBOL, NUMBER), {"rfc4180": "true"}, "r.facts:4:3: 'y' is not a number"),
        (
            'a,"b\nc"d\n',
            (SYMBOL, SYMBOL),
            {"rfc4180": "true"},
            "r.facts:2:3: Separator expected immediately after quoted field, found 'd'",
        ),
        ('a,b\nc,"d\n\n', (SYMBOL, SYMBOL), {"rfc4180": "true"}, "r.facts:2:3: Unbalanced field quote: it is never closed"),
        ("[[1, " + "9" * 5000 + "]]", (NUMBER, NUMBER), {"IO": "jsonfile"}, "r.facts: element 0, attribute b: 999999"),
        ("[[1e999]]", (FLOAT,), {"IO": "jsonfile"}, "r.facts: element 0, attribute a: 1e999 is out of range of float"),
        ('[["a"], ["\\ud800"]]', (SYMBOL,), {"IO": "jsonfile"}, "r.facts: element 1, attribute a: '\\ud800' is no text"),
        (b'[["a"],\n ["\xff"]]', (SYMBOL,), {"IO": "jsonfile"}, "r.facts:2:4: cannot be read as JSON"),
    ],
)
def test_places(reader, text, types, parameters, expected):
    with pytest.raises(BadInput) as caught:
        reader(text, *types, filename="r.facts", **parameters)
    assert expected in str(caught.value) and len(str(caught.value)) < 400


def test_leading_zeros_are_no_digits(reader):
    assert reader("0" * 5000 + "7\n", NUMBER) == reader("+" + "0" * 6000 + "7\n", UNSIGNED) == [(7,)]


def test_quoted_fields_hold_the_ends_of_lines(reader):
    text = '"a\r\n\nb",c\r\nx,"\n"\r\n'
    assert reader(text, SYMBOL, SYMBOL, rfc4180="true") == [("a\r\n\nb", "c"), ("x", "\n")]


@pytest.mark.parametrize("value, column, expected", [
    (b"\xff", SYMBOL, "r.db: row 1, column a: byte 0xff is not UTF-8\n  a blob"),
    (b"12", NUMBER, "r.db: row 1, column a: b'12' (bytes) is not a number"),
    (None, NUMBER, "r.db: row 1, column a: the value is NULL"),
    ("9" * 5000, NUMBER, "r.db: row 1, column a: '999"),
])  # fmt: skip
def test_places_in_databases(tmp_path, values, value, column, expected):
    with sqlite3.connect(tmp_path / "r.db") as database:
        database.execute("CREATE TABLE r (a)")
        database.executemany("INSERT INTO r VALUES (?)", [(7,), (value,)])
    with pytest.raises(BadInput) as caught:
        read(FileDirective("input", "r", {"IO": "sqlite", "filename": "r.db"}), relation(column), TYPES, str(tmp_path), values)
    assert expected in str(caught.value)


def test_text_of_a_database_that_is_none(tmp_path, values):
    with sqlite3.connect(tmp_path / "r.db") as database:
        database.execute("CREATE TABLE r AS SELECT CAST(X'ff' AS TEXT) AS a")
    with pytest.raises(BadInput, match=r"row 0, column a: byte 0xff is not UTF-8"):
        read(FileDirective("input", "r", {"IO": "sqlite", "filename": "r.db"}), relation(SYMBOL), TYPES, str(tmp_path), values)


@pytest.mark.parametrize("row, types, expected", [
    ((10**5000,), (NUMBER,), r"r\[0\].a: an integer of 16610 bits is out of range of number"),
    ((10**400,), (FLOAT,), "1000000.* is out of range of float"),
    (("\ud800",), (SYMBOL,), "is half of a character"),
    ((1, 10**5000), (NUMBER,), r"a tuple is not a fact of r\(a: number\)"),
])  # fmt: skip
def test_python_s_own_integers_and_strings(values, row, types, expected):
    with pytest.raises(BadInput, match=expected):
        as_columns([row], relation(*types), TYPES, values)
