"""A thread pool for calls that release the interpreter lock, such as kernels, Arrow, files; and the number of cores."""

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from semi_naive.host import limits

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

WAITING_RESULTS_A_THREAD = 2  # results for each thread that are computed before the caller takes them

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def cpus() -> int:
    """Return the number of cores that this process may use: a container's share, not the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(
    function: Callable[[Argument], Result], arguments: Iterable[Argument], threads: int | None = None,
    on_end: Callable[[], None] = lambda: None,
) -> Iterator[Result]:  # fmt: skip
    """Yield function(x) for each x of `arguments`, in order, computed by threads, by default one for each core.

    At most `WAITING_RESULTS_A_THREAD` results for each thread are stored, which bounds memory. When the iteration ends, even by
    an error or Ctrl-C, it calls `on_end`, and then waits until no call is running. The calls run in the caller's context, and
    so under its limits (`host.limits`). Threads are reused: creating and ending them takes 0.2 ms, as long as many rules take.
    """
    threads, pool = threads or cpus(), None
    waiting: deque[Future] = deque()
    try:
        for argument in arguments:
            pool = pool or _take_pool(threads)
            waiting.append(pool.submit(copy_context().run, function, argument))
            limits.check_limits()
            if len(waiting) > WAITING_RESULTS_A_THREAD * threads:
                yield _first_result(waiting)
        while waiting:
            yield _first_result(waiting)
    finally:
        on_end()
        for future in waiting:
            future.cancel()
        if pool is not None:
            from concurrent.futures import wait

            wait(waiting)
            _idle[threads].append(pool)


def ahead(values: Iterator[Result]) -> Iterator[Result]:
    """Yield the values of an iterator. A thread computes the next WAITING_RESULTS_A_THREAD while the caller uses one."""
    end: Any = object()
    return takewhile(lambda value: value is not end, in_threads(lambda _: next(values, end), count(), 1))


_idle: defaultdict[int, list["ThreadPoolExecutor"]] = defaultdict(list)  # idle pools, by number of threads
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a child has none of its parent's threads


def _take_pool(threads: int) -> "ThreadPoolExecutor":
    """Return an idle pool for one caller. Calls that wait for other calls must not share their pool."""
    try:
        return _idle[threads].pop()  # without a test before, as other threads take pools, too
    except IndexError:
        from concurrent.futures import ThreadPoolExecutor

        return ThreadPoolExecutor(threads)


def _first_result(waiting: deque) -> Any:
    """Return the result of the first future, which stays in the queue until it is done."""
    result = waiting[0].result()
    waiting.popleft()
    return result
