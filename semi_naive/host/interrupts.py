"""Defer interrupts, by Ctrl-C and other signals, while a step must not be left incomplete.

Python calls a signal's handler in the main thread, between two bytecode instructions. The handler of Ctrl-C raises
KeyboardInterrupt. Two rules limit the effects of such an exception. A step that must complete is idempotent, and runs in
`afterwards`, which repeats it if it was interrupted. Two values that must agree are changed by one call of C code, which cannot
be interrupted.
"""

import _signal  # the functions of `signal` without its conversions to enums, which take 15 µs a block
import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from operator import methodcaller
from threading import get_ident, main_thread
from typing import Any

NAMES = "SIGINT", "SIGTERM", "SIGHUP", "SIGALRM"
SIGNALS = [int(getattr(signal, name)) for name in NAMES if hasattr(signal, name)]
ONCE, RELEASE = [True], methodcaller("release")
SECOND_SIGNAL_SECONDS = 1.0  # seconds after which a signal sent again is not deferred: a subscriber may never return


class _DeferredSignals:
    """The signal handlers of a block, which defer signals. If an interrupt arrives in `end`, a handler stays installed, and
    forwards signals.

    handlers: the earlier handlers, by signal. received: the time at which each signal was first received. over: the block has
    ended, so signals are not deferred any more.
    """

    def __init__(self):
        self.handlers: dict[int, Callable[..., Any]] = {}
        self.received: dict[int, float] = {}
        self.over = False

    def begin(self) -> None:
        """Install the handlers, in the main thread."""
        for number in SIGNALS if get_ident() == main_thread().ident else ():
            handler = _signal.getsignal(number)
            if callable(handler):  # otherwise the signal is ignored, or ends the process, without Python code
                self.handlers[number] = handler
                _signal.signal(number, self._wait)

    def _wait(self, number: int, frame) -> None:
        """Record a signal; forward it if the block is over, or at a second signal some time after the first."""
        now = time.monotonic()
        if self.over or now - self.received.setdefault(number, now) > SECOND_SIGNAL_SECONDS:
            self.received.pop(number, None)
            self.handlers[number](number, frame)

    def end(self) -> None:
        """Restore the earlier handlers, and send them the deferred signals."""
        self.over = True
        for number, handler in self.handlers.items():
            if _signal.getsignal(number) == self._wait:  # otherwise the block has installed another handler
                _signal.signal(number, handler)
        received, self.received = self.received, {}
        list(map(signal.raise_signal, received))  # send all of them before a handler raises


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Defer signals until the block ends. A signal that is sent again after a second is handled at once."""
    signals = _DeferredSignals()
    with afterwards(signals.end):
        signals.begin()
        yield


@contextlib.contextmanager
def afterwards(step: Callable[[], Any]) -> Iterator[None]:
    """Run an idempotent step when the block ends, and once more if an exception interrupts it."""
    try:
        try:
            yield
        finally:
            step()
    except BaseException:
        step()
        raise


@contextlib.contextmanager
def locked(lock) -> Iterator[None]:
    """Hold a lock while the block runs. Unlike `with lock`, the lock is released after an exception at any line, including that
    of `with`: one call of C code both acquires or releases it and changes the list `taken`."""
    taken: list[bool] = []
    try:
        try:
            taken.extend(map(lock.acquire, ONCE))
            yield
        finally:
            taken[:] = filter(None, map(RELEASE, [lock] * len(taken)))
    except BaseException:
        taken[:] = filter(None, map(RELEASE, [lock] * len(taken)))
        raise


def interrupt_in(error: BaseException) -> BaseException:
    """Return the interrupt behind an error that C code raised in its place, such as `SystemError: … returned a result with an
    exception set`; if there is none, the error itself."""
    cause: BaseException | None = error
    while cause is not None and isinstance(cause, Exception):
        cause = cause.__cause__
    return cause or error
