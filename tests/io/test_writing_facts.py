"""Results in text, byte for byte; files that appear whole, together or not at all."""

import contextlib
import gzip
import io
import math
import os

import numpy as np
import pyarrow as pa
import pytest
from fact_files import FLOAT, LIST, NAMED, NUMBER, SYMBOL, TYPES, UNSIGNED, relation

from semi_naive import Program
from semi_naive.io import as_columns, atomic_files, read, write
from semi_naive.io.errors import BadInput
from semi_naive.io.results.order import MIN_ROWS_FOR_ARROW
from semi_naive.io.results.outputs import write_batches
from semi_naive.ra.ir import FileDirective


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
        b'"say ""x""",1,"[2, nil]","[""\\"""", 1]"\n'
    )
    assert writer([], NUMBER) == b""


def test_default_names(tmp_path, writer):
    writer([(1,)], NUMBER, name="comp.r")
    writer([(1,)], NUMBER, compress="true")
    writer([(1,)], NUMBER, IO="jsonfile")
    assert sorted(os.listdir(tmp_path)) == ["comp.r.csv", "r.csv.gz", "r.json"]


def test_symbols_are_written_as_they_are_or_not_at_all(writer):
    assert writer([('"b" \\c',)], SYMBOL) == b'"b" \\c\n'
    with pytest.raises(BadInput, match="would not be read back: a has a line break"):
        writer([('a\t"b"\nc',)], SYMBOL)


def test_nullary_is_written(tmp_path, values):
    for count, text in ((1, b"()\n"), (0, b"")):
        path = write(FileDirective("output", "r"), relation(), TYPES, np.empty((0, count)), str(tmp_path), values)
        assert open(path, "rb").read() == text


def test_on_standard_output(capsys, values):
    rel, out = relation(NUMBER, SYMBOL), FileDirective("output", "r", {"IO": "stdout"})
    columns = as_columns([(2, "b"), (1, "a")], rel, TYPES, values)
    for directive, folder in ((out, "."), (FileDirective("output", "r"), "-"), (FileDirective("printsize", "r"), "-")):
        assert write(directive, rel, TYPES, columns, folder, values) is None
    table = "1\ta\n2\tb\n===============\n"
    assert capsys.readouterr().out == (
        f"---------------\nr\n===============\n{table}---------------\nr\na\tb\n===============\n{table}r\t2\n"
    )


@pytest.mark.parametrize("how", [{}, {"rfc4180": "true"}, {"IO": "jsonfile"}, {"IO": "sqlite"}])
def test_many_symbols_are_in_order_and_as_few_are(tmp_path, values, how):
    """Above so many rows Arrow sorts and prints them."""
    rel = relation(SYMBOL, NUMBER, SYMBOL)
    names = [f"{'é' * (i % 3)}{i * 7919 % 1009}\\{chr(0x1F600 + i % 50)}" for i in range(MIN_ROWS_FOR_ARROW + 1)]
    columns = as_columns([(name, i % 7, names[-i]) for i, name in enumerate(names)], rel, TYPES, values)
    how = how | {"filename": str(tmp_path / "r")}
    assert write(FileDirective("output", "r", how), rel, TYPES, columns, str(tmp_path), values) == how["filename"]
    found = read(FileDirective("input", "r", how), rel, TYPES, str(tmp_path), values)
    expected = sorted((name, i % 7, names[-i]) for i, name in enumerate(names))
    rows = [*zip(values.strings(found[0]), found[1].tolist(), values.strings(found[2]), strict=True)]
    assert rows == expected if how.get("IO") != "sqlite" else sorted(rows) == expected


def test_nothing_is_left_of_what_failed(tmp_path, values, monkeypatch):
    (tmp_path / "r.csv").write_text("old\n")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("semi_naive.io.results.writing._table", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(FileDirective("output", "r"), relation(NUMBER), TYPES, np.ones((1, 3), np.int64), str(tmp_path), values)
    assert os.listdir(tmp_path) == ["r.csv"] and (tmp_path / "r.csv").read_text() == "old\n"


def test_several_files_appear_together(tmp_path, values):
    (tmp_path / "r.csv").write_text("old\n")
    (tmp_path / "s.csv").mkdir()
    one = np.ones((1, 1), np.int64)

    def write_all(*names):
        with atomic_files():
            for name in names:
                write(FileDirective("output", name), relation(NUMBER, name=name), TYPES, one, str(tmp_path), values)
                assert (tmp_path / "r.csv").read_text() == "old\n"

    with pytest.raises(ZeroDivisionError), atomic_files():
        write(FileDirective("output", "r"), relation(NUMBER), TYPES, one, str(tmp_path), values)
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
            directive = FileDirective("output", "r", {"IO": io_name})
            write(directive, relation(NUMBER), TYPES, np.ones((1, 1), np.int64), str(tmp_path / "none"), values)


def test_many_rows_come_in_pieces(writer):
    columns = [(n % 1000, n) for n in range(600_000)]
    assert writer(columns, NUMBER, NUMBER) == "".join(f"{a}\t{b}\n" for a, b in sorted(columns)).encode()


def test_batches_are_written_as_they_are(tmp_path):
    """Slices, and batches without rows, too."""
    whole = pa.record_batch([pa.array(["a", "é", ""]), pa.array([1, -2, 3]), pa.array([0.5, 1e20, 2.0])], ["x", "y", "z"])
    for begin, end in ((0, 3), (1, 2), (1, 1)):
        write_batches(tmp_path / "r.tsv", whole.schema, [whole.slice(begin, end - begin)])
        rows = zip(*whole.slice(begin, end - begin).to_pydict().values(), strict=True)
        read_back = [line.split("\t") for line in (tmp_path / "r.tsv").read_text().splitlines()]
        assert [(x, int(y), float(z)) for x, y, z in read_back] == list(rows)
    largest = pa.record_batch([pa.array(["a", "b\tc"]), pa.array([0, 2**64 - 1], pa.uint64())], ["x", "y"])
    with pytest.raises(BadInput, match=r'r\("b\\tc", 18446744073709551615\) would not be read back: x has a tab'):
        write_batches(tmp_path / "r.tsv", largest.schema, [largest], "r")


def test_many_rows_are_printed_to_a_stream_of_text(tmp_path):
    """As of a notebook, which has no buffer of bytes."""
    text, numbers = io.StringIO(), range(MIN_ROWS_FOR_ARROW + 1)
    with Program(".decl e(x: number)\n.input e\n.output e").run({"e": [(x,) for x in numbers]}) as result:
        with contextlib.redirect_stdout(text):
            result.write("-", format="tsv")
    assert text.getvalue() == "".join(f"{x}\n" for x in numbers)
