"""Estimates about tables, from a sample or in one pass: distinct values, and the number of tuples that a tuple joins with."""

import math

import numpy as np

from semi_naive.ra import words
from semi_naive.ra.blocks import kernels

DISTINCT_SAMPLE_TUPLES = 1 << 20  # tuples in a sample for the number of distinct values
FANOUT_SAMPLE_TUPLES = 1 << 15  # tuples in a sample for the join partners: it takes a millisecond
MAX_SORTED_VALUES = 1 << 12  # values up to which distinct ones are counted by sorting
DISTINCT_SAMPLE_HASHES = 1 << 14  # hashes in a sample for the share of distinct tuples, to within 1 %
TRIED, SHARE = 1 << 12, 1 / 64  # tuples for a trial of joins, or this share of a larger table: 0.4 ms, or 1 % of reading it


def table_size(table) -> int:
    return sum(block.size for block in table.blocks("all", table.home))


def distinct_values(table, column: int) -> float:
    """Estimate the distinct values of a table's column: 2 ns a tuple."""
    total = table_size(table)
    if not total:
        return 1.0
    step = max(1, total // DISTINCT_SAMPLE_TUPLES)
    place, blocks = table.home.index(column), table.blocks("all", table.home)
    sample = np.concatenate([block.column(place, _every(step, block.size)) for block in blocks])
    found = distinct_among(sample)
    return float(found * step if found > 0.9 * sample.size else found)


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
        return kernels.bits_set(values, low, 0, span + 1)
    bits = (2 * values.size).bit_length()
    unset = (1 << bits) - kernels.bits_set(values, low, bits, 1 << bits)
    return round(-math.log(unset / (1 << bits)) * (1 << bits))


def distinct_share(table, columns: tuple[int, ...]) -> float:
    """Estimate the share of a table's tuples that are distinct in some columns: from all that have one of some hashes there,
    4 ns a tuple and column."""
    share, places = DISTINCT_SAMPLE_HASHES / max(1, table_size(table)), [table.home.index(column) for column in columns]
    blocks = table.blocks("all", table.home)
    found = [kernels.sampled_hashes([block.column(place) for place in places], block.size, share) for block in blocks]
    drawn = np.concatenate(found) if found else np.empty(0, np.uint64)
    return words.sort_unique(drawn).size / drawn.size if drawn.size else 1.0


def partners(table, columns: tuple[int, ...], other, places: tuple[int, ...]) -> float:
    """Return the average number of tuples of `other` that a tuple of `table` joins with. columns, places: the joined columns of
    the two tables. Estimated from samples if there are many tuples."""
    keys = words.sort(_row_words(drawn_columns(table, columns, 0, FANOUT_SAMPLE_TUPLES)))
    other_keys = words.sort(_row_words(drawn_columns(other, places, 1, FANOUT_SAMPLE_TUPLES)))
    if not keys.size or not other_keys.size:
        return 0.0
    return kernels.equal_pairs(keys, other_keys) / keys.size * table_size(other) / other_keys.size


def _row_words(columns: list[np.ndarray]) -> np.ndarray:
    """Return a word for each row: the value of a single column, or a hash of several. Equal rows have equal words."""
    if len(columns) == 1:
        return columns[0].view(np.uint64)
    found = np.zeros(columns[0].size, np.uint64)
    for column in columns:
        kernels.mix_in(found, column)
    return found


def fewest_partners(table, sides) -> float:
    """Estimate, from samples, the average of the smallest number of partners that a tuple of `table` has in one of several
    tables. sides: (column, other table, its column). A value that is rare in the sample is given the average frequency."""
    fewest = np.inf
    columns = drawn_columns(table, [column for column, _, _ in sides], 0, FANOUT_SAMPLE_TUPLES)
    for column, (_, other, place) in zip(columns, sides, strict=True):
        other_values = words.sort(drawn(other, place, 1).view(np.uint64)).view(np.int64)
        matches = np.searchsorted(other_values, column, "right") - np.searchsorted(other_values, column)
        sampling_factor = table_size(other) / max(1, other_values.size)
        fewest = np.minimum(fewest, np.maximum(matches * sampling_factor, table_size(other) / distinct_values(other, place)))
    return float(np.mean(fewest)) if columns[0].size else 0.0


def estimate_matching(columns: list[np.ndarray], wanted: list[int], total: int) -> float:
    """Estimate how many of `total` tuples have the wanted values, from a sample of their columns. If no sampled tuple has them,
    the estimate is half of the tuples that one sampled tuple stands for; 0 if all tuples are in the sample."""
    found = int(np.count_nonzero(np.logical_and.reduce([c == value for c, value in zip(columns, wanted, strict=True)])))
    each = total / max(1, columns[0].size)
    return found * each if found or each <= 1 else each / 2


def drawn(table, column: int, draw: int) -> np.ndarray:
    """Return a column of all tuples, or of a random sample. draw: the number of the sample. Two tables with the same keys need
    different samples, as otherwise all sampled tuples would match."""
    return drawn_columns(table, [column], draw, FANOUT_SAMPLE_TUPLES)[0]


def drawn_columns(table, columns, draw: int, most: int) -> list[np.ndarray]:
    """Return some columns of about `most` tuples drawn at random, or of all tuples if there are no more. draw: the seed."""
    blocks = [block for block in table.blocks("all", table.home) if block.size]
    share = most / max(1, table_size(table))
    positions: list[np.ndarray | None] = [None] * len(blocks)
    if share < 1:
        rng = np.random.default_rng(draw)  # numpy loads this module at its first use, in 0.01 s
        positions = [_positions(rng, block.size, math.ceil(share * block.size)) for block in blocks]
    parts = [[b.column(table.home.index(c), at) for b, at in zip(blocks, positions, strict=True)] for c in columns]
    return [np.concatenate(part) if part else np.empty(0, np.int64) for part in parts]


def _positions(rng, size: int, many: int) -> np.ndarray:
    """Return random positions in ascending order, in which memory is read faster."""
    return words.sort(rng.integers(0, size, many).view(np.uint64)).view(np.int64)


def drawn_tuples(table, draw: int) -> tuple[list[np.ndarray], float]:
    """Return (columns of a random sample of the tuples, fraction of the tuples in it), large enough for a trial evaluation.
    draw: the seed."""
    size = table_size(table)
    columns = drawn_columns(table, range(table.arity), draw, max(TRIED, round(SHARE * size)))
    return columns, min(1.0, columns[0].size / size) if size and columns else 1.0


def _every(step: int, size: int) -> np.ndarray | None:
    return np.arange(0, size, step) if step > 1 else None
