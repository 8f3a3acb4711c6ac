"""Closed forms, counts and seeds of the generated graphs, against a naive closure."""

import subprocess
import sys

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semi_naive import graphs


def closure_size(edges):
    """Pairs (x, z) with a path of at least one edge, by networkx."""
    reached = networkx.transitive_closure(networkx.DiGraph(edges.tolist()), reflexive=False)
    return reached.number_of_edges()


SAMPLES = [
    graphs.tree(3),
    graphs.tree(0),
    graphs.bowtie(3, 2),
    graphs.chain(5),
    graphs.chain(0),
    graphs.grid(3, 4),
    graphs.grid(0),
    graphs.gnp(40, 0.2),
    graphs.gnp(0, 0.5),
    graphs.gnp(1, 0.5),
    graphs.rmat(6, 200),
    graphs.rmat(0, 10),
    graphs.star(4),
    graphs.zipf(30, 100),
    graphs.zipf(1, 10),
]


@pytest.mark.parametrize("edges", SAMPLES, ids=range(len(SAMPLES)))
def test_edges_are_distinct_int64_pairs(edges):
    assert edges.dtype == np.int64 and edges.ndim == 2 and edges.shape[1] == 2
    assert len({tuple(edge) for edge in edges.tolist()}) == len(edges)


@given(st.integers(0, 6), st.sampled_from(["up", "down"]))
def test_tree(height, direction):
    edges = graphs.tree(height, direction)
    assert len(edges) == 2 ** (height + 1) - 2
    assert closure_size(edges) == (height - 1) * 2 ** (height + 1) + 2
    assert ((edges[:, 0] > edges[:, 1]) == (direction == "up")).all()


@given(st.integers(1, 5), st.integers(0, 5))
def test_bowtie(width, length):
    pairs = width**2 + 2 * width * (length + 1) + length * (length + 1) // 2
    assert closure_size(graphs.bowtie(width, length)) == pairs


@given(st.integers(1, 6), st.integers(1, 6))
def test_grid(rows, cols):
    edges = graphs.grid(rows, cols)
    assert len(edges) == 2 * rows * cols - rows - cols
    assert closure_size(edges) == rows * (rows + 1) * cols * (cols + 1) // 4 - rows * cols


def test_grid_is_square_by_default():
    assert np.array_equal(graphs.grid(3), graphs.grid(3, 3))


@given(st.integers(0, 20))
def test_chain(nodes):
    assert closure_size(graphs.chain(nodes)) == nodes * (nodes - 1) // 2


def test_star():
    assert graphs.star(2).tolist() == [[0, 1], [0, 2]]
    assert graphs.star(2, "in").tolist() == [[1, 0], [2, 0]]


def test_gnp_has_binomially_many_edges():
    for n, p in ((200, 0.01), (200, 0.5), (100_000, 1e-6)):
        slots = n * (n - 1)
        edges = graphs.gnp(n, p, seed=7)
        assert abs(len(edges) - slots * p) < 5 * (slots * p * (1 - p)) ** 0.5
        assert (edges[:, 0] != edges[:, 1]).all() and edges.min() >= 0 and edges.max() < n


def test_gnp_at_its_limits():
    assert len(graphs.gnp(10, 0)) == 0
    assert len(graphs.gnp(10, 1)) == 90
    assert len(graphs.gnp(10, 1e-300)) == 0


def test_gnp_is_even():
    edges = graphs.gnp(100, 0.3, seed=3)
    for axis in (0, 1):
        degrees = np.bincount(edges[:, axis], minlength=100)
        assert 10 < degrees.min() and degrees.max() < 55


def test_rmat_is_what_the_measurements_were_made_with():
    edges = graphs.rmat(16, 60_000, seed=2)
    assert len(edges) == 59_331
    assert edges.max() < 2**16 and (edges[:, 0] != edges[:, 1]).all()


@pytest.mark.parametrize("make", [lambda s: graphs.rmat(8, 500, s), lambda s: graphs.zipf(50, 200, seed=s)])
def test_skew_favours_small_ids(make):
    edges = make(0)
    assert np.median(edges) < edges.max() / 3


@pytest.mark.parametrize(
    "make",
    [lambda s: graphs.gnp(50, 0.1, s), lambda s: graphs.rmat(8, 300, s), lambda s: graphs.zipf(50, 200, 1.2, s)],
    ids=["gnp", "rmat", "zipf"],
)
def test_seeds_reproduce(make):
    assert np.array_equal(make(5), make(5))
    assert not np.array_equal(make(5), make(6))


@pytest.mark.parametrize(
    "make",
    [
        lambda: graphs.tree(-1),
        lambda: graphs.tree(2, "left"),
        lambda: graphs.bowtie(1.5, 2),
        lambda: graphs.chain("3"),
        lambda: graphs.grid(2, -1),
        lambda: graphs.gnp(5, 1.5),
        lambda: graphs.rmat(4, 10, a=0.9),
        lambda: graphs.star(True),
        lambda: graphs.star(2, "up"),
        lambda: graphs.zipf(0, 10),
    ],
)
def test_bad_arguments_say_what_was_expected(make):
    with pytest.raises(ValueError, match="must be"):
        make()


def test_bundled():
    edges = graphs.as_edges(graphs.bundled("p2p-gnutella09")).pairs
    assert edges.shape == (26_013, 2) and edges.min() == 0
    with pytest.raises(ValueError, match="p2p-gnutella09"):
        graphs.bundled("ego-facebook")


def test_the_package_is_light():
    heavy = "pyarrow", "pandas", "networkx", "pyspark", "scipy"
    code = f"import sys, graphs; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
