"""Send runs to a partition that Spark computes on a host without them.

Spark's locality is only a preference: after `spark.locality.wait` an idle host takes over the tasks of a busy one, and it takes
over those of a lost executor immediately (`ra.spark.executors`). The task then finds a run missing, and the job is repeated
with a *shipment*: an RDD whose tasks read the partition's folder on the hosts that have it, and whose records reach the
partition with those of its shuffle. Runs are immutable, so any copy will do.
"""

import contextlib
import os
import socket
import time
import uuid
from dataclasses import dataclass

from semi_naive.host import private

PIECE_BYTES = 1 << 18  # bytes of a file in one record: Spark's `partitionBy` keeps up to a thousand records in memory
TASK_SECONDS = (0.0, 0.3, 1.0, 2.0)  # that the tasks of each search last, so that busy executors get a task, too

Place = tuple[str, int, int]  # a folder's host, device and inode: they differ for folders of equal path on different hosts


@dataclass(frozen=True)
class Piece:
    """A part of a file of `size` bytes, from `offset` on. The file is written only when all of its pieces have arrived."""

    path: str
    size: int
    offset: int
    data: bytes


@dataclass
class ListFolder:
    """A task that returns [(place of a folder of its host, {file name: bytes})], after some seconds."""

    folder: str
    seconds: float

    def __call__(self, partition, records):
        time.sleep(self.seconds)
        files = files_in(self.folder)
        return [(place_of(self.folder), files)] if files else []


@dataclass
class SendFiles:
    """A task that sends files of its host to a partition: the first task of each host sends them all. wanted: the names of the
    files that each place sends; token: the name of a file, by which the tasks of this shipment agree on the first task.
    """

    folder: str
    partition: int
    wanted: dict[Place, list[str]]
    token: str

    def __call__(self, partition, records):
        """Yield (destination, `Piece`) for each piece of the files that this host sends."""
        names = self.wanted.get(place_of(self.folder)) if os.path.isdir(self.folder) else None
        if not names or not self._is_first():
            return
        for path in (os.path.join(self.folder, name) for name in names):
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                for offset in range(0, size, PIECE_BYTES):
                    yield self.partition, Piece(path, size, offset, file.read(PIECE_BYTES))

    def _is_first(self) -> bool:
        """True for the first task of the shipment on this host that calls it."""
        with contextlib.suppress(FileExistsError):
            os.close(os.open(os.path.join(self.folder, f".{self.token}"), os.O_CREAT | os.O_EXCL, 0o600))
            return True
        return False


def receive_files(records: list) -> list:
    """Write the files that arrived among the records, unless this host has them, and return the other records."""
    rest: list = []
    arrived: dict[str, list[Piece]] = {}
    for record in records:
        if isinstance(record, Piece):
            arrived.setdefault(record.path, []).append(record)
        else:
            rest.append(record)
    for path, pieces in arrived.items():
        # an incomplete file stays missing, so the job is repeated; an existing one has the same content
        if sum(len(piece.data) for piece in pieces) == pieces[0].size and not os.path.exists(path):
            with private.open_replacing(path) as file:
                for piece in pieces:
                    file.seek(piece.offset)
                    file.write(piece.data)
    return rest


def files_in(folder: str) -> dict[str, int]:
    """Return the sizes of the complete files in a folder of this host, by name."""
    with contextlib.suppress(FileNotFoundError):
        files = [entry for entry in os.scandir(folder) if entry.is_file()]
        # no tokens of shipments, and no files that are being written
        complete = [file for file in files if not file.name.startswith(".") and ".partial" not in file.name]
        return {file.name: file.stat().st_size for file in complete}
    return {}


def place_of(folder: str) -> Place:
    """Return the host, device and inode of a folder."""
    status = os.stat(folder)
    return socket.gethostname(), status.st_dev, status.st_ino


def shipment(jobs, partition: int, path: str, lacking: str | None):
    """Return an RDD of (partition, Piece) with all hosts' files in the folder of a missing run; None if no host has the run.

    jobs: the PartitionedJobs, which reach every host that has a free core. lacking: the host that will read the files, or None
    if it is not known; files that it has already are not sent.
    """
    folder, name = os.path.split(path)
    for seconds in TASK_SECONDS:
        files_by_place = dict(jobs.collect(jobs.everywhere(ListFolder(folder, seconds))))
        if any(name in files for files in files_by_place.values()):
            # `not_sent` grows, so that of several places with a file only the first sends it
            present = (files for (host, *_), files in files_by_place.items() if host == lacking)
            wanted, not_sent = {}, set().union(*present)
            for place, files in files_by_place.items():
                wanted[place] = sorted(set(files) - not_sent)
                not_sent |= set(files)
            return jobs.everywhere(SendFiles(folder, partition, wanted, uuid.uuid4().hex))
    return None
