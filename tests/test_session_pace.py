"""How long a session follows a change until it computes a stratum anew."""

import pytest
from session_cases import PATHS

from semi_naive import Program
from semi_naive.session.maintenance import pace as pacing
from semi_naive.session.maintenance.following import Following
from semi_naive.session.maintenance.pace import LEAST, LEFT, OFTEN, PLANNING, WORTH, Pace, Stopwatch, kind_of
from semi_naive.session.maintenance.suspecting import TooSlow

AROUND = PATHS.replace("edge(y, z).", "edge(y, z), edge(z, _).")  # no closure
SMALL, LARGE = (True, 1), (True, 6)


def test_an_attempt_wastes_a_fifth_at_most():
    before = {"tried": {True, False}}
    assert Pace(anew=10.0, **before).allowed(SMALL) == WORTH * 10.0 <= 2.0 and Pace(**before).allowed(SMALL) == LEAST
    assert Pace(anew=10.0).allowed(SMALL) == WORTH * 10.0 + PLANNING and Pace().allowed(SMALL) == LEAST


def test_what_changes_of_another_size_have_saved_is_no_reason_for_a_longer_attempt():
    pace = Pace(anew=10.0)
    pace.following(SMALL, 0.1)
    assert pace.allowed(LARGE) == WORTH * 10.0


def test_what_smaller_changes_took_foretells_a_longer_attempt_until_one_fails():
    pace = Pace(anew=1.0)
    pace.following((True, 1), 0.001)
    pace.following((True, 3), 0.03)
    assert pace.allowed((True, 5)) == pytest.approx(0.6) and pace.allowed((True, 2)) == pace.allowed((True, 6)) == WORTH
    pace.failing((True, 5), 0.6)
    assert pace.allowed((True, 5)) == WORTH


def test_what_fails_is_paid_for_by_what_changes_of_its_size_have_saved():
    """Whatever follows in which order: each attempt fails as late as it may, or is as quick as nothing. All together take
    no fifth longer than to compute each anew, and one takes that only where others of its size have saved more."""
    for pattern in range(1 << 10):
        pace, spent, saved = Pace(anew=1.0), 0.0, {}
        for place in range(10):
            kind = True, place % 3
            allowed = pace.allowed(kind)
            assert allowed <= max(0.2, min(0.6, saved.get(kind, 0.0)))
            if pattern >> place & 1 and allowed:
                pace.following(kind, 0.001)
                spent, saved[kind] = spent + 0.001, saved.get(kind, 0.0) + 0.999
            else:
                spent, saved[kind] = spent + 1 + allowed, max(0.0, saved.get(kind, 0.0) - allowed)
                if allowed:
                    pace.failing(kind, allowed)
            assert spent <= 1.2 * (place + 1)


def test_changes_of_which_some_take_long_are_still_tried():
    pace = Pace(anew=1.0)
    pace.following((True, 2), 0.1)
    for _ in range(20):
        for _ in range(2):
            pace.failing((True, 2), pace.allowed((True, 2)))
        assert pace.allowed((True, 2)) > 0
        pace.following((True, 2), 0.1)


def test_suspects_tell_whether_the_rest_is_worth_it():
    pace = Pace(anew=1.0)
    assert WORTH == pace.expected(0.01, 0.01) < pace.expected(0.05, 0.1) < pace.expected(0.15, 0.15) < 1.0
    assert pace.expected(0.2, 0.2) == 0.0


def test_what_comes_after_suspects_is_learnt_from_attempts_that_take_long():
    pace = Pace(anew=1.0)
    pace.learn(0.001, 0.05)
    assert pace.after is None
    pace.learn(0.05, 0.5)  # an index was made
    pace.failing((True, 3), 0.5)
    assert pace.after is None
    pace.learn(0.05, 0.5)  # nine for each one
    assert pace.after == pytest.approx(9) and pace.expected(0.1, 0.0) == 0.0
    for _ in range(9):
        pace.learn(0.1, 0.2)
    assert pace.after == pytest.approx(1, abs=0.1) and pace.expected(0.3, 1.0) > 0.6


def test_an_insertion_goes_on_as_long_as_it_makes_tuples_about_as_quickly_as_a_run(monkeypatch):
    """Each tuple that is born buys time: a chain of many iterations goes on where one that makes nothing more ends."""
    clock = [0.0]
    monkeypatch.setattr(pacing.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(pacing.time, "process_time", lambda: clock[0])
    with Program(AROUND).session({"edge": [(i, i + 1) for i in range(20)]}) as session:
        [number] = [number for number, stratum in enumerate(session.upkeep.strata) if stratum.recursive]
        local = session.upkeep._following(number, session.upkeep.strata[number])
        local.each = Pace(anew=1.0).each(100)
        local.begin(Stopwatch(0.1))
        clock[0] = 0.3
        local._told(1, 1, local.begun + 6)
        clock[0] = 0.4
        with pytest.raises(TooSlow):
            local._told(2, 0, local.begun + 6)


def test_a_success_is_one_for_smaller_changes_too_and_one_that_took_longer_than_anew_is_none():
    pace = Pace(anew=1.0)
    for _ in range(3):
        pace.failing(SMALL, 0.2)
    assert pace.allowed(LARGE) == 0.0 and pace.allowed((False, 6)) > 0
    pace.following(LARGE, 1.5)
    assert pace.allowed(SMALL) == 0.0
    pace.following(LARGE, 0.5)
    assert pace.allowed(SMALL) > 0


def test_ticks_are_for_deletions_that_fail_and_not_for_those_that_were_too_much_in_spite_of_them():
    pace = Pace(anew=1.0)
    pace.failing(LARGE, 0.1)
    assert pace.wants_ticks(LARGE) and not pace.wants_ticks((False, 6))
    pace.invest(LARGE)
    pace.failing(LARGE, 0.3, timed=True)  # indexes were made
    assert pace.wants_ticks(LARGE) and pace.allowed(LARGE) == pytest.approx(0.3)
    pace.failing(LARGE, 0.3, timed=True)
    assert not pace.in_vain and pace.allowed(LARGE) == WORTH
    pace.failing(LARGE, WORTH, timed=True)
    pace.failing(SMALL, 0.1)
    assert pace.in_vain and pace.wants_ticks(SMALL) and not pace.wants_ticks(LARGE)
    for _ in range(OFTEN):
        pace.failing(LARGE, 0.1)
    assert pace.wants_ticks(LARGE)  # what was in vain may not be so for ever


def test_a_stratum_gets_ticks_where_attempts_fail_and_keeps_them_until_they_do_not_help(monkeypatch):
    def in_vain(self, *given):
        raise TooSlow

    edges, ticks = {(i, i + 1) for i in range(50)}, []
    monkeypatch.setattr(Following, "follow", in_vain)
    with Program(AROUND).session({"edge": edges}) as session:
        [number] = [number for number, stratum in enumerate(session.upkeep.strata) if stratum.recursive]
        pace = session.upkeep.paces[number]
        for credit in (0.0, 0.0, 1e6, 0.0, 0.0):
            pace.anew = 1e6  # seconds: however busy the machine, an attempt is nothing
            pace.credit, pace.left = dict.fromkeys(pace.credit, credit), {}
            edges.remove(gone := max(edges))
            session.delete("edge", [gone])
            ticks.append(number in session.upkeep.ticks)
        assert ticks == [True, True, True, False, False]
        with Program(AROUND).run({"edge": edges}) as result:
            assert session["path"].to_set() == result["path"].to_set()


def test_it_is_never_left_for_ever():
    pace, tried = Pace(anew=1.0), 0
    for _ in range(30):
        for _ in range(LEFT + 1):
            if pace.allowed(SMALL):
                pace.failing(SMALL, 0.2)
                tried += 1
                break
        else:
            pytest.fail("it has been left")
    assert tried == 30


def test_the_first_run_of_a_process_says_less_than_its_tuples():
    pace = Pace()
    pace.begins(30.0, 1000)
    assert pace.anew == pytest.approx(0.001)


def test_a_kind_is_what_was_lost_and_how_many():
    assert kind_of([(1, 0)]) == kind_of([(1, 0), (0, 0)]) != kind_of([(0, 1)]) == (True, 0)


def test_a_session_leaves_changes_that_it_has_followed_in_vain(monkeypatch, anew):
    attempts = []

    def in_vain(self, *given):
        attempts.append(len(anew))
        raise TooSlow

    with Program(AROUND).session({"edge": [(i, i + 1) for i in range(50)]}) as session:
        monkeypatch.setattr(Following, "follow", in_vain)
        for i in range(20):
            assert session.insert("edge", [(100 + i, 101 + i)]).epoch == i + 1
        assert len(anew) == 20 and attempts == [0, 1, 2, 7, 12, 17]
        with Program(AROUND).run({"edge": session["edge"].to_list()}) as result:
            assert session["path"].to_set() == result["path"].to_set()


def test_neither_other_processes_nor_several_cores_make_an_attempt_longer(monkeypatch):
    clock, work = [0.0], [0.0]
    monkeypatch.setattr(pacing.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(pacing.time, "process_time", lambda: work[0])
    watch = Stopwatch(1.0)
    clock[0], work[0] = 9.0, 0.5
    assert watch.seconds == 0.5 and not watch.over
    work[0] = 1.5
    assert watch.seconds == 1.5 and watch.over
    watch = Stopwatch(1.0)
    clock[0], work[0] = 9.8, 3.0
    assert round(watch.seconds, 6) == 0.8 and not watch.over


@pytest.mark.parametrize("step", [1, 7919**4], ids=["one word", "wide"])
def test_a_stratum_that_is_computed_anew_knows_the_births_of_all_tuples(monkeypatch, machine, step):
    """The machine makes b in iterations in which blocks make c, as it makes no strings."""

    def in_vain(self, *given):
        raise TooSlow

    monkeypatch.setattr(Following, "follow", in_vain)
    text = """
    .decl e(x: number, y: number, s: symbol)
    .input e
    .decl a, b, c(x: number, y: number, s: symbol)
    .output a, b, c
    a(x, y, s) :- e(x, y, s).
    b(x, z, s) :- a(x, y, s), e(y, z, _).
    c(x, y, cat(s, "")) :- b(x, y, s).
    a(x, y, s) :- c(x, y, s).
    """
    edges = [(n * step, (n + 1) * step, "s") for n in range(20)]
    with Program(text).session({"e": edges}) as session:
        [number] = [number for number, stratum in enumerate(session.upkeep.strata) if stratum.recursive]
        session.upkeep.paces[number].anew = 1e6
        session.delete("e", [edges.pop()])
        assert session["b"].to_set() == {(x, y, "s") for x, _, _ in edges for _, y, _ in edges if x + step < y}
        ticks, tables = session.upkeep.ticks[number], session.upkeep.tables
        for name in "abc":
            assert ticks.of(name, tables[name].columns(), tables[name].count).min() >= 0, name
