"""Subsumption: tuples that others of their relation make superfluous go, in each iteration, by any rules.

The program with expected files is `programs/subsumption`, whose results Soufflé has as well; random programs compare
tuples too, see `bench.fuzz.random_programs`.
"""

import math

import numpy as np
import pytest
from session_cases import same

from bench.fuzz.oracle import solve
from semi_naive import Program, ProgramError
from semi_naive.language import compile_text
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import remove_tuples
from semi_naive.ra.blocks.table import Table

SKYLINE = """
.decl point(x: number, y: number)
.input point
.decl best(x: number, y: number)
.output best
best(x, y) :- point(x, y).
best(x, y) <= best(u, v) :- u <= x, v <= y.
.decl many(n: number, least: number)
.output many
many(n, m) :- n = count : { best(_, _) }, m = min x : { best(x, _) }.
.decl worse(x: number, y: number)
.output worse
worse(x, y) :- point(x, y), !best(x, y).
"""
WAYS = """
.decl road(x: number, y: number, km: number, toll: number)
.input road
.decl way(x: number, y: number, km: number, toll: number)
.output way
way(x, y, d, t) :- road(x, y, d, t).
way(x, z, d + e, t + u) :- way(x, y, d, t), road(y, z, e, u).
way(x, y, d, t) <= way(x, y, e, u) :- e <= d, u <= t.
.decl free(x: number, y: number)
.output free
free(x, y) :- way(x, y, _, 0).
"""


def points(number: int, most: int) -> set[tuple[int, int]]:
    return set(map(tuple, np.random.default_rng(number).integers(0, most, (number, 2)).tolist()))


def undominated(rows: set[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(x, y) for x, y in rows if not any((u, v) != (x, y) and u <= x and v <= y for u, v in rows)}


def roads(number: int) -> set[tuple[int, ...]]:
    random = np.random.default_rng(number)
    columns = (
        random.integers(0, 7, number),
        random.integers(0, 7, number),
        random.integers(1, 9, number),
        random.integers(0, 4, number),
    )
    return set(zip(*(column.tolist() for column in columns), strict=True))


def ways(given: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """What no other way is as short and as cheap as, by trying all."""
    found: dict[tuple[int, int], set[tuple[int, int]]] = {}
    waiting = list(given)
    while waiting:
        x, y, d, t = waiting.pop()
        now = found.setdefault((x, y), set())
        if any(e <= d and u <= t for e, u in now):
            continue
        found[x, y] = {(e, u) for e, u in now if not (d <= e and t <= u)} | {(d, t)}
        waiting += [(x, z, d + e, t + u) for w, z, e, u in given if w == y]
    return {(x, y, d, t) for (x, y), some in found.items() for d, t in some}


@pytest.mark.parametrize("options", [{"small_delta": 0}, {"small_delta": 10**6}], ids=["blocks", "small deltas"])
@pytest.mark.parametrize("cores", [1, 3])
def test_what_is_left_is_what_nothing_subsumes(monkeypatch, machine, cores, options):
    monkeypatch.setattr("semi_naive.ra.rules.derive.MIN_SLICE_BINDINGS", 1)
    monkeypatch.setattr("semi_naive.running.relations.cluster.Cluster.driver_cores", cores)
    given = roads(40)
    with Program(WAYS).run({"road": given}, **options) as result:
        assert result["way"].to_set() == ways(given)
        assert result["free"].to_set() == {(x, y) for x, y, _, t in ways(given) if not t}


@pytest.mark.parametrize("spread, most", [(64, 1 << 16), (2, 3), (1000, 5)])
def test_every_tuple_is_compared_with_every_other_where_no_value_is_the_same(monkeypatch, spread, most):
    """Later strata have what is left, and no more."""
    monkeypatch.setattr("semi_naive.running.driver.dominance.FIRST_COMPARED_TUPLES", spread)
    monkeypatch.setattr("semi_naive.running.driver.dominance.MAX_COMPARED_TUPLES", most)
    for given in (points(700, 400), points(30, 6), {(1, 1)}, set(), {(x, -x) for x in range(300)}):
        with Program(SKYLINE).run({"point": given}) as result:
            best = undominated(given)
            assert result["best"].to_set() == best and result["worse"].to_set() == given - best
            assert result["many"].to_set() == ({(len(best), min(x for x, _ in best))} if best else set())
            assert {*result} == {"point", "best", "many", "worse"}


def test_partitions_and_sessions_leave_the_same(here):
    given, options = roads(40), {"local_tuples": 0, "replicate_bytes": 0, "buckets": 4, "partitions": 3}
    with Program(WAYS).run({"road": given}, here, **options) as result:
        assert result["way"].to_set() == ways(given)
        assert "all tuples are compared with those of an iteration" in result.explain()
    with Program(WAYS).session({"road": []}, spark=here, **options) as session:
        session.insert("road", given)
        assert session["way"].to_set() == ways(given)


GROWING = """
.decl given(x: number, y: number)
.input given
.decl r(x: number, y: number)
.output r
r(x, y) :- given(x, y).
.decl q(x: number, n: number)
q(x, 0) :- r(x, _).
q(x, n + 1) :- q(x, n), n < 5.
.decl after(x: number, y: number)
.output after
after(x, y) :- r(x, y).
"""


@pytest.mark.parametrize(
    "rule, left",
    [
        ("r(x, y) <= r(x, z) :- q(x, 0), y < z.", {(1, 4), (2, 9), (3, 3)}),
        ("r(x, y) <= r(x, z) :- q(x, 5), y < z.", {(1, 4), (2, 9), (3, 3)}),
        ("r(x, y) <= r(x, z) :- q(x, 6), y < z.", {(1, 2), (1, 3), (1, 4), (2, 8), (2, 9), (3, 3)}),
        ("r(x, y) <= r(u, z) :- q(x, 2), q(_, 4), u < x, z < y.", {(1, 2), (1, 3), (1, 4)}),
        ("r(x, y) <= r(x, z) :- q(x, 3), y < z.\nr(x, y) <= r(u, z) :- q(u, 4), u > x, z < y.", {(3, 3)}),
        ("r(x, y) <= r(x, z) :- r(y, _), y < z.", {(1, 4), (2, 8), (2, 9), (3, 3)}),
    ],
)
@pytest.mark.parametrize("cores", [1, 3])
def test_tuples_are_compared_again_when_a_condition_of_their_stratum_grows(monkeypatch, here, cores, rule, left):
    monkeypatch.setattr("semi_naive.running.relations.cluster.Cluster.driver_cores", cores)
    facts, apart = [(1, 2), (1, 3), (1, 4), (2, 8), (2, 9), (3, 3)], {"local_tuples": 0, "replicate_bytes": 0, "buckets": 4}
    program = Program(GROWING + rule)
    assert solve(program.checked, {"given": set(facts)})["r"] == left
    for options in ({}, apart):
        with program.run({"given": facts}, here, **options) as result:
            assert result["r"].to_set() == result["after"].to_set() == left
        with program.session({"given": facts[:2]}, spark=here, **options) as session:
            session.insert("given", facts[2:])
            assert session["r"].to_set() == session["after"].to_set() == left


def test_subsumption_as_facts_come_and_go():
    told = same(
        WAYS,
        {"road": [(0, 1, 5, 1), (1, 2, 5, 1), (0, 2, 20, 0)]},
        ("insert", "road", [(0, 1, 4, 1), (2, 0, 1, 1)]),
        ("delete", "road", [(0, 1, 4, 1)]),
        ("insert", "road", [(0, 2, 2, 0)]),
        ("clear", "road", []),
    )
    assert {(0, 2, 2, 0, 1), (0, 2, 10, 2, -1), (0, 2, 20, 0, -1)} <= set(told[2]["way"])


LATTICE = """
.decl edge(x: number, y: number, w: number)
.input edge
.decl dist(y: number, d: number)
.output dist
dist(0, 0).
dist(y, d + w) :- dist(x, d), edge(x, y, w).
"""
KEPT = "dist(y, c) <= dist(y, e) :- e < c."


@pytest.mark.parametrize(
    "rule, lattice",
    [
        (KEPT, "min"),
        ("dist(y, c) <= dist(y, e) :- e <= c.", "min"),
        ("dist(y, c) <= dist(y, e) :- c > e.", "min"),
        ("dist(y, c) <= dist(y, e) :- c >= e.", "min"),
        ("dist(y, c) <= dist(y, e) :- e > c, edge(_, _, c).", None),
        ("dist(y, c) <= dist(y, e) :- e < c.\ndist(y, c) <= dist(y, e) :- e < c, y = 2.", None),
        ("dist(y, c) <= dist(x, c) :- x < y.", None),
        ("dist(y, c) <= dist(y, e) :- e != c, e < c.", None),
        ("dist(y, 7) <= dist(y, e) :- e < 7.", None),
        (KEPT + "\ndist(y, 2 * d) :- dist(y, d), d < 5, d != 0.", None),
        (KEPT + "\ndist(d, 1) :- dist(_, d), d < 3.", None),
        (KEPT + "\n.decl near(x: number)\nnear(x) :- dist(x, d), d = 4.\n.output near", "min"),
        (KEPT + "\n.decl near(x: number)\nnear(x) :- dist(x, d), d = 4.\ndist(x, 3) :- near(x).\n.output near", None),
        (KEPT + "\n.decl far(x: number)\nfar(x) :- edge(x, _, _), !dist(x, _).\n.output far", "min"),
        (KEPT + "\ndist(y, max(d, e)) :- dist(x, d), edge(x, y, _), dist(y, e).", "min"),
    ],
)
def test_what_keeps_the_best_of_each_key_is_a_lattice(rule, lattice):
    program = Program(LATTICE + rule)
    assert program.checked.relations["dist"].lattice == lattice
    edges = {(x, y, w) for x, y in points(25, 8) for w in (1 + (x + y) % 3,)}
    heads = LATTICE.replace("d + w", "min(d + w)").replace("(0, 0)", "(0, min(0))")
    if lattice and "max" not in rule:
        with program.run({"edge": edges}) as result, Program(heads).run({"edge": edges}) as expected:
            assert result["dist"].to_set() == expected["dist"].to_set()


@pytest.mark.parametrize(
    "declaration, op, lattice",
    [
        ("y: number, d: unsigned", "<", "min"),
        ("y: number, d: unsigned", ">", "max"),
        ("y: number, d: symbol", "<", None),
        ("y: number, d: float", "<", "min"),
        ("y: number, d: unsigned) choice-domain (y, d", "<", None),
    ],
)
def test_only_numbers_make_a_lattice(declaration, op, lattice):
    of = declaration.split(")")[0].split(": ")[-1]
    text = f".decl p({declaration})\n.decl q(y: number, d: {of})\n.input q\np(y, d) :- q(y, d).\n"
    assert compile_text(text + f".output p\np(y, c) <= p(y, e) :- e {op} c.").relations["p"].lattice == lattice


def test_a_lattice_by_subsumption_is_spread_as_one(here):
    edges = {(x, y, 1 + (x + y) % 3) for x, y in points(300, 100)}
    options = {"local_tuples": 0, "replicate_bytes": 0, "partitions": 2, "buckets": 4}
    with (
        Program(LATTICE + KEPT).run({"edge": edges}) as here_only,
        Program(LATTICE + KEPT).run({"edge": edges}, here, **options) as result,
    ):
        assert result["dist"].to_set() == here_only["dist"].to_set()
        assert result.trace["strata"][-1]["plan"] != "local"


@pytest.mark.parametrize("op, best", [("<", 0.0), (">", math.nan), ("<=", 0.0)])
@pytest.mark.parametrize("also", ["", "p(c) <= p(e) :- e < c, false."], ids=["lattice", "compared"])
def test_a_nan_is_greater_than_all_other_floats_and_there_is_one_zero(op, best, also):
    text = f".decl q(d: float)\n.input q\n.decl p(d: float)\n.output p\np(d) :- q(d).\np(c) <= p(e) :- e {op} c.\n{also}"
    with Program(text).run({"q": [(math.nan,), (0.0,), (-0.0,), (3.0,), (-math.nan,)]}) as result:
        assert result["q"].count() == 3 and result["p"].to_list() == [(best,)]


def test_what_follows_from_a_tuple_stays_when_the_tuple_goes():
    text = """
    .decl n(x: number)
    .input n
    .decl p(x: number, from: number)
    .output p
    p(x, 0) :- n(x).
    p(x - 1, x) :- p(x, _), x > 0.
    p(x, y) <= p(z, y) :- z > x.
    """
    with Program(text).run({"n": [(1,), (3,)]}) as result:
        assert result["p"].to_set() == {(3, 0), (2, 3), (1, 2), (0, 1)}
        assert result.why("p", (1, 2)).height == 3
        [first, second] = result.why_not("p", (1, 0)).failures
        assert first.part == "another tuple subsumes it, or did when it was made"
    bounded = (
        text.replace("x > 0.", "x > 0, x < 3.").replace("z > x.", "z < x.").replace("p(x, y) <= p(z, y)", "p(x, _) <= p(z, _)")
    )
    with Program(bounded).run({"n": [(2,)]}) as result:
        assert result["p"].to_set() == {(0, 1)}
        with pytest.raises(ValueError, match="has no proof of tuples that are there now"):
            result.why("p", (0, 1))


def test_why_not_tells_the_best_of_a_key():
    with Program(LATTICE + KEPT).run({"edge": [(0, 1, 4), (0, 2, 1), (2, 1, 1)]}) as result:
        assert str(result.why("dist", (1, 2)).premises[0].atom) == "dist(2, 1)"
        assert (
            result.why_not("dist", (1, 4)).failures[0].part == "of tuples with the same y there is one, and that is dist(1, 2)"
        )


def test_what_is_asked_on_demand_is_compared_whole():
    text = WAYS.replace("toll: number)\n.output way", 'toll: number) magic\n.pragma "magic-transform" "*"') + (
        ".decl asked(d: number)\n.output asked\nasked(d) :- way(0, 1, d, _).\n"
    )
    given = roads(30)
    with Program(text).run({"road": given}) as result:
        assert result["asked"].to_set() == {(d,) for x, y, d, _ in ways(given) if (x, y) == (0, 1)}


def test_what_bodies_of_subsumptive_rules_read_is_inlined_shared_and_kept():
    text = """
    .decl n(x: number)
    .input n
    .decl even(x: number) inline
    even(x) :- n(x), x % 2 = 0.
    .decl p(x: number)
    .output p
    p(x) :- n(x).
    p(x) <= p(y) :- even(y), !even(x) ; x < y, even(x), even(y).
    .decl q(x: number) inline
    .output r
    .decl r(x: number)
    q(x) :- n(x).
    q(x) <= q(y) :- x > y, n(x), n(y).
    r(x) :- q(x).
    """
    with Program(text).run({"n": [(x,) for x in range(1, 8)]}) as result:
        assert (result["p"].to_list(), result["r"].to_list()) == ([(6,)], [(1,)])


def test_a_choice_among_tuples_that_subsume_others():
    text = """
    .decl n(x: number, y: number)
    .input n
    .decl p(x: number, y: number) choice-domain x
    .output p
    p(x, y) :- n(x, y).
    p(x, y) <= p(z, y) :- z > x.
    """
    with Program(text).run({"n": [(1, 5), (1, 4), (2, 5), (2, 6), (3, 5)]}) as result:
        assert result["p"].to_set() == {(1, 4), (3, 5)}


def test_a_session_is_found_again_and_computed_anew_under_another_rule(tmp_path):
    given = roads(30)
    with Program(WAYS).session({"road": given}, path=tmp_path / "state") as session:
        expected = session["way"].to_set()
    with Program(WAYS).session(path=tmp_path / "state") as session:
        assert session["way"].to_set() == expected == ways(given)
    other = WAYS.replace("e <= d, u <= t", "e < d, u <= t")
    with Program(other).session(path=tmp_path / "state") as session, Program(other).run({"road": given}) as result:
        assert session["way"].to_set() == result["way"].to_set() > expected


def test_registered_rules_choose_and_compare_for_each_parameter():
    with Program(".decl e(x: number, y: number)\n.input e").session({"e": [(1, 2), (1, 3), (2, 3), (2, 9)]}) as session:
        session.register("one", ".decl one(y: number, z: number) choice-domain z\none(y, 1) :- e($x, y).")
        session.register("most", ".decl most(y: number)\nmost(y) :- e($x, y).\nmost(y) <= most(z) :- y < z, z < 100.")
        assert [session.query("one(y, z)", x=x).to_list() for x in (1, 2)] == [[(2, 1)], [(3, 1)]]
        assert [session.query("most(y)", x=x).to_list() for x in (1, 2)] == [[(3,)], [(9,)]]
        session.insert("e", [(1, 7)])
        assert session.query("most(y)", x=1).to_list() == [(7,)]


def test_tuples_are_taken_out_of_every_index_and_of_the_delta():
    table = Table(2)
    table.insert([np.arange(20_000), np.arange(20_000) % 7], 20_000)
    table.advance()
    table.insert([np.arange(20_000, 20_010), np.arange(10)], 10)
    table.advance()
    table.blocks("all", (1, 0))
    remove_tuples(table, Block.of([np.array([3, 20_001, 20_003]), np.array([3, 1, 3])], 3))
    for order in ((0, 1), (1, 0)):
        assert sum(block.size for block in table.blocks("all", order)) == table.count == 20_007
        assert table.blocks("delta", order)[0].size == 8
    remove_tuples(table, table.blocks("delta", (0, 1))[0])
    assert table.delta_size == 0 and table.count == 19_999


TWO = ".decl p(x: number, y: number)\n.decl q(x: number, y: number)\n.output p\np(1, 2).\nq(1, 2).\n"


@pytest.mark.parametrize(
    "text, line, message",
    [
        (TWO + ".decl n()\nn().\nn() <= n() :- p(1, 2).", 6, 'Subsumptive relation "n" must not be a nullary relation'),
        (TWO + ".decl n() btree_delete\nn().", 6, 'Subsumptive relation "n" must not be a nullary relation'),
        (TWO + "p(x, y) <= q(x, z) :- y < z.", 6, "Subsumption must compare tuples from the same relation"),
        (
            TWO.replace("p(x: number, y: number)", "p(x: number, y: number) brie") + "p(x, y) <= p(x, z) :- y < z.",
            1,
            'Relation "p" has one',
        ),
        (
            TWO.replace("p(x: number, y: number)", "p(x: number, y: number) eqrel") + "p(x, y) <= p(x, z) :- y < z.",
            1,
            'Relation "p" has one',
        ),
        (TWO + "p(x, y) <= p(x, z) :- y < w, z = 1.", 6, "Ungrounded variable w"),
        (TWO + "p(x, y) <= p(x, z, 1) :- y < z.", 6, "Mismatching arity of relation p (expected 2, got 3)"),
        (TWO + 'p(x, y) <= p(x, z) :- y < z, x = "a".', 6, "Symbol constant (type mismatch)"),
        (TWO + "p(x, min(y)) <= p(x, z) :- y < z.", 6, "min with one argument outside of a head"),
        (
            TWO + "p(x, min(2)) :- q(x, _).\np(x, y) <= p(x, z) :- y < z.",
            6,
            "Relation p has subsumptive rules and min in its heads",
        ),
        (
            TWO + "p(x, y) <= p(x, z) :- y < z, !r(x).\n.decl r(x: number)\nr(x) :- p(x, _).",
            6,
            "Unable to stratify relation(s) {p, r}",
        ),
        (
            TWO + ".semantics wellfounded\nq(x, x) :- p(x, _), !q(x, x).\nq(x, y) <= q(x, z) :- y < z.",
            2,
            "q may have undefined tuples",
        ),
    ],
)
def test_what_is_wrong_with_subsumption(text, line, message):
    with pytest.raises(ProgramError) as wrong:
        Program(text)
    problems = [problem for problem in wrong.value.problems if problem.severity == "Error"]
    assert any(problem.message.startswith(message) and problem.span.line == line for problem in problems), problems


def test_warnings_are_soufflés():
    program = compile_text(
        ".decl p(x: number) btree_delete\n.output p\np(1).\n.decl q(x: number)\nq(1).\nq(x) <= q(_) :- x < 3.\n.output q"
    )
    assert [(warning.message, warning.span.line) for warning in program.warnings] == [("No subsumptive rule for relation p", 1)]
