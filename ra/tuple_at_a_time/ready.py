"""Decide when to load the tuple-at-a-time machine, and compile it in the background if it was never compiled on this computer.

Loading its machine code takes 0.03 s, as long as a small program runs, and compiling it as long as a large one. So each waits
until enough time has been spent in small iterations.
"""

import logging
import os
import sys
import time
from typing import TYPE_CHECKING

from semi_naive.host import jit, leftovers
from semi_naive.host.account import part
from semi_naive.host.interrupts import deferred

if TYPE_CHECKING:
    import subprocess

LOADING_SECONDS = 0.03  # time spent in small iterations after which the machine is loaded
COMPILING_SECONDS = 0.5  # time spent in small iterations after which a background process compiles the machine
RECHECK_SECONDS = 0.1  # time between two checks whether compilation has finished; a check takes 0.2 ms
COMPILE = "from semi_naive.ra.tuple_at_a_time.ready import compile_machine; compile_machine()"


log = logging.getLogger("semi_naive")


class _Compilation:
    """The background process that compiles the machine, if any. next_check: the time (`time.monotonic`) from which it is
    checked whether the machine can be loaded."""

    process: "subprocess.Popen | None" = None
    next_check = 0.0


def machine_is_ready(spent: float) -> bool:
    """True if the machine is loaded, so that small iterations can use it. spent: seconds that small iterations of this stratum
    have taken a block at a time. Starts compilation in the background if necessary."""
    if jit.mode != "auto" or _loaded():
        return jit.mode != "uncompiled"
    if spent < LOADING_SECONDS or time.monotonic() < _Compilation.next_check:
        return False
    _Compilation.next_check = time.monotonic() + RECHECK_SECONDS
    _load(spent)
    return _loaded()


def compile_machine() -> None:
    """Compile the machine's kernels, or load them from the cache."""
    from semi_naive.ra.tuple_at_a_time.machine import KERNELS

    for kernel in KERNELS:
        kernel.compiled()


@part("kernels")
def _load(spent: float) -> None:
    """Load the machine if its kernels are compiled; else start to compile them, once enough time was spent. Log a failure."""
    with deferred():
        from semi_naive.host.native import is_cached
        from semi_naive.ra.tuple_at_a_time.machine import KERNELS

    if all(map(is_cached, KERNELS)):
        compile_machine()
    elif spent > COMPILING_SECONDS and _Compilation.process is None:
        _Compilation.process = _start_compilation()
    elif _Compilation.process is not None and _Compilation.process.poll():
        log.warning("kernels could not be compiled, so small iterations take longer; why: %s -c '%s'", sys.executable, COMPILE)
        _Compilation.next_check = float("inf")  # never again


def _loaded() -> bool:
    """True if the machine is loaded."""
    machine = sys.modules.get(f"{__package__}.machine")
    return machine is not None and all(kernel.entry is not None for kernel in machine.KERNELS)


def _start_compilation() -> "subprocess.Popen":
    """Start a process that compiles the machine. It ends with this process."""
    import subprocess

    command, environment, unread = [sys.executable, "-c", COMPILE], os.environ.copy(), subprocess.DEVNULL
    process = subprocess.Popen(
        command, env=environment, start_new_session=True, stdin=subprocess.PIPE, stdout=unread, stderr=unread
    )
    leftovers.add_process(process)
    return process
