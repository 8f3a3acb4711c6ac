"""How much Python a piece of work runs, counted in calls: the same on every machine, however busy, which no time is."""

import sys


def python_calls(work) -> int:
    """How often a function written in Python is called while `work()` runs, in this thread."""
    calls = 0

    def count(_, event, __):
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls
