"""Open files of facts, and write files of results atomically. Errors are `BadInput`."""

import contextlib
import contextvars
import gzip
import io
import os
import stat
import sys
import zlib
from pathlib import Path

from semi_naive.host.files import discard, replacing, unfinished
from semi_naive.io.errors import BadInput

# The suffixes of compressed files, and the bytes with which these begin; none where text may begin so.
COMPRESSED = {".gz": b"\x1f\x8b", ".bz2": b"", ".xz": b"\xfd7zXZ\0", ".zst": b"\x28\xb5\x2f\xfd"}
MAGIC_BYTES = 6  # the most of these bytes
SKIPPED_BYTES = 1 << 20  # bytes that are decompressed at a time to go forward
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_LINE_BYTES = 1 << 20
STANDARD_INPUT = "-"


def contents(path: str) -> bytes:
    """Return all bytes of a file at a path or URI, decompressed."""
    with io_errors(path), open_binary(path) as stream:
        return stream.read()


def open_binary(path: str):
    """Return a seekable binary stream over a local path or URI. It is decompressed if the name ends in one of COMPRESSED, or
    the content begins as compressed data do."""
    if is_uri(path):
        system, inside = filesystem(path)
        stream = io.BufferedReader(system.open_input_file(inside))
    else:
        stream = io.BufferedReader(io.BytesIO(pipe_contents(path))) if is_pipe(path) else open(path, "rb")
    begin = stream.peek(MAGIC_BYTES)
    found = (each for each, magic in COMPRESSED.items() if path.lower().endswith(each) or magic and begin.startswith(magic))
    return _decompressed(stream, next(found, ""), path)


def _decompressed(stream: io.BufferedReader, suffix: str, path: str):
    """Return the decompressed stream of a file. Modules are imported when they are needed, as that takes time."""
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=stream)
    if suffix == ".bz2":
        import bz2

        return bz2.BZ2File(stream)
    if suffix == ".xz":
        import lzma

        return lzma.LZMAFile(stream)
    if suffix == ".zst":
        stream.close()
        return ZstdFile(ZstdBytes(path))
    return stream


class ZstdBytes(io.RawIOBase):
    """The decompressed bytes of a file of zstd data. To go back is to begin anew."""

    def __init__(self, path: str):
        self.path = path
        self._begin()

    def _begin(self) -> None:
        import pyarrow

        system, inside = filesystem(self.path)
        stored = pyarrow.BufferReader(pipe_contents(inside)) if is_pipe(inside) else system.open_input_file(inside)
        self.position, self.data = 0, pyarrow.CompressedInputStream(stored, "zstd")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        data = self.data.read(len(buffer))
        buffer[: len(data)] = data
        self.position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        target = offset + (self.position if whence == os.SEEK_CUR else 0)
        if whence == os.SEEK_END:
            raise io.UnsupportedOperation("compressed data have no known end")
        if target < self.position:
            self._begin()
        while self.position < target and (data := self.data.read(min(SKIPPED_BYTES, target - self.position))):
            self.position += len(data)
        return self.position

    def close(self) -> None:
        self.data.close()
        super().close()


class ZstdFile(io.BufferedReader):
    """A buffered stream of decompressed zstd data. It has a type of its own for `is_plain`."""


def is_plain(stream) -> bool:
    """True if a stream of `open_binary` has the bytes of the file as they are stored."""
    return type(stream) is io.BufferedReader


def is_compressed(path: str) -> bool:
    """True if a file is compressed, or a pipe, so that it can only be read from its beginning."""
    with io_errors(path), open_binary(path) as stream:
        return is_pipe(path) or not is_plain(stream)


def is_pipe(path: str) -> bool:
    """True if a path can be read only once: the standard input, a pipe of the shell's, a device."""
    if path == STANDARD_INPUT or path.startswith("/dev/"):
        return True
    with contextlib.suppress(OSError, ValueError):
        return stat.S_ISFIFO(os.stat(path).st_mode)
    return False


def pipe_contents(path: str) -> bytes:
    """Return all bytes of a pipe, which stay in memory, as a file is opened several times."""
    if path not in _pipes:
        _pipes[path] = standard_input() if path in (STANDARD_INPUT, "/dev/stdin") else Path(path).read_bytes()
    return _pipes[path]


_pipes: dict[str, bytes] = {}  # what pipes had, by path


def standard_input() -> bytes:
    data = getattr(sys.stdin, "buffer", sys.stdin).read()
    return data.encode() if isinstance(data, str) else data


def filesystem(path: str):
    """Return (the pyarrow file system of a path or URI, the path inside it)."""
    from pyarrow import fs

    return fs.FileSystem.from_uri(path) if is_uri(path) else (fs.LocalFileSystem(), os.path.abspath(path))


def is_uri(path: str) -> bool:
    return "://" in path


def file_size(path: str) -> int:
    """Return the bytes of a file at a path or URI, as stored; 0 if there is none."""
    if is_pipe(path):
        return 0  # so no task of another process reads it
    if not is_uri(path):
        with contextlib.suppress(OSError, ValueError):
            status = os.stat(path)
            return status.st_size if stat.S_ISREG(status.st_mode) else 0
        return 0
    system, inside = filesystem(path)
    return system.get_file_info(inside).size or 0


@contextlib.contextmanager
def io_errors(path):
    """Turn errors of the block in opening, reading and decompressing `path` into `BadInput`."""
    try:
        yield
    except FileNotFoundError:
        raise BadInput("no such file", path, hint=f"looked from {os.getcwd()}") from None
    except IsADirectoryError:
        raise BadInput(
            "is a directory, a file was expected", path, hint="name one file; only .parquet may be a directory"
        ) from None
    except EOFError:
        raise BadInput(f"the {_compression(path)} data ends too early", path, hint="copy or download the file again") from None
    except _errors_of_decompression() as error:
        raise _not_decompressed(path, error) from None
    except OSError as error:
        if error.errno is None and path.lower().endswith(tuple(COMPRESSED)):  # of bz2 and zstd
            raise _not_decompressed(path, error) from None
        raise BadInput(f"cannot be read: {error.strerror or error}", path) from None


def _errors_of_decompression() -> tuple[type[Exception], ...]:
    """Return the errors for damaged data of modules that are imported, but for OSError."""
    return gzip.BadGzipFile, zlib.error, *([sys.modules["lzma"].LZMAError] if "lzma" in sys.modules else [])


def _compression(path: str) -> str:
    return {".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}.get(Path(path).suffix.lower(), "gzip")


def _not_decompressed(path: str, error: Exception) -> BadInput:
    hint = "rename the file if it is not compressed, else copy or download it again"
    return BadInput(f"not readable as {_compression(path)}: {error}", path, hint=hint)


def skip_mark(stream) -> int:
    """Move a stream from its beginning behind a UTF-8 byte order mark, if it has one. Return the position, 3 or 0."""
    has_mark = stream.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK
    return stream.seek(len(BYTE_ORDER_MARK) if has_mark else 0)


def numbered_lines(stream, path: str, offset: int = 0):
    """Yield (offset, line number from 1, bytes without the line end) of the lines of a binary stream, whose position is
    `offset`. Raises BadInput for a line of more than 1 MiB, a sign of a file that is not text."""
    line = 1
    while text := stream.readline(MAX_LINE_BYTES):
        if len(text) == MAX_LINE_BYTES:
            raise BadInput("the line is longer than 1 MiB", path, line, 1, "expected text with one tuple per line")
        yield offset, line, text.rstrip(b"\r\n")
        offset, line = offset + len(text), line + 1


def check_fact_file(path: str, relation, folders: bool = False) -> None:
    """Raise BadInput if the fact file of a relation, or its folder, is missing. folders: the facts may be in a folder."""
    if os.path.isfile(path):
        return
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        message = f"Cannot open fact file {os.path.basename(path)}: there is no folder {folder!r}"
        hint = f"the facts of {relation.name} were expected there; name the right folder with"
        raise BadInput(message, path, hint=f"{hint} facts=", shell=f"{hint} -F (--fact-dir)")
    if os.path.isdir(path) and not folders:
        raise BadInput(f"Cannot open fact file {os.path.basename(path)}: it is a folder", path)
    if not os.path.exists(path):
        hint = f"give them, facts={{{relation.name!r}: …}}, or their folder, facts=…, or go on without, with lenient=True"
        shell = f"write the facts of {relation.name} there, name their folder with -F (--fact-dir), or go on without, with -w"
        raise BadInput(f"Cannot open fact file {os.path.basename(path)}: no such file", path, hint=hint, shell=shell)


def check_folder(path: str) -> None:
    """Raise BadInput if the folder of a file to be written is missing."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        hint = "make it, or name another"
        shell = f"{hint} with -D (--output-dir)"
        raise BadInput(f"there is no folder {folder!r} to write to", path, hint=hint, shell=shell)


def line_pieces(stream, size: int, stop: int | None = None):
    """Yield the rest of `stream` in pieces of whole lines, of some `size` bytes each: the buffers that were read into, not
    copies. Reading 450 MB takes 0.15 s of processor time; 0.26 by `received`.

    stop: the offset at which the pieces end; a line that begins before it is whole. None: the end of the stream.
    """
    while (piece_size := size if stop is None else min(size, stop - stream.tell())) > 0:
        piece = bytearray(piece_size)
        with memoryview(piece) as whole:
            received = stream.readinto(whole)
        del piece[received:]
        if received and not piece.endswith(b"\n"):
            piece += stream.readline()
        if received:
            yield piece
        if received < piece_size:
            return


_waiting: contextvars.ContextVar[list | None] = contextvars.ContextVar("files that are to appear together", default=None)


@contextlib.contextmanager
def atomic_files():
    """Make all files that the block writes by `atomic_path` appear at its end, or none of them; old files remain until then."""
    waiting: list[tuple[Path, str]] = []
    token = _waiting.set(waiting)
    try:
        yield
        with _write_errors():
            for partial, path in waiting:
                partial.replace(path)
    finally:
        _waiting.reset(token)
        for partial, _ in waiting:
            discard(partial)


@contextlib.contextmanager
def atomic_path(path: str):
    """Yield a temporary path in the same directory, to write to. It is renamed to `path` at the end (see `atomic_files`), or
    deleted after an error."""
    check_folder(path)
    if os.path.isdir(path):
        raise BadInput("cannot be written: it is a folder", path)
    with _write_errors(path):
        if (waiting := _waiting.get()) is None:
            with replacing(path) as partial:
                yield str(partial)
        else:
            waiting.append((unfinished(path), path))
            yield str(waiting[-1][0])


@contextlib.contextmanager
def _write_errors(path: str | None = None):
    """Translate errors of the operating system into BadInput. path: the file; None: the one that is replaced."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"cannot be written: {error.strerror or error}", path or error.filename2) from None


@contextlib.contextmanager
def atomic_stream(path: str, compress: bool = False):
    """Yield a binary stream to a file that is written atomically. compress: as gzip, without a time, so that equal contents
    give equal files."""
    with atomic_path(path) as unfinished:
        with open(unfinished, "wb") as file:
            if compress:
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                    yield packed
            else:
                yield file
