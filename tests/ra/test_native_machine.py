"""The machine's code in a file of its own: loaded without numba, and not used if anything about it is not as it was."""

import subprocess
import sys

import pytest

from semi_naive.ra.tuple_at_a_time import native, ready

CHAIN = """
import sys
from semi_naive import Program
from semi_naive.ra.tuple_at_a_time import native, ready
ready.NATIVE_SECONDS = ready.LOADING_SECONDS = 0.0
text = ".decl e(x: number, y: number) .input e .decl p(x: number, n: number) .output p "
text += "p(0, 0). p(y, n + 1) :- p(x, n), e(x, y), n < 3000."
with Program(text).run({"e": [(i, (i + 1) % 7) for i in range(7)]}) as result:
    assert result["p"].to_set() == {(n % 7, n) for n in range(3001)}
print(native.is_loaded(), "numba" in sys.modules)
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The file of the machine's code, in a cache of its own."""
    ready.compile_machine()
    return native._path()


def run(tmp_path, data: bytes, kept) -> list[str]:
    """Return what a process loads if this file, with this content, lies in its cache."""
    cache = tmp_path / "semi-naive" / "kernels"
    for folder in (tmp_path, cache.parent, cache):
        folder.mkdir(exist_ok=True, mode=0o700)
    (cache / kept.name).write_bytes(data)
    command = "import os; os.environ['XDG_CACHE_HOME'] = sys.argv[1]"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {command}\n{CHAIN}", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_it_runs_without_numba(tmp_path, kept):
    assert run(tmp_path, kept.read_bytes(), kept) == ["True", "False"]


@pytest.mark.parametrize("damage", [lambda data: data[:1000], lambda data: data[:-9] + b"x" * 9, lambda data: b""])
def test_a_damaged_file_is_not_used(tmp_path, kept, damage):
    assert run(tmp_path, damage(kept.read_bytes()), kept)[0] == "False"


def test_code_of_other_sources_is_not_used(kept, monkeypatch):
    for each in native.ENTRY_POINTS:
        monkeypatch.setattr(each, "native", None)
    digest = native._digest
    monkeypatch.setattr(native, "_digest", lambda module: "other" if module.endswith(".searching") else digest(module))
    assert not native.load() and not native.is_loaded()
    monkeypatch.setattr(native, "_digest", digest)
    assert native.load() and native.is_loaded()


def test_it_names_all_sources_that_the_kernels_are_compiled_from():
    named = set(native._sources("semi_naive.ra.tuple_at_a_time.machine"))
    package = "semi_naive.ra.tuple_at_a_time."
    assert {
        package + each
        for each in ("machine", "inserting", "indexing", "joining", "searching", "memory", "operations", "layout")
    } <= named
    assert {"semi_naive.ra.words", "semi_naive.ra.values.kinds"} <= named and len(named) < 40
