"""Parquet files, and directories of them, as Arrow tables."""

import os
from contextlib import contextmanager

from semi_naive.io.errors import BadInput
from semi_naive.io.formats import filesystem, format_of, io_errors, is_uri


def is_parquet(path):
    """Whether ``path`` is a parquet file by its name, or a directory with such files in it. Raises on unknown names."""
    if not is_uri(path) and os.path.isdir(path):
        return path.rstrip("/").lower().endswith(".parquet") or any(_is_part(name) for name in os.listdir(path))
    return format_of(path).extension == ".parquet"


def read_parquet(path):
    """All rows of a parquet file, or of the files in a directory in the order of their names, as one pyarrow table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with parquet_errors(path):
        system, parts = part_files(path)
        tables = [pq.read_table(part, filesystem=system, partitioning=None) for part in parts]
        return pa.concat_tables(tables, promote_options="permissive")


def row_groups(path):
    """The (part, row group number, number of its first row) of every row group under ``path``. Reads the footers."""
    import pyarrow.parquet as pq

    with parquet_errors(path):
        system, parts = part_files(path)
        groups = []
        for part in parts:
            footer, row = pq.read_metadata(part, filesystem=system), 0
            for group in range(footer.num_row_groups):
                groups.append((part, group, row))
                row += footer.row_group(group).num_rows
        return groups


def read_row_group(path, part, group):
    """One row group, of one of the ``part_files`` of ``path``, as a pyarrow table."""
    import pyarrow.parquet as pq

    with parquet_errors(path):
        return pq.ParquetFile(part, filesystem=filesystem(path)[0]).read_row_group(group)


def read_schema(path):
    """A pyarrow table without rows that has the columns of the first part."""
    import pyarrow.parquet as pq

    with parquet_errors(path):
        system, parts = part_files(path)
        return pq.read_schema(parts[0], filesystem=system).empty_table()


def part_files(path):
    """The pyarrow file system, and the sorted parquet files of ``path``; names with a leading _ or . are left out."""
    from pyarrow import fs

    system, inside = filesystem(path)
    if system.get_file_info(inside).type != fs.FileType.Directory:
        return system, [inside]
    infos = system.get_file_info(fs.FileSelector(inside, recursive=True))
    parts = sorted(info.path for info in infos if info.type == fs.FileType.File and _is_part(info.base_name))
    if not parts:
        raise BadInput("the directory has no .parquet files", path)
    return system, parts


@contextmanager
def parquet_errors(path):
    """Turns what pyarrow says of missing and corrupt files into ``BadInput``."""
    import pyarrow as pa

    with io_errors(path):
        try:
            yield
        except (pa.ArrowException, ValueError) as error:
            if isinstance(error, (BadInput, OSError)):
                raise
            reason = str(error).splitlines()[0]
            raise BadInput(f"cannot be read as parquet: {reason}", path, hint="write the file again") from None


def _is_part(name):
    return name.endswith(".parquet") and name[0] not in "_."
