"""Memory limits and usage: of the control group (a container), the machine, and this process.

If the system does not report them, as without /proc, no limit is known.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

NEAR_LIMIT_FRACTION = 0.95  # share of a limit; beyond it, less is left than a merge of blocks takes
ENOUGH_FREE_BYTES = 1 << 30  # free bytes that suffice under any limit
UNLIMITED_BYTES = 1 << 60
MACHINE = "this machine's memory"
ADDRESSES = "this process's address space (ulimit -v)"
DATA = "this process's data (ulimit -d)"
OWN_LIMITS = {ADDRESSES: ("RLIMIT_AS", 0), DATA: ("RLIMIT_DATA", 5)}  # (name, field of its usage in /proc/self/statm)


@dataclass
class Room:
    """A limit and its usage, in bytes. of: what it limits, for messages."""

    used: int
    limit: int
    of: str

    @property
    def left(self) -> int:
        return self.limit - self.used

    @property
    def near(self) -> bool:
        """True if less is left than a merge of blocks may take."""
        return self.left < min((1 - NEAR_LIMIT_FRACTION) * self.limit, ENOUGH_FREE_BYTES)

    def __str__(self) -> str:
        return f"{gigabytes(self.used)} of {self.of}, which has {gigabytes(self.limit)}, are used"


def gigabytes(size: float) -> str:
    """Return a number of bytes as text, in gigabytes or, below 0.5 of them, in megabytes.

    >>> gigabytes(3 << 29), gigabytes(5 << 20)
    ('1.5 GB', '5 MB')
    """
    return f"{size / (1 << 30):,.1f} GB" if size >= 1 << 29 else f"{size / (1 << 20):,.0f} MB"


def limit() -> int:
    """Return the bytes that this process and its children may use: the least limit."""
    return min((room.limit for room in rooms()), default=UNLIMITED_BYTES)


def rooms() -> Iterator[Room]:
    """Yield all known limits with their usage; takes 0.1 ms."""
    for folder, name, files in _groups():
        with contextlib.suppress(OSError, ValueError, KeyError):
            yield Room(files.used(folder), min(files.limits(folder)), name)
    with contextlib.suppress(OSError, ValueError, KeyError):
        kilobytes = _numbers(Path("/proc/meminfo"))
        total = 1024 * kilobytes["MemTotal:"]
        yield Room(total - 1024 * kilobytes["MemAvailable:"], total, MACHINE)
    for of, (limit_name, field) in OWN_LIMITS.items():
        if (most := _own_limit(limit_name)) < UNLIMITED_BYTES:
            with contextlib.suppress(OSError, ValueError, IndexError):
                pages = int(Path("/proc/self/statm").read_text().split()[field])
                yield Room(pages * os.sysconf("SC_PAGE_SIZE"), most, of)


def is_process_limited() -> bool:
    """True if this process has a limit of its own (ulimit)."""
    return any(_own_limit(name) < UNLIMITED_BYTES for name, _ in OWN_LIMITS.values())


def _own_limit(name: str) -> int:
    """Return a limit of this process in bytes, by its name in the module `resource`."""
    try:
        import resource
    except ImportError:  # not on Windows
        return UNLIMITED_BYTES
    soft, _ = resource.getrlimit(getattr(resource, name))
    return UNLIMITED_BYTES if soft == resource.RLIM_INFINITY else soft


def _numbers(path: Path) -> dict[str, int]:
    """Return {first word: second word} of the lines of a file."""
    return {words[0]: int(words[1]) for line in path.read_text().splitlines() if len(words := line.split()) > 1}


class GroupFiles(NamedTuple):
    """The files of a control group: its limits, its usage, and the counters in `memory.stat` that add up to page cache, which
    can be dropped and does not count as used; those in `kept` are subtracted."""

    limit_files: tuple[str, ...]
    usage: str
    cached: tuple[str, ...]
    kept: str

    def limits(self, folder: Path) -> list[int]:
        texts = [(folder / name).read_text().strip() for name in self.limit_files]
        return [UNLIMITED_BYTES if text == "max" else int(text) for text in texts]

    def used(self, folder: Path) -> int:
        counters = _numbers(folder / "memory.stat")
        cached = sum(counters.get(name, 0) for name in self.cached) - counters.get(self.kept, 0)
        return int((folder / self.usage).read_text()) - cached


VERSION_1 = GroupFiles(("memory.limit_in_bytes",), "memory.usage_in_bytes", ("total_cache",), "total_shmem")
VERSION_2 = GroupFiles(("memory.max", "memory.high"), "memory.current", ("file", "slab_reclaimable"), "shmem")
Group = tuple[Path, str, GroupFiles]  # a control group's folder, its description and its files


@functools.cache
def _groups() -> list[Group]:
    """Return the control groups of this process that have a limit."""
    groups: list[Group] = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            # version 2 names no kinds of resources; a group of version 1 without "memory" has no limit that matters here
            roots = {"": ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"), "memory": ("/sys/fs/cgroup/memory",)}.get(kinds, ())
            for root in map(Path, roots):
                groups += _groups_above(root, path, VERSION_1 if kinds else VERSION_2)
    return groups


def _groups_above(root: Path, path: str, files: GroupFiles) -> Iterator[Group]:
    """Yield those of a control group and its parents that have a limit. In a container the group may be mounted at the root."""
    folder = root / path.lstrip("/")
    for group in dict.fromkeys([folder, *folder.parents, root]):
        if group == root or root in group.parents:
            with contextlib.suppress(OSError, ValueError):
                if min(files.limits(group)) < UNLIMITED_BYTES:
                    yield group, "this container's memory (control group)", files


def kills() -> int:
    """Return the number of processes that the system has killed for lack of memory: in the control groups of this process, or
    else on the whole machine."""
    files = [folder / name for folder, *_ in _groups() for name in ("memory.events", "memory.oom_control")]
    for file in [*files, Path("/proc/vmstat")]:
        with contextlib.suppress(OSError, ValueError, KeyError):
            return _numbers(file)["oom_kill"]
    return 0


def resident(process: int) -> int:
    """Return the resident bytes of a process, without mapped files, which can be read again."""
    words = Path(f"/proc/{process}/statm").read_text().split()
    return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGE_SIZE")


def ours() -> int:
    """Return the resident bytes of this process and all its descendants."""
    return _sum_over_processes(resident)


def peak(process: int | None = None) -> int:
    """Return the peak of resident bytes of a process, by default this one; 0 if the system does not report it."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        for line in Path(f"/proc/{process or os.getpid()}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):  # getrusage starts from the peak of the parent process
                return 1024 * int(line.split()[1])
    return 0 if process else _peak_by_getrusage()


def _peak_by_getrusage() -> int:
    """Return the peak of resident bytes of this process on a system without /proc."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peaks() -> int:
    """Return the sum of the peaks of this process and its running descendants; shared memory counts in each."""
    return _sum_over_processes(peak)


def _sum_over_processes(size_of: Callable[[int], int]) -> int:
    """Return the sum of a function of process ids over this process and all its descendants."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            _, _, fields = (folder / "stat").read_text().rpartition(")")  # after the name, which may contain blanks
            parents[int(folder.name)] = int(fields.split()[1])
    processes, size = {os.getpid()}, 0
    while more := {child for child, parent in parents.items() if parent in processes} - processes:
        processes |= more
    for process in processes:
        with contextlib.suppress(OSError, IndexError, ValueError):
            size += size_of(process)
    return size
