"""Sessions in a directory: whatever happens to a process, the next one has what was committed, and nothing else."""

import io
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from session_cases import PATHS

from bench.fuzz.checks import commit, contents, same_relations, solved
from bench.fuzz.rounds import random_cases
from semi_naive import EvaluationError, Program, StateUnusable
from semi_naive.session import committing
from semi_naive.session.durability import directory as durable
from semi_naive.session.durability import log as log_module
from semi_naive.session.durability.log import Identity, Log, records

LISTS = """
.type List = [head: symbol, tail: List]
.decl word(w: symbol)
.input word
.decl list(l: List)
.input list
.decl found(l: List, w: symbol)
.output found
found(l, cat(h, "!")) :- list(l), l = [h, _], word(h).
found(t, w) :- found(l, w), l = [_, t], t != nil.
"""


@random_cases(60)
def test_reopened_at_any_time_it_is_what_it_was(case, random, tmp_path_factory):
    facts = {name: set(case.facts.get(name, ())) for name in case.changed}
    path = tmp_path_factory.mktemp("state")
    session = Program.from_checked(case.checked).session(facts, path=path / "0")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(durable, "MIN_LOG_BYTES", random.choice([0, 1 << 20]))
        for number, step in enumerate(case.steps, 1):
            commit(session, case, facts, step)
            if random.randrange(2):
                # What a process leaves that is killed here: nothing of it is in memory only.
                copy = path / str(number)
                shutil.copytree(session.commits.directory.path, copy)
                session.close()
                session = Program.from_checked(case.checked).session(dict.fromkeys(facts, ()), path=copy)
                assert session.epoch == number and not session.derived_anew
            same_relations(contents(session), solved(case, facts))
    session.close()


def test_symbols_and_records_keep_their_meaning(tmp_path):
    program = Program(LISTS)
    with program.session(path=tmp_path / "s") as session:
        session.insert("list", [(("a", ("b", None)),)])
        with pytest.raises(RuntimeError), session.transaction() as transaction:
            transaction.insert("list", [(("gone", ("b", None)),)])
            raise RuntimeError
        session.insert("word", [("a",), ("new",)])
        session.insert("list", [(("new", ("b", None)),)])
        before = contents(session)
    assert before["found"] == {
        (("a", ("b", None)), "a!"),
        (("b", None), "a!"),
        (("new", ("b", None)), "new!"),
        (("b", None), "new!"),
    }
    for _ in range(2):
        with program.session(path=tmp_path / "s") as session:
            assert contents(session) == before
            session.insert("word", [("b",)])
            session.delete("word", [("b",)])


def test_ids_that_partitions_have_made(tmp_path, here):
    program = Program(LISTS)
    with program.session({"word": [("a",)], "list": []}, path=tmp_path / "s", spark=here, local_tuples=0) as session:
        session.insert("list", [(("a", ("b", None)),)])
        before = contents(session)
    assert before["found"] == {(("a", ("b", None)), "a!"), (("b", None), "a!")}
    with program.session(path=tmp_path / "s") as session:
        assert contents(session) == before
        session.insert("word", [("b",)])
        session.insert("list", [(("b", None),)])
        assert session["found"].to_set() == before["found"] | {(("b", None), "b!")}


COMMITS = """
import sys
from semi_naive import Program
from semi_naive.session.durability import directory as durable
durable.MIN_LOG_BYTES = int(sys.argv[2])
with Program(sys.stdin.read()).session(path=sys.argv[1]) as session:
    while True:
        number = session.epoch
        with session.transaction() as t:
            t.insert("edge", [(number, number + 1)])
            t.delete("edge", [(number - 20, number - 19)])
        print(session.epoch, flush=True)
"""


@pytest.mark.parametrize("least", [100, 1 << 22])
def test_a_killed_process_loses_no_committed_epoch(tmp_path, least):
    for round_ in range(3):
        command = [sys.executable, "-c", COMMITS, tmp_path / "s", str(least)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        child.stdin.write(PATHS)
        child.stdin.close()
        told = [child.stdout.readline() for _ in range(30 + round_)]
        child.send_signal(signal.SIGKILL)
        told += child.stdout.readlines()
        child.wait()
        child.stdout.close()
        last = max(int(line) for line in told if line.endswith("\n"))
        with Program(PATHS).session(path=tmp_path / "s") as session:
            assert last <= session.epoch <= last + 1  # which was in the log and not yet told
            numbers = range(max(0, session.epoch - 20), session.epoch)
            edges = {(number, number + 1) for number in numbers}
            assert session["edge"].to_set() == edges
            assert session["path"].count() == len(edges) * (len(edges) + 1) // 2


def committed(path, epochs: int = 3) -> Path:
    """A session of some transactions; its log."""
    with Program(PATHS).session({"edge": [(0, 1)]}, path=path) as session:
        for number in range(1, epochs + 1):
            session.insert("edge", [(number, number + 1)])
    return log_of(path)


def log_of(path: Path) -> Path:
    [log] = path.glob("log-*")
    return log


def test_a_record_that_is_cut_short_has_not_been_committed(tmp_path, caplog):
    log = committed(tmp_path / "s")
    whole = log.read_bytes()
    sizes = [log_module.PREAMBLE.size + (len(whole) - log_module.PREAMBLE.size) // 3 * number for number in range(4)]
    for kept in (sizes[2], sizes[2] + 1, sizes[2] + 27, sizes[3] - 1):
        log.write_bytes(whole[:kept])
        with Program(PATHS).session(path=tmp_path / "s") as session:
            assert session.epoch == 2 and session["path"].count() == 6
        assert log.stat().st_size == sizes[2]
    assert "no whole record" in caplog.text
    log.write_bytes(whole[: sizes[2]] + bytes(4096))  # a file system that had made room
    with Program(PATHS).session(path=tmp_path / "s") as session:
        assert session.epoch == 2
        session.insert("edge", [(3, 4)])
    again = log.read_bytes()  # the time of the third record is another
    assert (again[: sizes[2]], len(again)) == (whole[: sizes[2]], len(whole))


def test_a_damaged_directory_is_an_error_that_names_the_file(tmp_path):
    log = committed(tmp_path / "s")
    for file in [path for path in (tmp_path / "s").rglob("*") if path.is_file() and path.stat().st_size]:
        whole = file.read_bytes()
        for at in {0, len(whole) // 2, len(whole) - 1}:
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            with pytest.raises(StateUnusable, match=f"{tmp_path}.*restore all of the directory from a copy, or remove it"):
                Program(PATHS).session(path=tmp_path / "s")
        file.write_bytes(whole)
    begin = log_module.PREAMBLE.size
    data = log.read_bytes()
    log.write_bytes(data[:begin] + data[begin + (len(data) - begin) // 3 :])
    with pytest.raises(StateUnusable, match="other epochs than those after 0"):
        Program(PATHS).session(path=tmp_path / "s")


def test_a_full_disk_fails_the_transaction_and_no_more(tmp_path):
    with Program(PATHS).session({"edge": [(0, 1)]}, path=tmp_path / "s") as session:
        session.insert("edge", [(1, 2)])
        log = log_of(tmp_path / "s")
        size = log.stat().st_size
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, limits[1]))
        try:
            with pytest.raises(OSError, match="a transaction could not be written: File too large.*log-0"):
                session.insert("edge", [(2, 3)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert session.epoch == 1 and session["path"].count() == 3
        assert log.stat().st_size == size
        session.insert("edge", [(2, 5)])
    with Program(PATHS).session(path=tmp_path / "s") as session:
        assert session.epoch == 2 and session["edge"].to_set() == {(0, 1), (1, 2), (2, 5)}


def test_an_interrupt_between_log_and_publication_takes_the_record_back(tmp_path, monkeypatch):
    with Program(PATHS).session({"edge": [(0, 1)]}, path=tmp_path / "s") as session:
        session.insert("edge", [(1, 2)])
        with monkeypatch.context() as patched:

            def interrupted(directory, *given, append=durable.Directory.append):
                append(directory, *given)
                raise KeyboardInterrupt

            patched.setattr(durable.Directory, "append", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.insert("edge", [(2, 3)])
        assert session.epoch == 1
        session.insert("edge", [(2, 4)])
    with Program(PATHS).session(path=tmp_path / "s") as session:
        assert session.epoch == 2 and session["edge"].to_set() == {(0, 1), (1, 2), (2, 4)}


def test_a_snapshot_that_cannot_be_written_loses_nothing(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(durable, "MIN_LOG_BYTES", 0)
    with Program(PATHS).session({"edge": [(0, 1)]}, path=tmp_path / "s") as session:
        with monkeypatch.context() as patched:
            patched.setattr(durable, "store", lambda *given: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            assert session.insert("edge", [(1, 2)]).epoch == 1
        assert "the log has all of it" in caplog.text
        session.insert("edge", [(2, 3)])
    with Program(PATHS).session(path=tmp_path / "s") as session:
        assert session.epoch == 2 and session["path"].count() == 6


def test_what_has_not_changed_is_not_written_again(tmp_path, monkeypatch):
    text = PATHS + ".decl other(x: number, y: number)\n.input other\n"
    facts = {"edge": [(0, 1)], "other": np.arange(2000).reshape(-1, 2)}
    with Program(text).session(facts, path=tmp_path / "s") as session:
        [before] = (tmp_path / "s").rglob("*-other")
        monkeypatch.setattr(durable, "MIN_LOG_BYTES", 0)
        session.insert("edge", np.arange(1000).reshape(-1, 2))
        assert log_of(tmp_path / "s").name.startswith("log-1-")
        assert [before] == list((tmp_path / "s").rglob("*-other"))


def test_blocks_of_which_tuples_are_gone_are_written_without_them(tmp_path, monkeypatch, thin):
    monkeypatch.setattr(durable, "MIN_LOG_BYTES", 0)
    edges = {(number, number + 1) for number in range(50)}
    with Program(PATHS).session({"edge": edges}, path=tmp_path / "s") as session:
        session.delete("edge", [(7, 8), (30, 31)])
    for _ in range(2):
        with Program(PATHS).session(path=tmp_path / "s") as session:
            assert session["edge"].to_set() == edges - {(7, 8), (30, 31)}
            assert session["path"].count() == 8 * 7 // 2 + 23 * 22 // 2 + 20 * 19 // 2
            session.insert("edge", [])


def test_rules_that_have_changed_are_applied_anew_and_it_is_said(tmp_path, caplog):
    text = f"""{PATHS}
    .decl loop(x: number)
    .output loop
    loop(x) :- path(x, x).
    .decl out(x: number)
    .output out
    out(x) :- edge(x, _)."""
    with Program(text).session({"edge": [(0, 1), (1, 0)]}, path=tmp_path / "s") as session:
        session.insert("edge", [(1, 2)])
    with Program(text.replace("path(x, x)", "path(x, x), x > 0")).session(path=tmp_path / "s") as session:
        assert session.derived_anew == ["loop"] and session["loop"].to_set() == {(1,)} and session.epoch == 1
        assert "derived anew, as the rules have changed: loop" in caplog.text
        session.insert("edge", [(2, 1)])
        assert session["loop"].to_set() == {(1,), (2,)} and session["out"].count() == 3
    with Program(text.replace("path(x, z) :-", "path(y, x) :- edge(x, y).\npath(x, z) :-")).session(
        path=tmp_path / "s"
    ) as session:
        assert sorted(session.derived_anew) == ["loop", "path"] and session["loop"].count() == 3
    more = text + ".decl extra(x: number)\n.input extra\nout(x) :- extra(x).\n"
    for number in (1, 2):
        with Program(more).session(path=tmp_path / "s") as session:
            session.insert("extra", [(70 + number,)])
            assert session["out"].count() == 3 + number
    with Program(more).session(path=tmp_path / "s") as session:
        session.clear("extra")
    with pytest.raises(EvaluationError):
        Program(text.replace("path(x, x)", "path(x, x), 1 / x > 0")).session(path=tmp_path / "s")
    with Program(text).session(path=tmp_path / "s") as session:  # whatever went wrong, nothing is half done
        assert session["loop"].count() == 3 and session["out"].count() == 3 and session.epoch == 5


@pytest.mark.parametrize(
    "other, told",
    [
        (PATHS.replace("edge", "arc"), "has facts of edge.*, and edge is no input of"),
        (PATHS.replace(".input edge", ""), "has facts of edge.*, and edge is no input of"),
        (PATHS.replace("number", "symbol"), r"has facts of edge\(number, number\), and .* declares \(symbol, symbol\)"),
    ],
)
def test_facts_that_a_program_cannot_have(tmp_path, other, told):
    with Program(PATHS).session({"edge": [(0, 1)]}, path=tmp_path / "s"):
        pass
    with pytest.raises(StateUnusable, match=told):
        Program(other).session(path=tmp_path / "s")
    with Program(PATHS).session(path=tmp_path / "s") as session:
        session.clear("edge")
    with Program(other).session(path=tmp_path / "s") as session:
        assert not session["path"].count()


def test_one_process_at_a_time_has_the_directory(tmp_path):
    with Program(PATHS).session(path=tmp_path / "s"):
        with pytest.raises(StateUnusable, match="is in use: another process has its session"):
            Program(PATHS).session(path=tmp_path / "s")
    Program(PATHS).session(path=tmp_path / "s").close()
    with pytest.raises(ValueError, match="directory on a disk of this machine"):
        Program(PATHS).session(path="s3://bucket/state")
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnusable, match="cannot be used: .*file"):
        Program(PATHS).session(path=tmp_path / "file")


def test_the_log_is_forced_to_the_disk_at_each_commit_or_now_and_then(tmp_path, monkeypatch):
    forced = []
    monkeypatch.setattr(os, "fsync", lambda file: forced.append(file))
    with Program(PATHS).session(path=tmp_path / "now") as session:
        forced.clear()
        for number in range(5):
            session.insert("edge", [(number, 0)])
        assert len(forced) == 5
    with Program(PATHS).session(path=tmp_path / "later", sync_seconds=3600) as session:
        forced.clear()
        for number in range(5):
            session.insert("edge", [(number, 0)])
        assert not forced
    assert len(forced) == 1


def test_a_log_whose_disk_fails_takes_no_more(tmp_path, monkeypatch):
    identity = Identity("ab" * 16, "cd" * 16)
    log = Log.new(tmp_path / "log", identity)
    log.append(1, {"+p": np.array([[1]])})

    def failing(*given):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match="Input/output error.*log"):
            log.append(2, {})
    with pytest.raises(OSError, match="takes no more records, as it could not be written: Input/output error"):
        log.append(2, {})
    log.close()
    assert [epoch for epoch, _ in records(tmp_path / "log", identity)[0]] == [1]


def test_the_command_keeps_its_session_in_a_folder(run, tmp_path, monkeypatch):
    def command(text: str):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return run("session", "p.dl", "--state", "s")

    Path(tmp_path / "p.dl").write_text(PATHS)
    told = command("insert edge 1 2\nbegin\ninsert edge 2 3\ncommit\nbegin\ninsert edge 5 6\nabort\n")
    assert told == (0, "path\t+1\t1\t2\npath\t+1\t1\t3\npath\t+1\t2\t3\n", "")
    assert command("query path(1, y).") == (0, "2\n3\n", "")
    Path(tmp_path / "p.dl").write_text(PATHS + "path(7, 8).")
    assert command("query path(x, 8).") == (0, "7\n", "semi-naive: derived anew by other rules: path\n")
    Path(tmp_path / "p.dl").write_text(PATHS.replace("edge", "arc"))
    status, out, err = command("query path(x, 8).")
    assert status == 2 and not out and "has facts of edge(number, number), and edge is no input of p.dl" in err


def test_what_is_published_is_seen_by_nobody_before_it_is_in_the_log(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(committing, "Epoch", lambda *given, made=committing.Epoch: order.append("seen") or made(*given))
    with Program(PATHS).session(path=tmp_path / "s") as session:
        monkeypatch.setattr(os, "fsync", lambda file: order.append("on the disk"))
        session.insert("edge", [(1, 2)])
    assert order == ["seen", "on the disk", "seen"]


def test_facts_in_the_text_alone_are_read_by_rules_after_reopening(tmp_path):
    program = Program(
        ".decl e(x: number, y: number)  .input e  .decl a(x: number)  a(1).  .decl b(y: number)  b(y) :- a(x), e(x, y)."
    )
    with program.session({"e": [(1, 2)]}, path=tmp_path / "s"):
        pass
    with program.session(path=tmp_path / "s") as session:
        session.insert("e", [(1, 7)])
        assert session["b"].to_set() == {(2,), (7,)}


# -- registered rules, and subscriptions with a name

NEAR = ".decl near(y: symbol)  near(y) :- link($src, y).  near(z) :- near(y), link(y, z)."
ENDS = ".decl ends(y: symbol)  ends(y) :- link(_, y), !link(y, _)."
LINKS = (
    ".decl link(x: symbol, y: symbol)  .input link  .decl back(y: symbol, x: symbol)  back(y, x) :- link(x, y).  .output back"
)


@pytest.mark.parametrize("least", [0, 1 << 20])
def test_registered_rules_and_names_are_there_after_reopening(tmp_path, monkeypatch, least):
    """Whatever was not acknowledged is told to who subscribes by the name in the next process, also after a kill."""
    monkeypatch.setattr(durable, "MIN_LOG_BYTES", least)
    program, told = Program(LINKS), []

    def tell(changes, epoch):
        told.append((epoch, sorted(changes.to_list())))

    with program.session({"link": [("a", "b")]}, path=tmp_path / "0") as session:
        session.register("near", NEAR)
        session.register("ends", ENDS)
        session.register("gone", ENDS.replace("ends", "gone"))
        session.unregister("gone")
        session.subscribe("near", tell, name="billing", src="a").cancel()
        session.subscribe("back", tell, name="mirror")
        ended = session.subscribe("ends", tell, name="ended")
        session.insert("link", [("b", "new")])
        ended.cancel()
        session.end_subscription("ended")
        session.insert("link", [("x", "y")])
        shutil.copytree(tmp_path / "0", tmp_path / "killed")
    told.clear()
    for path in (tmp_path / "killed", tmp_path / "0"):
        with program.session(path=path) as session:
            with pytest.raises(ValueError, match="ends is registered already"):
                session.register("ends", ENDS)
            session.register("gone", ENDS.replace("ends", "gone"))
            session.insert("link", [("b", "c"), ("y", "z")])
            session.delete("link", [("b", "new")])
            mirror = session.subscribe("back", tell, name="mirror")
            assert told == [
                (1, [("new", "b", 1)]),
                (2, [("y", "x", 1)]),
                (3, [("c", "b", 1), ("z", "y", 1)]),
                (4, [("new", "b", -1)]),
            ]
            told.clear()
            mirror.ack(3)
            with pytest.raises(ValueError, match="'billing' is one to near: take another name"):
                session.subscribe("ends", tell, name="billing")
            session.subscribe("near", tell, name="billing", src="a")
            assert told == [(1, [("new", 1)]), (3, [("c", 1)]), (4, [("new", -1)])]
            told.clear()
    with program.session(path=tmp_path / "0") as session:
        session.subscribe("back", tell, name="mirror")
        assert told == [(4, [("new", "b", -1)])]
        assert session.query("ends(y)").to_set() == {("c",), ("z",)}


def test_what_is_kept_for_a_name_is_gone_where_the_rules_are_others(tmp_path, caplog):
    with Program(LINKS).session({"link": [("a", "b")]}, path=tmp_path) as session:
        session.register("ends", ENDS.replace("!link(y, _)", "back(y, _)"))
        session.register("near", NEAR)
        for name, given in (("ends", {}), ("back", {}), ("near", {"src": "a"})):
            session.subscribe(name, lambda *_: None, name=name, **given)
        session.insert("link", [("b", "c")])
    caplog.clear()
    told = []
    with Program(LINKS.replace("back(y, x) :- link(x, y).", "back(y, y) :- link(_, y).")).session(path=tmp_path) as session:
        assert [each for each in caplog.messages if "changes kept" in each] == [
            f"{name} follows from other rules now: the changes kept for the subscription {name!r} are gone"
            for name in ("ends", "back")
        ]
        session.subscribe("near", lambda changes, epoch: told.append((epoch, changes.to_list())), name="near", src="a")
        assert told == [(1, [("c", 1)])]
