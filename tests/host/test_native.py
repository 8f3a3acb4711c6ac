"""Machine code without numba: what is loaded means what numba compiles, and what is not as it was is not run."""

import pickle
import platform
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from semi_naive.host import elf, native, private
from semi_naive.host.jit import njit, types
from semi_naive.ra.tuple_at_a_time import ready
from semi_naive.ra.words import sort

KERNELS = """
import numpy as np
from semi_naive.host.jit import njit, types
i64, f64 = types.Array(types.int64, 1, "C"), types.Array(types.float64, 1, "C")
JIT = {"cache": True, "nogil": True}

@njit(types.Tuple((i64, types.int64, types.float64, types.boolean))(i64, types.int64), **JIT)
def several(array, by):
    return array * by, array.size, array[0] / 2, by > 2

@njit(types.void(f64, types.Array(types.float64, 1, "C", readonly=True)), **JIT)
def add(array, more):
    for at in range(array.size):
        array[at] += more[at]

@njit([types.int64(i64), types.int64(f64)], **JIT)
def length(array):
    return array.size

@njit(types.int64(types.int64, types.int64), **JIT)
def quotient(a, b):
    return a // b

def adder(number):
    @njit(types.int64(types.int64), **JIT)
    def add(x):
        return x + number
    return add
"""
USE = """
import sys
from tested import *
for kernel in (several, add, length, quotient, adder(3), adder(4)):
    kernel.compiled()
print("numba" in sys.modules)
made = several(np.arange(3) + 1, 3)
assert made[0].tolist() == [3, 6, 9] and made[1:] == (3, 0.5, True), made
made[0][0] = 7  # the array is ours
total, more = np.ones(2), np.ones(2)
more.flags.writeable = False
assert add(total, more) is None and total.tolist() == [2, 2]
assert (length(np.ones(4)), length(np.ones(5, np.int64))) == (4, 5)
assert (adder(3).compiled()(1), adder(4).compiled()(1)) == (4, 5)
for call in (
    lambda: add(more, total), lambda: add(np.ones(4)[::2], total), lambda: add(np.ones(2, np.float32), total),
    lambda: add(total), lambda: add(np.ones((2, 1)), total), lambda: add([1.0], total), lambda: length(np.ones(3, np.int32)),
):
    try:
        call()
    except TypeError:
        continue
    raise AssertionError("a wrong argument was taken")
try:
    quotient(1, 0)
except ZeroDivisionError as error:
    print(error)
print("numba" in sys.modules)
twice = njit(types.int64(i64))(eval("lambda array: 2 * length(array)", globals())).compiled()
assert twice(np.ones(3, np.int64)) == 6 and several(np.arange(3) + 1, 3)[1] == 3
print("numba" in sys.modules)
"""
CHAIN = """
import sys
from semi_naive import Program
from semi_naive.ra.tuple_at_a_time import ready
from semi_naive.ra.words import sort
ready.LOADING_SECONDS = 0.0
text = ".decl e(x: number, y: number) .input e .decl p(x: number, n: number) .output p "
text += "p(0, 0). p(y, n + 1) :- p(x, n), e(x, y), n < 3000."
with Program(text).run({"e": [(i, (i + 1) % 7) for i in range(7)]}) as result:
    assert result["p"].to_set() == {(n % 7, n) for n in range(3001)}
print(ready._loaded(), "numba" in sys.modules)
"""


def run(script: str, folder: Path, *, cwd=None) -> str:
    """What a script prints in a process whose cache is this folder."""
    begin = f"import os; os.environ['XDG_CACHE_HOME'] = {str(folder)!r}\n"
    done = subprocess.run([sys.executable, "-c", begin + script], capture_output=True, text=True, cwd=cwd or folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path):
    """An empty cache, beside the module `tested`, which counts as one of the package's own."""
    (tmp_path / "tested.py").write_text(KERNELS)
    return tmp_path


def test_what_is_loaded_means_what_is_compiled(folder):
    """The first process compiles, the second loads: arguments, results, errors, callers that are compiled later."""
    first, second = run(USE, folder), run(USE, folder)
    assert first.split("\n")[0] == "True" and second == "False\ninteger division by zero\nFalse\nTrue\n"


def test_functions_of_one_name_from_several_processes(folder):
    """Numba numbers functions by process: `adder(3)` and `adder(4)`, compiled apart, had one symbol."""
    for number in (3, 4):
        run(f"from tested import *\nassert adder({number}).compiled()(1) == {number + 1}", folder)
    both = "import sys\nfrom tested import *\nprint(adder(3).compiled()(1), adder(4).compiled()(1), 'numba' in sys.modules)"
    assert run(both, folder) == "4 5 False\n"


@pytest.mark.parametrize("damage", [lambda data: data[:1000], lambda data: data[:-9] + b"x" * 9, lambda data: b""])
def test_a_damaged_file_is_not_run(folder, damage):
    script = "import sys\nfrom tested import *\nprint(adder(3).compiled()(1), 'numba' in sys.modules)"
    assert run(script, folder) == "4 True\n"
    (path,) = (folder / "semi-naive" / "kernels").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert run(script, folder) == "4 True\n", "compiled again"
    assert run(script, folder) == "4 False\n"


def test_a_file_of_another_form_is_compiled_again(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    cache = Path(private.folder(tmp_path / "kernels"))
    monkeypatch.setattr(native, "cache_folder", lambda: cache)
    kernel = njit(types.int64(types.int64), cache=True)(lambda x: x + 5)
    path, _ = native.places(kernel, kernel.signatures[0])
    private.save_checked(path, b"\x80\x04garbage")
    assert native.load(kernel) is None and str(path) in caplog.text
    assert kernel.compiled()(1) == 6 and native.load(kernel)[0](1) == 6


def test_the_machine_runs_without_numba():
    ready.compile_machine()
    assert run(CHAIN, native.cache_folder().parents[1]) == "True False\n"


def test_a_changed_setting_of_numba_names_another_file(monkeypatch):
    kernel = njit(types.int64(types.int64), cache=True)(lambda x: x + 6)
    names = set()
    for value in (None, "generic"):
        native._machine.cache_clear()
        native._file_name.cache_clear()
        if value:
            monkeypatch.setenv("NUMBA_CPU_NAME", value)
        names.add(native.places(kernel, kernel.signatures[0])[0].name)
    native._machine.cache_clear()
    native._file_name.cache_clear()
    assert len(names) == 2


def test_arrays_are_checked_before_machine_code_gets_them():
    call = types.int64(types.Array(types.int64, 1, "C")).checking(lambda array: int(array.size))
    memory = np.frombuffer(bytearray(17), np.int64, 2)
    assert call(memory) == 2
    unaligned = np.frombuffer(bytearray(17), np.uint8)[1:17].view(np.int64)
    for wrong in (unaligned, np.ones(2), np.ones((1, 2), np.int64), np.ones(4, np.int64)[::2], None):
        with pytest.raises(TypeError, match="expected"):
            call(wrong)
    assert call(np.ones(3, np.dtype("int64").newbyteorder("="))) == 3


def test_an_interrupt_in_machine_code_is_raised_as_such():
    """Whatever Python code the machine code calls: it did for the class of each array."""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    words, interrupts = np.arange(100, dtype=np.uint64), 0
    sort.compiled()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupts < 300:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                while True:
                    native._unpickle.cache_clear()
                    assert sort(words).size == 100
            except KeyboardInterrupt:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A kernel `lambda x: x + 7` whose machine code is in a cache by itself: (kernel, its file, the content)."""
    cache = Path(private.folder(tmp_path / "kernels"))
    monkeypatch.setattr(native, "cache_folder", lambda: cache)
    kernel = njit(types.int64(types.int64), cache=True)(lambda x: x + 7)
    assert kernel.compiled()(1) == 8
    path, _ = native.places(kernel, kernel.signatures[0])
    return kernel, path, pickle.loads(private.load(path))


def test_a_symbol_that_is_nowhere_is_for_numba(cached, caplog):
    """As that of a mathematical library which is not installed any more. LLVM would end the process."""
    caplog.set_level("INFO")
    kernel, path, code = cached
    assert "PyNumber_Long" in code.externals and not any("llvm" in symbol for symbol in code.externals)
    private.save_checked(path, pickle.dumps(code._replace(externals=["__svml_log4"], layout=None)))
    assert native.load(kernel) is None and "it refers to __svml_log4" in caplog.text
    if code.layout:
        code.layout.outer["__svml_log8"] = []
        private.save_checked(path, pickle.dumps(code))
        assert native.load(kernel) is None and "it refers to __svml_log8" in caplog.text


def test_code_without_a_layout_is_loaded_by_llvm(cached):
    kernel, path, code = cached
    assert native.load(kernel)[0](1) == 8
    private.save_checked(path, pickle.dumps(code._replace(layout=None)))
    assert native.load(kernel)[0](1) == 8


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="object files of Linux for x86-64")
def test_an_object_file_with_other_relocations_has_no_layout(cached):
    _, _, code = cached
    assert code.layout and "PyNumber_Long" in code.layout.outer and code.entry in code.layout.symbols
    relocation = elf.RELOCATION.pack(*next(_relocations_of(code.code)))
    near = relocation[:8] + (2).to_bytes(4, "little") + relocation[12:]  # R_X86_64_PC32
    assert code.code.count(relocation) == 1 and elf.layout(code.code.replace(relocation, near)) is None
    assert elf.layout(b"") is elf.layout(b"\xcf\xfa\xed\xfe" + code.code[4:]) is None


def _relocations_of(code: bytes):
    """The relocations of a function in an object file, as (offset, symbol and type, addend)."""
    at, size, count = (elf.HEADER.unpack_from(code)[place] for place in (6, 11, 12))
    sections = [elf.SECTION.unpack_from(code, at + size * number) for number in range(count)]
    for table in sections:
        if table[1] == elf.RELOCATIONS and sections[table[7]][2] & elf.ALLOCATED:
            yield from elf.RELOCATION.iter_unpack(code[table[4] : table[4] + table[5]])
