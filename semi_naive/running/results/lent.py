"""Parquet files through which Spark on the same host reads tuples of this process, which its plans would otherwise contain."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semi_naive.ra.storage.runs import Store

MIN_LENT_TUPLES = 100_000  # tuples from which a file is written: fewer are in the plan, which is as fast
# Spark's error for a deleted file has its path, so the folder's name tells the user the reason.
FOLDER = "the-result-of-this-DataFrame-was-closed--read-or-write-the-DataFrame-before-that"


class Lent:
    """The files of one result. They are deleted when it is closed, or when the program ends."""

    def __init__(self, local_dir: str | None):
        self.local_dir, self.files = local_dir, 0
        self.store: Store | None = None

    def frame(self, schema, batches):
        """Write record batches with types that Spark has to a file, and return a DataFrame that reads it."""
        import pyarrow as pa
        from pyspark.sql import SparkSession

        from semi_naive.io.results.outputs import write_batches
        from semi_naive.ra.storage.runs import Store

        self.store, self.files = self.store or Store.create(self.local_dir), self.files + 1
        os.makedirs(self.store.path(FOLDER), exist_ok=True)
        path = self.store.path(FOLDER, f"{self.files}.parquet")
        # The names in the file are generated, as Spark takes x and X for one column of a file.
        in_file = pa.schema([field.with_name(f"_{place}") for place, field in enumerate(schema)])
        write_batches(path, in_file, (pa.record_batch(batch.columns, schema=in_file) for batch in batches))
        return SparkSession.builder.getOrCreate().read.parquet(f"file://{path}").toDF(*schema.names)

    def close(self) -> None:
        """Delete the files."""
        if self.store:
            self.store.remove()
            self.store = None
