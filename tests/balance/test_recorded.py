"""A recorded trace on other numbers of ranks, and `semi-naive simulate`: loads to the tuple, work shared out, nothing lost."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plot_traces import GROUPS, REFINED, program, stratum, trace

from semi_naive import Config, Program, graphs, simulate, transitive_closure
from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.machine import Machine
from semi_naive.balance.recorded import apportion, flows, replayed
from semi_naive.balance.trace import read_trace, spread, write_trace

PLAIN = {"buckets": 7, "partitions": 3, "run_ahead": 0}
COUNTED = ("received", "sent", "bytes", "joined")
COUSINS = """
.decl edge(parent: number, child: number)
.input edge
.decl same(x: number, y: number)
.output same
same(x, y) :- edge(p, x), edge(p, y), x != y.
same(x, y) :- edge(p, x), same(p, q), edge(q, y).
"""


@pytest.fixture(scope="module")
def plain(here):
    """A run in which nothing was moved."""
    with transitive_closure(graphs.rmat(8, 700, seed=1), here, "balanced", refine=False, **PLAIN) as closure:
        return closure.trace


@pytest.fixture(scope="module")
def refined(here):
    """A run of the paper's policy: refined, consolidated, rolled over."""
    options = Config.paper(refinement_minimum=8, refinement_ratio=1.5, consolidation_fraction=0.1, check_interval=1,
                           buckets=16, rollover_threshold=300, partitions=3).to_json()  # fmt: skip
    with transitive_closure(graphs.bowtie(90, 3), here, "balanced", **options) as closure:
        assert {"refine", "consolidate", "roll-over"} <= {event["event"] for event in closure.trace["events"]}
        return closure.trace


@pytest.fixture(scope="module")
def datalog(here):
    """One stratum on the partitions, by rules that the simulator does not know."""
    facts = {"edge": graphs.rmat(7, 250, seed=2)}
    with Program(COUSINS).run(facts, here, local_tuples=0, partitions=3) as result:
        return result.trace


def phases(record: dict) -> list[dict]:
    return [phase for entry in record["iterations"] for phase in entry["phases"]]


def test_at_the_recorded_number_of_partitions_the_loads_and_births_are_the_engines(plain):
    ours = replayed(plain, 3)
    for one, other in zip(ours["iterations"], plain["iterations"], strict=True):
        for key in ("iteration", "delta", "born", "births", "full", "steps", "sizes", "loads", "imbalance"):
            assert one[key] == other[key], (one["iteration"], key)
    inserts = [[phase["sent"] for phase in phases(record) if phase["phase"] == "insert"] for record in (ours, plain)]
    assert inserts[0][:-1] == inserts[1][:-1], "births are differences of sizes; of the last iteration there are none"


def test_at_the_recorded_number_of_partitions_work_is_near_the_engines(plain):
    ours = replayed(plain, 3)
    for name, key in (("join", "received"), ("join", "joined"), ("insert", "received")):
        one, other = (sum(np.array(p[key]) for p in phases(r) if p["phase"] == name) for r in (ours, plain))
        assert one == pytest.approx(other, rel=0.15), (name, key)


@pytest.mark.parametrize("ranks", [1, 2, 5, 300])
@pytest.mark.parametrize("run", ["plain", "refined"])
def test_no_work_and_no_tuple_is_lost_on_any_number_of_ranks(run, ranks, request):
    record = request.getfixturevalue(run)
    ours = replayed(record, ranks)
    assert all(len(entry["loads"]) == ranks and sum(entry["loads"]) == entry["full"] for entry in ours["iterations"])
    for one, other in zip(phases(ours), phases(record), strict=True):
        assert (one["phase"], one["inner"]) == (other["phase"], other["inner"])
        assert {key: sum(one[key]) for key in COUNTED if key in one} == {
            key: sum(other[key]) for key in COUNTED if key in other
        } | ({"received": sum(one["received"])} if one["phase"] == "all-to-all" else {})
        assert all(len(one[key]) == ranks and min(one[key]) >= 0 for key in ("received", "sent", "bytes", "seconds"))
    assert ours["result"]["tuples"] == record["result"]["tuples"] <= sum(ours["result"]["peak_tuples"])
    spent = sum(entry["seconds"] for entry in ours["iterations"]) + sum(event.get("seconds", 0) for event in ours["events"])
    assert ours["seconds"] == pytest.approx(spent)


def test_resized_buckets_are_followed(refined):
    for ranks in (3, 11):
        ours, placement = replayed(refined, ranks), BucketMap.deal(16, ranks)
        for entry, other in zip(ours["iterations"], refined["iterations"], strict=True):
            placement = placement.resize({b: len(s) for b, s in enumerate(other["sizes"]) if len(s) != len(placement.homes[b])})
            assert entry["loads"] == placement.loads(np.concatenate(other["sizes"])).tolist()
    told = [event for event in replayed(refined, 11)["events"] if event.get("moved")]
    assert told and all(sum(event["loads_before"]) == pytest.approx(sum(event["loads_after"]), abs=11) for event in told)
    assert len(ours["events"]) == len(refined["events"])


def test_ranks_beyond_the_subbuckets_have_nothing_to_do(plain):
    ours = replayed(plain, 50)
    idle = np.array(ours["iterations"][-1]["loads"]) == 0
    assert idle.sum() == 50 - 7
    assert all(not np.array(phase[key])[idle].any() for phase in phases(ours) for key in ("received", "sent", "bytes"))


def test_it_agrees_with_the_simulator_where_work_follows_births():
    edges = graphs.gnp(300, 0.02, seed=2)
    exact = simulate(edges, 4, refine=False, buckets=64)
    ours = replayed(exact, 4)
    assert [entry["loads"] for entry in ours["iterations"]] == [entry["loads"] for entry in exact["iterations"]]
    assert ours["seconds"] == pytest.approx(exact["seconds"], rel=0.05)


def test_prices_are_those_of_the_machine(plain):
    free = Machine(**dict.fromkeys(Machine().to_json(), 0.0))
    assert replayed(plain, 5, free)["seconds"] == 0
    assert replayed(plain, 5, Machine(job=0.5))["seconds"] >= 0.5 * len(plain["iterations"])


def test_a_stratum_of_a_program_is_replayed_with_its_shuffles(datalog):
    [found] = spread(datalog).values()
    ours = replayed(found, 6)
    shipped = sum(sum(phase["bytes"]) for phase in phases(ours) if phase["phase"] == "all-to-all")
    assert shipped == sum(sum(phase["bytes"]) for phase in phases(found) if phase["phase"] in ("join", "run-ahead")) > 0
    assert sum(ours["iterations"][-1]["loads"]) == sum(found["iterations"][-1]["loads"])


@given(st.lists(st.tuples(st.sampled_from([1, 2, 4, 16]), st.sampled_from([1, 2, 4, 16])), min_size=1, max_size=5))
def test_all_of_a_bucket_goes_somewhere(counts):
    old, new = np.array(counts).T
    source, target, share = flows(old, new)
    assert np.bincount(source, share) == pytest.approx(np.ones(old.sum()))
    whole = np.bincount(target, np.repeat(1 / old, old)[source] * share)
    assert whole == pytest.approx(np.repeat(1 / new, new)), "what was even stays even"


@given(st.integers(0, 2**50), st.lists(st.integers(0, 2**40), min_size=1, max_size=40).filter(any))
def test_shares_are_whole_and_add_up(total, weights):
    parts = apportion(total, np.array(weights))
    exact = np.array([total * weight / sum(weights) for weight in weights])
    assert parts.sum() == total and np.abs(parts - exact).max() <= 1.01 and parts.min() >= 0


def test_made_up_traces_are_replayed_or_refused():
    assert [sum(entry["loads"]) for entry in replayed(REFINED, 4)["iterations"]] == [10, 32, 39]
    for record, expected in (
        (GROUPS, "decomposed plan, which has no buckets.*--plan balanced"),
        (trace([]), "no iterations"),
        (program([stratum("path", 1.0, REFINED)]), "semi_naive.balance.trace.spread"),
    ):
        with pytest.raises(ValueError, match=expected):
            replayed(record, 2)
    with pytest.raises(ValueError, match="ranks is 0: expected a whole number from 1"):
        replayed(REFINED, 0)


def rows(out: str) -> list[list[str]]:
    """The cells of the rows of printed tables."""
    return [line.replace(" s ", " ").split() for line in out.splitlines() if line.strip()[:1].isdigit()]


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "edges.tsv"
    path.write_text("".join(f"{x}\t{y}\n" for x, y in graphs.tree(7).tolist()))
    return path


def test_the_command_tells_what_the_simulator_found(run, tmp_path):
    edges = tmp_path / "edges.tsv"
    np.savetxt(edges, graphs.tree(9), "%d", "\t")
    status, out, err = run("simulate", edges, "--ranks", "16,2", "--set", "refinement_minimum=4", "--trace", "")
    assert (status, err) == (0, "")
    few, many = rows(out)
    exact = simulate(edges, 16, refinement_minimum=4)
    assert few[0] == "2" and few[4] == "100.0%" and many[0] == "16"
    spent = [float(cell) for cell in many[1:4]]
    assert spent[0] == pytest.approx(exact["seconds"], rel=1e-3)
    assert spent[1] == pytest.approx(Machine().job * len(exact["iterations"]), rel=0.01)
    between = exact["seconds"] - sum(entry["seconds"] for entry in exact["iterations"])
    assert spent[2] == pytest.approx(between, rel=0.01) and between > 0
    assert many[-2] == f"{max(exact['result']['peak_tuples']):,}"
    assert float(many[6]) == pytest.approx(exact["iterations"][-1]["imbalance"]["partitions"], abs=0.006)
    assert int(many[8].replace(",", "")) == sum(e.get("moved", 0) + e.get("copied", 0) for e in exact["events"])


def test_policies_are_tables_of_their_own(run, edges):
    status, out, _ = run("simulate", edges, "--ranks", "8", "--policy", "none", "--policy", "paper", "-q",
                         "--set", "refinement_minimum=4", "--set", "buckets=64")  # fmt: skip
    assert status == 0 and out.index("policy none") < out.index("policy paper")
    assert rows(out)[0][8] == "0" != rows(out)[1][8]


def test_policies_have_the_same_layout(run, edges, tmp_path):
    """Every policy has the same tuples on each rank after iteration 1, of a program too, and the edges are partitioned."""
    (tmp_path / "closure.dl").write_text(
        '.decl edge(x: number, y: number)\n.input edge(filename="edges.tsv")\n.decl path(x: number, y: number)\n.output path\n'
        "path(x, y) :- edge(x, y).\npath(x, z) :- path(x, y), edge(y, z).\n"
    )
    begun: dict[str, list] = {"closure.dl": [], "edges.tsv": []}
    for source, found in begun.items():
        for policy in ("paper", "none", "work"):
            arguments = ("--ranks", "8", "--policy", policy, "--trace", f"{policy}.json", "-F", tmp_path)
            assert run("simulate", source, *arguments[: None if source.endswith(".dl") else -2])[0] == 0
            (record,) = spread(read_trace(tmp_path / f"{policy}.json")).values()
            first = record["iterations"][0]
            found.append([first["sizes"], first["held"], first["phases"][0]["received"]])
    for found in begun.values():
        assert found[0] == found[1] == found[2] and len(found[0][0]) == 8
        assert sum(found[0][1]) == 2 * 254, "paths and edges, each once"


def test_the_command_prices_jobs_as_the_machine_has_them(run, edges):
    for machine, job in (("spark", Machine().job), ("mpi", 0.0)):
        status, out, _ = run("simulate", edges, "--ranks", "8", "--machine", machine, "-q")
        ((_, seconds, driver, *_),) = rows(out)
        assert status == 0 and float(driver) == pytest.approx(8 * job, rel=0.01) and float(seconds) > float(driver)
    assert run("simulate", edges, "--ranks", "8", "--machine", "abacus")[0] == 2


def test_records_are_replayed_stratum_by_stratum(run, refined, tmp_path):
    write_trace(refined, tmp_path / "run.json")
    assert run("simulate", "run.json", "--ranks", "9", "--trace", "many.json")[0] == 0
    assert read_trace(tmp_path / "many.json")["iterations"] == replayed(refined, 9)["iterations"]
    assert run("plot", "many.json", "--only", "balance")[0] == 0
    several = program([stratum("path", 1.0, refined), stratum("steps", 1.0, REFINED), stratum("reach", 1.0, GROUPS)])
    (tmp_path / "several.json").write_text(json.dumps(several))
    status, out, err = run("simulate", "several.json", "--ranks", "2,4")
    assert status == 0 and [row[0] for row in rows(out)] == ["2", "4"] * 2 and "path" in out and "steps" in out
    assert "reach is left out: the trace is of the decomposed plan" in err


def test_what_is_wrong_is_one_line(run, edges, tmp_path):
    for name, record in (("good", REFINED), ("empty", trace([])), ("groups", GROUPS)):
        write_trace(record, tmp_path / f"{name}.json")
    two = program([stratum("path", 1.0, REFINED), stratum("steps", 1.0, REFINED)])
    write_trace(two, tmp_path / "two.json")
    write_trace(program([stratum("path", 1.0)]), tmp_path / "local.json")
    for arguments, expected in (
        (["edges.tsv", "--ranks", "2,x"], "--ranks 2,x: expected whole numbers from 1"),
        (["edges.tsv", "--ranks", "0"], "expected whole numbers from 1"),
        (["edges.tsv", "--ranks", "2,4", "--trace", "t.json"], "expected one number of ranks and one policy"),
        (["edges.tsv", "--ranks", "2", "--trace", "no/t.json"], "there is no directory 'no'"),
        (["edges.tsv", "--ranks", "2", "--set", "rule=path-path"], "path-path carries none"),
        (["good.json", "--ranks", "2", "--policy", "paper"], "--set and --policy are for edges"),
        (["empty.json", "--ranks", "2"], "empty.json: the trace has no iterations"),
        (["groups.json", "--ranks", "2"], "no buckets to deal"),
        (["two.json", "--ranks", "2", "--trace", "t.json"], "2 strata were in buckets"),
        (["local.json", "--ranks", "2"], "nothing of this run was on the partitions"),
        (["none.json", "--ranks", "2"], "none.json"),
    ):
        status, out, err = run("simulate", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1) and expected in err, (arguments, err)
    assert run("simulate", "none.tsv", "--ranks", "2")[0] == run("simulate", "edges.tsv")[0] == 2
    assert not (tmp_path / "t.json").exists()


def test_the_peak_of_one_rank_is_all_there_is_and_what_arrives():
    record = simulate(graphs.chain(5), 1)
    held = [(4, 4), (4 + 4, 3), (7 + 4, 2), (9 + 4, 1), (10 + 4, 0)]  # paths and edges, and heads that have arrived
    assert record["result"]["peak_tuples"] == [max(before + arrived for before, arrived in held)]
