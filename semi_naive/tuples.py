"""What every result shows, whatever made it and wherever its tuples are: how many, as Arrow, pandas, numpy, Python or Spark has
them, in a file; and how they came about.

    Evaluated   something that a run has made: its trace and what is told of it, until it is closed
    Tuples      an Evaluated that is one set of tuples with named columns
"""

import numpy as np


class Evaluated:
    """What a run has made. `trace`: what happened in the run (see `balance.trace`). Who inherits says what `explain` tells, and
    what there is to release in `close`."""

    @property
    def trace(self) -> dict:
        raise NotImplementedError

    def explain(self) -> str:
        raise NotImplementedError

    def report(self, path=None) -> str:
        """The run as a page of HTML, figures and all; also written to `path`, whole or not at all."""
        from semi_naive.plots.report import report

        return report(self.trace, path)

    def close(self) -> None:
        """Nothing is held but memory, unless a class says otherwise."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class Tuples(Evaluated):
    """A set of tuples with named `columns`. Who inherits says how many there are, and gives them as Arrow record batches and as
    a Spark DataFrame; the rest follows, and collects them to this process."""

    @property
    def columns(self) -> tuple[str, ...]:
        raise NotImplementedError

    def count(self) -> int:
        raise NotImplementedError

    def arrow_schema(self):
        """The names and types of the columns, as pyarrow has them."""
        raise NotImplementedError

    def to_batches(self, dictionaries: bool = False):
        """An iterator of pyarrow RecordBatches of a million tuples or so, in no order. `dictionaries`: columns of strings are
        dictionary-encoded, so that a string is there once in each batch: 4 bytes a tuple."""
        raise NotImplementedError

    def to_df(self):
        raise NotImplementedError

    def to_arrow(self, dictionaries: bool = False):
        """A pyarrow Table, collected to this process. `dictionaries`: columns of strings are dictionary-encoded."""
        import pyarrow as pa

        batches = list(self.to_batches(dictionaries))
        table = pa.Table.from_batches(batches, None if batches else encoded(self.arrow_schema(), dictionaries))
        return table.unify_dictionaries() if dictionaries else table

    def write(self, path) -> None:
        """Write one file in no order, whole or not at all: .parquet, .csv, .tsv, .facts, .txt, all but the first also .gz."""
        from semi_naive.io.outputs import write_batches

        write_batches(path, self.arrow_schema(), self.to_batches())

    def __len__(self) -> int:
        return self.count()

    def to_pandas(self):
        """A pandas DataFrame, collected to this process. ImportError where pandas is not installed."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_pandas() needs the package pandas, which is not installed: pip install pandas") from None
        return self.to_arrow().to_pandas() if self.columns else pd.DataFrame(index=range(self.count()))

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
        return list(zip(*(map(plain, column.to_pylist()) for column in self.to_arrow().columns), strict=True))

    def to_set(self) -> set[tuple]:
        """The same as a set."""
        return set(self.to_list())


def plain(value):
    """A record, which Arrow gives as a dict, as a tuple."""
    return tuple(map(plain, value.values())) if isinstance(value, dict) else value


def encoded(schema, dictionaries: bool = True):
    """A pyarrow schema whose columns of strings are dictionary-encoded, or as it is."""
    import pyarrow as pa

    coded = pa.dictionary(pa.int32(), pa.string())
    fields = [field.with_type(coded) if dictionaries and field.type == pa.string() else field for field in schema]
    return pa.schema(fields)


def _common_dtype(schema) -> np.dtype:
    """The one of all columns that numpy has without Python objects, else of objects."""
    import pyarrow as pa

    kinds = set(schema.types)
    return np.dtype(kinds.pop().to_pandas_dtype() if len(kinds) == 1 and pa.types.is_primitive(schema.types[0]) else object)
