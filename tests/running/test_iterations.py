"""The numbers of iterations, and what each has made, against a walk by breadth first.

The program with expected files is `tests/language/programs/iterations`.
"""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import SETTINGS

from semi_naive import Program, ProgramError

WALK = """
.decl edge(x: number, y: number)
.input edge
.decl walk(x: number)
.decl born = debug_delta(walk)
walk(0).
walk(y) :- walk(x), edge(x, y).
.decl counted(x: number, i: unsigned)
counted(0, 0).
counted(y, recursive_iteration_cnt()) :- counted(x, _), edge(x, y), recursive_iteration_cnt() < 6.
.decl short(x: number)
short(0).
short(y) :- short(x), edge(x, y), __ITERATION__ <= 2.
.decl best(x: number, d: number)
.decl better = debug_delta(best)
best(0, min(0)) :- true.
best(y, min(d + w)) :- best(x, d), edge(x, y), w = 1 + x % 3.
.decl one(x: number, y: number) choice-domain x
.decl chosen = debug_delta(one)
one(0, 0).
one(y, x) :- one(x, _), edge(x, y).
.output born, counted, short, better, best, one, chosen
"""
RECORDED = ".decl a(x: number)\n.decl b = debug_delta(a)\na(1).\n"
EDGES = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14)


def levels(edges) -> dict[int, int]:
    """By vertex how many steps it is from 0."""
    found, last = {0: 0}, {0}
    while last:
        last = {y for x, y in edges if x in last} - found.keys()
        found |= dict.fromkeys(last, 1 + max(found.values()))
    return found


def steps_of(edges, most: int) -> set[tuple[int, int]]:
    """(vertex, steps) of all walks of so many steps, each pair followed once."""
    found = last = {(0, 0)}
    for number in range(1, most):
        last = {(y, number) for x, _ in last for z, y in edges if z == x} - found
        found = found | last
    return found


def checked(relations, edges) -> None:
    near = levels(edges)
    assert relations["born"].to_set() == set(near.items())
    assert relations["counted"].to_set() == steps_of(edges, 6)
    assert relations["short"].to_set() == {(x,) for x, steps in near.items() if steps <= 2}
    assert {(x, i) for x, _, i in relations["chosen"].to_set()} == set(near.items())
    assert {(x, y) for x, y, _ in relations["chosen"].to_set()} == relations["one"].to_set()
    values = defaultdict(dict)
    for x, d, number in relations["better"].to_set():
        values[x][number] = d
    assert {(x, min(of.values())) for x, of in values.items()} == relations["best"].to_set()
    for of in values.values():
        assert sorted(of.values(), reverse=True) == [of[number] for number in sorted(of)]


@settings(max_examples=40, **SETTINGS)
@given(EDGES)
def test_each_iteration_has_its_number_and_its_tuples(edges):
    with Program(WALK).run({"edge": edges}) as result:
        checked(result, edges)


@settings(max_examples=10, **SETTINGS)
@given(st.lists(EDGES, min_size=1, max_size=3))
def test_a_session_computes_them_anew(steps):
    with Program(WALK).session({"edge": []}) as session:
        before = set()
        for edges in steps:
            with session.transaction() as change:
                change.delete("edge", sorted(before - edges))
                change.insert("edge", sorted(edges - before))
            checked(session, edges)
            before = edges


def test_such_a_stratum_stays_in_the_driver(here):
    edges = {(x, (7 * x + y) % 50) for x in range(50) for y in range(3)}
    with Program(WALK).run({"edge": edges}, here, local_tuples=0, buckets=4, partitions=3) as result:
        checked(result, edges)
        assert "plan local: the numbers of iterations are those of the stratum as a whole" in result.explain()
    assert "plan local: the numbers of iterations are" in Program(WALK).explain(local_tuples=0)


def test_facts_that_are_given_are_there_before_the_first_iteration():
    text = """.decl r(x: number)
    .input r
    .decl born = debug_delta(r)
    .output born"""
    with Program(text).run({"r": [(1,), (5,)]}) as result:
        assert result["born"].to_set() == {(1, 0), (5, 0)}
    with Program(text + "\nr(x + 1) :- r(x), x < 7.").run({"r": [(1,), (5,)]}) as result:
        assert result["born"].to_set() == {(1, 0), (5, 0), (2, 1), (6, 1), (3, 2), (7, 2), (4, 3)}
    with Program(text).session({"r": [(1,)]}) as session:
        session.insert("r", [(2,)])
        assert session["born"].to_set() == {(1, 0), (2, 0)}


def test_the_number_outside_of_recursion_in_a_plan_in_aggregates_and_where_tuples_are_compared():
    text = """.decl r(x: number, i: unsigned)
    r(0, recursive_iteration_cnt()) :- true.
    r(x + 1, i) :- r(x, _), s(x), n = count : { s(y), y < to_number(recursive_iteration_cnt()) }, i = to_unsigned(n).
        .plan 0:(2, 1)
    .decl s(x: number)
    s(x) :- x = range(0, 5).
    .decl t(x: number)
    t(0).
    t(x + 1) :- t(x), x < 6.
    t(x) <= t(y) :- x < y, recursive_iteration_cnt() < 4.
    .decl u(i: unsigned)
    u(i) :- s(_), i = recursive_iteration_cnt().
    .output r, t, u"""
    with Program(text).run() as result:
        assert result["r"].to_set() == {(x, x) for x in range(6)}
        assert result["t"].to_set() == {(3,), (4,), (5,), (6,)}
        assert result["u"].to_set() == {(0,)}


def test_a_proof_says_which_iteration_it_is():
    with Program(WALK).run({"edge": [(0, 1), (1, 2)]}) as result:
        proof = result.why("counted", (2, 2))
        assert proof.rule.startswith("counted(y, recursive_iteration_cnt()) :- counted(x, _)")
        assert proof.conditions == ("2 < 6", "recursive_iteration_cnt() = 2")
        born = result.why("born", (2, 2))
        assert (born.rule, born.premises[0].atom) == (".decl born = debug_delta(walk)", "walk(2)")
        assert "no iteration has" in str(result.why_not("counted", (1, 5)))


@pytest.mark.parametrize(
    "text, line, message",
    [
        (".decl b = debug_delta(a)", 2, "Undefined relation a"),
        (f"{RECORDED}b(1, 2).", 3, "Unexpected rules/facts for debug_delta relation b"),
        (f"{RECORDED}.input b", 3, "Unexpected rules/facts for debug_delta relation b"),
        (f"{RECORDED}.decl c = debug_delta(b)", 5, "Relation b is made by no rules"),
        (f"{RECORDED}a(x) :- a(x), b(x, _).", 3, "has a cyclic debug_delta"),
        (".decl a(x: number) inline\n.decl b = debug_delta(a)\na(1).", 3, "Relation a is inlined"),
        (".decl a(x: unsigned)\na(recursive_iteration_cnt()).", 3, "Argument in fact is not constant"),
        (".decl a(x: unsigned) inline\na(x) :- x = __ITERATION__.", 3, "in a rule of inline relation a"),
        (
            ".decl a(x: number, y: number)\na(x + 1, sum(y)) :- a(x, y), __ITERATION__ < 3.", 3,
            "recursive_iteration_cnt() in a rule of a, which is aggregated in recursion",
        ),
    ],
)  # fmt: skip
def test_what_has_no_iterations_is_an_error(text, line, message):
    with pytest.raises(ProgramError) as caught:
        Program(f".output {'b' if 'b =' in text else 'a'}\n{text}")
    [problem] = [one for one in caught.value.problems if message in one.message]
    assert problem.span.line == line and problem.hint


def test_undefined_tuples_are_born_in_no_iteration():
    text = ".semantics wellfounded\n.decl a(x: number)\n.decl b = debug_delta(a)\na(x) :- x = 1, !a(x).\n.output b"
    with pytest.raises(ProgramError, match="a may have undefined tuples, and so cannot have a number of the iteration"):
        Program(text)
