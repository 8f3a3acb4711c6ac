"""Sums in recursion, where no key needs itself: against values computed key by key, in every way to run."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import SETTINGS

from semi_naive import Program, ProgramError
from semi_naive.ra.expressions.arithmetic import EvaluationError

MATERIALS = """
.decl part(whole: number, part: number, many: number)
.input part
.decl price(part: number, cents: number)
.input price
.decl cost(part: number, cents: number)
.output cost
cost(w, sum(n * c)) :- part(w, p, n), cost(p, c).
cost(p, c) :- price(p, c).
"""
BOTH = """
.decl part(whole: number, part: number, many: number)
.input part
.decl price(part: number, cents: number)
.input price
.decl heavy(part: number, cents: number, parts: number)
.decl light(part: number, least: number, most: number, average: float)
.output heavy, light
heavy(w, sum(n * most), count(p)) :- part(w, p, n), light(p, _, most, _).
heavy(p, c, 0) :- price(p, c).
light(w, min(least), max(c), mean(to_float(k))) :- part(w, p, _), heavy(p, c, k), light(p, least, _, _), c < 50.
light(p, c, c, 1.5) :- price(p, c).
"""


@st.composite
def materials(draw):
    """(parts, prices): a part has a greater number than what it is a part of, so no part is a part of itself."""
    pairs = draw(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14))
    parts = sorted({(min(pair), max(pair), draw(st.integers(1, 3))) for pair in pairs if pair[0] != pair[1]})
    return parts, sorted(draw(st.sets(st.tuples(st.integers(0, 7), st.integers(1, 9)), max_size=6)))


def costs(parts, prices) -> dict[int, int]:
    found: dict[int, int] = {}
    for key in reversed(range(8)):
        added = [n * found[p] for w, p, n in parts if w == key and p in found]
        added += [cents for p, cents in prices if p == key]
        if added:
            found[key] = sum(added)
    return found


def heavy_and_light(parts, prices) -> tuple[set, set]:
    heavy: dict[int, tuple] = {}
    light: dict[int, tuple] = {}
    for key in reversed(range(8)):
        own = [cents for p, cents in prices if p == key]
        met = [(p, n) for w, p, n in parts if w == key]
        sums = [n * light[p][1] for p, n in met if p in light]
        if sums or own:
            heavy[key] = sum(sums) + sum(own), len({p for p, _ in met if p in light})
        some = [(p, heavy[p], light[p]) for p, _ in met if p in heavy and p in light and heavy[p][0] < 50]  # each `_` counts
        lows, highs = [low for _, _, (low, _, _) in some] + own, [h[0] for _, h, _ in some] + own
        means = [float(h[1]) for _, h, _ in some] + [1.5] * bool(own) * len(own)
        if lows:
            light[key] = min(lows), max(highs), sum(means) / len(means)
    return {(key, *each) for key, each in heavy.items()}, {(key, *each) for key, each in light.items()}


@settings(max_examples=100, **SETTINGS)
@given(materials())
def test_a_bill_of_materials(case):
    parts, prices = case
    with Program(MATERIALS).run({"part": parts, "price": prices}, only_outputs=True) as result:
        assert result["cost"].to_set() == set(costs(*case).items())


@settings(max_examples=100, **SETTINGS)
@given(materials(), st.sampled_from([0, 50_000]))
def test_relations_that_need_each_other(machine, case, small_delta):
    parts, prices = case
    with Program(BOTH).run({"part": parts, "price": prices}, small_delta=small_delta) as result:
        assert (result["heavy"].to_set(), result["light"].to_set()) == heavy_and_light(*case)


@settings(max_examples=15, **SETTINGS)
@given(materials(), st.sampled_from([{}, {"replicate_bytes": 0}, {"buckets": 4, "run_ahead": 0}]))
def test_and_on_the_partitions(here, case, options):
    parts, prices = case
    with Program(BOTH).run({"part": parts, "price": prices}, here, local_tuples=0, **options) as result:
        assert (result["heavy"].to_set(), result["light"].to_set()) == heavy_and_light(*case)


@settings(max_examples=40, **SETTINGS)
@given(materials(), st.data())
def test_and_in_sessions(case, data):
    parts, prices = map(set, case)
    with Program(BOTH).session({"part": sorted(parts), "price": sorted(prices)}) as session:
        assert (session["heavy"].to_set(), session["light"].to_set()) == heavy_and_light(parts, prices)
        for _ in range(3):
            part = data.draw(st.tuples(st.integers(0, 3), st.integers(4, 7), st.integers(1, 3)))
            price = data.draw(st.tuples(st.integers(0, 7), st.integers(1, 9)))
            with session.transaction() as change:
                (change.delete if part in parts else change.insert)("part", [part])
                (change.delete if price in prices else change.insert)("price", [price])
            parts, prices = parts ^ {part}, prices ^ {price}
            assert (session["heavy"].to_set(), session["light"].to_set()) == heavy_and_light(parts, prices)


def test_a_session_has_what_it_had_where_a_transaction_makes_a_circle():
    with Program(MATERIALS).session({"part": [(1, 2, 3)], "price": [(2, 5)]}) as session:
        with pytest.raises(EvaluationError, match=r"cost\(1, …\) → cost\(2, …\) → cost\(1, …\)"):
            session.insert("part", [(2, 1, 1)])
        assert session["cost"].to_set() == {(1, 15), (2, 5)}
        session.insert("part", [(0, 1, 2)])
        assert session["cost"].to_set() == {(0, 30), (1, 15), (2, 5)}


def test_a_circle_is_named_with_its_rule():
    text = MATERIALS.replace("part(whole: number, part: number", "part(whole: symbol, part: symbol")
    text = text.replace("price(part: number", "price(part: symbol").replace("cost(part: number", "cost(part: symbol")
    parts = [("car", "wheel", 4), ("wheel", "rim", 1), ("rim", "wheel", 1), ("shop", "car", 2)]
    with pytest.raises(EvaluationError) as error:
        Program(text, "bill.dl").run({"part": parts, "price": [("rim", 1)]})
    said = str(error.value).splitlines()
    assert said[0].startswith("keys that are aggregated in recursion need themselves: cost(")
    names = re.findall(r'cost\("(\w+)", …\)', said[0])
    assert names in (["wheel", "rim", "wheel"], ["rim", "wheel", "rim"])
    assert "in file bill.dl at line 8, column 1" in said[0] and "hint: give each step a number" in said[2]
    with Program(text).run({"part": parts[1:3], "price": []}) as result:
        assert result["cost"].count() == 0  # nothing is added up


def test_page_rank_has_a_number_for_each_step():
    program = Program("""
    .decl edge(x: number, y: number)
    .input edge
    .decl degree(x: number, n: number)
    degree(x, count(y)) :- edge(x, y).
    .decl rank(n: number, x: number, r: float)
    rank(0, x, 1) :- edge(x, _).
    rank(n + 1, x, sum(0.15)) :- rank(n, x, _), n < 20.
    rank(n + 1, y, sum(0.85 * r / to_float(d))) :- rank(n, x, r), edge(x, y), degree(x, d), n < 20.
    .decl last(x: number, r: float)
    .output last
    last(x, r) :- rank(20, x, r).
    """)
    edges = [(1, 2), (2, 3), (3, 1), (1, 3)]
    rank = {x: 1.0 for x, _ in edges}
    for _ in range(20):
        shares = [(y, 0.85 * rank[x] / sum(a == x for a, _ in edges)) for x, y in edges]
        rank = {x: 0.15 + sum(share for y, share in shares if y == x) for x in rank}
    with program.run({"edge": edges}) as result:
        assert dict(result["last"].to_list()) == pytest.approx(rank)


def test_long_chains_take_a_round_for_every_key():
    parts = [(n, n + 1, 1) for n in range(500)]
    with Program(MATERIALS).run({"part": parts, "price": [(500, 7)]}) as result:
        assert result["cost"].to_set() == {(n, 7) for n in range(501)}
        (entry,) = [each for each in result.trace["strata"] if each["relations"] == ["cost"]]
        assert entry["rounds"] == 501


def test_without_keys_and_with_computed_ones():
    total = ".decl n(x: number)  .decl s(k: number, v: number)  .output s  n(1). n(2). n(3). "
    with Program(total + "s(0, sum(x)) :- n(x).  s(k + 1, sum(v * x)) :- s(k, v), n(x), k < 3.").run({}) as result:
        assert result["s"].to_set() == {(0, 6), (1, 36), (2, 216), (3, 1296)}
    alone = ".decl a(x: number)  .decl b(x: number)  .output a  a(sum(x)) :- b(x).  b(sum(x)) :- a(x).  b(3)."
    with pytest.raises(EvaluationError, match=r"a\(…\) → b\(…\) → a\(…\)|b\(…\) → a\(…\) → b\(…\)"):
        Program(alone).run({})


def test_why_a_sum_is_what_it_is():
    with Program(MATERIALS).run({"part": [(1, 2, 3), (0, 1, 2)], "price": [(2, 5), (1, 1)]}) as result:
        assert result["cost"].to_set() == {(0, 32), (1, 16), (2, 5)}
        shown = str(result.why("cost", (0, 32)))
        assert "@now" not in shown and "@known" not in shown
        assert "cost(1, 16)" in shown and "price(1, 1)" in shown or "price(2, 5)" in shown


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("a(x, sum(v)) :- b(x, v).  b(x, v) :- a(x, v).  b(1, 1).", "b is in recursion with a, which is aggregated by sum"),
        (
            "a(x, sum(v)) :- b(x, v).  b(x, min(v)) :- a(x, v).  b(1, 1).",
            "b is in recursion with a, which is aggregated by sum",
        ),
        ("a(v, sum(v)) :- a(_, v).", "The key of a depends on an aggregated value, by v"),
        ("a(w, sum(v)) :- a(_, v), w = v + 1, w < 9.", "The key of a depends on an aggregated value, by w"),
        ("a(x, sum(v)) :- a(x, v), !a(_, v).", "Unable to stratify"),
        ("a(x, sum(v)) :- a(x, v), 1 = count : { a(x, _) }.", "Unable to stratify"),
    ],
)
def test_what_cannot_be_put_in_order_is_an_error(rules, message):
    with pytest.raises(ProgramError, match=message):
        Program(".decl a(x: number, v: number)  .decl b(x: number, v: number)  .output a, b  a(1, 2).  " + rules)
