"""Parcels: the records that tasks exchange while rules run. A parcel carries a part of a block to one partition.

Blocks are sorted. So tuples of one word are encoded as differences (`ra.storage.codec`); wider tuples are sent uncompressed.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.hashing import bucket_of, subbucket_of
from semi_naive.ra.blocks.block import Block, merge_blocks, union_of_blocks
from semi_naive.ra.blocks.packings import has_half_words, snug
from semi_naive.ra.lanes import combined
from semi_naive.ra.packing import Bounds, Packing, widen
from semi_naive.ra.storage import codec

# The partition that sends bindings, and the buckets of which it has a complete copy: their bindings stay on it. (): none.
Here = tuple[()] | tuple[int, Sequence[int]]


class Parcel(NamedTuple):
    """A part of a block, encoded."""

    tag: str  # names the relation or the segment that gets the tuples
    bounds: Bounds  # of the packing
    tuples: int  # their number
    data: bytes


def slots_of_block(block: Block, keys: int, placement: BucketMap) -> np.ndarray:
    """Return the slot of each tuple (n,) in a bucket map: its first `keys` columns determine the bucket, the others the
    subbucket. The result depends only on the values, not on the packing."""
    first, _ = placement.tables()
    if has_half_words(block.packing) and keys == 1:
        return codec.slots_of_words(block.words[0], 32, first)
    bucket = bucket_of(combined_key(block, range(keys)), np.uint64(placement.buckets)).astype(np.int64)
    subs = placement.subbuckets
    if subs.max() == 1:
        return first[bucket]
    rest = combined_key(block, range(keys, block.arity))
    return first[bucket] + subbucket_of(rest, subs[bucket].astype(np.uint64)).astype(np.int64)


def combined_key(block: Block, places: Iterable[int]) -> np.ndarray:
    """Return a word for each tuple (n,), to be hashed, that combines its columns at some places."""
    columns = [block.column(place) for place in places]
    return combined(np.array(columns, np.int64).reshape(len(columns), block.size))


def parcels(block: Block, destination: np.ndarray, parts: int, tag: str):
    """Yield (partition, parcel) for each partition that receives tuples of the block. destination (n,): the partition of each
    tuple; parts: the number of partitions."""
    if not block.size:
        return
    if block.packing.lanes == 1:
        words = np.ascontiguousarray(block.words[0])
        for part, count, data in codec.encode_split(words, destination, parts):
            yield part, Parcel(tag, block.packing.bounds, count, data)
        return
    for part in np.unique(destination).tolist():
        words = np.ascontiguousarray(block.words[:, destination == part])
        yield part, Parcel(tag, block.packing.bounds, words.shape[1], words.tobytes())


def to_home(block: Block, keys: int, placement: BucketMap, tag: str):
    """Yield the parcels that send each tuple to the partition of its subbucket."""
    if block.size:
        _, homes = placement.tables()
        destination = homes[slots_of_block(block, keys, placement)]
        yield from parcels(block, destination, placement.partitions, tag)


def to_bucket(block: Block, key: Iterable[int], placement: BucketMap, tag: str, here: Here = ()):
    """Yield the parcels that send each binding to every partition with a subbucket of the bucket of its key: the intra-bucket
    shuffle (*Load-balancing Parallel Relational Algebra*, section 3).

    key: the places of the key's columns; here: the sender, and the buckets whose bindings it keeps.
    """
    if not block.size:
        return
    bucket = bucket_of(combined_key(block, key), np.uint64(placement.buckets)).astype(np.int64)
    for partition, wanted_buckets in enumerate(receiving_partitions(placement, here)):
        is_sent = wanted_buckets[bucket]
        if is_sent.any():
            selected = block.picked(is_sent)
            yield from parcels(selected, np.full(selected.size, partition), placement.partitions, tag)


def to_subbucket(block: Block, key: Iterable[int], rest: Iterable[int], placement: BucketMap, tag: str, here: Here = ()):
    """Yield the parcels that send each binding to the partition of one subbucket: the columns at the places `key` determine the
    bucket, those at `rest` the subbucket. here: the sender, and the buckets whose bindings it keeps."""
    if block.size:
        words, (_, homes) = combined_key(block, key), placement.tables()
        destination = homes[placement.slots_of(words, combined_key(block, rest))]
        if here:
            partition, copied_buckets = here
            stays = np.isin(bucket_of(words, np.uint64(placement.buckets)), copied_buckets)
            destination = np.where(stays, partition, destination)
        yield from parcels(block, destination, placement.partitions, tag)


def receiving_partitions(placement: BucketMap, here: Here = ()) -> np.ndarray:
    """Return a mask (partitions, buckets) of the partitions to which the bindings of each bucket are sent."""
    receives = np.zeros((placement.partitions, placement.buckets), np.bool_)
    _, homes = placement.tables()  # the partition of each slot
    receives[homes, np.repeat(np.arange(placement.buckets), placement.subbuckets)] = True
    if here:  # the sender alone gets the bindings of its copied buckets
        partition, copied_buckets = here
        receives[:, copied_buckets] = False
        receives[partition, copied_buckets] = True
    return receives


def to_each(block: Block, partitions: Iterable[int], tag: str):
    """Yield the parcels that send each binding to all given partitions."""
    for part in partitions:
        yield from parcels(block, np.full(block.size, part), part + 1, tag)  # no tuple goes to a partition after `part`


def received_block(records: Iterable, tag: str, tight: bool = False) -> Block | None:
    """Return all tuples that arrived under a tag as one block; None if there are none. records: the parcels, and others, that
    were sent to a task; tight: use the narrowest packing that holds the values."""
    blocks = [_opened(record) for record in records if isinstance(record, Parcel) and record.tag == tag]
    if not blocks:
        return None
    if not tight or len({block.packing for block in blocks}) == 1:
        return union_of_blocks(blocks, blocks[0].arity)
    return merge_blocks(blocks, snug(reduce(widen, [block.bounds for block in blocks])))


def arrived_count(records, tag: str) -> int:
    """Return the number of tuples that arrived under a tag, duplicates included."""
    return sum(record.tuples for record in records if isinstance(record, Parcel) and record.tag == tag)


def _opened(parcel: Parcel) -> Block:
    """Return the tuples of a parcel as a block."""
    packing = Packing(parcel.bounds)
    if packing.lanes == 1:
        return Block(packing, codec.decode(parcel.data, parcel.tuples)[None])
    words = np.frombuffer(parcel.data, np.uint64).copy()  # bytes are read-only, and kernels take writable arrays
    return Block(packing, words.reshape(packing.lanes, parcel.tuples))
