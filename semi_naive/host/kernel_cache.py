"""Compiles kernels by numba, and keeps their machine code in the files of `host.native`.

Numba's own cache is not verified: a truncated file is an error in every later run, and a file with a flipped bit is executed.
Its folder may be writable by other users, and it does not notice changes of functions that a kernel calls. Here each file has a
checksum and lies in a private folder; a file that does not load is compiled again.
"""

import io
import itertools
import logging
import pickle
import secrets
import sys
import time
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from numba import types
from numba.core import environment
from numba.core.bytecode import FunctionIdentity
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.runtime._nrt_python import c_helpers
from numba.core.serialize import dumps

from semi_naive.host import elf, native, private
from semi_naive.host.exclusive import exclusive
from semi_naive.host.signatures import Signature

log = logging.getLogger("semi_naive")

NOTED_COMPILE_SECONDS = 1.0  # seconds of compiling after which a note is logged


# Numba numbers the functions of a process from 1, to tell them apart in symbols. Files of several processes are linked
# together: so each process begins with a random number. (Not public; a test looks for it.)
FunctionIdentity._unique_ids = itertools.count(secrets.randbits(48))


class _Compiling:
    """The state of compilation in this process. seconds: the time it has taken; since: the start of the current one, 0 if there
    is none; noted: True once a note was logged.
    """

    seconds, since, noted = 0.0, 0.0, False


def dispatcher_of(kernel) -> Dispatcher:
    """Return the compiled or loaded kernel of a `host.jit.Kernel`. The kernels that it calls are compiled only if needed. Logs
    a note once compiling has taken NOTED_COMPILE_SECONDS in this process."""
    if native.is_cached(kernel):
        return _make_dispatcher(kernel)
    outermost, now = not _Compiling.since, time.monotonic()  # compiling a kernel compiles those that it calls
    _Compiling.since = _Compiling.since or now
    if not _Compiling.noted and _Compiling.seconds + now - _Compiling.since > NOTED_COMPILE_SECONDS:
        _Compiling.noted = True
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
        with dispatcher._cache.compiled_by_one_process(signature) if kernel.cache else nullcontext():
            dispatcher.compile(signature)
    dispatcher.disable_compile(bool(kernel.signatures))  # with signatures, arguments of other types are an error
    return dispatcher


def _of_numba(signature):
    return signature.of_numba(types) if isinstance(signature, Signature) else signature


def type_of(intrinsic) -> types.Type:
    """Return the type of a numba intrinsic. The typing context is refreshed first, as the intrinsic may be newer."""
    cpu_target.typing_context.refresh()
    return cpu_target.typing_context.resolve_value_type(intrinsic)


class KernelCache:
    """The cache of one kernel, with the interface of `numba.core.caching._Cache`, which a test checks. ours: the signatures of
    `host.signatures` by those of numba."""

    def __init__(self, kernel):
        self.kernel, self.enabled = kernel, True
        self.ours = {_of_numba(signature): signature for signature in kernel.signatures}

    @property
    def cache_path(self) -> str:
        return str(native.cache_folder())

    def compiled_by_one_process(self, signature):
        """Return a context in which only this process compiles a kernel and saves it, if it is not cached."""
        places = self._places(signature)
        return nullcontext() if any(path.exists() for path in places) else exclusive(f"{places[0]}.lock")

    def load_overload(self, signature, context):
        """Return the compiled code for a signature; None if it must be compiled."""
        for path in self._places(signature) if self.enabled else ():
            data = private.load(path)
            if data is not None:
                _add_allocator_symbols()
                try:
                    return _rebuilt(context, io.BytesIO(data))
                except Exception as error:  # an unpickler and a linker raise many types for a file of another build
                    log.info("%s is compiled again, as %s does not load: %r", self.kernel.py_func.__name__, path, error)
        return None

    def save_overload(self, signature, result: CompileResult) -> None:
        """Save the compiled code for a signature, unless it is valid in this process only."""
        if not self.enabled or result.lifted or result.library.has_dynamic_globals:
            return
        path, _ = self._places(signature)
        try:
            private.save_checked(path, _serialized(result))
        except OSError as error:
            log.info("%s is not kept: %s", self.kernel.py_func.__name__, error)

    def enable(self) -> None:
        self.enabled = True

    def disable(self) -> None:
        self.enabled = False

    def flush(self) -> None:
        """Do nothing: entries never become stale."""

    def _places(self, signature) -> tuple[Path, Path]:
        """Return the files of a signature of numba, as `native.places` does."""
        return native.places(self.kernel, self.ours.get(signature, signature))


def _serialized(result: CompileResult) -> bytes:
    """Return the content of a file of machine code: its `ObjectCode`, and numba's pickle of the other parts."""
    # numba's library is (name, "object", (object code, code for inlining)); the environments of callees come last
    (name, kind, (code, inlined)), *others = result._reduce()
    environments = {each.env_name: each for each in (result.environment, *others[-1])}
    module = result.library._final_module
    declared = [each.name for each in (*module.functions, *module.global_variables) if each.is_declaration]
    object_code = native.ObjectCode(
        code,
        result.fndesc.llvm_cpython_wrapper_name,
        [(symbol, each.globals["__name__"], list(each.consts)) for symbol, each in environments.items()],
        [name for name in declared if not name.startswith("llvm.")],
        elf.layout(code),
    )
    return dumps(object_code) + dumps(((name, kind, (None, inlined)), *others))


def _rebuilt(context, stream: io.BytesIO) -> CompileResult:
    """Restore numba's description of a compiled kernel from the content of a file."""
    object_code = pickle.load(stream)
    (name, kind, (_, inlined)), *others = _Loading(stream).load()
    return CompileResult._rebuild(context, (name, kind, (object_code.code, inlined)), *others)


class _Loading(pickle.Unpickler):
    """An unpickler of machine code. It does not load the kernel's module for numba's environments."""

    def find_class(self, module, name):
        return _environment if (module, name) == (environment.__name__, "_rebuild_env") else super().find_class(module, name)


def _environment(module: str, consts, name: str):
    """Return the environment of a name; replaces numba's `_rebuild_env`, which would load the module."""
    found = environment.lookup_environment(name)
    if found is None:
        found = environment.Environment(vars(sys.modules[module]) if module in sys.modules else {"__name__": module})
        found.consts[:], found.env_name = consts, name
        environment.Environment._memo[name] = found
    return found


@cache
def _add_allocator_symbols() -> None:
    """Add the addresses of numba's allocation functions to the linker's symbols, once. `Context.refresh` does that too, but
    loads all that a compiler needs: 0.4 seconds, and 0.7 if scipy is installed."""
    for name, place in c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", place)
