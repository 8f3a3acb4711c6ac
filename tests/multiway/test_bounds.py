"""The bounds of Zinn's paper hold, counted: reads of boxes, pages of an adversarial graph, and work against arboricity."""

from math import log2

import pytest

from bench.paper import bounds
from semi_naive.graphs import generators


@pytest.mark.parametrize("pattern", bounds.RANKS)
def test_what_boxes_copy_is_bounded_by_the_rank_and_the_memory(pattern):
    """|I|^r / M^(r-1), where each of r dimensions has the r-th part of M; a box is chosen by O(log) pages."""
    edges = bounds.oriented_randomly(generators.rmat(10, 8 << 10, seed=4), 1)
    for run in bounds.reads_by_budget(edges, pattern, (100, 50, 25, 15)):
        assert run["copied"] <= run["bound"] and run["spills"] == 0
        assert run["pages_of_a_box"] <= 6 * log2(run["input_pages"])
    assert run["boxes"] > 90


@pytest.mark.parametrize("pages", bounds.CACHES)
def test_boxes_do_not_thrash_where_leapfrog_over_a_cache_does(pages):
    run = bounds.thrashed(20_000, pages)
    assert run["plain"] >= run["edges"] and run["boxed"] <= 3 * run["input_pages"] < run["edges"] / 10
    enough = bounds.plain_reads(bounds.thrashing_edges(20_000, pages), run["input_pages"])
    assert enough <= run["input_pages"]  # with a cache for all pages each is read once


@pytest.mark.parametrize("edges", [300, 1200])
def test_work_on_triangles_is_bounded_by_the_arboricity(edges):
    """The loops read at most 2 |E| a log |E| numbers."""
    for name, pairs, arboricity in bounds.graphs_of_known_arboricity(edges):
        run = bounds.worked(name, pairs, arboricity)
        assert run["work"] <= 2 * run["bound"], run
        if name == "planar grid with diagonals":
            assert run["triangles"] == 2 * int((edges / 3) ** 0.5) ** 2
