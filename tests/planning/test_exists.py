"""Whether steps make anything of a binding: the same as when all that they make of it is looked at."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.ir import Compare, Const, Kind, Var
from semi_naive.ra.rules import exists as module
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.exists import mark_satisfied
from semi_naive.ra.rules.steps import GROUP, Filter, Join, run_steps

PAIRS = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=25)
X, Y, Z = (Var(name, Kind.NUMBER) for name in "xyz")
KEPT = frozenset([GROUP, "x"])
STEPS = {
    "one join": [Join("e", "all", (0, 1), (X,), ((1, "y"),), KEPT)],
    "a join that looks": [Join("e", "all", (0, 1), (X, Const(3, Kind.NUMBER)), (), KEPT)],
    "two joins": [
        Join("e", "all", (0, 1), (X,), ((1, "y"),), KEPT),
        Filter(Compare("!=", X, Y, Kind.NUMBER)),
        Join("e", "all", (1, 0), (Y,), ((1, "z"),), KEPT | {"z"}),
        Filter(Compare("<", Z, X, Kind.NUMBER)),
    ],
}


class Here:
    """A relation in two blocks."""

    values, cache, position, exact, unions, batch_size = None, {}, (0, 1), False, False, 3
    memory = local_dir = None

    def __init__(self, parts):
        self.parts = parts

    def blocks(self, relation, part, order):
        columns = [np.array(sorted(some), np.int64).reshape(-1, 2).T for some in self.parts]
        return [Block.of(list(each[list(order)]), each.shape[1]) for each in columns]

    def host_cache_dir(self, read):
        return None


@pytest.mark.parametrize("name", STEPS)
@settings(max_examples=60)
@given(PAIRS, PAIRS, st.lists(st.integers(0, 6), max_size=12))
def test_it_is_what_all_bindings_tell(name, first, second, asked):
    batch, context, steps = Batch(len(asked), {"x": np.array(asked, np.int64)}), Here([first, second]), STEPS[name]
    numbered = batch.with_columns({GROUP: np.arange(batch.size)})
    expected = {int(group) for made in run_steps(steps, numbered, context) for group in made.columns[GROUP]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FIRST_PARTNERS", 2)
        patch.setattr(module, "MIN_TRIED_PAIRS", 1)
        assert set(np.flatnonzero(mark_satisfied(steps, batch, context)).tolist()) == expected


def test_few_partners_are_looked_at_where_the_first_are_enough():
    looked, size = [], 10_000
    context = Here([{(0, y) for y in range(size)}])
    context.batch_size = size
    step = STEPS["one join"][0]

    def look(batch, context):
        looked.append(batch.size)
        yield batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MIN_TRIED_PAIRS", 1)
        assert mark_satisfied([step, look], Batch(1, {"x": np.zeros(1, np.int64)}), context).all()
    assert sum(looked) == module.FIRST_PARTNERS
