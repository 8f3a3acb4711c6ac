"""Expansion of paths with * or ? or [ into files."""

import fnmatch
import glob
import os

from semi_naive.io.errors import BadInput
from semi_naive.io.files import filesystem, io_errors, is_uri
from semi_naive.io.formats.parquet import is_parquet


def match_files(path: str) -> list[str] | None:
    """The files that match a pattern, sorted by name; None for a path without wildcards, or one that exists as it is written.

    ** is any number of folders. A folder counts if it holds parquet files, and those in it do not count again. Of a URI the
    last part may be a pattern. BadInput where no file fits.
    """
    if not glob.has_magic(path) or (not is_uri(path) and os.path.exists(path)):
        return None
    found = _remote(path) if is_uri(path) else _local(path)
    if not found:
        hint = f"looked from {os.getcwd()}; * is any part of a name, ** any number of folders"
        raise BadInput("no file fits this pattern", path, hint=hint)
    return found


def _local(path: str) -> list[str]:
    found = sorted(glob.glob(path, recursive=True))
    folders = [each for each in found if os.path.isdir(each) and is_parquet(each)]
    within = tuple(os.path.join(folder, "") for folder in folders)
    return [each for each in found if not each.startswith(within) and (each in folders or not os.path.isdir(each))]


def _remote(path: str) -> list[str]:
    from pyarrow import fs

    parent, _, name = path.rpartition("/")
    if glob.has_magic(parent):
        raise BadInput("only the last part of a URI may be a pattern", path)
    with io_errors(path):
        system, inside = filesystem(parent)
        infos = system.get_file_info(fs.FileSelector(inside))
    names = sorted(info.base_name for info in infos if info.type == fs.FileType.File or is_parquet(info.base_name))
    return [f"{parent}/{each}" for each in names if fnmatch.fnmatchcase(each, name) and not each.startswith(".")]
