"""Fixtures that tests of sessions share."""

import pytest
from session_cases import PATHS

from semi_naive import Program


@pytest.fixture
def session():
    """Paths of one edge, with the epochs of three transactions kept."""
    with Program(PATHS).session({"edge": [(1, 2)]}, retain=3) as session:
        yield session
