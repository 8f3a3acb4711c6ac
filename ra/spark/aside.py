"""Long calls of Spark, made by a thread beside the calling one.

Python hands signals to the main thread. If Ctrl-C found it in the middle of a call, the answer that is still to come would be
taken for that of its next call, and the job would go on. Here Ctrl-C finds the main thread waiting: the job is cancelled, and
Spark can be used on.
"""

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

POLL_SECONDS = 0.25  # between two looks at signals, and two calls of `meanwhile`
CANCEL_SECONDS = 5.0  # in which a cancelled job ends

Made = TypeVar("Made")


@dataclass
class BackgroundCall:
    """A call that another thread makes, with its result or its exception."""

    call: Callable[[], Any]
    done: threading.Event = field(default_factory=threading.Event)
    found: Any = None
    error: BaseException | None = None

    def __call__(self) -> None:
        try:
            self.found = self.call()
        except BaseException as error:
            self.error = error
        self.done.set()


class _CallingThread:
    """The thread, started when it is first needed. It is one for all calls, as each thread has a connection to the JVM."""

    def __init__(self):
        self.calls: queue.SimpleQueue[BackgroundCall | None] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None

    def begin(self, call: Callable) -> BackgroundCall:
        begun = BackgroundCall(call)
        if self.thread is None or not self.thread.is_alive():  # it does not live on in a fork
            self.calls = queue.SimpleQueue()
            self.thread = threading.Thread(target=self._serve, args=[self.calls], name="semi-naive-spark", daemon=True)
            self.thread.start()
        self.calls.put(begun)
        return begun

    def leave(self) -> None:
        """Have the next call made by another thread: this one may never be done."""
        self.calls.put(None)
        self.thread = None

    __del__ = leave

    @staticmethod
    def _serve(calls) -> None:
        for call in iter(calls.get, None):
            call()


class Threads(threading.local):
    """The threads beside each thread: one that makes its calls, and one that looks at Spark while they run."""

    def __init__(self):
        self.calls, self.looks = _CallingThread(), _CallingThread()


threads = Threads()


def aside(
    call: Callable[[], Made], cancel: Callable[[], None] = lambda: None, meanwhile: Callable[[], None] | None = None
) -> Made:
    """Return or raise the outcome of `call`, made by another thread; `meanwhile` is called a few times a second.

    If this thread raises in the meantime, by Ctrl-C or in `meanwhile`, `cancel` is called, and `call` has some seconds to end.
    """
    begun = threads.calls.begin(call)
    try:
        while not begun.done.wait(POLL_SECONDS):  # never longer: a signal that the system gives another thread wakes nobody
            if meanwhile:
                meanwhile()
    except BaseException:
        for _ in range(int(CANCEL_SECONDS / POLL_SECONDS)):  # one call may come between two jobs, and find none
            with contextlib.suppress(Exception):
                cancel()
            if begun.done.wait(POLL_SECONDS):
                break
        else:
            threads.calls.leave()
        raise
    if begun.error is not None:
        raise begun.error
    return begun.found
