"""The AGM bound on queries whose bound is known, and against what random queries really answer."""

import math

import pytest

from bench.fuzz.oracle import answer
from bench.fuzz.random_queries import random_query
from bench.fuzz.rounds import random_cases
from semi_naive.ra.multiway.agm import agm_bound
from semi_naive.ra.multiway.query import ConjunctiveQuery, QueryAtom

SIZES = {"r": 10, "s": 1000, "t": 50}


def query(**atoms):
    return ConjunctiveQuery(tuple(QueryAtom(name, tuple(terms)) for name, terms in atoms.items()))


@pytest.mark.parametrize(
    "joined, bound",
    [
        (query(r="xy", s="yz", t="xz"), math.sqrt(10 * 50 * 1000) if 10 * 50 > 1000 else 10 * 50),  # r and t alone cover
        (query(r="xy", s="yz"), 10 * 1000),
        (query(r="xy", s="xy"), 10),
        (query(r="x", s="y", t="xy"), 50),
        (query(r="xyz", s="xy", t="yz"), 10),
    ],
)
def test_known_bounds(joined, bound):
    assert agm_bound(joined, SIZES) == pytest.approx(bound)


@pytest.mark.parametrize("vertices, exponent", [(3, 1.5), (4, 2), (5, 2.5), (6, 3)])
def test_cliques_have_half_their_vertices_as_exponent(vertices, exponent):
    names = "abcdef"[:vertices]
    clique = ConjunctiveQuery(tuple(QueryAtom("e", (x, y)) for i, x in enumerate(names) for y in names[i + 1 :]))
    assert agm_bound(clique, {"e": 100}) == pytest.approx(100**exponent)


def test_a_triangle_of_equal_sizes_is_the_root_of_their_product():
    triangle = query(r="xy", s="yz", t="xz")
    assert agm_bound(triangle, {"r": 400, "s": 900, "t": 2500}) == pytest.approx(math.sqrt(400 * 900 * 2500))


def test_nothing_and_too_much():
    assert agm_bound(query(r="xy", s="yz"), {"r": 0, "s": 5}) == 0
    many = ConjunctiveQuery(tuple(QueryAtom("e", (f"x{i}", f"y{i}")) for i in range(60)))
    assert agm_bound(many, {"e": 10**9}) == math.inf


@random_cases(200, random_query)
def test_no_answer_is_larger(case, random):
    sizes = {name: len(rows) for name, rows in case.facts.items()}
    assert len(answer(case.query, case.facts)) <= agm_bound(case.query, sizes) * (1 + 1e-9)
