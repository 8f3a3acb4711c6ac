"""Joins by an index of the columns in use alone, in which equal tuples are one, and by ranges: when, and that answers stay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semi_naive import Program
from semi_naive.host import limits
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.table import Table
from semi_naive.running.relations import database
from semi_naive.running.relations.sampling import distinct_share

PROGRAM = """
.decl p(kind: number, user: number, time: number, group: number, day: number)
.input p
.decl pair(x: number, y: number)
.decl near(x: number, y: number)
.output pair, near
pair(x, y) :- p(4, x, _, g, _), p(4, y, _, g, _).
near(x, y) :- pair(x, y), x < 3.
near(x, z) :- near(x, y), p(4, y, _, g, _), p(_, z, _, g, _).
.decl count_of(g: number, n: number)
.output count_of
count_of(g, n) :- p(_, _, _, g, _), n = count : { p(4, _, _, g, _) }.
"""


def facts(size: int):
    number = np.arange(size)
    return np.array([4 + (number % 5 == 0), number % 40, number, number % 40 % 8, number * 7 % 365]).T.tolist()


def answers(monkeypatch, share: float) -> tuple[dict, list]:
    monkeypatch.setattr(database, "MAX_PROJECTED_SHARE", share)
    with Program(PROGRAM).run({"p": facts(8000)}) as result:
        made = [(name, order) for name, table in result.database.tables.items() for order in table.projected]
        return {name: result[name].to_set() for name in ("pair", "near", "count_of")}, made


def test_columns_in_use_alone_are_joined_where_few_of_their_values_differ(monkeypatch):
    with monkeypatch.context() as never:
        plain, none = answers(never, 0.0)
    projected, made = answers(monkeypatch, 0.5)
    assert projected == plain and len(plain["pair"]) == 128
    assert not none and {relation for relation, _ in made} == {"p"} and all(len(order) < 5 for _, order in made)


INTERPRETER = """
.decl op(pc: number, kind: number, next: number)
.input op
.decl start(x: number)
.input start
.decl state(pc: number, x: number, t: number)
.decl together(p: number, q: number)
.decl after(p: number, x: number, q: number)
.decl never(p: number)
.output together, after, state, never
state(0, x, 0) :- start(x).
state(q, x, t + 1) :- state(p, x, t), op(p, _, q), t < 60.
state(q, x, 100 + p) :- after(p, x, q), together(q, p), p < 3.
together(p, q) :- state(p, x, _), state(q, x, _), p <= q.
after(p, x, r) :- state(p, x, _), op(p, 1, q), state(q, y, _), op(q, _, r), y != x, !start(r).
never(x) :- start(x), !state(_, x, 70), state(p, x, _), state(p, _, 30).
"""


def interpreted(seed: int, states: int = 20) -> dict:
    random = np.random.default_rng(seed)
    op = np.array([random.integers(0, high, 3 * states) for high in (states, 3, states)]).T
    return {"op": [(0, 1, 1), *map(tuple, op.tolist())], "start": [(x,) for x in (1, 2, 3, states + 1)]}


def results_of(facts: dict, **settings) -> tuple[dict, bool, int]:
    """Return the interpreter's answers, True if an index of some columns of a recursive relation was made, and the bindings."""
    visits = []
    with pytest.MonkeyPatch.context() as counting:
        visit = limits.visit
        counting.setattr(limits, "visit", lambda bindings: visits.append(bindings) or visit(bindings))
        with Program(INTERPRETER).run(facts, **settings) as result:
            made = any(table.projected for table in result.database.tables.values())
            return {name: result[name].to_set() for name in ("together", "after", "state", "never")}, made, sum(visits)


@pytest.mark.parametrize("small_delta", [0, 4, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_recursive_atoms_are_read_by_the_columns_in_use(monkeypatch, seed, small_delta):
    monkeypatch.setattr(database, "MIN_INDEXED_TUPLES", 64)
    with monkeypatch.context() as never:
        never.setattr(database, "MAX_PROJECTED_SHARE", 0.0)
        plain, made_none, bindings_of_all = results_of(interpreted(seed), small_delta=0)
    answers, made, bindings = results_of(interpreted(seed), small_delta=small_delta)
    assert answers == plain and made and not made_none
    assert bindings < 0.5 * bindings_of_all


def test_bindings_of_a_recursive_atom_grow_with_its_tuples(monkeypatch):
    """Each place of a program is new once, however many steps are at it: 8 times the steps make some 8 times the bindings."""
    monkeypatch.setattr(database, "MIN_INDEXED_TUPLES", 64)
    bindings = []
    for steps in (60, 480):
        monkeypatch.setitem(globals(), "INTERPRETER", INTERPRETER.replace("t < 60", f"t < {steps}"))
        bindings.append(results_of(interpreted(1))[2])
    assert bindings[1] < 12 * bindings[0]


def test_a_projection_of_a_growing_table_has_each_value_once():
    random, table, seen = np.random.default_rng(3), Table(3), set()
    for _ in range(30):
        columns = [random.integers(0, high, 40) for high in (5, 9, 1 << 40)]
        table.insert(columns, 40)
        table.advance()
        (new,) = table.blocks("delta", (1, 0)) or [Block.of([np.zeros(0, np.int64)] * 2, 0)]
        pairs = list(zip(*map(np.ndarray.tolist, new.columns()), strict=True))
        assert len(set(pairs)) == len(pairs) and seen.isdisjoint(pairs)
        seen |= {*pairs}
        known = [pair for block in table.blocks("all", (1, 0)) for pair in zip(*block.columns(), strict=True)]
        assert len(known) == len(seen) and {*known} == seen == {*zip(columns[1], columns[0], strict=True)} | seen


@pytest.mark.parametrize("columns, share", [((1, 3), 40 / 8000), ((2,), 1.0), ((3, 4), 365 * 8 / 8000)])
def test_share_of_tuples_that_are_distinct(columns, share):
    table = Table(5)
    table.insert(list(np.array(facts(8000)).T), 8000)
    table.settle()
    assert distinct_share(table, columns) == pytest.approx(share, abs=0.02)


NUMBERS = st.sampled_from([-(1 << 63), -2, 0, 1, 2, 3, (1 << 63) - 1])


@given(st.lists(st.tuples(st.integers(0, 2), NUMBERS), min_size=1), st.tuples(NUMBERS, NUMBERS))
def test_ranges_are_narrowed_to_the_values_between_two(pairs, between):
    key, number = np.array(sorted(set(pairs))).T
    block = Block.of([key, number], key.size)
    lows, highs = block.ranges([np.arange(3)], 3)
    bounds = [np.full(3, bound) for bound in between]
    for k, low, high in zip(range(3), *block.narrowed(1, lows, highs, *bounds), strict=True):
        expected = [pair for pair in zip(key, number, strict=True) if pair[0] == k and between[0] <= pair[1] <= between[1]]
        assert list(zip(key[low:high], number[low:high], strict=True)) == expected


@pytest.mark.parametrize("part", ["full", "some"])
def test_comparisons_search_a_range_of_an_index(monkeypatch, part):
    program = f"""
    .decl p(g: number, begin: number, end: number)
    .input p
    .decl over(x: number, y: number)
    .output over
    over(s, t) :- p(g, s, e), p(g, t, _), s < t, e >= t.
    .decl late(x: number)
    .output late
    late(t) :- late(s), p({"_" if part == "full" else "1"}, t, _), t < s + 3, t > s.
    late(0).
    """
    facts = [(i % 3, i * 7 % 500, i * 7 % 500 + i % 11) for i in range(500)]
    monkeypatch.setattr(database, "MIN_INDEXED_TUPLES", 0)
    narrowed = []
    original = Block.narrowed
    monkeypatch.setattr(Block, "narrowed", lambda self, *given: narrowed.append(given) or original(self, *given))
    with Program(program).run({"p": facts}, small_delta=0) as result:
        over, late = result["over"].to_set(), result["late"].to_set()
    assert narrowed and over == {(s, t) for g, s, e in facts for h, t, _ in facts if g == h and s < t <= e}
    begins, reached = {b for g, b, _ in facts if part == "full" or g == 1}, {0}
    while more := {t for s in reached for t in (s + 1, s + 2) if t in begins} - reached:
        reached |= more
    assert late == {(t,) for t in reached}
