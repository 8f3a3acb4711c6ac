"""The simulator against the engine: at as many ranks as there are partitions its record is the engine's, to the tuple."""

import numpy as np
import pytest
from paths import PATHS

from semi_naive import Config, Program, graphs, simulate, transitive_closure
from semi_naive.balance.machine import Machine, fitted
from semi_naive.balance.policy import imbalance_ratio, to_refine
from semi_naive.ra.closures.graph import intern, relabel
from semi_naive.simulation import Replayable

WORK = {"run_ahead": 0, "replicate_bytes": 0, "refinement_minimum": 16}
PAPER = Config.paper(refinement_minimum=16, buckets=8).to_json()
COUNTED = ("received", "sent", "bytes", "joined", "duplicates", "messages", "arrived")
CASES = {
    "refined": (graphs.tree(9), WORK | {"buckets": 8, "partitions": 3}),
    "the paper's": (graphs.tree(9), PAPER | {"partitions": 4}),
    "inner refined": (graphs.bowtie(90, 3), PAPER | {"partitions": 3, "buckets": 5, "check_interval": 1}),
    "copied": (graphs.bowtie(90, 3), WORK | {"partitions": 3, "buckets": 5}),
    "not copied": (graphs.bowtie(90, 3), WORK | {"partitions": 3, "buckets": 5, "copy_inner": False}),
    "rolled over": (graphs.rmat(8, 700, seed=1), WORK | {"partitions": 3, "rollover_threshold": 500}),
    "both": (graphs.zipf(300, 1500, seed=1), WORK | {"partitions": 5, "rollover_threshold": 900}),
    "edge-path": (graphs.tree(8, "down"), WORK | {"buckets": 8, "partitions": 3, "rule": "edge-path"}),
    "in batches": (graphs.rmat(11, 6000, seed=1), WORK | {"partitions": 2, "refine": False}),
    "one partition": (graphs.rmat(8, 700, seed=1), WORK | {"partitions": 1}),
    "stopped": (graphs.chain(30), WORK | {"partitions": 2, "max_iterations": 7}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_engines_record_is_reproduced(here, case):
    """Of edges that are partitioned, as the simulator has them; so where the engine has placed them is left out."""
    edges, options = CASES[case]
    with transitive_closure(edges, here, "balanced", **options) as closure:
        real = closure.trace
    ours = simulate(edges, options["partitions"], **options)
    events = [event for event in real["events"] if event["event"] != "placed"]
    assert [told(event) for event in ours["events"]] == [told(event) for event in events]
    assert len(ours["iterations"]) == len(real["iterations"])
    for one, other in zip(ours["iterations"], real["iterations"], strict=True):
        for key in ("iteration", "delta", "born", "births", "full", "steps", "sizes", "loads", "imbalance", "held"):
            assert one[key] == other[key], (one["iteration"], key)
        assert [counts(phase) for phase in one["phases"]] == [counts(phase) for phase in other["phases"]]
    assert ours["result"]["tuples"] == real["result"]["tuples"] and ours["result"]["iterations"] == real["result"]["iterations"]


def told(event: dict) -> dict:
    """An event without what it took."""
    return {key: value for key, value in event.items() if key != "seconds"}


def counts(phase: dict) -> dict:
    return {key: value for key, value in phase.items() if key in COUNTED or key in ("inner", "phase")}


def work(record: dict) -> np.ndarray:
    """What each rank did in the whole run: tuples into the joins, pairs, tuples into the inserts."""
    phases = [phase for entry in record["iterations"] for phase in entry["phases"]]
    return sum(np.add(phase["received"], phase.get("joined", 0)) for phase in phases if phase["phase"] in ("join", "insert"))


@pytest.mark.parametrize("edges", [graphs.tree(13), graphs.bowtie(400, 4)], ids=["tree", "bow tie"])
def test_balancing_by_work_beats_the_papers_rules_on_many_ranks(edges):
    closure, ranks = Replayable.of(edges, Config()), 32
    paper = closure.simulate(ranks, Config.paper(buckets=ranks, refinement_minimum=16))
    ours = closure.simulate(ranks, refinement_minimum=16)
    nothing = closure.simulate(ranks, refine=False)
    assert imbalance_ratio(work(ours)) < imbalance_ratio(work(paper)) <= imbalance_ratio(work(nothing))
    assert work(nothing).sum() == pytest.approx(work(ours).sum(), rel=0.2), "balancing adds little work"


def test_the_default_balances_where_a_job_costs_less_than_it_saves():
    closure = Replayable.of(graphs.tree(15), Config())
    free, spark = (closure.simulate(64, machine=machine) for machine in (Machine.mpi(), Machine(job=0.1)))
    assert imbalance_ratio(work(free)) < 1.25 < imbalance_ratio(work(spark))
    assert free["events"] and not spark["events"]


def test_ten_thousand_ranks_hold_what_one_holds():
    edges = graphs.gnp(300, 0.01, seed=2)
    many = simulate(edges, 10_000, buckets=10_000)
    one = simulate(edges, 1)["result"]
    assert many["result"] | {"peak_tuples": []} == one | {"peak_tuples": []}
    assert len(many["result"]["peak_tuples"]) == 10_000 and max(many["result"]["peak_tuples"]) < one["peak_tuples"][0] / 50
    assert all(len(entry["loads"]) == 10_000 and sum(entry["loads"]) == entry["full"] for entry in many["iterations"])


def test_only_what_carries_a_column_is_simulated():
    with pytest.raises(ValueError, match="path-path carries none"):
        simulate(graphs.chain(4), 2, rule="path-path")
    with pytest.raises(ValueError, match="ranks is 0"):
        simulate(graphs.chain(4), 0)


def test_nothing_is_simulated_of_no_edges():
    assert simulate(np.empty((0, 2), np.int64), 4)["result"]["tuples"] == 0


def test_a_machine_is_fitted_to_what_phases_took():
    true = Machine(receive=1e-8, pair=2e-9, make=3e-8, insert=4e-8, birth=5e-9, byte=6e-9, task=1e-3, job=0.02)
    record = simulate(graphs.rmat(9, 2000, seed=3), 4, machine=true)
    for entry in record["iterations"]:
        for phase in entry["phases"]:
            if phase["phase"] == "all-to-all":
                phase["seconds"] = [true.task + true.byte * size for size in phase["bytes"]]
    found = fitted([record])
    for price in ("receive", "pair", "make", "insert", "birth", "byte", "task", "job"):
        assert getattr(found, price) == pytest.approx(getattr(true, price), rel=1e-3), price
    with pytest.raises(ValueError, match="no phase 'join'"):
        fitted([{"iterations": []}])


COUSINS = """
.decl edge(x: number, y: number)
.input edge
.decl cousins(x: number, y: number)
.output cousins
cousins(x, y) :- edge(p, x), edge(p, y), x != y.
cousins(x, y) :- edge(a, x), cousins(a, b), edge(b, y).
.decl alone(name: symbol)
.output alone
alone(cat("node ", to_string(x))) :- edge(x, _), !cousins(x, _).
"""


@pytest.mark.parametrize(
    "options", [{}, {"rollover_threshold": 40}, {"refinement_minimum": 16, "buckets": 4, "grain": 0.1}], ids=str
)
def test_a_program_is_simulated_to_the_tuple(here, options):
    """At as many ranks as there are partitions, phases, sizes and events are those of a run; on more, the same tuples are
    born."""
    facts, program = {"edge": graphs.tree(7)}, Program(COUSINS)
    given = WORK | options | {"local_tuples": 0}
    with program.run(facts, here, partitions=3, **given) as result:
        real = [stratum["trace"] for stratum in result.trace["strata"]]
    ours = [stratum["trace"] for stratum in simulate(program, 3, facts=facts, **given)["strata"]]
    for one, other in zip(ours, real, strict=True):
        assert [told(event) for event in one["events"]] == [told(event) for event in other["events"]]
        for mine, theirs in zip(one["iterations"], other["iterations"], strict=True):
            assert all(mine[key] == theirs[key] for key in ("born", "births", "full", "sizes", "loads", "imbalance"))
            assert [counts(phase) for phase in mine["phases"]] == [counts(phase) for phase in theirs["phases"]]
    many = simulate(program, 100, facts=facts, **given)
    for one, other in zip((stratum["trace"] for stratum in many["strata"]), real, strict=True):
        assert [entry["born"] for entry in one["iterations"]] == [entry["born"] for entry in other["iterations"]]
        assert len(one["result"]["peak_tuples"]) == 100 and one["seconds"] > 0
    with pytest.raises(ValueError, match="ranks is 5000: expected a whole number from 1 to 4,096 for a program"):
        simulate(program, 5000, facts=facts)


def numbered(edges) -> np.ndarray:
    """The edges with the numbers that the engine gives the nodes of a closure: those of a program keep theirs."""
    graph = relabel(intern(np.asarray(edges)))
    return np.stack([graph.sources, graph.targets], axis=1).astype(np.int64)


@pytest.mark.parametrize("case", ["refined", "the paper's", "inner refined", "copied", "rolled over"])
def test_a_closure_costs_as_much_as_the_same_program(case):
    """Every count, price and peak is equal: what moves and is copied, what is sent and received, messages, what is held."""
    edges, options = CASES[case]
    machine = Machine(job=0, task=0)
    closure = simulate(edges, 4, machine=machine, **options)
    facts = {"edge": numbered(edges)}
    (stratum,) = simulate(Program(PATHS), 4, machine=machine, facts=facts, **options)["strata"]
    ours = stratum["trace"]
    priced = COUNTED + ("inner", "phase", "seconds")
    for one, other in zip(ours["iterations"], closure["iterations"], strict=True):
        for mine, theirs in zip(one["phases"], other["phases"], strict=True):
            assert {k: v for k, v in mine.items() if k in priced} == {k: v for k, v in theirs.items() if k in priced}
    assert [event for event in ours["events"] if event["event"] != "placed"] == closure["events"]
    assert ours["seconds"] == pytest.approx(closure["seconds"])
    assert ours["result"]["peak_tuples"] == closure["result"]["peak_tuples"]
    for event in (event for event in closure["events"] if "left" in event):
        assert sum(event["left"]) == sum(event["arrived"]) == event.get("moved", event.get("copied"))
        assert event["seconds"] == pytest.approx(machine.moving(event["left"], event["arrived"])) and event["seconds"] > 0


def test_what_is_sent_to_a_second_index_is_charged_and_held():
    """A join of path with itself searches it by both columns."""
    squared = Program(PATHS.replace("edge(y, z)", "path(y, z)"))
    record = simulate(squared, 3, facts={"edge": graphs.tree(6)}, replicate_bytes=0, refine=False)["strata"][0]["trace"]
    last = record["iterations"][-1]
    assert sum(last["held"]) == 2 * last["full"] + 126, "in two orders, and the edges"
    inserts = [phase for entry in record["iterations"] for phase in entry["phases"] if phase["phase"] == "insert"]
    assert sum(sum(phase.get("arrived", ())) for phase in inserts) == last["full"]
    born = next(phase for phase in inserts if "messages" in phase)
    free = Machine(byte=0, message=0, collective=0)
    assert max(born["seconds"]) > max(free.predicted_seconds(born, 3)) and sum(born["messages"]) > 0


def test_the_papers_policy_consolidates_when_most_buckets_are_refined():
    """Buckets are refined beyond 1.2 times the average, so that more than 60 % of them are."""
    settings = Config.paper(8, refinement_ratio=1.2, check_interval=1)
    record = simulate(graphs.tree(8), 8, settings)
    kinds = [event["event"] for event in record["events"]]
    assert {"refine", "consolidate"} <= set(kinds) and record["result"]["tuples"] == 7 * 2**9 + 2
    assert settings.buckets == 8 and settings.local_tuples == 0 and settings.least() == 0


def test_the_papers_policy_acts_on_few_edges_and_without_a_cap(here):
    with transitive_closure(graphs.tree(14), here, config=Config.paper()) as closure:
        assert closure.trace["plan"] == "balanced"
        assert "refine" in {event["event"] for event in closure.trace["events"]}
    sizes = [[3] * 4096] + [[0]] * 20_000
    assert to_refine(sizes, 3, 4, 0) == {0: 16_384}
