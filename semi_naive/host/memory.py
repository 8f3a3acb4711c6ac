"""Memory that is used up: noticed while there is still room to say so, as the system's own killer says nothing."""

import contextlib
import os
import time
from collections.abc import Callable

from semi_naive.host.limits import LimitExceeded
from semi_naive.host.memory_limits import ADDRESSES, LEAST, MACHINE, NEAR, Room, limit, ours, resident, rooms

OURS = 0.25  # of the machine's memory: who uses less of it is not to blame that it is used up
EVERY = 0.2  # seconds between two looks
MUCH = 0.4  # of all memory: what the driver alone may have of it before a stratum goes to the partitions

SIGNS = (
    "MemoryError", "Unable to allocate", "array is too big", "Maximum allowed dimension", "OutOfMemoryError",
    "Cannot allocate memory", "std::bad_alloc", "malloc of size", "realloc of size", "insufficient memory",
    "Could not reserve enough space", "error reserving", "failed to map segment",
)  # fmt: skip
HELPS = (
    "a smaller local_tuples has strata evaluated on the partitions sooner, where tuples are in files; with more partitions, a"
    " smaller rollover_threshold, run_ahead_budget or replicate_bytes, each task holds less"
)


class OutOfMemory(MemoryError):
    """Memory is used up, or about to be. said: what is used of it, or could not be had. place: what was at work. helps: what to
    do about it."""

    def __init__(self, said: str, place: str = "", helps: str = HELPS):
        super().__init__(said, place, helps)
        self.said, self.place, self.helps = said, place, helps

    def __str__(self) -> str:
        place = f" in {self.place}" if self.place else ""
        return f"out of memory{place}: {self.said}\n  {self.helps}"


_looked = [0.0]
_places: list[tuple[Callable[[], str], str]] = []  # of the blocks that the process is in, the innermost last


def due() -> bool:
    """Whether it is time to look again; true a few times a second, so it may be asked for every batch."""
    now = time.monotonic()
    if now < _looked[0] + EVERY:
        return False
    _looked[0] = now
    return True


def check() -> None:
    """OutOfMemory if a limit is near."""
    for room in rooms():
        if room.near and _ours(room):
            raise OutOfMemory(str(room))


def _ours(room: Room) -> bool:
    """Whether this process and those it started are to blame that a limit is near. Of the machine it costs milliseconds."""
    return room.of != MACHINE or ours() > OURS * room.limit


def last_of_it() -> tuple[float, OutOfMemory | None]:
    """The bytes that are left before the system kills a process, and the error once that is about to happen: half of what
    `check` wants is left. What is beyond the address space is an error of its own. Costs 0.1 ms while there is enough."""
    room = min((room for room in rooms() if room.of != ADDRESSES), key=lambda each: each.left, default=None)
    if room is None or room.left >= min((1 - NEAR) * room.limit, LEAST) / 2:
        return room.left if room else float("inf"), None
    return (room.left, OutOfMemory(str(room), *where())) if _ours(room) else (float("inf"), None)


def scarce() -> bool:
    """Whether this process alone has so much of what it and those that it starts may have that something should leave it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return resident(os.getpid()) > MUCH * limit()
    return False


def is_memory(error: BaseException | str) -> bool:
    """Whether an error, or what Spark says of one, is that memory was not to be had."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, (str, ValueError, OSError, ImportError)) and any(sign in str(error) for sign in SIGNS)


@contextlib.contextmanager
def at(place: Callable[[], str], helps: str = HELPS, made: Callable[[], str] = str):
    """Name the place in the error of a block that uses up memory, or exceeds a limit of the evaluation. helps: what to do about
    memory there. made: what there is by then, for LimitExceeded."""
    here = place, helps
    _places.append(here)
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
        _places.remove(here)


def where() -> tuple[str, str]:
    """What is at work, as far as it is known, and what would help it; may be asked for from any thread."""
    with contextlib.suppress(Exception):
        place, helps = _places[-1]
        return place(), helps
    return "", HELPS


def killed() -> OutOfMemory:
    """The error where the system has killed a worker."""
    return OutOfMemory("the system has killed a Python worker for want of memory" + _nearest("; "))


def _nearest(before: str = "") -> str:
    """What is used of the limit that is nearest; nothing if none is known."""
    room: Room | None = min(rooms(), key=lambda each: each.left / each.limit, default=None)
    return f"{before}{room}" if room else ""


def out_of_memory(error: BaseException | str, place: str = "", helps: str = HELPS) -> OutOfMemory:
    """Our error for another that `is_memory`: what could not be had, and what is used of the limit that is nearest."""
    if isinstance(error, OutOfMemory):
        return error if error.place else OutOfMemory(error.said, place, error.helps if error.helps != HELPS else helps)
    asked = [line.strip() for line in str(error).splitlines() if any(sign in line for sign in SIGNS)][:1]
    return OutOfMemory("; ".join(filter(None, [*asked, _nearest()])) or "no more is to be had", place, helps)
