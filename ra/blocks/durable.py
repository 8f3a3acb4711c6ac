"""Copy blocks to a durable directory that all hosts can read, verify the copies by checksum, and read them again.

A run never changes, so an existing copy is kept. Blocks that are read again are dealt to their home partitions
(`ra.partitions.loading`), so the number of partitions and the buckets may differ from those of the writer.
"""

import socket
from dataclasses import dataclass

from semi_naive.ra.blocks.stored import StoredBlock
from semi_naive.ra.storage.checksum import checksum_of_file
from semi_naive.ra.storage.runs import Run, write_run


def fault(path: str, checksum: int) -> str:
    """Return a description of what is wrong with a file, or "" if its checksum matches. Reads the whole file."""
    try:
        return "" if checksum_of_file(path) == checksum else f"{path} is damaged or cut short"
    except OSError as error:
        return f"{path} cannot be read on {socket.gethostname()}: {error.strerror}"


@dataclass
class CopyRuns:
    """A task that copies runs of its partition, given as (run, target path) for each partition. Each file is written completely
    or not at all. Raises RunMissing if a run is missing or damaged.
    """

    runs: list[list[tuple[Run, str]]]

    def __call__(self, partition, records):
        for run, target in self.runs[partition]:
            write_run(target, run.open(), run.lanes)
        return []


@dataclass
class Verify:
    """A task that verifies a partition's share of files, given as (path, checksum), and yields a description of each fault."""

    files: list[tuple[str, int]]
    partitions: int

    def __call__(self, partition, records):
        yield from filter(None, (fault(*file) for file in self.files[partition :: self.partitions]))


@dataclass
class FindLostRuns:
    """A task that yields the names of the relations of which a run of this partition is missing or damaged. stored: for each
    relation, its blocks by partition.
    """

    stored: dict[str, list[list[StoredBlock]]]

    def __call__(self, partition, records):
        for name, parts in self.stored.items():
            if any(stored.run.lost() for stored in parts[partition]):
                yield name


def to_json(stored: StoredBlock, path: str) -> dict:
    """Return the entry in a checkpoint's manifest for the copy of a block at `path`."""
    run = stored.run
    return {"path": path, "words": run.words, "lanes": run.lanes, "bounds": stored.bounds, "checksum": run.checksum}


def from_json(record: dict, path: str) -> StoredBlock:
    """Return the handle of a block from its entry in a manifest. path: the present path of the copy."""
    bounds = tuple((low, high) for low, high in record["bounds"])
    return StoredBlock(Run(path, record["words"], record["lanes"], record["checksum"]), bounds)
