"""Replace files atomically."""

import contextlib
import uuid
from pathlib import Path

from semi_naive.host import leftovers


def unfinished(path) -> Path:
    """Return a temporary path in the folder of `path`, so that renaming suffices. It is removed if the process is killed."""
    path = Path(path)
    name = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    leftovers.add(str(name))
    return name


@contextlib.contextmanager
def replacing(path):
    """Yield the path of a temporary file beside `path`. It replaces `path` at the end of the block, or is removed after an
    error."""
    partial = unfinished(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        discard(partial)


def discard(partial: Path) -> None:
    """Remove an unfinished file, if it is still there."""
    leftovers.forget(str(partial))
    with contextlib.suppress(OSError):
        partial.unlink()
