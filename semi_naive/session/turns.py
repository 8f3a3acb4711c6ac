"""Turns: one thread at a time changes a session, as a whole or not at all, wherever an interrupt comes.

1. `begin` waits for the turn, and settles what an interrupted one has left.
2. Before the turn changes anything, it puts a step into `undo` that takes the change back.
3. `kept = True` is the moment at which it has happened. Before it, nobody has seen anything.
4. What follows from it is in `owed`, as steps, too.
5. `ending` settles the turn, by its steps of either kind, and lets another one begin.

Steps are idempotent. One that was interrupted is done again: at once, or by the next turn, or when the session is closed.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from threading import get_ident

from semi_naive.host import limits
from semi_naive.host.interrupts import afterwards, deferred

Step = Callable[[], object]


@dataclass(eq=False)
class Turn:
    """One change of a session. `undo`, `owed`: steps, of which the last one is done first."""

    undo: list[Step] = field(default_factory=list)
    owed: list[Step] = field(default_factory=list)
    kept: bool = False
    saved: bool = False  # what is registered can be put back
    token: list[bool] = field(default_factory=list)  # has the session's one token while the turn is open
    thread: int | None = None


class Turns:
    """The turns of one session."""

    def __init__(self) -> None:
        self._free: SimpleQueue[bool] = SimpleQueue()
        self._free.put(True)
        self.last: Turn | None = None  # unless it is settled

    @property
    def open(self) -> bool:
        """True if this thread has the turn."""
        last = self.last
        return last is not None and bool(last.token) and last.thread == get_ident()

    def begin(self, turn: Turn, wait: bool = True) -> None:
        """Wait for the turn; queue.Empty if another one is open, and this one is not to wait.

        LimitExceeded if the evaluation that waits has to end.
        """
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
        """Undo the last turn, or do what it owes if it has happened."""
        if self.last is None:
            return
        with deferred():
            steps = self.last.owed if self.last.kept else self.last.undo
            if self.last.kept:
                self.last.undo.clear()  # which has what the session was
            while steps:
                steps[-1]()
                steps.pop()
            self.last = None

    def give(self, turn: Turn) -> None:
        """Let another turn begin, which settles this one."""
        turn.token[:] = filter(None, map(self._free.put, turn.token))  # `put` returns None

    @contextlib.contextmanager
    def ending(self, turn: Turn) -> Iterator[None]:
        """A turn is settled when the block ends."""
        with afterwards(partial(self.give, turn)), afterwards(partial(self._end, turn)):
            yield

    def _end(self, turn: Turn) -> None:
        if turn.token:
            self.settle()

    def clear(self) -> None:
        """Settle what an interrupted turn has left, if none is open."""
        turn = Turn()
        with contextlib.suppress(Empty), self.ending(turn):
            self.begin(turn, wait=False)
