"""Parquet files through which a Spark on the same host reads tuples of this process. Otherwise Spark's plans would contain the
tuples.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semi_naive.ra.storage.runs import Store

MIN_LENT_TUPLES = 100_000  # tuples from which a file is written: fewer are in the plan, which is as fast
# A folder of this name, as Spark names the file when it is gone.
FOLDER = "the-result-of-this-DataFrame-was-closed--read-or-write-the-DataFrame-before-that"


class Lent:
    """The files of one result. They are deleted when it is closed, or when the program ends."""

    def __init__(self, local_dir: str | None):
        self.local_dir, self.files = local_dir, 0
        self.store: Store | None = None

    def frame(self, schema, batches):
        """Return a DataFrame of record batches with types that Spark has. Takes a file with the tuples."""
        import pyarrow as pa
        from pyspark.sql import SparkSession

        from semi_naive.io.results.outputs import write_batches
        from semi_naive.ra.storage.runs import Store

        self.store, self.files = self.store or Store.create(self.local_dir), self.files + 1
        os.makedirs(self.store.path(FOLDER), exist_ok=True)
        path = self.store.path(FOLDER, f"{self.files}.parquet")
        places = [f"_{place}" for place in range(len(schema))]  # Spark takes x and X for one column of a file
        named = pa.schema([field.with_name(place) for field, place in zip(schema, places, strict=True)])
        write_batches(path, named, (pa.record_batch(batch.columns, schema=named) for batch in batches))
        return SparkSession.builder.getOrCreate().read.parquet(f"file://{path}").toDF(*schema.names)

    def close(self) -> None:
        """Delete the files."""
        if self.store:
            self.store.remove()
            self.store = None
