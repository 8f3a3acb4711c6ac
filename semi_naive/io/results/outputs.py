"""Write any result as one file of text or parquet, chosen by the file's name, atomically, from Arrow record batches."""

import contextlib
import os
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

from semi_naive.host import leftovers
from semi_naive.host.files import unfinished
from semi_naive.host.threads import in_threads
from semi_naive.io.files import atomic_path, atomic_stream
from semi_naive.io.formats.layouts import Format
from semi_naive.io.results.read_back import check_texts
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.ir import Relation
from semi_naive.ra.spark.executors import spark_call
from semi_naive.ra.text.arrow_arrays import numpy_of, strings_of
from semi_naive.ra.text.rows import SIGNED, UNSIGNED, RowFormat

DELIMITERS = {".tsv": "\t", ".facts": "\t", ".txt": "\t", ".csv": ","}


def output_format(path) -> tuple[str, bool]:
    """Return (the extension of a file's name, True if the file is gzipped). Raises ValueError for an unknown one.

    >>> output_format("out/paths.tsv.gz")
    ('.tsv', True)
    """
    suffixes = Path(str(path)).suffixes
    zipped = suffixes[-1:] == [".gz"]
    kind = "".join(suffixes[-2:-1] if zipped else suffixes[-1:])
    if kind in DELIMITERS or (kind == ".parquet" and not zipped):
        return kind, zipped
    expected = ", ".join([*DELIMITERS, ".parquet"])
    raise ValueError(f"{path}: cannot tell the format: expected a name that ends in {expected}; all but the last also .gz")


def write_batches(path, schema, batches: Iterable, name: str = "result") -> None:
    """Write record batches in their order. A .csv quotes strings that need it; other text is not quoted, so BadInput is raised
    for a string in relation `name` that would be read back otherwise.

    Text is made by all cores, some 40 M rows of two numbers a second on each; parquet by one, some 70 M.
    """
    kind, zipped = output_format(path)
    path = os.path.abspath(path)
    if kind == ".parquet":
        with atomic_path(path) as unfinished, parquet_writer(unfinished, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return
    text = partial(_text, form=Format(delimiter=DELIMITERS[kind], rfc4180=kind == ".csv"), name=name)
    with atomic_stream(path, zipped) as file:
        for rows in in_threads(text, batches):
            file.write(rows)


def _text(batch, form: Format, name: str):
    import pyarrow as pa
    import pyarrow.csv as csv

    fields = [SIGNED if pa.types.is_signed_integer(arrow_type) else UNSIGNED for arrow_type in batch.schema.types]
    if set(batch.schema.types) <= {pa.int64(), pa.uint64()} and len(fields):
        seams = ["", *[form.delimiter] * (len(fields) - 1), "\n"]
        return RowFormat(seams, fields).bytes(np.array([numpy_of(column).view(np.int64) for column in batch.columns]))
    if not form.rfc4180 and fields:
        return _unquoted(batch, form, name)
    with pa.BufferOutputStream() as stream:
        csv.write_csv(batch, stream, csv.WriteOptions(include_header=False, delimiter=form.delimiter))
        return stream.getvalue()


def _unquoted(batch, form: Format, name: str):
    """Return a record batch as delimited text without quotes. Raises BadInput for a text that would be read back otherwise."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [column.cast(pa.large_string()) for column in batch.columns]
    relation = Relation(name, tuple((column, BUILT_IN["symbol"]) for column in batch.schema.names))
    check_texts(columns, [np.tile(np.arange(batch.num_rows), (len(columns), 1))], relation, form)
    between, empty, end = strings_of([form.delimiter, "", "\n"]).cast(pa.large_string())
    rows = pc.binary_join_element_wise(*columns, between) if len(columns) > 1 else columns[0]
    return pc.binary_join_element_wise(rows, empty, end).buffers()[2] or b""


def parquet_writer(where, schema):
    """Return a `ParquetWriter` to a path or a stream. Integers are delta-encoded: a sorted column takes little space, and less
    time than with a dictionary."""
    import pyarrow as pa
    from pyarrow import parquet

    whole = {field.name for field in schema if pa.types.is_integer(field.type)}
    others = [field.name for field in schema if field.name not in whole]
    encodings = dict.fromkeys(whole, "DELTA_BINARY_PACKED")
    return parquet.ParquetWriter(where, schema, use_dictionary=others, column_encoding=encodings or None)


def write_frame(frame, path: str) -> None:
    """Write a Spark DataFrame as a directory of parquet files, which replaces an older one once it is complete."""
    if "://" in path:
        return frame.write.mode("overwrite").parquet(path)
    target = Path(path).absolute()
    partial = unfinished(target)
    try:
        spark_call(frame.sparkSession.sparkContext, lambda: frame.write.mode("overwrite").parquet(partial.as_uri()))
        with contextlib.suppress(FileNotFoundError):
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink()
        partial.replace(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        leftovers.forget(str(partial))
