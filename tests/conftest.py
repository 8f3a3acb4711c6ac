"""One Spark session for the whole suite: two cores, failed tasks are tried again."""

import pytest

from ra import session


@pytest.fixture(scope="session")
def spark():
    return session.start(cores=2)
