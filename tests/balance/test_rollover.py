"""Inner iterations stop where the threshold says, also in the middle of one hub, and make nothing twice."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semi_naive import Program
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.ir import Kind, Var
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.rollover import BatchIterator, restored
from semi_naive.ra.rules.steps import Join

CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z), x >= 0.
"""
SQUARED = CLOSURE.replace("edge(y, z), x >= 0", "path(y, z), x >= 0")
PAIRED = """
.decl edge(x: number, y: number)
.decl triple(x: number, y: number, z: number)
.decl path(x: number, y: number)
.output triple
path(x, y) :- edge(x, y).
triple(x, y, z) :- path(x, y), path(y, z).
path(x, z) :- triple(x, _, z), x > z.
"""
MOST = 50


def hub(spokes: int) -> np.ndarray:
    """One node in the middle: spokes² paths of length two, all of them through one key."""
    inwards = [(i, 0) for i in range(1, spokes + 1)]
    return np.array(inwards + [(0, spokes + i) for i in range(1, spokes + 1)])


def joins(result) -> list[tuple[int, dict]]:
    """The join phases, with the iteration of each."""
    (trace,) = [stratum["trace"] for stratum in result.trace["strata"] if "trace" in stratum]
    return [(i["iteration"], phase) for i in trace["iterations"] for phase in i["phases"] if phase["phase"] == "join"]


@pytest.mark.parametrize("text", [CLOSURE, SQUARED, PAIRED], ids=["linear", "squared", "three columns"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_hub_is_joined_in_inner_iterations_of_at_most_a_threshold_and_a_batch(here, text, partitions):
    found = {}
    for threshold in (MOST, 1_000_000):
        options = {"local_tuples": 0, "partitions": partitions, "rollover_threshold": threshold, "multiway": "never"} | {
            "plan": "balanced"
        }
        with Program(text).run({"edge": hub(40)}, here, **options) as result:
            name = "triple" if "triple" in text else "path"
            made = sum(sum(phase["sent"]) for _, phase in joins(result))
            found[threshold] = result[name].to_set(), made, sum(sum(phase["joined"]) for _, phase in joins(result))
            most = max(max(phase["sent"]) for _, phase in joins(result))
            inner = max(phase["inner"] for _, phase in joins(result))
        if threshold == MOST:
            assert most <= 2 * threshold
            assert inner >= 1600 // (2 * threshold * partitions)
    (few, made, joined), (whole, once, met) = found.values()
    assert few == whole
    assert joined == met, "no pair of tuples has met twice, and none is left out"
    assert made == once or "triple" in text, "a hub's heads are distinct, so nothing is deduplicated"


class Here:
    """A context of two relations, in blocks."""

    values, position, kept, exact, unions = None, (0, 1), {}, False, False

    def __init__(self, blocks: dict[str, list[Block]], most: int):
        self.found, self.most = blocks, most

    def blocks(self, relation, part, order):
        return self.found[relation]


columns = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(columns, min_size=1, max_size=3),
    st.lists(columns, min_size=1, max_size=3),
    st.integers(1, 5),
    st.booleans(),
    st.data(),
)
def test_work_that_is_stopped_anywhere_and_taken_up_makes_the_same_batches(tmp_path_factory, first, second, most, fused, data):
    blocks = {name: [_block(some) for some in found] for name, found in (("a", first), ("b", second))}
    steps = [
        Join("a", "delta", (0, 1), (), ((0, "x"), (1, "y")), frozenset("xy")),
        Join("b", "all", (0, 1), (_var("y"),), ((1, "z"),), frozenset("xz"), composed=("y", "x", "z") if fused else None),
        Join("b", "all", (0, 1), (_var("z"),), ((1, "w"),), frozenset("xzw")),
    ]
    expected = [_rows(batch) for batch in BatchIterator(steps, Here(blocks, most))]
    path, found, frames = tmp_path_factory.mktemp("left") / "left", [], None
    while True:
        work, stop = BatchIterator(steps, Here(blocks, most), frames), data.draw(st.integers(1, 4))
        for batch in work:
            found.append(_rows(batch))
            stop -= 1
            if not stop:
                break
        if not work.frames:
            break
        frames = restored(work.store(path))
    assert found == expected


def _block(pairs) -> Block:
    return Block.of([np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1)], len(pairs))


def _var(name: str) -> Var:
    return Var(name, Kind.NUMBER)


def _rows(batch: Batch) -> list:
    return list(zip(*(batch.columns[name].tolist() for name in sorted(batch.columns)), strict=True))
