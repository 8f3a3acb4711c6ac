"""A lazy `njit`: a kernel is compiled, or its machine code loaded, only when that is worth the time.

A kernel runs as plain Python while its arrays are small, until all kernels together have taken as long that way as LLVM takes
to load. Then the machine code of a kernel is loaded once it gets a large array, or has run as long as loading takes
(`host.native`). If it is not cached, numba compiles it: its import takes up to half a second, and a kernel another half.
Results are the same in all cases: the types of `host.signatures` convert arguments and results. With NUMBA_DISABLE_JIT=1
nothing is ever compiled.
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

import numpy as np

from semi_naive.host.account import part
from semi_naive.host.interrupts import deferred, interrupt_in, locked
from semi_naive.host.signatures import Signature, types

__all__ = ["Kernel", "load_kernels", "njit", "types"]

log = logging.getLogger("semi_naive")

UNCOMPILED_NUMBERS = 2000  # numbers in the arrays of a call below which it runs uncompiled: 2 ms for one pass over them
UNLOADED_SECONDS = 0.03  # seconds of uncompiled kernels in total, before LLVM is loaded: as long as loading takes
UNCOMPILED_SECONDS = 0.2  # the same before numba is imported, for kernels that are not cached
NUMPY_NUMBERS = 1 << 17  # the same for a kernel with a numpy function: 1 ms
UNLOADED_NUMBERS = 50  # numbers in the arrays of a call below which not even machine code is loaded
LOADING, COMPILING = 0.001, 0.3  # seconds that a kernel may run uncompiled before it is loaded, or compiled

mode = "auto" if os.environ.get("NUMBA_DISABLE_JIT", "0") == "0" else "uncompiled"  # tests also set "compiled"

_lock = threading.RLock()
_kernels: list[Kernel] = []  # all kernels that have signatures


class _ThreadState(threading.local):
    """The state of a thread. uncompiled: True while it runs a kernel uncompiled, and so the kernels that this one calls."""

    uncompiled = False


_thread = _ThreadState()


class _Process:
    """The state of this process. seconds: the time that kernels have run uncompiled; loaded: True once machine code has been
    loaded."""

    seconds = 0.0
    loaded = False


def njit(*arguments, cache=False, few=None, scratch="", uncompiled=None, **options):
    """Make a kernel of a function, as a decorator used like `numba.njit`; arguments: the function, or the signatures.

    few: the numbers in the arguments' arrays below which a call is not worth compiling, by default `UNCOMPILED_NUMBERS`, or
    `NUMPY_NUMBERS`; scratch: names of arguments that do not count, as they are buffers, separated by blanks.
    uncompiled: a numpy function to run instead of the kernel's Python until it is compiled.

    With signatures, one process of the host compiles a kernel, and the others wait for it.
    """
    if len(arguments) == 1 and isinstance(arguments[0], FunctionType):
        return njit(cache=cache, **options)(arguments[0])
    signatures = arguments[0] if arguments and isinstance(arguments[0], list) else arguments
    few = few or (NUMPY_NUMBERS if uncompiled else UNCOMPILED_NUMBERS)
    return lambda function: Kernel(function, list(signatures), cache, few, scratch.split(), uncompiled or function, options)


@dataclass(eq=False)
class Kernel:
    """A function that may be compiled. It has the attributes of a dispatcher that numba reads when it compiles a caller:
    `py_func`, `targetoptions` and `_numba_type_`. few, scratch, uncompiled: see `njit`. counted: the places of the arguments
    whose sizes are compared with `few`."""

    py_func: Callable
    signatures: list
    cache: bool
    few: int
    scratch: list[str]
    uncompiled: Callable
    targetoptions: dict
    entry: Callable | None = None  # the machine code, once it is loaded or compiled
    seconds: float = 0.0  # the time that it has run uncompiled
    patience: float | None = None  # LOADING if its machine code is cached, else COMPILING; unknown until LLVM is loaded

    def __post_init__(self):
        functools.update_wrapper(self, self.py_func)
        names = self.py_func.__code__.co_varnames[: self.py_func.__code__.co_argcount]
        self.counted = [place for place, name in enumerate(names) if name not in self.scratch]
        self.typed = all(isinstance(signature, Signature) for signature in self.signatures)
        if self.signatures:
            _kernels.append(self)

    def __call__(self, *arguments):
        if self.entry is None and (_thread.uncompiled or self._is_small_call(arguments)):
            # a kernel that another one calls is part of the other's time
            return self._run(arguments) if _thread.uncompiled else self._run_timed(arguments)
        try:
            return (self.entry or self.compiled())(*arguments)
        except SystemError as error:  # numba turns an interrupt into one
            raise interrupt_in(error) from None

    def __reduce__(self):
        return self.py_func.__qualname__  # pickled as a global of its module, like a function

    def _is_small_call(self, arguments) -> bool:
        """True if loading or compiling machine code is not worth while for a call."""
        if not self.typed or mode != "auto":  # signatures of numba cannot convert arguments for uncompiled code
            return mode == "uncompiled"
        numbers = sum(arguments[place].size for place in self.counted if isinstance(arguments[place], np.ndarray))
        if numbers > self.few:
            return False
        if _Process.seconds < UNLOADED_SECONDS and not _Process.loaded:
            return True
        if self.patience is None:
            with part("kernels"), deferred():  # as LLVM may be loaded
                from semi_naive.host.native import is_cached

                self.patience = LOADING if is_cached(self) else COMPILING
        if self.patience == COMPILING:
            return self.seconds < COMPILING or _Process.seconds < UNCOMPILED_SECONDS
        return self.seconds < LOADING and numbers <= UNLOADED_NUMBERS

    def _run_timed(self, arguments):
        """Run the kernel and the kernels that it calls as Python, with unsigned arithmetic that wraps around, and add the time
        to that of uncompiled kernels."""
        begun = time.perf_counter()
        try:
            try:
                _thread.uncompiled = True
                with np.errstate(over="ignore"):
                    return self._run(arguments)
            finally:
                _thread.uncompiled = False
                spent = time.perf_counter() - begun
                self.seconds += spent
                _Process.seconds += spent
        finally:
            # again, as an interrupt may come before the line above: all kernels would run uncompiled from then on
            _thread.uncompiled = False

    def _run(self, arguments):
        """Call the uncompiled function with arguments and result converted as compiled code does."""
        if not self.signatures:
            return self.uncompiled(*arguments)
        signature, values = self._converted(arguments)
        return signature.result.as_result(self.uncompiled(*values))

    def _converted(self, arguments) -> tuple[Signature, list]:
        """Return the first signature that accepts the arguments, and the arguments converted to its types."""
        for signature in self.signatures[:-1]:
            try:
                return signature, signature.as_argument(arguments)
            except TypeError:
                pass
        return self.signatures[-1], self.signatures[-1].as_argument(arguments)

    @property
    def _numba_type_(self):
        return self.dispatcher._numba_type_

    @functools.cached_property
    def dispatcher(self):
        """The kernel as numba knows it, for callers that it compiles."""
        from semi_naive.host.kernel_cache import dispatcher_of

        return dispatcher_of(self)

    def compiled(self) -> Callable:
        """Return the machine code of the kernel, loaded or compiled."""
        if self.entry is None:
            with part("kernels"), locked(_lock), deferred():  # an interrupt is lost in Python code that the linker calls
                if self.entry is None:
                    _Process.loaded = True
                    self.entry = self._loaded() or self.dispatcher
        return self.entry

    def _loaded(self) -> Callable | None:
        """Return the machine code of the kernel without numba, None if it is not cached."""
        if not (self.typed and self.signatures and self.cache):
            return None
        from semi_naive.host import native

        functions = native.load(self)
        if functions is None:
            return None
        checked = [signature.checking(each) for signature, each in zip(self.signatures, functions, strict=True)]
        if len(checked) == 1:
            return checked[0]

        def dispatch(*arguments):
            signature, _ = self._converted(arguments)
            return checked[self.signatures.index(signature)](*arguments)

        return dispatch


def defined_kernels() -> list[Kernel]:
    """Return the kernels defined with signatures so far. A kernel without signatures is called only by other kernels."""
    return list(_kernels)


def load_kernels(names: Iterable[str] = ()) -> None:
    """Load the machine code of kernels, if it is cached, before this process forks others. names: as "words.sort"; none: all
    kernels that are defined."""
    with deferred():
        from semi_naive.host.native import is_cached

    names = set(names)
    for kernel in _kernels:
        if mode != "uncompiled" and (not names or name_of(kernel) in names) and is_cached(kernel):
            kernel.compiled()


def name_of(kernel: Kernel) -> str:
    """Return the name of a kernel after the last part of its module's name, as "words.sort"."""
    return f"{kernel.py_func.__module__.rpartition('.')[2]}.{kernel.py_func.__name__}"
