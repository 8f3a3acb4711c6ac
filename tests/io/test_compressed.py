"""Files of facts and of edges that are compressed: read as the plain ones, and errors of damaged ones."""

import bz2
import gzip
import lzma

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semi_naive import Program
from semi_naive.__main__ import main
from semi_naive.io.edges import as_edges
from semi_naive.io.errors import BadInput
from semi_naive.io.files import open_binary

TEXT = "".join(f"{x},name {x}\n" for x in range(20_000)).encode()


def zstd(data: bytes) -> bytes:
    with pa.BufferOutputStream() as sink:
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()


COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
READS = ".decl e(x: number, y: symbol)\n.input e\n.decl r(x: number)\n.output r\nr(x) :- e(x, _)."


@pytest.fixture(params=COMPRESS)
def suffix(request):
    return request.param


def test_facts_are_those_of_the_plain_file(tmp_path, suffix):
    path = tmp_path / f"e.csv{suffix}"
    path.write_bytes(COMPRESS[suffix](TEXT))
    with Program(READS).run({"e": str(path)}) as result:
        assert result["e"].to_set() == {(x, f"name {x}") for x in range(20_000)}


@pytest.mark.parametrize(
    "name, text", [("e.json", b"[[1, 2], [2, 3]]"), ("e.jsonl", b"[1, 2]\n[2, 3]\n"), ("e.tsv", b"1\t2\n2\t3\n")]
)
def test_edges_and_lines_of_json(tmp_path, suffix, name, text, capsys):
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes(COMPRESS[suffix](text))
    assert as_edges(str(path)).pairs.tolist() == [[1, 2], [2, 3]]
    main(["tc", str(path), "--quiet"])
    assert capsys.readouterr().out == "3\n"


@pytest.mark.parametrize("name", ["e.csv", "e"])
def test_contents_tell_that_a_file_is_compressed(tmp_path, suffix, name):
    if suffix == ".bz2":
        pytest.skip("text may begin with BZh")
    (tmp_path / name).write_bytes(COMPRESS[suffix](b"1,2\n"))
    with open_binary(str(tmp_path / name)) as stream:
        assert stream.read() == b"1,2\n"


def test_damaged_and_cut_files_are_errors(tmp_path, suffix):
    data = COMPRESS[suffix](TEXT)
    for number, damaged in enumerate((b"no such data, and long enough" * 9, data[: len(data) // 2])):
        path = tmp_path / f"{number}.csv{suffix}"
        path.write_bytes(damaged)
        with pytest.raises(BadInput, match="not readable as|ends too early") as error:
            Program(READS).run({"e": str(path)})
        assert str(path) in str(error.value)


@given(st.lists(st.integers(0, 60_000), max_size=8))
def test_zstd_streams_go_to_any_position(tmp_path_factory, positions):
    path = tmp_path_factory.getbasetemp() / "positions.zst"
    path.write_bytes(zstd(TEXT[:50_000]))
    with open_binary(str(path)) as stream:
        for position in positions:
            stream.seek(position)
            assert stream.read(10) == TEXT[:50_000][position : position + 10]
