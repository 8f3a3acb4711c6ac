"""Folders and files of this user alone: what is read in them is believed, and code that is in them is run.

A folder is private if it belongs to this user, and nobody else may write to it. What is made here has mode 0700, and files
have 0600, whatever the umask is. Files appear whole or not at all. What may be made again is saved with a checksum.
"""

import contextlib
import functools
import hashlib
import logging
import os
import stat
import tempfile
import uuid
import zlib
from pathlib import Path

from semi_naive.host import leftovers

log = logging.getLogger("semi_naive")

OTHERS = stat.S_IWGRP | stat.S_IWOTH  # may write
CHECKSUM = 4  # bytes, before what is saved


class NotPrivate(PermissionError):
    """A folder is there, and others may have written what is in it."""


def folder(path: str | os.PathLike) -> str:
    """Make a private folder, with those above it that are missing. NotPrivate if there is one that is not."""
    path = os.path.abspath(path)
    if not os.path.lexists(path):
        if not os.path.exists(os.path.dirname(path)):
            folder(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):  # by another process, a moment ago
            os.mkdir(path, 0o700)
    if wrong := privacy_fault(path):
        raise NotPrivate(f"{path} {wrong}")
    return path


def privacy_fault(path: str | os.PathLike) -> str:
    """Why others could have written what is in a folder; empty if they could not."""
    facts = os.lstat(path)
    if not stat.S_ISDIR(facts.st_mode):
        return "is not a folder"
    if hasattr(os, "geteuid") and facts.st_uid != os.geteuid():
        return f"belongs to another user (number {facts.st_uid})"
    if hasattr(os, "geteuid") and facts.st_mode & OTHERS:
        return f"may be written by other users (its mode is {stat.S_IMODE(facts.st_mode):04o})"
    return ""


def first_private(*folders: str | os.PathLike) -> Path:
    """The first of some folders that can be had for this user alone. If there is none: a fresh one, until this process ends."""
    for path in folders:
        try:
            found = folder(path)
            _check_above(found)
            if os.access(found, os.W_OK):
                return Path(found)
            log.info("%s is not used: it cannot be written", path)
        except NotPrivate as error:
            log.warning("a folder is not used, as others could put code there: %s", error)
        except OSError as error:
            log.info("%s is not used: %s", path, error)
    fresh = tempfile.mkdtemp(prefix="semi-naive-private-")
    leftovers.add(fresh)
    return Path(fresh)


@functools.cache
def cache(name: str) -> Path:
    """Where things of a kind are kept: below XDG_CACHE_HOME or ~/.cache; in the temporary directory if that cannot be had."""
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    number = os.getuid() if hasattr(os, "getuid") else "user"
    places = os.path.join(user, "semi-naive", name), os.path.join(tempfile.gettempdir(), f"semi-naive-{number}", name)
    return first_private(*filter(os.path.isabs, places))  # there may be no home


def _check_above(path: str) -> None:
    """NotPrivate if others can put another folder in the place of this one."""
    for above in Path(path).resolve().parents if hasattr(os, "geteuid") else ():
        facts = above.stat()
        if facts.st_uid not in (0, os.geteuid()) or (facts.st_mode & stat.S_IWOTH and not facts.st_mode & stat.S_ISVTX):
            raise NotPrivate(f"{path} is in {above}, where other users can exchange folders")


@contextlib.contextmanager
def replacing(path: str | os.PathLike, synced: bool = False):
    """Yields a binary file to write. It takes the place of `path` when the block has written it, and goes if it fails.
    synced: when this returns it is on the disk, whatever happens to the machine."""
    partial = f"{os.fspath(path)}.{uuid.uuid4().hex}.partial"
    try:
        with _created(partial) as file:
            yield file
            if synced:
                file.flush()
                os.fsync(file.fileno())
        os.replace(partial, path)
        if synced:
            sync(os.path.dirname(os.path.abspath(path)))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _created(path: str):
    """A new file, open, in a folder that is made if it is missing."""
    try:
        return open(path, "xb", opener=opener)
    except FileNotFoundError:
        folder(os.path.dirname(path))
        return open(path, "xb", opener=opener)


def opener(path: str, flags: int) -> int:
    """For `open`: the files that it makes have mode 0600."""
    return os.open(path, flags, 0o600)


def digest(*things) -> str:
    """A file's name, the same in every process for what is written alike."""
    return hashlib.sha256(repr(things).encode()).hexdigest()[:24]


def sync(path: str | os.PathLike) -> None:
    """Force a file, or what a folder lists, to the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def save(path: str | os.PathLike, data: bytes, synced: bool = False) -> None:
    """Write a file that `load` reads."""
    with replacing(path, synced) as file:
        file.write(zlib.crc32(data).to_bytes(CHECKSUM, "little") + data)


def load(path: str | os.PathLike) -> bytes | None:
    """What `save` has written; None if it is not there, or not as it was written."""
    try:
        with open(path, "rb") as file:
            saved = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.info("%s is made again: %s", path, error)
        return None
    data = saved[CHECKSUM:]
    if len(saved) >= CHECKSUM and zlib.crc32(data).to_bytes(CHECKSUM, "little") == saved[:CHECKSUM]:
        return data
    log.info("%s is made again: it is damaged or cut short", path)
    return None
