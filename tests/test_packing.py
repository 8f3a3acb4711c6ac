"""Packing and the kernels on packed tuples, against Python's own tuples and sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from semi_naive.balance.bucket_map import BucketMap
from semi_naive.ra import blocks
from semi_naive.ra.operators.grouping import finished, grouped, states
from semi_naive.ra.packing import HIGHEST, LOWEST, Packing, bounds_of, widen
from semi_naive.ra.schema import Schema
from semi_naive.ra.stored import Place
from semi_naive.ra.symbols import SymbolTable
from semi_naive.ra.view import View

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
    words = blocks.sort_unique(packing.pack(columns))
    assert rows_of(packing.unpack(words)) == sorted(set(table[1]))


@given(tables(), st.data())
def test_a_widened_packing_covers_both(table, data):
    arity, rows = table
    _, others = data.draw(tables(arity))
    left, right = columns_of(arity, rows), columns_of(arity, others)
    both = Packing(bounds_of(left)).widened(Packing(bounds_of(right)))
    assert both.bounds == widen(bounds_of(left), bounds_of(right))
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
    words = blocks.sort_unique(packing.pack(np.empty((0, 3), np.int64)))
    assert packing.unpack(words).shape == (0, 1)


@given(st.integers(1, 3), st.data())
def test_among_and_merge_are_those_of_sets(arity, data):
    _, left = data.draw(tables(arity))
    _, right = data.draw(tables(arity))
    packing = Packing(widen(bounds_of(columns_of(arity, left)), bounds_of(columns_of(arity, right))))
    one, two = (blocks.sort_unique(packing.pack(columns_of(arity, rows))) for rows in (left, right))
    found = blocks.among(one, two)
    assert set(rows_of(packing.unpack(one[:, found]))) == set(left) & set(right)
    merged = blocks.merge_all([one, two], packing.lanes)
    assert rows_of(packing.unpack(merged)) == sorted(set(left) | set(right))


@given(st.integers(0, 3), st.integers(1, 7), st.data())
def test_join_pairs_finds_every_pair_once(arity, chunk, data):
    small = st.integers(-2, 2)
    left, right = (sorted(data.draw(tables(arity, small, 12))[1]) for _ in range(2))
    pairs = []
    for at_left, at_right in blocks.join_pairs(columns_of(arity, left), columns_of(arity, right), chunk):
        assert 0 < at_left.size <= chunk
        pairs += zip(at_left.tolist(), at_right.tolist(), strict=True)
    expected = [(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if a == b]
    assert sorted(pairs) == expected


@given(tables(3))
def test_equal_tuples_have_one_place_however_they_are_packed(table):
    columns, placement = columns_of(*table), BucketMap.deal(7, 3).resize({2: 4})
    tight, wide = (Place.keyed((1,), bounds, placement) for bounds in (bounds_of(columns), ((LOWEST, HIGHEST),) * 3))
    assert (tight.slots(tight.words(columns)) == wide.slots(wide.words(columns))).all()


@given(tables(2), st.integers(1, 5))
def test_groups_do_not_depend_on_how_their_tuples_were_cut(table, pieces):
    columns = columns_of(2, sorted(set(table[1])))
    wanted, by = [("count", None), ("sum", 1), ("min", 1), ("max", 1)], (0,)
    parts = [grouped(states(part, by, wanted), 1, wanted) for part in np.array_split(columns, pieces, axis=1)]
    rows = grouped(np.concatenate(parts, axis=1), 1, wanted)
    groups = {}
    for key, value in rows_of(columns):
        groups.setdefault(key, []).append(value)
    expected = sorted((key, len(v), sum(v), min(v), max(v)) for key, v in groups.items())
    if all(LOWEST <= row[2] <= HIGHEST for row in expected):
        assert rows_of(finished(rows, 1, wanted, "nslh")) == expected
    else:
        with pytest.raises(OverflowError):
            finished(rows, 1, wanted, "nslh")


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=20), st.data())
def test_views_compose(rows, data):
    def view(arity):
        at = st.integers(0, arity - 1)
        some = st.lists(at, min_size=1, max_size=arity, unique=True).map(tuple)
        constants = st.lists(st.tuples(at, st.integers(0, 2)), max_size=1).map(tuple)
        return st.builds(View, some, constants, st.lists(st.tuples(at, at), max_size=1).map(tuple))

    first = data.draw(view(3))
    second = data.draw(view(len(first.columns)))
    columns = columns_of(3, rows)
    between = first.apply(columns.__getitem__, columns.shape[1])
    one_by_one = second.apply(between.__getitem__, between.shape[1])
    both = first.then(second)
    assert rows_of(both.apply(columns.__getitem__, columns.shape[1])) == rows_of(one_by_one)
    if both.keeps_apart(3):
        every = columns_of(3, sorted(set(rows)))
        seen = rows_of(both.apply(every.__getitem__, every.shape[1]))
        assert len(seen) == len(set(seen))


def test_symbols_are_dense_and_stay():
    table = SymbolTable()
    assert table.intern(["b", "", "b", "ü"]).tolist() == [0, 1, 0, 2]
    assert table.intern(["ü", "new"]).tolist() == [2, 3]
    assert table.strings(np.array([3, 1, 0])).to_pylist() == ["new", "", "b"]
    assert table.intern([]).size == 0 and len(table) == 4


X, Y, NAME = (Schema((name,), (kind,)) for name, kind in (("x", "int"), ("y", "int"), ("x", "symbol")))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Schema(("x", "x"), ("int", "int")), "two attributes are named 'x'"),
        (lambda: Schema(("x",), ("real",)), "'x' has kind 'real': expected 'int' or 'symbol'"),
        (lambda: X.rename({"y": "z"}), "no attribute 'y': the relation has x"),
        (lambda: X.join_pairs(Y), "no attribute is shared: x here, y there"),
        (lambda: X.join_pairs(NAME), "'x' holds ints and 'x' of the other"),
        (lambda: X.aligned(Y, "union"), "union needs the same attributes"),
    ],
)
def test_schema_errors_name_the_attribute_and_what_there_is(make, message):
    with pytest.raises(ValueError, match=message):
        make()
