"""Sessions: after any transactions the relations are what a fresh run on the same facts makes of them, and the changes that
were told add up to them."""

import io
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from datalog_oracle import solve, value
from datalog_programs import VALUES, listing, programs
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from semi_naive.ra.rules import ir
from semi_naive.ra.rules.block import HALVES, Block
from semi_naive.ra.rules.changes import within
from semi_naive.ra.rules.table import Table
from semi_naive.ra.rules.thinned import Thinned, thinned

from bench import sessions
from semi_naive import BadInput, EvaluationError, Program
from semi_naive.session.maintenance.following import Following
from semi_naive.session.maintenance.upkeep import Upkeep

# Not shrunk: a case that fails prints itself, and is small anyway.
SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate]}
PATHS = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However busy the machine is, what follows by change does."""
    monkeypatch.setattr("semi_naive.session.maintenance.upkeep.LEAST", 1e9)


@pytest.fixture
def anew(monkeypatch):
    """The relations of the strata that have been computed anew in transactions."""
    strata = []
    again = Upkeep._all_anew

    def told(upkeep, number, before):
        strata.append(upkeep.strata[number].relations)
        return again(upkeep, number, before)

    monkeypatch.setattr(Upkeep, "_all_anew", told)
    return strata


# -- against the oracle


@st.composite
def transactions(draw, program: ir.Program, names: list[str]):
    """Some transactions, each a list of (operation, relation, rows)."""
    made = []
    for _ in range(draw(st.integers(1, 5))):
        operations = []
        for _ in range(draw(st.integers(1, 3))):
            relation = program.relations[draw(st.sampled_from(names))]
            row = st.tuples(*(st.sampled_from(VALUES[kind]) for kind in relation.kinds))
            operation = draw(st.sampled_from(["insert", "insert", "insert", "delete", "delete", "upsert", "clear"]))
            operations.append((operation, relation.name, draw(st.lists(row, min_size=1, max_size=3))))
        made.append(operations)
    return made


def refused(program: ir.Program, operation: str, name: str, rows: list) -> bool:
    """Whether an operation would take away what is written in the program."""
    written = {tuple(value(arg, {}) for arg in r.head.args) for r in program.rules if r.head.relation == name and not r.body}
    if operation == "upsert":
        last = {row[:1]: row for row in rows}
        return any(row[:1] in last and row != last[row[:1]] for row in written)
    return operation == "delete" and bool(written & set(rows))


def perform(facts: dict[str, set], operation: str, relation: ir.Relation, rows: list) -> None:
    """An operation, done on sets."""
    now = facts[relation.name]
    if operation == "clear":
        now.clear()
    if operation == "delete":
        now.difference_update(rows)
    if operation == "insert":
        now.update(rows)
    if operation == "upsert":
        for row in rows:
            now.difference_update({other for other in now if other[:1] == row[:1]})
            now.add(row)


def ask(transaction, operation: str, relation: ir.Relation, rows: list) -> None:
    if operation == "clear":
        transaction.clear(relation.name)
    elif operation == "upsert":
        transaction.upsert(relation.name, rows, key=[name for name, _ in relation.attributes[:1]])
    else:
        getattr(transaction, operation)(relation.name, rows)


def folded(told: dict[str, list], contents: dict[str, set]) -> dict[str, set]:
    """Contents after changes: what comes was not there, what goes was."""
    contents = {name: set(rows) for name, rows in contents.items()}
    for name, changes in told.items():
        assert changes and len({row[:-1] for row in changes}) == len(changes)
        for *row, diff in changes:
            assert (tuple(row) in contents[name]) == (diff == -1)
            contents[name] ^= {tuple(row)}
    return contents


def agrees(case, data, **config):
    program, facts = case
    derived = [rule.head.relation for rule in program.rules]
    also = data.draw(st.sets(st.sampled_from(derived), max_size=2)) if derived else set()
    names = [*facts, *sorted(also)]
    facts = {name: set(facts.get(name, ())) for name in names}
    asked = data.draw(transactions(program, names))
    note(listing(program, facts))
    note(f"{asked}")
    with Program.from_checked(program).session(facts, retain=2, **config) as session:
        past = {}
        contents = {name: session[name].to_set() for name in session}
        seen = {name: contents[name] for name in session.program.outputs}
        assert contents == {name: rows for name, rows in solve(program, facts).items() if name in contents}
        for epoch, operations in enumerate(asked, 1):
            past[epoch - 1] = contents
            with session.transaction() as transaction:
                for operation, name, rows in operations:
                    if refused(program, operation, name, rows):
                        with pytest.raises(BadInput, match="written in the program"):
                            ask(transaction, operation, program.relations[name], rows)
                        continue
                    ask(transaction, operation, program.relations[name], rows)
                    perform(facts, operation, program.relations[name], rows)
            expected = solve(program, facts)
            contents = {name: session[name].to_set() for name in session}
            for name, rows in contents.items():
                assert rows == expected[name], f"{name}: missing {expected[name] - rows}, extra {rows - expected[name]}"
            assert all(session[name].count() == len(rows) for name, rows in contents.items())
            seen = folded({name: list(change) for name, change in transaction.changes.items()}, seen)
            assert seen == {name: contents[name] for name in seen}
            for number in range(max(0, epoch - 2), epoch):
                assert {name: session.at(number)[name].to_set() for name in session} == past[number]


@settings(max_examples=80, **SETTINGS)
@given(programs(), st.data())
def test_any_transactions_leave_what_a_fresh_run_makes(case, data):
    agrees(case, data)


@settings(max_examples=60, **SETTINGS)
@given(programs(), st.data(), st.sampled_from([0, 2, 50_000]))
def test_small_iterations_go_to_the_machine(machine, case, data, small_delta):
    agrees(case, data, small_delta=small_delta)


@settings(max_examples=40, **SETTINGS)
@given(programs(), st.data())
def test_a_split_into_transactions_does_not_matter(case, data):
    program, facts = case
    asked = data.draw(transactions(program, list(facts)))
    with Program.from_checked(program).session(facts) as one, Program.from_checked(program).session(facts) as many:
        with one.transaction() as whole:
            for operations in asked:
                with many.transaction() as part:
                    for operation, name, rows in operations:
                        ask(whole, operation, program.relations[name], rows)
                        ask(part, operation, program.relations[name], rows)
        assert {name: one[name].to_set() for name in one} == {name: many[name].to_set() for name in many}


@pytest.fixture
def thin(monkeypatch):
    """Blocks are not copied for what is gone, however small they are, and searched for however many bindings."""
    monkeypatch.setattr("semi_naive.ra.rules.thinned.LEAST", 0)
    monkeypatch.setattr("semi_naive.ra.rules.thinned.MOST", 1.0)
    monkeypatch.setattr("semi_naive.ra.rules.thinned.MANY", 0)
    monkeypatch.setattr("semi_naive.ra.rules.changes.NEAR", 0)


@settings(max_examples=60, **SETTINGS)
@given(programs(), st.data())
def test_tuples_that_are_gone_stay_in_blocks(thin, case, data):
    agrees(case, data)


@pytest.fixture
def guarded(monkeypatch):
    """Recursive strata know their ticks from the beginning; which relations have been guarded."""
    relations, anew, guard = set(), Upkeep._anew, Following._guarded

    def timed(upkeep, number):
        stratum = upkeep.strata[number]
        if stratum.recursive and upkeep._are_plain(stratum):
            upkeep.dense[number] = True
        anew(upkeep, number)

    def told(following, fresh, below, ticks):
        left, ticks = guard(following, fresh, below, ticks)
        relations.update(name for name, block in fresh.items() if name not in left or left[name].size < block.size)
        return left, ticks

    monkeypatch.setattr("semi_naive.session.maintenance.ticks.DIRECT", 1)
    monkeypatch.setattr(Upkeep, "_anew", timed)
    monkeypatch.setattr(Following, "_guarded", told)
    return relations


@settings(max_examples=80, **SETTINGS)
@given(programs(), st.data())
def test_suspects_that_have_older_witnesses_stay(guarded, case, data):
    agrees(case, data)


pairs = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)))


@settings(max_examples=100, **SETTINGS)
@given(pairs, st.lists(pairs, max_size=3), pairs)
def test_a_block_of_which_tuples_are_gone_is_like_a_copy_without_them(thin, tuples, gone, others):
    def block(of):
        rows = sorted(of)
        return Block.of([np.array([row[i] for row in rows], np.int64) for i in range(2)], len(rows), HALVES)

    made, expected = block(tuples), block(tuples.difference(*gone))
    for each in gone:
        at = np.flatnonzero(within(made, Table.of(2, (0, 1), {(0, 1): [block(each)]}, [])))
        made = thinned(made, at)
    assert made.size == expected.size and isinstance(made, Thinned) == bool(tuples & set().union(*gone))
    found = [list(map(range, *map(np.ndarray.tolist, each.ranges([np.arange(-1, 7)], 8)))) for each in (made, expected)]
    assert found[0] == found[1]  # two ranges without a number in them are equal
    at = np.arange(made.size)
    assert [made.column(i, at).tolist() for i in range(2)] == [column.tolist() for column in expected.columns()]
    assert [column.tolist() for column in made.columns()] == [column.tolist() for column in expected.columns()]
    left = block(others).without(made)
    assert sorted(zip(*(column.tolist() for column in left.columns()), strict=True)) == sorted(
        others - tuples.difference(*gone)
    )
    assert made.words.tolist() == expected.words.tolist()


LINEAR = "path(x, z) :- path(x, y), edge(y, z)."
DOUBLED = "path(x, z) :- path(x, y), path(y, z)."
AROUND = "path(x, z) :- edge(x, y), path(y, z), edge(z, _)."


STEPS = st.sampled_from([LINEAR, DOUBLED, AROUND])
DENSE = st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40)


@settings(max_examples=30, **SETTINGS)
@given(STEPS, DENSE, st.data())
def test_graphs_whose_edges_come_and_go(step, edges, data):
    """Dense enough that most of what is suspected has another derivation."""
    follows_graphs(step, edges, data)


@settings(max_examples=60, **SETTINGS)
@given(STEPS, DENSE, st.data())
def test_graphs_whose_paths_are_guarded(guarded, step, edges, data):
    follows_graphs(step, edges, data)


def follows_graphs(step, edges, data):
    program = Program(PATHS.replace(LINEAR, step))
    with program.session({"edge": edges}) as session:
        for _ in range(4):
            come = data.draw(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4))
            gone = data.draw(st.sets(st.sampled_from(sorted(edges | {(0, 0)})), max_size=4))
            before, edges = session["path"].to_set(), (edges - gone) | come
            with session.transaction() as transaction:
                transaction.delete("edge", gone)
                transaction.insert("edge", come)
            with program.run({"edge": edges}) as result:
                assert session["path"].to_set() == result["path"].to_set()
            told = transaction.changes.get("path", [])
            assert folded({"path": list(told)} if told else {}, {"path": before})["path"] == session["path"].to_set()


SHORTEST = """
.decl edge(x: number, y: number, w: number)
.input edge
.decl distance(y: number, d: number)
.input distance
.output distance
distance(y, min(w)) :- edge(y, y, w).
distance(y, min(d + w)) :- distance(x, d), edge(x, y, w).
distance(y, min(max(d, e))) :- distance(x, d), edge(x, y, 0), distance(y, e).
.decl next(x: number, y: number)
.output next
next(x, y) :- distance(x, d), edge(x, y, w), distance(y, d + w).
.decl far(x: number)
.output far
far(x) :- edge(x, _, _), !distance(x, _).
"""
SAME = """
.decl link(x: number, y: number, w: number)
.input link
.decl same(x: number, y: number) eqrel
.input same
.output same
same(x, y) :- link(x, y, 0).
same(x, z) :- link(x, y, 1), part(y), link(y, z, _).
.decl part(x: number)
.output part
part(y) :- same(1, y), link(y, y, _).
.decl alone(x: number)
.output alone
alone(x) :- link(x, _, _), 2 > count : { same(x, _) }.
"""
ENDS = st.integers(0, 6)


@settings(max_examples=80, **SETTINGS)
@given(st.sampled_from([(SHORTEST, "edge", "distance"), (SAME, "link", "same")]), st.data())
def test_best_values_and_classes_whose_facts_come_and_go(anew, case, data):
    text, graph, own = case
    rows = {graph: st.tuples(ENDS, ENDS, st.integers(0, 2)), own: st.tuples(ENDS, ENDS)}
    program, facts = (
        Program(text),
        {name: data.draw(st.sets(row, max_size=14 if name == graph else 2)) for name, row in rows.items()},
    )
    note(f"{facts}")
    with program.session(facts) as session:
        for _ in range(3):
            before = {name: session[name].to_set() for name in program.outputs}
            with session.transaction() as transaction:
                for name, row in rows.items():
                    gone = data.draw(st.sets(st.sampled_from(sorted(facts[name])), max_size=3)) if facts[name] else set()
                    come = data.draw(st.sets(row, max_size=2))
                    transaction.delete(name, gone)
                    transaction.insert(name, come)
                    facts[name] = (facts[name] - gone) | come
            note(f"{facts}")
            with program.run(facts) as result:
                assert {name: session[name].to_set() for name in session} == {name: result[name].to_set() for name in result}
            after = folded({name: list(change) for name, change in transaction.changes.items()}, before)
            assert after == {name: session[name].to_set() for name in program.outputs}
    assert anew == []


# -- by name


def same(text: str, facts: dict[str, list], *steps: tuple[str, str, list]) -> list[dict[str, list]]:
    """What each step, a transaction of its own, has changed. After each, all relations are what a run makes of the facts."""
    program, facts = Program(text), {name: set(rows) for name, rows in facts.items()}
    facts = {name: set() for name in program.inputs} | facts
    told = []
    with program.session(facts) as session:
        for operation, name, rows in steps:
            with session.transaction() as transaction:
                ask(transaction, operation, program.relations[name], rows)
            perform(facts, operation, program.relations[name], rows)
            told.append({name: sorted(changes) for name, changes in transaction.changes.items()})
            with program.run(facts) as result:
                assert {name: session[name].to_set() for name in session} == {name: result[name].to_set() for name in result}
    return told


def test_a_cycle_does_not_support_itself():
    told = same(PATHS, {"edge": [(0, 1), (1, 2), (2, 1)]}, ("delete", "edge", [(0, 1)]), ("delete", "edge", [(1, 2)]))
    assert told[0]["path"] == [(0, 1, -1), (0, 2, -1)]
    assert told[1]["path"] == [(1, 1, -1), (1, 2, -1), (2, 2, -1)]


REACH = """
.decl seed(x: number)
.input seed
.decl edge(x: number, y: number)
.input edge
.decl reach(x: number)
.output reach
reach(x) :- seed(x).
reach(y) :- reach(x), edge(x, y).
"""


def test_a_guarded_tuple_goes_when_its_witness_goes_later(guarded):
    edges = [(0, 1), (1, 2), (2, 9), (0, 3), (3, 4), (4, 9)]
    [told] = same(REACH, {"seed": [(0,)], "edge": edges}, ("delete", "edge", [(1, 2), (0, 3)]))
    assert told["reach"] == [(2, -1), (3, -1), (4, -1), (9, -1)] and guarded == {"reach"}


def test_a_tuple_that_comes_again_is_as_young_as_that(guarded):
    edges = [(0, 1), (1, 2), (2, 1)]
    steps = [("insert", "edge", [(0, 2)]), ("delete", "edge", [(0, 1)]), ("delete", "edge", [(0, 2)])]
    told = same(REACH, {"seed": [(0,)], "edge": edges}, *steps)
    assert told == [{}, {}, {"reach": [(1, -1), (2, -1)]}]


def test_two_tuples_that_are_each_others_only_witness_go_together():
    text = """
    .decl seed(x: number)
    .input seed
    .decl a(x: number)
    .output a
    .decl b(x: number)
    .output b
    a(x) :- seed(x).
    a(x) :- b(x).
    b(x) :- a(x).
    """
    [told] = same(text, {"seed": [(1,)]}, ("delete", "seed", [(1,)]))
    assert told == {"a": [(1, -1)], "b": [(1, -1)]}


def test_cycles_of_no_and_of_negative_weight_under_min(anew):
    text = """
    .decl edge(x: number, y: number, w: number)
    .input edge
    .decl distance(y: number, d: number)
    .output distance
    distance(0, min(0)) :- edge(0, _, _).
    distance(y, min(max(d + w, -3))) :- distance(x, d), edge(x, y, w).
    """
    start = [(0, 1, 5), (1, 2, 0), (2, 1, 0), (0, 2, 7)]
    steps = [
        ("delete", "edge", [(0, 1, 5)]), ("insert", "edge", [(0, 1, 2)]), ("insert", "edge", [(2, 1, -1)]),
        ("delete", "edge", [(2, 1, -1)]), ("clear", "edge", []),
    ]  # fmt: skip
    told = same(text, {"edge": start}, *steps)
    assert told[0]["distance"] == [(1, 5, -1), (1, 7, 1), (2, 5, -1), (2, 7, 1)] and anew == []


def test_the_next_best_value_comes_when_the_best_one_goes(anew):
    facts = {"edge": [(3, 3, 1), (3, 3, 2), (3, 4, 5)], "distance": [(3, 7), (4, 9)]}
    told = same(SHORTEST, facts, ("delete", "edge", [(3, 3, 1)]), ("clear", "edge", []))
    assert told[0]["distance"] == [(3, 1, -1), (3, 2, 1), (4, 6, -1), (4, 7, 1)]
    assert told[1]["distance"] == [(3, 2, -1), (3, 7, 1), (4, 7, -1), (4, 9, 1)] and anew == []


def test_a_class_falls_apart_where_nothing_holds_it(anew):
    facts = {"link": [(1, 2, 0), (2, 3, 0), (3, 4, 0), (2, 4, 0)], "same": [(3, 4)]}
    told = same(SAME, facts, ("delete", "link", [(2, 3, 0)]), ("delete", "link", [(2, 4, 0)]), ("insert", "link", [(4, 1, 0)]))
    assert "same" not in told[0] and len(told[1]["same"]) == len(told[2]["same"]) == 8 and anew == []


def test_a_tuple_that_is_derived_and_explicit_stays_until_it_is_neither():
    text = ".decl a(x: number)\n.input a\n.decl b(x: number)\n.input b\n.output b\nb(x) :- a(x)."
    facts = {"a": [(1,), (2,)], "b": [(1,), (2,)]}
    told = same(text, facts, ("delete", "a", [(1,)]), ("delete", "b", [(1,)]), ("delete", "b", [(2,)]), ("delete", "a", [(2,)]))
    assert told == [{}, {"b": [(1, -1)]}, {}, {"b": [(2, -1)]}]


def test_the_last_operation_on_a_tuple_wins():
    with Program(PATHS).session({"edge": [(1, 2)]}) as session:
        with session.transaction() as transaction:
            transaction.insert("edge", [(2, 3), (2, 3)])
            transaction.delete("edge", [(2, 3), (1, 2)])
            transaction.insert("edge", [(1, 2)])
        assert (transaction.epoch, transaction.ignored, dict(transaction.changes)) == (1, 2, {})
        with session.transaction() as transaction:
            transaction.delete("edge", [(2, 3)])
            transaction.insert("edge", [(2, 3)])
        assert transaction.ignored == 0 and sorted(transaction.changes["path"]) == [(1, 3, 1), (2, 3, 1)]
        with session.transaction() as transaction:
            for number in range(5000):  # more operations than wait
                transaction.insert("edge", [(number % 7, 99)])
                transaction.delete("edge", [(number % 7, 99)])
        assert transaction.ignored == 7 and not transaction.changes


def test_one_relation_several_times_in_a_body_all_of_which_change_at_once():
    text = """
    .decl e(x: number, y: number)
    .input e
    .decl triangle(x: number, y: number, z: number)
    .output triangle
    triangle(x, y, z) :- e(x, y), e(y, z), e(x, z).
    """
    three = [(1, 2), (2, 3), (1, 3)]
    again = ("insert", "e", [(1, 2), (2, 3), (2, 2)])
    told = same(text, {"e": [(7, 8)]}, ("insert", "e", three), ("delete", "e", three[:2]), again)
    assert told[0]["triangle"] == [(1, 2, 3, 1)]
    assert told[2]["triangle"] == [(1, 2, 2, 1), (1, 2, 3, 1), (2, 2, 2, 1), (2, 2, 3, 1)]


def test_a_negated_wildcard_and_a_rule_whose_two_parts_flip_together():
    text = """
    .decl e(x: number, y: number)
    .input e
    .decl n(x: number)
    .input n
    .decl sink(x: number)
    .output sink
    sink(x) :- n(x), !e(x, _).
    .decl one(x: number)
    .output one
    one(x) :- e(x, y), !e(y, x).
    """
    facts = {"e": [(1, 2), (1, 3)], "n": [(1,), (2,)]}
    told = same(text, facts, ("delete", "e", [(1, 2)]), ("delete", "e", [(1, 3)]), ("insert", "e", [(5, 6), (6, 5), (6, 7)]))
    assert told == [{}, {"sink": [(1, 1)], "one": [(1, -1)]}, {"one": [(6, 1)]}]


def test_groups_become_empty_and_appear_and_sums_of_floats_come_back():
    text = """
    .decl pays(who: symbol, what: number, much: float)
    .input pays
    .decl total(who: symbol, much: float, items: number)
    .output total
    total(w, s, n) :- pays(w, _, _), s = sum m : { pays(w, _, m) }, n = count : { pays(w, _, _) }.
    """
    facts = {"pays": [("Ann", 1, 0.1), ("Ann", 2, 1e16), ("Bob", 1, 0.5)]}
    steps = [
        ("delete", "pays", [("Ann", 2, 1e16)]), ("insert", "pays", [("Cid", 1, 0.25)]), ("delete", "pays", [("Bob", 1, 0.5)]),
    ]  # fmt: skip
    told = same(text, facts, *steps)
    assert told[0]["total"] == [("Ann", 0.1, 1, 1), ("Ann", 1e16, 2, -1)]
    assert told[1:] == [{"total": [("Cid", 0.25, 1, 1)]}, {"total": [("Bob", 0.5, 1, -1)]}]


def test_records_and_strings_of_deleted_facts():
    text = """
    .type List = [head: symbol, tail: List]
    .decl word(w: symbol)
    .input word
    .decl list(l: List)
    .output list
    list([w, nil]) :- word(w).
    .decl two(l: List)
    .output two
    two([w, l]) :- word(w), list(l), l = [v, nil], v != w.
    """
    told = same(
        text, {"word": [("a",)]}, ("insert", "word", [("b",)]), ("delete", "word", [("a",)]), ("insert", "word", [("a",)])
    )
    assert told[0]["two"] == told[2]["two"] == [("[a, [b, nil]]", 1), ("[b, [a, nil]]", 1)]


def test_relations_that_are_inlined_shared_or_computed_on_demand():
    text = """
    .decl e(x: number, y: number)
    .input e
    .decl two(x: number, y: number) inline
    two(x, z) :- e(x, y), e(y, z).
    .decl path(x: number, y: number) magic
    path(x, y) :- e(x, y).
    path(x, z) :- path(x, y), e(y, z).
    .decl from1(y: number)
    .output from1
    from1(y) :- path(1, y).
    .decl three(x: number, y: number)
    .output three
    three(x, w) :- two(x, z), e(z, w).
    .decl four(x: number, y: number)
    .output four
    four(x, v) :- two(x, z), two(z, v).
    """
    facts = {"e": [(1, 2), (2, 3)]}
    told = same(text, facts, ("insert", "e", [(3, 4), (4, 5)]), ("delete", "e", [(2, 3)]))
    assert told[0] == {"from1": [(4, 1), (5, 1)], "three": [(1, 4, 1), (2, 5, 1)], "four": [(1, 5, 1)]}
    assert told[1]["from1"] == [(3, -1), (4, -1), (5, -1)]


def test_nullary_and_wide_relations():
    wide = ", ".join(f"a{i}: number" for i in range(12))
    names = ", ".join(f"a{i}" for i in range(12))
    text = f"""
    .decl on()
    .input on
    .decl row({wide})
    .input row
    .decl kept({wide})
    .output kept
    kept({names}) :- row({names}), on().
    .decl off()
    .output off
    off() :- !on().
    """
    large = tuple(range(-(2**62), 2**62, 2**63 // 12))[:12]
    told = same(text, {"row": [large]}, ("insert", "on", [()]), ("insert", "row", [large[::-1]]), ("clear", "on", []))
    assert told[0] == {"kept": [(*large, 1)], "off": [(-1,)]} and told[2]["off"] == [(1,)] and len(told[2]["kept"]) == 2


def test_an_error_of_a_rule_leaves_the_session_as_it_was():
    text = """
    .decl n(x: number, s: symbol)
    .input n
    .decl half(x: number, s: symbol)
    .output half
    half(12 / x, cat(s, "!")) :- n(x, s).
    .decl order(s: symbol, o: number)
    .output order
    order(s, ord(s)) :- n(_, s).
    """
    program, seen = Program(text), []
    with program.session({"n": [(1, "a")]}) as session, program.session({"n": [(1, "a")]}) as other:
        session.subscribe("half", lambda changes, epoch: seen.append(epoch))
        before = {name: session[name].to_set() for name in session}
        with pytest.raises(EvaluationError, match="division by zero"):
            session.insert("n", [(2, "unheard of"), (0, "nor this")])
        with pytest.raises(RuntimeError, match="changed my mind"), session.transaction() as transaction:
            transaction.insert("n", [(3, "never")])
            raise RuntimeError("changed my mind")
        assert {name: session[name].to_set() for name in session} == before
        assert (session.epoch, seen, transaction.epoch) == (0, [], None)
        assert session.query('n(x, "never")').count() == 0
        for each in (session, other):
            each.insert("n", [(4, "b")])
        assert session["order"].to_set() == other["order"].to_set()  # ids and all
        assert session["half"].to_set() == {(12, "a!"), (3, "b!")} and seen == [1]


def test_records_of_a_transaction_that_is_rolled_back_are_forgotten():
    text = """
    .type Pair = [a: number, b: Pair]
    .decl n(x: number)
    .input n
    .decl p(p: Pair, o: number)
    .output p
    p(q, as(q, number)) :- n(x), q = [x, nil].
    """
    with Program(text).session({"n": [(1,)]}) as session, Program(text).session({"n": [(1,)]}) as other:
        with pytest.raises(RuntimeError), session.transaction() as transaction:
            transaction.insert("n", [(2,)])
            transaction._session.upkeep.values.pack(np.array([[7], [0]]))
            raise RuntimeError
        for each in (session, other):
            each.insert("n", [(3,)])
        assert session["p"].to_set() == other["p"].to_set()


def test_what_is_written_in_the_program_cannot_be_deleted():
    text = '.decl a(x: number, y: symbol)\n.input a\n.output a\na(1, "one").\na(2, "two").\n'
    with Program(text, "here.dl").session({"a": [(1, "one"), (3, "three")]}) as session:
        for change in (lambda: session.delete("a", [(1, "one")]), lambda: session.upsert("a", [(2, "zwei")], key="x")):
            with pytest.raises(BadInput, match=r"(?s)is written in the program.*line [45] of here.dl"):
                change()
        assert session.insert("a", [(2, "two")]).changes == {}
        assert sorted(session.clear("a").changes["a"]) == [(3, "three", -1)]
        assert session["a"].to_set() == {(1, "one"), (2, "two")}


def test_upsert_replaces_what_has_the_same_key():
    text = ".decl speed(device: symbol, at: number, v: float)\n.input speed\n.output speed"
    with Program(text).session({"speed": [("a", 1, 0.5), ("a", 2, 1.5), ("b", 1, 2.0)]}) as session:
        with session.transaction() as transaction:
            transaction.insert("speed", [("c", 1, 9.0)])
            transaction.upsert("speed", [("a", 1, 7.0), ("a", 1, 8.0), ("c", 1, 4.0)], key=["at", "device"])
        expected = [("a", 1, 0.5, -1), ("a", 1, 8.0, 1), ("c", 1, 4.0, 1)]
        assert sorted(transaction.changes["speed"]) == expected
        assert sorted(session.upsert("speed", [("a", 1, 8.0)], key=["device"]).changes["speed"]) == [("a", 2, 1.5, -1)]
        with pytest.raises(ValueError, match="the key names 'when': speed has the attributes device, at, v"):
            session.upsert("speed", [("a", 1, 8.0)], key=["when"])


@pytest.mark.parametrize("of", [list, np.array, pd.DataFrame, lambda rows: pa.table(pd.DataFrame(rows, columns=["x", "y"]))])
def test_rows_are_whatever_a_run_takes_as_facts(of, tmp_path):
    (tmp_path / "more.facts").write_text("7\t8\n")
    with Program(PATHS).session() as session:
        session.insert("edge", of([(1, 2), (2, 3)]))
        session.delete("edge", of([(2, 3)]))
        session.insert("edge", tmp_path / "more.facts")
        session.insert("edge", (pair for pair in [(8, 9)]))
        assert session["edge"].to_set() == {(1, 2), (7, 8), (8, 9)} and session["path"].count() == 4
        with pytest.raises(BadInput, match=r"edge\[0\].y"):
            session.insert("edge", [(1, "a")])


def test_facts_begin_from_a_folder_or_empty(tmp_path):
    (tmp_path / "edge.facts").write_text("1\t2\n")
    text = PATHS + ".decl more(x: number)\n.input more\npath(x, x) :- more(x)."
    with Program(text).session(tmp_path) as session:
        assert session["path"].to_set() == {(1, 2)} and session["more"].count() == 0
    with Program(text).session({"more": [(3,)]}) as session:
        assert session["path"].to_set() == {(3, 3)}
    with pytest.raises(BadInput, match="nowhere does not exist"):
        Program(text).session(tmp_path / "nowhere")


def test_epochs_that_are_retained_and_those_that_are_not():
    with Program(PATHS).session({"edge": [(1, 2)]}, retain=1) as session:
        shown = session["path"]
        for number in (2, 3, 4):
            session.insert("edge", [(number, number + 1)])
        assert shown.to_set() == {(1, 2)}
        assert session.at(3)["edge"].count() == session["edge"].count() == 4 and session.at(2)["edge"].count() == 3
        with pytest.raises(ValueError, match="epoch 1 is gone: epochs 2 to 3 are kept"):
            session.at(1)
        with pytest.raises(ValueError, match="there is no epoch 4: the last one is 3"):
            session.at(4)


def test_one_transaction_at_a_time_and_readers_of_whole_epochs():
    waited = []
    with Program(PATHS).session() as session:

        def other():
            waited.append(session.insert("edge", [(2, 3)]).epoch)

        with session.transaction() as transaction:
            transaction.insert("edge", [(1, 2)])
            with pytest.raises(ValueError, match="a transaction is open in this thread already"):
                session.insert("edge", [(5, 6)])
            thread = threading.Thread(target=other)
            thread.start()
            assert session["edge"].count() == 0 and not waited
        thread.join()
        assert waited == [2] and session["path"].to_set() == {(1, 2), (2, 3), (1, 3)}
        with pytest.raises(ValueError, match="this transaction is over"):
            transaction.insert("edge", [(1, 2)])
    with pytest.raises(ValueError, match="this session has been closed"):
        session["path"]


def test_a_subscriber_is_told_once_an_epoch_and_until_it_cancels(caplog):
    text = PATHS.replace(".output path", "")
    seen = []
    with Program(text).session() as session:
        assert session.insert("edge", [(1, 2)]).changes == {}
        subscription = session.subscribe("path", lambda changes, epoch: seen.append((epoch, sorted(changes))))
        session.insert("edge", [(2, 3)])
        assert session.insert("edge", [(2, 3)]).changes == {}
        failing = session.subscribe("path", lambda changes, epoch: 1 / 0)
        assert list(session.delete("edge", [(1, 2)]).changes) == ["path"]
        subscription.cancel()
        failing.cancel()
        assert session.insert("edge", [(4, 5)]).changes == {}
    assert seen == [(2, [(1, 3, 1), (2, 3, 1)]), (4, [(1, 2, -1), (1, 3, -1)])]
    assert "a subscriber to path has failed; epoch 4 stands" in caplog.text


def test_queries():
    text = """
    .type Pair = [a: number, b: number]
    .decl r(x: number, y: number, s: symbol, p: Pair, f: float)
    .input r
    """
    rows = [(1, 2, "a", (1, 2), 0.5), (1, 1, "b", None, 1.0), (-2, 1, "a", None, 2.0)]
    with Program(text).session({"r": rows}) as session:
        asked = {
            "r(1, y, _, _, _)": {(2,), (1,)}, "r(x, x, s, _, _).": {(1, "b")}, 'r(_, _, "a", _, f)': {(0.5,), (2.0,)},
            "r(x, _, _, [1, 2], _)": {(1,)}, "r(x, _, _, nil, 2)": {(-2,)}, "r(-2, _, _, _, _)": {()},
            "r(3, _, _, _, _)": set(), 'r(x, _, "unheard of", _, _)': set(), "r(x, _, _, [7, 7], _)": set(),
        }  # fmt: skip
        assert {atom: session.query(atom).to_set() for atom in asked} == asked
        assert session.query("r(1, why, _, _, _)").columns == ("why",)
        wrong = {
            "r(1)": "has 5 attributes, and the query has 1", "q(x)": "there is no relation q", "r(x) :- q(x)": "is no query",
            "r(1 + 1, _, _, _, _)": "computes nothing", 'r("a", _, _, _, _)': "r.x",
        }  # fmt: skip
        for atom, why in wrong.items():
            with pytest.raises(BadInput, match=why):
                session.query(atom)


def test_changes_in_all_forms():
    with Program(PATHS).session() as session:
        changes = session.insert("edge", [(1, 2)]).changes["path"]
    # also when the session is closed
    assert changes.columns == ("x", "y", "diff") and changes.to_list() == list(changes) == [(1, 2, 1)]
    assert changes.to_arrow().to_pylist() == changes.to_pandas().to_dict("records") == [{"x": 1, "y": 2, "diff": 1}]


def test_what_a_session_cannot_do_is_refused_with_advice():
    counted = ".decl a(x: number)\n.input a\n.decl b(x: number, n: number)\n.output b\nb(x, autoinc()) :- a(x)."
    for text, advice in {counted: "use a record", PATHS + ".limitsize path(n=3)": "bound the recursion"}.items():
        with pytest.raises(ValueError, match=advice):
            Program(text).session()
    with Program(PATHS).session() as session:
        with pytest.raises(ValueError, match=r"path cannot be changed, as it has no .input: declare .input path, or name it"):
            session.insert("path", [(1, 2)])
        with pytest.raises(KeyError, match="nowhere"):
            session.insert("nowhere", [(1, 2)])
    with Program(PATHS).session({"path": []}) as session:
        assert session.insert("path", [(1, 2)]).changes["path"].to_list() == [(1, 2, 1)]


def test_what_comes_and_goes_is_followed_and_nothing_else_is_touched(monkeypatch, anew):
    follow = Following.follow
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
            Following, "follow", lambda self, *given: entered.append(self.stratum.relations) or follow(self, *given)
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


def test_an_edge_of_a_closure_that_is_not_missed_goes_without_a_search_of_pairs(monkeypatch):
    suspected = []
    suspect = Following.suspect
    monkeypatch.setattr(Following, "suspect", lambda self, *given: suspected.append(1) or suspect(self, *given))
    edges = [(1, 2), (2, 3), (1, 3), (3, 4), (4, 3)]
    steps = [("delete", "edge", [(1, 3)]), ("delete", "edge", [(4, 3)])]
    told = same(PATHS, {"edge": edges}, *steps)
    assert told[0] == {} and len(suspected) == 1
    assert told[1]["path"] == [(3, 3, -1), (4, 3, -1), (4, 4, -1)]


def test_a_stratum_that_follows_for_too_long_is_computed_anew(monkeypatch):
    monkeypatch.setattr("semi_naive.session.maintenance.upkeep.LEAST", -1.0)
    monkeypatch.setattr("semi_naive.session.maintenance.upkeep.WORTH", 0.0)
    told = same(PATHS, {"edge": [(1, 2)]}, ("insert", "edge", [(2, 3), (3, 4)]), ("delete", "edge", [(2, 3)]))
    assert len(told[0]["path"]) == 5 and len(told[1]["path"]) == 4


def test_strata_on_the_partitions_come_to_the_session(here):
    config = {"local_tuples": 0, "partitions": 2, "buckets": 4}
    edges = {(i, (7 * i + 3) % 40) for i in range(40)}
    with Program(PATHS).session({"edge": edges}, spark=here, **config) as session:
        for change in (session.delete, session.insert, session.delete):
            change("edge", [(5, 38), (6, 5), (1, 9)])
            with Program(PATHS).run({"edge": session["edge"].to_list()}) as result:
                assert session["path"].to_set() == result["path"].to_set()


# -- the command


SCRIPT = """
begin
insert edge 1 2
insert edge 2\t3
commit
query path(1, y).
# a comment
delete edge 2 3
load edge more.facts
subscribe edge
unload edge "more.facts"
begin
insert edge 9 9
abort
quit
insert never 1
"""


@pytest.fixture
def command(run, tmp_path, monkeypatch):
    """Run the commands of a text in `tmp_path`, where there is a program p.dl; (status, lines, standard error)."""
    (tmp_path / "p.dl").write_text(PATHS)
    (tmp_path / "more.facts").write_text("7\t8\n")

    def call(text: str, *arguments, terminal: bool = False):
        stream = io.StringIO(text)
        stream.isatty = lambda: terminal
        monkeypatch.setattr("sys.stdin", stream)
        status, out, err = run("session", "p.dl", *arguments)
        return status, out.splitlines(), err

    return call


def test_the_command_prints_what_each_commit_changes(command):
    status, lines, err = command(SCRIPT)
    assert (status, err) == (0, "")
    assert lines == [
        "path\t+1\t1\t2", "path\t+1\t1\t3", "path\t+1\t2\t3", "2", "3", "path\t-1\t1\t3", "path\t-1\t2\t3", "path\t+1\t7\t8",
        "path\t-1\t7\t8", "edge\t-1\t7\t8",
    ]  # fmt: skip


def test_the_command_begins_with_the_facts_of_a_folder(command, tmp_path):
    (tmp_path / "edge.facts").write_text("5\t6\n")
    assert command("query path(x, y).\n", "-F", ".")[1] == ["5\t6"]
    assert command("query path(x, y).\n")[1] == []


@pytest.mark.parametrize(
    "text, told",
    [
        ("insert edge 1\n", "<stdin>:1: edge(x: number, y: number) has 2 attributes, found 1 fields"),
        ("\ninsert edge 1 a\n", "<stdin>:2: 'a' is not a number"),
        ("frobnicate\n", "<stdin>:1: 'frobnicate' is no command"),
        ("commit\n", "<stdin>:1: no transaction is open"),
        ("begin\ninsert edge 1 2\nbegin\n", "<stdin>:3: a transaction is open already"),
        ("begin\ninsert edge 1 2\n", "the input ends inside of a transaction"),
        ("load edge nowhere.facts\n", "nowhere.facts"),
        ("query path(1\n", "<stdin>:1: "),
        ('insert edge "1\n', "a quote is not closed"),
    ],
)
def test_an_error_from_a_pipe_ends_the_command_and_nothing_is_half_done(command, text, told):
    status, lines, err = command(text)
    assert status == 2 and told in err and not lines


def test_an_error_at_a_terminal_does_not_end_the_command(command):
    text = "insert edge 1 x\nbegin\ninsert edge 1 2\ninsert edge 1\ninsert edge 2 3\ncommit\ninsert path 1 2\n"
    status, lines, err = command(text, terminal=True)
    assert status == 0 and "<stdin>:1: 'x' is not a number" in err and "<stdin>:7: facts of path cannot be changed" in err
    assert [line for line in "\n".join(lines).replace("> ", "").replace("… ", "").splitlines() if line] == [
        "path\t+1\t1\t2", "path\t+1\t1\t3", "path\t+1\t2\t3",
    ]  # fmt: skip


def test_values_on_the_command_line(run, tmp_path, monkeypatch):
    text = """
    .type List = [head: symbol, tail: List]
    .decl r(s: symbol, l: List, f: float, u: unsigned)
    .input r
    .output r
    .decl on()
    .input on
    .output on
    """
    (tmp_path / "p.dl").write_text(text)
    lines = ['insert r "Ann Lee" [a, ["b c", nil]] 0.5 7', "insert r\t two \tnil\t1e3\t0x10", "insert on", "delete on ()"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    status, out, err = run("session", "p.dl")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "r\t+1\tAnn Lee\t[a, [b c, nil]]\t0.5\t7", "r\t+1\t two \tnil\t1000\t16", "on\t+1\t()", "on\t-1\t()",
    ]  # fmt: skip


def test_the_benchmark_at_toy_size(capsys):
    assert sessions.main(["--quick", "--rows", "join,cspa", "--repeat", "1"]) == 0
    shown = capsys.readouterr().out
    assert "cspa" in shown and "insert 100" in shown
