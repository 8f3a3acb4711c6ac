"""Generated kernels: compiled once for each source, kept in memory, and as machine code in the user's cache directory."""

import hashlib
import importlib.util
import logging
import os
import sys
import tempfile
import uuid
from functools import cache
from pathlib import Path

import numba
import numpy as np
from semi_naive.ra.multiway.tries import local, seeks
from semi_naive.ra.once import alone

log = logging.getLogger("semi_naive")


@cache
def compiled(source: str):
    """The function `kernel` of a source. 1 to 3 s the first time on a machine, a few milliseconds in later processes.

    The file's name is a hash of all that the machine code is made from, so it is never written twice with another content;
    it is written under a temporary name and renamed, always with the same time, which is what numba compares. Processes
    that ask while the first of them compiles wait for it.
    """
    name = f"kernel_{hashlib.sha256('|'.join([source, *_versions()]).encode()).hexdigest()[:24]}"
    path = _folder() / f"{name}.py"
    if not path.exists():
        partial = path.with_name(f".{uuid.uuid4().hex}")
        partial.write_text(source)
        os.utime(partial, (0, 0))
        os.replace(partial, path)
    if any(path.parent.glob(f"__pycache__/{name}.*.nbi")):
        return _loaded(path)
    with alone(path.with_suffix(".lock")):
        return _loaded(path)


def _loaded(path: Path):
    """Importing the file compiles it, unless there is machine code for it."""
    spec = importlib.util.spec_from_file_location(f"semi_naive.ra.multiway.{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # machine code that is read back asks for its module by name
    spec.loader.exec_module(module)
    return module.kernel


@cache
def _versions() -> tuple[str, ...]:
    return numba.__version__, np.__version__, *(Path(module.__file__).read_text() for module in (local, seeks))


@cache
def _folder() -> Path:
    """Where kernels are kept: XDG_CACHE_HOME or ~/.cache; the system's temporary directory if that cannot be written."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for parent in (home, Path(tempfile.gettempdir()) / f"cache-{os.getuid() if hasattr(os, 'getuid') else 'user'}"):
        folder = parent / "semi-naive" / "kernels"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            log.debug("kernels are not kept in %s: %s", folder, error)
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="semi-naive-kernels-"))
