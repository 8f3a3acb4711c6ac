"""Which formats there are, and opening files so that whatever goes wrong is a ``BadInput``."""

import gzip
import io
import os
import zlib
from contextlib import contextmanager
from dataclasses import dataclass

from semi_naive.io.errors import BadInput

# What separates the fields, by extension; b" " stands for any run of spaces and tabs.
DELIMITERS = {".facts": b"\t", ".tsv": b"\t", ".csv": b",", ".txt": b" ", ".mtx": b" "}
KNOWN = "known are .facts .tsv .csv .txt .mtx, each also with .gz, and .parquet"


@dataclass(frozen=True)
class Format:
    """What a file's name says about it."""

    extension: str
    gzipped: bool = False

    @property
    def delimiter(self):
        return DELIMITERS[self.extension]


def format_of(path):
    """The ``Format`` of the file at ``path``, by its extension alone.

    >>> format_of("edges.csv.gz")
    Format(extension='.csv', gzipped=True)
    """
    stem, extension = os.path.splitext(os.fspath(path).rstrip("/").lower())
    gzipped = extension == ".gz"
    if gzipped:
        extension = os.path.splitext(stem)[1]
    if extension in DELIMITERS or (extension == ".parquet" and not gzipped):
        return Format(extension, gzipped)
    raise BadInput(f"unknown extension '{extension}{'.gz' if gzipped else ''}'", path, hint=KNOWN)


def filesystem(path):
    """The pyarrow file system a path or URI lives in, and the path inside it."""
    from pyarrow import fs

    return fs.FileSystem.from_uri(path) if is_uri(path) else (fs.LocalFileSystem(), os.path.abspath(path))


def is_uri(path):
    return "://" in path


@contextmanager
def io_errors(path):
    """Turns the errors of opening, reading and unpacking ``path`` into ``BadInput``."""
    try:
        yield
    except FileNotFoundError:
        raise BadInput("no such file", path, hint=f"looked from {os.getcwd()}") from None
    except EOFError:
        raise BadInput("the gzip data ends too early", path, hint="copy or download the file again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        hint = "rename the file if it is not compressed, else copy or download it again"
        raise BadInput(f"not readable as gzip: {error}", path, hint=hint) from None
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror or error}", path) from None


def check_is_file(path):
    """Raises ``BadInput`` for a missing or empty file, and for a directory. ``path`` is a string, maybe a URI."""
    from pyarrow import fs

    with io_errors(path):
        system, inside = filesystem(path)
        info = system.get_file_info(inside)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(path)
    if info.type == fs.FileType.Directory:
        hint = "name one file; only .parquet may be a directory"
        raise BadInput("is a directory, a file was expected", path, hint=hint)
    if info.size == 0:
        raise BadInput("is empty", path, hint="a graph without edges needs at least a comment or a header line")


def open_binary(path, gzipped=False):
    """A seekable binary stream over the (decompressed) bytes of a local path or URI."""
    if is_uri(path):
        system, inside = filesystem(path)
        stream = io.BufferedReader(system.open_input_file(inside))
    else:
        stream = open(path, "rb")
    return gzip.GzipFile(fileobj=stream) if gzipped else stream
