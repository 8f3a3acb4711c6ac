"""How many bytes tables take is the sum of all arrays that they hold: against whatever arrays can be reached from one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Kind
from semi_naive.ra.reduce.best import Best
from semi_naive.ra.reduce.classes import Classes
from semi_naive.ra.reduce.reduction import Reduction
from semi_naive.ra.reduce.union_find import UnionFind

MAKERS = {
    "plain": lambda: Table(2),
    "best": lambda: Table(2, reduction=Best("min", Kind.NUMBER)),
    "equivalence": lambda: Table(2, reduction=Classes()),
}
STEPS = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=20),
        st.sampled_from(["advance", "blocks", "directories", "delta"]),
    ),
    max_size=8,
)


def held(thing, seen: set) -> int:
    """Bytes of all arrays that can be reached, each once."""
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if isinstance(thing, dict):
        return sum(held(each, seen) for each in thing.values())
    if isinstance(thing, (list, tuple)):
        return sum(held(each, seen) for each in thing)
    return held(vars(thing), seen) if isinstance(thing, (Block, Table, Reduction, UnionFind)) else 0


def done(table, step) -> None:
    if isinstance(step, list):
        columns = np.array(step, np.int64).T
        table.insert([np.ascontiguousarray(column) for column in columns], len(step))
    elif step == "advance":
        table.advance()
    elif step == "directories":
        for block in table.blocks("all", (0, 1)):
            block.ranges([np.arange(5)], 5)
    else:
        table.blocks("all" if step == "blocks" else "delta", (1, 0))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_every_array_of_a_table_counts_once(make, steps):
    table = make()
    for step in steps:
        done(table, step)
    assert table.nbytes == held(table, set())


def test_an_index_and_a_directory_take_more():
    table = Table(2)
    table.insert([np.arange(1000), np.arange(1000) % 7], 1000)
    table.settle()
    assert table.nbytes == 8000
    (turned,) = table.blocks("all", (1, 0))
    assert table.nbytes == 16000
    turned.ranges([np.arange(20)], 20)
    assert turned.nbytes > 8000 and table.nbytes == 8000 + turned.nbytes
