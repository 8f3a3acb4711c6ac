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

POLL_SECONDS = 0.25  # between two checks for signals, and two calls of `meanwhile`
CANCEL_SECONDS = 5.0  # that a cancelled job may take to end

Result = TypeVar("Result")


@dataclass
class BackgroundCall:
    """A call that another thread makes, with its result or its exception. done: set at the end."""

    call: Callable[[], Any]
    done: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: BaseException | None = None

    def __call__(self) -> None:
        """Make the call, and set `result` or `error`, then `done`."""
        try:
            self.result = self.call()
        except BaseException as error:  # any: the thread that waits raises it
            self.error = error
        self.done.set()


class _CallingThread:
    """A thread that makes calls, started when it is first needed. All calls use the same one, as each thread has its own
    connection to the JVM.
    """

    def __init__(self):
        self.calls: queue.SimpleQueue[BackgroundCall | None] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None

    def submit(self, call: Callable) -> BackgroundCall:
        """Let the thread make a call. Return its handle immediately."""
        submitted = BackgroundCall(call)
        if self.thread is None or not self.thread.is_alive():  # a fork has no other threads
            self.calls = queue.SimpleQueue()
            self.thread = threading.Thread(target=self._make_calls, args=[self.calls], name="semi-naive-spark", daemon=True)
            self.thread.start()
        self.calls.put(submitted)
        return submitted

    def abandon(self) -> None:
        """Let another thread make the next call, as the present one may never finish. This thread ends after its calls."""
        self.calls.put(None)
        self.thread = None

    __del__ = abandon

    @staticmethod
    def _make_calls(calls) -> None:
        for call in iter(calls.get, None):
            call()


class Threads(threading.local):
    """The two helper threads that each thread has: `caller` makes its calls of Java, and `monitor` watches Spark meanwhile."""

    def __init__(self):
        self.caller, self.monitor = _CallingThread(), _CallingThread()


threads = Threads()


def call_interruptibly(
    call: Callable[[], Result], cancel: Callable[[], None] = lambda: None, meanwhile: Callable[[], None] | None = None
) -> Result:
    """Make a call in another thread, and return its result or raise its exception. `meanwhile` is called a few times a second.

    If this thread is interrupted, by Ctrl-C or an exception of `meanwhile`, `cancel` is called repeatedly until `call` ends,
    for CANCEL_SECONDS at most, and the interrupt is raised.
    """
    background = threads.caller.submit(call)
    try:
        while not background.done.wait(POLL_SECONDS):  # no longer: a signal that another thread receives does not end the wait
            if meanwhile:
                meanwhile()
    except BaseException:
        for _ in range(int(CANCEL_SECONDS / POLL_SECONDS)):  # a cancellation between two jobs has no effect
            with contextlib.suppress(Exception):
                cancel()
            if background.done.wait(POLL_SECONDS):
                break
        else:  # the call has not ended, and its thread cannot make another one
            threads.caller.abandon()
        raise
    if background.error is not None:
        raise background.error
    return background.result
