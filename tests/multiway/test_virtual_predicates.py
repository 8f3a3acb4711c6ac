"""Comparisons and arithmetic in the loops of a multiway join: Zinn's virtual predicates. They bound a variable, or filter."""

import random

import numpy as np
import pytest
from test_multiway_datalog import GRAPH, interpreted  # noqa: F401

from semi_naive import Config, Program
from semi_naive.ra.by_variable import multiway as step
from semi_naive.ra.by_variable.tries_in_files import TriesInFiles
from semi_naive.ra.multiway.tries.shape import Compared

BODY = "edge(x, y), edge(y, z), edge(x, z)"
WIDE = 1 << 62  # sums of such numbers wrap around


def program(body: str, kind: str = "number") -> Program:
    declared = f".decl edge(x: {kind}, y: {kind})\n.decl found(x: {kind}, y: {kind}, z: {kind})\n.output found\n"
    return Program(f"{declared}found(x, y, z) :- {body}.")


def expression(made: random.Random, depth: int = 2) -> str:
    if depth and made.random() < 0.6:
        return f"({expression(made, depth - 1)} {made.choice('+-*')} {expression(made, depth - 1)})"
    return made.choice(["x", "y", "z", "x", "y", "z", str(made.randint(-3, 9)), str(WIDE)])


def number_of(spread: int) -> dict:
    """Edges between 14 numbers: dense, or so far apart that they have names."""
    pairs = np.random.default_rng(5).integers(-3, 11, (110, 2))
    return {"edge": pairs * spread}


@pytest.mark.parametrize("spread", [1, 1 << 20, WIDE // 8])
def test_any_arithmetic_agrees_with_the_filter_after_binary_joins(interpreted, monkeypatch, spread, here):  # noqa: F811
    made, nonempty = random.Random(spread), 0
    for number in range(40):
        compared = ", ".join(
            f"{expression(made)} {made.choice(['=', '=', '!=', '<', '<=', '>', '>='])} {expression(made)}" for _ in range(2)
        )
        rule = program(f"{BODY}, {compared}")
        with rule.run(number_of(spread), multiway="never") as result:
            expected = result["found"].to_set()
        nonempty += bool(expected)
        with rule.run(number_of(spread), multiway="always") as result:
            assert result["found"].to_set() == expected, compared
        with monkeypatch.context() as boxed:
            boxed.setattr(step.Multiway, "_in_files", lambda *_: TriesInFiles(700, True, None))
            with rule.run(number_of(spread), multiway="always") as result:
                assert result["found"].to_set() == expected, compared
        if number < 4:
            with rule.run(number_of(spread), here, local_tuples=0, partitions=3, multiway="always") as result:
                assert result["found"].to_set() == expected, compared
    assert nonempty > 15


def test_an_equation_is_solved_for_the_variable_bound_last():
    for side, other, solved in (
        (("+", 0, 2), 1, ("-", 1, 0)),
        (("+", 2, ~0), 1, ("-", 1, ~0)),
        (("-", 2, 0), 1, ("+", 1, 0)),
        (("-", 0, 2), 1, ("-", 0, 1)),
        (("-", ("+", 0, 2), 1), ~0, ("-", ("+", ~0, 1), 0)),
    ):
        for equation in (Compared("=", side, other), Compared("=", other, side)):
            assert equation.solved() == Compared("=", 2, solved)
    for unsolvable in (
        Compared("=", ("*", 2, 0), 1),
        Compared("=", ("+", 2, 2), 1),
        Compared("<", ("+", 2, 0), 1),
        Compared("=", ("+", 2, 0), 2),
    ):
        assert unsolvable.solved() == unsolvable


def bindings_of(body: str, monkeypatch) -> tuple[int, set]:
    """The bindings that the loops of a rule make, and its answers."""
    made, call = [], step.Multiway.__call__

    def counted(*given):
        for batch in call(*given):
            made.append(batch.size)
            yield batch

    with monkeypatch.context() as patch:
        patch.setattr(step.Multiway, "__call__", counted)
        with program(body).run({"edge": GRAPH}, config=Config(multiway="always")) as result:
            return sum(made), result["found"].to_set()


def test_the_loops_make_no_binding_that_a_comparison_drops(monkeypatch):
    triangles, _ = bindings_of(BODY, monkeypatch)
    assert triangles > 30_000
    for compared, holds in (
        ("z = x + y", lambda x, y, z: z == x + y),
        ("x = z - y", lambda x, y, z: z == x + y),
        ("z < x * 2 - y", lambda x, y, z: z < x * 2 - y),
        ("x * y != z", lambda x, y, z: x * y != z),
    ):
        made, found = bindings_of(f"{BODY}, {compared}", monkeypatch)
        assert made == len(found) and 0 < made < triangles and all(holds(*row) for row in found)


def test_symbols_are_compared_for_equality_only_in_the_loops(interpreted):  # noqa: F811
    names = {"edge": [("abcdefgh"[a % 8], "abcdefgh"[b % 8]) for a, b in GRAPH.tolist()[:60]]}
    for compared, within in (("x != z", True), ("x < z", False)):
        rule = program(f"{BODY}, {compared}", "symbol")
        with rule.run(names, multiway="never") as expected, rule.run(names, multiway="always") as result:
            assert result["found"].to_set() == expected["found"].to_set() != set()
            assert (f"within: {compared}" in result.explain()) == within
