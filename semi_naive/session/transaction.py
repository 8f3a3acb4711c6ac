"""Transactions and their turns: one thread at a time changes a session, atomically even if it is interrupted.

A transaction collects its operations until it commits.

1. `Turns.take` waits until no turn is open, and settles an interrupted one.
2. Before the turn changes anything, it adds a step to `undo` that reverts the change.
3. `committed = True` is the commit point. Readers see nothing before.
4. The work after it, such as calls of subscribers, is in `after_commit`, as steps too.
5. `Turns.settling` takes the steps of `after_commit` if the turn is committed, else those of `undo`. Then the turn is over.

Steps are idempotent. An interrupted step is taken again: at once, by the next turn, or when the session is closed.
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
from semi_naive.session.facts import PendingChange, columns_of, last_occurrences, same_key

Step = Callable[[], object]
MAX_TIME = (1 << 63) - 1  # the greatest time of a transaction, as a log stores it


@dataclass(eq=False)
class Turn:
    """One change of a session. undo, after_commit: steps that revert it or finish it, taken from the last to the first."""

    undo: list[Step] = field(default_factory=list)
    after_commit: list[Step] = field(default_factory=list)
    committed: bool = False
    has_savepoint: bool = False  # `undo` restores the registered rules
    token: list[bool] = field(default_factory=list)  # the session's only token, while the turn is open
    thread: int | None = None


class Turns:
    """The turns of one session. The open turn has the only token; it is in a queue while no turn is open."""

    def __init__(self) -> None:
        self._free: SimpleQueue[bool] = SimpleQueue()  # has the token while no turn is open
        self._free.put(True)  # the token, whose value does not matter
        self.last: Turn | None = None  # the last turn, until it is settled

    @property
    def is_mine(self) -> bool:
        """True if this thread has the open turn."""
        last = self.last
        return last is not None and bool(last.token) and last.thread == get_ident()

    def take(self, turn: Turn, wait: bool = True) -> None:
        """Open a turn, once no other one is open. Raises queue.Empty if another one is open and `wait` is false, and
        LimitExceeded if the evaluation that waits exceeds its limits."""
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
        """Take the steps of the last turn: those after its commit if it is committed, else those that undo it."""
        if self.last is None:
            return
        with deferred():
            steps = self.last.after_commit if self.last.committed else self.last.undo
            if self.last.committed:
                self.last.undo.clear()  # its steps refer to the session's earlier state, which can be released
            while steps:
                steps[-1]()
                steps.pop()
            self.last = None

    def add_undo(self, step: Step) -> None:
        """Add a step that this thread's turn takes if it fails. Without an open turn, do nothing."""
        if self.is_mine and self.last is not None:
            self.last.undo.append(step)

    def release(self, turn: Turn) -> None:
        """Return the token of a turn, so that another turn can begin, which settles this one first. Idempotent: an interrupt
        may come between any two operations, and must leave the token in one place."""
        turn.token[:] = filter(None, map(self._free.put, turn.token))  # `put` returns None

    @contextlib.contextmanager
    def settling(self, turn: Turn) -> Iterator[None]:
        """Settle a turn when the block ends, if it is open, and release its token."""

        def settle_if_open() -> None:
            if turn.token:
                self.settle()

        with afterwards(partial(self.release, turn)), afterwards(settle_if_open):
            yield

    def settle_interrupted(self) -> None:
        """Settle an interrupted turn, unless a turn is open."""
        turn = Turn()
        with contextlib.suppress(Empty), self.settling(turn):
            self.take(turn, wait=False)


if TYPE_CHECKING:
    from semi_naive.session.contents import Changes


Time = datetime | float


def checked_time(time: Time) -> float:
    """Return a time as a number: that of a datetime is in seconds since 1970. Raises ValueError for other values."""
    number = time.timestamp() if isinstance(time, datetime) else time
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not math.isfinite(number) or abs(number) > MAX_TIME:
        raise ValueError(f"the time is {time!r}: expected a datetime or a number of up to 63 bits")
    return number


OVER = "this transaction is over: begin another one with session.transaction()"


class _Exit:
    """The descriptor of a transaction's `__exit__`.
    A `with` statement gets the method when it begins and drops it when it ends. If an interrupt arrives before the first line
    of `_exit`, dropping the method releases the turn, and the next turn rolls the transaction back."""

    def __get__(self, transaction: Transaction | None, owner=None):
        """Return `__exit__` of a transaction; when the `with` statement drops it, the turn is released if it is still open."""
        if transaction is None:
            return _exit
        exit_method, proxy = partial(_exit, transaction), weakref.proxy(transaction)
        if not transaction._open:  # a `with` statement gets `__exit__` before it calls `__enter__`
            transaction._exit_ref = weakref.ref(exit_method, lambda _: proxy._session.turns.release(proxy._turn))
        return exit_method


def _exit(transaction: Transaction, kind, error, trace) -> None:
    """End a transaction at the end of its `with` block: commit it, or roll it back after an exception. In a fork, where that is
    an error, an exception of the block is not replaced by this error."""
    if transaction._open and not (error is not None and transaction._session.is_foreign):
        transaction._session.commits.end_transaction(transaction._turn, transaction, error is not None)
    transaction._exit_ref = None


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
        """Create a transaction that is not open yet. time: that of its epoch, for `Session.at`."""
        self._session, self._turn, self.time = session, Turn(), time
        self._exit_ref: weakref.ref | None = None  # see `_Exit`
        self.pending: dict[str, PendingChange] = {}  # by relation
        self.batch: tuple[str, int] | None = None  # (stream name, batch id) when a streaming sink commits
        self.epoch: int | None = None  # set by the commit, as the next two: see `Transaction`
        self.ignored = 0
        self.changes: MappingProxyType[str, Changes] = MappingProxyType({})

    def insert(self, relation: str, rows: Any) -> None:
        """Insert facts. In a relation whose .input declares a key, they replace others with the same key, as by `upsert`."""
        if key := self._session.declared_keys.get(relation):
            return self.upsert(relation, rows, key)
        pending, columns = self._pending(relation), self._columns(relation, rows)
        pending.add(insert=True, columns=columns)

    def delete(self, relation: str, rows: Any) -> None:
        """Delete facts. A tuple that rules derive as well remains. Raises BadInput for facts in the program's text."""
        pending, columns = self._pending(relation), self._columns(relation, rows)
        self._check_deletable(relation, columns)
        pending.add(insert=False, columns=columns)

    def upsert(self, relation: str, rows: Any, key: Iterable[str]) -> None:
        """Insert facts, and delete the other facts with the same values in the attributes `key`. Of several rows with the same
        key, the last one is inserted."""
        pending, places = self._pending(relation), self._session.key_places(relation, key)
        columns = self._columns(relation, rows)
        columns = np.ascontiguousarray(columns[:, last_occurrences(columns[list(places)])])
        replaced, written = pending.replaced(columns, places), self._session.upkeep.relations.facts.written.get(relation)
        if written is not None:
            self._check_deletable(relation, columns_of(same_key(written, columns, places)))
        pending.add(insert=False, columns=columns_of(replaced))
        pending.add(insert=True, columns=columns)

    def clear(self, relation: str) -> None:
        """Delete all facts of the relation, except for those in the program's text."""
        self._pending(relation).clear()

    # -- without a with block

    def begin(self) -> Transaction:
        """Begin, as a `with` block does. Waits while another thread has a transaction open."""
        turn = Turn()
        try:
            self._session.begin(turn)
            self._session.commits.time_of(self.time)
            self._turn = turn
            return self
        except BaseException:
            self._session.turns.release(turn)
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

    def _end(self, failed: bool) -> None:
        """End an open transaction. Raises ValueError if it has ended."""
        if not self._open:
            raise ValueError(OVER)
        self._session.commits.end_transaction(self._turn, self, failed)

    __enter__, __exit__ = begin, _Exit()

    # -- for the session

    def _pending(self, relation: str) -> PendingChange:
        """The pending change of a relation. Raises ValueError if the transaction is not open or the facts cannot be changed."""
        self._session.check_process()
        if not self._open:
            raise ValueError(OVER if self.epoch is not None else "a transaction begins with a with statement")
        if relation not in self.pending:
            self.pending[relation] = PendingChange(self._session.changeable_facts(relation))
        return self.pending[relation]

    def _columns(self, relation: str, rows: Any) -> np.ndarray:
        """Read rows as columns (arity, n) in 64 bits."""
        if isinstance(rows, Table):  # of this session, so its ids are known
            return columns_of(rows)
        upkeep = self._session.upkeep
        return as_columns(rows, upkeep.program.relations[relation], upkeep.program.types, upkeep.values)

    def _check_deletable(self, relation: str, columns: np.ndarray) -> None:
        """Raise BadInput if one of the tuples, given as columns (arity, n), is a fact in the program's text."""
        rule = self._session.upkeep.relations.facts.first_written_fact(relation, columns)
        if rule is not None:
            place = f"line {rule.span.line} of {rule.span.file}" if rule.span else "the program"
            message = f"{rule.head} is written in the program, so it cannot be deleted"
            raise BadInput(message, hint=f"take it out of {place}, or give it as a fact of the session instead")

    def __repr__(self) -> str:
        state = "open" if self._open else "over" if self.epoch is None else f"epoch {self.epoch}"
        return f"<transaction, {state}: {', '.join(self.pending) or 'nothing asked'}>"
