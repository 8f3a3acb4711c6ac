"""`.input`: the facts of a relation, from wherever the program says."""

import numpy as np

from semi_naive.io.bits import BUILT_IN
from semi_naive.io.directives import DEFAULT, STDOUT, Options, format_of, path_of
from semi_naive.io.errors import BadInput
from semi_naive.io.files import check_there, contents, standard_input


def read(directive, relation, types: dict, folder: str, values, options: Options = DEFAULT) -> np.ndarray:
    """The facts that an .input directive names, as int64 columns (arity, n); rows may repeat.

    Relative file names start from `folder`; `values` gives symbols and records their ids. BadInput names file, line and
    column of what is wrong; a missing file too, unless `options.missing_ok`.
    """
    form = format_of(directive, relation)
    types = BUILT_IN | types
    if form.io in ("stdin", "json"):
        return _parsed(standard_input(), form, relation, types, values, "<stdin>")
    path = path_of(directive, form, "." if folder == STDOUT else folder)
    try:
        check_there(path.removeprefix("file:").partition("?")[0], relation, folders=form.io == "parquet")
    except BadInput as missing:
        if not options.missing_ok:
            raise
        options.warn(f"Warning: {missing.message}; {relation.name} has no facts from there")
        return np.zeros((relation.arity, 0), np.int64)
    if form.io == "sqlite":
        from semi_naive.io.sqlite import read_sqlite

        return read_sqlite(path, form, relation, types, values)
    if form.io == "parquet":
        return _parquet(path, relation, types, values)
    return _parsed(contents(path), form, relation, types, values, path)


def _parsed(data: bytes, form, relation, types: dict, values, path: str) -> np.ndarray:
    if form.io in ("json", "jsonfile"):
        from semi_naive.io.json_data import read_json

        return read_json(data, relation, types, values, path)
    from semi_naive.io.delimited import read_delimited

    return read_delimited(data, form, relation, types, values, path)


def _parquet(path: str, relation, types: dict, values) -> np.ndarray:
    import pyarrow as pa
    from pyarrow import parquet

    from semi_naive.io.arrow import columns_of_table

    try:
        table = parquet.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"not readable as parquet: {error}", path) from None
    if not relation.arity:
        return np.zeros((0, min(1, table.num_rows)), np.int64)
    return columns_of_table(table, relation, types, values, path)
