"""A cache of kernels compiled by numba: machine code in files, keyed by everything that determines it.

Numba's own cache is not verified: a truncated file is an error in every later run, and a file with a flipped bit is executed.
Its folder may be writable by other users, and it does not notice changes of functions that a kernel calls. Here each file has a
checksum and lies in a private folder; a file that does not load is compiled again.
"""

import io
import logging
import pickle
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from llvmlite import binding
from numba import types
from numba.core import environment
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.runtime._nrt_python import c_helpers
from numba.core.serialize import dumps

from semi_naive.host import private
from semi_naive.host.exclusive import exclusive
from semi_naive.host.signatures import Signature

log = logging.getLogger("semi_naive")

OURS = __name__.split(".")[0]
NOTED_COMPILE_SECONDS = 1.0  # seconds of compiling after which a note is logged


class _Compiling:
    """The state of compilation in this process: the time it has taken, the start of the current one, and whether a note was
    logged.
    """

    seconds, since, told = 0.0, 0.0, False


def dispatcher_of(kernel) -> Dispatcher:
    """The compiled or loaded kernel of a `host.jit.Kernel`. The kernels that it calls are compiled only if needed."""
    if is_cached(kernel):
        return _make_dispatcher(kernel)
    outermost, now = not _Compiling.since, time.monotonic()
    _Compiling.since = _Compiling.since or now
    if not _Compiling.told and _Compiling.seconds + now - _Compiling.since > NOTED_COMPILE_SECONDS:
        _Compiling.told = True
        log.getChild("compiling").info("compiling kernels that are new on this machine: some seconds, once")
    try:
        return _make_dispatcher(kernel)
    finally:
        if outermost:
            _Compiling.seconds, _Compiling.since = _Compiling.seconds + time.monotonic() - _Compiling.since, 0.0


def _make_dispatcher(kernel) -> Dispatcher:
    """Compile a kernel for its signatures, or load its machine code from the cache."""
    dispatcher: Any = numba.njit(**kernel.targetoptions)(kernel.py_func)
    if kernel.cache:
        dispatcher._cache = KernelCache(kernel)  # not public; `Dispatcher.enable_caching` sets it
    for signature in map(_of_numba, kernel.signatures):
        with dispatcher._cache.made_by_one(signature) if kernel.cache else nullcontext():
            dispatcher.compile(signature)
    dispatcher.disable_compile(bool(kernel.signatures))
    return dispatcher


def is_cached(kernel) -> bool:
    """True if the machine code of a kernel is cached."""
    cache = KernelCache(kernel)
    return kernel.cache and all(cache.kept(_of_numba(signature)) for signature in kernel.signatures)


def machine_code(kernel) -> list[Path]:
    """The files of a kernel in the cache, one for each signature."""
    return [path for signature in kernel.signatures if (path := KernelCache(kernel).path(_of_numba(signature))).exists()]


def object_code(kernel) -> tuple[str, bytes] | None:
    """Return (symbol, object code) of a cached kernel with one signature: of its function in numba's calling convention, which
    takes (where the result goes, where an exception goes, *arguments). None if it is not cached."""
    cache, signature = KernelCache(kernel), _of_numba(kernel.signatures[0])
    data = next(filter(None, map(private.load, cache.places(signature))), None)
    if data is None:
        return None
    (_, kind, code), described, *_ = _Loading(io.BytesIO(data)).load()
    return (described.mangled_name, code[0]) if kind == "object" else None


def _of_numba(signature):
    return signature.of_numba(types) if isinstance(signature, Signature) else signature


def type_of(intrinsic) -> types.Type:
    """The type of a numba intrinsic. The typing context is refreshed first, as the intrinsic may have been made while
    compiling."""
    cpu_target.typing_context.refresh()
    return cpu_target.typing_context.resolve_value_type(intrinsic)


class KernelCache:
    """The cache of one kernel, with the interface of `numba.core.caching._Cache`, which a test checks."""

    def __init__(self, kernel):
        self.kernel, self.enabled = kernel, True

    @property
    def cache_path(self) -> str:
        return str(cache_folder())

    def made_by_one(self, signature):
        """Hold the lock under which one process compiles a kernel and saves it."""
        return nullcontext() if self.kept(signature) else exclusive(f"{self.path(signature)}.lock")

    def kept(self, signature) -> bool:
        return any(path.exists() for path in self.places(signature))

    def load_overload(self, signature, context):
        """Return the compiled code for a signature; None if it must be compiled."""
        for path in self.places(signature) if self.enabled else ():
            data = private.load(path)
            if data is not None:
                _name_allocator()
                try:
                    return CompileResult._rebuild(context, *_Loading(io.BytesIO(data)).load())
                except Exception as error:  # an unpickler and a linker raise many types for a file of another build
                    log.info("%s is compiled again, as %s does not load: %r", self.kernel.py_func.__name__, path, error)
        return None

    def save_overload(self, signature, made) -> None:
        """Save the compiled code for a signature."""
        if not self.enabled or made.lifted or made.library.has_dynamic_globals:  # addresses of this process
            return
        path = self.path(signature)
        try:
            private.save_checked(path, dumps(made._reduce()))
        except OSError as error:
            log.info("%s is not kept: %s", self.kernel.py_func.__name__, error)

    def enable(self) -> None:
        self.enabled = True

    def disable(self) -> None:
        self.enabled = False

    def flush(self) -> None:
        """Do nothing: entries never become stale."""

    def places(self, signature) -> tuple[Path, Path]:
        """Return the files in which its machine code may be: in the cache, and in the package if it was installed from a
        wheel."""
        path = self.path(signature)
        return path, wheel_kernels() / path.name

    def path(self, signature) -> Path:
        return cache_folder() / _name(self.kernel, str(signature))


class _Loading(pickle.Unpickler):
    """An unpickler of machine code. It does not import the modules of numba that convert results for interpreted code, which
    machine code without Python objects does not need.
    """

    def find_class(self, module, name):
        return _environment if (module, name) == (environment.__name__, "_rebuild_env") else super().find_class(module, name)


def _environment(module: str, consts, name: str):
    """Replaces numba's `_rebuild_env`: an environment for functions of a module that need not be loaded."""
    found = environment.lookup_environment(name)
    if found is None:
        found = environment.Environment(vars(sys.modules[module]) if module in sys.modules else {"__name__": module})
        found.consts[:], found.env_name = consts, name
        environment.Environment._memo[name] = found
    return found


@cache
def _name_allocator() -> None:
    """Tell the linker the addresses of numba's allocation functions. `Context.refresh` does that too, but loads all that a
    compiler needs: 0.4 seconds, and 0.7 if scipy is installed. Compiling refreshes the context anyway."""
    for name, place in c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", place)


@cache
def _name(kernel, signature: str) -> str:
    """The name of a file of machine code."""
    name = f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}".removeprefix(f"{OURS}.")
    machine = cpu_target.target_context.codegen().magic_tuple()
    parts = sys.version, numba.__version__, np.__version__, machine, signature, name
    return f"{name}-{private.digest(*parts, *kernel_inputs(kernel))}"


@cache
def cache_folder() -> Path:
    """The folder of the cache."""
    return private.cache("kernels")


@cache
def wheel_kernels() -> Path:
    """Return the folder of the kernels installed from a wheel (see `setup.py`), as trustworthy as the package itself. A source
    checkout has none; it uses those of an installed wheel, whose names match if the code is the same."""
    own = Path(sys.modules[OURS].__file__ or "").with_name("kernels")
    installed = (folder for entry in sys.path if (folder := Path(entry, OURS, "kernels")).is_dir())
    return own if own.is_dir() else next(installed, own)


@cache
def kernel_inputs(kernel) -> tuple:
    """Return everything that determines a kernel's machine code: its options and code, and those of the functions that it
    calls."""
    return tuple(_fingerprint_parts(kernel, set()))


def _fingerprint_parts(thing, seen: set) -> Iterator:
    """Yield the parts of a kernel, function or constant that determine machine code."""
    if hasattr(thing, "py_func"):  # a kernel
        yield sorted(map(repr, thing.targetoptions.items()))
        yield from _fingerprint_parts(thing.py_func, seen)
    elif isinstance(thing, FunctionType) and thing not in seen:
        seen.add(thing)
        yield from _code(thing.__code__)
        for used in _globals_of(thing):
            yield from _fingerprint_parts(used, seen)
    elif isinstance(thing, int | float | str | tuple | np.generic):
        yield repr(thing)
    elif isinstance(thing, np.ndarray):
        yield thing.dtype.str, thing.shape, thing.tobytes()
    elif (module := getattr(thing, "__module__", "") or "").startswith(f"{OURS}."):  # an `Instruction`
        yield _source(module)


def _globals_of(function: FunctionType) -> Iterator:
    """The globals that a function refers to, including attributes of our modules, and the values that it closes over."""
    names = function.__code__.co_names
    for name in names:
        found = function.__globals__.get(name)
        if isinstance(found, ModuleType) and found.__name__.startswith(f"{OURS}."):
            yield from (vars(found)[inner] for inner in names if inner in vars(found))
        else:
            yield found
    yield from (cell.cell_contents for cell in function.__closure__ or ())


def _code(code: CodeType) -> Iterator:
    """Yield the parts of a function's code that determine machine code."""
    yield code.co_code, code.co_names, code.co_varnames
    for constant in code.co_consts:
        yield from _code(constant) if isinstance(constant, CodeType) else [repr(constant)]


@cache
def _source(module: str) -> str:
    return Path(sys.modules[module].__file__ or "").read_text()
