"""The work of an evaluation, counted in bindings, and a budget for it.

    with budget.of(1_000_000) as work:    # OverBudget as soon as more bindings have been visited
        …
    work.bindings

The engine counts each binding that comes out of a step of a rule's body, each batch (`CALL`), each instruction of the machine
that runs a tuple at a time, and each head and new tuple on the partitions. All of these take some 75 ns a unit. The count
depends on the data and on the plans, never on a clock: so a decision that is made by it is the same on every machine.
"""

import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar
from threading import Lock

CALL = 500  # bindings: the time that a step takes for a batch of nothing, measured in bench.sessions (2026-11)


class OverBudget(Exception):
    """An evaluation has visited more bindings than its budget."""


class Work:
    """The bindings that an evaluation has visited, and may visit at `most`."""

    def __init__(self, most: float):
        self.most, self.bindings, self.alone = most, 0, Lock()

    def visit(self, bindings: int) -> None:
        with self.alone:  # threads of one evaluation share it
            self.bindings += bindings
        if self.bindings > self.most:
            raise OverBudget


_here: ContextVar[Work | None] = ContextVar("work", default=None)


@contextlib.contextmanager
def of(most: float = math.inf) -> Iterator[Work]:
    """Count the work of the block, and of threads that it shares work with. Raise OverBudget beyond `most` bindings.

    >>> with of() as work:
    ...     visit(3)
    >>> work.bindings
    3
    """
    token = _here.set(Work(most))
    try:
        yield _here.get()  # type: ignore[misc]
    finally:
        _here.reset(token)


def visit(bindings: int) -> None:
    """Count bindings, if there is a budget. 0.1 µs without one."""
    if (work := _here.get()) is not None:
        work.visit(bindings)


def left() -> float:
    """The bindings that may still be visited."""
    work = _here.get()
    return math.inf if work is None else max(0, work.most - work.bindings)
