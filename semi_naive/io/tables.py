"""Two-column Arrow tables to blocks; parquet files and data frames come here too.

Row numbers in messages count from 0, as data frames do.
"""

import numpy as np

from semi_naive.io.edges import LARGEST_ID, first_odd_id, id_fault, no_pairs, paired
from semi_naive.io.errors import BadInput


def table_block(table, file, strings=None, any_ids=False, first_row=0):
    """The block of a pyarrow table: an (n, 2) int64 array, or a table of two string columns.

    ``file`` is what errors call the table, ``first_row`` the number of its first row there; None if rows have no
    numbers, as in a Spark DataFrame. Raises ``BadInput`` unless there are two columns, both of integers or both of
    strings, without nulls; integers must fit in int64, and lie in 0..2^32 unless ``any_ids``. Copies integers only.
    """
    _check_width(table, file)
    if table.num_rows == 0:
        return _no_rows(strings or any(is_strings(column.type) for column in table.columns))

    def fault(row, axis, message, hint):
        place = "" if first_row is None else f", row {first_row + row}"
        return BadInput(f"column '{table.column_names[axis]}'{place}: {message}", file, hint=hint)

    for axis, column in enumerate(table.columns):
        missing = first_missing(column)
        if missing:
            hint = "drop the rows with missing values; the columns must be integers or strings"
            raise fault(missing[0], axis, f"the value is {missing[1]}", hint)
    if block_kind(table, file, strings) == "strings":
        return _string_columns(table)
    columns = [_undictionaried(column) for column in table.columns]
    pairs, odd = _int_pairs(columns, any_ids)
    if odd:
        raise fault(*odd, *id_fault(columns[odd[1]][odd[0]].as_py()))
    return pairs


def block_kind(table, file, strings=None):
    """The kind of vertices by the column types of a pyarrow table, "ints" or "strings"; ``BadInput`` if neither."""
    import pyarrow as pa

    _check_width(table, file)
    types = [_undictionaried_type(column.type) for column in table.columns]
    for name, found in zip(table.column_names, types, strict=True):
        if not (pa.types.is_integer(found) or is_strings(found)):
            message = f"column '{name}' has type {found}; integers or strings were expected"
            raise BadInput(message, file, hint="cast it to int64, or to strings")
    kinds = {"strings" if is_strings(found) else "ints" for found in types}
    if len(kinds) == 2 and not strings:
        (one, other), (first, second) = table.column_names, types
        message = f"the columns differ: '{one}' has type {first}, '{other}' {second}"
        raise BadInput(message, file, hint="pass strings=True to read both as names")
    if strings is False and "strings" in kinds:
        raise BadInput("the columns have strings, but strings=False", file, hint="cast them to int64")
    return "strings" if strings else kinds.pop()


def is_strings(found):
    """Whether an Arrow type is one of strings, plain or dictionary-encoded."""
    import pyarrow as pa

    found = _undictionaried_type(found)
    return pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found)


def first_missing(column):
    """(row, "null" or "NaN") of the first missing value in a chunked array, None if there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not column.null_count and not pa.types.is_floating(column.type):
        return None
    row = pc.index(pc.is_null(column, nan_is_null=True), True).as_py()
    return None if row < 0 else (row, "NaN" if column[row].is_valid else "null")


def _int_pairs(columns, any_ids):
    """The pairs of two integer columns, and (row, axis) of the first id out of range, or None."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for axis, column in enumerate(columns):
        if pa.types.is_uint64(column.type):
            above = pc.greater(column, pa.scalar(np.iinfo(np.int64).max if any_ids else LARGEST_ID, pa.uint64()))
            row = pc.index(above, True).as_py()
            if row >= 0:
                return None, (row, axis)
    pairs = paired(*(column.cast(pa.int64()).to_numpy() for column in columns))
    return pairs, None if any_ids else first_odd_id(pairs)


def _string_columns(table):
    import pyarrow as pa

    return pa.table([column.cast(pa.string()) for column in table.columns], names=["source", "target"])


def _no_rows(strings):
    import pyarrow as pa

    nothing = pa.array([], pa.string())
    return pa.table({"source": nothing, "target": nothing}) if strings else no_pairs()


def _undictionaried(column):
    return column.cast(_undictionaried_type(column.type))


def _undictionaried_type(found):
    import pyarrow as pa

    return found.value_type if pa.types.is_dictionary(found) else found


def _check_width(table, file):
    if table.num_columns != 2:
        hint = f"select two of: {', '.join(table.column_names)}" if table.column_names else None
        raise BadInput(f"expected two columns, found {table.num_columns}", file, hint=hint)
