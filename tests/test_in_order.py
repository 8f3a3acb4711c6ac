"""Large results in order, a piece at a time: rows of any kinds, in blocks of any order, beside Python's own sorting."""

import json
import math
import struct
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from semi_naive.ra.chunks import chunked
from semi_naive.ra.packing import HIGHEST, LOWEST, Packing
from semi_naive.ra.rules.block import Block
from semi_naive.ra.rules.ir import Directive, Kind, Relation, Type
from semi_naive.ra.rules.lattice import LatticeTable
from semi_naive.ra.rules.table import Table
from semi_naive.ra.rules.unpacking import columns_of, grouped, parts_of, resting
from semi_naive.ra.rules.values import Values
from semi_naive.ra.sorted_runs import Chunked, Words, cuts, merged
from semi_naive.ra.text_rows import SIGNED, UNSIGNED, RowFormat, joined

from semi_naive import Program
from semi_naive.io import write
from semi_naive.io.in_order import Blocks, Columns, InOrder
from semi_naive.io.record_text import Readable

KINDS = {
    Kind.NUMBER: st.integers(LOWEST, HIGHEST) | st.integers(-3, 3),
    Kind.UNSIGNED: st.integers(0, 2**64 - 1) | st.integers(0, 3),
    Kind.FLOAT: st.floats(allow_nan=False),
    Kind.SYMBOL: st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r\t"), max_size=4),
}
ENDS = [0, 9, 10, 99, 100, 101, 999, 1000, 12345, -1, -9, -10, -100, HIGHEST, LOWEST, LOWEST + 1]


@st.composite
def relations(draw):
    """(kinds, rows) of distinct rows of Python values."""
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3))
    return kinds, draw(st.lists(st.tuples(*(KINDS[kind] for kind in kinds)), unique_by=repr, max_size=40))


def bits(value, kind, values) -> int:
    if kind == Kind.SYMBOL:
        return int(values.intern([value])[0])
    return struct.unpack("<q", struct.pack({Kind.FLOAT: "<d", Kind.UNSIGNED: "<Q", Kind.NUMBER: "<q"}[kind], value))[0]


def relation(kinds) -> Relation:
    return Relation("r", tuple((name, Type(kind.value, kind)) for name, kind in zip("abc", kinds, strict=False)))


def text(value) -> str:
    return f"{value:.17g}" if isinstance(value, float) else str(value)


@settings(max_examples=150)
@given(given=relations(), data=st.data())
def test_any_source_is_written_in_order(tmp_path_factory, given, data):
    kinds, rows = given
    values, rel = Values(), relation(kinds)
    columns = np.array([[bits(row[i], kind, values) for row in rows] for i, kind in enumerate(kinds)], np.int64)
    columns = columns.reshape(len(kinds), len(rows))
    order = tuple(data.draw(st.permutations(range(len(kinds)))))
    pieces = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))), np.int64)
    parts = [columns[:, pieces == number] for number in range(3) if (pieces == number).any()]
    packing = Packing(((LOWEST, HIGHEST),) * len(kinds)) if data.draw(st.booleans()) else None
    blocks = [Block.of([part[i] for i in order], part.shape[1], packing) for part in parts]
    folder = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (
            ("in_order.ROWS", 5),
            ("writing.ROWS", 4),
            ("writing.GROUP", 4),
            ("writing.FEW", 0),
            ("order.FEW", 2),
        ):
            patch.setattr(f"semi_naive.io.{name}", size)
        patch.setattr("semi_naive.ra.rules.unpacking.ROWS", 5)
        for source in (Columns(columns), Blocks(blocks, order)):
            assert source.size == len(rows) and {*map(tuple, source.all().T.tolist())} == {*map(tuple, columns.T.tolist())}
            check(source, rel, values, sorted(rows, key=lambda row: [key(value) for value in row]), str(folder))


def key(value):
    """Floats that are equal are ordered by their sign."""
    return (value, 0 if value else np.copysign(1, value)) if isinstance(value, float) else value


def check(source, rel, values, expected, folder: str) -> None:
    lines = "".join("\t".join(map(text, row)) + "\n" for row in expected)
    path = write(Directive("output", "r"), rel, {}, source, folder, values)
    assert open(path, "rb").read().decode() == lines
    path = write(Directive("output", "r", {"IO": "jsonfile"}), rel, {}, source, folder, values)
    assert json.loads(open(path, "rb").read()) == [list(row) for row in expected]
    path = write(Directive("output", "r", {"IO": "parquet"}), rel, {}, source, folder, values)
    table = pq.read_table(path)
    assert [repr(tuple(row.values())) for row in table.to_pylist()] == [repr(row) for row in expected]
    assert pq.ParquetFile(path).num_row_groups >= len(expected) / 8


def test_numbers_as_text():
    numbers = np.array([ENDS + [end + 1 for end in ENDS[:-3]]])
    expected = "".join(f"<{number}>" for number in numbers[0].tolist())
    assert RowFormat(["<", ">"], [SIGNED]).bytes(numbers).tobytes().decode() == expected
    expected = "".join(f"{number % 2**64};" for number in numbers[0].tolist())
    assert RowFormat(["", ";"], [UNSIGNED]).bytes(numbers).tobytes().decode() == expected
    both = RowFormat(["", "=", "\n"], [joined([b"", b"x", b"yz"]), joined([b"u", b""])])
    assert both.bytes(np.array([[2, 0, 1], [0, 0, 1]])).tobytes() == b"yz=u\n=u\nx=\n"


def test_blocks_of_numbers_lie_where_they_are():
    """What is written of them is merged a piece at a time: the words are those of the table."""
    table = Table(2)
    for some in (np.arange(0, 40, 2), np.arange(1, 41, 2)):
        table.insert([some, some % 7], some.size)
        table.advance()
    blocks, order = resting(table)
    found = InOrder(Blocks(blocks, order), relation([Kind.NUMBER, Kind.UNSIGNED]), {}, Values(), Readable(), 8)
    assert all(np.shares_memory(run.words, block.words) for run, block in zip(found.runs, blocks, strict=True))
    sizes = [found.piece(number).shape[1] for number in range(len(found.cuts) - 1)]
    assert sum(sizes) == 40 and max(sizes) <= 16 and len(sizes) >= 4


def test_cuts_of_several_words_are_those_of_one():
    left, right = np.sort(np.random.default_rng(1).permutation(300)[:200].reshape(2, 100).astype(np.uint64), axis=1)
    wide = [Words(np.array([np.zeros(100), run]).astype(np.uint64)) for run in (left, right)]
    assert cuts([Words(left[None]), Words(right[None])], 16).tolist() == cuts(wide, 16).tolist()


@given(
    st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 400) | st.integers(0, 2**64 - 1))), max_size=4), st.integers(1, 40)
)
def test_pieces_of_words_and_chunks_are_all_of_them_in_order(given, size):
    known, runs = set(), []
    for dense, some in given:
        words = np.array(sorted(some - known), np.uint64)
        known |= some
        runs.append(Chunked(*chunked(words)) if dense else Words(words[None]))
    found = cuts(runs, size)
    pieces = [merged(runs, begins, ends, 1)[0].tolist() for begins, ends in pairwise(found)]
    assert [word for piece in pieces for word in piece] == sorted(known) and all(pieces)


def test_a_table_at_rest_has_all_of_its_tuples(monkeypatch):
    monkeypatch.setattr("semi_naive.ra.rules.unpacking.ROWS", 1)
    table = Table(2, home=(1, 0))
    for some in ([1, 2], [2, 3], [3, 4]):  # full, delta and new
        table.insert([np.array(some), np.array(some) * 10], 2)
        if some[1] < 4:
            table.advance()
    blocks, order = resting(table)
    assert order == (1, 0) and len(blocks) == 3
    assert sorted(row for part in parts_of(blocks, order) for row in part.columns().T.tolist()) == [
        [1, 10], [2, 20], [3, 30], [4, 40],
    ]  # fmt: skip
    monkeypatch.setattr("semi_naive.ra.rules.unpacking.ROWS", 3)
    table.settle()
    parts = parts_of(*resting(table))
    assert [columns_of(group).shape for group in grouped(parts + parts)] == [(2, 3), (2, 1), (2, 3), (2, 1)]
    table.blocks("all", (0, 1))  # an index in the relation's own order
    assert resting(table)[1] == (0, 1) and len(table.full[1, 0]) == len(resting(table)[0])
    least = LatticeTable(2, "<", Kind.NUMBER)
    least.insert([np.array([1, 1]), np.array([7, 5])], 2)
    (block,), _ = resting(least)
    assert [column.tolist() for column in block.columns()] == [[1], [5]]


NUMBERS = """
.decl given(x: {kind}, y: {kind})
.input given
.decl r(x: {kind}, y: {kind})
.output r
r(y, x) :- given(x, y).
"""


@pytest.mark.parametrize("local_tuples", [None, 0])
@pytest.mark.parametrize(
    "kind, rows",
    [
        ("number", [(1, -2), (-3, HIGHEST)]),
        ("unsigned", [(1, 2**64 - 1), (3, 4)]),
        ("float", [(0.5, -1.5), (2.0, math.inf)]),
    ],
)
def test_numbers_as_an_array(here, kind, rows, local_tuples):
    options = {} if local_tuples is None else {"local_tuples": local_tuples, "partitions": 2}
    with Program(NUMBERS.format(kind=kind)).run({"given": rows}, here, **options) as result:
        found = result["r"].to_numpy()
        assert result["r"].on_partitions == (local_tuples == 0)
        assert found.dtype == {"number": np.int64, "unsigned": np.uint64, "float": np.float64}[kind]
        assert {*map(tuple, found.tolist())} == {(y, x) for x, y in rows} == result["r"].to_set()


def test_runs_of_this_host_are_merged_where_they_lie(here, tmp_path, monkeypatch):
    """No task sorts them, and nothing is collected."""
    monkeypatch.setattr("semi_naive.running.files.MANY", 0)
    monkeypatch.setattr("semi_naive.running.files._write_pieces", None)
    monkeypatch.setattr("semi_naive.running.on_partitions.OnPartitions.columns", None)
    for name, size in {"writing.ROWS": 16, "writing.GROUP": 16, "writing.FEW": 0}.items():
        monkeypatch.setattr(f"semi_naive.io.{name}", size)
    rows = [(7 * i % 100, i) for i in range(100)]
    with Program(NUMBERS.format(kind="number")).run({"given": rows}, here, local_tuples=0, partitions=4) as result:
        result["r"].write(tmp_path / "r.tsv")
        result.write(tmp_path)
    expected = "".join(f"{y}\t{x}\n" for x, y in sorted(rows, key=lambda row: row[::-1]))
    assert (tmp_path / "r.tsv").read_text() == expected == (tmp_path / "r.csv").read_text()


@pytest.mark.parametrize("local_tuples", [None, 0])
def test_strings_stay_dictionary_encoded(here, monkeypatch, local_tuples):
    rows = [(f"n{i % 5}", f"m{i}") for i in range(60)]
    options = {} if local_tuples is None else {"local_tuples": local_tuples, "partitions": 2}
    monkeypatch.setattr("semi_naive.ra.rules.unpacking.ROWS", 16)
    with Program(NUMBERS.format(kind="symbol")).run({"given": rows}, here, **options) as result:
        table, batches = result["r"].to_arrow(dictionaries=True), list(result["r"].to_batches(dictionaries=True))
        assert len(batches) > 1 and batches[0].schema == table.schema
        assert all(str(field.type) == "dictionary<values=string, indices=int32, ordered=0>" for field in table.schema)
        assert {tuple(row.values()) for row in table.to_pylist()} == {(y, x) for x, y in rows} == result["r"].to_set()
        assert sorted(table.column("y").chunk(0).dictionary.to_pylist()) == [f"n{i}" for i in range(5)]


def test_whoever_reads_parquet_reads_ours(spark, tmp_path, values=((-5, 2**64 - 1, 0.5, "é"), (HIGHEST, 7, -0.25, "a"))):
    """Whole numbers are written as differences, which readers have to know."""
    text = ".decl r(n: number, u: unsigned, f: float, s: symbol)\n.input r\n.output r\n"
    with Program(text).run({"r": list(values)}) as result:
        result["r"].write(tmp_path / "r.parquet")
    path = str(tmp_path / "r.parquet")
    metadata = pq.ParquetFile(path).metadata.row_group(0)
    assert "DELTA_BINARY_PACKED" in metadata.column(0).encodings and "DELTA_BINARY_PACKED" in metadata.column(1).encodings
    found = {tuple(row) for row in spark.read.parquet(path).collect()}
    assert {(n, int(u), f, s) for n, u, f, s in found} == set(values)
    pd, duckdb = pytest.importorskip("pandas"), pytest.importorskip("duckdb")
    assert set(pd.read_parquet(path).itertuples(index=False, name=None)) == set(values)
    assert set(duckdb.sql(f"FROM read_parquet('{path}')").fetchall()) == set(values)
