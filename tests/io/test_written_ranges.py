"""Results that tasks write in sorted pieces: byte for byte what the driver would have written."""

import random

import pyarrow.parquet as pq
import pytest

from semi_naive import Program, RunsLost
from semi_naive.io.results.ranges import ReadChunk

TEXT = """
.type List = [head: number, tail: List]
.decl fact(a: {kind}, b: symbol, c: number)
.input fact
.decl row(a: {kind}, b: symbol, c: number, d: List)
.output row(headers=true)
.output row(IO="parquet", filename="row.parquet")
.output row(compress=true, filename="row.gz")
.output row(rfc4180=true, filename="row.txt")
.output row(IO="jsonfile")
.output row(IO="sqlite")
row(a, b, c, [c, nil]) :- fact(a, b, c).
"""
KINDS = {
    "number": lambda n: n * 7 % 101 - 50,
    "unsigned": lambda n: (n * 7919 << 50) % 2**64,
    "float": lambda n: (n * 7 % 101 - 50) / 7,
    "symbol": lambda n: f"sy {n * 7 % 23}é",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", [100, 1 << 20])
def test_pieces_make_the_driver_s_file(here, tmp_path, monkeypatch, kind, chunk):
    monkeypatch.setattr("semi_naive.io.results.ranges.CHUNK_BYTES", chunk)
    facts = {"fact": [(KINDS[kind](n), random.Random(n).choice('ab"c'), n % 9) for n in range(300)]}
    program, written = Program(TEXT.format(kind=kind)), {}
    for most in (10**9, 0):  # more than that, and tasks write
        monkeypatch.setattr("semi_naive.running.results.files.MIN_TASK_WRITTEN_TUPLES", most)
        folder = tmp_path / str(most)
        folder.mkdir()
        with program.run(facts, spark=here, local_tuples=0, partitions=4) as result:
            assert result["row"].on_partitions
            result.write(folder)
            result["row"].write(folder / "answer.tsv")
            result["row"].write(folder / "answer.csv.gz")
        assert pq.read_table(folder / "row.parquet").num_rows == result["row"].count()
        table = pq.read_table(folder / "row.parquet").to_pylist()
        written[most] = {
            path.name: path.read_bytes() for path in folder.iterdir() if path.suffix not in (".parquet", ".sqlite")
        }
        written[most]["parquet"] = table
    assert written[0].keys() == written[10**9].keys()
    for name, content in written[0].items():
        assert content == written[10**9][name], name


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + bytes([data[-1] ^ 1])])
def test_a_damaged_piece_is_one_clear_error(here, tmp_path, monkeypatch, damage):
    read = ReadChunk.__call__
    monkeypatch.setattr(ReadChunk, "__call__", lambda self, *task: [damage(chunk) for chunk in read(self, *task)])
    monkeypatch.setattr("semi_naive.running.results.files.MIN_TASK_WRITTEN_TUPLES", 0)
    program, facts = Program(TEXT.format(kind="number")), {"fact": [(n, "b", n) for n in range(300)]}
    with program.run(facts, spark=here, local_tuples=0, partitions=2) as result:
        with pytest.raises(RunsLost, match="a run is damaged or cut short: .*, a piece of the result: run the program again"):
            result["row"].write(tmp_path / "answer.tsv")
    assert not list(tmp_path.iterdir())
