"""Threads of this process for work that lets go of the interpreter: kernels, Arrow, files."""

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any, TypeVar

from semi_naive.host import limits
from semi_naive.ra.spark.spark_context import cpus

AHEAD = 2  # results of each thread that may wait to be taken

Given = TypeVar("Given")
Made = TypeVar("Made")


def in_threads(
    make: Callable[[Given], Made], given: Iterable[Given], threads: int | None = None, leave: Callable[[], None] = lambda: None
) -> Iterator[Made]:
    """`map`, in as many threads as there are cores; `AHEAD` results of each thread wait at most, so memory is bounded. When it
    ends, by an error or Ctrl-C as well, nothing runs any more; `leave` is called before that is waited for. The calls have the
    caller's context, and so its limits (`host.limits`). The threads are kept for the next caller: to make and end them takes
    0.2 ms, as long as many a rule does."""
    threads = threads or cpus()
    pool, waiting = _taken(threads), deque()
    try:
        for each in given:
            waiting.append(pool.submit(copy_context().run, make, each))
            limits.check()
            if len(waiting) > AHEAD * threads:
                yield _first(waiting)
        while waiting:
            yield _first(waiting)
    finally:
        leave()
        for future in waiting:
            future.cancel()
        wait(waiting)
        _idle[threads].append(pool)


_idle: defaultdict[int, list[ThreadPoolExecutor]] = defaultdict(list)  # pools that nobody uses, by how many threads they have
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a child has none of its parent's threads


def _taken(threads: int) -> ThreadPoolExecutor:
    """A pool for one caller: what waits for others in a thread of a pool cannot wait for threads of the same."""
    try:
        return _idle[threads].pop()
    except IndexError:
        return ThreadPoolExecutor(threads)


def _first(waiting: deque) -> Any:
    """The result of the first future, which stays among those that are waited for until it is there."""
    result = waiting[0].result()
    waiting.popleft()
    return result
