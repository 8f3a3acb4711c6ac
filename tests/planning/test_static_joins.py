"""Joins of what never changes: the answers with and without them, and which of them are too large."""

import random

import pytest
from static_cases import random_facts, random_text

from bench.fuzz.oracle import solve
from bench.fuzz.rounds import in_turn
from semi_naive import Program
from semi_naive.language import compile_text
from semi_naive.planning.rewriting import static_joins
from semi_naive.running import beforehand
from semi_naive.simulated_ranks import SimulatedRanks

EL = """
.decl link(x: number, r: number, y: number)
.decl is(x: number, a: number)
.decl given(x: number, a: number)
.decl right(a: number, r: number, y: number)
.decl role(r: number, s: number)
.decl left(s: number, a: number, b: number)
.decl chain(r: number, s: number, t: number)
.input given, right, role, left, chain
.output is, link
is(x, a) :- given(x, a).
link(x, r, y) :- is(x, a), right(a, r, y).
is(x, b) :- link(x, r, y), is(y, a), role(r, s), left(s, a, b).
link(x, t, z) :- link(x, r, y), role(r, r1), link(y, s, z), role(s, s1), chain(r1, s1, t).
"""
BEFOREHAND = "what never changes is joined once"


def facts(seed: int, values: int = 6, rows: int = 12) -> dict:
    rng = random.Random(seed)
    arities = {"given": 2, "right": 3, "role": 2, "left": 3, "chain": 3}
    return {name: {tuple(rng.randrange(values) for _ in range(n)) for _ in range(rows)} for name, n in arities.items()}


def answers(program: Program, given: dict, **options) -> dict:
    with program.run(given, **options) as result:
        return {name: set(result[name].to_list()) for name in ("is", "link")}


@pytest.mark.parametrize("most", [1 << 20, 0], ids=["joined beforehand", "put back"])
@pytest.mark.parametrize("seed", range(8))
def test_the_answers_are_those_of_the_rules_as_written(monkeypatch, most, seed):
    monkeypatch.setattr(static_joins, "MAX_STATIC_TUPLES", most)
    given = facts(seed)
    expected = solve(compile_text(EL), given)
    assert answers(Program(EL), given) == {name: set(expected[name]) for name in ("is", "link")}


def test_a_join_that_is_small_is_made_once_and_explained():
    program, given = Program(EL), facts(1)
    with program.run(given) as result:
        told = result.explain()
    assert "joined beforehand: static@1(r, a, b) :- role(r, s), left(s, a, b)." in told
    assert "as is(x, b) :- link(x, r, y), is(y, a), static@1(r, a, b)." in told
    assert BEFOREHAND in told
    assert "tuples; else its atoms stay in the rules that read it" in program.explain(given)


def test_a_join_that_would_be_large_stays_in_its_rule():
    """One value in the middle of 1,100 × 1,100 pairs, of which the recursion reads none or one."""
    text = """
        .decl f(x: number, y: number)
        .decl g(x: number, y: number)
        .decl p(x: number, y: number)
        .input f, g
        .output p
        p(1, 1).
        p(x, w) :- p(x, y), f(y, z), g(z, w).
    """
    given = {"f": [(n, 0) for n in range(2, 1102)] + [(1, 1)], "g": [(0, n) for n in range(1100)] + [(1, 7)]}
    program = Program(text)
    with program.run(given) as result:
        assert sorted(result["p"].to_list()) == [(1, n) for n in range(1100)]
        told = result.explain()
    assert "2. f(y, z)" in told and "left out" in told and BEFOREHAND not in told


@pytest.mark.parametrize("growth", [16, 0.01], ids=["joined beforehand", "given up"])
def test_a_join_whose_size_was_underestimated_is_given_up(monkeypatch, growth):
    """The bound holds for the tuples that are made; what is expected decides nothing here."""
    monkeypatch.setattr(static_joins, "MAX_STATIC_GROWTH", growth)
    monkeypatch.setattr(beforehand, "is_expected_small", lambda run, join: True)
    given = facts(3)
    expected = solve(compile_text(EL), given)
    with Program(EL).run(given) as result:
        assert {name: set(result[name].to_list()) for name in ("is", "link")} == {n: set(expected[n]) for n in ("is", "link")}
        assert (BEFOREHAND in result.explain()) == (growth == 16)


LAYOUTS = [{"plan": "balanced", "local_tuples": 0}, {"small_delta": 0}, {"multiway": "always"}]


@pytest.mark.parametrize("options", LAYOUTS, ids=str)
@pytest.mark.parametrize("most", [1 << 20, 0], ids=["joined beforehand", "put back"])
def test_every_layout_has_the_same_answers(monkeypatch, options, most):
    monkeypatch.setattr(static_joins, "MAX_STATIC_TUPLES", most)
    given = facts(5)
    ranks = [SimulatedRanks(2)] if "plan" in options else []
    with Program(EL).run(given, *ranks, **options) as result, Program(EL).run(given, max_iterations=1000) as written:
        assert all(sorted(result[name].to_list()) == sorted(written[name].to_list()) for name in ("is", "link"))


RUNS = [{}, {"small_delta": 0}, {"small_delta": 1, "only_outputs": True}, {"plan": "balanced", "local_tuples": 0}]


@pytest.mark.random
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_agree_with_the_oracle(monkeypatch, seed):
    """With the joins made, given up while they are made, and left out before; in the driver and on two partitions."""
    drawn = random.Random(seed)
    text, given = random_text(drawn), random_facts(drawn)
    expected = solve(compile_text(text), given)
    for growth, small in ((16, None), (0.2, True), (0, False)):
        monkeypatch.setattr(static_joins, "MAX_STATIC_GROWTH", growth)
        if small is not None:
            monkeypatch.setattr(beforehand, "is_expected_small", lambda run, join, small=small: small)
        for options in in_turn(seed, RUNS):
            ranks = [SimulatedRanks(2)] if "plan" in options else []
            with Program(text).run(given, *ranks, **options) as result:
                for name in "pq":
                    assert set(result[name].to_list()) == set(expected[name]), text
        monkeypatch.undo()


def test_the_random_programs_have_such_joins():
    """The test above needs programs with static joins; the random programs of bench.fuzz have none."""
    texts = [random_text(random.Random(seed)) for seed in range(60)]
    found = [any(map(static_joins.is_static, Program(text).compile().program.relations)) for text in texts]
    assert sum(found) > 30


def test_sessions_and_counted_iterations_keep_the_rules_as_written():
    program = Program(EL)
    for compiled in (program.compile(once=False), program.compile(limited=True)):
        assert not any(name.startswith(static_joins.PREFIX) for name in compiled.program.relations)


@pytest.mark.parametrize("name", ["static", "early", "half", "factor"])
def test_a_relation_may_have_the_name_of_what_a_pass_takes_out_of_rules(name):
    """It is computed on demand as `static@bf`, and its distinct values are a relation, too: neither is a static join."""
    text = f"""
    .pragma "magic-transform" "{name}"
    .decl edge(x: number, y: number)   .input edge
    .decl start(x: number)             .input start
    .decl {name}(x: number, y: number)
    .decl out(x: number, y: number)    .output out
    .decl numbers(n: number)           .output numbers
    {name}(x, z) :- edge(x, z).
    {name}(x, z) :- {name}(x, y), edge(y, z).
    out(x, y) :- start(x), {name}(x, y).
    numbers(count(y)) :- edge(_, y), {name}(y, _).
    """
    facts = {"edge": [(i, i + 1) for i in range(100)], "start": [(i,) for i in range(100)]}
    with Program(text).run(facts, only_outputs=True) as result:
        assert result["out"].count() == 5050
        assert result["numbers"].to_arrow().to_pydict() == {"n": [99]}
