"""Leapfrog triejoin: random queries over random relations equal the oracle's answer, listed, counted and grouped."""

from collections import Counter
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multiway_cases import arrays, interpreted, rows_of, tuples_of

from bench.fuzz.oracle import answer
from bench.fuzz.random_queries import FACTORS, random_query, random_relations, scaled
from bench.fuzz.rounds import random_cases
from semi_naive.graphs import generators
from semi_naive.ra.multiway import leapfrog
from semi_naive.ra.multiway.loops.codegen import Generator, compile_kernel
from semi_naive.ra.multiway.query import Comparison, ConjunctiveQuery, Constant, QueryAtom
from semi_naive.ra.multiway.tries import local, orders, seeks
from semi_naive.ra.multiway.tries.arrays import ArrayFile
from semi_naive.ra.multiway.tries.shape import Shape
from semi_naive.ra.multiway.tries.trie import TrieArray, Tries


def edges(*pairs, relation="e", **options):
    return ConjunctiveQuery(tuple(QueryAtom(relation, tuple(pair)) for pair in pairs), **options)


TRIANGLE = edges("xy", "yz", "xz")
CLIQUE = edges(*combinations("wxyz", 2))
HOUSE = edges("xy", "yz", "xz", "xw", "wv", "vy")  # a triangle on a square


@pytest.fixture(scope="module")
def uncompiled():
    """The generated source is interpreted: an example costs milliseconds whatever its shape."""
    leapfrog.nest.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leapfrog, "compile_kernel", interpreted)
        yield
    leapfrog.nest.cache_clear()


@pytest.fixture(scope="module")
def oriented():
    """An RMAT graph of 512 nodes, every edge from the smaller to the larger id."""
    return np.unique(np.sort(generators.rmat(9, 4 << 9), axis=1), axis=0)


def agree(query, relations):
    expected = sorted(answer(query, relations))
    tries = Tries.of(arrays(relations))
    assert rows_of(leapfrog.leapfrog_join(query, tries)) == expected
    assert leapfrog.leapfrog_join(query, tries, count=True) == len(expected)


@random_cases(300, random_query)
def test_any_query_equals_the_oracle(case, random, uncompiled):
    agree(case.query, case.facts)


def prefixes(query, relations, first: int) -> tuple[np.ndarray, np.ndarray]:
    """The bindings of the first variables of the order that can be extended to all, and the number of extensions of each."""
    join = leapfrog.Leapfrog.of(query, relations)
    loops = join.loops(first)
    rows = np.concatenate([rows for _, rows in loops.pieces()] or [np.empty((0, loops.nest.width), np.int64)])
    counts = rows[:, -1] if loops.nest.width > first else np.ones(len(rows), np.int64)
    return join.tries.domain.decode(rows[:, :first]), counts


@random_cases(150, random_query)
def test_any_prefix_of_the_order_is_listed_with_the_count_of_the_rest(case, random, uncompiled):
    query, relations = case.query, case.facts
    if query.order is None:
        return
    first = query.order[: random.randint(1, len(query.order))]
    places = [query.variables.index(name) for name in first]
    expected = Counter(tuple(row[place] for place in places) for row in answer(query, relations))
    rows, counts = prefixes(query, arrays(relations), len(first))
    assert dict(zip(map(tuple, rows.tolist()), counts.tolist(), strict=True)) == expected


COMPILED = [
    edges("xy", "yz", "xz", relation="b"),
    ConjunctiveQuery(
        (QueryAtom("d", ("x", "y", "z")), QueryAtom("b", ("x", "y")), QueryAtom("c", ("y", "x")), QueryAtom("a", ("z",), True)),
        (Comparison("!=", "y", Constant(2)),),
    ),
    ConjunctiveQuery(
        (QueryAtom("b", ("x", "y")), QueryAtom("c", ("y", "z")), QueryAtom("b", ("x", "z"), True)),
        (Comparison("<", "x", "z"), Comparison(">=", Constant(3), "y")),
        ("x", "y", "z"),
    ),
]


@pytest.mark.parametrize("query", COMPILED, ids=str)
@random_cases(40, random_query)
def test_compiled_kernels_equal_the_oracle(case, random, query):
    agree(*scaled(query, random_relations(random), random.choice(FACTORS)))


sets = st.one_of(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 400), min_size=150))


@given(left=sets, right=sets)
@settings(deadline=None)
def test_intersections_whatever_the_lengths(left, right):
    a, b = (np.array(sorted(values), np.int32) for values in (left, right))
    expected, mark = sorted(left & right), np.zeros(512, np.uint8)
    seeks.set_marks(mark, a, 0, a.size, 1)
    ranges = a, 0, a.size, b, 0, b.size
    out = np.zeros(1 + min(a.size, b.size), np.int32)
    for kernel in (seeks.keep_common, seeks.keep_galloping):
        assert out[: kernel(*ranges, out)].tolist() == expected
    assert out[: seeks.keep_marked(mark, *ranges, out)].tolist() == expected
    assert seeks.count_marked(mark, *ranges) == seeks.count_galloping(*ranges) == len(expected)
    own = b.copy()  # into what it is read from
    assert own[: seeks.keep_common(a, 0, a.size, own, 0, own.size, own)].tolist() == expected


def test_triangles_and_cliques_are_those_of_networkx(oriented):
    triangles = sum(nx.triangles(nx.Graph(oriented.tolist())).values()) // 3
    assert leapfrog.leapfrog_join(TRIANGLE, {"e": oriented}, count=True) == triangles > 1000
    dense = np.unique(np.sort(generators.gnp(40, 0.2, seed=1), axis=1), axis=0)
    sizes = Counter(map(len, nx.enumerate_all_cliques(nx.Graph(dense.tolist()))))
    assert leapfrog.leapfrog_join(CLIQUE, {"e": dense}, count=True) == sizes[4] > 50


def test_runs_of_variables_are_joined_by_bits(oriented, monkeypatch):
    """With every set short enough, some, or none; listed in part, and in a pattern that is not a whole clique."""
    pattern = [*combinations("vwxyz", 2)][:-1]
    for pairs in (combinations("vwxyz", 2), pattern):
        query, counts, rows = edges(*pairs, order=tuple("vwxyz")), set(), []
        source = Generator(Shape(query, query.order), 0).kernel()
        assert "count_both" in source
        for limit in (0, 20, local.LIMIT):
            kernel = compile_kernel(source.replace("LIMIT:", f"{limit}:"))
            monkeypatch.setattr(leapfrog, "compile_kernel", lambda _, kernel=kernel: kernel)
            leapfrog.nest.cache_clear()
            counts.add(leapfrog.leapfrog_join(query, {"e": oriented}, count=True))
        monkeypatch.undo()
        leapfrog.nest.cache_clear()
        for first in (2, 3, 5):
            found, ways = prefixes(query, {"e": oriented}, first)
            rows.append(
                Counter(dict(zip(map(tuple, found[:, :2].tolist()), ways.tolist(), strict=True))) if first == 2 else found
            )
            counts.add(int(ways.sum()))
        assert len(counts) == 1 and min(counts) > 1000
        assert Counter(map(tuple, rows[-1][:, :2].tolist())) == rows[0] and len(np.unique(rows[-1], axis=0)) == min(counts)


def test_threads_and_orders_do_not_change_the_answer(oriented, monkeypatch):
    monkeypatch.setattr(leapfrog, "LEAST_PIECE", 10)
    expected = rows_of(leapfrog.leapfrog_join(TRIANGLE, {"e": oriented}, threads=1))
    for order, threads in (("xyz", 2), ("yxz", 3), ("yxz", 1)):
        rows = leapfrog.leapfrog_join(edges("xy", "yz", "xz", order=tuple(order)), {"e": oriented}, threads=threads)
        assert rows_of(rows) == expected


def test_variables_that_nothing_connects_are_counted_apart(oriented):
    """The house's roof is bound to the walls alone, its floor likewise: the product of two counts."""
    order = ("x", "y", "z", "w", "v")
    house = edges("xy", "yz", "xz", "xw", "wv", "vy", order=order)
    shape = Shape(house, order)
    assert shape.components([2, 3, 4]) == [[2], [3, 4]]
    small = oriented[oriented.max(axis=1) < 150]
    assert leapfrog.leapfrog_join(house, {"e": small}, count=True) == len(leapfrog.leapfrog_join(house, {"e": small})) > 1000


def test_names_and_values_do_not_change_the_kernel():
    renamed = edges("qr", "rs", "qs", relation="knows")
    sources = {Generator(Shape(query, query.variables), 0).kernel() for query in (TRIANGLE, renamed)}
    constants = [edges("xy", comparisons=(Comparison("<", "x", Constant(value)),)) for value in (1, 9)]
    assert len(sources) == 1 == len({Generator(Shape(query, query.variables), 1).kernel() for query in constants})


def test_machine_code_is_kept_for_other_processes(oriented):
    source = Generator(Shape(TRIANGLE, TRIANGLE.variables), 0).kernel()
    compile_kernel(source).compiled()
    again = compile_kernel.__wrapped__(source).dispatcher
    assert sum(again.stats.cache_hits.values()) == 1 and not again.stats.cache_misses


def test_a_good_order_is_chosen(oriented):
    """Every next variable is joined to one before it, and a relation of few tuples comes first."""
    query = ConjunctiveQuery((QueryAtom("e", ("x", "y")), QueryAtom("e", ("y", "z")), QueryAtom("few", ("z", "w"))))
    tries = Tries.of({"e": oriented, "few": [[5], [400]]})
    assert orders.choose_order(query, tries)[0] in ("z", "w")
    assert orders.choose_order(query, tries, first=("x",))[0] == "x"
    path = edges(*zip("abcdefg", "bcdefgh", strict=True))  # too many variables to try every order
    assert orders.Estimate(path, tries).connected(orders.choose_order(path, tries))


def test_tries_in_files_are_the_same(tmp_path):
    rng = np.random.default_rng(1)
    for arity in (1, 2, 3, 5):  # 5 columns of 17 bits are two words a tuple
        columns = [rng.integers(0, 70_000, 500) % 7 * 9_999 for _ in range(arity)]
        trie = TrieArray.build(columns, 70_000)
        read = TrieArray.mapped(ArrayFile.write(trie.arrays(), tmp_path / f"{arity}.trie"))
        tuples = sorted(set(zip(*(column.tolist() for column in columns), strict=True)))
        assert tuples_of(read) == tuples
        assert len(read) == len(tuples) and read.bytes == trie.bytes


def test_relations_without_tuples():
    nothing = np.empty((0, 2), np.int64)
    assert leapfrog.leapfrog_join(TRIANGLE, {"e": nothing}).shape == (0, 3)
    assert leapfrog.leapfrog_join(TRIANGLE, {"e": nothing}, count=True) == 0


LARGEST = (1 << 63) - 1


def test_the_ends_of_64_bits():
    query = ConjunctiveQuery(
        (QueryAtom("e", ("x", "y")),), (Comparison("<=", "x", Constant(LARGEST)), Comparison(">", "y", Constant(-LARGEST - 1)))
    )
    rows = leapfrog.leapfrog_join(query, {"e": [[LARGEST, -LARGEST - 1, 0], [0, LARGEST, -LARGEST - 1]]})
    assert rows_of(rows) == [(-LARGEST - 1, LARGEST), (LARGEST, 0)]
