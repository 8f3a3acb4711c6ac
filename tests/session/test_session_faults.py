"""Sessions that something goes wrong with: interrupts, forks, damaged files. `bench.faults` has more of each."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import numpy as np
import pytest
from session_cases import PATHS

from bench.faults.lines import Line, of_sessions
from bench.faults.sessions import Signals, Watched, flipped, headers, in_fork, opened, written
from semi_naive import Program, StateUnusable
from semi_naive.host import interrupts, private
from semi_naive.ra import words
from semi_naive.session.durability import directory as durable
from semi_naive.session.durability.log import END, HEADER, PREAMBLE, SECTOR, Identity, Log, LogDamaged, records

EPOCHS = 3
IDENTITY = Identity("ab" * 16, "cd" * 16)


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """A directory, and what it had after each of some epochs."""
    folder = tmp_path_factory.mktemp("state") / "s"
    return folder, written(folder, Random(1), EPOCHS)


@pytest.fixture
def copied(state, tmp_path):
    return Path(shutil.copytree(state[0], tmp_path / "s"))


def log_of(folder: Path) -> Path:
    [log] = folder.glob("log-*")
    return log


# -- logs


def test_every_bit_of_a_header_is_checked(tmp_path):
    path = tmp_path / "log"
    log = Log.new(path, IDENTITY)
    for epoch in (1, 2):
        log.append(epoch, {"+p": np.arange(epoch)})
    log.close()
    content = path.read_bytes()
    places = headers(content)
    assert len(places) == PREAMBLE.size + 2 * (HEADER.size + len(END)) and len(records(path, IDENTITY)[0]) == 2
    for place in places:
        for bit in range(8):
            path.write_bytes(flipped(content, 8 * place + bit))
            with pytest.raises(LogDamaged):
                records(path, IDENTITY)


def test_a_flipped_bit_is_an_error_and_nothing_is_written(state, copied):
    content = log_of(copied).read_bytes()
    for place in Random(2).sample(headers(content), 5):
        log_of(copied).write_bytes(flipped(content, 8 * place + 5))
        assert opened(copied) is None  # which looks at all files, too
    log_of(copied).write_bytes(content)
    assert opened(copied) == (EPOCHS, state[1][EPOCHS])


@pytest.mark.parametrize(
    "case, kept",
    {
        "whole": 3, "the beginning of a body": 2, "the beginning of a header": 2, "room for more": 3, "sectors of zeros": 2,
        "zeros that it may have": 2, "zeros within a sector": None, "zeros before a record": None, "other bytes": None,
        "a byte less in the middle": None, "a byte more": None, "a sector less": None, "a sector of zeros in a record": None,
    }.items(),
)  # fmt: skip
def test_only_what_may_be_an_unfinished_record_is_cut_off(tmp_path, case, kept):
    """A log of three records of 2 kB each; how many of them are read, or None if it is damaged."""
    path = tmp_path / "log"
    log, sizes = Log.new(path, IDENTITY), [PREAMBLE.size]
    for epoch in (1, 2, 3):
        log.append(epoch, {"+p": np.arange(1, 256)})
        sizes.append(log.size)
    log.close()
    _, second, third, end = sizes
    content, sector = path.read_bytes(), -(-third // SECTOR + -2) * SECTOR  # which begins in the third record
    changed = {
        "whole": content, "the beginning of a body": content[: end - 1], "the beginning of a header": content[: third + 3],
        "room for more": content + bytes(10), "sectors of zeros": content[:sector] + bytes(end - sector),
        "zeros that it may have": content[: sector + 9] + bytes(SECTOR - 9),
        "zeros within a sector": content[: end - 99] + bytes(99),
        "zeros before a record": content[:second] + bytes(third - second) + content[third:],
        "other bytes": content[:third] + b"x" * 9, "a byte less in the middle": content[: third - 9] + content[third - 8 :],
        "a byte more": content + b"\1", "a sector less": content[: third - SECTOR] + content[third:],
        "a sector of zeros in a record": content[:sector] + bytes(SECTOR) + content[sector + SECTOR :],
    }[case]  # fmt: skip
    path.write_bytes(changed)
    if kept is None:
        with pytest.raises(LogDamaged, match="log is damaged at byte .*there is neither a record nor an unfinished one"):
            records(path, IDENTITY)
    else:
        found, size = records(path, IDENTITY)
        assert [epoch for epoch, _ in found] == [1, 2, 3][:kept] and size == sizes[kept]
        log = Log(path, IDENTITY, size)
        log.append(9, {})
        log.close()
        assert [epoch for epoch, _ in records(path, IDENTITY)[0]] == [1, 2, 3][:kept] + [9]
    if kept is None:
        assert path.read_bytes() == changed


def test_a_log_of_another_directory_or_snapshot_is_refused(state, copied, tmp_path, monkeypatch):
    written(tmp_path / "other", Random(1), EPOCHS)
    log = log_of(copied)
    shutil.copy(log_of(tmp_path / "other"), log)
    with pytest.raises(StateUnusable, match=f"{log} is the log of another directory; restore all of the directory"):
        Program(PATHS).session(path=copied)
    shutil.rmtree(copied)
    shutil.copytree(state[0], copied)
    monkeypatch.setattr(durable, "MIN_LOG_BYTES", -1)
    Watched(Random(1), copied, edges=state[1][-1]["edge"]).commit({("7", "8")}, set())
    later = log_of(copied).read_bytes()
    shutil.rmtree(copied)
    shutil.copytree(state[0], copied)
    log.write_bytes(later)
    with pytest.raises(StateUnusable, match=f"{log} is the log of another snapshot of this directory"):
        Program(PATHS).session(path=copied)


def test_a_directory_of_another_version_says_what_to_do(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(durable, "VERSION", "session 1")
        Program(PATHS).session(path=tmp_path / "s").close()
    with pytest.raises(StateUnusable, match="another version .* 'session 1', .* 'session 2': read its relations with that"):
        Program(PATHS).session(path=tmp_path / "s")


@pytest.mark.parametrize("named", [False, True])
def test_a_session_goes_on_from_the_snapshot_that_the_manifest_names(tmp_path, monkeypatch, named):
    """Also when the error came after it was named."""
    watched = Watched(Random(1), tmp_path / "s")
    watched._use()
    with monkeypatch.context() as patched:
        patched.setattr(durable, "MIN_LOG_BYTES", -1)

        def failing(*given, save=private.save_checked):
            if named:
                save(*given)
            raise OSError(5, "Input/output error")

        patched.setattr(private, "save_checked", failing)
        watched._use()
    watched._use()
    assert list(watched.reopened()) == [] and watched.session.epoch == 3
    watched.session.close()


def test_what_is_acknowledged_in_the_midst_of_a_transaction_leaves_no_symbols_of_it(tmp_path):
    program = Program(".decl e(x: symbol)  .input e  .decl p(x: symbol)  .output p  p(x) :- e(x).")
    with program.session(path=tmp_path / "s") as session:
        subscription = session.subscribe("p", lambda *_: None, name="n")
        with pytest.raises(ZeroDivisionError), session.transaction() as transaction:
            transaction.insert("e", [("gone",)])
            subscription.ack(0)
            raise ZeroDivisionError
        session.insert("e", [("new",)])
    with program.session(path=tmp_path / "s") as session:
        assert session["p"].to_set() == {("new",)}


# -- interrupts


@pytest.mark.parametrize("kind", ["commit", "by_hand", "aborted", "asked"])
@pytest.mark.parametrize("kept", [False, True])
def test_an_interrupt_at_any_line_leaves_a_session_as_before_or_after(tmp_path, monkeypatch, kind, kept):
    """In its use, closed, and opened again: nothing is lost, and nothing is told twice."""
    monkeypatch.setattr(durable, "MIN_LOG_BYTES", -1 if kept else 1 << 20)
    watched = Watched(Random(3), tmp_path / "s" if kept else None, retain=1)
    work = getattr(watched, kind)
    with Line(None, of_sessions) as counted:
        work(*watched.some()) if kind == "asked" else list(watched.survives(work, contextlib.nullcontext()))
    for number in range(1, counted.executed, max(7, counted.executed // 12)):
        line = Line(number, of_sessions)
        assert [f"{line.place}: {each}" for each in watched.survives(work, line)] == []
    assert list(watched.reopened()) == []
    watched.session.close()


def test_an_interrupt_while_a_directory_is_opened_or_closed(tmp_path):
    watched, kept = Watched(Random(3), tmp_path / "s"), []
    with Line(None, of_sessions) as counted:
        assert list(watched.reopened()) == []
    for number in range(1, counted.executed, counted.executed // 12):
        try:
            with Line(number, of_sessions):
                watched.session.close()
                watched.open()
        except KeyboardInterrupt as interrupt:
            kept.append(interrupt)  # with all that its frames refer to
            watched.session.close()
            watched.open()
        assert list(watched.wrong()) == []
        watched._use()
    assert list(watched.reopened()) == []
    watched.session.close()


def test_real_interrupts(tmp_path):
    watched, random = Watched(Random(3), tmp_path / "s"), Random(4)
    for _ in range(40):
        assert list(watched.survives(watched.commit, Signals(random.uniform(0, 0.003)))) == []
    assert list(watched.reopened()) == []
    watched.session.close()


def test_a_session_is_free_after_an_interrupt_at_the_first_line_of_an_exit():
    with Program(PATHS).session() as session:
        with pytest.raises(KeyboardInterrupt), session.transaction() as transaction:
            transaction.insert("edge", [(1, 2)])
            line = Line(1)
            line.__enter__()
        assert line.place.startswith("/semi_naive/session/transaction.py")
        session.insert("edge", [(2, 3)])
        assert session["path"].to_set() == {(2, 3)}
        with pytest.raises(ValueError, match="this transaction is over"):
            transaction.commit()


@pytest.mark.parametrize("closing", [False, True])
def test_what_an_interrupted_commit_owes_is_paid_by_the_next_one_or_by_closing(closing):
    """A callback that interrupts end is called twice."""
    session, calls = Program(PATHS).session(), []

    def interrupting(name: str, times: int):
        def callback(changes, epoch):
            calls.append((name, epoch))
            if calls.count((name, 1)) <= times and epoch == 1:
                raise KeyboardInterrupt

        return callback

    for name, times in (("a", 2), ("b", 1), ("c", 0)):
        session.subscribe("edge", interrupting(name, times))
    with pytest.raises(KeyboardInterrupt):
        session.insert("edge", [(1, 2)])
    assert session.epoch == 1 and calls == [("a", 1), ("a", 1), ("b", 1)]
    session.close() if closing else session.insert("edge", [(2, 3)])
    assert calls[3:5] == [("b", 1), ("c", 1)] and calls[5:] == [(name, 2) for name in "abc" if not closing]
    session.close()


def test_signals_wait_for_the_end_of_a_block():
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        with interrupts.deferred():
            signal.raise_signal(signal.SIGINT)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_is_sent_again_does_not_wait(monkeypatch):
    monkeypatch.setattr(interrupts, "SECOND_SIGNAL_SECONDS", 0.01)
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.02)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it waits")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_in_a_kernel_is_an_interrupt(monkeypatch):
    def interrupted(*_):
        raise SystemError("CPUDispatcher(…) returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr(words.sort, "entry", interrupted)
    with pytest.raises(KeyboardInterrupt):
        words.sort(np.arange(3, dtype=np.uint64))


def test_a_lock_is_free_after_an_interrupt():
    lock = threading.Lock()
    for number in (1, 2, 3, 4, 5, 6):
        with contextlib.suppress(KeyboardInterrupt), Line(number), interrupts.locked(lock):
            pass
        assert not lock.locked()


# -- forks


@pytest.mark.parametrize("kept", [False, True])
def test_a_fork_gets_an_error_from_every_call_and_closes_nothing(tmp_path, kept):
    watched = Watched(Random(1), tmp_path / "s" if kept else None)
    assert in_fork(watched) == []
    came, _ = watched.some()
    with watched.session.transaction() as transaction:
        transaction.insert("edge", list(came))
        assert in_fork(watched, transaction) == []
    watched.edges |= came
    if kept:
        assert opened(tmp_path / "s") is None  # as this process has it
    assert list(watched.reopened()) == []
    watched.session.close()


FORKS = f"""
import os, sys, time
from semi_naive import Program
session = Program({PATHS!r}).session(path=sys.argv[1])
session.insert("edge", [(1, 2)])
if not os.fork():
    sys.exit()  # as a process ends: whatever is called then
os.wait()
try:
    Program({PATHS!r}).session(path=sys.argv[1])
except ValueError as error:
    print("in use" in str(error))
session.insert("edge", [(2, 3)])
begun, begins = os.pipe()
if not os.fork():
    os.write(begins, b"!")
    time.sleep(60)
os.read(begun, 1)  # the fork runs: it has given the lock up
print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_the_lock_is_of_the_process_that_opened_the_session(tmp_path):
    """A fork that ends leaves it; one that outlives its killed parent has it not."""
    child = subprocess.Popen(
        [sys.executable, "-c", FORKS, tmp_path / "s"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert child.stdout.readline() == "True\n"
        os.kill(int(child.stdout.readline()), signal.SIGKILL)
        child.wait()
        with Program(PATHS).session(path=tmp_path / "s") as session:
            assert session.epoch == 2 and session["path"].count() == 3
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.stdout.close()
