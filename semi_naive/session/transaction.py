"""Transactions and their turns: one thread at a time changes a session, atomically even if it is interrupted.

A transaction collects its operations until it commits.

1. `Turns.begin` waits for the turn, and settles an interrupted one before.
2. Before the turn changes anything, it adds a step to `undo` that reverts the change.
3. `kept = True` is the commit point. Readers see nothing before.
4. The work after it, such as calls of subscribers, is in `owed`, as steps too.
5. `Turns.ending` settles the turn by its steps of one kind, and lets another turn begin.

Steps are idempotent. An interrupted step is done again: at once, by the next turn, or when the session is closed.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from semi_naive.host import limits
from semi_naive.host.interrupts import afterwards, deferred
from semi_naive.io import as_columns
from semi_naive.io.errors import BadInput
from semi_naive.ra.blocks.table import Table
from semi_naive.session.facts import PendingChange, agreeing, columns_of, last_of

Step = Callable[[], object]
MOST_TIME = (1 << 63) - 1  # the greatest time of a transaction, as a log stores it


@dataclass(eq=False)
class Turn:
    """One change of a session. undo, owed: steps to revert it and to finish it, done from the last to the first."""

    undo: list[Step] = field(default_factory=list)
    owed: list[Step] = field(default_factory=list)
    kept: bool = False
    saved: bool = False  # `undo` restores the registered rules
    token: list[bool] = field(default_factory=list)  # the session's only token, while the turn is open
    thread: int | None = None


class Turns:
    """The turns of one session. A token in a queue is taken for each turn."""

    def __init__(self) -> None:
        self._free: SimpleQueue[bool] = SimpleQueue()
        self._free.put(True)
        self.last: Turn | None = None  # the last turn, until it is settled

    @property
    def open(self) -> bool:
        """True if this thread has the turn."""
        last = self.last
        return last is not None and bool(last.token) and last.thread == get_ident()

    def begin(self, turn: Turn, wait: bool = True) -> None:
        """Wait for the turn. Raises queue.Empty if another one is open and `wait` is false, and LimitExceeded if the evaluation
        that waits must end."""
        while not turn.token:
            get = partial(self._free.get, wait, limits.WAITING_CHECK_SECONDS if limits.are_set() else None)
            try:
                turn.token.extend(islice(iter(get, None), 1))  # no interrupt comes between get and extend
            except Empty:
                if not wait:
                    raise
                limits.check_waiting("another transaction or query was being evaluated")
        self.settle()
        self.last, turn.thread = turn, get_ident()

    def settle(self) -> None:
        """Undo the last turn, or if it is committed, do the steps that it owes."""
        if self.last is None:
            return
        with deferred():
            steps = self.last.owed if self.last.kept else self.last.undo
            if self.last.kept:
                self.last.undo.clear()  # its steps hold the session's earlier state
            while steps:
                steps[-1]()
                steps.pop()
            self.last = None

    def give(self, turn: Turn) -> None:
        """Release the token: the next turn settles this one."""
        turn.token[:] = filter(None, map(self._free.put, turn.token))  # `put` returns None

    @contextlib.contextmanager
    def ending(self, turn: Turn) -> Iterator[None]:
        """Settle the turn when the block ends, and release its token."""
        with afterwards(partial(self.give, turn)), afterwards(partial(self._end, turn)):
            yield

    def _end(self, turn: Turn) -> None:
        if turn.token:
            self.settle()

    def clear(self) -> None:
        """Settle an interrupted turn, if none is open."""
        turn = Turn()
        with contextlib.suppress(Empty), self.ending(turn):
            self.begin(turn, wait=False)


if TYPE_CHECKING:
    from semi_naive.session.contents import Changes


Time = datetime | float


def checked_time(time: Time) -> float:
    """A time as a number; of a datetime, seconds since 1970. Raises ValueError for anything else."""
    found = time.timestamp() if isinstance(time, datetime) else time
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found) or abs(found) > MOST_TIME:
        raise ValueError(f"the time is {time!r}: expected a datetime or a number of up to 63 bits")
    return found


OVER = "this transaction is over: begin another one with session.transaction()"


class _Exit:
    """The descriptor of a transaction's `__exit__`. A `with` statement looks it up when it begins and releases it when it ends.
    If an interrupt arrives before the first line of `_exit`, releasing it rolls the transaction back.
    """

    def __get__(self, transaction: Transaction | None, owner=None):
        """Return `__exit__` of a transaction, whose release rolls it back if it is still open."""
        if transaction is None:
            return _exit
        leave, known = partial(_exit, transaction), weakref.proxy(transaction)
        if not transaction._open:
            transaction._with = weakref.ref(leave, lambda _: known._give_up())
        return leave


def _exit(transaction: Transaction, kind, error, trace) -> None:
    """End a transaction at the end of its `with` block: commit it, or roll it back after an exception."""
    if transaction._open and not (error is not None and transaction._session.is_foreign):
        transaction._session.end(transaction._turn, transaction, error is not None)
    transaction._with = None


class Transaction:
    """A transaction of a session, for a `with` block. It commits at the end of the block; readers see nothing of it before. An
    exception in the block, or in the evaluation of the rules, rolls it back.

    rows: facts of a relation in any form that `Program.run` accepts: tuples, arrays, data frames, Arrow tables, paths. They are
    read when the operation is called. Of several operations on one tuple the last one counts.

    These attributes are set by the commit. `epoch`: the number of the new epoch; `ignored`: the number of net operations that
    change nothing, inserts of present facts and deletes of absent ones; `changes`: the `Changes` of each changed relation that
    is an output or has subscribers.
    """

    def __init__(self, session: Any, time: float | None = None):
        """The transaction opens when the session's turn begins."""
        self._session, self._turn, self.time = session, Turn(), time
        self._with: weakref.ref | None = None
        self.asked: dict[str, PendingChange] = {}
        self.batch: tuple[str, int] | None = None  # (stream name, batch id) when a streaming sink commits
        self.epoch: int | None = None
        self.ignored = 0
        self.changes: MappingProxyType[str, Changes] = MappingProxyType({})

    def insert(self, relation: str, rows: Any) -> None:
        """Insert facts."""
        asked, columns = self._pending(relation), self._columns(relation, rows)
        asked.add(True, columns)

    def delete(self, relation: str, rows: Any) -> None:
        """Delete facts. A tuple that rules derive as well remains. Raises BadInput for facts in the program's text."""
        asked, columns = self._pending(relation), self._columns(relation, rows)
        self._check_deletable(relation, columns)
        asked.add(False, columns)

    def upsert(self, relation: str, rows: Any, key: Iterable[str]) -> None:
        """Insert facts, and delete the other facts with the same values in the attributes `key`. Of several rows with the same
        key, the last one is inserted."""
        asked, places = self._pending(relation), self._session.places(relation, key)
        columns = self._columns(relation, rows)
        columns = np.ascontiguousarray(columns[:, last_of(columns[list(places)])])
        replaced, written = asked.replaced(columns, places), self._session.upkeep.relations.facts.written.get(relation)
        if written is not None:
            self._check_deletable(relation, columns_of(agreeing(written, columns, places)))
        asked.add(False, columns_of(replaced))
        asked.add(True, columns)

    def clear(self, relation: str) -> None:
        """Delete all facts of the relation, except for those in the program's text."""
        self._pending(relation).clear()

    # -- without a with block

    def begin(self) -> Transaction:
        """Begin, as a `with` block does. Waits while another thread has a transaction open."""
        turn = Turn()
        try:
            self._session.begin(turn)
            self._session.time_of(self.time)
            self._turn = turn
            return self
        except BaseException:
            self._session.give_up(turn)
            raise

    def commit(self) -> None:
        """Commit, as a `with` block does at its end."""
        self._end(failed=False)

    def abort(self) -> None:
        """Roll back all changes of this transaction."""
        self._end(failed=True)

    @property
    def _open(self) -> bool:
        return bool(self._turn.token)

    def _give_up(self) -> None:
        self._session.give_up(self._turn)

    def _end(self, failed: bool) -> None:
        """End an open transaction. Raises ValueError if it has ended."""
        if not self._open:
            raise ValueError(OVER)
        self._session.end(self._turn, self, failed)

    __enter__, __exit__ = begin, _Exit()

    # -- for the session

    def _pending(self, relation: str) -> PendingChange:
        """The pending change of a relation. Raises ValueError if the transaction is not open or the facts cannot be changed."""
        self._session.check_process()
        if not self._open:
            raise ValueError(OVER if self.epoch is not None else "a transaction begins with a with statement")
        if relation not in self.asked:
            self.asked[relation] = PendingChange(self._session.explicit(relation))
        return self.asked[relation]

    def _columns(self, relation: str, rows: Any) -> np.ndarray:
        """Read rows as columns (arity, n) in 64 bits."""
        if isinstance(rows, Table):
            return columns_of(rows)
        upkeep = self._session.upkeep
        return as_columns(rows, upkeep.program.relations[relation], upkeep.program.types, upkeep.values)

    def _check_deletable(self, relation: str, columns: np.ndarray) -> None:
        """Raise BadInput if one of some tuples, columns (arity, n), is a fact in the program's text."""
        rule = self._session.upkeep.relations.facts.rule_of(relation, columns)
        if rule is not None:
            place = f"line {rule.span.line} of {rule.span.file}" if rule.span else "the program"
            message = f"{rule.head} is written in the program, so it cannot be deleted"
            raise BadInput(message, hint=f"take it out of {place}, or give it as a fact of the session instead")

    def __repr__(self) -> str:
        state = "open" if self._open else "over" if self.epoch is None else f"epoch {self.epoch}"
        return f"<transaction, {state}: {', '.join(self.asked) or 'nothing asked'}>"
