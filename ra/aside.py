"""Long calls of Spark that can be given up: by Ctrl-C, or where a limit of the evaluation is exceeded.

Python hands signals to the main thread. If Ctrl-C found it in the middle of a call, the answer that is still to come would be
taken for that of its next call, and the job would go on. So a thread beside the main one makes the call. Ctrl-C finds the main
thread waiting: the job is cancelled, and Spark can be used on. Other threads get no signals. They make their calls themselves,
and a watching thread cancels the job.
"""

import contextlib
import contextvars
import itertools
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

LOOK = 0.25  # seconds between two looks at `meanwhile`
CANCELLED = 5.0  # seconds in which a cancelled job comes to its end

Made = TypeVar("Made")

_numbers = itertools.count()


@dataclass
class _Call:
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


class _Beside:
    """The thread, started when it is first needed. It is one for all calls, as each thread has a connection to the JVM."""

    def __init__(self):
        self.calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None

    def begin(self, call: Callable) -> _Call:
        begun = _Call(call)
        if self.thread is None or not self.thread.is_alive():  # it does not live on in a fork
            self.calls = queue.SimpleQueue()
            self.thread = threading.Thread(target=self._serve, args=[self.calls], name="semi-naive-spark", daemon=True)
            self.thread.start()
        self.calls.put(begun)
        return begun

    def leave(self) -> None:
        """Have the next call made by another thread: this one may never be done."""
        self.thread = None

    @staticmethod
    def _serve(calls) -> None:
        while True:
            calls.get()()


_beside = _Beside()


def aside(
    call: Callable[[], Made], cancel: Callable[[], None] = lambda: None, meanwhile: Callable[[], None] | None = None
) -> Made:
    """Return or raise what `call` does. If something is raised here while it runs, by Ctrl-C or by `meanwhile`, which is called
    a few times a second, `cancel` is called, and `call` has some seconds to end."""
    if threading.current_thread() is not threading.main_thread():
        return call() if meanwhile is None else _watched(call, cancel, meanwhile)
    begun = _beside.begin(call)
    try:
        while not begun.done.wait(LOOK if meanwhile else None):
            meanwhile()
    except BaseException:
        with contextlib.suppress(Exception):
            cancel()
        if not begun.done.wait(CANCELLED):
            _beside.leave()
        raise
    if begun.error is not None:
        raise begun.error
    return begun.found


def _watched(call: Callable[[], Made], cancel: Callable[[], None], meanwhile: Callable[[], None]) -> Made:
    """The same where this thread makes the call. Another one looks, and cancels until the call has ended: it may find a moment
    at which no job runs."""
    done, raised, here = threading.Event(), [], contextvars.copy_context()

    def watch():
        while not done.wait(LOOK):
            try:
                here.run(meanwhile)
            except BaseException as error:
                raised.append(error)
                with contextlib.suppress(Exception):
                    cancel()

    threading.Thread(target=watch, name="semi-naive-watch", daemon=True).start()
    try:
        return call()
    except Exception:
        if raised:
            raise raised[0] from None
        raise
    finally:
        done.set()


def spark_call(sc, call: Callable[[], Made], meanwhile: Callable[[], None] | None = None) -> Made:
    """`call`, which starts jobs of a SparkContext, aside. Its jobs have the properties that this thread's would have, such as
    the scheduler's pool, and a tag by which they are cancelled."""
    tag = f"semi-naive-{next(_numbers)}"
    beside = threading.current_thread() is threading.main_thread()
    properties = sc._jsc.sc().getLocalProperties().clone() if beside else None

    def tagged():
        if beside:
            sc._jsc.sc().setLocalProperties(properties)
        sc.addJobTag(tag)
        try:
            return call()
        finally:
            if not beside:
                sc.removeJobTag(tag)

    return aside(tagged, lambda: sc.cancelJobsWithTag(tag), meanwhile)
