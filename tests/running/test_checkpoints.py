"""Programs that are stopped anywhere and resumed, by whatever process: the same answer, from where they were stopped."""

import os
import shutil
import signal
import sys

import numpy as np
import pytest
from test_failure import python_workers, runs_in, script

from bench.fuzz.checks import LAYOUTS, run, same_relations, solved
from bench.fuzz.rounds import random_cases
from semi_naive import CheckpointUnusable, Program, RunsLost
from semi_naive.balance.record import checked
from semi_naive.balance.trace import VERSION
from semi_naive.ra.ir import Kind, Relation, Type
from semi_naive.ra.partitions.fingerprint import Fingerprint
from semi_naive.ra.text.symbols import SymbolTable
from semi_naive.ra.values.values import Values

GENERATION = """
.decl parent(x: symbol, y: symbol)
.decl same(x: symbol, y: symbol)
.output same
same(x, y) :- parent(p, x), parent(p, y).
same(x, y) :- parent(p, x), same(p, q), parent(q, y).
.decl alone(x: symbol)
.output alone
alone(x) :- parent(x, _), !same(x, x).
"""
TREE = [(f"n{i // 2}", f"n{i}") for i in range(2, 64)]
SAME = sum(4**depth for depth in range(1, 6))  # pairs at each depth of the tree
SPREAD = {"local_tuples": 0, "partitions": 3, "buckets": 5, "run_ahead": 0}  # a job an iteration, to be killed in any


class Killed(Exception):
    """What stands for the death of a process."""


def dying(after: int):
    """A progress callback that raises when it has been called so often."""
    calls = []

    def tell(*_):
        calls.append(None)
        if len(calls) == after:
            raise Killed

    return tell


def events(result, kind: str) -> list[int]:
    """The iterations of the events of a kind, stratum after stratum."""
    found = (event for stratum in result.trace["strata"] for event in stratum.get("trace", {}).get("events", []))
    return [event["iteration"] for event in found if event["event"] == kind]


@pytest.mark.parametrize("limit", [None, 3])
@random_cases(12)
def test_random_programs_resume_wherever_they_were_killed(case, random, here, processes, tmp_path, limit):
    """Killed after the first, the second, … iteration, and each time taken up on another layout."""
    expected = solved(case, None, limit)
    options = {"checkpoint_dir": str(tmp_path), "checkpoint_interval": random.randint(1, 2), "max_iterations": limit}
    options["replicate_bytes"] = random.choice([0, 1 << 20])
    first, second = (random.choice(LAYOUTS).with_options(options) for _ in range(2))
    for after in range(1, 9):
        try:
            run(case, first, here, progress=dying(after))
            break
        except Killed:
            same_relations(run(case, second, here)[0], expected, f"after {after}")
            assert not list(tmp_path.iterdir())


def test_relations_of_records_that_a_pass_has_made(here, tmp_path):
    """The values that a head counts are in a relation whose attributes have no declared types."""
    text = """
    .type Pair = [a: number, b: number]
    .decl pair(p: Pair)
    .input pair
    .decl many(a: number, n: number)
    .output many
    many(max(a), count(p)) :- pair(p), p = [a, _].
    """
    with Program(text).run({"pair": [((1, 2),), ((3, 4),)]}, here, checkpoint_dir=str(tmp_path), **SPREAD) as result:
        assert result["many"].to_set() == {(3, 2)}


def test_a_resumed_run_goes_on_where_it_was(here, processes, tmp_path):
    options = {"checkpoint_dir": str(tmp_path), "checkpoint_interval": 2, **SPREAD}
    with pytest.raises(Killed):
        Program(GENERATION).run({"parent": TREE}, here, progress=dying(4), **options)
    assert (tmp_path / "manifest.json").exists()
    with Program(GENERATION).run({"parent": TREE[::-1]}, here, **options | {"partitions": 2, "buckets": 6}) as result:
        assert result["same"].count() == SAME and result["alone"].to_set() == {("n1",)}
        assert events(result, "restore") == [2]
        (trace,) = [stratum["trace"] for stratum in result.trace["strata"] if stratum["relations"] == ["same"]]
        assert [entry["iteration"] for entry in trace["iterations"]] == list(range(1, len(trace["iterations"]) + 1))
        assert ["sizes" in entry for entry in trace["iterations"]] == [entry["iteration"] > 2 for entry in trace["iterations"]]
        checked(result.trace, VERSION)
        assert "restore" not in result.explain() and "same" in result.explain()
    assert not list(tmp_path.iterdir())


def test_what_earlier_strata_made_is_not_made_again(here, processes, tmp_path):
    options, seen = {"checkpoint_dir": str(tmp_path), **SPREAD}, []

    def tell(stratum, *_):
        seen.append(stratum)
        if seen[0] == "same" and stratum == "alone":
            raise Killed

    with pytest.raises(Killed):
        Program(GENERATION).run({"parent": TREE}, here, progress=tell, **options)
    seen.clear()
    with Program(GENERATION).run({"parent": TREE}, here, progress=tell, **options) as result:
        assert result["same"].count() == SAME and result["alone"].to_set() == {("n1",)}
        assert {stratum["relations"][0] for stratum in result.trace["strata"]} == {"same", "alone"}
    assert set(seen) == {"alone"}


def test_other_facts_and_other_rules_start_anew(here, processes, tmp_path):
    options = {"checkpoint_dir": str(tmp_path), "checkpoint_interval": 1, **SPREAD}
    changed = GENERATION.replace("!same(x, x)", "same(x, x)")
    for text, facts, more in (GENERATION, TREE[1:], {}), (changed, TREE, {}), (GENERATION, TREE, {"max_iterations": 9}):
        with pytest.raises(Killed):
            Program(GENERATION).run({"parent": TREE}, here, progress=dying(4), **options)
        with Program(text).run({"parent": facts}, here, **options, **more) as result:
            assert not events(result, "restore")


@pytest.mark.parametrize("checkpoints", [False, True])
def test_lost_runs_are_made_again(here, tmp_path, checkpoints):
    """From the checkpoint if there is one; otherwise from the beginning of the stratum."""
    local, durable = tmp_path / "local", tmp_path / "durable"
    local.mkdir()
    calls = []

    def lose(*_):
        calls.append(None)
        if len(calls) == 4:
            shutil.rmtree(next(local.glob("semi-naive-*")) / "runs")

    options = {"checkpoint_dir": str(durable), "checkpoint_interval": 2} if checkpoints else {}
    with Program(GENERATION).run({"parent": TREE}, here, progress=lose, local_dir=str(local), **options, **SPREAD) as result:
        assert result["same"].count() == SAME and result["alone"].to_set() == {("n1",)}
        assert events(result, "runs lost") == [4]
        assert events(result, "restore") == [2] * checkpoints
    assert not list(durable.glob("*"))


def test_earlier_strata_are_made_again_if_their_runs_are_gone_too(here, tmp_path):
    """After the last stratum has begun there is nothing left of what the first had made."""
    text = (
        GENERATION
        + """
    .decl far(x: symbol, y: symbol)
    .output far
    far(x, y) :- same(x, y), x != y.
    far(x, z) :- far(x, y), same(y, z).
    """
    )
    lost = []

    def lose(stratum, number, of, iteration, *_):
        if stratum == "far" and iteration == 2 and not lost:
            lost.append(True)
            shutil.rmtree(next(tmp_path.glob("semi-naive-*")) / "runs")

    with Program(text).run({"parent": TREE}, here, progress=lose, local_dir=str(tmp_path), **SPREAD, plan="balanced") as result:
        assert (result["same"].count(), result["far"].count()) == (SAME, SAME)
        assert events(result, "runs lost") == [2]


def test_runs_that_keep_getting_lost_are_one_clear_error(here, tmp_path):
    def lose(*_):
        shutil.rmtree(next(tmp_path.glob("semi-naive-*")) / "runs", ignore_errors=True)

    with pytest.raises(RunsLost, match="a run is missing: .*same"):
        Program(GENERATION).run({"parent": TREE}, here, progress=lose, local_dir=str(tmp_path), **SPREAD)
    assert not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_written_is_said_at_once(here, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointUnusable, match="cannot be used: .*file"):
        Program(GENERATION).run({"parent": TREE}, here, checkpoint_dir=str(tmp_path / "file"))
    assert os.listdir(tmp_path) == ["file"]


def test_a_dead_driver_is_resumed(spark, tmp_path):
    """By another process, whose sets of strings have other orders, with another number of partitions; what the dead one left
    on the disk is swept."""
    local, durable = tmp_path / "local", tmp_path / "durable"
    local.mkdir()
    program = """
        import os, signal, sys
        from semi_naive import Program
        from test_checkpoints import GENERATION, TREE
        def tell(stratum, number, of, iteration, delta, tuples):
            if iteration == 4:
                os.kill(os.getpid(), signal.SIGKILL)
        Program(GENERATION).run({"parent": TREE}, progress=tell, local_tuples=0, partitions=3,
                                checkpoint_dir=sys.argv[1], checkpoint_interval=2, run_ahead=0, local_dir=sys.argv[2])
    """
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    assert script(program, durable, local, env=environment).returncode == -signal.SIGKILL
    assert runs_in(local) and (durable / "manifest.json").exists()
    places = {"checkpoint_dir": str(durable), "local_dir": str(local)}
    options = SPREAD | {"partitions": 2, "checkpoint_interval": 2, **places}
    with Program(GENERATION).run({"parent": TREE}, spark, **options) as result:
        assert result["same"].count() == SAME and result["alone"].to_set() == {("n1",)}
        assert events(result, "restore") == [2]
        assert len(list(local.iterdir())) == 1
    assert not list(local.iterdir()) and not list(durable.iterdir())


def test_a_killed_worker_does_no_harm_to_a_checkpointing_run(spark, tmp_path):
    killed = []

    def kill(stratum, number, of, iteration, delta, tuples):
        workers = python_workers()
        if iteration == 3 and not killed and len(workers) > 1:
            killed.append(workers[-1].pid)
            workers[-1].send_signal(signal.SIGKILL)

    options = SPREAD | {"partitions": 2, "checkpoint_dir": str(tmp_path), "checkpoint_interval": 1}
    with Program(GENERATION).run({"parent": TREE}, spark, progress=kill, **options) as result:
        assert killed and result["same"].count() == SAME and events(result, "checkpoint")


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("died", [False, True])
def test_facts_on_the_partitions_are_read_again(here, processes, tmp_path, monkeypatch, checkpoints, died):
    """Lost with the other runs, or by a process that was killed: symbols have the ids of the checkpoint then."""
    monkeypatch.setattr("semi_naive.io.unread.MIN_BYTES_FOR_JOB", 0)
    monkeypatch.setattr("semi_naive.io.sources.SPAN_BYTES", 40)
    local, durable, facts, happened = tmp_path / "local", tmp_path / "durable", tmp_path / "parent.facts", []
    local.mkdir()
    facts.write_text("".join(f"{x}\t{y}\n" for x, y in TREE))

    def tell(stratum, number, of, iteration, *_):
        if iteration == 4 and not happened:
            happened.append(True)
            shutil.rmtree(next(local.glob("semi-naive-*")) / "runs")
            if died:
                raise Killed

    options = SPREAD | {"local_dir": str(local)}
    options |= {"checkpoint_dir": str(durable), "checkpoint_interval": 2} if checkpoints else {}
    if died:
        with pytest.raises(Killed):
            Program(GENERATION).run({"parent": str(facts)}, here, progress=tell, **options)
    with Program(GENERATION).run({"parent": str(facts)}, here, progress=tell, **options) as result:
        assert happened and result["same"].count() == SAME and result["alone"].to_set() == {("n1",)}
        assert events(result, "restore") == [2] * checkpoints
        assert events(result, "runs lost") == [4] * (not died)


def test_facts_have_one_fingerprint_in_every_process():
    """Whatever the ids of their symbols and records, in whatever order; also of lists within lists."""
    kinds = {"symbol": Type("symbol", Kind.SYMBOL), "number": Type("number", Kind.NUMBER)}
    types = kinds | {"List": Type("List", Kind.RECORD, (("head", "symbol"), ("tail", "List")))}
    relation = Relation("e", (("n", types["number"]), ("list", types["List"])))

    def number(lists, junk: int) -> int:
        values = Values(SymbolTable())
        values.intern([f"junk {i}" for i in range(junk)])

        def made(items) -> int:
            below = made(items[1:]) if items else 0
            return int(values.pack(np.array([values.intern([items[0]]), [below]]))[0]) if items else 0

        columns = np.array([[n, made(items)] for n, items in lists], np.int64).T
        return Fingerprint(relation, types, values)(columns)

    lists = [(1, "abc"), (2, "bc"), (3, ""), (4, "ccccccccbc")]
    assert number(lists, 0) == number(lists[::-1], 7)
    assert len({number(lists, 0), number([*lists[:3], (4, "ccccccccbd")], 0), number([(1, "abc"), (2, ""), (3, "bc")], 0)}) == 3
