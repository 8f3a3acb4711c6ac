"""Expansion of paths with * or ? or [ into files."""

import fnmatch
import glob
import os

from semi_naive.io.errors import BadInput
from semi_naive.io.files import filesystem, io_errors, is_uri
from semi_naive.io.formats.parquet import is_parquet


def match_files(path: str) -> list[str] | None:
    """Return the files that match a pattern, sorted by name; None for a path without wildcards, or one that exists as written.

    ** matches any number of folders. A folder with parquet files counts as one file. In a URI, only the last part may be a
    pattern. Raises BadInput if no file matches.
    """
    if not glob.has_magic(path) or (not is_uri(path) and os.path.exists(path)):
        return None
    files = _remote(path) if is_uri(path) else _local(path)
    if not files:
        hint = f"looked from {os.getcwd()}; * is any part of a name, ** any number of folders"
        raise BadInput("no file fits this pattern", path, hint=hint)
    return files


def _local(path: str) -> list[str]:
    """Return the local files that match a pattern; a folder of parquet files counts as one file, and hides those inside."""
    matches = sorted(glob.glob(path, recursive=True))
    folders = [name for name in matches if os.path.isdir(name) and is_parquet(name)]
    inside_folders = tuple(os.path.join(folder, "") for folder in folders)
    return [name for name in matches if not name.startswith(inside_folders) and (name in folders or not os.path.isdir(name))]


def _remote(path: str) -> list[str]:
    """Return the files that match a pattern in the last part of a URI."""
    from pyarrow import fs

    parent, _, name = path.rpartition("/")
    if glob.has_magic(parent):
        raise BadInput("only the last part of a URI may be a pattern", path)
    with io_errors(path):
        system, inside = filesystem(parent)
        infos = system.get_file_info(fs.FileSelector(inside))
    names = sorted(info.base_name for info in infos if info.type == fs.FileType.File or is_parquet(info.base_name))
    return [f"{parent}/{entry}" for entry in names if fnmatch.fnmatchcase(entry, name) and not entry.startswith(".")]
