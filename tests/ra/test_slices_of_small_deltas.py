"""How the work of small deltas is divided: joins planned again, threads, and what is given back to blocks and partitions."""

import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from small_deltas import agree, answers, grown, machines, sharing_all, used  # noqa: F401

from semi_naive.planning.rewriting import passes
from semi_naive.ra.tuple_at_a_time import stratum
from semi_naive.running.driver import local, small

CORNERS = """
.decl edge(x: number, y: number)
.input edge
.decl corner(x: number)
.output corner
corner(0).
corner(z) :- corner(x), edge(x, y), edge(y, z), edge(x, z).
"""
STRIP = {"edge": [(x, x + step) for x in range(300) for step in (1, 2)]}


@pytest.fixture
def as_written(monkeypatch):
    """Programs without static joins: otherwise the edges of CORNERS, which never change, would be joined beforehand."""
    monkeypatch.setattr(passes, "join_static", lambda program: program)


def test_a_cyclic_core_is_binary_joins_while_those_make_few_bindings(as_written):
    found, _ = agree(CORNERS, STRIP)
    assert len(found["corner"]) == 151
    assert used[0].binary and not used[0].others


def test_binary_joins_that_turn_out_to_take_long_are_a_cyclic_core_again(as_written, monkeypatch):
    """In the middle of an iteration, which is then done a block at a time."""
    monkeypatch.setattr(small, "SLICE_INSTRUCTIONS", 10)
    monkeypatch.setattr(small, "MAX_BINARY_JOIN_INSTRUCTIONS", 60)
    text = CORNERS + "corner(y + 1000) :- corner(y), y < 1000.\n"
    hub = {"edge": [*STRIP["edge"], *((40, y) for y in range(1000, 1200))]}
    agree(text, hub)
    assert used[0].binary and not used[-1].binary and used[-1].others


def test_joins_are_planned_again_once_there_are_many_more_tuples(monkeypatch):
    monkeypatch.setattr(small, "SLICE_INSTRUCTIONS", 50)
    agree(grown(10_000), {})
    assert len(used) == 3  # from 64 to 8 times as many, and so on


def test_an_iteration_is_begun_again_where_joins_are_due_and_one_takes_long(monkeypatch):
    """They were planned for one tuple, and a thousand are there when it begins."""
    monkeypatch.setattr(small, "SLICE_INSTRUCTIONS", 5000)
    monkeypatch.setattr(small, "MAX_STALE_PLAN_INSTRUCTIONS", 4000)
    forgotten, forget = [], stratum.Interpreter._roll_back
    monkeypatch.setattr(stratum.Interpreter, "_roll_back", lambda self: forgotten.append(self) or forget(self))
    text = ".decl a(x: number)\n.output a\na(0).\na(x) :- a(0), x = range(1, 1000).\n"
    agree(text + "a(x + 1000 * y) :- a(x), a(y), x < 60, y < 60.\n", {})
    assert len(forgotten) == 2 and used[1] is not forgotten[0]  # once by one thread, once shared by three


def test_threads_have_room_for_all_that_they_make():
    """Thousands of heads of each, most of them several times, and thousands of bindings that are told apart."""
    text = """
    .decl a(x: number, y: number)
    .output a
    .decl next(y: number, z: number)
    .input next
    a(0, 0).
    a(x, x) :- a(0, 0), x = range(1, 100).
    a(1000 * x + y, y) :- a(x, _), x > 0, x < 100, y = range(x - x, 300).
    a(z, 0) :- a(_, y), next(y, w), next(w, z).
    """
    facts = {"next": [(y, z) for y in range(120) for z in range(60)]}
    agree(text, facts)
    used.clear()
    with sharing_all():
        answers(text, facts)
    room = np.array([[len(share.heads) for share in machine.shares.shares] for machine in used if machine.shares])
    assert (room.max(axis=0) > 4096).all(), room


def test_small_iterations_of_threads_are_looked_at_between_them(monkeypatch):
    """None of them takes as many instructions as there are between two looks."""
    looks, pause = [], small.MachineIterations._continues
    monkeypatch.setattr(small.MachineIterations, "_continues", lambda self: looks.append(self) or pause(self))
    monkeypatch.setattr(small, "SLICE_INSTRUCTIONS", 500)
    with sharing_all():
        answers(grown(400), {})
    assert len(looks) > 2


def test_an_iteration_that_is_too_much_work_is_followed_by_some_a_block_at_a_time(monkeypatch):
    """Each time twice as many."""
    monkeypatch.setattr(local, "MAX_INSTRUCTIONS_PER_LITERAL", 3)
    agree(grown(40), {})
    assert [machine.iterations for machine in used] == [1] * 5  # and 2, 4, 8 and 16 between them


def test_an_iteration_that_makes_too_many_is_given_back():
    """It goes to the partitions, from where the tables were before it."""
    text = """
    .decl a(x: number, y: number)
    .output a
    a(0, 0).
    a(x + 1, 0) :- a(x, 0), x < 60.
    a(x, range(1, 2000)) :- a(x, 0), x = 50.
    """
    found, _ = agree(text, {}, local_tuples=1000)
    assert len(found["a"]) == 61 + 1999


def test_a_program_without_end_is_interrupted_within_a_second(tmp_path):
    (tmp_path / "endless.dl").write_text(".decl a(x: number)\n.output a\na(0).\na((x + 1) % 1000000000000) :- a(x).\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "semi_naive", "run", "--no-warn", "endless.dl"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    while psutil.Process(process.pid).cpu_times().user < 2:  # by then it runs on the machine
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said == "semi-naive: interrupted\n"
