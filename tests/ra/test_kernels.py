"""The kernels against numpy and Python's sets, without Spark."""

import itertools
import struct
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.hashing import subbucket_of
from semi_naive.host import jit
from semi_naive.ra import chunks, lanes, words
from semi_naive.ra.blocks import kernels, sampling_kernels
from semi_naive.ra.blocks import table as tables
from semi_naive.ra.blocks.block import Block, Chunked, group_begins, merge_blocks
from semi_naive.ra.blocks.packings import HALVES, bounds_of, fits, roomy, snug
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.closures.graph import intern, relabel
from semi_naive.ra.joins import local_join, unions
from semi_naive.ra.joins.local_join import MAX_CHUNK_HEADS
from semi_naive.ra.joins.local_join_by_row import compose
from semi_naive.ra.packing import Packing
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.derive import Sink
from semi_naive.ra.storage import codec
from semi_naive.running.relations.sampling import distinct_among

settings.register_profile("kernels", deadline=None)
settings.load_profile("kernels")

MOST = 1800 if jit.mode == "uncompiled" else 9000  # values in one row of a join
anywords = st.lists(st.one_of(st.integers(0, 50), st.integers(0, 2**64 - 1)), max_size=60)


def array(values):
    return np.array(sorted(set(values)), np.uint64)


triples = st.lists(st.tuples(*[st.sampled_from([0, 1, 2, 7, 2**64 - 1])] * 3), max_size=300)


def rows_of(tuples) -> np.ndarray:
    return np.array(sorted(set(tuples)), np.uint64).reshape(-1, 3).T


@given(st.lists(triples, max_size=4), triples)
def test_tuples_of_several_words(blocks, others):
    given = [rows_of(block) for block in blocks]
    merged = lanes.merge_all(given, 3)
    assert list(map(tuple, merged.T.tolist())) == sorted({row for block in blocks for row in block})
    for block in given:
        known = {tuple(row) for row in rows_of(others).T.tolist()}
        for some in (block, block[:, :2]):  # a few of many gallop
            assert lanes.among(some, rows_of(others)).tolist() == [tuple(row) in known for row in some.T.tolist()]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=200))
def test_sort(values):
    given = np.array(values, np.uint64)
    assert words.sort(given).tolist() == sorted(values)
    assert given.tolist() == values
    assert words.sort_unique(given).tolist() == sorted(set(values))


def test_tuples_of_several_words_are_merged_uncompiled_as_well():
    """Positions are sums of flags of 8 bits, which numpy would keep in 8 bits."""
    block = np.array([range(300), range(300)], np.uint64)
    merged = lanes._merge_rows._run((block[:, 1:].copy(), block[:, :1].copy()))
    assert (merged == block).all()


@given(anywords, anywords)
def test_merge_and_drop(left, right):
    assert words.merge(array(left), array(right)).tolist() == sorted({*left, *right})
    assert words.drop(array(left), array(right)).tolist() == sorted({*left} - {*right})


@given(st.lists(st.integers(0, 3000), max_size=5), st.integers(100, 3000))
def test_drop_gallops(few, many):
    assert words.drop(array(few), np.arange(many, dtype=np.uint64)).tolist() == sorted(v for v in {*few} if v >= many)


ends = st.tuples(st.sampled_from([-(2**63), -(2**40), -3, 0, 7, 2**33]), st.sampled_from([0, 1, 2, 1000, 2**31, 2**63 - 1]))


@given(st.lists(ends, min_size=1, max_size=5), st.integers(1, 50), st.randoms(use_true_random=False))
def test_columns_as_words(ends, size, random):
    """As compiled kernels do it, as they do uncompiled, and as numpy does it."""
    packing = Packing(tuple((low, min(low + span, 2**63 - 1)) for low, span in ends))
    columns = np.array([[random.randint(low, high) for _ in range(size)] for low, high in packing.bounds], np.int64)
    expected = packing.pack(columns)
    some = [(max(low - 1, -(2**63)), low, high, min(high + 1, 2**63 - 1)) for low, high in packing.bounds]
    asked = np.array([[random.choice(values) for _ in range(size)] for values in some], np.int64)
    inside = [all(low <= v <= high for v, (low, high) in zip(row, packing.bounds, strict=True)) for row in asked.T.tolist()]
    for way in ("__call__", "uncompiled"):
        words = np.zeros((packing.lanes, size), np.uint64)
        getattr(kernels.pack_fields, way)(words, columns, packing.layout)
        assert words.tolist() == expected.tolist()
        assert getattr(kernels.unpack, way)(words, packing.layout).tolist() == columns.tolist()
        assert getattr(kernels.mark_within_bounds, way)(asked, packing.layout).tolist() == inside
        low, high = packing.bounds[0]
        assert getattr(kernels.mark_within_bounds, way)(asked[:1], packing.layout).tolist() == [
            low <= v <= high for v in asked[0].tolist()
        ]
        assert [tuple(each) for each in getattr(kernels.bounds, way)(columns).tolist()] == [
            (min(c), max(c)) for c in columns.tolist()
        ]
    first = np.zeros((packing.lanes, size), np.uint64)
    for column, (low, _) in zip(columns[1:], packing.bounds[1:], strict=True):
        column[:] = low
    kernels.pack_fields(first, columns[:1], packing.layout)
    assert first.tolist() == packing.pack(columns).tolist()


@given(anywords, st.sampled_from([0, 9, 32, 63]), st.integers(1, 5))
def test_codec_round_trip(values, gap, parts):
    given = array({value >> gap << gap | value & 1 for value in values})
    slot = np.arange(given.size, dtype=np.int64) % 7
    home = np.arange(7, dtype=np.int64) % parts
    found = {part: codec.decode(data, count).tolist() for part, count, data in codec.encode_split(given, home[slot], parts)}
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
    assert codec.slots_of_words(given, 10, first).tolist() == placement.slots_of(keys, rests).tolist()


def test_refining_splits_subbuckets_in_place():
    rests = np.arange(1000, dtype=np.uint64)
    coarse, fine = subbucket_of(rests, np.uint64(4)), subbucket_of(rests, np.uint64(16))
    assert (fine % 4 == coarse).all()
    assert np.bincount(fine.astype(int)).min() > 30


relation = st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), max_size=150)


@given(relation, relation, st.sampled_from([MAX_CHUNK_HEADS, 1, 3, 50]))
def test_join_in_chunks_from_cursor_to_cursor(outer, inner, most):
    shift = 7
    left, right = (array([y << shift | x for y, x in side]) for side in (outer, inner))
    cursor, made, rounds = 0, [], 0
    while (piece := next(local_join.compose(left, right, shift, 71, cursor, most), None)) is not None:
        words, _, cursor = piece
        assert (np.diff(words.astype(np.int64)) > 0).all()
        made += words.tolist()
        rounds += 1
    expected = {(z, x) for y, x in set(outer) for y2, z in set(inner) if y == y2}
    assert {(word >> shift, word & 127) for word in made} == expected
    if most == MAX_CHUNK_HEADS:
        assert len(made) == len(expected) and rounds <= 1


@given(relation, relation)
def test_chunks_of_a_join_are_one_ascending_sequence(outer, inner):
    left, right = (array([y << 7 | x for y, x in side]) for side in (outer, inner))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("semi_naive.ra.joins.local_join.MAX_CHUNK_HEADS", 8)
        made = [word for words, _, _ in local_join.compose(left, right, 7, 71) for word in words.tolist()]
    assert made == sorted({z << 7 | x for y, x in outer for y2, z in inner if y == y2})


@given(relation, relation.filter(len))
def test_join_row_by_row(outer, inner):
    block = Block.of([np.array(column, np.int64) for column in zip(*inner, strict=True)], len(inner))
    directory, greatest = block.directory(32), block.greatest_second
    made = [
        chunk.tolist() for chunk, _, _ in compose(array([x << 32 | y for x, y in outer]), block.words[0], directory, greatest)
    ]
    expected = {(x, z) for x, y in outer for y2, z in inner if y == y2}
    assert [word for chunk in made for word in chunk] == sorted(x << 32 | z for x, z in expected)


@given(anywords, anywords)
def test_chunks_are_sets_of_words(left, right):
    left, right = array(left), array(right)
    ours, theirs = chunks.chunked(left), chunks.chunked(right)
    assert chunks.words_of(*ours, chunks.size_of(ours[1])).tolist() == left.tolist()
    for made, expected in (
        (chunks.union(*ours, *theirs), {*left.tolist(), *right.tolist()}),
        (chunks.minus(*ours, *theirs), set(left.tolist()) - set(right.tolist())),
        (chunks.minus_words(*ours, right), set(left.tolist()) - set(right.tolist())),
    ):
        assert (np.diff(made[0].astype(object)) > 0).all() and made[1].all()
        assert chunks.words_of(*made, len(expected)).tolist() == sorted(expected)


@given(st.lists(st.integers(0, 500), max_size=5), st.integers(600, 9000))
def test_chunks_of_few_words_among_many(few, many):
    """Where known ones are many more, they are galloped over."""
    given, known = array([2 * word for word in few] + [2**40]), array(range(1, many, 2))
    known = np.union1d(known, given[:1]).astype("u8")
    for made in (
        chunks.minus(*chunks.chunked(given), *chunks.chunked(known)), chunks.minus_words(*chunks.chunked(given), known)
    ):  # fmt: skip
        assert chunks.words_of(*made, chunks.size_of(made[1])).tolist() == given.tolist()[1:]


def rows_with_gaps(rng, rows: int, width: int, share: float) -> set[tuple[int, int]]:
    """Of some rows a share of the values from one to another, or a few anywhere; of row 0 all values."""
    found = {(0, int(z)) for z in range(min(width, MOST // 2))}
    for y in rng.integers(0, 3 * rows, rows).tolist():
        low, high = sorted(rng.integers(0, width, 2).tolist())
        high = min(high, low + MOST)
        values = np.arange(low, high)[rng.random(high - low) < share] if rng.random() < 0.7 else rng.integers(0, width, 5)
        found |= {(y, int(z)) for z in values}
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from([5, 300, 4000, 1 << 22]), st.sampled_from([0.01, 0.5, 1.0]), st.integers(1, 4),
    st.sampled_from([1, 40, 1 << 17]), st.sampled_from([1, 10**6]),
)  # fmt: skip
def test_unions_are_joins(seed, width, share, shares, made, apart):
    """Of rows that are full, that have gaps and that have little; in any number of shares; handed over in any number of pieces;
    of keys that are next to each other, and of keys that are not."""
    rng = np.random.default_rng(seed)
    inner = {(apart * y, z) for y, z in rows_with_gaps(rng, 8, width, share)}
    keys = sorted({y for y, _ in inner}) + [7]
    pairs = {(int(x), int(keys[rng.integers(len(keys))])) for x in rng.integers(0, 12, 40)}

    def block(rows):
        return Block(HALVES, np.sort(array([x << 32 | y for x, y in rows]))[None])

    expected = sorted({x << 32 | z for x, y in pairs for y2, z in inner if y == y2})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("semi_naive.ra.joins.unions.HANDED_OVER_CHUNKS", made)
        by_row = list(unions.by_row(block(pairs).chunks, block(inner).chunks, *block(inner).rows))
        outer, leading = block(inner), block({(y, x) for x, y in pairs})  # heads (x, z), where inner is the outer relation
        by_new = [one for n in range(shares) for one in unions.by_new(outer.chunks, leading.chunks, leading.size, (n, shares))]
    for found in (by_row, by_new):
        words = [chunks.words_of(*one, chunks.size_of(one[1])).tolist() for one in found]
        assert [word for one in words for word in one] == expected
        assert made > 1 or 2 * len(found) >= len({word >> 32 for word in expected})


def test_a_block_is_the_same_in_chunks():
    """Every operation, whichever of the two forms the blocks are in."""
    rng = np.random.default_rng(3)
    first, second = (np.unique(rng.integers(0, 3000, 2000).astype("u8") | np.uint64(1 << 32)) for _ in range(2))

    def forms(words):
        return Block(HALVES, words[None]), Chunked(HALVES, chunks.chunked(words))

    for left, right in itertools.product(forms(first), forms(second)):
        assert left.without(right).words[0].tolist() == sorted({*first.tolist()} - {*second.tolist()})
        assert merge_blocks([left, right], HALVES).words[0].tolist() == sorted({*first.tolist(), *second.tolist()})
        assert left.size == first.size and left.nbytes > 0
        assert [left.column(n).tolist() for n in (0, 1)] == [forms(first)[0].column(n).tolist() for n in (0, 1)]
        for places in ([0, 0, 5, 77, 140], [140, 7], list(range(left.size))):  # a few that ascend, a few that do not, all
            expected = (first[places] & np.uint64((1 << 32) - 1)).tolist()
            assert forms(first)[1].column(1, np.array(places)).tolist() == expected
        assert left.reordered((1, 0)).words[0].tolist() == np.sort(first << np.uint64(32) | first >> np.uint64(32)).tolist()
    apart = Chunked(HALVES, chunks.chunked(array(range(0, 64000, 64))))
    assert not isinstance(apart.compact(), Chunked) and isinstance(forms(first)[1].compact(), Chunked)


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
    assert sampling_kernels.equal_pairs(*(np.array(sorted(side), np.uint64) for side in (left, right))) == pairs


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


@settings(max_examples=50)
@given(st.lists(st.tuples(st.lists(st.tuples(*[st.integers(0, 90)] * 2), min_size=1, max_size=30), st.booleans()), max_size=8))
def test_small_blocks_of_heads_wait_and_are_compared_with_what_is_known_once(given):
    """As chunks and as words; what has been made is counted at once, and what is born at the end."""
    known = {(i, i) for i in range(0, 90, 3)}
    table, compared = Table(2), []
    insert = table.insert_block
    table.insert_block = lambda *block: compared.append(block) or insert(*block)
    table.insert(list(np.array(sorted(known)).T), len(known))
    table.advance()
    sink = Sink(table)
    for pairs, close in given:
        block = Block.of([np.array(column) for column in zip(*pairs, strict=True)], len(pairs), HALVES)
        sink.take(Chunked(HALVES, block.chunks) if close else block)
    new = {pair for pairs, _ in given for pair in pairs} - known
    assert not compared and sink.taken == sum(len(set(pairs)) for pairs, _ in given)
    assert sink.flush() == len(new) and len(compared) == bool(given)
    assert set(zip(*(column.tolist() for column in table.columns()), strict=True)) == known | new


@pytest.mark.parametrize("least", [0, -50])
def test_a_few_keys_are_found_without_a_directory_as_with_one(least):
    rng = np.random.default_rng(3)
    columns = list(rng.integers(least, 100, size=(3, 90_000)))
    few, many = (Block.of(columns, 90_000) for _ in range(2))
    keys = [np.concatenate([column[:10], rng.integers(least - 10, 110, size=1990)]) for column in columns]
    for length in (1, 2, 3):
        found = [few.ranges([key[begin : begin + 10] for key in keys[:length]], 10) for begin in (0, 10)]
        (lows, highs), (known, ends) = np.concatenate(found, axis=1), many.ranges(keys[:length], 2000)
        there = highs > lows
        assert (there == (ends > known)[:20]).all() and (there.any() or length > 1)
        assert (lows[there] == known[:20][there]).all() and (highs[there] == ends[:20][there]).all()
    assert len(many._directories) == 3 and not few._directories


@pytest.mark.parametrize("widths", [(8, 3, 62), (4, 30, 20, 63), (40, 40, 3), (5, 64)])
def test_keys_of_tuples_of_several_words_are_found(widths):
    """Keys in the first word, up to its end, and beyond it; a snug packing needs no more words than a roomy one."""
    rng = np.random.default_rng(sum(widths))
    columns = [rng.integers(-9 * (width > 62), 1 << min(width, 5), 3000) << max(0, min(width, 63) - 5) for width in widths]
    columns[-1] -= (columns[-1] & 1) << 5
    bounds = bounds_of(columns)
    packing = snug(bounds)
    assert 1 < packing.lanes <= roomy(bounds).lanes and fits(bounds, packing)
    block = Block.of(columns, 3000, packing)
    rows = list(zip(*(column.tolist() for column in block.columns()), strict=True))
    assert rows == sorted({*zip(*(column.tolist() for column in columns), strict=True)})
    for length in range(1, len(widths) + 1):
        keys = [np.append(column[:50], 3) for column in columns[:length]]
        lows, highs = block.ranges(keys, 51)
        for low, high, *key in zip(lows.tolist(), highs.tolist(), *(key.tolist() for key in keys), strict=True):
            assert rows[low:high] == [row for row in rows if row[:length] == tuple(key)]
        begins = group_begins(block, length).tolist()
        assert begins == [at for at in range(len(rows)) if not at or rows[at][:length] != rows[at - 1][:length]]


def test_a_directory_is_made_once_it_takes_less_than_searches_without_it():
    first, second = np.divmod(np.arange(100_000), 1000)  # 100 groups of the first column, 100,000 of both
    pairs = Block.of([first, second], first.size)
    some = np.random.default_rng(0).integers(100_000, size=300)
    for keys in ([first[some], second[some]], [first[some]]):
        lows, highs = pairs.ranges(keys, some.size)
        assert (lows == (some if len(keys) == 2 else first[some] * 1000)).all()
        assert (highs == lows + (1 if len(keys) == 2 else 1000)).all()
    assert set(pairs._directories) == {32}


@pytest.mark.parametrize("cuts", list(itertools.product((False, True), repeat=4)))
def test_pieces_may_have_packings_that_do_not_hold_each_other(cuts):
    """Columns of 64 bits leave no room, so an empty table has a packing that holds the last piece and no other."""
    half, three, negative = (struct.unpack("<q", struct.pack("<d", value))[0] for value in (0.5, 3.0, -1.25))
    rows = [(1, half, -1, 0), (1, half, -1, 1), (1, half, -1, 2), (2, negative, 0, 3), (3, three, 7, 0)]
    for order in itertools.permutations(rows):
        pieces = [[order[0]]]
        for row, cut in zip(order[1:], cuts, strict=True):
            pieces += [[]] if cut else []
            pieces[-1].append(row)
        table = Table(4)
        table.insert_pieces(np.array(piece, np.int64).T.copy() for piece in pieces)
        assert set(zip(*(column.tolist() for column in table.columns()), strict=True)) == set(rows)


@settings(max_examples=100)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.sampled_from([-(2**63), -1, 0, 5, 2**20, 2**40])), max_size=9), max_size=9
    ),
    st.booleans(),
    st.booleans(),
)
def test_facts_in_pieces_are_one_set(pieces, ascending, empty):
    """Pieces that are merged few or all at a time, in a packing that becomes wider, are one set, also if their ranges follow
    each other."""
    if ascending:
        pieces = [[(10 * number + x, y) for x, y in piece] for number, piece in enumerate(pieces)]
    for waiting in (1, 12, 1 << 23):
        with mock.patch.object(tables, "MAX_WAITING_TUPLES", waiting):
            table, expected = Table(2), set(itertools.chain(*pieces))
            if not empty:  # so that the packing of the table does not begin with that of a piece
                table.insert([np.array([3]), np.array([5])], 1)
                table.advance()
                expected.add((3, 5))
            table.insert_pieces(np.array(piece, np.int64).reshape(-1, 2).T.copy() for piece in pieces)
            assert sorted(zip(*(column.tolist() for column in table.columns()), strict=True)) == sorted(expected)
