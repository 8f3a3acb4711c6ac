"""Reductions by key as tuples are inserted: each against a naive oracle, in any home order, and in copies of a table."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semi_naive import Program, ProgramError
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.ir import Kind
from semi_naive.ra.reduce.best import Best
from semi_naive.ra.reduce.classes import Classes
from semi_naive.ra.reduce.representatives import Representatives
from semi_naive.ra.reduce.union_find import places_in
from semi_naive.ra.reduce.upper_bounds import UpperBounds
from semi_naive.ra.storage.codec import decode, encode_split
from semi_naive.ra.values.kinds import as_bits, numbers

DTYPES = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}
VALUES = {Kind.NUMBER: [-(2**63), -3, 0, 7], Kind.UNSIGNED: [0, 7, 2**63, 2**64 - 1], Kind.FLOAT: [-np.inf, -2.5, 0.0, 1e300]}
STEPS = st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), max_size=6), max_size=5)


def rows(table: Table) -> set:
    return set(zip(*(column.tolist() for column in table.columns()), strict=True))


@pytest.mark.parametrize("home", [(0, 1, 2), (1, 0, 2)], ids=["own order", "another order"])
@pytest.mark.parametrize("better, kind", [*product(["min", "max"], DTYPES)])
@settings(max_examples=25, deadline=None)
@given(steps=STEPS)
def test_the_best_value_of_each_key_is_kept(home, better, kind, steps):
    """Each list of tuples is an iteration; its delta is what improved."""
    table, known, best = Table(3, home, reduction=Best(better, kind)), {}, {"min": min, "max": max}[better]
    for made in steps:
        before = dict(known)
        for x, y, place in made:
            value = VALUES[kind][place]
            known[x, y] = best(known.get((x, y), value), value)
        columns = [np.array(column, np.int64) for column in zip(*made, strict=True)] or [np.empty(0, np.int64)] * 3
        columns[2] = as_bits(np.array([VALUES[kind][place] for _, _, place in made], DTYPES[kind]))
        table.insert(columns, len(made))
        assert table.count == len(known)
        assert table.advance() == sum(before.get(key) != value for key, value in known.items())
    *keys, values = table.columns()
    found = zip(zip(*map(np.ndarray.tolist, keys), strict=True), numbers(values, kind).tolist(), strict=True)
    assert dict(found) == known


@pytest.mark.parametrize("better, kind", [*product(["min", "max"], DTYPES)])
@pytest.mark.parametrize("spread", [1, 10**6, 2**59], ids=["close", "apart", "everywhere"])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), keys=st.integers(1, 700), first=st.sampled_from([-(2**63), -5, 0, 10**9]))
def test_many_tuples_are_thinned_to_the_best_of_each_key(better, kind, spread, seed, keys, first):
    """The keys may be anywhere, and the greatest number may be the best value."""
    random = np.random.default_rng(seed)
    size = 2000
    key = first + random.integers(0, min(keys, 2**63 // spread - 1), size) * spread
    value = as_bits(np.array(VALUES[kind] + [DTYPES[kind](1)], DTYPES[kind])[random.integers(0, 5, size)])
    if kind == Kind.NUMBER:
        value[::7] = 2**63 - 1
    reduction = Best(better, kind)
    (found, best), count = reduction.thinned([key, value], size)
    known: dict[int, object] = {}
    for at, each in zip(key.tolist(), numbers(value, kind).tolist(), strict=True):
        known[at] = {"min": min, "max": max}[better](known.get(at, each), each)
    kept = set(zip(found.tolist(), numbers(best, kind).tolist(), strict=True))
    assert count == len(found) and kept >= set(known.items())
    assert kept <= set(zip(key.tolist(), numbers(value, kind).tolist(), strict=True))
    if spread == 1:
        assert count == len(known)  # each key once, ascending
        assert found.tolist() == sorted(known)


PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=6)


@settings(max_examples=100, deadline=None)
@given(inserts=st.lists(PAIRS, max_size=6))
def test_an_insert_makes_the_pairs_of_united_classes_that_were_in_none(inserts):
    table, classes = Table(2, reduction=Classes()), {}
    for pairs in inserts:
        for left, right in pairs:
            one, other = classes.get(left, frozenset([left])), classes.get(right, frozenset([right]))
            classes |= dict.fromkeys(one | other, one | other)
        known = table.count
        born = table.insert(
            [np.array(column, np.int64) for column in (zip(*pairs, strict=True) if pairs else ([], []))], len(pairs)
        )
        assert rows(table) == {(x, y) for x, members in classes.items() for y in members}
        assert born == table.count - known
        table.advance()


@settings(max_examples=150, deadline=None)
@given(iterations=st.lists(st.tuples(st.lists(PAIRS, max_size=3), st.booleans()), max_size=6))
def test_each_value_has_the_class_of_its_equals(iterations):
    """Several inserts an iteration; between iterations the tuples may go through the machine. Of two classes that are united
    the smaller one gives up its name, so no value changes its class more often than the logarithm of all values."""
    table, classes, names, changes = Table(2, reduction=Representatives()), {}, {}, {}
    for inserts, by_machine in iterations:
        for pairs in inserts:
            for left, right in pairs:
                one, other = classes.get(left, frozenset([left])), classes.get(right, frozenset([right]))
                classes |= dict.fromkeys(one | other, one | other)
            table.insert(
                [np.array(column, np.int64) for column in (zip(*pairs, strict=True) if pairs else ([], []))], len(pairs)
            )
        assert table.end_rule() >= 0 and table.end_rule() == 0
        born = table.advance()
        assert table.count == len(classes)
        before, names = names, dict(rows(table))
        moved = {value for value, name in names.items() if before.get(value) != name}
        assert born == len(moved) and set(names) == set(classes)
        assert all((names[x] == names[y]) == (classes[x] == classes[y]) for x in names for y in names)
        assert {*dict(map(tuple, table.rows("delta").tolist()))} == moved
        for value in moved & before.keys():
            changes[value] = changes.get(value, 0) + 1
        if by_machine:
            full, delta = table.rows("full"), table.rows("delta")
            table.from_machine(full[:0], np.concatenate([full, delta]))
    assert all(2**number <= 13 for number in changes.values())


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(-40, 40)), st.lists(st.integers(-50, 50), max_size=40), st.sampled_from([1, 10**9, 2**55]))
def test_places_of_values_among_members(members, values, apart):
    known, asked = np.array(sorted(members), np.int64) * apart, np.array(values * 30, np.int64) * apart
    expected = [known.tolist().index(value) if value in known.tolist() else -1 for value in asked.tolist()]
    assert places_in(known, asked).tolist() == expected


def test_a_copy_of_a_table_has_classes_of_its_own():
    table = Table(2, reduction=Classes())
    table.insert([np.array([1]), np.array([2])], 1)
    copied = snapshot(table)
    copied.insert([np.array([2]), np.array([3])], 1)
    assert len(rows(copied)) == 9 and rows(table) == {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert table.insert([np.array([3]), np.array([3])], 1) == 1  # not known to be of the class of 1 and 2


def test_classes_have_one_index_for_both_columns():
    table = Table(2, reduction=Classes())
    table.insert([np.array([1, 5]), np.array([2, 7])], 2)
    table.advance()
    table.insert([np.array([2]), np.array([7])], 1)
    table.advance()
    for part in ("full", "delta", "all"):
        assert table.blocks(part, (1, 0)) == table.blocks(part, (0, 1))
    assert table.orders == {(0, 1)}


def test_an_iteration_that_is_forgotten_leaves_the_bounds_of_before():
    table = Table(2, reduction=UpperBounds((lambda pair, size, values: pair[0] | pair[1],), None))
    table.insert([np.array([1]), np.array([4])], 1)
    table.advance()
    mark = table.mark()
    table.insert([np.array([1, 2]), np.array([3, 3])], 2)
    table.back_to(mark)
    table.insert([np.array([1]), np.array([1])], 1)
    assert table.advance() == 1 and rows(table) == {(1, 5)}


@pytest.mark.parametrize("parts", [2, 5000])
def test_words_are_coded_for_the_destinations_that_get_any(parts):
    words, slot, home = np.array([3, 8, 9], "u8"), np.array([0, 1, 0]), np.array([1, 0])
    assert [(part, decode(data, n).tolist()) for part, n, data in encode_split(words, home[slot], parts)] == [
        (0, [8]),
        (1, [3, 9]),
    ]


def test_a_relation_keeps_tuples_in_one_way():
    text = ".decl p(x: number, y: number) eqrel choice-domain x\n.output p\np(x, max(y)) :- p(x, y)."
    with pytest.raises(ProgramError) as wrong:
        Program(text)
    told = [problem.message for problem in wrong.value.problems]
    assert "Relation p has the qualifier eqrel and a choice-domain" in told
    assert "Relation p has a choice-domain and max in its heads" in told
    assert "Relation p has the qualifier eqrel and max in its heads" in told
