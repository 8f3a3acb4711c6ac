"""The order of written rows: what it is made of."""

import numpy as np
import pytest

from semi_naive.io.results.order import distinct_in_column, values_in_column


@pytest.mark.parametrize(
    "least, greatest", [(0, 900), (-(10**9), -(10**9) + 40_000), (-5, 10**12), (-(2**63), 2**63 - 1), (7, 7)]
)
def test_the_distinct_values_of_a_column(least, greatest):
    column = np.random.default_rng(4).integers(least, greatest, 6000, endpoint=True)
    found, at = distinct_in_column(column)
    assert (found[at] == column).all() and sorted(found.tolist()) == np.unique(column).tolist()
    assert sorted(values_in_column(column).tolist()) == np.unique(column).tolist()
