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
    "Options": "semi_naive.facts.directives",
    "read": "semi_naive.facts.reading",
    "write": "semi_naive.facts.writing",
    "together": "semi_naive.facts.files",
    "as_columns": "semi_naive.facts.python_data",
    "arrow_table": "semi_naive.facts.arrow",
}
__all__ = sorted(_LAZY)


def __getattr__(name: str):
    if name not in _LAZY:
        raise AttributeError(f"module 'semi_naive.facts' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
