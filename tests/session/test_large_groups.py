"""Aggregates of large groups follow by the change: counts and sums by what came and went, minima and maxima by an index."""

from unittest.mock import patch

import numpy as np
import pytest

from semi_naive import Program
from semi_naive.host.limits import Work

BODIES = {
    "count": "r(g, n) :- m(g, _), n = count : { m(g, _) }.",
    "sum": "r(g, n) :- m(g, _), n = sum x : { m(g, x) }.",
    "min": "r(g, n) :- m(g, _), n = min x : { m(g, x) }.",
    "max": "r(g, n) :- m(g, _), n = max x : { m(g, x) }.",
    "sum of heads": "r(g, sum(x)) :- m(g, x).",
    "max of heads": "r(g, max(x)) :- m(g, x).",
    "count over a join": "r(g, n) :- m(g, _), n = count : { m(g, x), even(x) }.",
    "sum without a group": "r(0, n) :- n = sum x : { m(_, x) }.",
}
FOLDS = {"count": len, "sum": sum, "min": min, "max": max}
GROUPS, SIZE = 3, 30_000


def program(body: str) -> Program:
    return Program(f"""
        .decl m(g: number, x: number)
        .decl even(x: number)
        .input m, even
        .decl r(g: number, n: number)
        .output r
        {body}
    """)


def expected(name: str, facts: set) -> set:
    groups: dict[int, list[int]] = {}
    for g, x in facts:
        groups.setdefault(0 if "without" in name else g, []).append(x)
    if "join" in name:
        return {(g, sum(x % 2 == 0 for x in some)) for g, some in groups.items()}
    return {(g, FOLDS[name.split()[0]](some)) for g, some in groups.items()}


@pytest.mark.parametrize("name", BODIES)
def test_one_fact_of_a_large_group_makes_few_bindings(name):
    facts = {(g, x) for g in range(GROUPS) for x in range(SIZE)}
    even = [(x,) for x in range(0, 2 * SIZE, 2)]
    changes = [("delete", 5), ("insert", 40_000), ("delete", SIZE - 1), ("delete", 0), ("delete", 40_000), ("insert", -7)]
    visit, visited = Work.visit, []

    def visiting(work: Work, bindings: int) -> None:
        visited.append(bindings)
        visit(work, bindings)

    with program(BODIES[name]).session({"m": list(facts), "even": even}) as s:
        for number, (what, x) in enumerate(changes):
            with patch("semi_naive.host.limits.CALL", 0), patch.object(Work, "visit", visiting):
                visited.clear()
                getattr(s, what)("m", [(1, x)])
            facts = facts | {(1, x)} if what == "insert" else facts - {(1, x)}
            assert s["r"].to_set() == expected(name, facts)
            assert sum(visited) <= 100 or number == 0  # what is counted is counted at the first change


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("config", [{}, {"follow": 0}, {"local_tuples": 100, "partitions": 2}], ids=["", "anew", "partitions"])
def test_any_changes_of_groups_give_what_a_run_gives(name, config, here):
    """Groups are large, small and empty; tuples come and go in several blocks."""
    random = np.random.default_rng(len(name))
    facts = {(int(g), int(x)) for g, x in zip(random.integers(0, 3, 6000), random.integers(-4000, 4000, 6000), strict=True)}
    even = [(x,) for x in range(-6000, 6000, 2)]
    with program(BODIES[name]).session({"m": list(facts), "even": even}, spark=here, **config) as s:
        for size in (1, 30, 1, 2000, 5):
            born = {(int(g), int(x)) for g, x in random.integers((0, -5000), (5, 5000), (size, 2))}
            lost = {(int(g), int(x)) for g, x in random.permutation(sorted(facts))[:size]}
            with s.transaction() as t:
                t.delete("m", list(lost))
                t.insert("m", list(born))
            facts = (facts - lost) | born
            assert s["r"].to_set() == expected(name, facts)
