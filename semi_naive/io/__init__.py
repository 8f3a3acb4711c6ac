"""Input and output: the files, tables and Python data that programs and closures read and write.

    source_of(data, relation, types)                            what a Python program passes, before its rows are read
    source_of_directive(directive, relation, types, folder)     what an .input names, likewise
    edge_source(data, strings=…, header=…)                      a graph: facts of a relation of two attributes
    source.columns(values)                                      a source read in this process
    parallel.ReadSpan, parallel.frame_parts                     a source read by Spark's tasks
    as_columns, read                                            the first two, read at once
    write(directive, relation, types, columns, folder, values)  .output and .printsize
    atomic_files()                                              several files that appear at once, or not at all
    arrow_table(relation, types, columns, values)               a relation for pandas, Spark and parquet

Formats and file names are Soufflé's; parquet, MatrixMarket and the graphs' loose text (.txt, comments, any white space) are
our extensions. *Columns* are an int64 array (arity, n): numbers as they are, unsigned and floats as their 64 bits, symbols and
records as the ids that `values` gives them.
"""

from semi_naive.lazy import lazily

_LAZY = {
    "Options": "semi_naive.io.directives",
    "Source": "semi_naive.io.unread",
    "edge_source": "semi_naive.io.edges",
    "read": "semi_naive.io.reading",
    "source_of": "semi_naive.io.python_data",
    "source_of_directive": "semi_naive.io.reading",
    "write": "semi_naive.io.results.writing",
    "atomic_files": "semi_naive.io.files",
    "as_columns": "semi_naive.io.python_data",
    "arrow_table": "semi_naive.io.formats.arrow",
}
__all__ = sorted(_LAZY)
__getattr__ = lazily(__name__, _LAZY)
