"""Private folders and files, which only this user can write: their contents are trusted, and code in them is executed.

A folder is private if it belongs to this user and is writable by no other. Folders are made with mode 0700 and files with 0600,
independent of the umask. Files are written atomically. Files that can be made again are saved with a checksum.
"""

import contextlib
import functools
import hashlib
import logging
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from semi_naive.host import files, leftovers

log = logging.getLogger("semi_naive")

OTHERS_WRITE_BITS = stat.S_IWGRP | stat.S_IWOTH  # mode bits by which others may write
CHECKSUM_BYTES = 4  # bytes of the checksum in front of the content


class NotPrivate(PermissionError):
    """A folder exists, but other users may have written to it."""


def folder(path: str | os.PathLike) -> str:
    """Make a private folder and its missing parents. Raises NotPrivate if it exists and is not private."""
    path = os.path.abspath(path)
    if not os.path.lexists(path):
        if not os.path.exists(os.path.dirname(path)):
            folder(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):  # another process has just made it
            os.mkdir(path, 0o700)
    if wrong := privacy_fault(path):
        raise NotPrivate(f"{path} {wrong}")
    return path


def privacy_fault(path: str | os.PathLike) -> str:
    """Return the reason why other users could have written to a folder; "" if they could not."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        return "is not a folder"
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return f"belongs to another user (number {status.st_uid})"
    if hasattr(os, "geteuid") and status.st_mode & OTHERS_WRITE_BITS:
        return f"may be written by other users (its mode is {stat.S_IMODE(status.st_mode):04o})"
    return ""


def first_private(folders: Iterable[str | os.PathLike]) -> Path:
    """Return the first of some folders that is or can be made private; if there is none, a new one that is removed when the
    process ends."""
    for path in folders:
        try:
            path_of_folder = folder(path)
            _check_above(path_of_folder)
            if os.access(path_of_folder, os.W_OK):
                return Path(path_of_folder)
            log.info("%s is not used: it cannot be written", path)
        except NotPrivate as error:
            log.warning("a folder is not used, as others could put code there: %s", error)
        except OSError as error:
            log.info("%s is not used: %s", path, error)
    import tempfile

    fresh = tempfile.mkdtemp(prefix="semi-naive-private-")
    leftovers.add(fresh)
    return Path(fresh)


@functools.cache
def cache(name: str) -> Path:
    """Return the cache folder of this name: below XDG_CACHE_HOME or ~/.cache, or in the temporary directory if that is not
    possible."""
    return first_private(filter(os.path.isabs, _cache_places(name)))  # there may be no home


def _cache_places(name: str) -> Iterator[str]:
    """Yield the possible folders of a cache: in the user's cache folder, then in the temporary one."""
    yield os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "semi-naive", name)
    import tempfile  # it tries to write there

    number = os.getuid() if hasattr(os, "getuid") else "user"
    yield os.path.join(tempfile.gettempdir(), f"semi-naive-{number}", name)


def _check_above(path: str) -> None:
    """Raise NotPrivate if other users can replace this folder by another."""
    for above in Path(path).resolve().parents if hasattr(os, "geteuid") else ():
        status = above.stat()
        # in a folder with the sticky bit, such as /tmp, only the owner of an entry can rename it
        if status.st_uid not in (0, os.geteuid()) or (status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX):
            raise NotPrivate(f"{path} is in {above}, where other users can exchange folders")


@contextlib.contextmanager
def open_replacing(path: str | os.PathLike, synced: bool = False):
    """Yield a binary file to write. It replaces `path` at the end of the block, or is removed after an error. synced: force it
    to the disk before returning."""
    with files.replacing(path) as partial:
        with _created(partial) as file:
            yield file
            if synced:
                file.flush()
                os.fsync(file.fileno())
    if synced:
        sync(os.path.dirname(os.path.abspath(path)))


def _created(path: Path):
    """Open a new file, in a folder that is made if it is missing."""
    try:
        return open(path, "xb", opener=opener)
    except FileNotFoundError:
        folder(os.path.dirname(path))
        return open(path, "xb", opener=opener)


def opener(path: str, flags: int) -> int:
    """Open a file as `os.open` does, with mode 0600 if it is new; for the parameter `opener` of `open`."""
    return os.open(path, flags, 0o600)


def digest(*things) -> str:
    """Return a name for a file, which is the same in every process for values with equal `repr`."""
    return hashlib.sha256(repr(things).encode()).hexdigest()[:24]


def sync(path: str | os.PathLike) -> None:
    """Force a file, or a folder's entries, to the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def save_checked(path: str | os.PathLike, data: bytes, synced: bool = False) -> None:
    """Write a file with a checksum, for `load`."""
    with open_replacing(path, synced) as file:
        file.write(zlib.crc32(data).to_bytes(CHECKSUM_BYTES, "little") + data)


def load(path: str | os.PathLike) -> bytes | None:
    """Read a file written by `save_checked`; None if it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            saved = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.info("%s is made again: %s", path, error)
        return None
    data = saved[CHECKSUM_BYTES:]
    if len(saved) >= CHECKSUM_BYTES and zlib.crc32(data).to_bytes(CHECKSUM_BYTES, "little") == saved[:CHECKSUM_BYTES]:
        return data
    log.info("%s is made again: it is damaged or cut short", path)
    return None
