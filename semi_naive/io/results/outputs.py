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
from semi_naive.ra.text.arrow_arrays import bytes_and_starts, numpy_of
from semi_naive.ra.text.rows import SIGNED, UNSIGNED, RowFormat

DELIMITERS = {".tsv": "\t", ".facts": "\t", ".txt": "\t", ".csv": ","}


def output_format(path, other_extensions: tuple[str, ...] = ()) -> tuple[str, bool]:
    """Return (the extension of a file's name, True if the file is gzipped). Raises ValueError for an unknown one.
    other_extensions: further formats of the caller, for the message.

    >>> output_format("out/paths.tsv.gz")
    ('.tsv', True)
    """
    suffixes = Path(str(path)).suffixes
    gzipped = suffixes[-1:] == [".gz"]
    extension = "".join(suffixes[-2:-1] if gzipped else suffixes[-1:])
    if extension in DELIMITERS or (extension == ".parquet" and not gzipped):
        return extension, gzipped
    expected = f"{', '.join(DELIMITERS)}, each also with .gz, or in {', '.join(('.parquet', *other_extensions))}"
    raise ValueError(f"{path}: cannot tell the format: expected a name that ends in {expected}")


def write_batches(path, schema, batches: Iterable, name: str = "result") -> None:
    """Write record batches in their order. A .csv quotes strings that need it; other text is not quoted, so BadInput is raised
    for a string in relation `name` that would be read back otherwise.

    Text is made by all cores, some 40 M rows of two numbers a second on each; parquet by one, some 70 M.
    """
    extension, gzipped = output_format(path)
    path = os.path.abspath(path)
    if extension == ".parquet":
        with atomic_path(path) as unfinished, parquet_writer(unfinished, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return
    text = partial(_text, form=Format(delimiter=DELIMITERS[extension], rfc4180=extension == ".csv"), name=name)
    with atomic_stream(path, gzipped) as file:
        for rows in in_threads(text, batches):
            file.write(rows)


def _text(batch, form: Format, name: str):
    """Return a record batch as delimited text. Raises BadInput for a text without quotes that would be read back otherwise."""
    import pyarrow as pa
    import pyarrow.csv as csv

    integer_fields = {pa.int64(): (SIGNED, "number"), pa.uint64(): (UNSIGNED, "unsigned")}
    # Arrow quotes texts; a .csv of whole numbers needs no quotes
    if not batch.num_columns or form.rfc4180 and not integer_fields.keys() >= set(batch.schema.types):
        with pa.BufferOutputStream() as stream:
            csv.write_csv(batch, stream, csv.WriteOptions(include_header=False, delimiter=form.delimiter))
            return stream.getvalue()
    columns, texts, fields, attributes = [], [], [], []
    for column_name, column in zip(batch.schema.names, batch.columns, strict=True):
        text = None if column.type in integer_fields else column.cast(pa.large_string())
        columns.append(numpy_of(column).view(np.int64) if text is None else np.arange(len(column)))
        texts.append(text)
        field, kind = integer_fields[column.type] if text is None else (bytes_and_starts(text), "symbol")
        fields.append(field)
        attributes.append((column_name, BUILT_IN[kind]))
    rows = np.array(columns)
    check_texts(texts, [rows], Relation(name, tuple(attributes)), form)
    return RowFormat(["", *[form.delimiter] * (len(fields) - 1), "\n"], fields).bytes(rows)


def parquet_writer(where, schema):
    """Return a `ParquetWriter` to a path or a stream. Integers are delta-encoded: a sorted column takes little space, and less
    time than with a dictionary."""
    import pyarrow as pa
    from pyarrow import parquet

    integers = {field.name for field in schema if pa.types.is_integer(field.type)}
    others = [field.name for field in schema if field.name not in integers]
    encodings = dict.fromkeys(integers, "DELTA_BINARY_PACKED")
    return parquet.ParquetWriter(where, schema, use_dictionary=others, column_encoding=encodings or None)


def arrow_writer(where, schema):
    """Return a writer of a file of Arrow data (also called Feather) to a stream."""
    import pyarrow as pa

    return pa.ipc.new_file(where, schema)


def write_frame(frame, path: str) -> None:
    """Write a Spark DataFrame as a directory of parquet files, which replaces an older one once it is complete."""
    if "://" in path:
        return frame.write.mode("overwrite").parquet(path)
    target = Path(path).absolute()
    partial = unfinished(target)
    try:
        spark_call(frame.sparkSession.sparkContext, lambda: frame.write.mode("overwrite").parquet(partial.as_uri()))
        with contextlib.suppress(FileNotFoundError):  # renaming does not replace a folder
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink()
        partial.replace(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        leftovers.forget(str(partial))
