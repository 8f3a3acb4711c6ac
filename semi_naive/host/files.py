"""Files that appear whole or not at all."""

import contextlib
from pathlib import Path


@contextlib.contextmanager
def replacing(path):
    """Yields the path of a file beside `path`, which takes its place when the block has written it, and goes if it fails."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
