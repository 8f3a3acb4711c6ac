"""Blocks in a durable directory that every host sees: copied there with a checksum, verified, and read again.

A run never changes, so a copy that is there stays as it is. What is read again goes home like all that is dealt
(`ra.rules.loading`): whatever number of partitions there were, and whatever buckets.
"""

import os
import socket
import zlib
from dataclasses import dataclass
from pathlib import Path

from semi_naive.ra.rules.stored import StoredBlock
from semi_naive.ra.runs import Run, RunMissing

PIECE = 1 << 22  # bytes read and written at a time


def copied(source: str, target: str) -> int:
    """Copy a run, whole or not at all; the checksum of what was written."""
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    partial, checksum = f"{target}.{os.getpid()}.partial", 0
    try:
        with open(source, "rb") as read, open(partial, "wb") as write:
            while piece := read.read(PIECE):
                checksum = zlib.crc32(piece, checksum)
                write.write(piece)
    except FileNotFoundError:
        raise RunMissing(source) from None
    os.replace(partial, target)
    return checksum


def checksum_of(path: str) -> int:
    checksum = 0
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            checksum = zlib.crc32(piece, checksum)
    return checksum


def fault(path: str, checksum: int) -> str:
    """What is wrong with a file, empty if nothing is. Reads all of it."""
    try:
        return "" if checksum_of(path) == checksum else f"{path} is damaged or cut short"
    except OSError as error:
        return f"{path} cannot be read on {socket.gethostname()}: {error.strerror}"


@dataclass
class CopyRuns:
    """A task that copies runs of its partition, (from, to) pairs, and yields (from, to, checksum) of each."""

    runs: list[list[tuple[str, str]]]

    def __call__(self, partition, records):
        for source, target in self.runs[partition]:
            yield source, target, copied(source, target)


@dataclass
class Verify:
    """A task that reads its share of some files, (path, checksum) pairs, and yields what is wrong."""

    files: list[tuple[str, int]]
    partitions: int

    def __call__(self, partition, records):
        yield from filter(None, (fault(*file) for file in self.files[partition :: self.partitions]))


@dataclass
class Gone:
    """A task that yields the names of what has runs of its partition that are not where they were written."""

    runs: dict[str, list[list[StoredBlock]]]

    def __call__(self, partition, records):
        for name, parts in self.runs.items():
            if not all(os.path.exists(stored.run.path) for stored in parts[partition]):
                yield name


def to_json(stored: StoredBlock, path: str, checksum: int) -> dict:
    """What a manifest says of a copy of a block."""
    return {"path": path, "words": stored.run.words, "lanes": stored.run.lanes, "bounds": stored.bounds, "checksum": checksum}


def from_json(record: dict, path: str) -> StoredBlock:
    """The handle of a copy that is at a path now."""
    bounds = tuple((low, high) for low, high in record["bounds"])
    return StoredBlock(Run(path, record["words"], record["lanes"]), bounds)
