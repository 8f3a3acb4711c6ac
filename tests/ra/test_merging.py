"""Merging blocks piece by piece: the union is right, and only words that nothing else refers to are given up."""

import numpy as np
import pytest

from semi_naive.ra.blocks import block as blocks
from semi_naive.ra.blocks.block import Block, directory_of, merge_blocks, merge_last
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.lanes import sort_unique
from semi_naive.ra.packing import Packing
from semi_naive.ra.rules.columns import BlockColumn

HOLDERS = {
    "nothing": lambda block: None,
    "a list": lambda block: [block],
    "its words": lambda block: block.words,
    "a view": lambda block: block.words[0],
    "a slice": lambda block: block.picked(slice(3, 9)) if block.packing.lanes == 1 else block.words[:, 3:9],
    "a column": lambda block: BlockColumn(block, 0),
}


@pytest.fixture
def discarded(monkeypatch) -> list[int]:
    """Lets small blocks be merged by pieces, and lists the sizes of what is given up, whose values are overwritten."""
    sizes: list[int] = []

    def discard(array) -> None:
        sizes.append(array.size)
        array[:] = 0

    monkeypatch.setattr(blocks, "discard", discard)
    monkeypatch.setattr(blocks, "MERGED_TUPLES", 64)
    monkeypatch.setattr(blocks, "MIN_MERGED_BY_PIECES", 0)
    return sizes


def drawn(seed: int, size: int, lanes: int) -> Block:
    words = np.random.default_rng(seed).integers(0, 3000 if lanes == 1 else 40, (lanes, size), dtype=np.uint64)
    return Block(Packing(((0, 1 << 62),) * lanes), sort_unique(words))


@pytest.mark.parametrize("held", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize("lanes", [1, 3])
def test_blocks_are_merged_and_given_up_if_nothing_else_has_them(discarded, lanes, held):
    expected = merge_blocks([drawn(1, 900, lanes), drawn(2, 500, lanes)], drawn(1, 1, lanes).packing).words
    log = [drawn(1, 900, lanes), drawn(2, 500, lanes)]
    holders = [held(block) for block in log]
    sizes = [block.words.size for block in log]
    merge_last(log, 1)
    assert np.array_equal(log[0].words, expected) and len(log) == 1
    assert sum(discarded) == (0 if any(each is not None for each in holders) else sum(sizes))


def test_the_blocks_of_a_snapshot_stay(discarded):
    table, rng = Table(2), np.random.default_rng(3)
    rows: set = set()
    for _ in range(12):
        columns = [rng.integers(0, 300, 400) for _ in range(2)]
        rows |= {*zip(*(column.tolist() for column in columns), strict=True)}
        table.insert(columns, 400)
        before, known = snapshot(table), set(rows)
        table.advance()
        table.blocks("all", (1, 0))
        assert {*zip(*(column.tolist() for column in before.columns()), strict=True)} == known
    table.settle()
    assert {*map(tuple, table.rows("full").tolist())} == rows
    assert discarded  # of blocks that no snapshot had


def test_bounds_are_those_of_all_pieces(monkeypatch):
    monkeypatch.setattr(blocks, "BOUNDED_ROWS", 7)
    columns = [np.random.default_rng(4).integers(-50, 50, 100) for _ in range(3)]
    assert Block.of(columns, 100).bounds == tuple((column.min(), column.max()) for column in columns)


@pytest.mark.parametrize("high, entries", [(1500, 1501), (1 << 40, 1001)])
def test_a_directory_of_sparse_keys_has_an_entry_a_word_at_most(high, entries):
    words = np.unique(np.random.default_rng(5).integers(0, high, 1000, dtype=np.uint64))
    _, coarse, starts = directory_of(words, 0)
    assert starts.size <= entries + 1 and (coarse == 0) == (high == 1500)
