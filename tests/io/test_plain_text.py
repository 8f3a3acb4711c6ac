"""Text that is plain is read by a kernel, in pieces on all cores, as the rules read it; what is not plain it refuses."""

import gzip
import io

import numpy as np
import pytest
from fact_files import FLOAT, NUMBER, SYMBOL, UNSIGNED, relation
from hypothesis import example, given
from hypothesis import strategies as st

from semi_naive import Program
from semi_naive.io.errors import BadInput
from semi_naive.io.files import line_pieces
from semi_naive.io.formats.layouts import Format
from semi_naive.io.formats.lines import read_lines
from semi_naive.io.formats.plain_text import read_plain
from semi_naive.io.reading import source_of_directive
from semi_naive.ra.ir import FileDirective
from semi_naive.ra.text.hashing import hash_strings
from semi_naive.ra.text.strings import string_arrays
from semi_naive.ra.values.values import Values

FIELDS = {
    SYMBOL: st.one_of(
        st.sampled_from(["", "a", "b", "12345678", "123456789"]), st.text(st.characters(exclude_characters="\t\r\n"))
    ),
    NUMBER: st.integers(-(10**18) + 1, 10**18 - 1).map(str),
    UNSIGNED: st.integers(0, 10**18 - 1).map(str),
}


def cut(data: bytes, size: int):
    """The lines of a text in pieces of so many."""
    lines = [line + b"\n" for line in data.split(b"\n")[:-1]]
    return (b"".join(lines[at : at + size]) for at in range(0, len(lines), size))


def decoded(columns, types, values) -> list:
    return [
        values.strings(column) if type_ == SYMBOL else column.tolist() for column, type_ in zip(columns, types, strict=True)
    ]


@given(
    st.lists(st.sampled_from([SYMBOL, NUMBER, UNSIGNED]), min_size=1, max_size=4).flatmap(
        lambda types: st.tuples(st.just(types), st.lists(st.tuples(*(FIELDS[type_] for type_ in types))))
    ),
    st.integers(1, 5),
)
@example(([SYMBOL], [("",), ("",)]), 1)
@example(
    ([SYMBOL, NUMBER], [("a12345678", "1"), ("a12345678", "1"), ("b12345678", "1"), ("b1234567", "1"), ("b1234567", "2")]), 9
)
@example(([SYMBOL, SYMBOL], [("ab", "c"), ("ab", "c"), ("c", "ab"), ("abc", ""), ("abc", "")]), 9)
def test_plain_text_is_read_as_by_the_rules(table, size):
    types, rows = table
    data, of = "".join("\t".join(row) + "\n" for row in rows).encode(), relation(*types)
    found, values = read_plain(cut(data, size), Format(), of), Values()
    columns, known = found.columns(values), Values()
    by_rules = decoded(read_lines(data, Format(), of, {}, known, "r"), types, known)
    kept = [at for at in range(len(rows)) if at % size == 0 or rows[at] != rows[at - 1]]  # what repeats the line before is not
    assert decoded(columns, types, values) == [[column[at] for at in kept] for column in by_rules]
    assert columns.shape == (len(types), len(kept))


@given(st.lists(st.sampled_from([b"", b"a", b"bc", b"d" * 9]), max_size=20), st.integers(1, 12), st.booleans())
def test_pieces_are_of_whole_lines(lines, size, ended):
    data, expected, piece = b"\n".join(lines) + b"\n" * ended, [], b""
    for line in data.splitlines(keepends=True):
        piece += line
        if len(piece) >= size:
            expected, piece = [*expected, piece], b""
    assert [*line_pieces(io.BytesIO(data), size)] == [*expected, *[piece] * bool(piece)]


def test_hashes_of_what_is_read_are_those_of_its_strings(tmp_path):
    """Also where symbols are shared with workers, and are looked up elsewhere."""
    data = "".join(f"{name}\t{name * 9}\n" for name in ["", "a", "a", "ü", "12345678", "\0"]).encode()
    ((_, strings),) = read_plain(iter([data]), Format(), relation(SYMBOL, SYMBOL)).pieces
    (texts,) = string_arrays(strings.data, strings.begins, strings.ends)
    assert strings.hashes.tolist() == hash_strings(texts).tolist()
    values = Values()
    values.share(str(tmp_path))
    assert values.strings(values.intern_hashed(strings)) == texts.to_pylist()


@pytest.mark.parametrize("text", ["+5", "0x10", "1.0", " 5", "5 ", "", "-", "1" * 19, "1\t2", "५", "1e3"])
def test_what_is_no_plain_number_is_refused(text):
    assert read_plain(iter([f"1\n{text}\n".encode()]), Format(), relation(NUMBER)) is None
    assert read_plain(iter([b"-5\n"]), Format(), relation(UNSIGNED)) is None
    assert read_plain(iter([b"5\n"]), Format(), relation(FLOAT)) is None


@pytest.mark.parametrize("data", [b"a\n", b"a\tb\tc\n", b"a\tb\n\n", b"\na\tb\n", b"a\tb\n\xff\tb\n", b"a\rb\tc\n", b"a\tb\nc"])
def test_lines_of_another_width_and_other_bytes_are_refused(data):
    assert read_plain(iter([data]), Format(), relation(SYMBOL, SYMBOL)) is None


def test_ends_of_lines_and_the_last_line(values):
    for data in (b"a\tb\r\nc\t\r\n", b"a\tb\nc\t", b"a\tb\nc\t\n"):
        columns = read_plain(iter([data]), Format(), relation(SYMBOL, SYMBOL)).columns(values)
        assert decoded(columns, (SYMBOL, SYMBOL), values) == [["a", "c"], ["b", ""]]


def test_brackets_where_a_comma_separates_are_for_the_rules():
    comma = Format(delimiter=",")
    assert read_plain(iter([b"[a,b\n"]), comma, relation(SYMBOL, SYMBOL)) is None
    assert read_plain(iter([b"a,b\n"]), comma, relation(SYMBOL, SYMBOL))


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_of_many_pieces_and_of_many_strings(tmp_path, monkeypatch, values, packed):
    monkeypatch.setattr("semi_naive.io.sources.PARSED_PIECE_BYTES", 50_000)
    rows = [(f"name {i * i % 9973} {'x' * (i % 40)}", i) for i in range(30_000)]
    data = "".join(f"{name}\t{i}\n" for name, i in rows).encode()
    (tmp_path / "r.facts").write_bytes(gzip.compress(data) if packed else data)
    source = source_of_directive(FileDirective("input", "r", {}), relation(SYMBOL, NUMBER), {}, str(tmp_path))
    columns = source.columns(values)
    assert list(zip(values.strings(columns[0]), columns[1].tolist(), strict=True)) == rows
    first = list(dict.fromkeys(columns[0].tolist()))
    assert first == list(range(len(first))), "ids are in the order of first appearance"


def test_a_wrong_line_far_down_is_named_at_its_place(tmp_path, monkeypatch, values):
    monkeypatch.setattr("semi_naive.io.sources.PARSED_PIECE_BYTES", 1000)
    (tmp_path / "r.facts").write_text("a\t1\n" * 2000 + "b\tx\n" + "c\t2\n" * 2000)
    with pytest.raises(BadInput, match=r"r\.facts:2001:3: 'x' is not a number"):
        source_of_directive(FileDirective("input", "r", {}), relation(SYMBOL, NUMBER), {}, str(tmp_path)).columns(values)


def test_of_several_files_the_first_wrong_one_is_named(tmp_path):
    names = [f"r{i}" for i in range(20)]
    program = Program("\n".join(f".decl {name}(x: number)\n.input {name}" for name in names))
    for name in names[:-1]:
        (tmp_path / f"{name}.facts").write_text("1\n2\n" if name != "r7" else "1\ny\n")
    with pytest.raises(BadInput, match="r7.facts:2:1: 'y' is not a number"):
        program.run(str(tmp_path))
    (tmp_path / "r7.facts").write_text("3\n")
    with pytest.raises(BadInput, match="Cannot open fact file r19.facts"):
        program.run(str(tmp_path))


def test_files_are_read_in_the_order_of_the_program(tmp_path):
    names = [f"r{i}" for i in range(9)]
    rules = "\n".join(f".decl {name}(x: symbol)\n.input {name}\nfound(ord(x), x) :- {name}(x)." for name in names)
    for name in names:
        (tmp_path / f"{name}.facts").write_text("".join(f"{name} {i}\n" for i in range(1000)))
    with Program(f".decl found(i: number, x: symbol)\n.output found\n{rules}").run(str(tmp_path)) as result:
        by_id = [x for _, x in sorted(result["found"].to_list())]
    assert by_id == [f"{name} {i}" for name in names for i in range(1000)]
    assert np.all(np.diff([int(x[1]) for x in by_id]) >= 0)
