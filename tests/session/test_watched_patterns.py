"""Subscriptions to changes alone: of registered rules whose tuples are not kept, and of patterns by name."""

import logging
from itertools import combinations, permutations, product
from random import Random

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.algorithms.isomorphism import GraphMatcher
from session_cases import SETTINGS

from semi_naive import Program
from semi_naive.host import limits
from semi_naive.io.errors import BadInput
from semi_naive.subgraph_queries.patterns import NAMED, BadPattern, Pattern

NUMBERS = Program(".decl edge(x: number, y: number)\n.input edge\n.decl bad(x: number)\n.input bad")
SYMBOLS = Program(".decl edge(x: symbol, y: symbol)\n.input edge")
SEEDS = st.integers(0, 1 << 30)
RULES = {
    "triangle(x, y, z)": "triangle(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).",
    "open(x, y, z)": "open(x, y, z) :- edge(x, y), edge(y, z), !edge(x, z), x != z, !bad(y).",
    "sums(x, y, z)": "sums(x, y, x + y) :- edge(x, y), edge(y, x), x < 5.",
    "of(y, z)": "of(y, z) :- edge($src, y), edge(y, z).",
}


class Followed:
    """The tuples that the changes add up to: each one appears before it disappears, and disappears before it appears again."""

    def __init__(self, *first):
        self.rows, self.epochs = set(first), []

    def __call__(self, changes, epoch):
        self.epochs.append(epoch)
        for *row, diff in changes.to_list():
            assert (tuple(row) in self.rows) == (diff < 0), (row, diff)
            (self.rows.add if diff > 0 else self.rows.remove)(tuple(row))


def kept(session) -> dict[str, int]:
    """The tuples of the relations of a session."""
    return {name: tuples for name, tuples, _ in session["sys.memory"].to_list()}


def register_all(session) -> None:
    for answer, rule in RULES.items():
        name, variables = answer.rstrip(")").split("(")
        attributes = ", ".join(f"{variable}: number" for variable in variables.split(", "))
        session.register(name, f".decl {name}({attributes})\n{rule}")


def changed_at_random(session, edges: set, random, vertices: list) -> None:
    """Insert and delete some edges in a transaction, also in `edges`."""
    with session.transaction() as transaction:
        for _ in range(random.choice([1, 2, 8])):
            edge = random.choice(vertices), random.choice(vertices)
            if random.random() < 0.6:
                transaction.insert("edge", [edge])
                edges.add(edge)
            else:
                transaction.delete("edge", [edge])
                edges.discard(edge)
        if "bad" in session:
            (transaction.insert if random.random() < 0.5 else transaction.delete)("bad", [(random.choice(vertices),)])


def check_random_changes(random, transactions: int, **config) -> None:
    """Changes alone add up to what a query evaluates, after each of some random transactions."""
    vertices = list(range(7))
    edges = [tuple(random.choices(vertices, k=2)) for _ in range(15)]
    with NUMBERS.session({"edge": edges}, **config) as s:
        register_all(s)
        given = {answer: {"src": 1} if answer.startswith("of") else {} for answer in RULES}
        followed = {answer: Followed(*s.query(answer, **given[answer])) for answer in RULES}
        for answer, callback in followed.items():
            s.subscribe(answer.partition("(")[0], callback, keep=False, **given[answer])
        s.subscribe("of", Followed(*s.query("of(y, z)", src=2)), keep=False, src=2)
        for _ in range(transactions):
            changed_at_random(s, set(), random, vertices)
            for answer in RULES:
                assert followed[answer].rows == s.query(answer, **given[answer]).to_set(), answer
        assert not any(tuples for name, tuples in kept(s).items() if name.endswith("@changes"))
        assert kept(s).keys() & {"triangle", "open", "sums", "of"} == set()


@settings(max_examples=20, **SETTINGS)
@given(SEEDS)
def test_changes_alone_add_up_to_the_answers(seed):
    check_random_changes(Random(seed), 8)


def test_changes_alone_of_relations_on_the_partitions():
    check_random_changes(Random(3), 2, local_tuples=0, partitions=2, buckets=4)


def matches(pattern, edges: set, directed: bool, symmetry: bool, homomorphisms: bool) -> int:
    """Count the matches by networkx, or homomorphisms one by one."""
    shape = Pattern.of(pattern, directed)
    graph = (nx.DiGraph if directed else nx.Graph)([(x, y) for x, y in edges if x != y])
    if homomorphisms:
        assigned = product(graph.nodes, repeat=shape.size)
        return sum(all(graph.has_edge(found[u], found[v]) for u, v in shape.edges) for found in assigned)
    wanted = (nx.DiGraph if directed else nx.Graph)(shape.edges)
    matcher = nx.algorithms.isomorphism.DiGraphMatcher if directed else GraphMatcher
    found = sum(1 for _ in matcher(graph, wanted).subgraph_monomorphisms_iter())
    return found // len(shape.automorphisms) if symmetry else found


@settings(max_examples=20, **SETTINGS)
@given(SEEDS)
def test_patterns_are_followed_by_name(seed):
    random = Random(seed)
    pattern = random.choice([*NAMED, [("p", "q"), ("q", "r")], [("p", "q"), ("q", "r"), ("r", "s"), ("s", "p"), ("p", "t")]])
    options = {name: random.random() < 0.3 for name in ("directed", "homomorphisms")} | {"symmetry": random.random() < 0.7}
    triangles, program = random.random() < 0.4, random.choice([NUMBERS, SYMBOLS])
    vertices = [f"v{number}" if program is SYMBOLS else number for number in range(6)]
    with program.session() as s:
        followed, edges = Followed(), set()
        counted = Followed()
        s.watch(pattern, followed, triangles=triangles, **options)
        watch = s.watch(pattern, counted, count=True, snapshot=True, triangles=triangles, **options)
        for _ in range(6):
            changed_at_random(s, edges, random, vertices)
            wanted = matches(pattern, edges, options["directed"], options["symmetry"], options["homomorphisms"])
            assert len(followed.rows) == wanted and counted.rows == {(wanted,)}
            assert s[watch.relation].to_list() == [(wanted,)]


def edges_of(row: tuple) -> set[tuple]:
    """The edges of a diamond, a row of changes."""
    return {(row["abcd".index(u)], row["abcd".index(v)]) for u, v in NAMED["diamond"]}


@settings(max_examples=15, **SETTINGS)
@given(st.lists(st.sets(st.sampled_from(list(combinations(range(7), 2))), min_size=1, max_size=6), max_size=6))
def test_a_match_is_told_once_and_is_one(toggled):
    followed, edges = Followed(), set()
    with NUMBERS.session() as s:
        s.watch("diamond", followed)
        for some in toggled:
            with s.transaction() as t:
                t.delete("edge", sorted(some & edges))
                t.insert("edge", sorted(some - edges))
            edges ^= some
            both = {*edges, *((y, x) for x, y in edges)}
            for row in followed.rows:
                assert len(set(row)) == 4 and edges_of(row) <= both
            assert len({frozenset(map(frozenset, edges_of(row))) for row in followed.rows}) == len(followed.rows)


def test_nothing_of_the_order_of_the_answer_is_made_or_kept(monkeypatch):
    bindings, visit = [], limits.Work.visit
    monkeypatch.setattr(limits.Work, "visit", lambda work, number: (bindings.append(number), visit(work, number)))
    side = 60  # a complete bipartite graph: 3,600 edges, and (60 · 59 / 2)² = 3,132,900 squares
    edges = list(product(range(side), range(side, 2 * side)))
    with NUMBERS.session({"edge": edges}) as s:
        told = []
        s.watch("square", lambda changes, epoch: told.append((changes.inserted, changes.deleted)))
        s.delete("edge", edges[:1])
        s.insert("edge", edges[:1])
        assert told == [(0, 59 * 59), (59 * 59, 0)]
        assert len(edges) < sum(bindings) < 30 * len(edges) < 59 * 59 * 59
        assert sum(kept(s).values()) <= 4 * len(edges)
        s.watch("square", lambda changes, epoch: None, count=True)
        assert s["edge__square_count"].to_list() == [((side * (side - 1) // 2) ** 2,)] and kept(s)["edge__square_count"] == 1


def test_watched_patterns_share_their_indexes_and_leave_nothing_behind():
    with NUMBERS.session({"edge": [(1, 2), (2, 3)]}) as s:
        first, again = (s.watch("triangle", Followed()) for _ in range(2))
        other = s.watch("triangle", Followed(), symmetry=False)
        assert first.relation == again.relation == "edge__triangle" and other.relation == "edge__triangle_2"
        changed = s.insert("edge", [(3, 1)]).changes
        assert changed["edge__triangle"].to_list() == [(1, 2, 3, 1)] and changed["edge__triangle_2"].count() == 6
        assert ("edge__triangle", "") in s.query("sys.subscription(r, n, _, _)").to_set()
        for watch in (first, again, other):
            watch.cancel()
        assert kept(s).keys() == {"edge", "bad"}
        assert s.query("edge__triangle(a, b, c)").to_list() == [(1, 2, 3)]
        s.unregister("edge__triangle")


def test_changes_alone_are_no_copy_of_the_same_rules_that_are_kept():
    rules = ".decl {0}(x: number, y: number)\n{0}(x, y) :- edge(x, y), edge(y, x)."
    with NUMBERS.session({"edge": [(1, 2)]}) as s:
        for name in ("kept", "told"):
            s.register(name, rules.format(name))
        both, followed = s.subscribe("kept", Followed()), Followed()
        s.subscribe("told", followed, keep=False)
        s.insert("edge", [(2, 1)])
        assert followed.rows == {(1, 2), (2, 1)} and kept(s)["told@changes"] == 0
        both.cancel()
        s.delete("edge", [(1, 2)])
        assert not followed.rows


def test_a_failed_transaction_tells_nothing_and_the_next_one_follows():
    followed = Followed()
    with NUMBERS.session({"edge": [(1, 2), (2, 3)]}) as s:
        s.watch("triangle", followed)
        with pytest.raises(KeyError), s.transaction() as t:
            t.insert("edge", [(1, 3)])
            raise KeyError
        assert not followed.epochs
        s.insert("edge", [(3, 1)])
        assert followed.rows == {(1, 2, 3)}
        with pytest.raises(ValueError, match="edge__triangle is needed by 1 subscription"):
            s.unregister("edge__triangle")
        with pytest.raises(ValueError, match="edge__both is read by edge__triangle|edge__up is read by"):
            s.unregister("edge__up")


def test_changes_for_a_name_outlive_the_process(tmp_path):
    with NUMBERS.session({"edge": [(1, 2), (2, 3)]}, path=tmp_path) as s:
        s.watch("triangle", Followed(), name="billing").cancel()
        s.insert("edge", [(1, 3)])
    with NUMBERS.session(path=tmp_path) as s:
        s.delete("edge", [(1, 2)])
        told = []
        subscription = s.watch("triangle", lambda changes, epoch: told.append((epoch, changes.to_list())), name="billing")
        assert told == [(1, [(1, 2, 3, 1)]), (2, [(1, 2, 3, -1)])]
        assert "edge__triangle" not in s.relations and kept(s)["edge__triangle@changes"] == 0
        subscription.ack(2)
        subscription.cancel()
        s.end_subscription("billing")
        assert kept(s).keys() == {"edge", "bad"}


def test_what_cannot_be_told_without_the_tuples():
    with NUMBERS.session({"edge": [(1, 2), (2, 3)]}) as s:
        for rules in (
            "r(x, y) :- edge(x, _), edge(_, y).",
            "r(x, z) :- edge(x, y), edge(y, z).",
            "r(x, y) :- edge(x, y). r(x, y) :- edge(y, x).",
            "r(x, y) :- edge(x, y). r(x, z) :- r(x, y), edge(y, z).",
            "r(x, n) :- edge(x, _), n = count : { edge(x, _) }.",
        ):
            s.register("r", f".decl r(x: number, y: number)\n{rules}")
            with pytest.raises(ValueError, match="the changes of r cannot be told without its tuples: keep=False takes one"):
                s.subscribe("r", print, keep=False)
            s.subscribe("r", print).cancel()
            s.unregister("r")
        with pytest.raises(KeyError, match="'edge' is not registered"):
            s.subscribe("edge", print, keep=False)
        for options in ({"snapshot": True}, {"since": 0}):
            with pytest.raises(ValueError, match="keep=False keeps no tuples of edge__triangle, so there is no snapshot"):
                s.register("edge__triangle", ".decl edge__triangle(a: number)\nedge__triangle(a) :- edge(a, a).")
                s.subscribe("edge__triangle", print, keep=False, **options)
            s.unregister("edge__triangle")
        with pytest.raises(BadPattern, match="the pattern 'trio' is unknown"):
            s.watch("trio", print)
        with pytest.raises(BadInput, match=r"bad\(x: number\) is no relation of edges"):
            s.watch("triangle", print, edges="bad")
        s.register("edge__up", ".decl edge__up(x: number)\nedge__up(x) :- edge(x, x).")
        with pytest.raises(ValueError, match="edge__up is registered already"):
            s.watch("triangle", print)


def test_a_callback_that_fails_is_logged(caplog):
    with NUMBERS.session({"edge": [(1, 2), (2, 3)]}) as s, caplog.at_level(logging.ERROR):
        s.watch("triangle", lambda changes, epoch: 1 / 0)
        assert s.insert("edge", [(1, 3)]).epoch == 1
    assert "a subscriber to edge__triangle has failed" in caplog.text


def test_corners_are_the_triangles_in_every_order():
    with NUMBERS.session({"edge": [(1, 2), (2, 3)]}) as s:
        followed = Followed()
        s.watch("triangle", followed, triangles=True, symmetry=False)
        s.insert("edge", [(3, 1)])
        assert followed.rows == set(permutations((1, 2, 3))) and kept(s)["edge__corners"] == 6
