"""Limits of an evaluation: a deadline, a budget of bytes, cancellation, and a budget of bindings.

    with within(seconds=10, nbytes=1 << 30) as limits:    # the thread that evaluates, and threads that it shares work with
        …
    limits.cancel("its client has left")                  # any thread

An evaluation calls `check_limits` between bounded pieces of work: batches of bindings, slices of the compiled machine,
iterations, Spark jobs. There it raises LimitExceeded, and its caller rolls back.

    with budget(1_000_000) as work:    # OverBudget as soon as more bindings have been visited
        …
    work.bindings

The engine counts each binding that comes out of a step of a rule's body, each batch (`CALL`), each instruction of the machine
that runs a tuple at a time, and each head and new tuple on the partitions. All of these take some 75 ns a unit. The count
depends on the data and on the plans, never on a clock: so a decision that is made by it is the same on every machine.
"""

import contextlib
import math
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from threading import Lock
from typing import Any, Generic, TypeVar

from semi_naive.host.numbers import quantity

MEASURE_SECONDS = 0.2  # seconds between two measurements of bytes: one takes 1 to 3 µs for each relation
T = TypeVar("T")
WAITING_CHECK_SECONDS = 0.1  # seconds between two checks of an evaluation that waits for a lock
CALL = 500  # bindings that are counted for a call of a step with an empty batch, by its time (bench.sessions, 2026-11)
HELPS = "a larger {} lets it go on; a recursion that makes new values needs a bound, as in n < 1000"


class LimitExceeded(RuntimeError):
    """An evaluation exceeded one of its limits, or was cancelled.

    said: the limit, or the reason of the cancellation.
    place: the iteration and rule that was running.
    made: the tuples made so far, as text.
    helps: advice.
    """

    def __init__(self, said: str, place: str = "", made: str = "", helps: str = ""):
        super().__init__(said, place, made, helps)
        self.said, self.place, self.made, self.helps = said, place, made, helps

    def locate(self, place: str, made: str) -> None:
        """Add the place and the tuples made, unless a caller closer to the rule has done so."""
        self.place, self.made = self.place or place, self.made or made

    def __str__(self) -> str:
        place, made = f" in {self.place}" if self.place else "", f"; {self.made}" if self.made else ""
        return f"evaluation stopped{place}: {self.said}{made}" + (f"\n  {self.helps}" if self.helps else "")


class Limits:
    """The limits of an evaluation from now on. around: those of the caller, which also apply."""

    def __init__(self, seconds: float | None = None, nbytes: int | None = None, around: "Limits | None" = None):
        self.seconds, self.nbytes, self.around = seconds, nbytes, around
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        self.cancelled = ""  # the reason of a cancellation
        self.count_bytes: Callable[[], int] | None = None  # see `measure`
        self.bytes_at_start, self.next_measurement = 0, 0.0  # the latter a time of `time.monotonic`

    def cancel(self, why: str) -> None:
        """End the evaluation at its next check."""
        self.cancelled = why

    def check(self) -> None:
        """Raise LimitExceeded after a cancellation or the deadline."""
        if self.cancelled:
            raise LimitExceeded(self.cancelled)
        if time.monotonic() > self.deadline:
            taken = quantity(self.seconds or 0, "second", show="{:g}".format)
            limit = f"it has taken {taken}, which is the limit (query_seconds)"
            raise LimitExceeded(limit, helps=HELPS.format("query_seconds"))

    def measure(self, count_bytes: Callable[[], int]) -> None:
        """Limit the bytes added from now on. count_bytes: returns the bytes of all relations, symbols and records. A later call
        has no effect."""
        if self.nbytes is not None and self.count_bytes is None:
            self.count_bytes, self.bytes_at_start = count_bytes, count_bytes()

    def check_bytes(self, beside: Callable[[], int], now: bool) -> None:
        """Raise LimitExceeded if more bytes have been added than allowed. beside: returns the bytes that belong to no relation
        yet; now: measure even if the last measurement was recent."""
        if self.nbytes is None or self.count_bytes is None or not now and time.monotonic() < self.next_measurement:
            return
        self.next_measurement = time.monotonic() + MEASURE_SECONDS
        added = self.count_bytes() + beside() - self.bytes_at_start
        if added > self.nbytes:
            limit = f"it has made {quantity(added, 'byte')}, and the limit is {self.nbytes:,} (query_bytes)"
            raise LimitExceeded(limit, helps=HELPS.format("query_bytes"))


class Block:
    """A sign that a block runs: an object that exists as long as the block's frame."""


class BlockVariable(Generic[T]):
    """A variable of this context that has a value while a block runs, also in threads that share its work. An interrupt may end
    a block before it can reset the variable; its value is ignored from then on, as its `Block` no longer exists."""

    def __init__(self, name: str):
        # (value, weak reference to the `Block`, the entry around it)
        self._variable: ContextVar[tuple[T | None, Callable[[], object | None], Any] | None] = ContextVar(name, default=None)

    def get(self) -> T | None:
        """Return the value of the innermost block that runs; None if there is none."""
        entry = self._variable.get()
        while entry is not None:
            value, block, around = entry
            if block() is not None:
                return value
            entry = around
        return None

    @contextlib.contextmanager
    def set(self, value: T | None) -> Iterator[None]:
        """Give the variable a value while the block runs."""
        block = Block()
        token = self._variable.set((value, weakref.ref(block), self._variable.get()))
        try:
            yield
        finally:
            self._variable.reset(token)


_limits: BlockVariable[Limits] = BlockVariable("limits")


@contextlib.contextmanager
def within(seconds: float | None = None, nbytes: int | None = None) -> Iterator[Limits]:
    """Evaluate the block within limits, in addition to those already in force."""
    limits = Limits(seconds, nbytes, _limits.get())
    with _limits.set(limits):
        yield limits


@contextlib.contextmanager
def lifted() -> Iterator[None]:
    """Run the block without limits, for clean-up and rollback that must complete."""
    with _limits.set(None):
        yield


def in_force() -> Iterator[Limits]:
    """Yield the limits of this context, innermost first."""
    limits = _limits.get()
    while limits is not None:
        yield limits
        limits = limits.around


def are_set() -> bool:
    """True if work must be cut into pieces, as limits may end it."""
    return _limits.get() is not None


def check_limits() -> None:
    """Raise LimitExceeded if a deadline has passed, or the evaluation was cancelled. 0.1 µs without limits."""
    limits = _limits.get()
    while limits is not None:
        limits.check()
        limits = limits.around


def measure(count_bytes: Callable[[], int]) -> None:
    """Limit the bytes added from now on, if there is such a limit: see `Limits.measure`."""
    if _limits.get() is not None:
        for limits in in_force():
            limits.measure(count_bytes)


def check_bytes(beside: Callable[[], int] = int, now: bool = False) -> None:
    """Raise LimitExceeded if too many bytes have been added: see `Limits.check_bytes`. beside: by default none (int() is 0)."""
    if _limits.get() is not None:
        for limits in in_force():
            limits.check_bytes(beside, now)


def check_waiting(why: str) -> None:
    """Run `check_limits` for an evaluation that has not begun. why: the reason for the wait."""
    try:
        check_limits()
    except LimitExceeded as error:
        error.locate("", why)
        raise


# -- a budget of bindings


class OverBudget(Exception):
    """An evaluation has visited more bindings than its budget."""


class Work:
    """The bindings that an evaluation has visited. most: its budget."""

    def __init__(self, most: float):
        self.most, self.bindings, self.lock = most, 0, Lock()

    def visit(self, bindings: int) -> None:
        """Count bindings. Raises OverBudget above the budget."""
        with self.lock:  # threads of one evaluation share it
            self.bindings += bindings
        if self.bindings > self.most:
            raise OverBudget


_work: BlockVariable[Work] = BlockVariable("work")


@contextlib.contextmanager
def budget(most: float = math.inf) -> Iterator[Work]:
    """Count the work of the block, and of threads that it shares work with. Raise OverBudget beyond `most` bindings.

    >>> with budget() as work:
    ...     visit(3)
    >>> work.bindings
    3
    """
    work = Work(most)
    with _work.set(work):
        yield work


def visit(bindings: int) -> None:
    """Count bindings, if the evaluation has a budget. 0.1 µs if not."""
    if (work := _work.get()) is not None:
        work.visit(bindings)


@contextlib.contextmanager
def sampled(fraction: float) -> Iterator[None]:
    """Run the block, which does a fraction of some work, with this fraction of the bindings that are left. So OverBudget is
    raised as soon as the whole work is expected to exceed the budget.

    >>> with budget(100), sampled(1 / 4):
    ...     visit(26)
    Traceback (most recent call last):
    semi_naive.host.limits.OverBudget
    """
    with budget(fraction * bindings_left()) as work:
        yield
    visit(work.bindings)


def bindings_left() -> float:
    """Return the bindings that may still be visited, infinity without a budget."""
    work = _work.get()
    return math.inf if work is None else max(0, work.most - work.bindings)
