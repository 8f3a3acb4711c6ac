"""Packing and the kernels on packed tuples, against Python's own tuples and sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semi_naive.ra import lanes
from semi_naive.ra.blocks.packings import bounds_of
from semi_naive.ra.packing import HIGHEST, LOWEST, Packing, widen
from semi_naive.schema import Schema

NUMBERS = st.one_of(
    st.integers(-3, 3), st.integers(-(10**6), 10**6), st.integers(LOWEST, HIGHEST), st.sampled_from([LOWEST, HIGHEST])
)


def tables(arity=None, values=NUMBERS, max_size=40):
    """Lists of tuples of one arity."""
    arities = st.integers(0, 5) if arity is None else st.just(arity)
    return arities.flatmap(lambda k: st.tuples(st.just(k), st.lists(st.tuples(*[values] * k), max_size=max_size)))


def columns_of(arity, rows):
    return np.array(rows, np.int64).reshape(len(rows), arity).T.copy()


def rows_of(columns):
    return list(map(tuple, columns.T.tolist()))


@given(tables())
def test_unpack_gives_back_what_was_packed(table):
    columns = columns_of(*table)
    packing = Packing(bounds_of(columns))
    assert rows_of(packing.unpack(packing.pack(columns))) == table[1]


@given(tables())
def test_the_order_of_words_is_the_order_of_tuples(table):
    columns = columns_of(*table)
    packing = Packing(bounds_of(columns))
    words = lanes.sort_unique(packing.pack(columns))
    assert rows_of(packing.unpack(words)) == sorted(set(table[1]))


@given(tables(), st.data())
def test_a_packing_of_wider_bounds_covers_both(table, data):
    arity, rows = table
    _, others = data.draw(tables(arity))
    left, right = columns_of(arity, rows), columns_of(arity, others)
    both = Packing(widen(bounds_of(left), bounds_of(right)))
    for columns in (left, right):
        assert (both.unpack(both.pack(columns)) == columns).all()


@pytest.mark.parametrize(
    ("widths", "lanes"),
    [((), 1), ((64,), 1), ((32, 32), 1), ((32, 33), 2), ((1,) * 64, 1), ((64, 0, 64), 2), ((0,), 1)],
)
def test_a_tuple_takes_as_few_words_as_its_columns_fill(widths, lanes):
    assert Packing(tuple((0, (1 << width) - 1) for width in widths)).lanes == lanes


def test_rows_of_no_columns_are_counted():
    packing = Packing(())
    words = lanes.sort_unique(packing.pack(np.empty((0, 3), np.int64)))
    assert packing.unpack(words).shape == (0, 1)


@given(st.integers(1, 3), st.data())
def test_among_and_merge_are_those_of_sets(arity, data):
    _, left = data.draw(tables(arity))
    _, right = data.draw(tables(arity))
    packing = Packing(widen(bounds_of(columns_of(arity, left)), bounds_of(columns_of(arity, right))))
    one, two = (lanes.sort_unique(packing.pack(columns_of(arity, rows))) for rows in (left, right))
    found = lanes.among(one, two)
    assert set(rows_of(packing.unpack(one[:, found]))) == set(left) & set(right)
    merged = lanes.merge_all([one, two], packing.lanes)
    assert rows_of(packing.unpack(merged)) == sorted(set(left) | set(right))


X, Y, NAME = (Schema((name,), (kind,)) for name, kind in (("x", "number"), ("y", "number"), ("x", "symbol")))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Schema(("x", "x"), ("number", "number")), "two attributes are named 'x'"),
        (lambda: Schema(("x",), ("real",)), "'x' has kind 'real': expected one of number, unsigned, float, symbol"),
        (lambda: X.rename({"y": "z"}), "no attribute 'y': the relation has x"),
        (lambda: X.join_pairs(Y), "no attribute is shared: x here, y there"),
        (lambda: X.join_pairs(NAME), "'x' holds integers and 'x' of the other"),
        (lambda: X.aligned(Y, "union"), "union needs the same attributes"),
    ],
)
def test_schema_errors_name_the_attribute_and_what_there_is(make, message):
    with pytest.raises(ValueError, match=message):
        make()
