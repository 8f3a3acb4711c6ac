"""The libraries from which programs take user-defined functors: Python modules, and shared libraries of C as for Soufflé."""

import ctypes
import functools
import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from semi_naive.io.errors import BadInput
from semi_naive.io.files import io_errors
from semi_naive.ra.ir import Kind, Type

DEFAULT = "functors"  # the name of the default library, as in Soufflé
WORDS = (64, 32)
_C: dict[tuple[Kind, int], type[ctypes._SimpleCData]] = {
    (Kind.NUMBER, 64): ctypes.c_int64, (Kind.UNSIGNED, 64): ctypes.c_uint64, (Kind.FLOAT, 64): ctypes.c_double,
    (Kind.NUMBER, 32): ctypes.c_int32, (Kind.UNSIGNED, 32): ctypes.c_uint32, (Kind.FLOAT, 32): ctypes.c_float,
    (Kind.SYMBOL, 64): ctypes.c_char_p, (Kind.SYMBOL, 32): ctypes.c_char_p,
}  # fmt: skip


class Libraries(Mapping):
    """The functions of modules and shared libraries, by name; the first library that has a name wins.

        Program(text, functors=Libraries(["functors.py", "geometry"], ["lib"]))

    names: `functors.py` is the file of a Python module; `geometry` is libgeometry.so, in one of the folders `dirs`; a path is
    possible, too.
    bits: the width of numbers in shared libraries: 64, as in this engine, or 32, as in a Soufflé that is built for 32 bits.

    Raises BadInput for a file that does not exist or cannot be loaded.

    A C function takes and returns int64_t, uint64_t, double (int32_t, uint32_t, float) and char *, as a stateless functor of
    Soufflé. A returned char * is copied and not freed.
    """

    def __init__(self, names, dirs=(".",), bits: int = 64):
        if bits not in WORDS:
            raise BadInput(f"numbers of libraries have 64 or 32 bits, not {bits}")
        self.paths = [_path(name, [*dirs]) for name in names]
        self.bits = bits

    def __repr__(self) -> str:
        return f"Libraries({self.paths!r})"

    @classmethod
    def given(cls, names, dirs=(".",), bits: int = 64) -> "Libraries":
        """Return the libraries of a command line; if none is named, Soufflé's default library, if it exists."""
        if not names:
            names = [path for folder in dirs if os.path.isfile(path := os.path.join(folder, f"lib{DEFAULT}.so"))][:1]
        return cls(names, dirs, bits)

    def __getitem__(self, name: str):
        """Return a function. Raises KeyError if no library has it."""
        for path in self.paths:
            if path.endswith(".py"):
                if hasattr(module := _module(path), name):
                    return getattr(module, name)
            elif hasattr(_library(path), name):
                return CFunction(path, name, self.bits)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the modules' functions. Shared libraries cannot be listed."""
        for path in self.paths:
            if path.endswith(".py"):
                yield from (name for name, value in vars(_module(path)).items() if callable(value) and name[0] != "_")

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _path(name: str, dirs: list[str]) -> str:
    """Return the path of a library. Raises BadInput if no file exists."""
    name = os.fspath(name)
    if name.endswith(".py") or os.sep in name or name.endswith((".so", ".dylib")):
        candidates = [name] if os.path.isabs(name) else [name, *(os.path.join(folder, name) for folder in dirs)]
    else:
        candidates = [os.path.join(folder, f"lib{name}{ending}") for folder in dirs for ending in (".so", ".dylib")]
    for path in candidates:
        if os.path.isfile(path):
            return os.path.abspath(path)
    raise BadInput(f"there is no library {name}", hint=f"looked for {', '.join(candidates)}; -L (--library-dir) names a folder")


@functools.cache
def _module(path: str):
    """Load the Python module in a file, once. Modules of equal names may coexist."""
    name = f"functors_{hashlib.sha256(path.encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with io_errors(path):
            spec.loader.exec_module(module)
    except BadInput:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise BadInput(f"it cannot be loaded: {type(error).__name__}: {error}", path, _line_of_error(error, path)) from error
    return module


def _line_of_error(error: Exception, path: str) -> int | None:
    """Return the line of a file that is innermost in an error's traceback, None if the file is not in it."""
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == path]
    return lines[-1] if lines else None


@functools.cache
def _library(path: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise BadInput(f"it cannot be loaded: {error}", path, hint="expected a shared library for this machine") from None


@dataclass(frozen=True)
class CFunction:
    """A function of a shared library. It is pickled as its path, which must exist on every host."""

    path: str
    name: str
    bits: int = 64
    params: tuple[Kind, ...] = ()
    result: Kind = Kind.NUMBER

    def typed(self, params: tuple[Type, ...], result: Type) -> "CFunction":
        """Return the function with the types of a functor's declaration."""
        return CFunction(self.path, self.name, self.bits, tuple(type_.kind for type_ in params), result.kind)

    def __call__(self, *arguments):
        """Call the function, converting arguments and result."""
        converted = [self._c_argument(kind, each) for kind, each in zip(self.params, arguments, strict=True)]
        result = _ctypes_function(self)(*converted)
        if self.result != Kind.SYMBOL:
            return result
        if result is None:
            raise ValueError("it gives no string: NULL")
        return result.decode(errors="replace")

    def _c_argument(self, kind: Kind, value):
        """Return an argument in the form that the C function takes. Raises OverflowError if it does not fit."""
        if kind == Kind.SYMBOL:
            return value.encode()
        if kind != Kind.FLOAT:
            least = -(1 << (self.bits - 1)) if kind == Kind.NUMBER else 0
            if not least <= value < least + (1 << self.bits):
                raise OverflowError(f"{value} does not fit into {self.bits} bits")
        return value


@functools.cache
def _ctypes_function(function: CFunction):
    """Return the ctypes function. It is not an attribute of the library, as another functor may declare other types for it."""
    prototype = ctypes.CFUNCTYPE(_C[function.result, function.bits], *(_C[kind, function.bits] for kind in function.params))
    return prototype((function.name, _library(function.path)))
