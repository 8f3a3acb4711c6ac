"""`njit` of numba, lazily: a kernel is compiled, or its machine code is loaded, when that pays.

Loading numba takes half a second, and compiling a kernel another half. So a kernel runs as the Python that it is while its
arrays are small, until all kernels together have taken PATIENCE seconds so. Then numba is loaded, and each kernel's machine
code, once the kernel has a large array or has taken as long as that itself. A kernel means the same both ways: the types of
`host.signatures` see to its arguments and to what it returns. With NUMBA_DISABLE_JIT=1 nothing is ever compiled.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from semi_naive.host.account import part
from semi_naive.host.interrupts import deferred, interrupt_in, locked
from semi_naive.host.signatures import Signature, types

__all__ = ["Kernel", "load_kernels", "njit", "types"]

log = logging.getLogger("semi_naive")

FEW = 2000  # numbers in the arrays of a call: 2 ms uncompiled, where a pass over them is all there is
PATIENCE = 0.3  # seconds
FEWEST = 50  # for which machine code is not even loaded
LOADING, COMPILING = 0.001, 0.3  # seconds that a kernel may take uncompiled before it is loaded, once numba is, or compiled

mode = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0" and "uncompiled" or "auto"  # or "compiled"

_alone = threading.RLock()
_known: list[Kernel] = []  # that have signatures


class _Now(threading.local):
    """Whether this thread is in a kernel that runs uncompiled."""

    uncompiled = False


_now = _Now()


class _Spent:
    """Of all kernels, uncompiled; until they were compiled, or their machine code was loaded; whether numba has been loaded."""

    seconds = 0.0
    loading = 0.0, 0.0
    numba = False


def njit(*given, cache=False, few=FEW, scratch="", uncompiled=None, **options):
    """As `numba.njit`. few: so many numbers in its arrays are little work, but for those of `scratch`, names of arguments that
    have room for more than is made; uncompiled: what to run instead of its own lines until it is compiled, if numpy has it.
    With signatures, one process of the host compiles a kernel, and the others wait for it."""
    if len(given) == 1 and isinstance(given[0], FunctionType):
        return njit(cache=cache, **options)(given[0])
    signatures = given[0] if given and isinstance(given[0], list) else given
    return lambda function: Kernel(function, list(signatures), cache, few, scratch.split(), uncompiled or function, options)


@dataclass(eq=False)
class Kernel:
    """A function that may be compiled. numba reads `py_func`, `targetoptions` and `_numba_type_`, as of a dispatcher, when it
    compiles what calls the kernel."""

    py_func: Callable
    signatures: list
    cache: bool
    few: int
    scratch: list[str]
    uncompiled: Callable
    targetoptions: dict
    dispatcher: Any = None
    seconds: float = 0.0  # that it has taken uncompiled
    worth: float | None = None  # and may, before it is compiled or loaded; not known until numba is loaded

    def __post_init__(self):
        functools.update_wrapper(self, self.py_func)
        names = self.py_func.__code__.co_varnames[: self.py_func.__code__.co_argcount]
        self.counted = [place for place, name in enumerate(names) if name not in self.scratch]
        self.typed = all(isinstance(one, Signature) for one in self.signatures)
        if self.signatures:
            _known.append(self)

    def __call__(self, *given):
        if self.dispatcher is None and (_now.uncompiled or self._small(given)):
            return self._run(given) if _now.uncompiled else self._timed(given)
        try:
            return (self.dispatcher or self.compiled())(*given)
        except SystemError as error:  # numba makes one of an interrupt
            raise interrupt_in(error) from None

    def __reduce__(self):
        return self.py_func.__qualname__

    def _small(self, given) -> bool:
        """Whether it is not worth while to have it compiled for this call."""
        if not self.typed or mode != "auto":
            return mode == "uncompiled"
        numbers = sum(given[place].size for place in self.counted if isinstance(given[place], np.ndarray))
        if numbers > self.few:
            return False
        if not _Spent.numba and _Spent.seconds < PATIENCE:
            return True
        _Spent.numba = True
        if self.worth is None:
            with part("kernels"), deferred():  # as numba may be loaded
                from semi_naive.host.kernel_cache import is_cached

                self.worth = LOADING if is_cached(self) else COMPILING
        return self.seconds < self.worth and (self.worth > LOADING or numbers <= FEWEST)

    def _timed(self, given):
        """As Python, with all kernels that it calls; unsigned arithmetic wraps around."""
        begun, _now.uncompiled = time.perf_counter(), True
        try:
            with np.errstate(over="ignore"):
                return self._run(given)
        finally:
            _now.uncompiled = False  # before a call, at which an interrupt may come
            spent = time.perf_counter() - begun
            self.seconds += spent
            _Spent.seconds += spent

    def _run(self, given):
        if not self.signatures:
            return self.uncompiled(*given)
        signature, values = self._matching(given)
        return signature.result.returned(self.uncompiled(*values))

    def _matching(self, given) -> tuple[Signature, list]:
        for signature in self.signatures[:-1]:
            try:
                return signature, signature.given(given)
            except TypeError:
                pass
        return self.signatures[-1], self.signatures[-1].given(given)

    @property
    def _numba_type_(self):
        return self.compiled()._numba_type_

    def compiled(self):
        """What numba makes of it."""
        if self.dispatcher is None:
            with part("kernels"), locked(_alone), deferred():  # what the linker calls loses an interrupt
                if self.dispatcher is None:
                    from semi_naive.host.kernel_cache import dispatcher_of

                    _Spent.numba, known, begun = True, _Spent.loading, (time.perf_counter(), time.process_time())
                    self.dispatcher = dispatcher_of(self)
                    spent = time.perf_counter() - begun[0], time.process_time() - begun[1]
                    _Spent.loading = known[0] + spent[0], known[1] + spent[1]  # with those that this one calls
        return self.dispatcher


def defined_kernels() -> list[Kernel]:
    """The kernels that have been defined with signatures so far, without those that are only ever called by others."""
    return list(_known)


def load_kernels(names: Iterable[str] = ()) -> None:
    """Load the machine code of kernels, as far as there is any, 5 ms each: those of some names, as "words.sort", or all that
    have been defined, for a process that forks others."""
    with deferred():
        from semi_naive.host.kernel_cache import is_cached

    _Spent.numba, names = True, set(names)
    for kernel in _known:
        if mode != "uncompiled" and (not names or name_of(kernel) in names) and is_cached(kernel):
            kernel.compiled()


def seconds_loading() -> tuple[float, float]:
    """Seconds that have passed until kernels were compiled, or their machine code was loaded, and of this process's work."""
    return _Spent.loading


def name_of(kernel: Kernel) -> str:
    """Its name, with the last part of its module's."""
    return f"{kernel.py_func.__module__.rpartition('.')[2]}.{kernel.py_func.__name__}"
