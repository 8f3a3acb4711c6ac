"""Every format read back as it was written; every kind of bad input named by file, line and column."""

import gzip
import pickle
from itertools import chain

import networkx
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semi_naive import Program
from semi_naive.graphs import BadInput, as_edges
from semi_naive.io.edges import edge_source
from semi_naive.io.formats import parquet
from semi_naive.io.formats.parquet import MAX_REPEATED_BYTES
from semi_naive.io.parallel import ReadSpan, check_reports, frame_parts
from semi_naive.io.python_data import is_spark_frame, source_of
from semi_naive.io.sources import SPAN_BYTES, byte_ranges
from semi_naive.io.unread import MIN_BYTES_FOR_JOB
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.ir import Kind, Relation
from semi_naive.ra.text.symbols import SymbolTable
from semi_naive.ra.values.values import Values

DELIMITERS = {".facts": "\t", ".tsv": "\t", ".csv": ",", ".txt": " "}
IDS = st.integers(0, 2**32)
PAIRS = st.lists(st.tuples(IDS, IDS), max_size=30)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), min_size=1)
tmp_path_reused = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


@pytest.fixture
def write(tmp_path):
    """Writes text or bytes to a file in a temporary folder, gzipped if its name says so; returns its path."""

    def write(name, content):
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(path)

    return write


def fault_of(read, *args, **options):
    with pytest.raises(BadInput) as caught:
        read(*args, **options)
    return caught.value


# Round trips


@tmp_path_reused
@given(
    pairs=PAIRS.filter(bool),
    extension=st.sampled_from(sorted(DELIMITERS)),
    gz=st.sampled_from(["", ".gz"]),
    end=st.sampled_from(["\n", "\r\n"]),
    decoration=st.sampled_from(["", "# a comment", "#0x\t1", "   "]),
    last=st.booleans(),
)
def test_text_round_trip(write, pairs, extension, gz, end, decoration, last):
    lines = [f"{source}{DELIMITERS[extension]}{target}" for source, target in pairs]
    lines = [decoration, *lines[:1], "", decoration, *lines[1:]]
    path = write("edges" + extension + gz, end.join(lines) + (end if last else ""))
    assert as_edges(path).named() == pairs
    assert as_edges(path, strings=True).named() == [(str(source), str(target)) for source, target in pairs]


@tmp_path_reused
@given(pairs=st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=20), tabs=st.booleans())
def test_string_round_trip(write, pairs, tabs):
    if tabs:
        text = "".join(f"{source}\t{target}\n" for source, target in pairs)
        kept = [pair for pair in pairs if not pair[0].startswith("#")]
        path = write("edges.facts", text.encode())
    else:
        quoted = [['"' + name.replace('"', '""') + '"' for name in pair] for pair in pairs]
        kept, path = pairs, write("edges.csv", "".join(",".join(pair) + "\n" for pair in quoted))
    if kept and not kept[0][0].startswith("\ufeff"):
        assert as_edges(path, strings=True).named() == kept


@tmp_path_reused
@given(
    pairs=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=20),
    field=st.sampled_from(["pattern", "real", "integer"]),
    gz=st.sampled_from(["", ".gz"]),
)
def test_matrix_market_round_trip(write, pairs, field, gz):
    value = {"pattern": "", "real": " 0.0", "integer": "  -3"}[field]
    rows = "".join(f"{i} {j}{value}\n" for i, j in pairs)
    text = f"%%MatrixMarket matrix coordinate {field} general\n% by hand\n9 9 {len(pairs)}\n{rows}"
    assert as_edges(write("m.mtx" + gz, text)).named() == pairs


@given(PAIRS)
def test_containers_round_trip(pairs):
    array = np.array(pairs, np.int64).reshape(-1, 2)
    table = pa.table({"from": array[:, 0], "to": array[:, 1]})
    for source in (
        pairs,
        iter(pairs),
        array,
        array.astype(np.uint64),
        np.asfortranarray(array),
        table,
        table.to_pandas(),
    ):
        edges = as_edges(source)
        assert edges.pairs.dtype == np.int64 and edges.pairs.shape == (len(pairs), 2)
        assert edges.named() == pairs and as_edges(edges) is edges
    graph = networkx.MultiDiGraph(pairs)
    assert sorted(as_edges(graph).named()) == sorted(pairs)


def test_parquet_file_and_directory(tmp_path):
    for part in range(2):
        (tmp_path / "edges").mkdir(exist_ok=True)
        table = pa.table({"a": pa.array([part, 2], pa.int32()), "b": pa.array([3, 4], pa.uint64())})
        pq.write_table(table, tmp_path / "edges" / f"part-{part}.parquet")
    (tmp_path / "edges" / "_SUCCESS").touch()
    assert as_edges(tmp_path / "edges" / "part-1.parquet").named() == [(1, 3), (2, 4)]
    assert as_edges(tmp_path / "edges").named() == [(0, 3), (2, 4), (1, 3), (2, 4)]


def test_texts_of_parquet_are_read_as_they_are_stored(tmp_path, monkeypatch):
    """With a dictionary, or whole after a dictionary that became too large; in batches, whose rows keep their numbers."""
    monkeypatch.setattr(parquet, "MAX_BATCH_ROWS", 7)
    names = [f"a name of some length {number:04}" for number in range(300)]
    kinds = [f"kind {number % 3}" for number in range(300)]
    for limit, coded in ((1 << 20, ["b"]), (64, ["b"])):
        for repeated in (MAX_REPEATED_BYTES, 0):
            monkeypatch.setattr(parquet, "MAX_REPEATED_BYTES", repeated)
            options = {"row_group_size": 120, "dictionary_pagesize_limit": limit, "write_batch_size": 8, "data_page_size": 64}
            pq.write_table(pa.table({"a": names, "b": kinds}), tmp_path / "n.parquet", **options)
            footer = pq.read_metadata(tmp_path / "n.parquet")
            assert parquet._coded_texts(footer.row_group(1), footer.schema.to_arrow_schema())[0] == coded
            pieces = list(edge_source(tmp_path / "n.parquet", strings=True).prepared()(Values()))
            assert {piece.shape[1] for piece in pieces} == ({7, 1, 4} if repeated else {120, 60})
            assert as_edges(tmp_path / "n.parquet").named() == list(zip(names, kinds, strict=True))
            assert by_tasks(tmp_path / "n.parquet", strings=True) == list(zip(names, kinds, strict=True))
            source = edge_source(tmp_path / "n.parquet", strings=True)
            parts = [part.symbols.to_pylist() for part in ReadSpan(source)(source.spans()[0])]
            assert all(len(set(symbols)) == len(symbols) for symbols in parts), "each symbol is sent once"
    for column in ([*names[:250], None, *names[251:]], [*kinds[:250], None, *kinds[251:]]):
        pq.write_table(pa.table({"a": column, "b": column}), tmp_path / "n.parquet", row_group_size=120)
        with pytest.raises(BadInput, match=r"a, row 250: the value is null"):
            as_edges(tmp_path / "n.parquet")


def test_the_footer_of_a_parquet_file_is_read_once_for_its_row_groups(tmp_path, monkeypatch):
    read, read_metadata = [], pq.read_metadata
    monkeypatch.setattr(pq, "read_metadata", lambda part, **options: read.append(part) or read_metadata(part, **options))
    pq.write_table(pa.table({"a": range(40), "b": range(40)}), tmp_path / "n.parquet", row_group_size=2)
    assert as_edges(tmp_path / "n.parquet").named() == [(number, number) for number in range(40)]
    assert len(read) == 2, "one for the row groups there are, one to read them"


def test_strings_are_interned(tmp_path):
    edges = as_edges([("a", "b"), ("b", "c"), ("a", "b")])
    assert edges.pairs.tolist() == [[0, 1], [1, 2], [0, 1]] and edges.names.to_pylist() == ["a", "b", "c"]
    names = pa.table({"a": pa.array(["x", "y"]).dictionary_encode(), "b": pa.array(["y", "x"], pa.large_string())})
    pq.write_table(names, tmp_path / "n.parquet")
    assert as_edges(tmp_path / "n.parquet").named() == as_edges(names).named() == [("x", "y"), ("y", "x")]
    assert as_edges(names.to_pandas()).named() == [("x", "y"), ("y", "x")]
    assert as_edges(networkx.DiGraph([("x", "y")])).named() == [("x", "y")]
    assert as_edges(np.array([["x", "y"]])).named() == [("x", "y")]
    assert as_edges([(1, "a")], strings=True).named() == [("1", "a")]


def test_the_delimiter_is_what_the_first_row_says(write):
    assert as_edges(write("a.csv", "1\t2\n3\t4\n")).named() == [(1, 2), (3, 4)]
    assert as_edges(write("a.csv", "1;2\n")).named() == [(1, 2)]
    assert as_edges(write("a.tsv", "1   2\n3 4\n")).named() == [(1, 2), (3, 4)]
    assert as_edges(write("a.txt", "1, 2\n3 ,4\n")).named() == [(1, 2), (3, 4)]
    assert as_edges(write("a.txt", "  1 \t 2\t\n3 4 \n")).named() == [(1, 2), (3, 4)]
    assert as_edges(write("a.csv", "x|y\n"), delimiter="|").named() == [("x", "y")]
    assert as_edges(write("a.facts", 'a b\t"c"\n')).named() == [("a b", '"c"')]
    assert as_edges(write("a.csv", '"a, b","c ""d"""\n')).named() == [("a, b", 'c "d"')]
    assert as_edges(write("a.csv", '"1","2"\n')).named() == [(1, 2)]
    assert fault_of(as_edges, write("a.csv", "1,2\n"), delimiter="tab").hint


def test_headers(write):
    assert as_edges(write("a.csv", "# c\nfrom,to\n1,2\n"), header=True).named() == [(1, 2)]
    assert as_edges(write("a.csv", "from,to\n1,2\n"), strings=True).named() == [("from", "to"), ("1", "2")]
    assert as_edges(write("a.csv", "from,to\n# c\n"), header=True).pairs.shape == (0, 2)
    fault = fault_of(as_edges, write("a.csv", "# c\nfrom,to\n1,2\n"))
    assert (fault.line, fault.column) == (2, 1) and "header=True" in fault.hint and "strings=True" in fault.hint


def test_empty_graphs(write):
    for name in ("a.tsv", "a.csv.gz", "a.txt", "a.facts"):
        assert as_edges(write(name, "# nothing\n\n")).pairs.shape == (0, 2)
        assert as_edges(write(name, "\n")).pairs.shape == (0, 2)
    assert as_edges(write("a.tsv", "# nothing"), strings=True).names.to_pylist() == []
    for empty in ([], np.empty((0, 2)), np.array([]), pandas.DataFrame({"a": [], "b": []}), networkx.DiGraph()):
        assert as_edges(empty).pairs.shape == (0, 2) and as_edges(empty).names is None
    assert as_edges(pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())})).pairs.shape == (0, 2)


def test_symmetric_matrices(write):
    path = write("s.mtx", "%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 5.0\n2 1 1e3\n3 2 0\n")
    assert as_edges(path).named() == [(1, 1), (2, 1), (3, 2), (1, 2), (2, 3)]
    assert as_edges(path, expand_symmetric=False).named() == [(1, 1), (2, 1), (3, 2)]


def test_any_ids(write):
    pairs = [(-1, 2**63 - 1), (-(2**63), 2**32 + 1)]
    path = write("a.tsv", "".join(f"{source}\t{target}\n" for source, target in pairs))
    assert as_edges(path, any_ids=True).named() == as_edges(pairs, any_ids=True).named() == pairs


# Bad files: name, content, line, column, a word of the message, options

BAD = [
    ("a.tsv", "1\t2\n3\n", 2, 2, "1 found", {}),
    ("a.tsv", "# x\n\n1\t2\n3\t4\t5\n", 4, 5, "3 found", {}),
    ("a.tsv", "1\t2\t0.5\n", 1, 5, "3 found", {}),
    ("a.csv", "a,b,weight\n1,2,0.5\n", 1, 1, "next row has integers", {}),
    ("a.csv", "a,b,weight\n1,2,0.5\n", 2, 5, "3 found", {"header": True}),
    ("a.tsv", "12\n", 1, 3, "1 found", {}),
    ("a.txt", "1 2\n 3  4 5\n", 2, 7, "3 found", {}),
    ("a.csv", "1,2\n3,1.5\n", 2, 3, "'1.5'", {}),
    ("a.csv", "1,2\n1e3,4\n", 2, 1, "'1e3'", {}),
    ("a.csv", "1,2\n3,4\n5,NaN", 3, 3, "'NaN'", {}),
    ("a.csv", "1,2\n3,\n", 2, 3, "''", {}),
    ("a.csv", "1,2\n3,0x1F\n", 2, 3, "'0x1F'", {}),
    ("a.csv", "1.5,2\n3,4.5\n", 1, 1, "'1.5'", {}),
    ("a.csv", "a,nan\nb,c\n", 1, 1, "'a'", {}),
    ("a.csv", ",b\nb,c\n", 1, 1, "''", {}),
    ("a.csv", "1,2\nbob,4\n", 2, 1, "'bob'", {}),
    ("a.csv", "bob,eve\n", 1, 1, "'bob'", {"strings": False}),
    ("a.csv", 'a,b\n"c,d\n', 2, 1, "never closed", {}),
    ("a.csv", "é,b\nc,é,f\n", 2, 5, "3 found", {}),
    ("a.tsv.gz", "1\t2\r\n3\tx\r\n", 2, 3, "'x'", {}),
    ("a.tsv", "1\t-2\n", 1, 3, "negative", {}),
    ("a.tsv", f"1\t2\n{2**32 + 1}\t3\n", 2, 1, "2^32", {}),
    ("a.tsv", f"1\t2\n3\t{2**63}\n", 2, 3, "64 bits", {"any_ids": True}),
    ("a.tsv", "1\t" + "9" * 5000 + "\n", 1, 3, "64 bits", {}),
    ("a.tsv", b"a\tb\nc\t\xff\n", 2, 3, "UTF-8", {}),
    ("a.tsv", b"1\t2\n\xff\t2\n", 2, 1, "UTF-8", {}),
    ("a.tsv", "1\t2\n" * 300_000 + "1\t2\nx\t1\n", 300_002, 1, "'x'", {}),
    ("a.tsv", "", None, None, "is empty", {}),
    ("a.tsv.gz", "", None, None, "is empty", {}),
    ("a.xls", "1\t2\n", None, None, ".xls", {}),
    ("a.xls.gz", "1\t2\n", None, None, ".xls.gz", {}),
    ("a.parquet", "no parquet", None, None, "parquet", {}),
    ("a.mtx", "1 2\n", 1, 1, "banner", {}),
    ("a.mtx", "%%MatrixMarket matrix array real general\n1 1\n1\n", 1, 23, "'array'", {}),
    ("a.mtx", "%%MatrixMarket matrix coordinate complex general\n", 1, 34, "'complex'", {}),
    ("a.mtx", "%%MatrixMarket matrix coordinate real hermitian\n", 1, 39, "'hermitian'", {}),
    ("a.mtx", "%%MatrixMarket matrix coordinate real skew-symmetric\n", 1, 39, "'skew-symmetric'", {}),
    ("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n% c\n2 2\n", 3, 1, "size line", {}),
    ("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n% c\n", 2, 1, "size line", {}),
    ("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1\n3 1\n", 4, 1, "1..2", {}),
    ("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1\n2 0\n", 4, 3, "1..2", {}),
    ("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1\n", 2, None, "1 follow", {}),
    ("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 1\n1 2\n", 2, None, "2 follow", {}),
    ("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 1 7\n", 3, 5, "3 found", {}),
]


@pytest.mark.parametrize(("name", "content", "line", "column", "words", "options"), BAD, ids=range(len(BAD)))
def test_bad_files_name_the_place(write, name, content, line, column, words, options):
    path = write(name, content)
    fault = fault_of(as_edges, path, **options)
    assert (fault.file, fault.line, fault.column) == (path, line, column)
    assert words in fault.message and fault.hint and str(fault).startswith(path)


def test_unreadable_files(write, tmp_path):
    assert "no such file" in str(fault_of(as_edges, tmp_path / "none.tsv"))
    assert "no such file" in str(fault_of(as_edges, "none.parquet"))
    (tmp_path / "folder.tsv").mkdir()
    assert "directory" in str(fault_of(as_edges, tmp_path / "folder.tsv"))
    plain = tmp_path / "a.tsv.gz"
    plain.write_bytes(b"1\t2\n")
    assert "gzip" in str(fault_of(as_edges, plain))
    whole = gzip.compress("".join(f"{i}\t{i + 1}\n" for i in range(9999)).encode())
    plain.write_bytes(whole[: len(whole) // 2])
    assert "too early" in str(fault_of(as_edges, plain))
    plain.write_bytes(whole[:40] + bytes(99) + whole[139:])
    assert "gzip" in str(fault_of(as_edges, plain))


def test_the_error_survives_pickling():
    fault = pickle.loads(pickle.dumps(BadInput("message", "file", 3, 4, "hint")))
    assert str(fault) == "file:3:4: message\n  hint" and str(BadInput("message")) == "message"


# Bad containers: source, place, a word of the message

BAD_CONTAINERS = [
    ([(1, 2), (3, "x")], "edges[1]", "'x'"),
    ([(1, 2), (3,)], "edges[1]", "is not a fact of edges"),
    ([(1, 2), "ab"], "edges[1]", "is not a fact of edges"),
    ([1, 2], "edges[0]", "is not a fact of edges"),
    ([(1, 2), {3, 4}], "edges[1]", "is not a fact of edges"),
    ([(1, 2), (1.5, 2)], "edges[1]", "float"),
    ([(1, None)], "edges[0]", "None"),
    ([(1, True)], "edges[0]", "bool"),
    ([(1, 2), (0, 2**63)], "edges[1]", "64 bits"),
    ([(1, 2), (0, -1)], "edges[1]", "negative"),
    (np.array([[0, 1], [2**32 + 1, 1]]), "edges[1]", "2^32"),
    (np.array([[0, 2**64 - 1]], np.uint64), "edges[0]", "64 bits"),
    (np.array([[0, 1.0], [np.nan, 2]]), "edges", "float64"),
    (np.array([[0, 1.0]]), "edges", "float64"),
    (np.array([[True, False]]), "edges", "bool"),
    (np.zeros((3, 3), int), "edges", "(3, 3)"),
    (pandas.DataFrame({"a": [1], "b": [2], "c": [3]}), "edges", "found 3 columns"),
    (pandas.DataFrame({"a": [1, 2], "b": [2, None]}), "edges", "edges.b, row 1"),
    (pandas.DataFrame({"a": [1.0, 2.0], "b": [2, 1]}), "edges", "edges.a has type double"),
    (pandas.DataFrame({"a": ["x", None], "b": ["y", "z"]}), "edges", "edges.a, row 1"),
    (pandas.DataFrame({"a": [1, "x"], "b": [1, 2]}, dtype=object), "edges[1].source", "'x'"),
    (pandas.DataFrame({"a": ["x"], "b": [2]}), "edges", "differ"),
    (pandas.DataFrame({"a": [1, -1], "b": [1, 2]}), "edges", "edges.a, row 1"),
    (pa.table({"a": [1, None], "b": [1, 2]}), "edges", "edges.a, row 1: the value is null"),
    (pa.table({"a": [1, 2], "b": [1, float("nan")]}), "edges", "edges.b, row 1: the value is NaN"),
    (pa.table({"a": [1], "b": pa.array([2**64 - 1], pa.uint64())}), "edges", "64 bits"),
    (networkx.Graph([(1, 2)]), "Graph", "undirected"),
    (networkx.DiGraph([(1, 2), ((3, 4), 5)]), "edges[1]", "tuple"),
    ({1: 2}, None, "dict"),
    (7, None, "int"),
]


@pytest.mark.parametrize(("source", "place", "words"), BAD_CONTAINERS, ids=range(len(BAD_CONTAINERS)))
def test_bad_containers_name_the_place(source, place, words):
    fault = fault_of(as_edges, source)
    assert (fault.file or "").startswith(place or "") and words in fault.message and fault.hint


def test_strings_false_refuses_names():
    assert "strings=False" in fault_of(as_edges, [("a", "b")], strings=False).message


# In parallel


def test_byte_ranges_cover():
    assert byte_ranges(5, 5, 10) == [] and byte_ranges(0, 25, 10) == [(0, 10), (10, 20), (20, 25)]


def test_what_is_large(write, tmp_path):
    path = tmp_path / "big.tsv"
    path.write_text("1\t2\n3\t4\n")
    with open(path, "rb+") as sparse:
        sparse.truncate(MIN_BYTES_FOR_JOB)
    assert edge_source(path).large and not edge_source(write("a.tsv", "1\t2\n")).large


def test_a_small_file_is_opened_once(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("semi_naive.io.files.open", lambda path, mode: opened.append(path) or open(path, mode), raising=False)
    (tmp_path / "e.facts").write_text("y\tx\n1\t2\n3\t4\n")
    text = ".decl e(x: number, y: number)\n.input e(headers=true)\n.output e"
    with Program(text).run(tmp_path) as result:
        assert result["e"].to_set() == {(2, 1), (4, 3)} and opened == [str(tmp_path / "e.facts")]


def test_a_large_text_is_read_in_pieces_and_its_errors_name_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr("semi_naive.io.sources.PARSED_PIECE_BYTES", 50)
    rows, path = [(number, f"n{number % 7}") for number in range(60)], tmp_path / "e.facts"
    lines = [f"{number}\t{name}\n" for number, name in rows]
    lines[30] = "0x1e\tn2\n"  # read by the rules
    path.write_text("".join(lines))
    program = Program(".decl e(x: number, y: symbol)\n.input e\n.output e")
    with program.run(tmp_path) as result:
        assert result["e"].to_set() == {*rows}
    path.write_text("".join([*lines[:40], "forty\tn5\n", *lines[41:]]))
    with pytest.raises(BadInput) as error:
        program.run(tmp_path)
    assert error.value.line == 41 and "forty" in str(error.value)


def by_tasks(data, split=SPAN_BYTES, **reading) -> list:
    """The edges as tasks read them: the named pairs in order."""
    source, names, found = edge_source(data, **reading), Values(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("semi_naive.io.sources.SPAN_BYTES", split)
        read = frame_parts(source).collect() if is_spark_frame(data) else chain(*map(ReadSpan(source), source.spans()))
        parts = list(read)
    check_reports(source, [(part.rows, part.fault) for part in parts])
    symbols = [0, 1] if source.relation.kinds[0] == Kind.SYMBOL else []
    for part in parts:
        columns = part.numbered(symbols, names)
        found += zip(*(names.strings(column) if symbols else column.tolist() for column in columns), strict=True)
    return found


@pytest.mark.parametrize("name", ["a.tsv", "a.csv.gz", "a.txt"])
def test_tasks_read_what_this_process_reads(write, name):
    lines = [f"{i}{DELIMITERS[name[1:5]]}{i * i}" for i in range(60)]
    lines[30:30] = ["# comment", "", "   "]
    path = write(name, "\ufeff# top\n" + "\r\n".join(lines))
    assert by_tasks(path, 50) == as_edges(path).named() and len(by_tasks(path)) == 60
    assert by_tasks(path, 200, strings=True) == as_edges(path, strings=True).named()


def test_errors_of_tasks_have_the_line_of_the_file(write):
    lines = ["# top", *(f"{i}\t{i}" for i in range(50)), "7\tx", "1\t2\t3"]
    for name in ("a.tsv", "a.tsv.gz"):
        path = write(name, "\n".join(lines))
        fault = fault_of(by_tasks, path, 40)
        assert (fault.file, fault.line, fault.column) == (path, 52, 3) and "'x'" in fault.message
    whole = gzip.compress("\n".join(lines[:-2]).encode())
    with open(path, "wb") as cut:
        cut.write(whole[:-9])
    assert "too early" in fault_of(by_tasks, path).message


def test_matrices_by_tasks(write):
    rows = "".join(f"{i + 1} {i} 0.5\n" for i in range(1, 40))
    text = "%%MatrixMarket matrix coordinate real symmetric\n40 40 39\n" + rows
    path = write("s.mtx", text)
    assert sorted(by_tasks(path, 100)) == sorted(as_edges(path).named())
    assert by_tasks(path, 100, expand_symmetric=False) == [(i + 1, i) for i in range(1, 40)]
    fault = fault_of(by_tasks, write("t.mtx", text + "1 1 1\n"), 100)
    assert fault.line == 2 and "40 follow" in fault.message


def test_parquet_by_tasks(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(20), "b": range(1, 21)}), path, row_group_size=6)
    assert len(edge_source(path).spans()) == 4 and by_tasks(path) == as_edges(path).named()
    pq.write_table(pa.table({"a": range(20), "b": [*range(19), None]}), path, row_group_size=6)
    assert "edges.b, row 19" in fault_of(by_tasks, path).message


def test_empty_files_by_tasks(write):
    for strings in (None, True):
        assert by_tasks(write("a.tsv", "# nothing\n"), strings=strings) == []


def test_spark_frames(spark):
    frame = spark.range(100).selectExpr("cast(id as int) as a", "id + 1 as b")
    assert sorted(by_tasks(frame)) == sorted(as_edges(frame).named()) == [(i, i + 1) for i in range(100)]
    named = frame.selectExpr("concat('n', a) as a", "'end' as b")
    assert set(by_tasks(named)) == set(as_edges(named).named()) == {(f"n{i}", "end") for i in range(100)}
    assert as_edges(frame.limit(0)).pairs.shape == (0, 2) and by_tasks(frame.limit(0)) == []
    assert ("1", "2") in as_edges(frame, strings=True).named()


def test_bad_spark_frames(spark):
    frame = spark.range(10)
    bad = {
        "found 1 column ": frame,
        "edges.b has type double": frame.selectExpr("id as a", "id / 2 as b"),
        "differ": frame.selectExpr("id as a", "cast(id as string) as b"),
        "edges.b: the value is null": frame.selectExpr("id as a", "nullif(id, 7) as b"),
        "edges.a: vertex id -9 is negative": frame.selectExpr("-id as a", "id as b").where("id = 9"),
    }
    for words, source in bad.items():
        fault = fault_of(by_tasks, source)
        assert words in fault.message and fault.file in ("edges", "DataFrame") and fault.hint


def test_long_lines(write):
    """A line may have any length, but for the first ones of a text whose form is told by them."""
    long = "x" * (3 << 20)
    relation = Relation("r", (("s", BUILT_IN["symbol"]), ("n", BUILT_IN["number"])))
    for name in ("a.facts", "a.tsv.gz"):
        assert source_of(write(name, f"{long}\t1\n"), relation, {}).columns(Values(SymbolTable())).tolist() == [[0], [1]]
    assert source_of(write("a.txt", f"a\t1\nb\t1\n{long}\t1\n"), relation, {}).columns(Values()).shape == (2, 3)
    assert "the line is longer than 1 MiB" in fault_of(source_of, write("a.txt", f"{long}\t1\n"), relation, {}).message
