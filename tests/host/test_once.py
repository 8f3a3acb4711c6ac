"""What one process makes for all of a host: made once, and nobody waits for the dead."""

import os
import subprocess
import sys
import textwrap
import time

import pytest

from semi_naive.host.exclusive import exclusive
from semi_naive.ra.multiway.tries.shared import make_once

MEET = """
    import os, sys, time
    folder, me = sys.argv[1:]
    def meet():
        open(f"{folder}/{me}.ready", "w").close()
        while not os.path.exists(f"{folder}/go"):
            time.sleep(0.001)
"""
MAKE = """
    from semi_naive.ra.multiway.tries.shared import make_once
    def make():
        time.sleep(0.2)
        return me
    meet()
    print(make_once(f"{folder}/thing", make))
"""
COMPILE = """
    from semi_naive.ra.multiway.loops.codegen import Generator
    from semi_naive.ra.multiway.loops.codegen import compile_kernel
    from semi_naive.ra.multiway.query import ConjunctiveQuery, QueryAtom
    from semi_naive.ra.multiway.tries.shape import Shape
    from pathlib import Path
    from semi_naive.host import native, private
    kernels = Path(private.folder(f"{folder}/kernels"))
    native.cache_folder = lambda: kernels
    query = ConjunctiveQuery((QueryAtom("e", ("x", "y")),))
    source = Generator(Shape(query, query.variables), 0).kernel()
    meet()
    stats = compile_kernel(source).dispatcher.stats
    print(sum(stats.cache_misses.values()), sum(stats.cache_hits.values()))
"""
HOLD = """
    from semi_naive.host.exclusive import exclusive
    with exclusive(f"{folder}/lock"):
        meet()
"""


def begun(program: str, folder, me: int, **env) -> subprocess.Popen:
    program = textwrap.dedent(MEET) + textwrap.dedent(program)
    command = [sys.executable, "-c", program, str(folder), str(me)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | env, text=True)


def wait_for(folder, processes: list[subprocess.Popen]) -> None:
    while len(list(folder.glob("*.ready"))) < len(processes):
        assert all(process.poll() is None for process in processes), "a process has ended before it was ready"
        time.sleep(0.01)


def together(program: str, folder, processes: int, **env) -> list[str]:
    """What several processes print that do the same at the same moment."""
    all_of_them = [begun(program, folder, n, **env) for n in range(processes)]
    wait_for(folder, all_of_them)
    (folder / "go").touch()
    return [process.communicate(timeout=60)[0].strip() for process in all_of_them]


def test_the_first_makes_it_and_the_others_wait(tmp_path):
    assert len(set(together(MAKE, tmp_path, 3))) == 1
    assert {file.name for file in tmp_path.iterdir()} == {"go", "thing", *(f"{n}.ready" for n in range(3))}


def test_a_kernel_is_compiled_by_one_process(tmp_path):
    said = together(COMPILE, tmp_path, 2)
    assert sorted(said) == ["0 1", "1 0"]  # misses and hits of the cache


def test_what_is_made_may_fail(tmp_path):
    with pytest.raises(ZeroDivisionError):
        make_once(f"{tmp_path}/thing", lambda: 1 // 0)
    assert make_once(f"{tmp_path}/thing", lambda: 5) == make_once(f"{tmp_path}/thing", lambda: 6) == 5


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_what_is_damaged_is_made_again(tmp_path, damage):
    thing = tmp_path / "thing"
    make_once(str(thing), lambda: list(range(100)))
    thing.write_bytes(damage if damage is not None else thing.read_bytes()[:-1])
    assert make_once(str(thing), lambda: 6) == make_once(str(thing), lambda: 7) == 6


def test_a_lock_ends_with_its_process(tmp_path):
    holder = begun(HOLD, tmp_path, 0)
    wait_for(tmp_path, [holder])
    with exclusive(tmp_path / "lock", 0.02) as mine:
        assert not mine
    holder.kill()
    holder.communicate()
    assert (tmp_path / "lock").exists()
    with exclusive(tmp_path / "lock", 20) as mine:
        assert mine
    assert not (tmp_path / "lock").exists()


def test_files_that_cannot_be_locked_stop_nobody(tmp_path):
    with exclusive(tmp_path / "no such folder" / "lock") as mine:
        assert not mine
