"""The entry points of the machine, and their machine code without numba.

The machine's kernels need nothing of numba while they run: their arguments are addresses, they allocate nothing and raise
nothing. So their object code is kept in a file of its own, from which LLVM alone loads it, in 0.03 s where numba takes 0.15.
Without such a file the entry points are the kernels of `machine`.

The file names the sources that the code was compiled from, with their digests. It is for one processor.
"""

import ctypes
import functools
import importlib
import logging
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semi_naive.host import private

log = logging.getLogger("semi_naive")

PACKAGE = __name__.split(".")[0]
# What the object code refers to in functions for calls from Python, which are not used here.
UNUSED = ("NRT_Free", "numba_do_raise", "numba_gil_ensure", "numba_gil_release", "numba_runtime_build_excinfo_struct",
          "numba_unpickle")  # fmt: skip
_IMPORT = re.compile(rf"^ *from ({PACKAGE}[\w.]*) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)


@dataclass(eq=False)
class EntryPoint:
    """A kernel of the machine that Python calls with addresses and numbers. results: how many numbers it returns.

    native: its machine code, as a function of numba's calling convention: (where the results go, where an exception goes,
    *arguments), which returns a status; None until it is loaded.
    """

    module: str
    name: str
    arguments: int
    results: int
    native: Callable | None = None

    @functools.cached_property
    def kernel(self) -> Any:
        return getattr(importlib.import_module(f"{__package__}.{self.module}"), self.name)

    def __call__(self, *addresses):
        """Call it: the native code if it is loaded, else the kernel."""
        if self.native is None:
            return self.kernel(*addresses)
        results, exception = (ctypes.c_int64 * max(1, self.results))(), ctypes.c_void_p()
        if status := self.native(results, ctypes.byref(exception), *map(int, addresses)):
            raise SystemError(f"the machine's {self.name} ended with status {status}")
        return results[0] if self.results == 1 else tuple(results) if self.results else None


run_machine = EntryPoint("machine", "run_machine", arguments=8, results=1)
insert_rows = EntryPoint("inserting", "insert_rows", arguments=9, results=2)
insert_proposed = EntryPoint("inserting", "insert_proposed", arguments=10, results=1)
index_rows = EntryPoint("indexing", "index_rows", arguments=3, results=0)
forget_new = EntryPoint("indexing", "forget_new", arguments=3, results=0)
ENTRY_POINTS = run_machine, insert_rows, insert_proposed, index_rows, forget_new

_engines: list = []  # which own the machine code


def is_loaded() -> bool:
    """True if the machine code is loaded."""
    return all(each.native is not None for each in ENTRY_POINTS)


def load() -> bool:
    """Load the machine code. Return False if it is not kept for this processor and the sources as they are."""
    data = private.load(_path())
    if data is None:
        return False
    from llvmlite import binding

    sources, codes = pickle.loads(data)  # the folder is private
    if any(_digest(source) != digest for source, digest in sources.items()):
        return False
    abort = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value
    for name in UNUSED:
        if binding.address_of_symbol(name) is None:
            binding.add_symbol(name, abort)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target().create_target_machine(opt=3))
    for _, code in codes.values():
        engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    found = {each: engine.get_function_address(codes[each.name][0]) for each in ENTRY_POINTS}
    if not all(found.values()):
        log.info("the machine is compiled again, as %s has not all of it", _path())
        return False
    _engines.append(engine)
    for each, address in found.items():
        kinds = [ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p, *[ctypes.c_int64] * each.arguments]
        each.native = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(address)
    return True


def keep() -> None:
    """Keep the machine code of the kernels, which are compiled and cached, for `load` in other processes."""
    from semi_naive.host.kernel_cache import object_code

    codes = {each.name: object_code(each.kernel) for each in ENTRY_POINTS}
    if all(codes.values()):
        sources = {source: _digest(source) for source in _sources(f"{__package__}.machine")}
        try:
            private.save_checked(_path(), pickle.dumps((sources, codes)))
        except OSError as error:
            log.info("the machine's code is not kept: %s", error)


def _target() -> Any:
    """The processor, for LLVM, which is initialised."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(binding.get_process_triple())


@functools.cache
def _path() -> Path:
    """The file of the machine code for this processor."""
    from llvmlite import binding

    processor = binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return private.cache("kernels") / f"machine-{private.digest(sys.version, *processor)}"


def _sources(module: str) -> list[str]:
    """The modules of the package that a module imports, and itself. The code of kernels depends on nothing else."""
    found, waiting = [], [module]
    while waiting:
        name = waiting.pop()
        if name not in found and (path := _file(name)) is not None:
            found.append(name)
            waiting += _imported(path.read_text())
    return sorted(found)


def _imported(text: str) -> Iterator[str]:
    """Yield the names of modules that a source may import."""
    for package, several, one in _IMPORT.findall(text):
        yield package
        for name in re.findall(r"\w+", several or one):
            yield f"{package}.{name}"


def _file(module: str) -> Path | None:
    """The file of a module of the package; None if it is none."""
    path = Path(sys.modules[PACKAGE].__file__ or "").parent.joinpath(*module.split(".")[1:])
    for each in (path.with_suffix(".py"), path / "__init__.py"):
        if each.is_file():
            return each
    return None


def _digest(module: str) -> str:
    """The digest of a module's source; "" if it is missing."""
    path = _file(module)
    return private.digest(path.read_bytes()) if path else ""
