"""Retained epochs, also after a directory was opened again, and times of transactions."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from semi_naive import Program
from semi_naive.session.durability import directory

TEXT = """
.decl edge(x: symbol, y: symbol) .input edge
.decl path(x: symbol, y: symbol) .output path
.decl degree(x: symbol, n: number) .output degree
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
degree(x, n) :- edge(x, _), n = count : { edge(x, _) }.
"""
NAMES = "abcdefgh"


def changed(session, rng) -> None:
    """A transaction of a few random edges."""
    with session.transaction() as t:
        for _ in range(rng.randrange(1, 4)):
            rng.choice([t.insert, t.insert, t.delete])("edge", [(rng.choice(NAMES), rng.choice(NAMES) + str(rng.randrange(9)))])


def contents(session, epochs) -> dict:
    return {e: {name: session.at(e)[name].to_set() for name in ("edge", "path", "degree")} for e in epochs}


@pytest.mark.parametrize("least", [directory.MIN_LOG_BYTES, 0], ids=["log", "snapshots"])
@pytest.mark.parametrize("retain", [0, 1, 4])
def test_retained_epochs_are_there_again(tmp_path, monkeypatch, retain, least):
    """From the log, and from a snapshot that is written after each transaction."""
    monkeypatch.setattr(directory, "MIN_LOG_BYTES", least)
    rng, path, program = random.Random(f"{retain} {least}"), tmp_path / "state", Program(TEXT)
    for _ in range(4):
        with program.session({"edge": [("a", "b")]}, path=path, retain=retain) as session:
            for _ in range(rng.randrange(5)):
                changed(session, rng)
            epochs = range(max(0, session.epoch - retain), session.epoch + 1)
            before, times = contents(session, epochs), [session.at(e).time for e in epochs]
        with program.session(path=path, retain=retain) as session:
            assert contents(session, epochs) == before and [session.at(e).time for e in epochs] == times
            if epochs[0]:
                with pytest.raises(ValueError, match=f"epoch {epochs[0] - 1} is gone"):
                    session.at(epochs[0] - 1)
            since = []
            session.subscribe("path", lambda changes, epoch, since=since: since.extend(changes.to_list()), since=epochs[0])
            came = {row[:-1] for row in since if row[-1] == 1}
            assert before[epochs[-1]]["path"] - before[epochs[0]]["path"] == came


def test_fewer_epochs_are_retained_later_and_more_as_they_come(tmp_path):
    program, path = Program(TEXT), tmp_path / "state"
    with program.session({}, path=path, retain=5) as session:
        for number in range(6):
            session.insert("edge", [("a", f"b{number}")])
    with program.session(path=path, retain=2) as session:
        assert [session.at(e)["path"].count() for e in (4, 5, 6)] == [4, 5, 6]
        with pytest.raises(ValueError, match="epochs 4 to 6 are kept"):
            session.at(3)
    changed_rules = Program(TEXT.replace("path(x, y) :- edge(x, y).", "path(y, x) :- edge(x, y)."))
    with changed_rules.session(path=path, retain=3) as session:
        assert session.derived_anew == ["path"]
        now = changed_rules.run({"edge": [("a", f"b{number}") for number in range(4)]})["path"].to_set()
        assert session.at(4)["path"].to_set() == now, "by the rules of now"


def test_times_of_transactions(tmp_path):
    program, path = Program(TEXT), tmp_path / "state"
    with program.session({}, path=path, retain=9) as session:
        for at in (10, 10, 12.5, 20):
            with session.transaction(time=at) as t:
                t.insert("edge", [("a", f"b{at}"), ("c", f"d{session.epoch}")])
        with pytest.raises(ValueError, match="the transaction's time is 19, but that of epoch 4 is 20: times never decrease"):
            session.transaction(time=19).begin()
        expected = {9: 0, 10: 2, 12: 2, 12.5: 3, 19: 3, 20: 4, 10**9: 4}
        assert {at: session.at(time=at).number for at in expected} == expected
        assert session.query("sys.epoch(4, at, _, _, _)").to_list() == [(20,)]
    with program.session(path=path, retain=3) as session:
        assert {at: session.at(time=at).number for at in expected if at > 9} == {k: v for k, v in expected.items() if k > 9}
        assert type(session.at(4).time) is int and session.at(3).time == 12.5
        with pytest.raises(ValueError, match="epoch 0 is gone: epochs 1 to 4 are kept"):
            session.at(time=9)
        session.insert("edge", [("z", "z")])
        assert session.at(5).time > 1.7e9, "the clock's"


def test_a_datetime_is_seconds_since_1970():
    begin = datetime(2026, 5, 1, tzinfo=UTC)
    with Program(TEXT).session({}, retain=5) as session:
        for day in range(3):
            with session.transaction(time=begin + timedelta(days=day)) as t:
                t.insert("edge", [("a", str(day))])
        assert session.at(time=begin + timedelta(hours=30))["edge"].count() == 2
        assert session.at(2).time == (begin + timedelta(days=1)).timestamp()


@pytest.mark.parametrize("wrong", ["today", True, float("nan"), 1 << 64, None.__class__])
def test_a_time_that_is_none(wrong):
    with Program(TEXT).session({}) as session:
        for call in (lambda: session.transaction(time=wrong), lambda: session.at(time=wrong)):
            with pytest.raises(ValueError, match="expected a datetime or a number of up to 63 bits"):
                call()
        for call in (lambda: session.at(), lambda: session.at(0, time=1)):
            with pytest.raises(ValueError, match="at takes the number of an epoch, or a time"):
                call()
        assert session.insert("edge", [("a", "b")]).epoch == 1


@pytest.mark.parametrize("where", ["memory", "log", "snapshots"])
def test_relations_are_retained_for_different_numbers_of_epochs(tmp_path, monkeypatch, where):
    monkeypatch.setattr(directory, "MIN_LOG_BYTES", 0 if where == "snapshots" else directory.MIN_LOG_BYTES)
    rng, program, retain = random.Random(where), Program(TEXT), {"path": 5, "edge": 2, "*": 1}
    given = {"path": None if where == "memory" else tmp_path / "state", "retain": retain}
    history = {}
    session = program.session({}, **given)
    for epoch in range(1, 13):
        changed(session, rng)
        history[epoch] = contents(session, [epoch])[epoch]
        if where != "memory" and epoch % 5 == 0:
            session.close()
            session = program.session(**given)
        for age in range(min(epoch, 6)):
            for name in ("edge", "path", "degree"):
                if age <= retain.get(name, 1):
                    assert session.at(epoch - age)[name].to_set() == history[epoch - age][name], (epoch, age, name)
                elif age <= 5:
                    with pytest.raises(KeyError, match=f"{name}' is gone at epoch {epoch - age}: retain keeps"):
                        session.at(epoch - age)[name]
    assert session.between("path", 8, 12).count() == len(history[8]["path"] ^ history[12]["path"])
    with pytest.raises(KeyError, match="'edge' is gone at epoch 9: retain keeps 2 epochs of it"):
        session.between("edge", 9, 12)
    row = next(iter(history[9]["path"]))
    with pytest.raises(KeyError, match="'edge' is gone"):
        session.at(9).why("path", row)
    assert "edge" in str(session.at(10).why("path", next(iter(history[10]["path"]))))
    oldest = session.commits.epochs[-1]
    assert set(oldest.tables) == {"path"} and (oldest.whole is None) == (where == "memory")  # what is gone takes no memory
    session.close()


@pytest.mark.parametrize("wrong", [-1, True, 1.5, {"path": -1}, {"path": None}, {3: 4}])
def test_what_retain_is_not(wrong):
    with pytest.raises(ValueError, match="expected how many epochs before the last one are kept"):
        Program(TEXT).session({}, retain=wrong)
