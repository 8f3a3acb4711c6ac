"""Leapfrog triejoin: random queries over random relations equal the oracle's answer, listed, counted and grouped."""

import pytest
from hypothesis import given, settings

from ra.multiway import leapfrog
from tests import multiway_oracle as oracle


@pytest.fixture(scope="module")
def uncompiled():
    """The generated source is interpreted: an example costs milliseconds whatever its shape."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leapfrog, "compiled", oracle.interpreted)
        yield


def agree(query, relations):
    expected = sorted(oracle.answer(query, relations))
    arrays = oracle.arrays(relations)
    assert oracle.rows_of(leapfrog.run(query, arrays)) == expected
    assert leapfrog.run(query, arrays, count=True) == len(expected)


@given(query=oracle.queries(), relations=oracle.relations, factor=oracle.spread)
@settings(max_examples=400, deadline=None)
def test_any_query_equals_the_oracle(uncompiled, query, relations, factor):
    agree(*oracle.scaled(query, relations, factor))
