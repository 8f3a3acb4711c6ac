"""The cache of compiled kernels: whatever is in it, kernels are right; where it lies, nobody else can write."""

import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numba
import pytest

from semi_naive.host import jit, kernel_cache, native, private

KERNEL = """
@njit
def inner(x):
    return x + 1

@njit("int64(int64)", cache=True)
def kernel(x):
    return 2 * inner(x)
"""
MISS, HIT = (1, 0), (0, 1)
ALL = """
    import sys
    import semi_naive.balance.replay, semi_naive.ra.partitions.groups_ahead, semi_naive.ra.multiway.loops.rooted
    from semi_naive.host.jit import defined_kernels
    from semi_naive.host import native
    names = sorted(native.places(one, s)[0].name for one in defined_kernels() if one.cache for s in one.signatures)
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty one, of this test."""
    folder = Path(private.folder(tmp_path / "kernels"))
    monkeypatch.setattr(native, "cache_folder", lambda: folder)
    return folder


def asked(source=KERNEL, result=42) -> tuple[int, int]:
    """How often the cache had not got a kernel, and had it."""
    module = {"njit": jit.njit, "__name__": "semi_naive.tested"}
    exec(source, module)
    kernel = module["kernel"].dispatcher
    assert kernel(20) == result
    return sum(kernel.stats.cache_misses.values()), sum(kernel.stats.cache_hits.values())


def emptied(path):
    path.write_bytes(b"")


def garbage(path):
    path.write_bytes(b"not a kernel")


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def of_another_build(path):
    private.save_checked(path, b"\x80\x04garbage")


def test_a_damaged_kernel_is_compiled_again(cache, caplog):
    caplog.set_level("INFO")
    assert (asked(), asked()) == (MISS, HIT)
    (path,) = cache.iterdir()
    for damaged in (emptied, garbage, flipped, of_another_build):
        caplog.clear()
        damaged(path)
        assert (asked(), asked()) == (MISS, HIT) and path.name in caplog.text
    path.unlink()
    path.mkdir()
    assert (asked(), asked()) == (MISS, MISS) and list(cache.iterdir()) == [path]


def test_a_changed_function_is_compiled_again_with_all_that_call_it(cache):
    assert (asked(), asked(KERNEL.replace("x + 1", "x + 2"), 44), asked()) == (MISS, MISS, HIT)


def test_kernels_that_came_with_the_package(cache, tmp_path, monkeypatch, caplog):
    """They are as good as those of the cache. One that is damaged is compiled, into the cache."""
    caplog.set_level("INFO")
    assert asked() == MISS
    cache.rename(tmp_path / "carried")
    monkeypatch.setattr(native, "wheel_kernels", lambda: tmp_path / "carried")
    assert asked() == HIT and not cache.exists()
    (path,) = (tmp_path / "carried").iterdir()
    flipped(path)
    assert (asked(), asked()) == (MISS, HIT) and str(path) in caplog.text
    assert [found.name for found in cache.iterdir()] == [path.name]


def test_a_kernel_has_one_name_in_all_processes():
    """Nothing that differs from process to process is in it."""
    source = textwrap.dedent(ALL)
    here: dict = {}
    exec(source, here)
    done = subprocess.run([sys.executable, "-c", source + "print(*names)"], capture_output=True, text=True, check=True)
    there = set(done.stdout.split())
    assert there <= set(here["names"]) and len(there) > 40  # here more may be loaded


def test_numba_asks_what_we_answer():
    """Pins what is not public: that a dispatcher looks at `_cache`, and by which methods."""
    assert all(hasattr(kernel_cache.KernelCache, name) for name in numba.core.caching._Cache.__abstractmethods__)
    assert isinstance(numba.njit(lambda x: x)._cache, numba.core.caching.NullCache)
    numbers = numba.core.bytecode.FunctionIdentity._unique_ids
    assert numba.njit(lambda x: x)._cache and next(numbers) >= 1
    one = numba.njit("int64(int64)")(lambda x: x + 1).overloads.popitem()[1]
    assert one.fndesc.unique_name.rpartition("$")[2] == str(next(numbers) - 1)


def test_code_of_others_is_not_run(tmp_path, monkeypatch, caplog):
    """A folder that others can write, that is a link, that is another user's, or lies where others can exchange it."""
    ours = tmp_path / "ours"

    def place(theirs) -> Path:
        found = private.first_private([theirs, ours])
        assert str(theirs) in caplog.text
        caplog.clear()
        return found

    for name, mode in ("all", 0o777), ("group", 0o770):
        Path(private.folder(tmp_path / name)).chmod(mode)
        assert place(tmp_path / name) == ours
    (tmp_path / "link").symlink_to(private.folder(tmp_path / "private"))
    assert place(tmp_path / "link") == ours
    assert place(tmp_path / "all" / "inner") == ours
    ours.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    fresh = place(tmp_path / "link")
    assert fresh.parent == tmp_path and not list(fresh.iterdir()), "another one"
    fresh.rmdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(private.NotPrivate, match="belongs to another user"):
        private.folder(tmp_path)


def test_modes_do_not_depend_on_the_umask(tmp_path):
    before = os.umask(0)
    try:
        private.save_checked(tmp_path / "a" / "b" / "file", b"text")
        place = private.first_private([tmp_path / "c" / "d"])
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("a", "a/b", "a/b/file", "c", "c/d")]
    assert modes == [0o700, 0o700, 0o600, 0o700, 0o700] and place == tmp_path / "c" / "d"
    assert private.load(tmp_path / "a" / "b" / "file") == b"text"


def test_a_dispatcher_is_loaded_without_what_compiles_it():
    """Arrays that a kernel makes are what most of numba would be loaded for. It is, when something is compiled after all."""
    from semi_naive.ra.text.strings import _copy_strings

    _copy_strings.compiled()
    found = """
        import numpy as np, sys
        from semi_naive.host.jit import njit
        from semi_naive.ra.text.strings import _copy_strings
        copied, one = _copy_strings.dispatcher, np.array([1], np.int64)
        assert copied(np.frombuffer(b"abc", np.uint8), one, one + 1, np.zeros(2, np.int64)).tobytes() == b"b"
        assert not {"numba.np.arrayobj", "numba.cpython.unicode", "numba.np.linalg"} & sys.modules.keys()
        copied = njit("int64[::1](int64[::1])")(lambda words: words.copy())
        print(copied(one).tolist(), sum(_copy_strings.dispatcher.stats.cache_hits.values()))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(found)], capture_output=True, text=True)
    assert done.stdout == "[1] 1\n", done.stderr


def test_kernels_are_compiled_for_a_wheel(tmp_path):
    """One share of them here: the first kernel of many. `.ci/plain` has them all."""
    subprocess.run([sys.executable, "-m", "semi_naive.ra.compiling", tmp_path, "0", "1000000"], check=True)
    made = list(tmp_path.iterdir())
    assert made and all((native.cache_folder() / path.name).exists() and private.load(path) for path in made)
