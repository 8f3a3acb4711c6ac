"""Which strata of a session are maintained by rules, which are recomputed, and at what cost."""

import numpy as np
import pytest
from session_cases import PATHS, REACH, same

from semi_naive import EvaluationError, Program
from semi_naive.host.jit import defined_kernels, name_of
from semi_naive.ra.tuple_at_a_time.assembled import Assembled
from semi_naive.ra.tuple_at_a_time.stratum import SLICE_INSTRUCTIONS, Interpreter
from semi_naive.session.maintenance import upkeep
from semi_naive.session.maintenance.delete_rederive import DeleteRederive
from semi_naive.session.maintenance.recomputation import Recomputation

pytestmark = pytest.mark.usefixtures("patient")


def test_what_comes_and_goes_is_followed_and_nothing_else_is_touched(monkeypatch, many_edges, anew):
    searched = DeleteRederive.searched
    text = (
        PATHS
        + """
    .decl other(x: number)
    .input other
    .decl lonely(x: number)
    .output lonely
    lonely(x) :- other(x), !path(x, x).
    .decl above(x: number)
    .output above
    above(x) :- other(x), x > 0.
    """
    )
    with Program(text).session({"edge": [(i, i + 1) for i in range(100)], "other": [(3,)]}) as session:
        entered = []
        monkeypatch.setattr(
            DeleteRederive, "searched", lambda self, *given: entered.append(self.stratum.relations) or searched(self, *given)
        )
        changes = session.insert("edge", [(100, 101)]).changes
        assert entered == [("path",), ("lonely",)] and changes["path"].count() == 101 and "lonely" not in changes
        entered.clear()
        session.insert("other", [(5,)])
        assert entered == [("lonely",), ("above",)]
        session.delete("edge", [(100, 101)])
        assert session["path"].count() == 5050
    assert anew == []


def test_sums_of_floats_are_computed_anew_and_those_of_numbers_are_not(anew):
    """How floats are added depends on how they lie, so what was there could not be found again."""
    text = """
    .decl pays(who: symbol, much: float, items: number)
    .input pays
    .decl spent(who: symbol, much: float)
    .output spent
    spent(w, s) :- pays(w, _, _), s = sum m : { pays(w, m, _) }.
    .decl bought(who: symbol, items: number)
    .output bought
    bought(w, s) :- pays(w, _, _), s = sum n : { pays(w, _, n) }.
    """
    facts = {"pays": [("Ann", 0.5, 1), ("Bob", 0.5, 1), ("Bob", 0.25, 2)]}
    told = same(text, facts, ("delete", "pays", [("Bob", 0.5, 1)]), ("clear", "pays", []))
    assert told[0] == {"spent": [("Bob", 0.25, 1), ("Bob", 0.75, -1)], "bought": [("Bob", 2, 1), ("Bob", 3, -1)]}
    assert anew == [("spent",)] * 2


def test_a_group_of_a_count_flips_a_negation_and_back(anew):
    text = """
    .decl e(x: number, y: number)
    .input e
    .decl n(x: number)
    .input n
    .decl busy(x: number)
    busy(x) :- n(x), count : { e(x, _) } > 1.
    .decl idle(x: number)
    .output idle
    idle(x) :- n(x), !busy(x).
    .decl next(x: number, y: number)
    .output next
    next(x, y) :- e(x, y), !busy(y).
    next(x, z) :- next(x, y), e(y, z), !busy(z).
    .decl none(x: number, s: number)
    .output none
    none(x, s) :- n(x), s = sum z : { e(x, y), z = x + y, !n(y), 1 < count : { e(_, y) } }.
    """
    facts = {"e": [(1, 2), (2, 3), (3, 1)], "n": [(1,), (2,), (3,)]}
    told = same(
        text, facts, ("insert", "e", [(2, 1)]), ("insert", "e", [(1, 7), (3, 7)]), ("delete", "e", [(2, 1), (1, 2)]),
        ("delete", "n", [(1,)]), ("insert", "n", [(1,), (7,)]), ("clear", "e", []),
    )  # fmt: skip
    assert told[0]["idle"] == [(2, -1)] and (1, 8, 1) in told[1]["none"] and anew == []


def test_a_stratum_that_follows_for_too_long_is_computed_anew(monkeypatch, anew):
    monkeypatch.setattr("semi_naive.session.maintenance.recomputation.Budget.bindings", lambda *given, **how: 0)
    around = PATHS.replace("edge(y, z).", "edge(y, z), edge(z, _).")
    steps = [("insert", "edge", [(2, 3), (3, 4), (4, 5)]), ("delete", "edge", [(2, 3)])]
    told = same(around, {"edge": [(1, 2)]}, *steps)
    assert len(told[0]["path"]) == 6 and len(told[1]["path"]) == 4 and anew == [("path",)] * 2


JOINED = """
.decl r(x: number, y: number)
.input r
.decl s(x: number, y: number)
.input s
.decl joined(x: number, z: number)
.output joined
joined(x, z) :- r(x, y), s(y, z).
"""


def test_a_deleted_fact_needs_no_index_that_an_inserted_one_does_not():
    rng = np.random.default_rng(0)
    most = {
        "r": (4_000, 5_000),
        "s": (5_000, 5_000),
    }  # a column without an index leaves a little less to search
    facts = {name: np.unique(rng.integers(most[name], size=(20_000, 2)), axis=0) for name in "rs"}
    with Program(JOINED).session(facts) as session:
        for rows in np.array_split(facts["r"][:40], 8):
            session.delete("r", rows)
        assert session.query('sys.index("s", attributes, tuples, bytes)').count() == 1
        left = {name: session[name].to_numpy() for name in "rs"}
        with Program(JOINED).run(left) as result:
            assert session["joined"].to_set() == result["joined"].to_set()


def test_a_large_session_loads_its_kernels_before_the_first_transaction(monkeypatch):
    loaded = []
    monkeypatch.setattr(upkeep, "load_kernels", loaded.append)
    pairs = np.stack([np.arange(upkeep.MIN_TUPLES_TO_LOAD_KERNELS), np.arange(upkeep.MIN_TUPLES_TO_LOAD_KERNELS)], axis=1)
    for rows, expected in ((pairs[:100], []), (pairs, [upkeep.KERNELS])):
        with Program(JOINED).session({"r": rows}):
            assert loaded == expected
    assert set(upkeep.KERNELS) <= {name_of(kernel) for kernel in defined_kernels()}


MEANS = """
.decl pay(who: number, kind: number, at: number, amount: float)
.input pay
.decl paid(who: number, kind: number, at: number, amount: float)
.output paid
paid(w, k, t, a) :- pay(w, k, t, a), a > 0.0, 1.0 < mean b : { pay(w, _, _, b) }.
.decl person(who: number)
.input person
.decl told(who: number)
.output told
told(w) :- person(w), paid(w, _, _, _).
"""


@pytest.mark.parametrize("count", [1, 30, 400])
def test_what_follows_a_relation_that_was_computed_anew_sees_what_is_new_of_it(anew, count):
    """Also where most of that has changed, so that its new table takes the place of the old one."""
    rows = [(i, i % 7, i % 5, 1.5 + i % 3) for i in range(500)]
    facts = {"pay": rows, "person": [(i,) for i in range(2000)]}
    steps = [("delete", "pay", rows[:count]), ("insert", "pay", rows[:count])]
    told = same(MEANS, facts, *steps)
    assert [len(each["told"]) for each in told] == [count] * 2 and set(anew) == {("paid",)}


def test_what_is_computed_anew_is_packed_as_before_and_reads_single_blocks(monkeypatch):
    blocks, again = [], Recomputation.compute

    def noted(recomputation, number):
        pay = recomputation.relations.tables["pay"]
        blocks.append(len(pay.full[0, 1, 2, 3]) + pay.delta_size)
        again(recomputation, number)

    rows = [(i, i % 7, i % 5, 1.5 + i % 3) for i in range(500)]
    with Program(MEANS).session({"pay": rows}) as session:
        (number,) = session.upkeep.run.read_by["pay"]
        session.upkeep.recomputation.budgets[number].visited = 1 << 20  # so that one block is soon made
        before = session["paid"].count(), session.upkeep.relations.tables["paid"].packing
        monkeypatch.setattr(Recomputation, "compute", noted)
        session.insert("pay", [(1000, 1, 1, 1.5)])
        assert blocks == [1]
        session.delete("pay", [(1000, 1, 1, 1.5)])
        assert (session["paid"].count(), session.upkeep.relations.tables["paid"].packing) == before


KINDS = """
.decl edge(x: number, y: number, kind: symbol)
.input edge
.decl reach(y: number, kind: symbol)
.output reach
reach(0, kind) :- edge(0, _, kind).
reach(y, kind) :- reach(x, _), edge(x, y, kind).
reach(y, "late") :- reach(x, _), edge(x, y, "soon").
.decl share(n: number)
.output share
share(10 / n) :- reach(n, "share").
"""


def test_rules_in_the_machine_are_assembled_once(machine, monkeypatch):
    """Later transactions use the same code, whatever numbers strings have, and however wide values are."""
    made, assemble = [], Assembled._assemble
    monkeypatch.setattr(Assembled, "_assemble", lambda self, slow: made.append(self) or assemble(self, slow))
    steps = [
        ("insert", [(0, 1, "other"), (1, 2, "more"), (2, 1, "yet"), (1, 3, "again")]),
        *(("insert", [(2, n, "soon"), (n, -n, "other"), (-n, 1, f"kind {n}")]) for n in (3, 1 << 20, 1 << 40, (1 << 63) - 1)),
        *(("delete", [(2, n, "soon")]) for n in (1 << 40, 3, 1 << 20)),
        ("insert", [(-3, 5, "soon"), (2, 3, "other")]),
        *(("delete", [(n, n + 1, kind)]) for n, kind in ((0, "other"), (1, "more"))),
    ]
    facts: set[tuple] = set()
    with Program(KINDS).session({"edge": []}) as s:
        with pytest.raises(EvaluationError):
            s.insert("edge", [(0, 1, "soon"), (1, 0, "share")])  # the strings are forgotten, those of the rules as well
        for operation, rows in steps:
            getattr(s, operation)("edge", rows)
            facts = facts | set(rows) if operation == "insert" else facts - set(rows)
            with Program(KINDS).run({"edge": sorted(facts)}) as fresh:
                assert {name: s[name].to_set() for name in s} == {name: fresh[name].to_set() for name in s}
    mine = [each for each in made if each.values is s.upkeep.values]
    assert 0 < len(mine) < len(steps)


def test_the_machine_looks_at_a_budget_as_soon_as_it_may_be_exceeded(machine, monkeypatch):
    slices, run = [], Interpreter.run

    def noted(self, bounds, *given):
        slices.append(bounds.slice)
        return run(self, bounds, *given)

    monkeypatch.setattr(Interpreter, "run", noted)
    edges = [(i, i + 1) for i in range(30)]
    with Program(REACH).session({"seed": [(0,)], "edge": edges}) as session:
        session.delete("edge", edges[20:21])
        assert session["reach"].count() == 21
        assert set(slices) == {SLICE_INSTRUCTIONS}
        monkeypatch.setattr("semi_naive.session.maintenance.recomputation.MIN_BUDGET", 1000)
        session.delete("edge", edges[10:11])
        assert slices[-1] <= 1001
