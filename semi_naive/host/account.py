"""Measure where the seconds of a run go: at any moment exactly one part of an account is charged, so the parts add up to the
whole.

    with open_account() as account:
        with part("load"):
            ...
            with part("intern"):      # not charged to "load"
                ...
    account.parts()                   # {"load": 0.2, "intern": 0.1, "other": 0.001}

An account belongs to one thread. The time of other threads is charged to the part in which this thread waits for them. Changing
the part takes half a microsecond, too long for each iteration of a few tuples, so parts are coarser than that.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager

from semi_naive.host.numbers import summands

PARTS = {  # in the order of a run, with their meanings
    "start": "Python and modules are loaded",
    "compile": "the program's text becomes checked rules and strata",
    "load": "facts are read",
    "intern": "strings of the facts get numbers",
    "plan": "join orders and the place of each relation are chosen",
    "kernels": "machine code is loaded, or compiled where this machine has never run it",
    "spark": "Spark starts",
    "iterate": "rules are evaluated",
    "write": "results are written",
    "other": "time in none of these",
}

_here = threading.local()


class Account:
    """The seconds of one run, divided into `PARTS`. claimed: True once a run has adopted it."""

    def __init__(self) -> None:
        self.started = time.time()
        self.spent: dict[str, float] = {}
        self.claimed = False
        self.paying: tuple[str, float] | None = None  # the current part and its start; None: no part is charged
        self.thread: int | None = None  # the thread in which it is open

    def charge(self, name: str | None, since: float | None = None) -> str | None:
        """Charge the time from now on, or from `since` (a time of `perf_counter`), to the part `name`; None charges no part.
        Return the part that was charged before."""
        now = time.perf_counter()
        before, begun = self.paying or (None, now)
        if before is not None:
            self.spent[before] = self.spent.get(before, 0.0) + now - begun
        self.paying = None if name is None else (name, now if since is None else since)
        return before

    def parts(self) -> dict[str, float]:
        """Return the seconds of each part so far, in the order of `PARTS`. Any thread may call it."""
        now, (name, since), spent = time.perf_counter(), self.paying or (None, 0.0), dict(self.spent)
        if name is not None:
            spent[name] = spent.get(name, 0.0) + now - since
        return {part: spent[part] for part in PARTS if spent.get(part)}

    def paid(self) -> dict:
        """Return the seconds so far and those of each part, for the record of a run."""
        parts = self.parts()
        return {"seconds": sum(parts.values()), "account": parts}

    @contextmanager
    def open(self, name: str = "other", since: float | None = None) -> Iterator["Account"]:
        """Open the account in this thread while the block runs: each `part` of the thread is charged to it, and time outside of
        them to the part `name`. If another thread has the account open, only that thread is charged."""
        own, outer = threading.get_ident(), current()
        if self.thread not in (None, own):
            yield self
            return
        thread, before = self.thread, self.charge(name, since)
        self.thread, _here.account = own, self
        try:
            yield self
        finally:
            self.charge(before)
            self.thread, _here.account = thread, outer


class part(ContextDecorator):
    """Charge this thread's time to a part of the open account, if there is one, while the block or function runs. of: only if
    that part is being charged.
    """

    def __init__(self, name: str, of: str = ""):
        self.name, self.of = name, of

    def _recreate_cm(self):
        return part(self.name, self.of)  # a function may call itself

    def __enter__(self) -> None:
        account = current()
        if account is not None and self.of:
            charged, _ = account.paying or ("", 0.0)
            account = account if charged == self.of else None
        self.account = account
        if account is not None:
            self.before = account.charge(self.name)

    def __exit__(self, *error) -> None:
        if self.account is not None:
            self.account.charge(self.before)


def current() -> Account | None:
    """Return the account that is open in this thread, if any."""
    return getattr(_here, "account", None)


@contextmanager
def open_account(name: str = "other", since: float | None = None) -> Iterator[Account]:
    """Open an account while the block runs: the account that is open in this thread, such as a command's, if no run has claimed
    it; else a new one. name, since: see `Account.open`."""
    open_one = current()
    with (Account() if open_one is None or open_one.claimed else open_one).open(name, since) as account:
        yield account


def spent_between(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Return the seconds of each part between two results of `Account.parts`.

    >>> spent_between({"load": 1.0}, {"load": 1.0, "iterate": 0.5})
    {'iterate': 0.5}
    """
    return {name: seconds - before.get(name, 0.0) for name, seconds in after.items() if seconds > before.get(name, 0.0)}


def as_sum(record: dict) -> str:
    """Return the seconds of a run or a stratum in a record as text, as the sum of their parts.

    >>> as_sum({"seconds": 2.66, "account": {"load": 0.2504, "spark": 1.9, "iterate": 0.5096}})
    '2.660 s = 0.250 load + 1.900 spark + 0.510 iterate'
    """
    parts = " + ".join(f"{seconds:.3f} {name}" for name, seconds in summands(record.get("account", {})).items())
    return f"{record['seconds']:.3f} s" + f" = {parts}" * bool(parts)
