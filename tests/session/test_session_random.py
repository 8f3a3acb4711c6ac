"""Sessions against an oracle: after any transactions of any program the relations are what a fresh run on the same facts makes
of them, and the changes that were told add up to them."""

import math

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from session_cases import PATHS, SAME, SETTINGS, SHORTEST

from bench.fuzz.checks import BUDGETS, agrees, agrees_wherever_it_ends, agrees_within, commit, contents, ending, folded
from bench.fuzz.oracle import closure
from bench.fuzz.rounds import TIMES, random_cases
from semi_naive import Program
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import difference, grown, membership, table_without
from semi_naive.ra.blocks.packings import HALVES
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.blocks.thinned import Thinned, without_positions
from semi_naive.ra.reduce.best import Best
from semi_naive.session.maintenance.delete_rederive import DeleteRederive
from semi_naive.session.maintenance.recomputation import Recomputation

pytestmark = pytest.mark.usefixtures("patient")


@random_cases(80)
def test_any_transactions_leave_what_a_fresh_run_makes(case, random):
    agrees(case)


@random_cases(60)
def test_small_iterations_go_to_the_machine(case, random, machine):
    agrees(case, small_delta=random.choice([0, 2, 50_000]))


@random_cases(60)
def test_the_machine_passes_over_what_is_gone_of_a_block(case, random, machine, thin):
    agrees(case)


@random_cases(40)
def test_a_split_into_transactions_does_not_matter(case, random):
    given = {name: case.facts.get(name, set()) for name in case.changed}
    program, facts = Program.from_checked(case.checked), {name: set(rows) for name, rows in given.items()}
    with program.session(given) as one, program.session(given) as many:
        for step in case.steps:
            commit(many, case, facts, step)
        commit(one, case, {name: set(rows) for name, rows in given.items()}, [each for step in case.steps for each in step])
        assert contents(one) == contents(many)


@random_cases(60)
def test_tuples_that_are_gone_stay_in_blocks(case, random, thin):
    agrees(case)


@random_cases(80)
def test_suspects_that_have_older_witnesses_stay(case, random, guarded):
    agrees(case)


@random_cases(80)
def test_following_ends_anywhere(case, random, machine):
    """Each look at the budget may find that it is exceeded, or every so many do; what was begun is undone, and the stratum is
    computed anew, with ages where these may help."""
    often, regular = random.randint(1, 12), random.random() < 0.5
    with ending(lambda look: look % often == often - 1 if regular else random.randrange(often) == 0):
        agrees(case)


@random_cases(8)
def test_following_ends_at_each_look_at_the_budget(case, random):
    agrees_wherever_it_ends(case, most=math.ceil(60 * TIMES))


@random_cases(80)
def test_maintenance_may_exceed_its_budget_at_any_time(case, random, machine):
    """The attempt is undone and the stratum is computed anew, with ticks where these may help."""
    agrees_within(random.choice(BUDGETS), case, small_delta=random.choice([0, 1000]))


pairs = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)))


@settings(max_examples=100, **SETTINGS)
@given(pairs, pairs, pairs, pairs)
def test_the_difference_of_tables_that_have_parts_of_one_block(thin, tuples, gone, gone_now, come):
    def block(of):
        return Block.of([np.array([row[i] for row in sorted(of)], np.int64) for i in range(2)], len(of))

    whole = Table.of(2, (0, 1), {(0, 1): [block(tuples)]}, [])
    before, after = (table_without(whole, block(each & tuples)) for each in (gone, gone_now))
    after = grown(after, block(come - (tuples - gone_now)))
    after.settle()
    found = difference(before, after)
    new, old = tuples - gone_now | come, tuples - gone
    assert [set(zip(*map(list, each.columns()), strict=True)) for each in (found.born, found.lost)] == [new - old, old - new]


@settings(max_examples=100, **SETTINGS)
@given(pairs, st.lists(pairs, max_size=3), pairs)
def test_a_block_of_which_tuples_are_gone_is_like_a_copy_without_them(thin, tuples, gone, others):
    def block(of):
        rows = sorted(of)
        return Block.of([np.array([row[i] for row in rows], np.int64) for i in range(2)], len(rows), HALVES)

    made, expected = block(tuples), block(tuples.difference(*gone))
    for each in gone:
        at = np.flatnonzero(membership(made, Table.of(2, (0, 1), {(0, 1): [block(each)]}, [])))
        made = without_positions(made, at)
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


table_steps = st.lists(st.tuples(st.sampled_from(["insert", "advance", "forget", "machine", "read"]), pairs), max_size=12)


@settings(max_examples=150, **SETTINGS)
@given(st.sampled_from(["min", "max"]), table_steps)
def test_a_table_has_the_best_value_of_each_key(thin, better, asked):
    """After any steps, in every order that it is read in; its delta is what improved last."""
    table, known, delta, new = Table(2, reduction=Best(better)), {}, {}, {}
    sign = 1 if better == "min" else -1
    for step, tuples in [*asked, ("insert", {(0, 3)}), ("advance", set())]:
        made = dict(new) if step == "insert" else {}
        for key, value in tuples:
            if all(key not in each or sign * value < sign * each[key] for each in (known, made)):
                made[key] = value
        if step == "insert" and tuples:
            table.insert([np.array(column, np.int64) for column in zip(*tuples, strict=True)], len(tuples))
            new = made
        elif step == "machine" and not new:
            parts = [(key, value) for key, value in delta.items() if key not in made], [*made.items()]
            table.from_machine(*(np.array(part, np.int64).reshape(-1, 2) for part in parts))
            delta, known = made, known | made
        elif step == "forget":
            table.back_to([])
            new = {}
        elif step == "advance":
            assert table.count == len(known | new) and table.advance() == len(new)
            delta, known, new = new, known | new, {}
        for part, expected in (("all", known), ("delta", delta), ("full", {k: v for k, v in known.items() if k not in delta})):
            for order in (table.full if step != "read" else [(0, 1), (1, 0)]) if part != "delta" else [(0, 1)]:
                read = [zip(*map(list, block.columns()), strict=True) for block in table.blocks(part, order)]
                assert sorted(row[:: 1 if order == (0, 1) else -1] for each in read for row in each) == sorted(expected.items())


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


@settings(max_examples=60, **SETTINGS)
@given(STEPS, DENSE, st.data())
def test_graphs_whose_paths_are_guarded_a_tuple_at_a_time(machine, guarded, step, edges, data):
    follows_graphs(step, edges, data)


@settings(max_examples=30, **SETTINGS)
@given(STEPS, DENSE, st.data())
def test_closures_of_so_many_edges_that_rules_are_tried_first(many_edges, step, edges, data):
    follows_graphs(step, edges, data)


LABELS = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, least: number)
.output path
path(x, min(y)) :- edge(x, y).
path(x, min(y)) :- edge(y, x).
path(x, min(least)) :- (edge(x, y) ; edge(y, x)), path(y, least).
"""
DISTANCES = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, d: number)
.output path
path(0, min(0)).
path(y, min(d + (x + y) % 3)) :- path(x, d), edge(x, y).
"""


@settings(max_examples=60, **SETTINGS)
@given(st.sampled_from([LABELS, DISTANCES]), DENSE, st.data())
def test_best_values_that_have_older_witnesses_stay(guarded, text, edges, data):
    """Labels of components, and distances with steps of no weight: what is the best of a key may support itself in a circle."""
    follows(Program(text), edges, data)


@settings(max_examples=60, **SETTINGS)
@given(st.sampled_from([LABELS, DISTANCES]), DENSE, st.data())
def test_best_values_are_guarded_a_tuple_at_a_time(machine, guarded, text, edges, data):
    follows(Program(text), edges, data)


IMPROVING = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, d: number)
.output path
path(x, min(x)) :- edge(x, 3).
path(y, min(d)) :- path(x, d), edge(x, y).
path(x, min(max(d - 1, -4))) :- path(x, d).
"""
PRESENT = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, d: number)
.output path
path(x, max(0)) :- edge(x, 3).
path(y, max(d)) :- path(x, d), edge(x, y).
path(x, max(1)) :- path(x, _).
"""


@settings(max_examples=100, **SETTINGS)
@given(st.sampled_from([IMPROVING, PRESENT]), st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=7), st.data())
def test_best_values_that_improve_themselves_go_with_what_they_followed_from(text, edges, data):
    """A cycle makes a value better and better, up to a bound: what it began with is gone long before the fixpoint."""
    follows(Program(text), edges, data)


def ages_are_known(session):
    """Of each tuple of a stratum that has ages: who is older than a tuple of unknown age?"""
    upkeep = session.upkeep
    for number, ticks in upkeep.relations.ticks.items():
        for name in upkeep.run.strata[number].relations:
            table = upkeep.relations.tables[name]
            assert not table.count or ticks.of(name, table.columns(), table.count).min() >= 0


def follows_graphs(step, edges, data):
    follows(Program(PATHS.replace(LINEAR, step)), edges, data)


def follows(program, edges, data):
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
            ages_are_known(session)
            told = transaction.changes.get("path", [])
            assert folded({"path": list(told)} if told else {}, {"path": before})["path"] == session["path"].to_set()


@settings(max_examples=100, **SETTINGS)
@given(st.sampled_from([LINEAR, DOUBLED, "path(x, z) :- edge(x, y), path(y, z)."]), DENSE, st.data())
def test_closures_that_are_known_by_their_edges(implied, step, edges, data):
    """Pairs are asked for after some transactions only, those that have changed as well, in any order."""
    program = Program(PATHS.replace(LINEAR, step))
    with program.session({"edge": edges}, retain=5) as session:
        history, told = [edges], []
        for _ in range(5):
            come = data.draw(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8))
            part = data.draw(st.sampled_from([0, 1, 3, len(edges)]))
            gone = set(data.draw(st.permutations(sorted(edges)))[:part])
            edges = (edges - gone) | come
            with session.transaction() as transaction:
                transaction.delete("edge", gone)
                transaction.insert("edge", come)
            history, told = [*history, edges], [*told, transaction.changes.get("path")]
            expected, x = closure(edges), data.draw(st.integers(0, 10))
            assert session["path"].count() == len(expected)
            if data.draw(st.booleans()):
                assert session.query(f"path({x}, y)").to_set() == {(y,) for other, y in expected if other == x}
                assert session.query(f"path(x, {x})").to_set() == {(y,) for y, other in expected if other == x}
                assert session.query(f"path({x}, {x})").count() == ((x, x) in expected)
            if data.draw(st.booleans()):
                assert session["path"].to_set() == expected
        for epoch in data.draw(st.permutations(range(6))):
            pairs = closure(history[epoch])
            assert session.at(epoch)["path"].to_set() == pairs and session.at(epoch)["path"].count() == len(pairs)
        for number in data.draw(st.permutations(range(5))):
            old, new = closure(history[number]), closure(history[number + 1])
            changes = told[number]
            assert (changes is None) == (old == new)
            if changes is not None:
                assert (changes.inserted, changes.deleted) == (len(new - old), len(old - new))
                assert sorted(changes) == sorted([(*row, 1) for row in new - old] + [(*row, -1) for row in old - new])


@st.composite
def random_graphs(draw, nodes: int):
    """Edges between some nodes, between many of them dense and with few, in cycles and without, from any values."""
    seed, of = draw(st.integers(0, 1 << 30)), draw(st.integers(2, nodes))
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, of, size=(draw(st.integers(0, 3 * of)), 2))
    if draw(st.booleans()):
        edges = np.sort(edges, axis=1)  # no cycles but loops
    return {tuple(edge) for edge in (edges * draw(st.sampled_from([1, 1 << 40])) - draw(st.sampled_from([0, 9]))).tolist()}


@pytest.mark.parametrize("room, fewer, alone", [(1, 1 << 20, 0), (1 << 20, 0, 1 << 20), (1 << 20, 1, 0)])
@settings(max_examples=40, **SETTINGS)
@given(st.sampled_from([LINEAR, DOUBLED, "path(x, z) :- edge(x, y), path(y, z)."]), random_graphs(150), st.data())
def test_closures_of_which_many_edges_change_at_once(no_rules, room, fewer, alone, step, edges, data):
    """Rules may not run: all changes are found by components, in one strip of bits or in many, for what edges lead to or for
    what leads there, in one thread or in several."""
    program = Program(PATHS.replace(LINEAR, step))
    for name, value in {"MAX_STRIP_WORDS": room, "TURN_RATIO": fewer, "MAX_SINGLE_THREAD_WORDS": alone}.items():
        no_rules.setattr(f"semi_naive.session.maintenance.closures.{name}", value)
    with program.session({"edge": edges}) as session:
        for _ in range(3):
            come = data.draw(random_graphs(150))
            part = data.draw(st.sampled_from([0, 1, 3, 10, len(edges)]))
            gone = set(data.draw(st.permutations(sorted(edges)))[:part])
            before, edges = session["path"].to_set(), (edges - gone) | come
            with session.transaction() as transaction:
                transaction.delete("edge", gone)
                transaction.insert("edge", come)
            with program.run({"edge": edges}) as result:
                assert session["path"].to_set() == result["path"].to_set() == closure(edges)
            told = transaction.changes.get("path", [])
            assert folded({"path": list(told)} if told else {}, {"path": before})["path"] == session["path"].to_set()


@pytest.fixture
def no_rules(monkeypatch):
    """A stratum that would follow by its rules, or be computed anew in a transaction, fails."""
    monkeypatch.setattr(DeleteRederive, "maintain", None)
    monkeypatch.setattr(Recomputation, "recompute", None)
    return monkeypatch


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
