"""Kernels that have a numpy function for small arrays: it gives what the compiled kernel gives."""

import numpy as np
import pytest

from semi_naive.ra import lanes, words
from semi_naive.ra.blocks import kernels, sampling_kernels
from semi_naive.ra.text import rows, strings

U64, I64 = np.uint64, np.int64


def ascending(rng, most=30, below=60) -> np.ndarray:
    return np.unique(rng.integers(0, below, rng.integers(0, most))).astype(U64)


def tuples(rng) -> np.ndarray:
    found = rng.integers(0, 3, (2, int(rng.integers(0, 12)))).astype(U64)
    return lanes.sort_unique(found)


def searched(rng) -> tuple:
    """A sorted array with its directory, and keys to search for."""
    found, rest, coarse = np.append(ascending(rng), U64(70)), int(rng.integers(0, 4)), int(rng.integers(0, 3))
    base = found[0] >> U64(rest)
    size = int(((found[-1] >> U64(rest)) - base) >> U64(coarse)) + 1
    starts = kernels.directory.compiled()(found, rest, base, coarse, size)
    keys = rng.integers(0, 80 >> rest, 10).astype(U64)
    return found, rest, base, coarse, starts, keys, rng.random(10) < 0.8


def expanded(rng) -> tuple:
    size = int(rng.integers(0, 12))
    lows = rng.integers(0, 5, size)
    highs = lows + rng.integers(0, 5, size)
    row = int(rng.integers(0, size + 1))
    skip = int(rng.integers(0, highs[row] - lows[row] + 1)) if row < size else 0
    return lows, highs, row, skip, int(rng.integers(1, 20))


def written(rng) -> tuple:
    """Columns of numbers, signed and not, and of texts, with room for their text."""
    size = int(rng.integers(0, 6))
    columns = np.array([rng.integers(-500, 500, size), rng.integers(-5, 5, size), rng.integers(0, 3, size)])
    texts = strings.concatenate_texts([b"", b"a", "é,".encode()])
    seams = strings.concatenate_texts([b"<", b",", b"", b">\n"])
    return columns, np.array([rows.SIGNED, rows.UNSIGNED, 0]), *texts, *seams, np.zeros(60 * size, np.uint8)


def column(rng, size=None) -> np.ndarray:
    return rng.integers(-50, 50, rng.integers(1, 40) if size is None else size)


CASES = {
    words._merge: lambda rng: (*(pair := (ascending(rng), ascending(rng))), np.zeros(sum(each.size for each in pair), U64)),
    words.among: lambda rng: (ascending(rng), ascending(rng)),
    words.places: lambda rng: (ascending(rng), ascending(rng)),
    words._drop: lambda rng: (ascending(rng), ascending(rng)),
    lanes._merge_rows: lambda rng: (tuples(rng), tuples(rng)),
    kernels.unpack_field: lambda rng: (
        rng.integers(0, 1 << 62, 9).astype(U64),
        int(rng.integers(0, 60)),
        U64(7),
        U64(2**64 - 3),
        np.zeros(9, np.int64),
    ),
    kernels.field_at: lambda rng: (rng.integers(0, 1 << 62, 9).astype(U64), rng.integers(0, 9, 5), 3, U64(255), U64(4)),
    kernels.directory: lambda rng: (found := searched(rng))[:4] + (found[4].size - 1,),
    kernels.ranges: searched,
    kernels.expand_some: expanded,
    sampling_kernels.mix_in: lambda rng: (rng.integers(0, 1 << 62, 9).astype(U64), column(rng, 9)),
    sampling_kernels.presence_bits: lambda rng: (column(rng), -50, *([0, 100] if rng.random() < 0.5 else [3, 13])),
    sampling_kernels.equal_pairs: lambda rng: (np.sort(column(rng) + 50).astype(U64), np.sort(column(rng) + 50).astype(U64)),
    rows.put_rows: written,
    rows._lengths: lambda rng: (rng.integers(0, 3, 7), 1, np.array([0, 2, 2, 9, 12])),
}


@pytest.mark.parametrize("kernel", CASES, ids=lambda kernel: kernel.py_func.__name__)
def test_a_numpy_function_gives_what_its_kernel_gives(kernel):
    rng = np.random.default_rng(7)
    for _ in range(200):
        given = CASES[kernel](rng)
        both = []
        for call in (kernel.compiled(), lambda *given: kernel._run_timed(given)):
            copied = [each.copy() if isinstance(each, np.ndarray) else each for each in given]
            result = call(*copied)
            results = result if isinstance(result, tuple) else (result,)
            both.append((results, [each for each in copied if isinstance(each, np.ndarray)]))
        compiled, uncompiled = both
        if kernel is kernels.expand_some:  # it may continue at the end of a row or at the beginning of the next
            compiled, uncompiled = ((_with_rest(given, results), []) for results, _ in both)
        elif kernel in (words._merge, words._drop, rows.put_rows):  # beyond the result the array has anything
            place = {words._merge: 2, words._drop: 0, rows.put_rows: 6}[kernel]
            compiled, uncompiled = (([results[0], arrays[place][: results[0]]], []) for results, arrays in both)
        for one, other in zip(compiled[0], uncompiled[0], strict=True):
            assert np.array_equal(one, other) and np.asarray(one).dtype.kind == np.asarray(other).dtype.kind
        assert all(map(np.array_equal, compiled[1], uncompiled[1]))


def _with_rest(given: tuple, results: tuple) -> list[np.ndarray]:
    """The pairs of a result, and those of the call that continues it."""
    lows, highs, *_ = given
    more = kernels.expand_some.compiled()(lows, highs, *map(int, results[2:]), 1000)
    return [*results[:2], *more[:2]]
