"""Aggregates of groups of rows: on values worked out by hand, and the same whatever pieces the rows come in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semi_naive import Program
from semi_naive.ra.expressions.aggregates import GroupReduction, reduce_groups
from semi_naive.ra.ir import Kind

NUMBER, UNSIGNED, FLOAT, SYMBOL = Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL
LEAST, MOST, NAN = -(2**63), 2**63 - 1, float("nan")
DTYPES = {NUMBER: np.int64, UNSIGNED: np.uint64, FLOAT: np.float64}


def column(data, kind):
    return np.array(data, DTYPES[kind]).view(np.int64)


GROUP = np.array([1, 0, 1, 3])


@pytest.mark.parametrize(
    "op, kind, data, expected, present",
    [
        ("count", NUMBER, None, [1, 2, 0, 1], [True] * 4),
        ("sum", NUMBER, [MOST, 5, 1, -2], [5, LEAST, 0, -2], [True] * 4),
        ("sum", UNSIGNED, [2**64 - 1, 5, 1, 7], [5, 0, 0, 7], [True] * 4),
        ("sum", FLOAT, [0.5, 1.0, 0.25, 2.0], [1.0, 0.75, 0.0, 2.0], [True] * 4),
        ("min", NUMBER, [3, 5, -1, 2], [5, -1, 0, 2], [True, True, False, True]),
        ("max", UNSIGNED, [2**63, 5, 1, 7], [5, 2**63, 0, 7], [True, True, False, True]),
        ("max", FLOAT, [-1.0, -5.0, NAN, NAN], [-5.0, NAN, 0.0, NAN], [True, True, False, True]),
        ("min", FLOAT, [-1.0, -5.0, NAN, NAN], [-5.0, -1.0, 0.0, NAN], [True, True, False, True]),
    ],
)
def test_aggregates(op, kind, data, expected, present):
    column_ = None if data is None else column(data, kind)
    results, there = reduce_groups(op, kind, GROUP, column_, 4)
    assert there.tolist() == present
    np.testing.assert_array_equal(results.view(DTYPES[kind]), np.array(expected, DTYPES[kind]))


@pytest.mark.parametrize("kind, data", [(NUMBER, [3, 5, 6, 2]), (UNSIGNED, [3, 5, 6, 2]), (FLOAT, [3.0, 5.0, 6.0, 2.0])])
def test_the_mean_is_a_float(kind, data):
    results, present = reduce_groups("mean", kind, GROUP, column(data, kind), 4)
    assert results.view(np.float64)[present].tolist() == [5.0, 4.5, 2.0]
    assert present.tolist() == [True, True, False, True]


def test_aggregates_of_no_rows_and_of_symbols():
    none = np.empty(0, np.int64)
    assert [part.tolist() for part in reduce_groups("sum", NUMBER, none, none, 2)] == [[0, 0], [True, True]]
    assert [part.tolist() for part in reduce_groups("min", NUMBER, none, none, 2)] == [[0, 0], [False, False]]
    with pytest.raises(ValueError, match="the min of symbols"):
        reduce_groups("min", SYMBOL, GROUP, GROUP, 4)


whole = {NUMBER: st.integers(LEAST, MOST), UNSIGNED: st.integers(0, 2**64 - 1), FLOAT: st.floats()}


@given(st.data(), st.sampled_from(["count", "sum", "min", "max", "mean"]), st.sampled_from(list(whole)))
def test_rows_may_come_in_any_pieces(data, op, kind):
    rows = data.draw(st.lists(st.tuples(st.integers(0, 4), whole[kind]), max_size=30))
    group, values = np.array([at for at, _ in rows], np.int64), column([value for _, value in rows], kind)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    reduction = GroupReduction(op, kind, 5)
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        reduction.add(group[begin:end], values[begin:end])
    (found, present), (expected, there) = reduction.results(), reduce_groups(op, kind, group, values, 5)
    as_floats = kind == FLOAT and op != "count" or op == "mean"
    assert present.tolist() == there.tolist()
    np.testing.assert_array_equal(*(bits.view(np.float64 if as_floats else np.int64)[there] for bits in (found, expected)))


def test_the_body_of_an_aggregate_is_not_held_at_once(monkeypatch):
    """Batches of 50 bindings at most: 40 nodes, of which each meets 1,600 combinations."""
    seen, add = [], GroupReduction.add
    monkeypatch.setattr("semi_naive.running.relations.database.MAX_BATCH_BINDINGS", 50)
    monkeypatch.setattr(GroupReduction, "add", lambda self, group, *rest: (seen.append(len(group)), add(self, group, *rest))[1])
    text = """.decl e(x: number, y: number)
    .input e
    .decl n(x: number, c: number, s: number)
    .output n
    n(x, c, s) :- e(x, _), c = count : { e(x, y), e(z, y) }, s = sum z / 1 : { e(x, y), e(z, y) }."""
    edges = [(x, y) for x in range(40) for y in range(40)]
    with Program(text).run({"e": edges}) as result:
        assert result["n"].to_set() == {(x, 1600, 40 * 780) for x in range(40)}
    assert max(seen) < 200 and 40 * 1600 <= sum(seen) < 2 * 40 * 1600  # what is only counted is not listed
