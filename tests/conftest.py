"""One Spark session for the whole suite: two cores, failed tasks are tried again."""

import os

import pytest
from hypothesis import settings

from ra import session


@pytest.fixture(scope="session")
def spark():
    return session.start(cores=2)


# The same cases every time, so that a change is judged by its own doing; HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
