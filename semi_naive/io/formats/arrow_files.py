"""Read files of Arrow data: Arrow IPC, as a file or a stream, and Feather."""

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.files import filesystem, io_errors
from semi_naive.io.formats.arrow import columns_of_table
from semi_naive.io.names import note_order
from semi_naive.ra.ir import Relation
from semi_naive.ra.values.values import Values


def read_arrow(path: str, relation: Relation, types: dict, values: Values) -> np.ndarray:
    """Return the columns (arity, n) of a file of Arrow data at a path or URI."""
    table = _table(path)
    note_order(relation, table.column_names, path)
    return columns_of_table(table, relation, types, values, path)


def arrow_schema(path: str):
    """Return the Arrow schema of a file of Arrow data."""
    return _table(path).schema


def _table(path: str):
    """Return a file of Arrow data as a pyarrow table. A local file is mapped, so that only columns that are read use memory."""
    import pyarrow as pa
    from pyarrow import feather

    with io_errors(path):
        system, inside = filesystem(path)
        local = system.type_name == "local"
        source = pa.memory_map(inside) if local else system.open_input_file(inside)
        try:
            return feather.read_table(source, memory_map=local)  # a file of Arrow IPC is version 2 of Feather
        except pa.ArrowInvalid as not_a_file:
            source.seek(0)
            try:
                return pa.ipc.open_stream(source).read_all()
            except pa.ArrowInvalid:
                raise BadInput(f"cannot be read as Arrow data: {not_a_file}", path) from None
