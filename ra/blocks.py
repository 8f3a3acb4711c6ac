"""Kernels on blocks of tuples: words of several lanes (lanes, n), and columns (arity, n). Pure, compiled, no Spark.

"Sorted" means ascending in lexicographic order, the first row most significant.
"""

import numpy as np
from numba import njit, types
from semi_naive.balance.hashing import mix
from semi_naive.ra import words as single
from semi_naive.ra.words import JIT

u64_rows = types.Array(types.uint64, 2, "C")


def changes(rows: np.ndarray) -> np.ndarray:
    """Where sorted tuples differ from the one before, booleans (n,); the first always does.

    >>> changes(np.array([[1, 1, 2], [5, 5, 5]])).tolist()
    [True, False, True]
    """
    differs = np.zeros(rows.shape[1], np.bool_)
    differs[:1] = True
    for row in rows:
        differs[1:] |= row[1:] != row[:-1]
    return differs


def sort_unique(words: np.ndarray) -> np.ndarray:
    """Words (lanes, n) in ascending order, without repetitions. 20 ns a word of one lane, some 150 of two."""
    if words.shape[0] == 1:
        return single.sort_unique(words[0])[None]
    ordered = words[:, np.lexsort(words[::-1])]
    return np.ascontiguousarray(ordered[:, changes(ordered)])


def merge_all(blocks: list[np.ndarray], lanes: int) -> np.ndarray:
    """The union of sorted blocks, sorted."""
    if lanes == 1:
        return single.merge_all([np.ascontiguousarray(block[0]) for block in blocks])[None]
    blocks = [block for block in blocks if block.shape[1]]
    if len(blocks) == 1:
        return np.ascontiguousarray(blocks[0])
    return sort_unique(np.concatenate([np.empty((lanes, 0), np.uint64), *blocks], axis=1))


@njit(**JIT)  # of tuples as words or as columns: compiled for either by whoever calls it
def _order(left, i, right, j):
    """-1, 0 or 1: how tuple i of one block stands to tuple j of the other."""
    for row in range(left.shape[0]):
        if left[row, i] != right[row, j]:
            return -1 if left[row, i] < right[row, j] else 1
    return 0


@njit(types.boolean[::1](u64_rows, u64_rows), **JIT)
def _among(left, right):
    found = np.zeros(left.shape[1], np.bool_)
    i = j = 0
    while i < left.shape[1] and j < right.shape[1]:
        order = _order(left, i, right, j)
        found[i] = order == 0
        i += order <= 0
        j += order >= 0
    return found


def among(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Which tuples of a sorted block are in another sorted block, booleans (n,).

    >>> among(np.array([[1, 2, 4]], "u8"), np.array([[2, 3]], "u8")).tolist()
    [False, True, False]
    """
    return _among(np.ascontiguousarray(left), np.ascontiguousarray(right))


def combined(columns: np.ndarray) -> np.ndarray:
    """One word for the tuple of some columns, to be hashed: the value itself where there is one column.

    A function of the values alone, however they are packed, so that equal keys of any two relations meet.
    """
    word = np.zeros(columns.shape[1], np.uint64)
    for number, column in enumerate(columns):
        value = np.ascontiguousarray(column).view(np.uint64)
        word = mix(word) ^ value if number else value
    return word
