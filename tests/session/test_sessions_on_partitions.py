"""Sessions whose relations stay on the partitions: what a fresh run makes of the same facts, and nothing in this process."""

import os
import shutil
from math import inf
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import PATHS, SETTINGS, SHORTEST

from bench.fuzz.checks import agrees, folded
from bench.fuzz.jobs_here import ContextAway
from bench.fuzz.rounds import random_cases
from semi_naive import Program, RunsLost
from semi_naive.ra.storage.runs import subtract_arrays
from semi_naive.ra.words import merge_all
from semi_naive.session.maintenance import across_partitions, copies, recomputation, spread

SPREAD = {"local_tuples": 0, "partitions": 2, "buckets": 4}
EDGES = {(i, (7 * i + 3) % 40) for i in range(40)}
LOOPS = f"""
{PATHS}
.decl loop(x: number)
.output loop
loop(x) :- path(x, x).
"""
LINEAR = "path(x, z) :- path(x, y), edge(y, z)."
OTHERS = (
    "path(x, z) :- path(x, y), path(y, z).",
    "path(x, z) :- edge(x, y), path(y, z), edge(z, _).",
    LINEAR + "path(x, y) :- path(y, x), x < 5.",
    LINEAR + "path(x, x) :- seen(x). .decl seen(x: number) .output seen seen(x) :- path(x, y), path(y, x), y > 3.",
)
ABOVE = f"""
{PATHS}
.decl apart, weak(x: number, y: number)
.decl many, total, good, near, best, far(x: number, n: number)
.decl ends(x: number, least: number, most: number)
.decl middle(x: number, m: float)
.input near, weak
.output apart, weak, many, total, good, near, best, far, ends, middle
apart(x, y) :- edge(x, _), edge(_, y), !path(x, y).
many(x, count(y)) :- path(x, y), !weak(x, y).
total(x, sum(y)) :- path(x, y), edge(y, _).
good(x, n) :- edge(x, _), n = count : {{ path(x, y), edge(y, z), !weak(y, z) }}.
ends(x, least, most) :- edge(x, _), least = min y : {{ path(x, y) }}, most = max y : {{ path(x, y), weak(y, _) }}.
middle(x, mean(to_float(y))) :- path(x, y).
near(0, min(0)).
near(y, min(d + (x + y) % 3)) :- near(x, d), edge(x, y), !weak(x, y).
best(x, max(y)) :- path(x, y), good(y, n), n > 1.
far(x, n) :- many(x, n).
far(y, n) :- far(x, n), apart(x, y), near(y, d), d < n.
"""
PAIRS = st.tuples(st.integers(0, 9), st.integers(0, 9))
GRAPHS = st.sets(PAIRS, max_size=25)
FEWEST, SMALL = [-2, 2, 1 << 18], [0, 1 << 30]
COPIED = -1, 3, 10_000  # changed tuples up to which copies in this process are maintained
FEW, REPLICATED, FEW_COPIED = st.sampled_from(FEWEST), st.sampled_from(SMALL), st.sampled_from(COPIED)
FAR = ".decl far(y: number)\nfar(y) :- path($x, y), !edge(y, _)."


pytestmark = pytest.mark.usefixtures("patient")
BUDGETS = 0, 1, 100, inf  # bindings


@pytest.fixture
def by_rules(monkeypatch):
    """What changes of a closure is found by its rules."""
    monkeypatch.setattr(across_partitions, "MAX_CHANGED_PAIRS", -1)


@pytest.fixture
def by_jobs(monkeypatch):
    """However little has changed, no copy of a relation is made in this process, and jobs of Spark follow."""
    monkeypatch.setattr(copies, "MAX_CHANGED_TUPLES", -1)


@pytest.fixture
def nothing_here(monkeypatch, by_jobs):
    """However little has changed, it stays on the partitions."""
    monkeypatch.setattr(spread, "MAX_COLLECTED_TUPLES", -2)


@random_cases(50)
def test_any_transactions_leave_what_a_fresh_run_makes(case, random, here):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spread, "MAX_COLLECTED_TUPLES", random.choice(FEWEST))
        patch.setattr(recomputation, "MIN_BUDGET", random.choice(BUDGETS))
        patch.setattr(copies, "MAX_CHANGED_TUPLES", random.choice(COPIED))
        agrees(case, spark=random.choice([here, ContextAway()]), replicate_bytes=random.choice(SMALL), follow=1e-9, **SPREAD)


@settings(max_examples=30, **SETTINGS)
@given(
    st.sampled_from([LINEAR, *OTHERS]),
    st.sets(PAIRS, max_size=25),
    st.data(),
    FEW,
    REPLICATED,
    st.sampled_from([0, 1000]),
    st.booleans(),
    st.sampled_from(BUDGETS),
    FEW_COPIED,
)
def test_graphs_whose_edges_come_and_go(here, step, edges, data, few, replicated, ahead, closed, bindings, copied):
    """Paths that were suspected come back, by rules that are linear and by others."""
    program = Program(PATHS.replace(LINEAR, step))
    config = SPREAD | {"replicate_bytes": replicated, "run_ahead": ahead, "follow": 1e-9}
    with pytest.MonkeyPatch.context() as patch, program.session({"edge": edges}, spark=here, **config) as session:
        patch.setattr(spread, "MAX_COLLECTED_TUPLES", few)
        patch.setattr(recomputation, "MIN_BUDGET", bindings)
        patch.setattr(copies, "MAX_CHANGED_TUPLES", copied)
        patch.setattr(across_partitions, "MAX_CHANGED_PAIRS", 1000 if closed else -1)
        for _ in range(4):
            before = {name: session[name].to_set() for name in program.outputs}
            with session.transaction() as transaction:
                transaction.insert("edge", data.draw(st.sets(PAIRS, max_size=4)))
                transaction.delete("edge", data.draw(st.sets(st.sampled_from(sorted(edges | {(0, 0)})), max_size=4)))
            with program.run({"edge": session["edge"].to_list()}) as result:
                after = {name: result[name].to_set() for name in result}
            assert {name: session[name].to_set() for name in session} == after
            told = folded({name: list(changes) for name, changes in transaction.changes.items()}, before)
            assert told == {name: after[name] for name in told}


@settings(max_examples=15, **SETTINGS)
@given(GRAPHS, st.data(), FEW, REPLICATED, st.sampled_from(BUDGETS), FEW_COPIED)
def test_negation_aggregates_and_best_values_follow(here, anew, edges, data, few, replicated, bindings, copied):
    """As in the driver and in a run; nothing is computed anew where the budget allows for all bindings."""
    program, facts = Program(ABOVE), {"edge": edges, "weak": set(), "near": {(3, 1)}}
    config = SPREAD | {"replicate_bytes": replicated, "follow": 1e-9}
    with pytest.MonkeyPatch.context() as patch, program.session(facts, spark=here, **config) as session:
        patch.setattr(spread, "MAX_COLLECTED_TUPLES", few)
        patch.setattr(recomputation, "MIN_BUDGET", bindings)
        patch.setattr(copies, "MAX_CHANGED_TUPLES", copied)
        patch.setattr(across_partitions, "MAX_CHANGED_PAIRS", -1)
        with program.session(facts) as other:
            for _ in range(3):
                before, name = {name: session[name].to_set() for name in program.outputs}, data.draw(st.sampled_from([*facts]))
                come, gone = (data.draw(st.sets(some, max_size=2)) for some in (PAIRS, st.sampled_from([(9, 9), *facts[name]])))
                facts[name], told = (facts[name] - gone) | come, []
                anew.clear()
                for one in (session, other):
                    with one.transaction() as transaction:
                        transaction.delete(name, gone)
                        transaction.insert(name, come)
                    told.append({each: changes.to_set() for each, changes in transaction.changes.items()})
                    assert one is other or bindings < inf or not anew
                assert told[0] == told[1]
                with program.run(facts) as result:
                    after = {name: result[name].to_set() for name in program.outputs}
                assert {name: session[name].to_set() for name in program.outputs} == after
                assert folded({each: list(rows) for each, rows in told[0].items()}, before) == after


@settings(max_examples=100, **SETTINGS)
@given(*[st.lists(st.lists(st.integers(0, 60)))] * 2, st.integers(1, 5))
def test_words_are_subtracted_piece_by_piece(left, right, piece):
    arrays, known = ([np.array(sorted(set(each)), np.uint64) for each in some] for some in (left, right))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("semi_naive.ra.storage.runs.MERGED_WORDS", piece)
        found = [word for some in subtract_arrays(arrays, known) for word in some.tolist()]
    assert found == sorted(set().union(*left) - set().union(*right))
    assert merge_all(arrays).tolist() == sorted(set().union(*left))  # nothing has been overwritten


def run(edges) -> dict[str, set]:
    with Program(LOOPS).run({"edge": list(edges)}) as result:
        return {name: result[name].to_set() for name in result}


def files(session) -> set[str]:
    """Of the partitions, on the disk."""
    store = Path(session.upkeep.run.cluster.store.root)
    return {str(path) for path in store.rglob("*") if path.is_file() and path.parent != store / "values"}


def test_relations_and_what_changes_of_them_stay_there(here, nothing_here, by_rules):
    with Program(LOOPS).session({"edge": EDGES}, spark=here, retain=1, **SPREAD) as session:
        before, old = session["path"], run(EDGES)
        assert before.on_partitions and session["loop"].on_partitions and not session["edge"].on_partitions
        gone = session.delete("edge", [(5, 38), (6, 5)]).changes["path"]
        new = run(EDGES - {(5, 38), (6, 5)})
        assert gone.on_partitions and (gone.inserted, gone.deleted) == (0, len(old["path"]) - len(new["path"]))
        assert gone.to_set() == {(*row, -1) for row in old["path"] - new["path"]}
        assert sorted(gone.to_numpy().tolist()) == sorted(map(list, gone)) and gone.columns == ("x", "y", "diff")
        assert before.to_set() == session.at(0)["path"].to_set() == old["path"]
        assert {name: session[name].to_set() for name in session} == new
        assert session.between("path", 0, 1).to_set() == gone.to_set()
        assert session.between("path", -1, 0).to_set() == {(*row, 1) for row in old["path"]}
        assert session.query("path(1, y)").to_set() == {(y,) for x, y in new["path"] if x == 1}
        assert session.query("path(x, 1)").to_set() == {(x,) for x, y in new["path"] if y == 1}
        assert session.query("path(x, _)").to_set() == {(x,) for x, _ in new["path"]}
        assert session.query("path(x, x)").to_set() == new["loop"]
        assert session.query("path(1, 24)").count() == ((1, 24) in new["path"]) and session.query("path(_, 77)").count() == 0
        assert session.query('sys.memory("path", tuples, bytes)').to_list() == [(len(new["path"]), 0)]
        assert session.query('sys.index("path", _, tuples, _)').to_list() == [(len(new["path"]),)]
        assert session.insert("edge", [(5, 38)]).changes["path"].deleted == 0
        with pytest.raises(ZeroDivisionError), session.transaction() as transaction:
            transaction.clear("edge")
            raise ZeroDivisionError
        assert {name: session[name].to_set() for name in session} == run(EDGES - {(6, 5)})
    with pytest.raises(ValueError, match="closed"):
        gone.to_set()


def test_a_stratum_goes_on_from_its_runs(here, anew, nothing_here, by_rules):
    """What nothing has changed of is not written again, and no rule begins from nothing."""
    with Program(LOOPS).session({"edge": EDGES}, spark=here, retain=1, **SPREAD) as session:
        begun = session["path"].stored.paths
        session.insert("edge", [(5, 77), (78, 5)])
        assert begun < session["path"].stored.paths
        session.delete("edge", [(78, 5)])
        session.delete("edge", [(5, 38)])
        assert {name: session[name].to_set() for name in session} == run((EDGES | {(5, 77)}) - {(5, 38)})
        assert session.at(2)["path"].to_set() == run(EDGES | {(5, 77)})["path"] and not anew
        assert not [name for name in session.upkeep.program.relations if name not in session]


def test_a_closure_is_followed_without_a_look_at_its_pairs(here, anew, monkeypatch):
    """What has changed of it is found by its edges, which are here, and then taken out and put in."""
    monkeypatch.setattr(across_partitions.AcrossPartitions, "_maintain", None)
    with Program(PATHS).session({"edge": EDGES}, spark=here, **SPREAD) as session:
        for number in range(12):  # more than there may be runs before some are merged
            change = session.transaction()
            with change:
                change.insert("edge", [(5, 77 + number)])
                change.delete("edge", [(number, (7 * number + 3) % 40)])
            expected = run(session["edge"].to_set())["path"]
            assert session["path"].on_partitions and session["path"].to_set() == expected
            assert session["path"].count() == len(expected) and not anew
        assert not change.changes["path"].on_partitions
        assert files(session) == session["path"].stored.paths and len(files(session)) < 20


def test_a_stratum_that_exceeds_its_budget_on_partitions_is_computed_anew(here, anew, monkeypatch, by_rules, by_jobs):
    tried, go_on = [], across_partitions.AcrossPartitions._maintain
    monkeypatch.setattr(
        across_partitions.AcrossPartitions, "_maintain", lambda upkeep, *rest: tried.append(rest) or go_on(upkeep, *rest)
    )
    with Program(PATHS).session({"edge": EDGES}, spark=here, follow=0.1, **SPREAD) as session:
        monkeypatch.setattr("semi_naive.session.maintenance.recomputation.MIN_BUDGET", 0)
        session.insert("edge", [(100, 101)])
        assert len(tried) == 1 and not anew
        session.delete("edge", [(5, 38)])  # suspects more paths than that
        assert len(tried) == 2 and len(anew) == 1
        assert session["path"].to_set() == run(session["edge"].to_set())["path"]


def test_files_that_nobody_reads_any_more_are_removed(here):
    with Program(PATHS).session({"edge": EDGES}, spark=here, **SPREAD) as session:
        first, path = files(session), session["path"]
        session.delete("edge", [(5, 38)])
        session.delete("edge", [(6, 5)])
        assert first < files(session) and path.to_set() == run(EDGES)["path"]
        del path
        session.insert("edge", [(6, 5)])
        session.insert("edge", [(5, 38)])
        assert not first & files(session) and files(session) == session["path"].stored.paths
        root = session.upkeep.run.cluster.store.root
        session.clear("edge")  # nothing is on the partitions any more
        assert not os.path.exists(root) and session["path"].count() == 0


def test_subscribers_and_registered_rules(here, nothing_here):
    told, far = [], []
    with Program(LOOPS).session({"edge": EDGES}, spark=here, retain=3, **SPREAD) as session:
        session.subscribe("path", lambda changes, epoch: told.append((epoch, changes.to_set())), snapshot=True)
        session.register("far", FAR)
        assert session.query("far(y)", x=6).to_set() == set()
        session.subscribe("far", lambda changes, epoch: far.append(changes.to_set()), x=6)
        session.delete("edge", [(5, 38)])
        session.subscribe("path", lambda changes, epoch: told.append((epoch, changes.to_set())), since=0)
        old, new = run(EDGES)["path"], run(EDGES - {(5, 38)})["path"]
        gone = {(*row, -1) for row in old - new}
        assert told == [(0, {(*row, 1) for row in old}), (1, gone), (1, gone)]
        assert far == [{(5, 1)}]
        assert "path" in session.explain("far") and session["far"].to_set() == {(6, 5)}


def test_a_value_that_is_best(here):
    facts = {"edge": [(i, (i + 1) % 9, 1) for i in range(9)], "distance": [(0, 0)]}
    with Program(SHORTEST).session(facts, spark=here, **SPREAD) as session:
        changes = session.insert("edge", [(2, 5, -1)]).changes
        assert changes["distance"].to_set() == {(y, y, -1) for y in range(5, 9)} | {(y, y - 4, 1) for y in range(5, 9)}
        assert session.query("distance(7, d)").to_list() == [(3,)]


@pytest.mark.parametrize("closed", [True, False])
def test_runs_that_are_lost_are_derived_anew(here, caplog, monkeypatch, closed):
    monkeypatch.setattr(across_partitions, "MAX_CHANGED_PAIRS", 1000 if closed else -1)
    with Program(LOOPS).session({"edge": EDGES}, spark=here, **SPREAD) as session:
        for change in (session.delete, session.insert):
            before = run(session["edge"].to_set())["path"]
            shutil.rmtree(Path(session.upkeep.run.cluster.root) / "1")
            with pytest.raises(RunsLost):
                session["path"].to_set()
            with pytest.raises(RunsLost):
                session.query("path(x, y)")
            changes = change("edge", [(5, 38), (6, 5)]).changes["path"].to_set()
            expected = run(session["edge"].to_set())
            assert {name: session[name].to_set() for name in session} == expected
            assert changes == {(*row, 2 * (row in expected["path"]) - 1) for row in before ^ expected["path"]}
        assert "derived anew" in caplog.text


def test_in_a_directory_they_are_derived_anew(here, tmp_path, caplog):
    text = LOOPS + ".input path\n"
    with Program(text).session({"edge": EDGES, "path": [(77, 0)]}, path=tmp_path / "s", spark=here, **SPREAD) as session:
        session.delete("edge", [(5, 38)])
        expected = {name: session[name].to_set() for name in session}
    assert (77, 0) in expected["path"] and len(expected["path"]) > len(EDGES)
    for options in (SPREAD | {"spark": here}, {}):
        with Program(text).session(path=tmp_path / "s", **options) as session:
            assert {name: session[name].to_set() for name in session} == expected
            assert session.derived_anew == [] and session["path"].on_partitions == bool(options)
            session.insert("edge", [(5, 38)])
            session.delete("edge", [(5, 38)])
    assert "derived anew" not in caplog.text


def test_relations_grow_onto_the_partitions_and_come_back(here):
    """What has more tuples than `local_tuples`, and was made there, stays."""
    config = SPREAD | {"local_tuples": 5}
    with Program(LOOPS).session({"edge": []}, spark=here, **config) as session:
        edges = set()
        for change, some in ((session.insert, EDGES), (session.delete, {(i, (7 * i + 3) % 40) for i in range(2, 40)})):
            changes = change("edge", some).changes["path"]
            before, edges = edges, session["edge"].to_set()
            old, new = run(before), run(edges)
            assert {name: session[name].to_set() for name in session} == new
            assert session["path"].on_partitions == (len(new["path"]) > 5)
            assert (changes.inserted, changes.deleted) == (len(new["path"] - old["path"]), len(old["path"] - new["path"]))


def test_with_spark_whose_workers_are_killed(spark, nothing_here):
    """Jobs are run again; a DataFrame stays readable when its epoch is gone."""
    with Program(LOOPS).session({"edge": EDGES}, spark=spark, **SPREAD) as session:
        frame, old = session["path"].to_df(), run(EDGES)["path"]
        jobs, killed = session.upkeep.run.cluster.jobs, []

        def job(*tasks, source=None, job=jobs.job):
            if len(killed) < 3:
                killed.append(kill_workers())
            return job(*tasks, source=source)

        jobs.job = job
        changes = session.delete("edge", [(5, 38), (6, 5)]).changes["path"]
        new = run(EDGES - {(5, 38), (6, 5)})
        assert sum(killed) and {name: session[name].to_set() for name in session} == new
        assert {tuple(row) for row in changes.to_df().collect()} == {(*row, -1) for row in old - new["path"]}
        assert {tuple(row) for row in session["path"].to_df().collect()} == new["path"]
        assert {tuple(row) for row in frame.collect()} == old


def test_small_changes_need_no_job_of_spark(spark, by_rules, anew, monkeypatch):
    program, facts = Program(ABOVE), {"edge": EDGES, "weak": [(5, 6)], "near": []}
    with program.session(facts, spark=spark, **SPREAD) as session:
        monkeypatch.setattr(session.upkeep.run.cluster.jobs, "job", None)
        for change, edges in ((session.delete, EDGES - {(5, 38)}), (session.insert, EDGES)):
            change("edge", [(5, 38)])
            with program.run(facts | {"edge": edges}) as result:
                assert {name: session[name].to_set() for name in result} == {name: result[name].to_set() for name in result}
        assert session["apart"].on_partitions and not anew


TRIANGLES = """
.decl edge(x: number, y: number)
.input edge
.decl triangle(x: number, y: number, z: number)
.output triangle
triangle(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).
"""


@pytest.mark.parametrize("edges", [100, 2000], ids=["no triangles yet", "triangles"])
def test_a_transaction_takes_at_most_three_jobs(here, anew, monkeypatch, by_jobs, edges):
    facts = np.unique(np.random.default_rng(0).integers(edges // 5, size=(edges, 2)), axis=0)
    facts = facts[(facts[:, 0] + facts[:, 1]) % 2 == 1] if edges == 100 else facts  # no triangle has three odd sums
    made = [(1000 + x, 1000 + y) for x in range(15) for y in range(x)][:100]
    with Program(TRIANGLES).session({"edge": facts}, spark=here, **SPREAD) as session:
        assert bool(session["triangle"].count()) == (edges > 100)
        kind, jobs = type(session.upkeep.run.cluster.jobs), []
        job = kind.job
        monkeypatch.setattr(kind, "job", lambda *given, **options: jobs.append(1) or job(*given, **options))
        for change, most in (("insert", 1), ("delete", 2)):
            jobs.clear()
            getattr(session, change)("edge", made)
            assert 0 < len(jobs) <= most
            with Program(TRIANGLES).run({"edge": [*facts, *made] if change == "insert" else facts}) as result:
                assert session["triangle"].to_set() == result["triangle"].to_set()
        assert "plan balanced" in session.explain()
    assert anew == []


STRATA = f"""
{PATHS}
.decl reach, alone, cyclic(x: number)
.decl class, many(x: number, n: number)
.decl middle(x: number, m: float)
.output reach, alone, cyclic, class, many, middle
reach(0).
reach(y) :- reach(x), edge(x, y).
alone(x) :- edge(x, _), !reach(x).
class(x, min(x)) :- edge(x, _).
class(y, min(y)) :- edge(_, y).
class(y, min(c)) :- class(x, c), edge(x, y).
class(x, min(c)) :- class(y, c), edge(x, y).
many(x, count(z)) :- edge(x, y), edge(y, z).
cyclic(x) :- class(x, c), many(x, n), n > c.
middle(x, mean(to_float(z))) :- edge(x, y), edge(y, z).
.decl same(x: number, y: number) eqrel
.output same
same(x, y) :- path(x, y), y < 20.
"""


@pytest.mark.parametrize("copied", [True, False])
def test_a_small_change_of_any_strata_takes_one_job(here, anew, monkeypatch, copied):
    """On a cluster. Recursion, negation, best values and counts: after the first transaction nothing is read from the hosts."""
    program, edges, random = Program(STRATA), EDGES | {(x, x + 1) for x in range(100, 200)}, np.random.default_rng(3)
    monkeypatch.setattr(across_partitions, "MAX_CHANGED_PAIRS", -1)  # the closure follows as other strata do
    monkeypatch.setattr(copies, "MAX_CHANGED_TUPLES", 10_000 if copied else -1)
    with program.session({"edge": edges}, spark=ContextAway(), **SPREAD) as session:
        kind, jobs = type(session.upkeep.run.cluster.jobs), []
        job = kind.job
        monkeypatch.setattr(kind, "job", lambda self, *tasks, **given: jobs.append(tasks) or job(self, *tasks, **given))
        for number in range(8):
            come, gone = {(int(random.integers(220)), 38)}, {sorted(edges)[random.integers(len(edges))]}
            edges = (edges - gone) | come
            jobs.clear()
            with session.transaction() as transaction:
                transaction.delete("edge", gone)
                transaction.insert("edge", come)
            kinds = [{type(task).__name__ for task in tasks} for tasks in jobs]
            if copied and number:
                assert kinds == [{"ChangeIndexes"}, {"Sweep"}]
            with program.run({"edge": edges}) as result:
                assert {name: session[name].to_set() for name in result} == {name: result[name].to_set() for name in result}
        assert all(session[name].on_partitions == (name != "same") for name in program.outputs) and (not anew or not copied)
        reach = session["reach"].count()
        assert f"On the partitions now\n  alone: {session['alone'].count()} tuples\n" in session.explain()
        assert f"\n  path: {session['path'].count():,} tuples\n" in session.explain()
        told = session.explain("alone", changes=True)
        assert told.startswith(f"alone\n  on the partitions: alone, {session['alone'].count()} tuples, reach, {reach} tuples\n")
        assert "by copies in this process, more by jobs\n  suspected\n" in told


def kill_workers() -> int:
    """The Python workers of Spark; how many there were."""
    found = [one for one in psutil.Process().children(recursive=True) if one.name().startswith("python")]
    workers = [one for one in found if one.parent() and one.parent().name().startswith("python")]
    for worker in workers:
        worker.kill()
    return len(workers)
