"""What travels between the tasks of a job (a `Piece`), and what the driver hears of them (a `Report`).

Reports are handed along with the pieces to the last task of the job, which returns them: so a task that had to be run
twice is not counted twice. Shuffled records come in any order, and are sorted by whoever reads them.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from semi_naive.balance.bucket_map import BucketMap
from semi_naive.ra import codec


class Piece(NamedTuple):
    """Sorted words on their way to an index. Pieces of one stream are, in their order, one sorted sequence."""

    index: str
    stream: tuple[int, int]
    order: int
    count: int
    data: bytes
    steps: bytes = b""  # of a run-ahead: the step that made each word, 16 bits each


@dataclass
class Report:
    """What a task did: tuples in and out, bytes shipped, seconds."""

    phase: str
    partition: int
    received: int = 0
    sent: int = 0
    bytes: int = 0
    seconds: float = 0.0
    clock: float = 0.0  # the host's, when tuples had been sent (or, of an insert, had arrived)
    facts: dict = field(default_factory=dict)


def streams(records, index: str) -> list[np.ndarray]:
    """The sorted sequences among what was received for an index, decoded."""
    sequences: dict = {}
    for piece in sorted(r for r in records if isinstance(r, Piece) and r.index == index):
        sequences.setdefault(piece.stream, []).append((piece.data, piece.count))
    return [codec.decode_all(parts) for parts in sequences.values()]


def reports(records, partition: int) -> list[Report]:
    """The reports that earlier tasks of this partition handed along."""
    mine = [r for r in records if isinstance(r, Report) and r.partition == partition]
    return sorted(mine, key=lambda report: report.phase)


def ship(words, shift: int, placement: BucketMap, index: str, stream, order: int):
    """Sorted words as pieces, each with the partition its subbucket lives on."""
    first, home = placement.tables()
    for destination, count, data in codec.encode_split(words, codec.slots(words, shift, first), home, placement.partitions):
        yield destination, Piece(index, stream, order, count, data)
