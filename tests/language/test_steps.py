"""Rules in steps: examples against plain Python, and random programs against their unfolding, in every way to run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_steps import LAST, NAMES, in_steps, step_programs, unfolded
from session_cases import SETTINGS
from step_programs import CDLP, LIFE, MEANS, PAGE_RANK, PATHS, PLAY, QUEUE, cdlp, life, means, page_rank, paths, play, queue

from semi_naive import Program, ProgramError

SMALL = st.integers(0, 5)
PAIRS = st.sets(st.tuples(SMALL, SMALL), min_size=1, max_size=14).map(sorted)
LAYOUTS = [
    {},
    {"small_delta": 0},
    {"plan": "balanced", "local_tuples": 0},
    {"plan": "balanced", "local_tuples": 0, "replicate_bytes": 0, "buckets": 4, "run_ahead": 0},
]


def evaluated(text: str, facts: dict, here, layout: dict, *names: str) -> list[set]:
    """The tuples of some relations of a program in one layout."""
    spark = here if layout.get("plan") == "balanced" else None
    with Program(text).run(facts, spark, **layout) as result:
        return [result[name].to_set() for name in names]


def check(here, layout, case) -> None:
    """Compare all examples with their evaluation in Python."""
    edges, weights, points, seeds, payoff, arrivals = case
    (ranks,) = evaluated(PAGE_RANK, {"edge": edges}, here, layout, "rank")
    assert {(k, v): r for k, v, r in ranks} == pytest.approx(page_rank(edges))
    assert evaluated(CDLP, {"edge": edges}, here, layout, "label") == [cdlp(edges)]
    assert evaluated(LIFE, {"start": edges}, here, layout, "alive") == [life(edges)]
    assert evaluated(MEANS, {"point": points, "seed": seeds}, here, layout, "member") == [means(points, seeds)]
    (found,) = evaluated(PATHS, {"edge": weights}, here, layout, "dist")
    assert {(k, y, d) for k, y, d, _ in found} == paths(weights)
    for k, y, d, x in found:
        assert (y, d, x) == (0, 0, 0) or any((y, w) == (v, d - e) for u, v, w in weights if u == x
                                             for j, z, e, _ in found if j < k and z == x)  # fmt: skip
    assert evaluated(PLAY, {"payoff": payoff}, here, layout, "rows", "columns") == [*play(payoff)]
    assert evaluated(QUEUE, {"arrive": arrivals}, here, layout, "waiting", "served") == [*queue(arrivals)]


@st.composite
def cases(draw):
    edges = draw(PAIRS)
    weights = [(x, y, draw(st.integers(1, 4))) for x, y in draw(PAIRS) if x != y]
    points = [(p, float(draw(SMALL)), float(draw(SMALL))) for p in range(draw(st.integers(0, 8)))]
    seeds = [(c, float(draw(SMALL)), float(draw(SMALL))) for c in range(draw(st.integers(1, 3)))]
    payoff = [(i, j, draw(st.integers(-3, 3))) for i in range(3) for j in range(2)]
    arrivals = [(draw(st.sampled_from([0, 1, 5, 30])), job) for job in range(draw(st.integers(0, 6)))]
    return edges, weights, points, seeds, payoff, arrivals


@settings(max_examples=40, **SETTINGS)
@given(case=cases())
def test_examples_in_the_driver(machine, case):
    check(None, {}, case)


@pytest.mark.parametrize("layout", LAYOUTS[1:], ids=str)
@settings(max_examples=3, **SETTINGS)
@given(case=cases())
def test_examples_in_other_layouts(here, layout, case):
    check(here, layout, case)


def check_random(here, layout, program, edges) -> None:
    """Compare a random program with its unfolding."""
    kinds, rules = program
    text = in_steps(kinds, rules)
    with Program(unfolded(kinds, rules)).run({"e": edges}) as result:
        wanted = {name: {(n, *row) for n in range(LAST + 1) for row in result[f"{name}_{n}"].to_set()} for name in NAMES}
    found = evaluated(text, {"e": edges}, here, layout, *NAMES)
    assert "@this" in str(Program(text).checked.relations.keys())
    assert dict(zip(NAMES, found, strict=True)) == wanted, text


@settings(max_examples=300, **SETTINGS)
@given(step_programs(), PAIRS)
def test_random_programs_in_the_driver(machine, program, edges):
    check_random(None, {}, program, edges)


@pytest.mark.parametrize("layout", LAYOUTS[1:], ids=str)
@settings(max_examples=3, **SETTINGS)
@given(program=step_programs(), edges=PAIRS)
def test_random_programs_in_other_layouts(here, layout, program, edges):
    check_random(here, layout, program, edges)
