"""What every result shows, whatever made it and wherever its tuples are: how many, as Arrow, pandas, numpy, Python or Spark has
them, in a file; and how they came about.

    Evaluated   something that a run has made: its trace and what is told of it, until it is closed
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
    """What a run has made. `trace`: what happened in the run (see `balance.trace`). Who inherits says what `explain` tells, and
    what there is to release in `close`."""

    @property
    def trace(self) -> dict:
        raise NotImplementedError

    def explain(self) -> str:
        raise NotImplementedError

    def report(self, path: Any = None) -> "Page":
        """The run as a page of HTML, figures and all, as text; also written to `path`, whole or not at all. A notebook shows
        it, or where it was written. ValueError where nothing was recorded."""
        from semi_naive.notebooks.page import Page
        from semi_naive.plots.report import report

        return Page.of(report(self._recorded(), path), path)

    def plot(self, path: Any = None) -> "Figure":
        """The run in one figure of matplotlib's; also saved to `path`, as what its ending says: .png, .svg or .pdf. ValueError
        where nothing was recorded."""
        from semi_naive.plots.picture import picture
        from semi_naive.plots.style import save

        figure = picture(self._recorded())
        if path is not None:
            save(figure, path)
        return figure

    def _recorded(self) -> dict:
        """The trace, where there is one."""
        if not self.trace:
            raise ValueError("nothing was recorded of how these tuples came about: only what a run has made has a trace")
        return self.trace

    def close(self) -> None:
        """Nothing is held but memory, unless a class says otherwise."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Tuples(Evaluated):
    """A set of tuples with named `columns`. Who inherits says how many there are, and gives them as Arrow record batches and as
    a Spark DataFrame; the rest follows, and collects them to this process."""

    @property
    def columns(self) -> tuple[str, ...]:
        raise NotImplementedError

    def count(self) -> int:
        raise NotImplementedError

    def arrow_schema(self) -> "pa.Schema":
        """The names and types of the columns, as pyarrow has them."""
        raise NotImplementedError

    def to_batches(self, dictionaries: bool = False) -> "Iterator[pa.RecordBatch]":
        """An iterator of pyarrow RecordBatches of a million tuples or so, in no order. `dictionaries`: columns of strings are
        dictionary-encoded, so that a string is there once in each batch: 4 bytes a tuple."""
        raise NotImplementedError

    def to_df(self) -> "DataFrame":
        raise NotImplementedError

    def to_arrow(self, dictionaries: bool = False) -> "pa.Table":
        """A pyarrow Table, collected to this process. `dictionaries`: columns of strings are dictionary-encoded."""
        import pyarrow as pa

        batches = list(self.to_batches(dictionaries))
        table = pa.Table.from_batches(batches, None if batches else dictionary_encoded(self.arrow_schema(), dictionaries))
        return table.unify_dictionaries() if dictionaries else table

    def write(self, path: Any) -> None:
        """Write one file in no order, whole or not at all: .parquet, .csv, .tsv, .facts, .txt, all but the first also .gz."""
        from semi_naive.io.outputs import write_batches

        write_batches(path, self.arrow_schema(), self.to_batches(), getattr(self, "name", "result"))

    def __len__(self) -> int:
        return self.count()

    def first(self, count: int) -> list[tuple]:
        """Some tuples, as those of `to_list`, where this process sees them without a job; otherwise none."""
        if not self.columns:
            return [()] * min(count, self.count())
        batches = self.to_batches()
        found = next((batch for batch in batches if batch.num_rows), None)
        return [] if found is None else python_rows(found.slice(0, count))

    def _repr_html_(self) -> str:
        from semi_naive.notebooks.html import tuples_shown

        return tuples_shown(self)

    def __iter__(self) -> Iterator[tuple]:
        """The tuples of `to_list`."""
        return iter(self.to_list())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The batches as whoever reads Arrow takes them: `pyarrow.table(found)`, `polars.DataFrame(found)`, DuckDB."""
        import pyarrow as pa

        if not self.columns:
            return self.to_arrow().__arrow_c_stream__(requested_schema)
        return pa.RecordBatchReader.from_batches(self.arrow_schema(), self.to_batches()).__arrow_c_stream__(requested_schema)

    def to_pandas(self, dictionaries: bool = False) -> "pd.DataFrame":
        """A pandas DataFrame, collected to this process. `dictionaries`: columns of strings are categorical. ImportError where
        pandas is not installed."""
        pandas = import_optional("pandas", "to_pandas()")
        return self.to_arrow(dictionaries).to_pandas() if self.columns else pandas.DataFrame(index=range(self.count()))

    def to_polars(self, dictionaries: bool = True) -> "pl.DataFrame":
        """A polars DataFrame, collected to this process. It shares numbers with the Arrow table that it is made of.
        `dictionaries`: columns of strings are Categorical. ImportError where polars is not installed."""
        polars = import_optional("polars", "to_polars()")
        return polars.from_arrow(self.to_arrow(dictionaries)) if self.columns else polars.DataFrame(height=self.count())

    def to_numpy(self) -> np.ndarray:
        """An array (n, arity), collected to this process: int64, uint64 or float64 where all columns are, else of objects."""
        if not self.columns:
            return np.empty((self.count(), 0), np.int64)
        found = np.empty((self.count(), len(self.columns)), _common_dtype(self.arrow_schema()))
        end = 0
        for batch in self.to_batches():
            begin, end = end, end + batch.num_rows
            for place, column in enumerate(batch.columns):
                found[begin:end, place] = column.to_numpy(zero_copy_only=False)
        return found

    def to_list(self) -> list[tuple]:
        """Tuples of Python values, records as tuples too, collected to this process."""
        if not self.columns:
            return [()] * self.count()
        return python_rows(self.to_arrow())

    def to_set(self) -> set[tuple]:
        """The same as a set."""
        return set(self.to_list())


class Relations:
    """Several relations by name, `self[name]` each; `relations`: what is declared of them."""

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

    def _headline(self) -> str:
        """What it is, in a line."""
        return repr(self).split("\n")[0][1:-1]

    def _repr_html_(self) -> str:
        from semi_naive.notebooks.html import relations_shown

        return relations_shown(self._headline(), self)

    def items(self) -> Iterator[tuple[str, Tuples]]:
        """Each name with its relation."""
        return ((name, self[name]) for name in self.relations)


def python_rows(table: Any) -> list[tuple]:
    """The rows of an Arrow table or record batch."""
    return list(zip(*(map(record_to_tuple, column.to_pylist()) for column in table.columns), strict=True))


def record_to_tuple(value: Any) -> Any:
    """A record, which Arrow gives as a dict, as a tuple."""
    return tuple(map(record_to_tuple, value.values())) if isinstance(value, dict) else value


def dictionary_encoded(schema: "pa.Schema", dictionaries: bool = True) -> "pa.Schema":
    """A pyarrow schema whose columns of strings are dictionary-encoded, or as it is."""
    import pyarrow as pa

    coded = pa.dictionary(pa.int32(), pa.string())
    fields = [field.with_type(coded) if dictionaries and field.type == pa.string() else field for field in schema]
    return pa.schema(fields)


def _common_dtype(schema: "pa.Schema") -> np.dtype:
    """The one of all columns that numpy has without Python objects, else of objects."""
    import pyarrow as pa

    kinds = set(schema.types)
    return np.dtype(kinds.pop().to_pandas_dtype() if len(kinds) == 1 and pa.types.is_primitive(schema.types[0]) else object)
