"""Slots are weighed by the pairs that their new tuples will make, not by the tuples alone."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from semi_naive import Program
from semi_naive.balance.bucket_map import BucketMap
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.stored import store
from semi_naive.ra.partitions import weighing
from semi_naive.ra.partitions.partitioned import PartitionedIndex

WALK = """
.decl start(x: number, y: number)
.decl edge(x: number, y: number)
.decl walk(x: number, y: number)
.output walk
walk(x, y) :- start(x, y).
walk(x, z) :- walk(x, y), edge(y, z), x >= 0.
"""
pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=20)


def block_of(rows) -> Block:
    return Block.of([np.array(column, np.int64) for column in zip(*rows, strict=True)], len(rows))


@given(pairs, pairs, pairs)
def test_pairs_are_counted_by_slot(tmp_path_factory, born, static, own):
    folder = tmp_path_factory.mktemp("weighed")
    index = PartitionedIndex((1, 0), 1, BucketMap.deal(3, 2))
    index.full[1], index.delta[1] = store(folder / "full", block_of(own[:5])), store(folder / "delta", block_of(own[5:] or own))
    meetings = [weighing.FirstJoin((1,), store(folder / "static", block_of(static))), weighing.FirstJoin((0,), index)]
    block = block_of(born)
    slots = np.arange(block.size) % 3
    found = weighing.expected_pairs(block, slots, 3, meetings, 1)
    degree = Counter(a for a, _ in set(static))
    mine = Counter(a for part in (own[:5], own[5:] or own) for a, _ in set(part))
    expected = np.zeros(3)
    for slot, (a, b) in zip(slots.tolist(), sorted(set(born)), strict=True):
        expected[slot] += degree[b] + mine[a]
    assert found.tolist() == expected.tolist()


def test_a_delta_that_is_even_but_meets_more_on_one_partition_is_moved(here):
    """Of as many tuples on both partitions those on the first have 40 partners each, those on the other one."""
    nodes = np.arange(64, dtype=np.uint64)
    placement = BucketMap.deal(8, 2)
    home = placement.tables()[1][placement.slots_of(nodes, nodes)]
    few = min((home == 0).sum(), (home == 1).sum())
    starts = np.concatenate([np.flatnonzero(home == p)[:few] for p in (0, 1)])
    start = np.column_stack([starts, np.where(home[starts] == 0, 1000, 1001)])
    edge = [(1000, 2000 + i) for i in range(40)] + [(1001, 3000)]
    options = {
        "local_tuples": 0,
        "plan": "balanced",
        "partitions": 2,
        "buckets": 8,
        "refinement_minimum": 1,
        "check_interval": 1,
        "run_ahead": 0,
    }
    with Program(WALK).run({"start": start, "edge": np.array(edge)}, here, **options) as result:
        assert result["walk"].count() == len(start) + few * 41
        (trace,) = [stratum["trace"] for stratum in result.trace["strata"] if "trace" in stratum]
    first = trace["iterations"][0]
    assert first["loads"] == [few, few]
    moved = [event for event in trace["events"] if event["event"] in ("move", "refine") and event["iteration"] == 1]
    assert moved
    joined = [phase["joined"] for phase in trace["iterations"][1]["phases"] if phase["phase"] == "join"]
    assert max(joined[0]) < 0.75 * sum(joined[0])
