"""The common interface of all results: conversion to Arrow, pandas, numpy, Python, Spark and files, and the record of the
run.

Evaluated   a result of a run, with its trace and reports, until it is closed
Tuples      an Evaluated that is one set of tuples with named columns
Relations   several of these by name
"""

from collections.abc import Iterator, KeysView
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from semi_naive.host.optional_packages import import_optional

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

    from semi_naive.notebooks.page import Page

CLOSED = "this result has been closed, and its tuples are gone: read or write them before that, or run the program again"


class Evaluated:
    """The result of a run. Subclasses define `trace` and `explain`, and release resources in `close`."""

    @property
    def trace(self) -> dict | None:
        """The record of the run: see `balance.trace`."""
        raise NotImplementedError

    def explain(self) -> str:
        """Return the plan of the run as text."""
        raise NotImplementedError

    def report(self, path: Any = None) -> "Page":
        """Return the run as a page of HTML with figures, a string; also written to `path`, atomically. A notebook shows the
        page, or its path. Raises ValueError if nothing was recorded."""
        from semi_naive.notebooks.page import Page
        from semi_naive.plots.pages.report import report

        return Page.of(report(self._recorded(), path), path)

    def plot(self, path: Any = None) -> "Figure":
        """Return the run as one matplotlib figure; also saved to `path` in the format of its extension: .png, .svg or .pdf.
        Raises ValueError if nothing was recorded."""
        from semi_naive.plots.figures import picture
        from semi_naive.plots.style import save_figure

        figure = picture(self._recorded())
        if path is not None:
            save_figure(figure, path)
        return figure

    def _recorded(self) -> dict:
        """Return the trace. Raises ValueError if there is none."""
        if not self.trace:
            raise ValueError("no run is recorded for these tuples: only results of runs have a trace")
        return self.trace

    def close(self) -> None:
        """Release resources; by default there is only memory."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Tuples(Evaluated):
    """A set of tuples with named `columns`. Subclasses define its size, and its conversion to Arrow record batches and to a
    Spark DataFrame; the other conversions follow from these, and collect to this process."""

    @property
    def columns(self) -> tuple[str, ...]:
        raise NotImplementedError

    def count(self) -> int:
        """Return the number of tuples."""
        raise NotImplementedError

    def arrow_schema(self) -> "pa.Schema":
        """Return the names and types of the columns as a pyarrow schema."""
        raise NotImplementedError

    def to_batches(self, dictionaries: bool = False) -> "Iterator[pa.RecordBatch]":
        """Yield pyarrow RecordBatches of about a million tuples, in no order. `dictionaries`: columns of strings are
        dictionary-encoded, so that each batch has a string once: 4 bytes a tuple."""
        raise NotImplementedError

    def to_df(self) -> "DataFrame":
        """Return a Spark DataFrame."""
        raise NotImplementedError

    def to_arrow(self, dictionaries: bool = False) -> "pa.Table":
        """Return a pyarrow Table, collected to this process. `dictionaries`: columns of strings are dictionary-encoded."""
        import pyarrow as pa

        batches = list(self.to_batches(dictionaries))
        table = pa.Table.from_batches(batches, None if batches else dictionary_encoded(self.arrow_schema(), dictionaries))
        return table.unify_dictionaries() if dictionaries else table

    def write(self, path: Any) -> None:
        """Write the tuples to one file, in no order, atomically: .parquet, .csv, .tsv, .facts, .txt, text also .gz."""
        from semi_naive.io.results.outputs import write_batches

        write_batches(path, self.arrow_schema(), self.to_batches(), getattr(self, "name", "result"))

    def __len__(self) -> int:
        return self.count()

    def first(self, count: int) -> list[tuple]:
        """Return up to `count` tuples, as in `to_list`, if no job is needed to read them; otherwise none."""
        if not self.columns:
            return [()] * min(count, self.count())
        batch = next((batch for batch in self.to_batches() if batch.num_rows), None)
        return [] if batch is None else python_rows(batch.slice(0, count))

    def _repr_html_(self) -> str:
        from semi_naive.notebooks.html import tuples_shown

        return tuples_shown(self)

    def __iter__(self) -> Iterator[tuple]:
        return iter(self.to_list())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the tuples by the Arrow stream interface: for `pyarrow.table(tuples)`, `polars.DataFrame(tuples)`, DuckDB."""
        import pyarrow as pa

        if not self.columns:
            return self.to_arrow().__arrow_c_stream__(requested_schema)
        return pa.RecordBatchReader.from_batches(self.arrow_schema(), self.to_batches()).__arrow_c_stream__(requested_schema)

    def to_pandas(self, dictionaries: bool = False) -> "pd.DataFrame":
        """Return a pandas DataFrame, collected to this process. `dictionaries`: columns of strings are categorical. Raises
        ImportError if pandas is not installed."""
        pandas = import_optional("pandas", "to_pandas()")
        return self.to_arrow(dictionaries).to_pandas() if self.columns else pandas.DataFrame(index=range(self.count()))

    def to_polars(self, dictionaries: bool = True) -> "pl.DataFrame":
        """Return a polars DataFrame, collected to this process. Numbers share memory with an Arrow table. `dictionaries`:
        columns of strings are Categorical. Raises ImportError if polars is not installed."""
        polars = import_optional("polars", "to_polars()")
        return polars.from_arrow(self.to_arrow(dictionaries)) if self.columns else polars.DataFrame(height=self.count())

    def to_numpy(self) -> np.ndarray:
        """Return an array (n, arity), collected to this process: int64, uint64 or float64 if all columns are, else objects."""
        if not self.columns:
            return np.empty((self.count(), 0), np.int64)
        array = np.empty((self.count(), len(self.columns)), _common_dtype(self.arrow_schema()))
        end = 0
        for batch in self.to_batches():
            begin, end = end, end + batch.num_rows
            for place, column in enumerate(batch.columns):
                array[begin:end, place] = column.to_numpy(zero_copy_only=False)
        return array

    def to_list(self) -> list[tuple]:
        """Return tuples of Python values, records as tuples too, collected to this process."""
        if not self.columns:
            return [()] * self.count()
        return python_rows(self.to_arrow())

    def to_set(self) -> set[tuple]:
        """Return the tuples of `to_list` as a set."""
        return set(self.to_list())


class Relations:
    """Several relations by name: `self[name]`. relations: their declarations."""

    relations: dict[str, Any]

    def __getitem__(self, name: str) -> Tuples:
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        return iter(self.relations)

    def __len__(self) -> int:
        return len(self.relations)

    def __contains__(self, name: object) -> bool:
        return name in self.relations

    def keys(self) -> KeysView[str]:
        return self.relations.keys()

    def _repr_html_(self) -> str:
        from semi_naive.notebooks.html import relations_shown

        headline = repr(self).split("\n")[0][1:-1]
        return relations_shown(headline, self)

    def items(self) -> Iterator[tuple[str, Tuples]]:
        """Yield each name with its relation."""
        return ((name, self[name]) for name in self.relations)


def python_rows(table: Any) -> list[tuple]:
    """Return the rows of an Arrow table or record batch as tuples of Python values."""
    return list(zip(*(map(record_to_tuple, column.to_pylist()) for column in table.columns), strict=True))


def record_to_tuple(value: Any) -> Any:
    """Convert a record, which is a dict in Arrow, to a tuple."""
    return tuple(map(record_to_tuple, value.values())) if isinstance(value, dict) else value


def dictionary_encoded(schema: "pa.Schema", dictionaries: bool = True) -> "pa.Schema":
    """Return a pyarrow schema with dictionary-encoded columns of strings; unchanged if `dictionaries` is False."""
    import pyarrow as pa

    coded = pa.dictionary(pa.int32(), pa.string())
    fields = [field.with_type(coded) if dictionaries and field.type == pa.string() else field for field in schema]
    return pa.schema(fields)


def _common_dtype(schema: "pa.Schema") -> np.dtype:
    """Return the numpy dtype of all columns if they share one without Python objects, else object."""
    import pyarrow as pa

    kinds = set(schema.types)
    return np.dtype(kinds.pop().to_pandas_dtype() if len(kinds) == 1 and pa.types.is_primitive(schema.types[0]) else object)
