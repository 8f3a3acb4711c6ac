"""Atomic replacement of files."""

import contextlib
from pathlib import Path


@contextlib.contextmanager
def replacing(path):
    """Yield the path of a temporary file beside `path`. It replaces `path` at the end of the block, or is removed after an
    error."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
