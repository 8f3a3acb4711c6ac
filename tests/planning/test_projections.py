"""Joins by an index of the columns in use alone, in which equal tuples are one: when it is made, and that answers stay."""

import numpy as np
import pytest

from semi_naive import Program
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
    made = []
    projection = database.Database._projection
    monkeypatch.setattr(database, "MAX_PROJECTED_SHARE", share)
    monkeypatch.setattr(
        database.Database, "_projection", lambda self, *wanted: made.append(wanted) or projection(self, *wanted)
    )
    with Program(PROGRAM).run({"p": facts(8000)}) as result:
        return {name: result[name].to_set() for name in ("pair", "near", "count_of")}, made


def test_columns_in_use_alone_are_joined_where_few_of_their_values_differ(monkeypatch):
    with monkeypatch.context() as never:
        plain, none = answers(never, 0.0)
    projected, made = answers(monkeypatch, 0.5)
    assert projected == plain and len(plain["pair"]) == 128
    assert not none and {relation for relation, _ in made} == {"p"} and all(len(order) < 5 for _, order in made)


@pytest.mark.parametrize("columns, share", [((1, 3), 40 / 8000), ((2,), 1.0), ((3, 4), 365 * 8 / 8000)])
def test_share_of_tuples_that_are_distinct(columns, share):
    table = Table(5)
    table.insert(list(np.array(facts(8000)).T), 8000)
    table.settle()
    assert distinct_share(table, columns) == pytest.approx(share, abs=0.02)
