"""The budget of maintenance: how many bindings a session visits to follow a change until it computes a stratum anew."""

import math

import numpy as np
import pytest
from session_cases import PATHS

from semi_naive import Config, Program
from semi_naive.host import limits
from semi_naive.host.limits import OverBudget
from semi_naive.host.threads import in_threads
from semi_naive.session.maintenance.counting import Counts
from semi_naive.session.maintenance.delete_rederive import DeleteRederive

AROUND = PATHS.replace("edge(y, z).", "edge(y, z), edge(z, _).")  # no closure
EDGES = [(i, i + 1) for i in range(50)]


@pytest.fixture
def free(monkeypatch):
    """Set the bindings that every stratum may visit."""
    return lambda bindings: monkeypatch.setattr("semi_naive.session.maintenance.recomputation.MIN_BUDGET", bindings)


@pytest.fixture
def in_vain(monkeypatch):
    """Attempts to maintain a stratum fail; how many there were."""
    attempts = []

    def fails(self, *given):
        attempts.append(given)
        raise OverBudget

    monkeypatch.setattr(DeleteRederive, "insert", fails)
    return attempts


def recursive(session):
    [number] = [number for number, stratum in enumerate(session.upkeep.run.strata) if stratum.recursive]
    return number


def fresh(program, edges):
    with program.run({"edge": edges}) as result:
        return {name: result[name].to_set() for name in result}


def test_work_is_counted_across_threads_and_ends_beyond_the_budget():
    with limits.budget() as work:
        list(in_threads(limits.visit, [1, 2, 3], 2))
    assert work.bindings == 6 and limits.bindings_left() == math.inf
    with pytest.raises(OverBudget), limits.budget(5) as work:
        limits.visit(5)
        assert limits.bindings_left() == 0
        list(in_threads(limits.visit, [1], 2))


@pytest.mark.parametrize("small", [0, 1000], ids=["blocks", "tuples"])
def test_the_same_evaluation_counts_the_same_work(small, request):
    """However often it runs: no part of the count is a measurement."""
    if small:
        request.getfixturevalue("machine")

    def counted():
        with Program(AROUND).session({"edge": EDGES}, config=Config(small_delta=small)) as session:
            number, counts = recursive(session), []
            for edges in (EDGES[20:21], EDGES[40:41]):
                with limits.budget() as work:
                    session.upkeep.recomputation._evaluate(number)
                counts.append(work.bindings)
                session.delete("edge", edges)
            return counts

    first = counted()
    assert first == counted() and first[0] > first[1] > 0


def test_a_change_within_the_budget_is_followed_and_a_larger_one_is_computed_anew(anew, free):
    free(0)
    program = Program(AROUND)
    for follow, expected in ((1e9, []), (0.0, [("path",)]), (1e-9, [("path",)])):
        del anew[:]
        with program.session({"edge": EDGES}, config=Config(follow=follow)) as session:
            session.insert("edge", [(50, 51)])
            assert session["path"].to_set() == fresh(program, [*EDGES, (50, 51)])["path"]
        assert anew == expected


def test_nothing_is_followed_where_the_part_is_0(anew):
    with Program(AROUND).session({"edge": EDGES}, config=Config(follow=0)) as session:
        session.insert("edge", [(50, 51)])
    assert anew == [("path",)]


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan, "much", None, True])
def test_a_part_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match=r"Config.follow is .*: expected a number from 0"):
        Config(follow=value)


def test_the_part_is_one_of_what_was_counted_when_the_stratum_was_computed_last(free):
    free(0)
    with Program(AROUND).session({"edge": EDGES[:20]}, config=Config(follow=0.5)) as session:
        number = recursive(session)
        allowed = session.upkeep.recomputation.budgets[number]
        before = allowed.bindings(0.5)
        assert before == allowed.visited / 2 > 0
        session.insert("edge", [(20, 21)])
        assert allowed.bindings(0.5) == before  # it has been followed
        session.upkeep.recomputation.recompute(number, {"path": session.upkeep.relations.contents("path")})
        assert allowed.bindings(0.5) == allowed.visited / 2 > before


def test_a_session_that_is_opened_again_keeps_the_count(tmp_path):
    for _ in range(2):
        with Program(AROUND).session({"edge": EDGES}, path=tmp_path / "state") as session:
            counted = session.upkeep.recomputation.budgets[recursive(session)].visited
            session.checkpoint() if hasattr(session, "checkpoint") else None
    assert counted > 0


def test_ticks_come_with_a_deletion_that_exceeds_the_budget_and_go_where_they_do_not_help(in_vain):
    edges, ticks, program = list(EDGES), [], Program(AROUND)
    with program.session({"edge": edges}) as session:
        number = recursive(session)
        for helped in (False, True, False, False):
            session.upkeep.recomputation.budgets[number].helped = helped
            session.upkeep.recomputation.budgets[number].in_vain.clear()
            session.delete("edge", [edges.pop()])
            ticks.append(number in session.upkeep.relations.ticks)
        assert ticks == [True, True, False, True] and len(in_vain) == 4
        session.insert("edge", [(90, 91)])
        assert number not in session.upkeep.relations.ticks  # an insertion needs none
        assert session["path"].to_set() == fresh(program, [*edges, (90, 91)])["path"]


def test_ticks_that_let_a_deletion_follow_have_helped(guarded, patient):
    edges = [*EDGES, (0, 2)]
    with Program(AROUND).session({"edge": edges}) as session:
        number = recursive(session)
        session.insert("edge", [(50, 51)])
        assert number in session.upkeep.relations.ticks and not session.upkeep.recomputation.budgets[number].helped
        session.delete("edge", [(0, 2)])
        assert session.upkeep.recomputation.budgets[number].helped


def test_changes_that_exceed_the_budget_are_not_tried_each_time(in_vain, anew):
    with Program(AROUND).session({"edge": EDGES}) as session:
        for number in range(12):
            session.insert("edge", [(100 + number, 101 + number)])
        assert len(anew) == 12 and len(in_vain) == 4


@pytest.mark.parametrize("step", [1, 7919**4], ids=["one word", "wide"])
def test_a_stratum_that_is_computed_anew_knows_the_births_of_all_tuples(in_vain, machine, step):
    """The machine makes b in iterations in which blocks make c, as it makes no strings."""
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
        number = recursive(session)
        session.delete("e", [edges.pop()])
        assert session["b"].to_set() == {(x, y, "s") for x, _, _ in edges for _, y, _ in edges if x + step < y}
        ticks, tables = session.upkeep.relations.ticks[number], session.upkeep.relations.tables
        for name in "abc":
            assert ticks.of(name, tables[name].columns(), tables[name].count).min() >= 0, name


TRIANGLES = """
.decl edge(x: number, y: number)
.input edge
.decl triangle(x: number, y: number, z: number)
.output triangle
triangle(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).
"""
COUNTED = """
.decl edge(x: number, y: number)
.input edge
.decl found(n: number)
.output found
found(n) :- n = count : { edge(x, y), edge(y, z), edge(x, z) }.
"""


def drawn(count, vertices=300, seed=0):
    edges = np.random.default_rng(seed).integers(vertices, size=(3 * count, 2))
    return np.unique(edges, axis=0)[np.random.default_rng(seed).permutation(len(np.unique(edges, axis=0)))][:count]


@pytest.mark.parametrize("size", [1, 40, 400])
def test_a_cyclic_rule_follows_from_the_first_fact_on(anew, size):
    edges, program = drawn(20 * size), Program(TRIANGLES)
    with program.session({}) as session:
        for part in np.array_split(edges, 20):
            session.insert("edge", part)
        assert session["triangle"].to_set() == fresh(program, edges)["triangle"]
    assert anew == []


@pytest.mark.parametrize("change", ["insert", "delete"])
def test_a_large_change_that_exceeds_the_budget_ends_after_its_sample(anew, free, change, monkeypatch):
    monkeypatch.setattr("semi_naive.session.maintenance.recomputation.MAX_CHANGED_ALLOWED", 0)
    monkeypatch.setattr("semi_naive.host.limits.CALL", 0)
    free(0)
    edges, program, works = drawn(24_000), Program(TRIANGLES), []
    initial = edges if change == "delete" else edges[:14_000]
    visit = limits.Work.visit
    with program.session({"edge": initial}, config=Config(follow=0.05)) as session:
        monkeypatch.setattr(limits.Work, "visit", lambda work, bindings: works.append(work) or visit(work, bindings))
        getattr(session, change)("edge", edges[14_000:])
        assert session["triangle"].to_set() == fresh(program, edges if change == "insert" else edges[:14_000])["triangle"]
    assert anew == [("triangle",)]
    sampled, anew_work = works[0], max(works, key=lambda work: work.bindings)
    assert sampled.bindings < anew_work.bindings / 4


@pytest.mark.parametrize("count", [1, 1 << 13])
@pytest.mark.parametrize("change", ["insert", "delete"])
def test_a_change_is_followed_in_parts(anew, monkeypatch, count, change):
    monkeypatch.setattr("semi_naive.session.maintenance.incremental.MIN_SAMPLED", count)
    monkeypatch.setattr("semi_naive.host.limits.CALL", 0)
    edges, program = drawn(3_000), Program(TRIANGLES)
    with program.session({"edge": edges if change == "delete" else edges[:2_500]}) as session:
        getattr(session, change)("edge", edges[2_500:])
        assert session["triangle"].to_set() == fresh(program, edges if change == "insert" else edges[:2_500])["triangle"]
    assert anew == []


def test_counts_are_kept_when_a_large_change_is_counted_anew(anew, monkeypatch):
    whole, counted = Counts.whole, []
    monkeypatch.setattr(Counts, "whole", lambda *given: counted.append(1) or whole(*given))
    edges, program = drawn(4_000), Program(COUNTED)
    with program.session({"edge": edges[:1_000]}) as session:
        for begin, end, times in ((1_000, 1_001, 1), (1_001, 3_000, 2), (3_000, 3_100, 2), (3_100, 4_000, 3)):
            session.insert("edge", edges[begin:end])
            assert session["found"].to_set() == fresh(program, edges[:end])["found"]
            assert len(counted) == times
        session.delete("edge", edges[2_000:])
        assert session["found"].to_set() == fresh(program, edges[:2_000])["found"]
    assert anew == []
