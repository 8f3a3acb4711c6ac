"""Facts in text: what is read, and what is refused, where."""

import gzip
import io
import math

import numpy as np
import pytest
from fact_files import FLOAT, LIST, NAMED, NUMBER, SYMBOL, TREE, TYPES, UNSIGNED, relation

from semi_naive.io import Options, as_columns, read, write
from semi_naive.io.errors import BadInput
from semi_naive.io.values.records import Unpacked
from semi_naive.ra.ir import FileDirective


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
    ids = read(FileDirective("input", "r"), relation(LIST), TYPES, str(tmp_path), values)[0]
    assert ids[0] == ids[2] != ids[1]
    assert values.fields(ids[:1], 2)[1, 0] == ids[1]


def test_a_list_of_many_cells(values, tmp_path):
    """Deeper than Python's stack, in each direction."""
    many = 1500
    text = "".join(f"[{n}, " for n in range(many)) + "nil" + "]" * many
    rel = relation(LIST)
    (tmp_path / "r.facts").write_text(text + "\n")
    columns = read(FileDirective("input", "r"), rel, TYPES, str(tmp_path), values)
    assert len(Unpacked(columns[0], LIST, TYPES | {"number": NUMBER}, values).fields) == many
    path = write(FileDirective("output", "r"), rel, TYPES, columns, str(tmp_path), values)
    assert open(path).read() == text + "\n"
    nested = None
    for n in reversed(range(many)):
        nested = (n, nested)
    assert as_columns([(nested,)], rel, TYPES, values).tolist() == columns.tolist()


def test_nullary(reader, values, tmp_path):
    for text, count in (("()\n", 1), ("", 0), ("\n\n", 1)):
        (tmp_path / "r.facts").write_text(text)
        assert read(FileDirective("input", "r"), relation(), TYPES, str(tmp_path), values).shape == (0, count)


def test_packed_whatever_its_name(reader):
    assert reader(gzip.compress(b"1\t2\n"), NUMBER, NUMBER) == [(1, 2)]
    assert reader(gzip.compress(b"3\n"), NUMBER, filename="x.gz") == [(3,)]
    with pytest.raises(BadInput, match="gzip"):
        reader(gzip.compress(b"3\n" * 9999)[:-9], NUMBER)


def test_names_of_files(reader, tmp_path, values):
    assert reader("1\n", NUMBER, name="comp.rel") == [(1,)]
    assert reader("2\n", NUMBER, filename="other.txt") == [(2,)]
    (tmp_path / "abs").write_text("3\n")
    directive = FileDirective("input", "r", {"filename": str(tmp_path / "abs")})
    assert read(directive, relation(NUMBER), TYPES, "/nowhere", values).tolist() == [[3]]


@pytest.mark.parametrize("stream", [io.TextIOWrapper(io.BytesIO(b"1,2\n")), io.StringIO("1,2\n")], ids=["bytes", "text"])
def test_standard_input(stream, monkeypatch, values):
    monkeypatch.setattr("sys.stdin", stream)
    directive = FileDirective("input", "r", {"IO": "stdin", "delimiter": ","})
    assert read(directive, relation(NUMBER, NUMBER), TYPES, ".", values).tolist() == [[1], [2]]


FAULTS = {
    "number": ("1\t2\n3\tx4\n", (NUMBER, NUMBER), r"r\.facts:2:3: 'x4' is not a number \(attribute b: number of r\)"),
    "underscore": ("1_0\n", (NUMBER,), "'1_0' is not a number"),
    "fraction": ("1.0\n", (NUMBER,), "'1.0' is not a number"),
    "range": ("9223372036854775808\n", (NUMBER,), "out of range of number"),
    "unsigned": ("-1\n", (UNSIGNED,), "-1 is out of range of unsigned"),
    "float": ("1\t1.5.2\n", (NUMBER, FLOAT), "r.facts:1:3: '1.5.2' is not a float"),
    "few": ("1\t2\n3\n", (NUMBER, NUMBER), r"r\.facts:2:2: Values missing: 1 found, r\(a, b\) has 2"),
    "many": ("1\t2\t3\n", (NUMBER, NUMBER), r"r\.facts:1:5: Too many values: 3 found"),
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
    directive, rel = FileDirective("input", "r"), relation(NUMBER)
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
        read(FileDirective("input", "r", {"IO": "csv"}), relation(NUMBER), TYPES, str(tmp_path), values)
    with pytest.raises(BadInput, match='no IO="stdin"'):
        write(FileDirective("output", "r", {"IO": "stdin"}), relation(NUMBER), TYPES, np.empty((1, 0)), str(tmp_path), values)
