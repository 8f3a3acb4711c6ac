"""Facts and results in every format: what is read, what is written, byte for byte, and what is refused, where."""

import gzip
import io
import json
import math
import os
import sqlite3
import struct

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from graphs.errors import BadInput
from ra.rules.ir import Directive, Kind, Relation, Type
from ra.rules.values import Values
from semi_naive.facts import Options, arrow_table, as_columns, read, together, write
from semi_naive.facts.records import Unpacked

NUMBER, UNSIGNED, FLOAT, SYMBOL = (Type(k.value, k) for k in (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL))
LIST = Type("List", Kind.RECORD, (("head", "number"), ("tail", "List")))
NAMED = Type("Named", Kind.RECORD, (("name", "symbol"), ("weight", "float")))
TREE = Type("Tree", Kind.RECORD, (("left", "Tree"), ("value", "Named"), ("right", "Tree")))
TYPES = {type_.name: type_ for type_ in (LIST, NAMED, TREE)}
BITS = {Kind.FLOAT: "<d", Kind.UNSIGNED: "<Q", Kind.NUMBER: "<q"}


def relation(*kinds, name="r"):
    """A relation with attributes a, b, c … of these types."""
    return Relation(name, tuple(zip("abcdefgh", kinds, strict=False)))


@pytest.fixture
def values():
    return Values()


@pytest.fixture
def reader(tmp_path, values):
    """Write a fact file and read it: rows of Python values, in order."""

    def call(text, *kinds, name="r", file=None, **parameters):
        path = tmp_path / (parameters.get("filename") or file or f"{name}.facts")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        rel = relation(*kinds, name=name)
        return rows(read(Directive("input", name, parameters), rel, TYPES, str(tmp_path), values), rel, values)

    return call


@pytest.fixture
def writer(tmp_path, values):
    """Write rows of Python values; the bytes of the file that appears."""

    def call(data, *kinds, name="r", **parameters):
        rel = relation(*kinds, name=name)
        columns = as_columns(data, rel, TYPES, values)
        path = write(Directive("output", name, parameters), rel, TYPES, columns, str(tmp_path), values)
        assert [each for each in os.listdir(tmp_path) if each.startswith(".")] == []
        return open(path, "rb").read()

    return call


def rows(columns, rel, values):
    """Columns as Python tuples, one bit pattern at a time: slow, and nothing like the code under test."""
    kinds = [type_ for _, type_ in rel.attributes]
    return [tuple(python(bits, kind, values) for bits, kind in zip(row, kinds, strict=True)) for row in columns.T.tolist()]


def python(bits, type_, values):
    if type_.kind == Kind.SYMBOL:
        return values.strings(np.array([bits]))[0]
    if type_.kind != Kind.RECORD:
        return struct.unpack(BITS[type_.kind], struct.pack("<q", bits))[0]
    if not bits:
        return None
    fields = values.fields(np.array([bits]), len(type_.fields))[:, 0].tolist()
    named = TYPES | {each.name: each for each in (NUMBER, UNSIGNED, FLOAT, SYMBOL)}
    return tuple(python(field, named[name], values) for field, (_, name) in zip(fields, type_.fields, strict=True))


# -- reading text


def test_numbers_of_all_kinds(reader):
    text = "-5\t18446744073709551615\t1.5\tx y\n9223372036854775807\t0x1F\t-inf\t\n+7\t0b101\t1e-320\tn/a\n"
    assert reader(text, NUMBER, UNSIGNED, FLOAT, SYMBOL) == [
        (-5, 2**64 - 1, 1.5, "x y"),
        (2**63 - 1, 31, -math.inf, ""),
        (7, 5, 1e-320, "n/a"),
    ]
    assert math.isnan(reader("nan\n", FLOAT)[0][0])
    assert reader("0x1p4\n", FLOAT) == [(16.0,)]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_line_ends(reader, end):
    assert reader(f"1\ta\r\n2\tb{end}", NUMBER, SYMBOL) == [(1, "a"), (2, "b")]


def test_a_carriage_return_inside_of_a_symbol_stays(reader):
    assert reader("a\rb\nc\r\r\n", SYMBOL) == [("a\rb",), ("c\r",)]


def test_empty_lines_are_symbols_but_no_numbers(reader):
    assert reader("a\n\n", SYMBOL) == [("a",), ("",)]
    assert reader("", NUMBER) == reader("", SYMBOL, SYMBOL) == []
    with pytest.raises(BadInput, match=r"r\.facts:2:1: '' is not a number"):
        reader("1\n\n2\n", NUMBER)


def test_quotes_are_nothing_special(reader):
    assert reader('"a\t"b"\n', SYMBOL, SYMBOL) == [('"a', '"b"')]


def test_delimiters(reader):
    assert reader("1,2\n", NUMBER, NUMBER, delimiter=",") == [(1, 2)]
    assert reader("1::x:y\n", NUMBER, SYMBOL, delimiter="::") == [(1, "x:y")]
    assert reader("1 2\n", NUMBER, NUMBER, delimiter=" ") == [(1, 2)]


def test_a_comma_in_brackets_is_no_delimiter(reader):
    assert reader("[1,[2,nil]],f(x)[a,b]\n", LIST, SYMBOL, delimiter=",") == [((1, (2, None)), "f(x)[a,b]")]
    with pytest.raises(BadInput, match=r"r\.facts:1:1: Unbalanced record parenthesis"):
        reader("[1,2\n", SYMBOL, SYMBOL, delimiter=",")


def test_headers(reader):
    assert reader("a\tb\n1\t2\n", NUMBER, NUMBER, headers="true") == [(1, 2)]
    with pytest.raises(BadInput, match=r"r\.facts:3:3"):
        reader("a\tb\n1\t2\n1\tx\n", NUMBER, NUMBER, headers="true")


def test_chosen_columns(reader):
    text = "x\t1\ty\t2\nz\t3\tw\t4\n"
    assert reader(text, NUMBER, SYMBOL, columns="3:0") == [(2, "x"), (4, "z")]
    assert reader("x\t1\nz\t3\tw\n", NUMBER, columns="1") == [(1,), (3,)]
    for columns in ("1", "0:x", "0:0"):
        with pytest.raises(BadInput, match="Invalid column set"):
            reader(text, NUMBER, SYMBOL, columns=columns)


def test_rfc4180(reader):
    text = '"a,""b""",1\nc,2\n"",3\n'
    assert reader(text, SYMBOL, NUMBER, rfc4180="true") == [('a,"b"', 1), ("c", 2), ("", 3)]
    assert reader('"[1, nil]";x\n', LIST, SYMBOL, rfc4180="true", delimiter=";") == [((1, None), "x")]
    with pytest.raises(BadInput, match="Unbalanced field quote"):
        reader('"a,1\n', SYMBOL, NUMBER, rfc4180="true")
    with pytest.raises(BadInput, match="delimiter"):
        reader("a\n", SYMBOL, rfc4180="true", delimiter='"')


def test_records(reader):
    text = '[1, [2, nil]]\t[a b, 2.5]\n nil\tnil\n[ -1 ,nil ]\t["x, \\"y\\"]", -inf]\n'
    assert reader(text, LIST, NAMED) == [((1, (2, None)), ("a b", 2.5)), (None, None), ((-1, None), ('x, "y"]', -math.inf))]
    assert reader("[nil, [a, 1], [nil, nil, nil]]\n", TREE) == [((None, ("a", 1.0), (None, None, None)),)]


def test_equal_records_are_one(tmp_path, values):
    (tmp_path / "r.facts").write_text("[1, [2, nil]]\n[2, nil]\n[1,[2,nil]]\n")
    ids = read(Directive("input", "r"), relation(LIST), TYPES, str(tmp_path), values)[0]
    assert ids[0] == ids[2] != ids[1]
    assert values.fields(ids[:1], 2)[1, 0] == ids[1]


def test_a_list_of_many_cells(values, tmp_path):
    """Deeper than Python's stack, in each direction."""
    many = 5000
    text = "".join(f"[{n}, " for n in range(many)) + "nil" + "]" * many
    rel = relation(LIST)
    (tmp_path / "r.facts").write_text(text + "\n")
    columns = read(Directive("input", "r"), rel, TYPES, str(tmp_path), values)
    assert len(Unpacked(columns[0], LIST, TYPES | {"number": NUMBER}, values).fields) == many
    path = write(Directive("output", "r"), rel, TYPES, columns, str(tmp_path), values)
    assert open(path).read() == text + "\n"
    nested = None
    for n in reversed(range(many)):
        nested = (n, nested)
    assert as_columns([(nested,)], rel, TYPES, values).tolist() == columns.tolist()


def test_nullary(reader, values, tmp_path):
    for text, count in (("()\n", 1), ("", 0), ("\n\n", 1)):
        (tmp_path / "r.facts").write_text(text)
        assert read(Directive("input", "r"), relation(), TYPES, str(tmp_path), values).shape == (0, count)


def test_packed_whatever_its_name(reader):
    assert reader(gzip.compress(b"1\t2\n"), NUMBER, NUMBER) == [(1, 2)]
    assert reader(gzip.compress(b"3\n"), NUMBER, filename="x.gz") == [(3,)]
    with pytest.raises(BadInput, match="gzip"):
        reader(gzip.compress(b"3\n" * 9999)[:-9], NUMBER)


def test_names_of_files(reader, tmp_path, values):
    assert reader("1\n", NUMBER, name="comp.rel") == [(1,)]
    assert reader("2\n", NUMBER, filename="other.txt") == [(2,)]
    (tmp_path / "abs").write_text("3\n")
    directive = Directive("input", "r", {"filename": str(tmp_path / "abs")})
    assert read(directive, relation(NUMBER), TYPES, "/nowhere", values).tolist() == [[3]]


def test_standard_input(monkeypatch, values):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1,2\n")))
    directive = Directive("input", "r", {"IO": "stdin", "delimiter": ","})
    assert read(directive, relation(NUMBER, NUMBER), TYPES, ".", values).tolist() == [[1], [2]]


FAULTS = {
    "number": ("1\t2\n3\tx4\n", (NUMBER, NUMBER), r"r\.facts:2:3: 'x4' is not a number \(attribute b: number of r\)"),
    "underscore": ("1_0\n", (NUMBER,), "'1_0' is not a number"),
    "fraction": ("1.0\n", (NUMBER,), "'1.0' is not a number"),
    "range": ("9223372036854775808\n", (NUMBER,), "out of range of number"),
    "unsigned": ("-1\n", (UNSIGNED,), "-1 is out of range of unsigned"),
    "float": ("1\t1.5.2\n", (NUMBER, FLOAT), "r.facts:1:3: '1.5.2' is not a float"),
    "few": ("1\t2\n3\n", (NUMBER, NUMBER), r"r\.facts:2: Values missing: 1 found, r\(a, b\) has 2"),
    "many": ("1\t2\t3\n", (NUMBER, NUMBER), r"r\.facts:1: Too many values: 3 found"),
    "record": ("[1, 2]\n", (LIST,), r"r\.facts:1:1: '\[1, 2\]': expected '\['"),
    "record's end": ("[1, nil] x\n", (LIST,), "expected the end"),
    "record's value": ("x\t[y, nil]\n", (SYMBOL, LIST), "1:3: 'y' is not a number"),
    "unclosed": ("[1, nil\n", (LIST,), "expected ']'"),
    "encoding": (b"ok\n\xff\n", (SYMBOL,), r"r\.facts:2:1: byte 0xff is not UTF-8"),
}


@pytest.mark.parametrize("text, kinds, expected", FAULTS.values(), ids=FAULTS)
def test_faults_have_a_place(reader, text, kinds, expected):
    with pytest.raises(BadInput, match=expected) as error:
        reader(text, *kinds)
    assert error.value.hint and error.value.line


def test_a_fault_far_down(reader):
    text = "".join(f"{n}\t{n}\n" for n in range(300_000)) + "7\tseven\n"
    with pytest.raises(BadInput, match=r"r\.facts:300001:3"):
        reader(text, NUMBER, NUMBER)


def test_odd_numbers_far_down_are_read(reader):
    text = "".join(f"{n}\n" for n in range(300_000)) + "+1\n"
    assert reader(text, NUMBER)[-2:] == [(299_999,), (1,)]


def test_missing_files(tmp_path, values):
    directive, rel = Directive("input", "r"), relation(NUMBER)
    with pytest.raises(BadInput, match="Cannot open fact file r.facts: no such file"):
        read(directive, rel, TYPES, str(tmp_path), values)
    with pytest.raises(BadInput, match="there is no folder"):
        read(directive, rel, TYPES, str(tmp_path / "none"), values)
    said = []
    options = Options(missing_ok=True, warn=said.append)
    assert read(directive, rel, TYPES, str(tmp_path), values, options).shape == (1, 0)
    assert "r.facts" in said[0]


def test_unknown_formats(tmp_path, values):
    with pytest.raises(BadInput, match='no IO="csv"'):
        read(Directive("input", "r", {"IO": "csv"}), relation(NUMBER), TYPES, str(tmp_path), values)
    with pytest.raises(BadInput, match='no IO="stdin"'):
        write(Directive("output", "r", {"IO": "stdin"}), relation(NUMBER), TYPES, np.empty((1, 0)), str(tmp_path), values)


# -- writing


def test_written_rows_are_sorted(writer):
    assert writer([(10, "b"), (9, "z"), (-1, "c"), (9, "a")], NUMBER, SYMBOL) == b"-1\tc\n9\ta\n9\tz\n10\tb\n"
    assert writer([("é", 2), ("b", 1), ("b", 0)], SYMBOL, NUMBER) == "b\t0\nb\t1\né\t2\n".encode()
    assert writer([(2**64 - 1,), (2**63,), (3,)], UNSIGNED) == b"3\n9223372036854775808\n18446744073709551615\n"
    far = [(-(2**63), 2**63 - 1), (2**63 - 1, 0), (-(2**63), -(2**63))]
    assert writer(far, NUMBER, NUMBER) == b"".join(b"%d\t%d\n" % row for row in sorted(far))


def test_written_floats_are_cpp_s(writer):
    floats = [0.1, 2.0, 1e20, 1e16, 123456789.0, -0.5, math.inf, -math.inf, 1e-5]
    assert writer([(x,) for x in floats], FLOAT).decode().split() == [
        "-inf", "-0.5", "1.0000000000000001e-05", "0.10000000000000001", "2", "123456789", "10000000000000000", "1e+20", "inf",
    ]  # fmt: skip


def test_written_records(writer):
    assert writer([((1, (2, None)), ("a b", 2.5)), (None, None)], LIST, NAMED) == b"[1, [2, nil]]\t[a b, 2.5]\nnil\tnil\n"


def test_written_parameters(writer):
    assert writer([(1, 2)], NUMBER, NUMBER, delimiter=", ", headers="true") == b"a, b\n1, 2\n"
    assert gzip.decompress(writer([(1, 2)], NUMBER, NUMBER, compress="true")) == b"1\t2\n"
    assert writer([('say "x"', 1, (2, None), ('"', 1.0))], SYMBOL, NUMBER, LIST, NAMED, rfc4180="true") == (
        b'"say \\""x\\""",1,"[2, nil]","[""\\"""", 1]"\n'
    )
    assert writer([], NUMBER) == b""


def test_default_names(tmp_path, writer):
    writer([(1,)], NUMBER, name="comp.r")
    writer([(1,)], NUMBER, compress="true")
    writer([(1,)], NUMBER, IO="jsonfile")
    assert sorted(os.listdir(tmp_path)) == ["comp.r.csv", "r.csv.gz", "r.json"]


def test_symbols_are_written_as_they_are(writer):
    assert writer([('a\t"b"\nc',)], SYMBOL) == b'a\t"b"\nc\n'


def test_nullary_is_written(tmp_path, values):
    for count, text in ((1, b"()\n"), (0, b"")):
        path = write(Directive("output", "r"), relation(), TYPES, np.empty((0, count)), str(tmp_path), values)
        assert open(path, "rb").read() == text


def test_on_standard_output(capsys, values):
    rel, out = relation(NUMBER, SYMBOL), Directive("output", "r", {"IO": "stdout"})
    columns = as_columns([(2, "b"), (1, "a")], rel, TYPES, values)
    for directive, folder in ((out, "."), (Directive("output", "r"), "-"), (Directive("printsize", "r"), "-")):
        assert write(directive, rel, TYPES, columns, folder, values) is None
    table = "1\ta\n2\tb\n===============\n"
    assert capsys.readouterr().out == (
        f"---------------\nr\n===============\n{table}---------------\nr\na\tb\n===============\n{table}r\t2\n"
    )


def test_nothing_is_left_of_what_failed(tmp_path, values, monkeypatch):
    (tmp_path / "r.csv").write_text("old\n")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("semi_naive.facts.writing._joined", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(Directive("output", "r"), relation(NUMBER), TYPES, np.ones((1, 3), np.int64), str(tmp_path), values)
    assert os.listdir(tmp_path) == ["r.csv"] and (tmp_path / "r.csv").read_text() == "old\n"


def test_several_files_appear_together(tmp_path, values):
    (tmp_path / "r.csv").write_text("old\n")
    (tmp_path / "s.csv").mkdir()
    one = np.ones((1, 1), np.int64)

    def write_all(*names):
        with together():
            for name in names:
                write(Directive("output", name), relation(NUMBER, name=name), TYPES, one, str(tmp_path), values)
                assert (tmp_path / "r.csv").read_text() == "old\n"

    with pytest.raises(ZeroDivisionError), together():
        write(Directive("output", "r"), relation(NUMBER), TYPES, one, str(tmp_path), values)
        raise ZeroDivisionError
    with pytest.raises(BadInput, match="cannot be written"):
        write_all("r", "s")
    assert sorted(os.listdir(tmp_path)) == ["r.csv", "s.csv"] and (tmp_path / "r.csv").read_text() == "old\n"
    write_all("r", "t")
    assert sorted(os.listdir(tmp_path)) == ["r.csv", "s.csv", "t.csv"]
    assert (tmp_path / "r.csv").read_text() == (tmp_path / "t.csv").read_text() == "1\n"


def test_no_folder_to_write_to(tmp_path, values):
    for io_name in ("file", "jsonfile", "sqlite", "parquet"):
        with pytest.raises(BadInput, match="there is no folder"):
            directive = Directive("output", "r", {"IO": io_name})
            write(directive, relation(NUMBER), TYPES, np.ones((1, 1), np.int64), str(tmp_path / "none"), values)


def test_many_rows_come_in_pieces(writer):
    columns = [(n % 1000, n) for n in range(600_000)]
    assert writer(columns, NUMBER, NUMBER) == "".join(f"{a}\t{b}\n" for a, b in sorted(columns)).encode()


# -- JSON, SQLite, parquet


def test_json_of_lists(writer, reader):
    data = [(1, 'a"\n', 0.5, (1, None)), (-2, "ü", 3.0, None)]
    text = writer(data, NUMBER, SYMBOL, FLOAT, LIST, IO="jsonfile")
    assert text == '[[-2, "ü", 3, null],\n[1, "a\\"\\n", 0.5, [1, null]]]\n'.encode()
    assert sorted(reader(text, NUMBER, SYMBOL, FLOAT, LIST, file="r.json", IO="jsonfile")) == sorted(data)


def test_json_of_objects(writer, reader):
    text = writer([(1, ("x", 0.1))], NUMBER, NAMED, IO="jsonfile", format="object")
    assert text == b'[{"a": 1, "b": {"name": "x", "weight": 0.1}}]\n'
    assert reader(text, NUMBER, NAMED, file="r.json", IO="jsonfile") == [(1, ("x", 0.1))]
    assert reader('[{"b": null, "a": 2}, [3, ["y", 1]]]', NUMBER, NAMED, file="r.json", IO="jsonfile") == [
        (2, None), (3, ("y", 1.0)),
    ]  # fmt: skip


def test_json_loses_nothing(writer):
    floats = [1 / 3, 1e300, 123456789.123]
    text = writer([(x, 2**64 - 1) for x in floats], FLOAT, UNSIGNED, IO="jsonfile")
    assert json.loads(text) == [[x, 2**64 - 1] for x in sorted(floats)]


def test_json_of_nothing(writer, values, capsys):
    assert writer([], NUMBER, IO="jsonfile") == b"[]\n"
    write(Directive("output", "r", {"IO": "json"}), relation(), TYPES, np.empty((0, 1)), ".", values)
    assert capsys.readouterr().out == "[null\n]\n"


JSON_FAULTS = {
    "syntax": ("[[1,\n 2", r"r\.json:2:3: cannot be read as JSON"),
    "no array": ("{}", "not an array"),
    "width": ("[[1, 2], [3]]", r"element 1 is \[3\]"),
    "names": ('[{"a": 1, "c": 2}]', "attributes a, b"),
    "kind": ('[[1, 2], [1, "x"]]', "element 1, attribute b: 'x'"),
    "bool": ("[[true, 2]]", r"True \(bool\) is not a number"),
    "null": ("[[null, 2]]", "is not a number"),
    "range": ("[[9223372036854775808, 2]]", "out of range"),
}


@pytest.mark.parametrize("text, expected", JSON_FAULTS.values(), ids=JSON_FAULTS)
def test_json_faults(reader, text, expected):
    with pytest.raises(BadInput, match=expected):
        reader(text, NUMBER, NUMBER, file="r.json", IO="jsonfile")


def test_sqlite_layout(tmp_path, writer):
    writer([(1, "x"), (-2, "y"), (3, "x")], NUMBER, SYMBOL, IO="sqlite", dbname="out.db")
    writer([("y",)], SYMBOL, name="other", IO="sqlite", dbname="out.db")
    database = sqlite3.connect(tmp_path / "out.db")
    symbols = dict(database.execute("SELECT symbol, id FROM __SymbolTable"))
    assert set(symbols) == {"x", "y"}
    assert set(database.execute("SELECT * FROM _r")) == {(1, symbols["x"]), (-2, symbols["y"]), (3, symbols["x"])}
    assert set(database.execute("SELECT a, b FROM r")) == {(1, "x"), (-2, "y"), (3, "x")}
    assert database.execute("SELECT * FROM other").fetchall() == [("y",)]


def test_sqlite_again_replaces(tmp_path, writer, values):
    writer([(1, "x")], NUMBER, SYMBOL, IO="sqlite")
    writer([(2, "z")], NUMBER, SYMBOL, IO="sqlite")
    assert sqlite3.connect(tmp_path / "r.sqlite").execute("SELECT * FROM r").fetchall() == [(2, "z")]


def test_sqlite_back(writer, tmp_path, values):
    data = [(1, 2**64 - 1, 0.5, "x", (1, None), ('a, "b"]', math.inf)), (-1, 0, 2.0, "y", None, None)]
    kinds = (NUMBER, UNSIGNED, FLOAT, SYMBOL, LIST, NAMED)
    writer(data, *kinds, IO="sqlite")
    rel = relation(*kinds)
    columns = read(Directive("input", "r", {"IO": "sqlite"}), rel, TYPES, str(tmp_path), values)
    assert sorted(rows(columns, rel, values)) == sorted(data)


def test_sqlite_of_others(tmp_path, values):
    database = sqlite3.connect(tmp_path / "d.db")
    database.executescript("CREATE TABLE r (x TEXT, y TEXT); INSERT INTO r VALUES ('7', NULL), (8, ''), (9, 'a');")
    directive, rel = Directive("input", "r", {"IO": "sqlite", "filename": "d.db"}), relation(NUMBER, SYMBOL)
    columns = read(directive, rel, TYPES, str(tmp_path), values)
    assert rows(columns, rel, values) == [(7, "n/a"), (8, "n/a"), (9, "a")]
    database.executescript("UPDATE r SET y = '1' WHERE x < '9'")
    with pytest.raises(BadInput, match="row 2, column b: 'a' is not a number"):
        read(directive, relation(NUMBER, NUMBER), TYPES, str(tmp_path), values)
    with pytest.raises(BadInput, match="Required table or view does not exist"):
        read(Directive("input", "s", {"IO": "sqlite", "filename": "d.db"}), relation(name="s"), TYPES, str(tmp_path), values)
    (tmp_path / "no.db").write_text("this is no database, and long enough to be sure about it" * 20)
    with pytest.raises(BadInput, match="SQLite"):
        read(Directive("input", "r", {"IO": "sqlite", "filename": "no.db"}), rel, TYPES, str(tmp_path), values)


def test_parquet(writer, tmp_path, values):
    data = [(1, 2**64 - 1, 0.5, "x", (1, None), ("a", 1.0)), (-1, 0, 2.0, "y", None, None)]
    kinds = (NUMBER, UNSIGNED, FLOAT, SYMBOL, LIST, NAMED)
    writer(data, *kinds, IO="parquet")
    table = parquet.read_table(tmp_path / "r.parquet")
    assert table.column("a").to_pylist() == [-1, 1] and table.column("f").to_pylist() == [None, {"name": "a", "weight": 1.0}]
    rel = relation(*kinds)
    columns = read(Directive("input", "r", {"IO": "parquet"}), rel, TYPES, str(tmp_path), values)
    assert sorted(rows(columns, rel, values)) == sorted(data)
    with pytest.raises(BadInput, match="6 attributes|2 attributes"):
        read(Directive("input", "r", {"IO": "parquet"}), relation(NUMBER, NUMBER), TYPES, str(tmp_path), values)


def test_arrow_types(values):
    rel = relation(NUMBER, UNSIGNED, FLOAT, SYMBOL, LIST, NAMED)
    table = arrow_table(rel, TYPES, as_columns([(1, 2, 3.0, "x", (4, None), None)], rel, TYPES, values), values)
    struct_type = pa.struct([("name", pa.string()), ("weight", pa.float64())])
    assert table.schema.types == [pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.string(), struct_type]
    assert table.to_pylist() == [{"a": 1, "b": 2, "c": 3.0, "d": "x", "e": "[4, nil]", "f": None}]
    assert arrow_table(relation(), TYPES, np.empty((0, 1), np.int64), values).num_rows == 1


# -- Python's own


def test_python_data(values, tmp_path):
    rel = relation(NUMBER, SYMBOL)
    (tmp_path / "x.csv").write_text('1,"a"\n2,b\n')
    (tmp_path / "x.tsv.gz").write_bytes(gzip.compress(b"1\ta\n2\tb\n"))
    expected = [(1, "a"), (2, "b")]
    frame = pd.DataFrame({"b": ["a", "b"], "a": [1, 2]}, index=[7, 8])
    given = [
        expected, iter(expected), [[1, "a"], (2, "b")], frame, pa.table({"x": pa.array([1, 2], pa.int8()), "y": ["a", "b"]}),
        pa.table({"a": [1, 2], "b": pa.array(["a", "b"]).dictionary_encode()}).to_batches()[0],
        np.array(expected, object), str(tmp_path / "x.csv"), tmp_path / "x.tsv.gz",
    ]  # fmt: skip
    for data in given:
        assert rows(as_columns(data, rel, TYPES, values), rel, values) == expected
    assert as_columns(np.array([[1, 2], [3, 4]], np.int32), relation(NUMBER, NUMBER), TYPES, values).tolist() == [
        [1, 3],
        [2, 4],
    ]
    assert as_columns([5, 6], relation(NUMBER), TYPES, values).tolist() == [[5, 6]]
    assert as_columns([()], relation(), TYPES, values).shape == (0, 1)
    assert as_columns([np.int64(5)], relation(FLOAT), TYPES, values).view(np.float64).tolist() == [[5.0]]


def test_python_records(values):
    rel = relation(TREE)
    data = [((None, ("a", 1.0), (None, None, None)),), (None,)]
    assert rows(as_columns(data, rel, TYPES, values), rel, values) == data
    frame = pd.DataFrame({"a": [{"name": "x", "weight": 2.0}, None]})
    assert rows(as_columns(frame, relation(NAMED), TYPES, values), relation(NAMED), values) == [(("x", 2.0),), (None,)]


PYTHON_FAULTS = {
    "kind": ([(1, 2), (1, "x")], (NUMBER, NUMBER), r"r\[1\]\.b: 'x' \(str\) is not a number"),
    "bool": ([(True,)], (NUMBER,), r"r\[0\]\.a: True \(bool\)"),
    "none": ([("a",), (None,)], (SYMBOL,), r"r\[1\]\.a: None"),
    "float": ([(1.5,)], (NUMBER,), r"1.5 \(float\) is not a number"),
    "range": ([(2**63,)], (NUMBER,), "out of range"),
    "negative": ([(-1,)], (UNSIGNED,), "out of range of unsigned"),
    "width": ([(1, 2), (3,)], (NUMBER, NUMBER), r"r\[1\]: \(3,\) is no fact of r\(a: number, b: number\)"),
    "string": (["ab"], (SYMBOL, SYMBOL), "is no fact"),
    "record": ([((1, 2),)], (LIST,), r"r\[0\]\.a: 2 \(int\) is not a record of type List"),
    "record's width": ([((1, None, 3),)], (LIST,), "has 2 fields"),
    "record's field": ([(("x", None),)], (LIST,), "'x'"),
    "shape": (np.zeros((2, 3)), (NUMBER, NUMBER), "shape"),
    "pandas": (pd.DataFrame({"a": [1.5]}), (NUMBER,), "column r.a has type double"),
    "null": (pd.DataFrame({"a": [1, None]}), (FLOAT,), "row 1: the value is null"),
    "bools": (pa.table({"a": [True]}), (NUMBER,), "has type bool"),
    "arrow": (pa.table({"a": pa.array([-1])}), (UNSIGNED,), r"column r\.a"),
    "wide": (pa.table({"a": [1], "b": [2]}), (NUMBER,), "1 attributes"),
    "mapping": ({"a": 1}, (NUMBER,), "a dict holds no facts of r"),
    "nothing": (7, (NUMBER,), "a int holds no facts"),
    "extension": ("facts.xlsx", (NUMBER,), "'.xlsx'"),
}


@pytest.mark.parametrize("data, kinds, expected", PYTHON_FAULTS.values(), ids=PYTHON_FAULTS)
def test_python_faults(values, data, kinds, expected):
    with pytest.raises(BadInput, match=expected):
        as_columns(data, relation(*kinds), TYPES, values)


# -- there and back

NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\t\r"))
LISTS = st.recursive(st.none(), lambda tail: st.tuples(NUMBERS, tail), max_leaves=4)
ROWS = st.lists(st.tuples(NUMBERS, st.integers(0, 2**64 - 1), st.floats(allow_nan=False), TEXTS, LISTS), max_size=6)


@pytest.mark.parametrize("parameters", [{}, {"IO": "jsonfile"}, {"IO": "parquet"}, {"IO": "sqlite"}, {"delimiter": "\t\t"}])
@given(data=ROWS)
def test_there_and_back(tmp_path_factory, parameters, data):
    if parameters.get("IO") == "sqlite":  # SQLite's own limits: text ends at a null, and Soufflé's n/a
        data = [row for row in data if row[3] and "\0" not in row[3]]
    folder, values = str(tmp_path_factory.mktemp("back")), Values()
    rel = relation(NUMBER, UNSIGNED, FLOAT, SYMBOL, LIST)
    columns = as_columns(data, rel, TYPES, values)
    keep = np.unique(columns.T, axis=0).T
    path = write(Directive("output", "r", parameters), rel, TYPES, keep, folder, values)
    given = {**parameters, "filename": path}
    again = read(Directive("input", "r", given), rel, TYPES, folder, values)
    assert sorted(rows(again, rel, values), key=repr) == sorted(rows(keep, rel, values), key=repr)


def test_spark_data(spark, values):
    rel = relation(NUMBER, SYMBOL, NAMED)
    frame = spark.createDataFrame(
        [(1, "x", ("a", 1.0)), (2, "y", None)], "a int, b string, c struct<name: string, weight: double>"
    )
    assert sorted(rows(as_columns(frame, rel, TYPES, values), rel, values)) == [(1, "x", ("a", 1.0)), (2, "y", None)]
    with pytest.raises(BadInput, match="r has 1 attributes"):
        as_columns(frame, relation(NUMBER), TYPES, values)
    with pytest.raises(BadInput, match=r"column r\.a, row \d: the value is null"):
        as_columns(spark.createDataFrame([(1,), (None,)], "a int"), relation(NUMBER), TYPES, values)
