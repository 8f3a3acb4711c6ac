"""The kernels against numpy and Python's sets, without Spark."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.hashing import subbucket_of
from semi_naive.ra import codec, words
from semi_naive.ra.graph import intern, relabel
from semi_naive.ra.local_join import KeyedJoin
from semi_naive.ra.local_join_by_row import compose
from semi_naive.ra.rules import kernels
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.block import Block, snug

from semi_naive.running.sampling import distinct_among

settings.register_profile("kernels", deadline=None)
settings.load_profile("kernels")

anywords = st.lists(st.one_of(st.integers(0, 50), st.integers(0, 2**64 - 1)), max_size=60)


def array(values):
    return np.array(sorted(set(values)), np.uint64)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=200))
def test_sort(values):
    given = np.array(values, np.uint64)
    assert words.sort(given).tolist() == sorted(values)
    assert given.tolist() == values
    assert words.sort_unique(given).tolist() == sorted(set(values))


@given(anywords, anywords)
def test_merge_and_drop(left, right):
    assert words.merge(array(left), array(right)).tolist() == sorted({*left, *right})
    assert words.drop(array(left), array(right)).tolist() == sorted({*left} - {*right})


@given(st.lists(st.integers(0, 3000), max_size=5), st.integers(100, 3000))
def test_drop_gallops(few, many):
    assert words.drop(array(few), np.arange(many, dtype=np.uint64)).tolist() == sorted(v for v in {*few} if v >= many)


@given(anywords, st.sampled_from([0, 9, 32, 63]), st.integers(1, 5))
def test_codec_round_trip(values, gap, parts):
    given = array({value >> gap << gap | value & 1 for value in values})
    slot = np.arange(given.size, dtype=np.int64) % 7
    home = np.arange(7, dtype=np.int64) % parts
    found = {part: codec.decode(data, count).tolist() for part, count, data in codec.encode_split(given, slot, home, parts)}
    expected = {}
    for place, word in zip(slot.tolist(), given.tolist(), strict=True):
        expected.setdefault(home[place], []).append(word)
    assert found == expected


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1), st.integers(1, 9), st.integers(1, 5))
def test_slots_are_the_bucket_maps(pairs, buckets, partitions):
    placement = BucketMap.deal(buckets, partitions).resize({0: 4, buckets - 1: 16})
    given = array([x << 10 | y for x, y in pairs])
    first, _ = placement.tables()
    keys, rests = given >> np.uint64(10), given & np.uint64(1023)
    assert codec.slots(given, 10, first).tolist() == placement.slots_of(keys, rests).tolist()


def test_refining_splits_subbuckets_in_place():
    rests = np.arange(1000, dtype=np.uint64)
    coarse, fine = subbucket_of(rests, np.uint64(4)), subbucket_of(rests, np.uint64(16))
    assert (fine % 4 == coarse).all()
    assert np.bincount(fine.astype(int)).min() > 30


relation = st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), max_size=150)


@given(relation, relation, st.sampled_from([None, 1, 3, 50]))
def test_join_in_chunks_from_cursor_to_cursor(outer, inner, limit):
    shift = 7
    left, right = (array([y << shift | x for y, x in side]) for side in (outer, inner))
    cursor, made, rounds = 0, [], 0
    while True:
        join = KeyedJoin(left, right, shift, 71, cursor)
        for chunk in join.chunks(limit):
            assert (np.diff(chunk.astype(np.int64)) > 0).all()
            made += chunk.tolist()
        rounds += 1
        cursor = join.cursor
        if join.done:
            break
        assert join.made >= limit
    expected = {(z, x) for y, x in set(outer) for y2, z in set(inner) if y == y2}
    assert {(word >> shift, word & 127) for word in made} == expected
    if limit is None:
        assert len(made) == len(expected) and rounds == 1


@given(relation, relation)
def test_chunks_of_a_join_are_one_ascending_sequence(outer, inner):
    left, right = (array([y << 7 | x for y, x in side]) for side in (outer, inner))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("semi_naive.ra.local_join.CHUNK", 8)
        made = [word for chunk in KeyedJoin(left, right, 7, 71).chunks() for word in chunk.tolist()]
    assert made == sorted({z << 7 | x for y, x in outer for y2, z in inner if y == y2})


@given(relation, relation.filter(len))
def test_join_row_by_row(outer, inner):
    block = Block.of([np.array(column, np.int64) for column in zip(*inner, strict=True)], len(inner))
    directory, greatest = block.by_first()
    made = [
        chunk.tolist() for chunk, _, _ in compose(array([x << 32 | y for x, y in outer]), block.words[0], directory, greatest)
    ]
    expected = {(x, z) for x, y in outer for y2, z in inner if y == y2}
    assert [word for chunk in made for word in chunk] == sorted(x << 32 | z for x, z in expected)


integers = st.one_of(st.integers(-9, 9), st.integers(0, 1 << 40), st.integers(-(1 << 63), (1 << 63) - 1))


@given(st.integers(1, 5).flatmap(lambda arity: st.lists(st.tuples(*[integers] * arity), min_size=1, max_size=20)))
def test_one_word_wherever_one_will_do(rows):
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    packing = snug(tuple((int(column.min()), int(column.max())) for column in columns))
    block = Block.of(columns, len(rows), packing)
    assert list(zip(*(column.tolist() for column in block.columns()), strict=True)) == sorted(set(rows))
    signed = [
        any(value < 0 for value in column) + max(max(v, ~v).bit_length() for v in column) for column in zip(*rows, strict=True)
    ]
    assert packing.lanes == 1 or sum(signed) + len(signed) > 64


@given(anywords, anywords)
def test_equal_pairs(left, right):
    pairs = sum(left.count(word) * right.count(word) for word in set(left))
    assert kernels.equal_pairs(*(np.array(sorted(side), np.uint64) for side in (left, right))) == pairs


@pytest.mark.parametrize("spread", [1, 1 << 20, -(1 << 40)])
@pytest.mark.parametrize("distinct", [1, 300, 20_000])
def test_distinct_values_are_known_to_a_percent(distinct, spread):
    values = np.random.default_rng(1).permutation(np.arange(60_000) % distinct) * spread
    assert distinct_among(values) == (distinct if spread == 1 else pytest.approx(distinct, rel=0.01))


@pytest.mark.parametrize(
    ("columns", "repeated"),
    [
        ({"x": np.arange(50_000), "y": np.zeros(50_000, np.int64)}, False),
        ({"x": np.arange(50_000) // 2, "y": np.zeros(50_000, np.int64)}, True),
        ({"x": np.arange(50_000) % 300, "y": np.arange(50_000) // 300}, False),
        ({"x": np.maximum(np.arange(50_000) - 30_000, 0), "y": np.zeros(50_000, np.int64)}, True),  # one of them very often
        ({}, True),
    ],
)
def test_whether_bindings_repeat(columns, repeated):
    assert Batch(50_000, columns).repeats(tuple(columns)) == repeated


@pytest.mark.parametrize("seed", range(3))
def test_relabelling_keeps_the_graph(seed):
    pairs = np.random.default_rng(seed).integers(-5, 40, (60, 2))
    graph = relabel(intern(pairs))
    given = graph.values[np.column_stack((graph.sources, graph.targets)).astype(np.int64)]
    assert set(map(tuple, given.tolist())) == set(map(tuple, pairs.tolist()))
    assert len(graph.words) == len(set(map(tuple, pairs.tolist())))
