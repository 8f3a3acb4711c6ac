"""Outboxes: buffers of the tuples that the last step of a segment makes, which are sent many at once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from semi_naive.ra.blocks.block import Block, union_of_blocks
from semi_naive.ra.blocks.packings import bounds_of, roomy
from semi_naive.ra.by_variable import listed
from semi_naive.ra.by_variable.listed import Listed
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.packing import Bounds, Packing
from semi_naive.ra.partitions import parcels
from semi_naive.ra.rules.batch import Batch, concatenate_batches
from semi_naive.ra.rules.context import TaskContext
from semi_naive.ra.rules.derive import MAX_BUFFERED_TUPLES, Derivation
from semi_naive.ra.storage import codec


@dataclass
class Outbox:
    """A buffer of outgoing tuples, so that many are deduplicated and sent at once, also those made of many small runs.

    tuples_of: function of a batch → lists, which are sent immediately, or a block or (columns, size), which are buffered, in
    the order of the destination's index.
    ship: function of a block or lists → iterator of (destination, parcel) pairs.
    batch_size: the tuples of blocks that are buffered at most, before one more block.
    packing: chooses the packing of a block from its bounds.
    thinned: drops tuples of a buffer, columns and size, that need not be sent (see `Reduction`).
    rows: the number of buffered tuples, in `blocks` or in `waiting`.
    takes_memory: True if the tuples sent take memory until the stage ends, and so count towards the threshold.
    """

    tuples_of: Callable[[Batch], Block | Listed | tuple[list[np.ndarray], int]]
    ship: Callable[[Block | Listed], Iterator[tuple[int, parcels.Parcel | listed.ListParcel]]]
    batch_size: int
    packing: Callable[[Bounds], Packing] = roomy
    thinned: Callable | None = None
    blocks: list[Block] = field(default_factory=list)
    waiting: list[Batch] = field(default_factory=list)
    rows: int = 0
    takes_memory = True

    def take(self, batch: Batch):
        """Yield the batch's tuples if they are lists; else buffer them, and yield the buffer once it is full."""
        tuples = self.tuples_of(batch)
        if isinstance(tuples, Listed):
            yield tuples
            return
        if isinstance(tuples, Block):
            self.blocks.append(tuples)
        else:
            columns, size = tuples
            self.waiting.append(Batch(size, {str(place): column for place, column in enumerate(columns)}))
        self.rows += batch.size
        if self.rows >= (self.batch_size if self.blocks else MAX_BUFFERED_TUPLES):
            yield from self.flush()

    def flush(self):
        """Yield the buffered tuples as blocks: one, unless a rule's batches are partly blocks."""
        if self.blocks:
            yield self.blocks[0] if len(self.blocks) == 1 else union_of_blocks(self.blocks, self.blocks[0].arity)
        if self.waiting:
            whole = concatenate_batches(self.waiting)
            columns, size = list(whole.columns.values()), whole.size
            if self.thinned:
                columns, size = self.thinned(columns, size)
            yield Block.of(columns, size, self.packing(bounds_of(columns)))
        self.blocks, self.waiting, self.rows = [], [], 0


class HeadColumns(NamedTuple):
    """Head tuples sent to the driver. tuples: their number; data: the columns, encoded one after the other, or empty if only
    the number is asked for."""

    tuples: int
    data: bytes

    def columns(self, arity: int) -> np.ndarray:
        """Return the columns, int64 (arity, count)."""
        return codec.decode_any(self.data, arity * self.tuples).reshape(arity, self.tuples)


@dataclass
class Answers:
    """An outbox that sends head tuples to the driver. They need no deduplication, as the head has all variables of the body."""

    derivation: Derivation
    with_rows: bool  # False if only the number of heads is asked for
    context: TaskContext
    rows = 0  # nothing is buffered

    @property
    def takes_memory(self) -> bool:
        return self.with_rows

    def take(self, batch: Batch):
        """Yield the batch immediately."""
        yield batch

    def flush(self):
        """Return the buffered batches: none."""
        return ()

    def ship(self, batch: Batch):
        """Yield (partition, HeadColumns) of a batch."""
        data = b""
        if self.with_rows:
            terms = self.derivation.head
            columns = [evaluate(term, batch.columns, batch.size, self.context.values) for term in terms]
            data = codec.encode_any(np.concatenate(columns))
        yield self.context.partition, HeadColumns(batch.size, data)
