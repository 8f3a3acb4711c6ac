"""A choice-domain: of the tuples that rules make no two agree in a key, and the same ones are chosen whatever the layout.

The program with expected files is `programs/choice`; random ones have choices too, see `bench.fuzz.random_programs`.
"""

from itertools import product

import numpy as np
import pytest
from session_cases import same

from semi_naive import Branch, Program, ProgramError
from semi_naive.ra.reduce.choice import first_of_keys

MATCHING = """
.decl link(x: number, y: number)
.input link
.decl pair(x: number, y: number) choice-domain x, y
.output pair
pair(x, y) :- link(x, y).
.decl tree(node: number, of: number) choice-domain node
.output tree
tree(0, 0).
tree(y, x) :- tree(x, _), link(x, y).
.decl both(x: number)
.output both
both(x) :- pair(x, _), tree(x, _).
tree(x, x) :- both(x), x % 7 = 0.
"""


def links(number: int, most: int) -> set[tuple[int, int]]:
    return set(map(tuple, np.random.default_rng(number).integers(0, most, (number, 2)).tolist()))


def conflicts(row, kept, keys) -> bool:
    return any(all(row[at] == other[at] for at in key) for other in kept for key in keys)


def tree_of(edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """The least parent of those that reach a node in the first iteration that does."""
    found, last = {0: 0}, {0}
    while last:
        reached = {y: min(x for x, z in edges if z == y and x in last) for x, y in edges if x in last and y not in found}
        found |= reached
        last = set(reached)
    return set(found.items())


@pytest.mark.parametrize(
    "options",
    [{"small_delta": 0}, {"small_delta": 10**6}, {"memory": "1G"}, {"max_iterations": 10**6}],
    ids=["blocks", "small deltas", "memory", "iterations"],
)
@pytest.mark.parametrize("cores", [1, 3])
def test_what_is_chosen_depends_on_the_tuples_alone(monkeypatch, machine, cores, options):
    monkeypatch.setattr("semi_naive.ra.rules.derive.MIN_SLICE_BINDINGS", 1)
    monkeypatch.setattr("semi_naive.running.relations.cluster.Cluster.driver_cores", cores)
    edges = links(900, 150)
    with Program(MATCHING).run({"link": edges}, **options) as result:
        pairs, tree = result["pair"].to_set(), result["tree"].to_set()
        assert pairs <= edges and len({x for x, _ in pairs}) == len({y for _, y in pairs}) == len(pairs)
        assert all(conflicts(row, pairs, [(0,), (1,)]) for row in edges)
        kept = []
        for row in sorted(edges):
            kept += [row] * (not conflicts(row, kept, [(0,), (1,)]))
        assert pairs == set(kept) and tree == tree_of(edges)


def test_partitions_and_sessions_choose_the_same(here):
    edges = links(300, 60)
    with Program(MATCHING).run({"link": edges}) as result:
        expected = {name: result[name].to_set() for name in ("pair", "tree", "both")}
    options = {"local_tuples": 0, "replicate_bytes": 0, "buckets": 4, "partitions": 3}
    with Program(MATCHING).run({"link": edges}, here, **options) as result:
        assert {name: result[name].to_set() for name in expected} == expected
        assert "a choice-domain chooses among all tuples of an iteration" in result.explain()
    with Program(MATCHING).session({"link": []}, spark=here, **options) as session:
        session.insert("link", edges)
        assert {name: session[name].to_set() for name in expected} == expected


@pytest.mark.parametrize("plan", ["auto", "balanced"])
def test_explain_says_where_a_choice_is_made(plan):
    told = Program(MATCHING).explain({"link": [(0, 1)]}, plan=plan, local_tuples=0)
    assert "plan local: a choice-domain chooses among all tuples of an iteration" in told


def test_symbols_and_other_values_go_by_what_they_are_and_not_by_when_they_were_met():
    text = """
    .type Pair = [a: number, s: symbol]
    .type Tree = Leaf {} | Node {n: float}
    .decl given(k: number, s: symbol, f: float, u: unsigned, p: Pair, t: Tree)
    .input given
    """
    names = ["s", "f", "u", "p", "t"]
    types = ["symbol", "float", "unsigned", "Pair", "Tree"]
    for name, type_ in zip(names, types, strict=True):
        text += f".decl one_{name}(k: number, x: {type_}) choice-domain k\n.output one_{name}\n"
        text += f"one_{name}(k, {name}) :- given(k, s, f, u, p, t), s = s, f = f, u = u, p = p, t = t.\n"
    rows = [
        (1, "b", 1.5, 2**63, (10, "x"), Branch("Node", 2.0)),
        (1, "ä", -2.5, 3, (2, "y"), Branch("Leaf")),
        (1, "a", -0.5, 2**64 - 1, None, Branch("Node", 1.0)),
    ]
    expected = {"s": "a", "f": -2.5, "u": 3, "p": (10, "x"), "t": Branch("Leaf")}  # records by their text: [10, x] < [2, y]
    for order in (rows, rows[::-1]):
        with Program(text).run({"given": order}) as result:
            assert {name: result[f"one_{name}"].to_list() for name in names} == {
                name: [(1, value)] for name, value in expected.items()
            }


def test_facts_are_there_rules_come_in_their_order_and_of_facts_in_the_text_the_first_stays():
    text = """
    .decl p(x: number, y: number) choice-domain x
    .input p
    .output p
    .decl q(x: number, y: number)
    .input q
    p(x, y) :- q(x, y), y > 5.
    p(4, 4).
    p(x, y) :- q(x, y).
    p(4, 3).
    p(1, 0).
    """
    facts = {"p": {(1, 9), (1, 8)}, "q": {(1, 1), (2, 3), (2, 7), (2, 8), (3, 1), (3, 2), (4, 9)}}
    chosen = {(1, 9), (1, 8), (2, 7), (3, 1), (4, 4)}
    with Program(text).run(facts) as result:
        assert result["p"].to_set() == chosen
    with Program(text).session(facts) as session:
        assert session["p"].to_set() == chosen


def test_facts_of_records_are_facts():
    text = """
    .type Pair = [a: number, b: number]
    .decl p(x: Pair, y: number) choice-domain y
    .output p
    p([0, 0], y) :- y = range(1, 4).
    p([1, 1], 1).
    p([2, 2], 2).
    p(nil, 2).
    """
    expected = {((1, 1), 1), ((2, 2), 2), ((0, 0), 3)}
    with Program(text).run() as result:
        assert result["p"].to_set() == expected
    with Program(text).session() as session:
        assert session["p"].to_set() == expected


@pytest.mark.parametrize("keys, columns", [("x", 1), ("x, y", 2), ("(x, y)", 3), ("y", 1)])
def test_candidates_that_will_not_be_chosen_are_dropped_while_a_rule_makes_more(monkeypatch, keys, columns):
    """Of a product no more is kept than a choice needs, where that is known before all of it is made."""
    text = f".decl n(x: number)\n.input n\n.decl p(x: number, y: number) choice-domain {keys}\n.output p\n"
    text += "p(x, y) :- n(x), n(y), x + y > 3."
    monkeypatch.setattr("semi_naive.ra.reduce.choice.MAX_CANDIDATES", 4)
    monkeypatch.setattr("semi_naive.ra.rules.derive.MAX_BUFFERED_TUPLES", 2)
    monkeypatch.setattr("semi_naive.ra.rules.steps.MAX_BATCH_BINDINGS", 3)
    found = [row for row in product(range(10), repeat=2) if sum(row) > 3]
    places = {"x": [(0,)], "y": [(1,)], "x, y": [(0,), (1,)], "(x, y)": [(0, 1)]}[keys]
    kept = []
    for row in found:
        kept += [row] * (not conflicts(row, kept, places))
    with Program(text).run({"n": [(x,) for x in range(10)]}) as result:
        assert result["p"].to_set() == set(kept)


def test_the_first_of_each_key_is_kept():
    kept = first_of_keys([np.array([3, 1, 3, 1, 2]), np.array([1, 1, 2, 3, 3])], 5, ((0,), (1,)))
    assert kept.tolist() == [True, False, False, True, False]
    assert first_of_keys([np.empty(0, np.int64)], 0, ((0,),)).tolist() == []


def test_a_choice_is_made_anew_as_facts_come_and_go():
    told = same(
        MATCHING,
        {"link": [(0, 1), (1, 2), (0, 2)]},
        ("insert", "link", [(0, 3), (2, 3)]),
        ("delete", "link", [(0, 1)]),
        ("insert", "link", [(2, 7), (7, 2)]),
        ("clear", "link", []),
    )
    assert told[1]["pair"] == [(0, 1, -1), (0, 2, 1), (1, 2, -1)]


def test_a_session_with_a_choice_is_found_again(tmp_path):
    edges = links(60, 20)
    with Program(MATCHING).session({"link": edges}, path=tmp_path / "state") as session:
        expected = {name: session[name].to_set() for name in ("pair", "tree", "both")}
    with Program(MATCHING).session(path=tmp_path / "state") as session:
        assert {name: session[name].to_set() for name in expected} == expected
        session.insert("link", [(0, 19)])
    other = MATCHING.replace("choice-domain x, y", "choice-domain y")
    with Program(other).session(path=tmp_path / "state") as session, Program(other).run({"link": edges | {(0, 19)}}) as result:
        assert session["pair"].to_set() == result["pair"].to_set()


def test_why_a_tuple_was_chosen_and_another_was_not():
    with Program(MATCHING).run({"link": [(0, 2), (0, 1), (1, 2), (2, 1)]}) as result:
        assert result.why("tree", (2, 0)).height == 1
        assert [str(each.atom) for each in result.why("pair", (0, 1)).premises] == ["link(0, 1)"]
        [failure] = result.why_not("pair", (0, 2)).failures
        assert failure.part == "of tuples with the same x there is one, and that is pair(0, 1)"
        failures = result.why_not("tree", (1, 2)).failures
        assert failures[0].part == "of tuples with the same node there is one, and that is tree(1, 0)"


def test_what_is_asked_on_demand_or_inlined_is_chosen_whole():
    text = MATCHING.replace("choice-domain", "magic choice-domain").replace(".output pair", "").replace(".output tree", "")
    text = text.replace("both(x: number)", "both(x: number) inline").replace(".output both", "")
    text += ".decl asked(y: number)\n.output asked\nasked(y) :- pair(1, y).\n"
    edges = links(100, 30)
    with Program(MATCHING).run({"link": edges}) as all_of, Program(text).run({"link": edges}) as result:
        assert result["asked"].to_set() == {(y,) for x, y in all_of["pair"].to_set() if x == 1}


def test_a_relation_with_a_choice_that_is_to_be_inlined_stays():
    text = ".decl n(x: number)\n.input n\n.decl one(x: number, y: number) inline choice-domain x\none(1, x) :- n(x).\n"
    text += ".decl found(y: number)\n.output found\nfound(y) :- one(1, y)."
    with Program(text).run({"n": [(3,), (2,), (5,)]}) as result:
        assert result["found"].to_list() == [(2,)]


@pytest.mark.parametrize(
    "declaration, place, message",
    [
        (".decl p(x: number) choice-domain z", (1, 34), "Attribute z not found in relation definition"),
        (".decl p(x: number) choice-domain x, (x, z)", (1, 37), "Attribute z not found in relation definition"),
        (".decl p() choice-domain x", (1, 25), "Attribute x not found in relation definition"),
        (
            ".decl p(x: number, y: number) eqrel choice-domain x",
            (1, 37),
            "Relation p has the qualifier eqrel and a choice-domain",
        ),
        (
            ".decl p(x: number, y: number) choice-domain x\np(1, min(2)).",
            (2, 1),
            "Relation p has a choice-domain and min in its heads",
        ),
        (
            ".decl p(x: number, y: number) choice-domain x\np(1, count(2)) :- true.",
            (2, 1),
            "Relation p has a choice-domain and count in its heads",
        ),
        (
            ".decl p(x: number) choice-domain x\n.decl q(x: number)\n.semantics wellfounded\nq(1).\np(x) :- q(x), !p(x).",
            (1, 7),
            "p may have undefined tuples, and so cannot have a choice",
        ),
    ],
)
def test_what_is_wrong_with_a_choice(declaration, place, message):
    with pytest.raises(ProgramError) as wrong:
        Program(f"{declaration}\n.output p")
    [problem] = [problem for problem in wrong.value.problems if problem.severity == "Error"]
    assert problem.message.startswith(message)
    assert (problem.span.line, problem.span.column) == place
