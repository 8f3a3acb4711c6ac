"""Machine code of kernels in files, and its loading without numba.

Importing LLVM takes 0.02 s and 45 MB, numba 0.1 s and 20 MB more, and then 5 ms to rebuild the types of each kernel. But the
object code that numba has compiled is complete: it has a function for calls from Python, and refers only to Python and to three
small C modules of numba, which are loaded here without the package. Where `host.elf` has laid it out, it is loaded in 0.1 ms;
elsewhere LLVM loads it, in 0.4 ms.

A file is named by all that determines its code, and has a checksum. It begins with a pickled `ObjectCode`; what numba needs to
compile callers of the kernel follows (`kernel_cache`).
"""

import contextlib
import ctypes
import functools
import importlib.machinery
import importlib.util
import itertools
import logging
import mmap
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import pack_into
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from semi_naive.host import private

log = logging.getLogger("semi_naive")

OURS = __name__.split(".")[0]
FORMAT = 4  # of the files
OPTIMIZATION = 3  # of LLVM's target, as numba has it; nothing is compiled here
# Of Linux's description of a processor: its kind and its instructions, on x86 and on ARM.
PROCESSOR_FIELDS = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU architecture", "CPU part", "Features")
SERIALIZE, HASH_BYTES = "numba.core.serialize", 20  # where numba unpickles, and the size of a hash there


class ObjectLayout(NamedTuple):
    """The places in memory of an object file's parts. All offsets are from the start of a mapping of `size` bytes.

    sections: (position in the file, bytes, offset); variables: the offset of the writable part, at a page's start.
    symbols: the offsets of functions and variables by name.
    inner: (offset, offset whose address goes there); outer: for a symbol elsewhere (offset, addend).
    """

    size: int
    variables: int
    sections: list[tuple[int, int, int]]
    symbols: dict[str, int]
    inner: list[tuple[int, int]]
    outer: dict[str, list[tuple[int, int]]]


class ObjectCode(NamedTuple):
    """The machine code of a kernel for one signature.

    code: an object file; entry: the symbol of its function for calls from Python.
    environments: (symbol, module, constants) of each of its functions, the first for `entry`. A variable with this symbol must
    have the address of an object with the constants, such as numpy's types of returned arrays.
    externals: the symbols that it refers to. layout: of the object file, if LLVM is not needed.
    """

    code: bytes
    entry: str
    environments: list[tuple[str, str, list]]
    externals: list[str]
    layout: ObjectLayout | None


def load(kernel) -> list[Callable] | None:
    """Return a kernel's functions, one for each signature, or None if its machine code is not cached or does not load. They do
    not check the types of arrays."""
    functions = []
    for signature in kernel.signatures:
        cached_files = ((path, data) for path in places(kernel, signature) if (data := private.load(path)))
        path, data = next(cached_files, (None, None))
        if data is None:
            return None
        try:
            functions.append(_link(kernel.py_func, pickle.loads(data)))
        except Exception as error:  # an unpickler and a linker raise many types for a file of another build
            log.info("%s is loaded by numba, as %s does not load: %r", kernel.py_func.__name__, path, error)
            return None
    return functions


def is_cached(kernel) -> bool:
    """True if the machine code of a kernel is cached for all of its signatures."""
    return kernel.cache and all(any(path.exists() for path in places(kernel, each)) for each in kernel.signatures)


def files(kernel) -> list[Path]:
    """Return the existing files of a kernel in the cache, without those of a wheel: one for each signature."""
    in_cache = (path for path, _ in (places(kernel, signature) for signature in kernel.signatures))
    return [path for path in in_cache if path.exists()]


def places(kernel, signature) -> tuple[Path, Path]:
    """Return the files in which the machine code may be: in the cache, and in the package if it was installed from a wheel."""
    name = _file_name(kernel, str(signature))
    return cache_folder() / name, wheel_kernels() / name


@functools.cache
def cache_folder() -> Path:
    """Return the folder of cached machine code, which is made if it is missing."""
    return private.cache("kernels")


@functools.cache
def wheel_kernels() -> Path:
    """Return the folder of the kernels installed from a wheel (see `setup.py`), as trustworthy as the package itself. A source
    checkout has none; it uses those of an installed wheel, whose names match if the code is the same."""
    own = Path(sys.modules[OURS].__file__ or "").with_name("kernels")
    installed = (folder for entry in sys.path if (folder := Path(entry, OURS, "kernels")).is_dir())
    return own if own.is_dir() else next(installed, own)


# -- linking


class _Linker:
    """The machine code that this process has loaded.

    helpers: numba's C modules; addresses: of the symbols in them, and of Python's objects; engine: LLVM's, if it has code.
    kept_alive: memory that code is in or refers to.
    """

    helpers: dict[str, ModuleType] = {}
    addresses: dict[str, int] = {}
    engine: Any = None
    kept_alive: list = []


def _link(function: FunctionType, object_code: ObjectCode) -> Callable:
    """Link object code, and return its function for calls from Python, which gets the name and docstring of `function`. Raises
    LookupError for an unknown symbol."""
    helpers = _helpers()
    code, layout = object_code.code, object_code.layout
    address_of = _address_in_layout(code, layout) if layout else _address_by_llvm(object_code)
    environments = []
    for symbol, module, constants in object_code.environments:
        environment = helpers["_dynfunc"].Environment({"__name__": module})
        environment.consts[:] = constants
        environments.append(environment)
        if address := address_of(symbol):
            ctypes.c_void_p.from_address(address).value = id(environment)
    _Linker.kept_alive += environments
    entry, module_of_function = address_of(object_code.entry), sys.modules[function.__module__]
    make_function = helpers["_dynfunc"].make_function
    return make_function(module_of_function, function.__name__, function.__doc__ or "", entry, environments[0], ())


def _address_in_layout(code: bytes, layout: ObjectLayout) -> Callable[[str], int]:
    """Load an object file that is laid out. Return a function for the address of a symbol in it, 0 if it has none."""
    memory, base = _load_code(code, layout, _address)
    _Linker.kept_alive.append(memory)
    symbols = layout.symbols
    return lambda symbol: base + symbols[symbol] if symbol in symbols else 0


def _load_code(code: bytes, layout: ObjectLayout, address_of: Callable[[str], int]) -> tuple[mmap.mmap, int]:
    """Load an object file. Return its memory, which must be kept as long as the code may run, and its address.

    address_of: the address of a symbol elsewhere. Raises OSError if the system forbids memory that is executed.
    """
    memory = mmap.mmap(-1, layout.size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for position, size, offset in layout.sections:
        memory[offset : offset + size] = code[position : position + size]
    for offset, target in layout.inner:
        pack_into("<Q", memory, offset, base + target)
    for symbol, uses in layout.outer.items():
        address = address_of(symbol)
        for offset, addend in uses:
            pack_into("<Q", memory, offset, address + addend)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    if protect(ctypes.c_void_p(base), ctypes.c_size_t(layout.variables), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "the system does not let memory be executed")
    return memory, base


def _address_by_llvm(object_code: ObjectCode) -> Callable[[str], int]:
    """Load an object file by LLVM, which ends the process if a symbol is nowhere. Return as `_address_in_layout`."""
    from llvmlite import binding

    for symbol in object_code.externals:
        binding.add_symbol(symbol, _address(symbol))
    if _Linker.engine is None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        target = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(opt=OPTIMIZATION)
        _Linker.engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target)
    _Linker.engine.add_object_file(binding.ObjectFileRef.from_data(object_code.code))
    _Linker.engine.finalize_object()
    return lambda symbol: _Linker.engine.get_function_address(symbol) or _Linker.engine.get_global_value_address(symbol)


@functools.cache
def _address(symbol: str) -> int:
    """Return the address of a symbol of Python, of numba's C modules, or of a library that Python has loaded."""
    address = _Linker.addresses.get(symbol)
    if address is None and hasattr(ctypes.pythonapi, symbol):
        address = ctypes.cast(getattr(ctypes.pythonapi, symbol), ctypes.c_void_p).value
    if not address:
        raise LookupError(f"it refers to {symbol}, which is in no library")
    return address


def _helpers() -> dict[str, ModuleType]:
    """Load numba's C modules, and note the addresses that machine code refers to, once."""
    if not _Linker.helpers:
        modules = {name: _extension(f"numba.{name}") for name in ("_dynfunc", "_helperlib", "core.runtime._nrt_python")}
        symbols = {
            f"numba_{name}": address for each in ("_dynfunc", "_helperlib") for name, address in modules[each].c_helpers.items()
        }
        for name, address in modules["core.runtime._nrt_python"].c_helpers.items():
            symbols[name if name.startswith("_") else f"NRT_{name}"] = address
        import builtins

        for error in vars(builtins).values():
            if isinstance(error, type) and issubclass(error, BaseException):
                symbols[f"PyExc_{error.__name__}"] = id(error)
        symbols["_Py_NoneStruct"] = id(None)
        _Linker.addresses = symbols
        _set_unpickling(symbols["numba_unpickle"])
        _Linker.helpers = modules
    return _Linker.helpers


def _extension(name: str) -> ModuleType:
    """Load a C module of numba without the package. It stays the same module if numba is imported later."""
    if name in sys.modules:
        return sys.modules[name]
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = _numba_folder().joinpath(*name.split(".")[1:]).with_suffix(suffix)
        if path.exists():
            loader = importlib.machinery.ExtensionFileLoader(name, str(path))
            module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, loader, origin=str(path)))
            loader.exec_module(module)
            return module
    raise ImportError(f"{name} is no C module of this version of numba")


def _set_unpickling(address: int) -> None:
    """Let the C function at an address, which machine code calls for the class of arrays and for errors, use `_unpickle`. It
    looks up a function of numba at its first call; if numba is not imported, this call finds `_unpickle` in its place."""
    unpickle = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)(address)
    if "numba" not in sys.modules:
        stub = ModuleType("numba")
        stub._numba_unpickle = _unpickle  # type: ignore[attr-defined]
        sys.modules |= dict.fromkeys(("numba", SERIALIZE), stub)
        try:
            unpickle(data := pickle.dumps(None), len(data), bytes(HASH_BYTES))
        finally:
            del sys.modules["numba"], sys.modules[SERIALIZE]


@functools.cache  # no Python code runs at the second call, in which an interrupt could be raised
def _unpickle(address: int, data: bytes, digest: bytes):
    """Return the object of pickled data that machine code has at an address; replaces numba's function of this name."""
    return pickle.loads(data)


# -- the name of a file


@functools.cache
def _file_name(kernel, signature: str) -> str:
    """Return the name of the file with a kernel's machine code for a signature."""
    name = f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}".removeprefix(f"{OURS}.")
    return f"{name}-{private.digest(*_machine(), signature, name, *kernel_inputs(kernel))}"


@functools.cache
def _machine() -> tuple:
    """Return all that determines machine code besides the kernel: the processor, the versions, and numba's settings."""
    version = _numba_folder() / "_version.py"
    settings = sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_"))
    return FORMAT, sys.version, version.read_text(), np.__version__, sys.platform, sys.maxsize, _processor(), settings


def _processor() -> list[str]:
    """Return a description of this processor and its instructions, as lines of text."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        first_core = itertools.takewhile(str.strip, file)  # up to a blank line; the other cores are alike
        if lines := [line for line in first_core if line.startswith(PROCESSOR_FIELDS)]:
            return lines  # other processors have other fields
    from llvmlite import binding

    return [binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()]


@functools.cache
def _numba_folder() -> Path:
    """Return the folder of the package numba, without importing it."""
    spec = importlib.util.find_spec("numba")
    if spec is None or spec.origin is None:
        raise ImportError("numba is not installed")
    return Path(spec.origin).parent


@functools.cache
def kernel_inputs(kernel) -> tuple:
    """Return everything that determines a kernel's machine code: its options and code, and those of the functions that it
    calls."""
    return tuple(_fingerprint_parts(kernel, set()))


def _fingerprint_parts(thing, seen: set) -> Iterator:
    """Yield the parts of a kernel, function or constant that determine machine code; of other things, such as functions of
    numpy, none: the versions in `_machine` determine these. seen: functions that are done."""
    if hasattr(thing, "py_func"):  # a kernel
        yield sorted(map(repr, thing.targetoptions.items()))
        yield from _fingerprint_parts(thing.py_func, seen)
    elif isinstance(thing, FunctionType) and thing not in seen:
        seen.add(thing)
        yield _own_digest(thing)
        for used in _globals_of(thing):
            yield from _fingerprint_parts(used, seen)
    elif isinstance(thing, int | float | str | tuple | np.generic):
        yield repr(thing)
    elif isinstance(thing, np.ndarray):
        yield thing.dtype.str, thing.shape, thing.tobytes()
    elif (module := getattr(getattr(thing, "compiled", None), "__module__", "")).startswith(f"{OURS}."):  # an `Instruction`
        yield _source(module)


def _globals_of(function: FunctionType) -> Iterator:
    """Yield the globals that a function refers to, including attributes of our modules, and the values that it closes over."""
    names = function.__code__.co_names
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType) and value.__name__.startswith(f"{OURS}."):
            yield from (vars(value)[inner] for inner in names if inner in vars(value))
        else:
            yield value
    yield from (cell.cell_contents for cell in function.__closure__ or ())


@functools.cache
def _own_digest(function: FunctionType) -> str:
    """Return the digest of a function's code, without that of the functions it calls."""
    return private.digest(*_code_parts(function.__code__))


def _code_parts(code: CodeType) -> Iterator:
    """Yield the parts of a function's code that determine machine code."""
    yield code.co_code, code.co_names, code.co_varnames
    for constant in code.co_consts:
        yield from _code_parts(constant) if isinstance(constant, CodeType) else [repr(constant)]


@functools.cache
def _source(module: str) -> str:
    return Path(sys.modules[module].__file__ or "").read_text()
