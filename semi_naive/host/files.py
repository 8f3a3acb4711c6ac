"""Replace files atomically."""

import contextlib
import uuid
from pathlib import Path


@contextlib.contextmanager
def replacing(path):
    """Yield the path of a temporary file beside `path`. It replaces `path` at the end of the block, or is removed after an
    error."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
