"""Subgraph queries: what networkx's matcher finds, by every plan; and patterns that cannot be searched for."""

import json
import math
import os
from collections import Counter
from itertools import combinations, product
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from multiway_cases import interpreted
from networkx.algorithms.isomorphism import DiGraphMatcher, GraphMatcher

from semi_naive import BadInput, graphs, subgraphs
from semi_naive.ra.multiway import leapfrog
from semi_naive.simulated_ranks import SimulatedRanks
from semi_naive.subgraph_queries import embeddings
from semi_naive.subgraph_queries.patterns import NAMED, BadPattern, Pattern
from semi_naive.subgraph_queries.vertices import Vertices

ONCE = [HealthCheck.function_scoped_fixture]  # for all examples of a test: just what is meant
SHAPES = {
    "diamond": "diamond",
    "house": "house",
    "ammar-house": "ammar-house",
    "square": ["ab", "bc", "cd", "da"],
    "five-cycle": ["ab", "bc", "cd", "de", "ea"],
    "star": ["ab", "ac", "ad", "ae"],
    "path": ["ab", "bc", "cd"],
    "triangle with a tail": ["ab", "bc", "ca", "cd", "de"],
    "book": ["ab", "ac", "bc", "ad", "bd", "ae", "be"],
    "bow tie": ["ab", "bc", "ca", "cd", "de", "ec"],
}


@pytest.fixture
def uncompiled():
    """Queries' kernels are interpreted: an example costs milliseconds whatever its pattern."""
    leapfrog.nest.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leapfrog, "compile_kernel", interpreted)
        yield
    leapfrog.nest.cache_clear()


def matches(edges, pattern, directed) -> list[dict]:
    """{vertex of the pattern: vertex of the graph} of every embedding, by networkx."""
    kind, matcher = (nx.DiGraph, DiGraphMatcher) if directed else (nx.Graph, GraphMatcher)
    graph, small = kind([edge for edge in edges if edge[0] != edge[1]]), kind(list(pattern))
    found = matcher(graph, small).subgraph_monomorphisms_iter()
    return [{vertex: place for place, vertex in match.items()} for match in found]


def images(found, pattern, directed) -> Counter:
    """The edges that each match covers: what makes it a subgraph."""
    turned = tuple if directed else lambda edge: tuple(sorted(edge))
    return Counter(frozenset(turned((match[u], match[v])) for u, v in pattern) for match in found)


@pytest.fixture
def three_here():
    """A context whose jobs run in this process, on three partitions."""
    return SimpleNamespace(sparkContext=SimulatedRanks(3))


def rows_of(found) -> list[dict]:
    return [dict(zip(found.columns, row, strict=True)) for row in found.to_numpy().tolist()]


numbers = st.integers(0, 7)
edge_lists = st.lists(st.tuples(numbers, numbers), max_size=32)


@st.composite
def patterns(draw, most=5):
    """Connected: every next vertex is joined to some before it, by an edge in either direction, and then a few more."""
    size, edges = draw(st.integers(2, most)), []
    for vertex in range(1, size):
        edges.append(draw(st.permutations([vertex, draw(st.integers(0, vertex - 1))])))
    pairs = st.sampled_from([pair for u, v in combinations(range(size), 2) for pair in ((u, v), (v, u))])
    edges += draw(st.lists(pairs, max_size=4))
    return ["".join("pqrst"[vertex] for vertex in edge) for edge in edges]


@given(edges=edge_lists, pattern=patterns(), directed=st.booleans(), triangles=st.booleans())
@settings(max_examples=120, deadline=None, suppress_health_check=ONCE)
def test_any_pattern_is_found_where_networkx_finds_it(uncompiled, edges, pattern, directed, triangles):
    expected = matches(edges, pattern, directed)
    symmetries = len(Pattern.of(pattern, directed).automorphisms)
    graph = Vertices.of(edges, directed)
    options = {"directed": directed, "triangles": triangles}
    assert subgraphs(graph, pattern, **options) * symmetries == len(expected)
    assert subgraphs(graph, pattern, factorised=False, **options) * symmetries == len(expected)
    assert subgraphs(graph, pattern, symmetry=False, **options) == len(expected)
    once = rows_of(subgraphs(graph, pattern, count=False, **options))
    each = rows_of(subgraphs(graph, pattern, count=False, symmetry=False, **options))
    assert Counter(map(str, map(sorted, map(dict.items, each)))) == Counter(str(sorted(match.items())) for match in expected)
    covered = images(once, pattern, directed)
    assert set(covered) == set(images(expected, pattern, directed)) and max(covered.values(), default=1) == 1


@given(edges=edge_lists, pattern=patterns(4), directed=st.booleans(), budget=st.integers(300, 2000), every=st.booleans())
@settings(max_examples=15, deadline=None, suppress_health_check=ONCE)
def test_every_plan_finds_the_same(uncompiled, three_here, edges, pattern, directed, budget, every):
    graph, asked = Vertices.of(edges, directed), {"directed": directed, "homomorphisms": every}
    expected = subgraphs(graph, pattern, plan="leapfrog", factorised=False, **asked)
    assert subgraphs(graph, pattern, memory=budget, **asked) == expected
    table = subgraphs(graph, pattern, memory=budget, count=False, **asked)
    assert len(table) == expected
    for plan in ("bigjoin", "bigjoin-s"):
        options = {"plan": plan, "spark": three_here, **asked}
        assert subgraphs(graph, pattern, memory=budget, **options) == expected
        rows = subgraphs(graph, pattern, count=False, **options)
        assert Counter(map(tuple, rows.matches.tolist())) == Counter(map(tuple, table.matches.tolist()))
    graph.close()


def test_patterns_share_the_indexes_on_partitions(three_here):
    edges = list(combinations(range(5), 2))
    with Vertices.of(edges) as graph:
        counts = [subgraphs(graph, name, plan="bigjoin", spark=three_here) for name in ("triangle", "4-clique", "triangle")]
        (own,) = graph.spread.values()
        jobs, root = own.cluster.jobs, own.cluster.store.root
        assert counts == [10, 5, 10] and os.path.exists(root)
        known, before = list(own.statics.partitioned["up"].indexes), jobs.ran
        subgraphs(graph, "5-clique", plan="bigjoin", spark=three_here)
        assert own.statics.partitioned["up"].indexes == known and jobs.ran == before + 1
    assert not os.path.exists(root) and not graph.spread


def test_an_undirected_graph_has_one_index_of_its_edges(three_here):
    """An undirected graph's index has both directions of each edge, so searches by either end share it."""
    edges = list(combinations(range(6), 2))
    with Vertices.of(edges) as graph:
        assert subgraphs(graph, "square", plan="bigjoin", spark=three_here, symmetry=False) == 6 * 5 * 4 * 3
        (own,) = graph.spread.values()
        assert [index.order for index in own.statics.partitioned["edge"].indexes] == [(0, 1)]


def test_a_graph_that_is_not_kept_leaves_nothing_behind(three_here, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert subgraphs([(1, 2), (2, 3), (1, 3)], "triangle", plan="bigjoin", spark=three_here) == 1
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def bundled():
    edges = graphs.as_edges(graphs.bundled("p2p-gnutella09")).pairs
    return Vertices.of(edges), nx.Graph(edges.tolist())


def test_a_real_graph(bundled):
    """The patterns with names, compiled; of triangles and cliques as networkx counts them."""
    graph, reference = bundled
    triangles = sum(nx.triangles(reference).values()) // 3
    cliques = Counter(map(len, nx.enumerate_all_cliques(reference)))
    counts = {name: subgraphs(graph, name) for name in NAMED}
    assert counts["triangle"] == triangles == 2354
    assert (counts["4-clique"], counts["5-clique"]) == (cliques[4], cliques[5])
    for name in ("diamond", "house"):
        assert counts[name] == subgraphs(graph, name, factorised=False) > 1000
    assert subgraphs(graph, "triangle", memory=100_000) == triangles
    assert len(np.unique(np.sort(subgraphs(graph, "triangle", count=False).to_numpy(), axis=1), axis=0)) == triangles


def test_on_spark(spark, bundled):
    graph, _ = bundled
    for options in ({"plan": "bigjoin"}, {"plan": "bigjoin-s"}, {"plan": "boxed", "memory": 200_000}):
        assert subgraphs(graph, "triangle", spark=spark, **options) == 2354


@given(edges=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=120), name=st.sampled_from(sorted(SHAPES)))
@settings(max_examples=60, deadline=None, suppress_health_check=ONCE)
def test_factorised_counts_are_those_of_the_listing(uncompiled, edges, name):
    graph = Vertices.of(edges)
    assert subgraphs(graph, SHAPES[name]) == subgraphs(graph, SHAPES[name], factorised=False)


def assignments(pattern: Pattern, edges: set, injective: bool) -> int:
    """Count by trying all vertices for all of the pattern's."""
    nodes = sorted({node for edge in edges for node in edge})
    found = (
        chosen for chosen in product(nodes, repeat=pattern.size)
        if all((chosen[u], chosen[v]) in edges for u, v in pattern.edges)
    )  # fmt: skip
    return sum(not injective or len(set(chosen)) == pattern.size for chosen in found)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=ONCE)
def test_homomorphisms_and_matches_are_counted_by_each_plan(uncompiled, directed, data):
    name = data.draw(st.sampled_from(["square", "ammar-house", "diamond", "house", "path", "triangle", "star"]))
    edges = data.draw(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25))
    pattern = Pattern.of(SHAPES.get(name, name), directed)
    both = {(x, y) for x, y in edges if x != y}
    both |= set() if directed else {(y, x) for x, y in both}
    every, distinct = (assignments(pattern, both, injective) for injective in (False, True))
    graph = Vertices.of(sorted(edges), directed)
    for options in ({}, {"factorised": False}, {"memory": 1 << 20}, {"triangles": True}):
        given_options = {"directed": directed, **options}
        assert subgraphs(graph, SHAPES.get(name, name), homomorphisms=True, **given_options) == every
        assert subgraphs(graph, SHAPES.get(name, name), symmetry=False, **given_options) == distinct
        assert subgraphs(graph, SHAPES.get(name, name), **given_options) * len(pattern.automorphisms) == distinct
    assert len(subgraphs(graph, SHAPES.get(name, name), homomorphisms=True, count=False, directed=directed)) == every


def test_what_a_graph_may_be(uncompiled, tmp_path):
    named = [("Ulm", "Bonn"), ("Bonn", "Jena"), ("Jena", "Ulm"), ("Ulm", "Ulm"), ("Ulm", "Jena")]
    path = tmp_path / "edges.tsv"
    path.write_text("".join(f"{x}\t{y}\n" for x, y in named))
    for graph in (named, nx.Graph(named), nx.DiGraph(named), path):
        table = subgraphs(graph, [("x", "y"), ("y", "z"), ("z", "x")], count=False).to_arrow()
        assert table.column_names == ["x", "y", "z"] and table.num_rows == 1
        assert {column[0].as_py() for column in table.columns} == {"Ulm", "Bonn", "Jena"}
    far = [(-5, 1 << 60), (1 << 60, 7), (7, -5)]
    assert set(subgraphs(far, "triangle", count=False, any_ids=True).to_numpy().ravel().tolist()) == {-5, 7, 1 << 60}
    assert subgraphs(named, "triangle", directed=True) == 1  # Ulm, Bonn, Jena and from the first to the last
    assert subgraphs(named, nx.DiGraph([(1, 2), (2, 3), (3, 1)]), directed=True) == 1
    assert subgraphs([], "house") == 0 and len(subgraphs([], "house", count=False).to_pandas()) == 0
    assert subgraphs(nx.complete_graph(6), nx.complete_graph(6)) == 1


def test_a_given_order_is_kept(uncompiled):
    square = [("p", "q"), ("q", "r"), ("r", "s"), ("s", "p")]
    query = embeddings.embedding_query(Pattern.of(square), True, order=["q", "p", "r", "s"])
    assert query.order == ("b", "a", "c", "d")
    assert subgraphs(nx.cycle_graph(4), square, order=["q", "p", "r", "s"]) == 1
    with pytest.raises(BadPattern, match="each vertex of the pattern once, which are p, q, r, s"):
        subgraphs(nx.cycle_graph(4), square, order=["q", "p"])


def test_triangles_are_looked_up():
    """A 4-clique is three triangles; an unordered triangle is there in six orders, and pairs with an order are compared."""
    clique, house = (embeddings.embedding_query(Pattern.of(name), True, triangles=True) for name in ("4-clique", "house"))
    assert Counter(atom.relation for atom in clique.atoms) == {"triangle": 3} and not clique.comparisons
    assert Counter(atom.relation for atom in house.atoms) == {"corner": 1, "edge": 3}
    assert ("<", "a", "b") in house.comparisons


BAD = [
    ([("a", "b"), ("c", "d")], {}, "not connected: nothing leads from 'a' to 'c'"),
    (nx.Graph([(1, 2), (3, 3)]), {}, "edge from 3 to itself"),
    (nx.union(nx.path_graph(2), nx.empty_graph([7])), {}, "vertex 7 of the pattern has no edge"),
    (
        "pentagon",
        {},
        "the pattern 'pentagon' is unknown: expected triangle, diamond, 4-clique, house, 5-clique, square, ammar-house",
    ),
    ([("a", "a")], {}, "from 'a' to itself"),
    ([], {}, "the pattern has no edges"),
    ([("a", "b", "c")], {}, "is not an edge of a pattern"),
    (7, {}, "a int is not a pattern"),
    (nx.DiGraph([(1, 2)]), {}, "pass directed=True"),
    (nx.path_graph(9), {}, "has 9 vertices, and 8 is the most"),
    ("triangle", {"plan": "magic"}, "the plan 'magic' is unknown"),
    ("triangle", {"memory": 20}, "the least that works is"),
    ("triangle", {"memory": 0}, "expected a number of bytes"),
    ("triangle", {"plan": "boxed"}, "requires memory="),
    ("triangle", {"plan": "leapfrog", "memory": 1 << 20}, "use plan='boxed'"),
    ("triangle", {"local_dir": "/tmp"}, "local_dir= requires plan='boxed', which writes files there: give memory="),
]


@pytest.mark.parametrize("pattern, options, message", BAD, ids=lambda value: None)
def test_what_cannot_be_searched_for_is_said(pattern, options, message):
    with pytest.raises(ValueError, match=message):
        subgraphs([(1, 2), (2, 3), (3, 1)], pattern, **options)


def test_bad_graphs_are_refused():
    with pytest.raises(BadInput):
        subgraphs([(1, 2, 3)], "triangle")
    with pytest.raises(BadInput, match="undirected"):
        subgraphs(nx.path_graph(3), "triangle", directed=True)
    with pytest.raises(ValueError, match="prepared with directed=False"):
        subgraphs(Vertices.of([(1, 2)]), "triangle", directed=True)


def test_the_command(run, tmp_path):
    (tmp_path / "edges.tsv").write_text("1\t2\n2\t3\n3\t1\n3\t4\n")
    assert run("subgraphs", "edges.tsv", "--pattern", "triangle")[:2] == (0, "1\n")
    assert run("subgraphs", "edges.tsv", "--pattern", "a-b,b-c", "--directed")[:2] == (0, "4\n")
    for options, found in (((), 5), (("--all",), 10), (("--homomorphisms",), 18)):  # 18: the squares of degrees, added up
        assert run("subgraphs", "edges.tsv", "--pattern", "a-b,b-c", *options)[:2] == (0, f"{found}\n")
    assert run("subgraphs", "edges.tsv", "--pattern", "triangle", "-o", "found.csv")[0] == 0
    assert sorted(map(int, (tmp_path / "found.csv").read_text().split(","))) == [1, 2, 3]
    status, _, errors = run("subgraphs", "edges.tsv", "--pattern", "triangel")
    assert status == 2 and "the pattern 'triangel' is unknown" in errors
    status, _, errors = run("subgraphs", "edges.tsv", "--pattern", "triangle", "-o", "found.xls")
    assert status == 2 and "cannot tell the format" in errors


def test_the_command_passes_how_to_search(run, tmp_path, monkeypatch):
    (tmp_path / "edges.tsv").write_text("1\t2\n2\t3\n3\t1\n3\t4\n")
    search = ["subgraphs", "edges.tsv", "--pattern", "triangle"]
    assert run(*search, "--order", "c,a,b", "--memory", "100000", "--trace", "found.json")[:2] == (0, "1\n")
    assert json.loads((tmp_path / "found.json").read_text())["order"] == ["c", "a", "b"]
    status, _, errors = run(*search, "--order", "c,a")
    assert status == 2 and "expected each vertex of the pattern once, which are a, b, c" in errors
    passed = {}
    monkeypatch.setattr("semi_naive.cli.edges.subgraphs", lambda graph, pattern, **options: passed.update(options))
    for options, expected in (((), (False, True)), (("--triangles",), (True, True)), (("--no-factorised",), (False, False))):
        run(*search, *options)
        assert (passed["triangles"], passed["factorised"]) == expected and passed["order"] is None and passed["symmetry"]


def test_counts_beyond_64_bits():
    """A star of 60,000 leaves, and two of them that share their leaves."""
    leaves = np.arange(2, 60_002)
    star = Vertices.of(np.stack([np.zeros_like(leaves), leaves], axis=1))
    assert subgraphs(star, ["ab", "ac", "ad", "ae", "af"]) == math.comb(60_000, 5) > 1 << 64
    hubs = [np.stack([np.full_like(leaves, hub), leaves], axis=1) for hub in (0, 1)]
    pair = Vertices.of(np.concatenate([*hubs, [[0, 1]]]))
    assert subgraphs(pair, ["ab", "ac", "bc", "ad", "bd", "ae", "be"]) == math.comb(60_000, 3)
