"""Threads of this process for work that lets go of the interpreter: kernels, Arrow, files."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from semi_naive.ra.session import cpus

AHEAD = 2  # results of each thread that may wait to be taken

Given = TypeVar("Given")
Made = TypeVar("Made")


def in_threads(
    make: Callable[[Given], Made], given: Iterable[Given], threads: int | None = None, leave: Callable[[], None] = lambda: None
) -> Iterator[Made]:
    """`map`, in as many threads as there are cores; `AHEAD` results of each thread wait at most, so memory is bounded. When it
    ends, by an error or Ctrl-C as well, nothing runs any more; `leave` is called before that is waited for."""
    threads = threads or cpus()
    pool, waiting = ThreadPoolExecutor(threads), deque()
    try:
        for each in given:
            waiting.append(pool.submit(make, each))
            if len(waiting) > AHEAD * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        leave()
        pool.shutdown(cancel_futures=True)
