"""Read parquet files, and directories of them, as Arrow tables."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from semi_naive.io.errors import BadInput
from semi_naive.io.files import filesystem, io_errors, is_uri
from semi_naive.io.names import note_order

MAX_BATCH_ROWS = 1 << 17  # of 1 MB a column, which the C library reuses: page faults of a row group's take 10 ns a value
MAX_REPEATED_BYTES = 1 << 16  # of the compressed dictionaries of a row group that each batch looks up again
MAX_CODED_BYTES = 8  # of a text, on average, if most are numbers in a dictionary: 4 at most, and a share of the dictionary


def is_parquet(path: str) -> bool:
    """True if `path` is a parquet file by its name, or a directory that contains one."""
    if path.rstrip("/").lower().endswith(".parquet"):
        return True
    return not is_uri(path) and os.path.isdir(path) and any(_is_part(name) for name in os.listdir(path))


def row_groups(path: str, source) -> list[tuple[str, int, int, int]]:
    """Return (part, row group, number of its first row, its rows) of the row groups under `path`. Those without rows, and
    those that a source does not need, by the least and greatest values of their columns, are left out. Reads the footers."""
    import pyarrow.parquet as pq

    with parquet_errors(path):
        system, parts = part_files(path)
        selected, pushdown = [], source.pushdown if source.pushdown and source.pushdown.rows else None
        for part in parts:
            footer, first_row = pq.read_metadata(part, filesystem=system), 0
            columns = footer.schema.to_arrow_schema().names
            note_order(source.relation, columns, path)
            names = source.names_to_read(columns, path) if pushdown else []
            for number in range(footer.num_row_groups):
                group = footer.row_group(number)
                rows = group.num_rows
                places = dict(zip(names, pushdown.read, strict=True)) if pushdown else {}
                if rows and (pushdown is None or pushdown.may_match(_ranges_of(group, places))):
                    selected.append((part, number, first_row, rows))
                first_row += rows
        return selected


def _ranges_of(group, places: dict[str, int]) -> dict[int, tuple]:
    """Return {place of an attribute: (least, greatest value of its column in a row group)}, as far as the file has these
    statistics. places: the attributes' places by the names of their columns."""
    chunks = (chunk for chunk in map(group.column, range(group.num_columns)) if chunk.path_in_schema in places)
    pairs = ((places[chunk.path_in_schema], chunk.statistics) for chunk in chunks)
    return {place: (statistics.min, statistics.max) for place, statistics in pairs if statistics and statistics.has_min_max}


def read_batches(path: str, part: str, groups: list[tuple[int, int]], source) -> Iterator[tuple[Any, int]]:
    """Yield (pyarrow table, number of its first row) of row groups of one of the `part_files` of `path`, in order: of at most
    MAX_BATCH_ROWS rows, unless these would repeat a large dictionary. groups: (row group, number of its first row) of each;
    source: the `Source`, which determines the columns that are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with parquet_errors(path):
        system, _ = filesystem(path)
        footer = pq.read_metadata(part, filesystem=system)
        schema = footer.schema.to_arrow_schema()
        columns = source.names_to_read(schema.names, part)
        for group, first_row in groups:
            coded, dictionary_bytes = _coded_texts(footer.row_group(group), schema)
            file = pq.ParquetFile(part, filesystem=system, metadata=footer, read_dictionary=coded)
            rows = MAX_BATCH_ROWS if dictionary_bytes <= MAX_REPEATED_BYTES else footer.row_group(group).num_rows
            for batch in file.iter_batches(rows, [group], columns):
                yield _check_column_names(pa.Table.from_batches([batch])), first_row
                first_row += batch.num_rows


def _coded_texts(group, schema) -> tuple[list[str], int]:
    """Return (the columns of texts of a row group that are read with their dictionaries, so that each distinct text is decoded
    once; the bytes of these dictionaries): most values are stored as numbers. A writer stops using a dictionary that exceeds
    its limit, mostly 1 MB, and of the texts that follow Arrow would look up each one, in five times the time of reading it."""
    import pyarrow as pa

    texts = {field.name for field in schema if pa.types.is_string(field.type)}
    chunks = (chunk for chunk in map(group.column, range(group.num_columns)) if chunk.path_in_schema in texts)
    encoded = [c for c in chunks if c.has_dictionary_page and c.total_uncompressed_size < MAX_CODED_BYTES * c.num_values]
    dictionary_bytes = sum(chunk.data_page_offset - chunk.dictionary_page_offset for chunk in encoded)
    return [chunk.path_in_schema for chunk in encoded], dictionary_bytes


def empty_table(path: str):
    """Return a pyarrow table without rows, with the columns of a parquet file, or of the first of a directory."""
    import pyarrow.parquet as pq

    with parquet_errors(path):
        system, parts = part_files(path)
        return _check_column_names(pq.read_schema(parts[0], filesystem=system).empty_table())


def _check_column_names(table):
    """Return the table; raise ValueError if a column's name is not UTF-8, which Arrow only checks on access, as here."""
    return table.rename_columns(table.column_names)


def part_files(path: str):
    """Return (the pyarrow file system of `path`, its sorted parquet files); names with a leading _ or . are left out."""
    from pyarrow import fs

    system, inside = filesystem(path)
    if system.get_file_info(inside).type != fs.FileType.Directory:
        return system, [inside]
    infos = system.get_file_info(fs.FileSelector(inside, recursive=True))
    parts = sorted(info.path for info in infos if info.type == fs.FileType.File and _is_part(info.base_name))
    if not parts:
        raise BadInput("the directory has no .parquet files", path)
    return system, parts


def parquet_bytes(path: str) -> int:
    """Return the bytes of a parquet file, or of all files of a directory."""
    with parquet_errors(path):
        system, parts = part_files(path)
        return sum(system.get_file_info(part).size or 0 for part in parts)


@contextmanager
def parquet_errors(path: str):
    """Turn pyarrow's errors for missing and corrupt files into `BadInput`."""
    import pyarrow as pa

    with io_errors(path):
        try:
            yield
        except (pa.ArrowException, ValueError) as error:
            if isinstance(error, (BadInput, OSError)):
                raise
            reason = str(error).splitlines()[0]
            raise BadInput(f"not readable as parquet: {reason}", path, hint="write the file again") from None


def _is_part(name: str) -> bool:
    return name.endswith(".parquet") and name[0] not in "_."
