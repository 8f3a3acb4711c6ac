"""Facts in, results out: the files, tables and Python data a program reads and writes.

    read(directive, relation, types, folder, values)            what an .input names, as columns
    as_columns(data, relation, types, values)                   what a Python program passes instead
    write(directive, relation, types, columns, folder, values)  .output and .printsize
    together()                                                  several files that appear at once, or not at all
    arrow_table(relation, types, columns, values)               a relation for pandas, Spark and parquet

Formats and file names are Soufflé's; parquet is ours besides. *Columns* are an int64 array (arity, n): numbers as they
are, unsigned and floats as their 64 bits, symbols and records as the ids that `values` gives them.
"""

from importlib import import_module

_LAZY = {
    "Options": "semi_naive.io.directives",
    "read": "semi_naive.io.reading",
    "write": "semi_naive.io.writing",
    "together": "semi_naive.io.files",
    "as_columns": "semi_naive.io.python_data",
    "arrow_table": "semi_naive.io.arrow",
}
__all__ = sorted(_LAZY)


def __getattr__(name: str):
    if name not in _LAZY:
        raise AttributeError(f"module 'semi_naive.io' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
