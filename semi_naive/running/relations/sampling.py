"""Estimates about a `Table`, from a sample or in one pass: distinct values, the number of tuples that a tuple joins with."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from semi_naive.ra import words
from semi_naive.ra.blocks import sampling_kernels

DISTINCT_SAMPLE_TUPLES = 1 << 20  # tuples in a sample for the number of distinct values
FANOUT_SAMPLE_TUPLES = 1 << 15  # tuples in a sample for the fan-out of a join: it takes a millisecond
MAX_SORTED_VALUES = 1 << 12  # values up to which distinct ones are counted by sorting
DISTINCT_SAMPLE_HASHES = 1 << 14  # hashes in a sample for the share of distinct tuples, to within 1 %
MIN_TRIAL_TUPLES, TRIAL_SHARE = 1 << 12, 1 / 64  # a sample for a trial of joins, the larger of both: 0.4 ms, or 1 % of reading


def _table_size(table) -> int:
    """Return the number of tuples in a table's blocks, without those of the current iteration."""
    return sum(block.size for block in table.blocks("all", table.home))


def distinct_values(table, column: int) -> float:
    """Estimate the number of distinct values of a table's column. Takes 2 ns a tuple."""
    total = _table_size(table)
    if not total:
        return 1.0
    step = max(1, total // DISTINCT_SAMPLE_TUPLES)
    place, blocks = table.home.index(column), table.blocks("all", table.home)
    spaced = [np.arange(0, block.size, step) if step > 1 else None for block in blocks]  # None for all
    sample = np.concatenate([block.column(place, rows) for block, rows in zip(blocks, spaced, strict=True)])
    distinct = distinct_among(sample)
    # If almost all values of the sample differ, probably all do.
    return float(distinct * step if distinct > 0.9 * sample.size else distinct)


def distinct_among(values: np.ndarray) -> int:
    """Return the number of distinct values: exactly if they are few or close together, otherwise to within 1 %, from the number
    of bits that their hashes leave unset in a bitmap (linear counting: Whang, Vander-Zanden and Taylor, 1990).

    >>> spaced = np.arange(100_000, dtype=np.int64) % 30_000
    >>> distinct_among(spaced), abs(distinct_among(spaced * 1_000_003) - 30_000) < 300
    (30000, True)
    """
    if values.size <= MAX_SORTED_VALUES:
        return words.sort_unique(values.view(np.uint64)).size
    low, span = int(values.min()), int(values.max()) - int(values.min())
    if span < 8 * values.size:
        return int(np.bitwise_count(sampling_kernels.presence_bits(values, low, 0, span + 1)).sum())
    bits = (2 * values.size).bit_length()
    hashes = np.zeros(values.size, np.uint64)
    sampling_kernels.mix_in(hashes, values)
    marked = sampling_kernels.presence_bits(hashes.view(np.int64), 0, 64 - bits, 1 << bits)
    unset = (1 << bits) - int(np.bitwise_count(marked).sum())
    return round(-math.log(unset / (1 << bits)) * (1 << bits))


def distinct_share(table, columns: tuple[int, ...]) -> float:
    """Estimate the number of distinct values of some columns, as a fraction of the table's tuples. The sample has all tuples
    whose hash of these columns is in a small set. Takes 4 ns a tuple and column."""
    share, places = DISTINCT_SAMPLE_HASHES / max(1, _table_size(table)), [table.home.index(column) for column in columns]
    blocks = table.blocks("all", table.home)
    found = [sampling_kernels.sampled_hashes([block.column(place) for place in places], block.size, share) for block in blocks]
    hashes = np.concatenate(found) if found else np.empty(0, np.uint64)
    return words.sort_unique(hashes).size / hashes.size if hashes.size else 1.0


def average_partners(table, columns: tuple[int, ...], other, places: tuple[int, ...]) -> float:
    """Estimate, from samples, the average number of tuples of `other` that a tuple of `table` joins with. columns, places: the
    joined columns of the two tables."""
    keys = words.sort(_row_words(draw_columns(table, columns, 0, FANOUT_SAMPLE_TUPLES)))
    other_keys = words.sort(_row_words(draw_columns(other, places, 1, FANOUT_SAMPLE_TUPLES)))
    if not keys.size or not other_keys.size:
        return 0.0
    return sampling_kernels.equal_pairs(keys, other_keys) / keys.size * _table_size(other) / other_keys.size


def _row_words(columns: list[np.ndarray]) -> np.ndarray:
    """Return a word for each row: the value of a single column, or a hash of several. Equal rows have equal words."""
    if len(columns) == 1:
        return columns[0].view(np.uint64)
    hashes = np.zeros(columns[0].size, np.uint64)
    for column in columns:
        sampling_kernels.mix_in(hashes, column)
    return hashes


def fewest_partners(table, sides: Sequence[tuple[int, Any, int]]) -> float:
    """Estimate, from samples, the average of the smallest number of partners that a tuple of `table` has in one of several
    tables. sides: (column, other table, its column). A value that is rare in the sample is given the average frequency."""
    fewest = np.inf
    columns = draw_columns(table, [column for column, _, _ in sides], 0, FANOUT_SAMPLE_TUPLES)
    for column, (_, other, place) in zip(columns, sides, strict=True):
        (drawn,) = draw_columns(other, [place], 1, FANOUT_SAMPLE_TUPLES)  # with seed 0, equal tables would match completely
        other_values = words.sort(drawn.view(np.uint64)).view(np.int64)
        matches = np.searchsorted(other_values, column, "right") - np.searchsorted(other_values, column)
        sampling_factor = _table_size(other) / max(1, other_values.size)
        fewest = np.minimum(fewest, np.maximum(matches * sampling_factor, _table_size(other) / distinct_values(other, place)))
    return float(np.mean(fewest)) if columns[0].size else 0.0


def estimate_matching(columns: list[np.ndarray], wanted_values: list[int], total: int) -> float:
    """Estimate how many of `total` tuples have the wanted values, from a sample of their columns. If no sampled tuple has them,
    the estimate is half of the tuples that one sampled tuple stands for; 0 if all tuples are in the sample."""
    matching = np.logical_and.reduce([column == value for column, value in zip(columns, wanted_values, strict=True)])
    matches, tuples_per_sample = int(np.count_nonzero(matching)), total / max(1, columns[0].size)
    return matches * tuples_per_sample if matches or tuples_per_sample <= 1 else tuples_per_sample / 2


def draw_columns(table, columns, draw: int, most: int) -> list[np.ndarray]:
    """Return some columns of about `most` tuples drawn at random, or of all tuples if there are no more. draw: the seed."""
    blocks = [block for block in table.blocks("all", table.home) if block.size]
    share = most / max(1, _table_size(table))
    positions: list[np.ndarray | None] = [None] * len(blocks)
    if share < 1:
        rng = np.random.default_rng(draw)  # numpy loads this module at its first use, in 0.01 s
        drawn = [rng.integers(0, block.size, math.ceil(share * block.size)) for block in blocks]
        positions = [words.sort(rows.view(np.uint64)).view(np.int64) for rows in drawn]  # memory is read faster in this order
    drawn_columns = []
    for place in map(table.home.index, columns):
        parts = [block.column(place, rows) for block, rows in zip(blocks, positions, strict=True)]
        drawn_columns.append(np.concatenate(parts) if parts else np.empty(0, np.int64))
    return drawn_columns


def draw_tuples(table, draw: int) -> tuple[list[np.ndarray], float]:
    """Return (columns of a random sample, fraction of the tuples in it), enough for a trial evaluation. draw: the seed."""
    size = _table_size(table)
    columns = draw_columns(table, range(table.arity), draw, max(MIN_TRIAL_TUPLES, round(TRIAL_SHARE * size)))
    return columns, min(1.0, columns[0].size / size) if size and columns else 1.0
