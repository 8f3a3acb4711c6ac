"""Kernels mean the same compiled and uncompiled, and a small run loads nothing that it can do without."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bench.faults.lines import Line
from semi_naive import Program
from semi_naive.host import jit, kernel_cache, native, private
from semi_naive.host.jit import njit, types
from semi_naive.ra.tuple_at_a_time import ready
from semi_naive.running.driver import local

u64 = types.Array(types.uint64, 1, "C")
HEAVY = ("numba", "scipy", "pyspark", "networkx", "matplotlib", "rich")
# Rooms of the package, and packages of others, that a small program does without: loading them would double its time.
ROOMS = """
lark numpy.ma.core pyarrow concurrent.futures socket subprocess semi_naive.io.sources semi_naive.planning.joins.bigjoin
semi_naive.ra.by_variable semi_naive.ra.multiway semi_naive.ra.partitions semi_naive.ra.reduce.best semi_naive.ra.reduce.choice
semi_naive.ra.spark.java semi_naive.ra.spark.jobs semi_naive.ra.storage.runs semi_naive.running.balanced
semi_naive.running.decomposition semi_naive.running.driver.dominance semi_naive.running.progress.checkpoint
semi_naive.running.relations.on_partitions semi_naive.running.results.frames semi_naive.session
""".split()
SMALL = """
import sys
from semi_naive import Program
text = '''.decl edge(x: number, y: number) .decl path(x: number, y: number) .output path
edge(1, 2). edge(2, 3). path(x, y) :- edge(x, y). path(x, z) :- path(x, y), edge(y, z).'''
with Program(text).run() as result:
    result.write("-")
"""

CLOSURE = """
import sys
from semi_naive import transitive_closure
with transitive_closure([(1, 2), (2, 3), (3, 4)]) as closure:
    assert closure.count() == 6
"""
COMMAND = """
import sys
from semi_naive.__main__ import main
open("e.tsv", "w").write("1\\t2\\n2\\t3\\n")
main(["tc", "e.tsv", "-q"])
"""


@pytest.fixture
def patient(monkeypatch):
    """As in a process that has loaded no machine code."""
    monkeypatch.setattr(jit, "mode", "auto")
    monkeypatch.setattr(jit._Process, "loaded", False)
    monkeypatch.setattr(jit._Process, "seconds", 0.0)


def test_a_machine_that_cannot_be_compiled_is_asked_for_now_and_then_and_told_of_once(monkeypatch, caplog):
    asked = []
    monkeypatch.setattr(jit, "mode", "auto")
    monkeypatch.setattr(ready, "_loaded", lambda: False)
    monkeypatch.setattr(ready, "_Compilation", SimpleNamespace(process=None, next_check=0.0))
    monkeypatch.setattr(ready, "_start_compilation", lambda: SimpleNamespace(poll=lambda: 1))
    monkeypatch.setattr(native, "is_cached", lambda kernel: asked.append(kernel))
    with monkeypatch.context() as still:
        still.setattr(ready.time, "monotonic", lambda: 5.0)
        assert not any(ready.machine_is_ready(1.0) for _ in range(1000)) and len(asked) == 1
    for now in (6.0, 7.0, 8.0):
        with monkeypatch.context() as later:
            later.setattr(ready.time, "monotonic", lambda now=now: now)
            assert not ready.machine_is_ready(1.0)
    assert len(asked) == 2 and caplog.text.count("kernels could not be compiled") == 1


@pytest.mark.parametrize("rule, due", [("p(x) :- p{}(x). p{}(x) :- p(x).", 400), ("p(x) :- p{}(x).", 0)])
def test_an_iteration_of_many_rules_need_not_be_run_for_its_seconds(monkeypatch, rule, due):
    asked = []
    monkeypatch.setattr("semi_naive.running.driver.local.machine_is_ready", asked.append)
    names = [f"p{number}" for number in range(400)]
    text = "\n".join([f".decl {name}(x: number)" for name in ["p", "q", *names]])
    text += "\n.output p\np(1). q(x) :- p(x). p(x) :- q(x), x > 1.\n" + "\n".join(rule.replace("p{}", name) for name in names)
    with Program(text).run() as result:
        assert result["p"].to_set() == {(1,)} and local.MIN_SECONDS_PER_VERSION * 400 > ready.LOADING_SECONDS
    assert asked[0] == pytest.approx(local.MIN_SECONDS_PER_VERSION * (due + 1))


def loop(words):
    total = np.uint64(0)
    for word in words:
        total += word
    return total


def kernel(**options):
    return njit(types.uint64(u64), **options)(loop)


def test_all_of_it_uncompiled():
    """Whole programs on this process and on partitions, patterns, and the kernels against numpy and Python's sets. How much
    work a plan has on large graphs, on which partition, and in how many bytes, does not depend on how kernels are run: the
    tests of that take minutes here, and the others half of one."""
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    which = " and ".join(f"not {word}" for word in ("spark", "large", "work", "heaviest", "heavy", "memory", "ten_bytes"))
    files = ["ra/test_kernels.py", "language/test_golden.py", "multiway/test_bigjoin.py"]
    options = ["-q", "-x", "-k", which, "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
    command = [sys.executable, "-m", "pytest", *options, *(str(Path(__file__).parents[1] / file) for file in files)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("script", [SMALL, CLOSURE, COMMAND], ids=["program", "closure", "command"])
def test_a_small_run_loads_little(script, tmp_path):
    there = f"print(*sorted({set(HEAVY)!r} & sys.modules.keys()), 'loaded', file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script + there], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.strip() == "loaded", done.stderr


def test_a_small_program_loads_no_room_that_it_does_without(tmp_path):
    """Its second run: the first may make the tables of the parser."""
    check = f"print(*(name for name in sys.modules if name.startswith({(*ROOMS,)!r})), 'loaded', file=sys.stderr)"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", SMALL + check], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.strip() == "loaded", done.stderr


def test_facts_and_results_in_files_load_no_pyarrow(tmp_path):
    (tmp_path / "edge.facts").write_text("a\tb\nb\tc\n")
    (tmp_path / "program.dl").write_text(
        ".decl edge(x: symbol, y: symbol) .input edge .decl path(x: symbol, y: symbol) .output path "
        "path(x, y) :- edge(x, y). path(x, z) :- path(x, y), edge(y, z)."
    )
    script = "import sys; from semi_naive import Program; Program.from_file('program.dl').run('.').write('.')\n"
    check = f"print(*{{'pyarrow', *{HEAVY!r}}} & sys.modules.keys(), 'loaded', file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script + check], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.strip() == "loaded", done.stderr
    assert (tmp_path / "path.csv").read_text() == "a\tb\na\tc\nb\tc\n"


def test_a_closure_of_a_few_edges_loads_no_pandas_and_no_parser(tmp_path):
    """From a file, from pairs of names and of numbers, to a file and to Python: pyarrow would load pandas to make an array."""
    (tmp_path / "edges.tsv").write_text("1\t2\n2\t3\n")
    script = f"""
import sys
from semi_naive import transitive_closure
assert transitive_closure("edges.tsv").to_set() == {{(1, 2), (2, 3), (1, 3)}}
names = transitive_closure([("a", "b"), ("b", "c")])
assert names.to_set() == {{("a", "b"), ("b", "c"), ("a", "c")}} and len(list(names.to_batches())) == 1
names.write("names.tsv")
assert len(transitive_closure([(1, 2), (2, 3)]).to_numpy()) == 3
print(*sorted({{"pandas", "lark", *{HEAVY!r}}} & sys.modules.keys()), "loaded", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.strip() == "loaded", done.stderr
    assert sorted((tmp_path / "names.tsv").read_text().splitlines()) == ["a\tb", "a\tc", "b\tc"]


def test_functors_of_strings_load_no_pandas():
    script = """
import sys
from semi_naive import Program
text = '''.decl a(x: symbol) .decl b(x: symbol, n: number) .output b
a("x"). a("yy"). a("zzz").
b(cat(x, "k"), strlen(x)) :- a(x), match("y.*|x", x), x < "z".
b(substr(x, 0, 1), to_number("3")) :- a(x), contains("z", x).
b(to_string(n), n) :- b(_, n), n < 3.'''
with Program(text).run() as result:
    assert result["b"].to_set() == {("xk", 1), ("yyk", 2), ("z", 3), ("1", 1), ("2", 2)}
print(*{"pandas"} & sys.modules.keys(), "loaded", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.strip() == "loaded", done.stderr


def test_arguments_and_results_are_those_of_compiled_code(patient):
    plain, made = kernel(), kernel().compiled()
    words = np.array([2**64 - 1, 3], np.uint64)
    assert plain(words) == made(words) == 2 and type(plain(words)) is type(made(words)) is int
    assert plain.entry is None
    for wrong in (words.astype(np.int64), words[::-1], words[None], words.tolist()):
        for one in (plain, made):
            with pytest.raises(TypeError):
                one(wrong)


def test_a_large_array_has_it_compiled(patient):
    found = kernel(few=10)
    found(np.ones(10, np.uint64))
    assert found.entry is None
    assert found(np.ones(11, np.uint64)) == 11
    assert found.entry


def test_scratch_does_not_count(patient):
    found = njit(types.uint64(u64, u64), scratch="room", few=10)(lambda words, room: words[0])
    assert found(np.ones(1, np.uint64), np.ones(99, np.uint64)) == 1
    assert found.entry is None


def test_much_small_work_has_it_compiled(patient, monkeypatch):
    """Each kernel is compiled when it has taken as long as that, once all have taken as long as loading numba."""
    found = kernel()
    jit._Process.seconds = 2 * jit.UNCOMPILED_SECONDS
    found(np.ones(1, np.uint64))
    assert found.entry is None
    found.seconds = 2 * jit.COMPILING
    found(np.ones(1, np.uint64))
    assert found.entry


def test_an_interrupt_at_any_line_of_a_small_call_leaves_the_thread_as_it_was(patient):
    kernel = njit(types.int64(types.Array(types.int64, 1, "C")))(lambda array: array.size)

    def call() -> int:
        return kernel(np.arange(3))

    with Line(None, lambda path: path.endswith("/jit.py")) as counted:
        assert call() == 3
    for number in range(1, counted.executed + 1):
        with pytest.raises(KeyboardInterrupt), Line(number, lambda path: path.endswith("/jit.py")):
            call()
        assert not jit._thread.uncompiled, number
    assert counted.executed > 10


def test_long_compiling_is_told_once(patient, caplog, tmp_path, monkeypatch):
    folder = Path(private.folder(tmp_path / "kernels"))
    monkeypatch.setattr(native, "cache_folder", lambda: folder)
    monkeypatch.setattr(kernel_cache, "NOTED_COMPILE_SECONDS", 0.0)
    monkeypatch.setattr(kernel_cache._Compiling, "noted", False)
    caplog.set_level("INFO", logger="semi_naive.compiling")
    for number in range(3):
        njit(types.int64(types.int64), cache=True)(eval(f"lambda x: x + {number}")).compiled()
    assert [line for line in caplog.messages if "compiling" in line] == [
        "compiling kernels that are new on this machine: some seconds, once"
    ]
