"""Convert numpy arrays and lists of strings to pyarrow arrays and back, sharing memory if possible.

`pyarrow.array` and `Array.to_numpy` import pandas, if it is installed, to check the type of their argument. That takes 0.4 s,
which is most of the time of a small program.
"""

from collections.abc import Sequence

import numpy as np

from semi_naive.ra.text.strings import concatenate_texts

MIN_PANDAS_STRINGS = 50_000  # strings from which loading pandas pays: pyarrow then takes a third of the time for each


def arrow_of(array: np.ndarray):
    """Return numbers as a pyarrow array that shares their memory.

    >>> arrow_of(np.array([1, -2])).to_pylist(), str(arrow_of(np.array([0.5])).type)
    ([1, -2], 'double')
    """
    import pyarrow as pa

    array = np.ascontiguousarray(array)
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), array.size, [None, pa.py_buffer(array)])


def numpy_of(array) -> np.ndarray:
    """Return the numbers of a pyarrow array, or of a chunked one, without nulls. The result is read-only.

    >>> numpy_of(arrow_of(np.array([1, -2]))[1:]).tolist()
    [-2]
    """
    if hasattr(array, "combine_chunks"):  # which copies a single chunk
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    dtype, (_, data) = np.dtype(array.type.to_pandas_dtype()), array.buffers()
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def cast(array, to):
    """Return an array, or a chunked one, as another type. An array of that type is not cast, as that would import
    `pyarrow.compute`, in 0.03 s."""
    return array if array.type == to else array.cast(to)


def booleans_of(array) -> np.ndarray:
    """Return the booleans of a pyarrow array without nulls, which has a bit for each.

    >>> import pyarrow as pa
    >>> booleans_of(pa.array([True, False, True])[1:]).tolist()
    [False, True]
    """
    return numpy_of(array.cast("uint8")).view(np.bool_)


def bytes_and_starts(large_strings) -> tuple[np.ndarray, np.ndarray]:
    """Return the texts of a pyarrow array of `large_string`, whose starts are int64, as `concatenate_texts` would. The memory
    is shared.

    >>> import pyarrow as pa
    >>> [part.tolist() for part in bytes_and_starts(pa.array(["ab", "c", ""], pa.large_string())[1:])]
    [[97, 98, 99], [2, 3, 3]]
    """
    _, starts, content = large_strings.buffers()
    first_byte = large_strings.offset * np.dtype(np.int64).itemsize  # the array may be a slice of a longer one
    return np.frombuffer(content or b"", np.uint8), np.frombuffer(starts, np.int64, len(large_strings) + 1, first_byte)


def strings_of(strings: Sequence[str]):
    """Return strings as a pyarrow array. Few strings are assembled here, as `pa.array` would import pandas for them.

    >>> strings_of(["é", "", "b"]).to_pylist()
    ['é', '', 'b']
    """
    import pyarrow as pa

    if len(strings) > MIN_PANDAS_STRINGS:
        return pa.array(strings, pa.string())
    content, starts = concatenate_texts([string.encode() for string in strings])
    if starts[-1] >= 1 << 31:
        raise pa.ArrowCapacityError(f"{starts[-1]:,} bytes of strings do not fit into one array (2 GiB)")
    return pa.StringArray.from_buffers(len(strings), pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(content))
