"""What bounds the memory of blocks: bounds by pieces, small directories, snapshots that stay while tables merge."""

import numpy as np
import pytest

from semi_naive.ra.blocks import block as blocks
from semi_naive.ra.blocks.block import Block, directory_of
from semi_naive.ra.blocks.table import Table, snapshot


def test_the_blocks_of_a_snapshot_stay():
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


def test_bounds_are_those_of_all_pieces(monkeypatch):
    monkeypatch.setattr(blocks, "BOUNDED_ROWS", 7)
    columns = [np.random.default_rng(4).integers(-50, 50, 100) for _ in range(3)]
    assert Block.of(columns, 100).bounds == tuple((column.min(), column.max()) for column in columns)


@pytest.mark.parametrize("high, entries", [(1500, 1501), (1 << 40, 1001)])
def test_a_directory_of_sparse_keys_has_an_entry_a_word_at_most(high, entries):
    words = np.unique(np.random.default_rng(5).integers(0, high, 1000, dtype=np.uint64))
    _, coarse, starts = directory_of(words, 0)
    assert starts.size <= entries + 1 and (coarse == 0) == (high == 1500)
