"""Opening fact files, and making result files appear whole or not at all."""

import contextlib
import contextvars
import gzip
import os
import sys
import uuid

from semi_naive.io.errors import BadInput
from semi_naive.io.formats import io_errors

GZIP = b"\x1f\x8b"


def contents(path: str) -> bytes:
    """All bytes of a file, unpacked if it is gzip, by whatever name."""
    with io_errors(path):
        with open(path, "rb") as file:
            data = file.read()
        return gzip.decompress(data) if data[:2] == GZIP else data


def standard_input() -> bytes:
    return getattr(sys.stdin, "buffer", sys.stdin).read()


def check_there(path: str, relation, folders: bool = False) -> None:
    """BadInput when the fact file of a relation is not there: its folder, the file, or is a folder itself, unless `folders`
    will do."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        hint = f"the facts of {relation.name} were expected there; name the right folder with -F (--fact-dir)"
        raise BadInput(f"Cannot open fact file {os.path.basename(path)}: there is no folder {folder!r}", path, hint=hint)
    if os.path.isdir(path) and not folders:
        raise BadInput(f"Cannot open fact file {os.path.basename(path)}: it is a folder", path)
    if not os.path.exists(path):
        hint = f"write the facts of {relation.name} there, name their folder with -F (--fact-dir), or go on without, with -w"
        raise BadInput(f"Cannot open fact file {os.path.basename(path)}: no such file", path, hint=hint)


def check_folder(path: str) -> None:
    """BadInput when there is no folder for a file to be written."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        hint = "make it, or name another with -D (--output-dir)"
        raise BadInput(f"there is no folder {folder!r} to write to", path, hint=hint)


_waiting = contextvars.ContextVar("files that are to appear together", default=None)


@contextlib.contextmanager
def together():
    """All files written meanwhile appear at the end, or none of them; what was there before stays until then. A database is
    no such file: it changes when its own transaction ends."""
    waiting = []
    token = _waiting.set(waiting)
    try:
        yield
        for _, path in waiting:
            if os.path.isdir(path):
                raise BadInput("cannot be written: it is a folder", path)
        for beside, path in waiting:
            with _denied(path):
                os.replace(beside, path)
    finally:
        _waiting.reset(token)
        for beside, _ in waiting:
            _remove(beside)


@contextlib.contextmanager
def appearing(path: str):
    """A path beside `path` to write to, which becomes `path` at the end (see `together`), or is gone after any error."""
    check_folder(path)
    beside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{uuid.uuid4().hex[:8]}")
    try:
        with _denied(path):
            yield beside
            if (waiting := _waiting.get()) is None:
                os.replace(beside, path)
            else:
                waiting.append((beside, path))
    except BaseException:
        _remove(beside)
        raise


@contextlib.contextmanager
def _denied(path: str):
    try:
        yield
    except OSError as error:
        raise BadInput(f"cannot be written: {error.strerror or error}", path) from None


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


@contextlib.contextmanager
def written(path: str, compress: bool = False):
    """A binary stream to a file that appears whole or not at all. Compressed ones carry no time, so they are the same
    each time."""
    with appearing(path) as beside:
        with open(beside, "wb") as file:
            if compress:
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                    yield packed
            else:
                yield file
