"""What BiGJoin-S stands on: parts that are equal, blocks that lie evenly, unions, and tables of keys however skewed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz.jobs_here import JobsAsSpark
from semi_naive.graphs.adversaries import one_heavy_list, one_heavy_proposer, through_one_vertex
from semi_naive.ra.blocks import combined
from semi_naive.ra.multiway.bigjoin import BigJoin
from semi_naive.ra.multiway.partitions import dealing
from semi_naive.ra.multiway.partitions.answering import counts_of, members_of, resolved
from semi_naive.ra.multiway.partitions.indexed import indexed
from semi_naive.ra.multiway.partitions.loading import Opened
from semi_naive.ra.multiway.partitions.spreading import COUNT, MEMBER, RESOLVER
from semi_naive.ra.multiway.prefixes import unions
from semi_naive.ra.multiway.prefixes.indexes import IndexKey
from semi_naive.ra.multiway.prefixes.lists import Lists
from semi_naive.ra.multiway.query import Atom, Query

CORNERS = Query((Atom("r", ("x", "y")), Atom("s", ("y", "z")), Atom("t", ("x", "z"))), order=("x", "y", "z"))
WORDS = st.integers(-(2**63), 2**63 - 1)
NEAR = st.integers(-5, 200)


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 6), st.integers(1, 4))
def test_portions_are_equal_and_all_there_is(sizes, parts, each):
    row, first, end, part = dealing.portions(np.array(sizes, np.int64), parts, each * parts)
    found = [(r, n) for r, low, high in zip(row, first, end, strict=True) for n in range(low, high)]
    assert found == [(r, n) for r, size in enumerate(sizes) for n in range(size)]
    shares = np.bincount(part, end - first, minlength=parts)
    assert shares.max() - shares.min() <= each


@given(st.lists(st.lists(WORDS | NEAR, min_size=1, max_size=40, unique=True), min_size=1, max_size=6), st.integers(1, 9))
def test_each_number_is_dealt_to_its_owner(numbers, partitions):
    """Once, in order, and where `pieces` says that ranges of it are."""
    words = combined(np.arange(len(numbers))[None])
    begins = np.cumsum([0, *map(len, numbers)])
    flat = np.concatenate([sorted(own) for own in numbers]).astype(np.int64)
    key = np.repeat(np.arange(len(numbers)), np.diff(begins))
    owner = dealing.owners(words, begins, flat, partitions)
    dealt = {part: own for part, *own in dealing.dealt(words, begins, flat, partitions)}
    assert sorted(dealt) == sorted(set(owner.tolist()))
    for part, (keys, sizes, own) in dealt.items():
        assert own.tolist() == flat[owner == part].tolist()
        assert np.repeat(keys, sizes).tolist() == key[owner == part].tolist()
    some = flat < 2**63 - 8
    ranges = np.stack((key[some], flat[some], flat[some] + 1))
    assert (dealing.pieces(words, ranges, partitions)[3] == owner[some]).all()


@pytest.mark.parametrize("partitions", [2, 5, 8, 16])
@pytest.mark.parametrize("step", [1, 3, 64, 1000])
def test_a_heavy_key_lies_evenly(partitions, step):
    """All numbers from 0 on, or some at a distance that suits the blocks badly."""
    numbers = np.arange(4000 * partitions) * step
    owner = dealing.owners(combined(np.array([[7]])), np.array([0, numbers.size]), numbers, partitions)
    assert np.bincount(owner).max() < 1.12 * 4000


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(1, 20)), max_size=20), st.integers(1, 5))
def test_unions_of_ranges(asked, partitions):
    groups, lows, sizes = np.array(asked, np.int64).reshape(-1, 3).T.copy()
    united, starts = unions.ranges(groups, lows, lows + sizes)
    whole = [(g, n) for g, low, high in united.T.tolist() for n in range(low, high)]
    assert whole == sorted({(g, n) for g, low, size in asked for n in range(low, low + size)})
    for (group, low, size), start in zip(asked, starts, strict=True):
        assert whole[start : start + size] == [(group, n) for n in range(low, low + size)]
    pieces = dealing.pieces(combined(np.arange(4)[None]), united, partitions)
    assert [(g, n) for g, low, size, _ in pieces.T.tolist() for n in range(low, low + size)] == whole


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(NEAR | WORDS, min_size=1) | st.sets(NEAR, min_size=1)), max_size=12))
def test_unions_of_lists(asked):
    """In a bitmap where a group's values are near each other, and by a sort where they are not."""
    pool = np.array([value for _, own in asked for value in sorted(own)], np.int64)
    stops = np.cumsum([len(own) for _, own in asked], dtype=np.int64)
    starts = np.concatenate(([0], stops))[:-1].astype(np.int64)
    lists = Lists(np.arange(len(asked)), starts, stops, pool)
    begins, found = unions.values(lists, np.array([group for group, _ in asked], np.int64), 4)
    for group in range(4):
        expected = set().union(*(own for other, own in asked if other == group))
        assert found[begins[group] : begins[group + 1]].tolist() == sorted(expected)


def spread(tuples, bound, partitions):
    """The tables of the index from some columns to the last, by partition."""
    shared = indexed({"r": tuples}, JobsAsSpark(partitions), skew=True)
    key = IndexKey("r", (), bound, tuples.shape[1] - 1)
    shared.want([key])
    opened = [Opened(handles) for handles in shared.handles]
    return {kind: [own[kind, key] for own in opened] for kind in (COUNT, RESOLVER, MEMBER)}, shared


@settings(max_examples=40)
@given(st.lists(st.tuples(NEAR, st.integers(0, 2), WORDS | NEAR), max_size=80), st.data())
def test_the_tables_of_an_index(facts, data):
    """Counts, the values of each key by number and in order, and members: each on one partition, and nothing else anywhere."""
    bound, partitions = data.draw(st.sampled_from([(), (1,), (0, 1)])), data.draw(st.integers(1, 5))
    tables, shared = spread(np.array(facts, np.int64).reshape(-1, 3), bound, partitions)
    index = {}
    for fact in facts:
        index.setdefault(tuple(fact[place] for place in bound), set()).add(fact[2])
    assert sum(part.values.size for part in tables[MEMBER]) == sum(map(len, index.values()))
    assert sum(part.values.size for part in tables[RESOLVER]) == sum(map(len, index.values()))
    for key, expected in index.items():
        keys, expected = np.array([key], np.int64).T, np.array(sorted(expected))
        assert sum(counts_of(part, keys)[0] for part in tables[COUNT]) == expected.size
        words = combined(keys)
        found = []
        for _, first, size, owner in dealing.pieces(words, np.array([[0], [0], [expected.size]]), partitions).T.tolist():
            found += resolved(tables[RESOLVER][owner], np.concatenate((keys, [[first], [size]]))).tolist()
        assert found == expected.tolist()
        for part, _, _, own in dealing.dealt(words, np.array([0, expected.size]), expected, partitions):
            whole = Lists(*np.array([[0], [0], [own.size]]), own)
            assert members_of(tables[MEMBER][part], keys, whole).total == own.size
    shared.close()


def test_tables_of_one_key_are_even():
    """A key that has nearly all there is: its values are on all partitions, as they are while they are sorted."""
    rng = np.random.default_rng(3)
    heavy = np.stack((np.zeros(20_000, np.int64), rng.integers(0, 10**6, 20_000)), axis=1)
    tables, shared = spread(np.concatenate((heavy, rng.integers(1, 10**6, (2000, 2)))), (0,), 8)
    for kind in (MEMBER, RESOLVER):
        sizes = [part.values.size for part in tables[kind]]
        assert max(sizes) < 1.1 * sum(sizes) / len(sizes)
    shared.close()


def ratio(work):
    return max(work) / (sum(work) / len(work))


@pytest.mark.parametrize("partitions", [3, 5, 16])
@pytest.mark.parametrize("adversary", [through_one_vertex, one_heavy_list, one_heavy_proposer])
def test_work_is_even_on_any_number_of_partitions(adversary, partitions):
    with BigJoin(CORNERS, adversary(), JobsAsSpark(partitions), skew=True) as join:
        join.count()
        assert ratio(join.trace["work"]) < 1.1


def test_what_prefixes_share_is_asked_for_once():
    """20 prefixes are extended by one list of 2,000 values: each partition asks for a value once, at most."""
    with BigJoin(CORNERS, one_heavy_proposer(), JobsAsSpark(4), skew=True) as join:
        join.count()
        stage = join.trace["stages"][-1]
        first, steps = ([step for step in join.trace["steps"] if step["stage"] == number] for number in (0, 2))
    assert stage["proposals"] == 40_000
    assert [step["phase"] for step in first] == ["propose", "answer"]
    assert [step["phase"] for step in steps] == ["propose", "resolve", "answer", "check", "answer", "survive"]
    assert sum(steps[2]["received"]) == 4 * 2000
    assert sum(steps[4]["received"]) <= 4 * 2000 * 20
    assert sum(steps[1]["bytes"]) < 40_000  # ranges, and no numbers
