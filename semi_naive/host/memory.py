"""Detect that memory is running out while an error can still be raised, before the system kills the process."""

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator

from semi_naive.host.limits import LimitExceeded
from semi_naive.host.memory_limits import (
    ADDRESSES,
    DATA,
    ENOUGH_FREE_BYTES,
    MACHINE,
    NEAR_LIMIT_FRACTION,
    Room,
    limit,
    ours,
    resident,
    rooms,
)

OWN_SHARE_TO_BLAME = 0.25  # share of the machine's memory below which this process is not the cause of a shortage
CHECK_SECONDS = 0.2  # seconds between two measurements
DRIVER_SHARE = 0.4  # share of all memory that the driver alone may use before a stratum moves to the partitions
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
# 5 M sales from parquet: peak 360 → 270 MB; an ontology of 1.6 M tuples: 288 → 257 MB; the same processor time (2026-11). With
# 1 MB the peaks are the same, and the system's share of the ontology's time is 1.0 s in place of 0.3.
MIN_MAPPED_BYTES = 4 << 20  # arrays from this size on have a mapping of their own
MAX_KEPT_BYTES = 16 << 20  # freed bytes at the end of the heap that stay there

SIGNS = (
    "MemoryError", "Unable to allocate", "array is too big", "Maximum allowed dimension", "OutOfMemoryError",
    "Cannot allocate memory", "std::bad_alloc", "malloc of size", "realloc of size", "insufficient memory",
    "Could not reserve enough space", "error reserving", "failed to map segment", "can't start new thread",
)  # fmt: skip
HELPS = (
    "a smaller local_tuples has strata evaluated on the partitions sooner, where tuples are in files; with more partitions, a"
    " smaller rollover_threshold, run_ahead_budget or replicate_bytes, each task holds less"
)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Switch Python's cycle collector off for a block that makes many objects and drops few: it would traverse them again and
    again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def give_back() -> None:
    """Return memory that this process has freed to the system, where the C library can; it would keep some."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_less_freed_memory() -> None:
    """Make the C library return freed arrays to the system; only for processes of the package. By default it keeps up to 64 MB,
    and arrays of up to 32 MB in a heap that a single small object above them holds."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, MIN_MAPPED_BYTES)
        mallopt(M_TRIM_THRESHOLD, MAX_KEPT_BYTES)


class OutOfMemory(MemoryError):
    """Memory is exhausted, or about to be. said: the usage, or the failed allocation. place: the work in progress. helps:
    advice.
    """

    def __init__(self, said: str, place: str = "", helps: str = HELPS):
        super().__init__(said, place, helps)
        self.said, self.place, self.helps = said, place, helps

    def __str__(self) -> str:
        place = f" in {self.place}" if self.place else ""
        return f"out of memory{place}: {self.said}\n  {self.helps}"


_last_check = [0.0]  # the time (`time.monotonic`) at which `check_is_due` was last true
_places: list[tuple[Callable[[], str], str]] = []  # (place, helps) of the blocks of `working_on`, innermost last


def check_is_due() -> bool:
    """True if CHECK_SECONDS have passed since it was last true; cheap enough to ask for every batch."""
    now = time.monotonic()
    if now < _last_check[0] + CHECK_SECONDS:
        return False
    _last_check[0] = now
    return True


def check_memory() -> None:
    """Raise OutOfMemory if a limit is near."""
    for room in rooms():
        if room.near and _is_to_blame(room):
            raise OutOfMemory(str(room))


def _is_to_blame(room: Room) -> bool:
    """True if this process and its children use enough of a limit to be the cause of a shortage. For the machine as a whole it
    takes milliseconds."""
    return room.of != MACHINE or ours() > OWN_SHARE_TO_BLAME * room.limit


def bytes_before_kill() -> tuple[float, OutOfMemory | None]:
    """Return (the bytes left before the system kills a process, an error if less than half of `check_memory`'s reserve is
    left). Limits of address space and data are ignored: exceeding them raises an error. Takes 0.1 ms while memory suffices."""
    room = min((room for room in rooms() if room.of not in (ADDRESSES, DATA)), key=lambda each: each.left, default=None)
    if room is None or room.left >= min((1 - NEAR_LIMIT_FRACTION) * room.limit, ENOUGH_FREE_BYTES) / 2:
        return room.left if room else float("inf"), None
    # another process uses the memory: stopping this one would not help
    return (room.left, OutOfMemory(str(room), *where())) if _is_to_blame(room) else (float("inf"), None)


def scarce() -> bool:
    """True if this process alone uses more than DRIVER_SHARE of the memory, so that data should leave it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return resident(os.getpid()) > DRIVER_SHARE * limit()
    return False


def is_memory(error: BaseException | str) -> bool:
    """True if an error, or Spark's text of one, reports a failed allocation."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, (str, ValueError, OSError, ImportError, RuntimeError)) and any(
        sign in str(error) for sign in SIGNS
    )


@contextlib.contextmanager
def working_on(place: Callable[[], str], helps: str = HELPS, made: Callable[[], str] = str):
    """Name the work of a block in its memory and limit errors, and in the result of `where` meanwhile.

    place: returns a description of the work; made: of the tuples made so far, by default "" (str()). Both are called only for
    an error.
    helps: advice against a shortage of memory.
    """
    entry = place, helps
    _places.append(entry)
    try:
        yield
    except LimitExceeded as error:
        error.locate(place(), made())
        raise
    except Exception as error:
        if not is_memory(error):
            raise
        raise out_of_memory(error, place(), helps) from error
    finally:
        _places.remove(entry)  # not always the last: blocks of several threads are in the list


def where() -> tuple[str, str]:
    """Return (the work in progress, "" if unknown, the advice for it). Any thread may call it."""
    with contextlib.suppress(Exception):
        place, helps = _places[-1]
        return place(), helps
    return "", HELPS


def work() -> str:
    """Describe the work in progress of this process, outermost block first; "" if there is none."""
    with contextlib.suppress(Exception):  # a block may end in another thread meanwhile
        return ": ".join(place() for place, _ in list(_places))
    return ""


def killed() -> OutOfMemory:
    """Return the error for a worker that the system has killed."""
    return OutOfMemory("the system has killed a Python worker for want of memory" + _nearest("; "))


def _nearest(before: str = "") -> str:
    """Describe the usage of the limit that is nearest, after the text `before`; "" if no limit is known."""
    room: Room | None = min(rooms(), key=lambda each: each.left / each.limit, default=None)
    return f"{before}{room}" if room else ""


def out_of_memory(error: BaseException | str, place: str = "", helps: str = HELPS) -> OutOfMemory:
    """Convert an error for which `is_memory` is true to one that names the failed allocation and the usage of the nearest
    limit."""
    if isinstance(error, OutOfMemory):
        return error if error.place else OutOfMemory(error.said, place, error.helps if error.helps != HELPS else helps)
    allocation = [line.strip() for line in str(error).splitlines() if any(sign in line for sign in SIGNS)][:1]
    return OutOfMemory("; ".join(filter(None, [*allocation, _nearest()])) or "no more is to be had", place, helps)
