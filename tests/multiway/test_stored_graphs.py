"""Graphs in files: any memory gives the matches of the graph in memory, in as many pieces, windows and runs as it takes."""

import errno
import gzip
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semi_naive import BadInput, graphs, subgraphs
from semi_naive.ra.multiway import leapfrog
from semi_naive.ra.multiway.tries import paged
from semi_naive.ra.multiway.tries.boxes import BudgetTooSmall
from semi_naive.ra.multiway.tries.trie import TrieArray
from semi_naive.ra.spark.failures import DiskFull
from semi_naive.ra.storage import external_sort
from semi_naive.ra.storage.external_sort import ExternalSort
from semi_naive.ra.storage.number_file import NumberFile
from semi_naive.ra.storage.runs import Store
from semi_naive.subgraph_queries import number_files, stored

EDGES = np.asarray(graphs.rmat(9, 6000))
PEAK = """
import sys
from semi_naive import subgraphs
from semi_naive.host.memory_limits import peak
options = {"plan": "boxed", "memory": int(sys.argv[2])} if len(sys.argv) > 2 else {}
print(subgraphs(sys.argv[1], "triangle", **options), peak())
"""


@pytest.fixture
def store(tmp_path):
    found = Store.create(str(tmp_path))
    yield found
    found.remove()


@pytest.fixture
def small_parts(monkeypatch):
    """Pieces of 100 edges, windows of 128 vertices, runs of 64 words."""
    monkeypatch.setattr(number_files, "LEAST_PIECE", 100)
    monkeypatch.setattr(stored, "LEAST_MEMORY", 1 << 12)
    monkeypatch.setattr(external_sort, "LEAST_WORDS", 1 << 6)
    monkeypatch.setattr(external_sort, "LEAST_BLOCK_WORDS", 1 << 3)
    monkeypatch.setattr(paged, "WRITTEN_TUPLES", 1 << 8)


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_an_external_sort_yields_the_distinct_words(tmp_path_factory, data):
    numbers = data.draw(st.lists(st.integers(0, 1 << data.draw(st.integers(1, 63))), max_size=400))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_sort, "LEAST_WORDS", data.draw(st.integers(1, 9)))
        patch.setattr(external_sort, "LEAST_BLOCK_WORDS", data.draw(st.integers(1, 4)))
        own = Store.create(str(tmp_path_factory.mktemp("sort")))
        sort = ExternalSort(own, "words", data.draw(st.integers(0, 2000)))
        words = np.array(numbers, np.uint64)
        for piece in np.array_split(words, 3):
            sort.add(piece)
        found = list(sort.pieces())
    assert np.concatenate([np.empty(0, np.uint64), *found]).tolist() == sorted(set(numbers))
    assert not os.listdir(own.root)


@given(data=st.data(), arity=st.integers(1, 3))
@settings(deadline=None, max_examples=100)
def test_a_written_trie_is_that_of_the_tuples(tmp_path_factory, data, arity):
    size = data.draw(st.sampled_from([1, 9, 3000]))
    rows = data.draw(st.sets(st.tuples(*[st.integers(0, size - 1)] * arity), max_size=200))
    columns = np.array(sorted(rows), np.int32).reshape(-1, arity).T
    own = Store.create(str(tmp_path_factory.mktemp("trie")))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paged, "WRITTEN_TUPLES", data.draw(st.integers(1, 50)))
        patch.setattr(paged, "VALUES_PER_PAGE", data.draw(st.sampled_from([1, 4, 1024])))
        patch.setattr(paged, "PAGE_BYTES", 4 * paged.VALUES_PER_PAGE * 2)
        patch.setattr(paged, "ENDS_BLOCK", data.draw(st.integers(1, 5)))
        patch.setattr(paged, "MAX_READ_CHILDREN", data.draw(st.sampled_from([0, 100])))
        patch.setattr(paged, "PAGE_BYTES", max(4 * paged.VALUES_PER_PAGE, 8))
        if paged.VALUES_PER_PAGE == 1:
            patch.setattr(paged, "VALUES_PER_PAGE", 2)
        pieces = [tuple(part) for part in np.split(columns, cuts, axis=1)]
        trie, expected = paged.write_trie(pieces, arity, size, own, "0").open(), TrieArray.build(list(columns), size)
        arrays = [trie.directory, *(array for pair in zip(trie.values, trie.index, strict=False) for array in pair)]
        for found, array in zip([*arrays, trie.values[-1]], expected.arrays(), strict=True):
            assert found.read(0, len(found)).tolist() == array.tolist()
        assert trie.widths == tuple(map(expected.widest, range(arity)))
        for level, values in enumerate(expected.values):
            bounds = expected.index[level - 1].tolist() if level else [0, len(values)]
            for begin, end in zip(bounds, bounds[1:], strict=False):
                target = data.draw(st.integers(0, size))
                assert trie.position(level, begin, end, target) == begin + np.searchsorted(values[begin:end], target)
            if level + 1 < arity:
                begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(values))] * 2)))
                children = expected.values[level + 1][expected.index[level][begin] : expected.index[level][end]]
                assert trie.span(level, begin, end) == ((children.min(), children.max() + 1) if begin < end else (0, 0))


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "names"])
def test_small_parts_find_the_same(small_parts, tmp_path, kind, directed):
    edges, path = EDGES * (1 if kind == "dense" else 8_000_009), tmp_path / "edges.tsv"
    name = "v{}".format if kind == "names" else str
    path.write_text("".join(f"{name(a)}\t{name(b)}\n" for a, b in edges.tolist()))
    for pattern in ("triangle", "square", "4-clique"):
        options = {"directed": directed, "local_dir": str(tmp_path)}
        expected = subgraphs(str(path), pattern, directed=directed)
        assert subgraphs(str(path), pattern, plan="boxed", memory=20_000, **options) == expected
    expected = subgraphs(str(path), "triangle", directed=directed, count=False)
    found = subgraphs(str(path), "triangle", count=False, plan="boxed", memory=20_000, **options)
    assert os.listdir(tmp_path) == ["edges.tsv"]  # the matches are in a file without a name

    def order(rows):
        return sorted(rows if directed else (tuple(sorted(row)) for row in rows))

    assert order(found.to_list()) == order(expected.to_list())
    assert found.first(2) == found.to_list()[:2] and len(found) == len(expected)


def test_rows_are_divided_so_that_few_are_in_memory(small_parts, monkeypatch):
    """One vertex with 600 others, each with the next ones: most triangles have it, and are divided by the second variable."""
    sizes, run = [], leapfrog.Loops.run

    def counted(*box):
        found = run(*box)
        sizes.append(found[1].size)
        return found

    monkeypatch.setattr(leapfrog.Loops, "run", counted)
    others = np.arange(1, 601)
    hub = np.stack([np.zeros(600, np.int64), others], axis=1)
    ring = np.concatenate([np.stack([others, 1 + (others - 1 + step) % 600], axis=1) for step in range(1, 20)])
    edges = np.concatenate([hub, ring])
    found = subgraphs(edges, "triangle", count=False, plan="boxed", memory=1 << 20)
    assert max(sizes) <= 2 * (1 << 12) < sum(sizes)
    assert len(found) == subgraphs(edges, "triangle") > 100_000 / 3


def test_pieces_of_all_formats(tmp_path, small_parts):
    lines = "".join(f"{a}\t{b}\n" for a, b in EDGES.tolist())
    expected = subgraphs(EDGES, "triangle")
    (tmp_path / "edges.tsv").write_text(lines)
    with gzip.open(tmp_path / "edges.tsv.gz", "wt") as file:
        file.write(lines)
    half = lines.index("\n", len(lines) // 2) + 1
    (tmp_path / "part1.tsv").write_text(lines[:half])
    (tmp_path / "part2.tsv").write_text(lines[half:])
    for name in ("edges.tsv", "edges.tsv.gz", "part*.tsv"):
        assert subgraphs(str(tmp_path / name), "triangle", plan="boxed", memory=50_000) == expected, name
    assert subgraphs(graphs.as_edges(EDGES), "triangle", plan="boxed", memory=50_000) == expected
    assert subgraphs(np.empty((0, 2), np.int64), "triangle", plan="boxed", memory=50_000) == 0
    assert subgraphs([("a", "b")], "triangle", plan="boxed", memory=50_000, count=False).to_list() == []


def test_an_error_names_the_line_of_the_file(tmp_path, small_parts):
    lines = [f"{a}\t{b}" for a, b in EDGES.tolist()]
    lines[4321] = "17\tx"
    (tmp_path / "edges.tsv").write_text("\n".join(lines) + "\n")
    with pytest.raises(BadInput, match=r"edges.tsv:4322:4: .*'x'"):
        subgraphs(str(tmp_path / "edges.tsv"), "triangle", plan="boxed", memory=50_000, local_dir=str(tmp_path))
    assert os.listdir(tmp_path) == ["edges.tsv"]
    matrix = "%%MatrixMarket matrix coordinate pattern symmetric\n9 9 4\n2 1\n3 1\n3 2\n"
    (tmp_path / "cut.mtx").write_text(matrix)
    with pytest.raises(BadInput, match="declares 4 entries, but 3 follow"):
        subgraphs(str(tmp_path / "cut.mtx"), "triangle", plan="boxed", memory=50_000)


def test_too_little_memory_says_what_it_is_for(monkeypatch):
    monkeypatch.setattr(stored, "SMALL_BYTES", 0)
    with pytest.raises(BudgetTooSmall, match=r"memory=1,000 leaves nothing for edges: .* are for pages and marks of vertices"):
        subgraphs(EDGES, "triangle", plan="boxed", memory=1000)


def test_the_peak_of_memory_does_not_grow_with_the_graph(tmp_path):
    """The graph would take 60 MB in memory. Other processes' memory is the same in each run, but for its granularity."""
    large, small = str(tmp_path / "large.tsv"), str(tmp_path / "small.tsv")
    for path, edges in ((large, graphs.rmat(16, 1_000_000)), (small, graphs.rmat(10, 40_000))):
        np.savetxt(path, edges, fmt="%d", delimiter="\t")
    peaks = {}
    for arguments in ((small, 16 << 20), (large, 16 << 20), (large,)):
        command = [sys.executable, "-c", PEAK, *map(str, arguments)]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        peaks[arguments] = int(found[1])
    files, memory = peaks[large, 16 << 20], 16 << 20
    assert files - peaks[small, memory] <= 1.3 * memory
    assert files < peaks[large,] - 20e6


def test_a_full_disk_is_one_error_that_names_the_folder(tmp_path, monkeypatch):
    def full(column, numbers):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(NumberFile, "append", full)
    with pytest.raises(DiskFull, match="no space left in .*: the setting local_dir names another folder"):
        subgraphs(EDGES, "triangle", plan="boxed", memory=50_000, local_dir=str(tmp_path))
    assert not os.listdir(tmp_path)
