"""Whether the machine is at hand: loading it takes as long as a small program, and compiling it as long as a large one."""

import os
import subprocess
import sys

from semi_naive.balance import jit, leftovers
from semi_naive.balance.account import part

LOADED = 0.1  # seconds of small iterations a block at a time, after which numba is worth loading
COMPILED = 0.5  # and after which the machine is compiled, by another process beside this one
COMPILE = "from semi_naive.ra.tuple_at_a_time.machine import KERNELS; [kernel.compiled() for kernel in KERNELS]"


class _Beside:
    """The process that compiles the machine, once one does."""

    process: subprocess.Popen | None = None


def ready(spent: float) -> bool:
    """Whether small iterations, which have taken so many seconds a block at a time in this stratum, go to the machine from now
    on. Where it has never been compiled on this computer, another process begins to do so."""
    if jit.mode != "auto" or _loaded():
        return jit.mode != "uncompiled"
    if spent < LOADED:
        return False
    _load(spent)
    return _loaded()


@part("kernels")
def _load(spent: float) -> None:
    """The machine, or begin to compile it."""
    from semi_naive.balance.kernel_cache import kept
    from semi_naive.ra.tuple_at_a_time.machine import KERNELS

    if all(map(kept, KERNELS)):
        for kernel in KERNELS:
            kernel.compiled()
    elif spent > COMPILED and _Beside.process is None:
        _Beside.process = _compiling()


def _loaded() -> bool:
    machine = sys.modules.get(f"{__package__}.machine")
    return machine is not None and all(kernel.dispatcher is not None for kernel in machine.KERNELS)


def _compiling() -> subprocess.Popen:
    """A process that ends with this one."""
    nothing = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-c", COMPILE], env=os.environ.copy(), start_new_session=True, **nothing)
    leftovers.add_process(process)
    return process
