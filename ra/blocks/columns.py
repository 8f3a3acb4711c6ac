"""Columns of tuples, as compiled kernels take them: int64, contiguous, writeable; a few tuples as one array.

A call of a kernel takes microseconds, and a copy of a thousand values takes less than one. So what a kernel does to each column
is done to all of them by one call where there are few tuples.
"""

from collections.abc import Sequence

import numpy as np

FEW = 1 << 13  # tuples whose columns are copied for the sake of fewer calls
INT64 = np.dtype(np.int64)

Columns = Sequence[np.ndarray]  # also an array (columns, n)


def kernel_ready(column: np.ndarray) -> np.ndarray:
    """The same values, copied where a kernel would not take the array as it is.

    >>> column = np.arange(3)
    >>> kernel_ready(column) is column, kernel_ready(np.broadcast_to(np.int64(5), 2)).tolist()
    (True, [5, 5])
    """
    if column.dtype == INT64 and column.flags.carray:
        return column
    return np.require(column, INT64, ["C", "W"])


def few(columns: Columns, size: int) -> np.ndarray | None:
    """The columns (k, n) as one array, where that costs little; else None."""
    if isinstance(columns, np.ndarray):
        return columns
    if len(columns) == 1:
        return kernel_ready(columns[0])[None]
    if size > FEW or not columns:
        return None
    return np.array([kernel_ready(column) for column in columns])
