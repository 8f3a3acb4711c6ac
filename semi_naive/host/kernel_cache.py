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
    """The state of compilation in this process: the time it has taken, the start of the current one, and whether a note was
    logged.
    """

    seconds, since, told = 0.0, 0.0, False


def dispatcher_of(kernel) -> Dispatcher:
    """The compiled or loaded kernel of a `host.jit.Kernel`. The kernels that it calls are compiled only if needed."""
    if native.is_cached(kernel):
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
        self.ours = {_of_numba(signature): signature for signature in kernel.signatures}

    @property
    def cache_path(self) -> str:
        return str(native.cache_folder())

    def made_by_one(self, signature):
        """Hold the lock under which one process compiles a kernel and saves it."""
        places = self._places(signature)
        return nullcontext() if any(path.exists() for path in places) else exclusive(f"{places[0]}.lock")

    def load_overload(self, signature, context):
        """Return the compiled code for a signature; None if it must be compiled."""
        for path in self._places(signature) if self.enabled else ():
            data = private.load(path)
            if data is not None:
                _name_allocator()
                try:
                    return _rebuilt(context, io.BytesIO(data))
                except Exception as error:  # an unpickler and a linker raise many types for a file of another build
                    log.info("%s is compiled again, as %s does not load: %r", self.kernel.py_func.__name__, path, error)
        return None

    def save_overload(self, signature, made) -> None:
        """Save the compiled code for a signature."""
        if not self.enabled or made.lifted or made.library.has_dynamic_globals:  # addresses of this process
            return
        path, _ = self._places(signature)
        try:
            private.save_checked(path, _serialized(made))
        except OSError as error:
            log.info("%s is not kept: %s", self.kernel.py_func.__name__, error)

    def enable(self) -> None:
        self.enabled = True

    def disable(self) -> None:
        self.enabled = False

    def flush(self) -> None:
        """Do nothing: entries never become stale."""

    def _places(self, signature) -> tuple[Path, Path]:
        return native.places(self.kernel, self.ours.get(signature, signature))


def _serialized(made: CompileResult) -> bytes:
    """Return the content of a file of machine code: its `ObjectCode`, and what numba makes of the rest."""
    (name, kind, (code, inlined)), *others = made._reduce()
    environments = {each.env_name: each for each in (made.environment, *others[-1])}
    module = made.library._final_module
    declared = [each.name for each in (*module.functions, *module.global_variables) if each.is_declaration]
    object_code = native.ObjectCode(
        code,
        made.fndesc.llvm_cpython_wrapper_name,
        [(symbol, each.globals["__name__"], list(each.consts)) for symbol, each in environments.items()],
        [name for name in declared if not name.startswith("llvm.")],
        elf.layout(code),
    )
    return dumps(object_code) + dumps(((name, kind, (None, inlined)), *others))


def _rebuilt(context, stream: io.BytesIO) -> CompileResult:
    """Make numba's description of a compiled kernel of the content of a file."""
    object_code = pickle.load(stream)
    (name, kind, (_, inlined)), *others = _Loading(stream).load()
    return CompileResult._rebuild(context, (name, kind, (object_code.code, inlined)), *others)


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
