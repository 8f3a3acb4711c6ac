"""Run long calls of Spark in a second thread, so that the calling thread can be interrupted.

Python delivers signals to the main thread. If Ctrl-C interrupted it during a call of Java, the pending answer would be taken
for that of its next call, and the job would continue. Here the main thread only waits: on Ctrl-C the job is cancelled, and
Spark remains usable.
"""

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

POLL_SECONDS = 0.25  # time between two checks for signals, and two calls of `meanwhile`
CANCEL_SECONDS = 5.0  # time that a cancelled job may take to end

Made = TypeVar("Made")


@dataclass
class BackgroundCall:
    """A call that another thread makes, with its result or its exception."""

    call: Callable[[], Any]
    done: threading.Event = field(default_factory=threading.Event)
    found: Any = None
    error: BaseException | None = None

    def __call__(self) -> None:
        """Make the call, and record its result or error."""
        try:
            self.found = self.call()
        except BaseException as error:
            self.error = error
        self.done.set()


class _CallingThread:
    """A thread that makes calls, started when it is first needed. All calls use the same one, as each thread has its own
    connection to the JVM.
    """

    def __init__(self):
        self.calls: queue.SimpleQueue[BackgroundCall | None] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None

    def begin(self, call: Callable) -> BackgroundCall:
        """Let the thread make a call. Returns immediately, with a handle to wait for."""
        begun = BackgroundCall(call)
        if self.thread is None or not self.thread.is_alive():  # it does not live on in a fork
            self.calls = queue.SimpleQueue()
            self.thread = threading.Thread(target=self._serve, args=[self.calls], name="semi-naive-spark", daemon=True)
            self.thread.start()
        self.calls.put(begun)
        return begun

    def leave(self) -> None:
        """Let another thread make the next call, as this one may never finish."""
        self.calls.put(None)
        self.thread = None

    __del__ = leave

    @staticmethod
    def _serve(calls) -> None:
        for call in iter(calls.get, None):
            call()


class Threads(threading.local):
    """The helper threads of each thread: one makes its calls, and one monitors Spark meanwhile."""

    def __init__(self):
        self.calls, self.looks = _CallingThread(), _CallingThread()


threads = Threads()


def aside(
    call: Callable[[], Made], cancel: Callable[[], None] = lambda: None, meanwhile: Callable[[], None] | None = None
) -> Made:
    """Make a call in another thread, and return its result or raise its exception. `meanwhile` is called a few times a second.

    If this thread is interrupted, by Ctrl-C or an exception of `meanwhile`, `cancel` is called, and `call` has some seconds to
    end.
    """
    begun = threads.calls.begin(call)
    try:
        while not begun.done.wait(POLL_SECONDS):  # never longer: a signal that the system gives another thread wakes nobody
            if meanwhile:
                meanwhile()
    except BaseException:
        for _ in range(int(CANCEL_SECONDS / POLL_SECONDS)):  # a cancellation between two jobs has no effect
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
