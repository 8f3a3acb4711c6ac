"""The bucket map and the policies by themselves; what balancing does to a run; what the trace says of it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.policies import case, cliques, slower, small_world
from semi_naive import Config, graphs, transitive_closure
from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.placement import Outlook, plan_map_change, remaining_iterations, spread_inner
from semi_naive.balance.policy import imbalance_ratio, to_consolidate, to_refine
from semi_naive.balance.trace import read_trace, write_trace
from semi_naive.simulation import Replayable

changes = st.lists(st.dictionaries(st.integers(0, 6), st.sampled_from([1, 4, 16])), max_size=6)


@given(st.integers(1, 9), changes)
def test_resizing_moves_only_what_changed(partitions, steps):
    placement = BucketMap.deal(7, partitions)
    for change in steps:
        after = placement.resize(change)
        for bucket in range(7):
            old, new = placement.homes[bucket], after.homes[bucket]
            assert len(new) == change.get(bucket, len(old))
            assert new[: min(len(old), len(new))] == old[: min(len(old), len(new))]
        placement = after
    assert BucketMap.from_json(json.loads(json.dumps(placement.to_json()))) == placement


def test_the_deal_is_even():
    placement = BucketMap.deal(64, 8).resize({3: 16, 5: 4})
    assert np.bincount(placement.tables()[1]).tolist() == [11, 11, 10, 10, 10, 10, 10, 10]


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=200), st.integers(1, 9))
def test_every_tuple_has_one_slot_and_keeps_its_partition_unless_its_bucket_changes(values, buckets):
    keys = np.array(values, np.uint64)
    rests = keys * np.uint64(7919) % np.uint64(1 << 40)
    before = BucketMap.deal(buckets, 5)
    after = before.resize({0: 4})
    homes = [placement.tables()[1][placement.slots_of(keys, rests)] for placement in (before, after)]
    moved = homes[0] != homes[1]
    first, _ = before.tables()
    assert not moved[before.slots_of(keys, rests) != 0].any()


def test_policies():
    even = [[10], [10], [10], [10]]
    assert to_refine(even, 3.0, 4, 1) == {} and to_consolidate(even, 0.6, 4) == {}
    assert to_refine([[100], [1], [1], [1]], 3.0, 4, 1) == {0: 4}
    assert to_refine([[100], [1], [1], [1]], 3.0, 4, 101) == {}, "too light to be worth a move"
    assert to_refine([[100, 90, 95, 99], *[[1]] * 30], 3.0, 4, 1) == {0: 16}
    refined = [[50] * 4, [1] * 4, [1] * 4, [1] * 4]
    assert to_consolidate(refined, 0.6, 4) == {1: 1, 2: 1, 3: 1}
    assert to_consolidate(refined + [[1]] * 4, 0.6, 4) == {}, "half are refined, not more than 60 %"
    assert imbalance_ratio([]) == imbalance_ratio([0, 0]) == 1.0


@st.composite
def watched(draw):
    """A bucket map, and tuples and work in each of its slots."""
    partitions, buckets = draw(st.integers(2, 9)), draw(st.integers(1, 12))
    placement = BucketMap.deal(buckets, partitions)
    placement = placement.resize(draw(st.dictionaries(st.integers(0, buckets - 1), st.sampled_from([2, 4]), max_size=3)))
    slots = placement.tables()[1].size
    amounts = st.lists(st.integers(0, 10**6), min_size=slots, max_size=slots)
    return placement, np.array(draw(amounts), float), np.array(draw(amounts), float)


@given(watched(), st.booleans())
def test_rebalancing_by_work_pays_or_is_left(case, splits):
    placement, sizes, work = case
    change = plan_map_change(placement, sizes, work, Config(), least=1, splits=splits)
    before = np.bincount(placement.tables()[1], weights=work, minlength=placement.partitions)
    if change is None:
        return
    expected = np.zeros(placement.partitions)  # as if a bucket's subbuckets were split evenly
    for bucket, (old, new) in enumerate(zip(placement.homes, change.map.homes, strict=True)):
        assert len(new) % len(old) == 0 and (splits or len(new) == len(old))
        assert (old != new) == change.changed[bucket]
        for sub, partition in enumerate(new):
            expected[partition] += work[placement.tables()[0][bucket] + sub % len(old)] * len(old) / len(new)
    assert expected.sum() == pytest.approx(work.sum())
    assert expected.max() < before.max() and before.max() > 1.1 * before.mean()


def test_a_partition_that_is_too_heavy_gives_away_what_has_fewest_tuples_for_its_work():
    placement = BucketMap.deal(4, 2)
    change = plan_map_change(placement, np.array([90, 1, 1, 1]), np.array([7, 1, 3, 1]), Config(grain=2), least=1)
    assert change.map.homes == ((0,), (1,), (1,), (1,)) and change.kinds == {"move": [2]}
    assert plan_map_change(placement, np.array([90, 1, 1, 1]), np.array([7, 1, 3, 1]), Config(grain=2), least=99) is None


def test_one_hot_bucket_is_split_in_proportion():
    work = np.array([800.0, 10, 10, 10])
    change = plan_map_change(BucketMap.deal(4, 4), np.zeros(4), work, Config(), least=1)
    assert len(change.map.homes[0]) == 8 and set(change.map.homes[0]) == {0, 1, 2, 3} and change.kinds == {"refine": [0]}


TREE = {"plan": "balanced", "partitions": 8, "buckets": 64, "refinement_minimum": 64, "replicate_bytes": 0}


def test_a_tree_pointing_up_is_balanced(here):
    edges = graphs.tree(14)
    loads = {}
    for refine in (True, False):
        with transitive_closure(edges, here, refine=refine, run_ahead=0, **TREE) as result:
            assert result.count() == 13 * 2**15 + 2
            loads[refine] = result.trace["iterations"][-1]["imbalance"]["partitions"]
            events = [event for event in result.trace["events"] if event["event"] in ("refine", "move")]
            assert bool(events) == refine
    assert loads[True] <= 1.45 < 1.7 < loads[False]


def test_the_papers_rules_act_when_they_are_asked_for(here):
    options = Config.paper(check_interval=3).to_json() | {"partitions": 8}
    with transitive_closure(graphs.tree(14), here, "balanced", **options) as result:
        assert result.count() == 13 * 2**15 + 2
        refined = [event for event in result.trace["events"] if event["event"] == "refine"]
        assert all(event["iteration"] % 3 == 0 for event in refined)
        for event in refined:
            assert sum(event["loads_before"]) == sum(event["loads_after"])
            assert 0 < event["moved"] <= sum(sum(bucket["before"]) for bucket in event["buckets"])
            for bucket in event["buckets"]:
                assert sum(bucket["before"]) == sum(bucket["after"])
                assert len(bucket["after"]) == 4 * len(bucket["before"])


def test_a_hub_refines_the_inner_relation_and_needs_the_intra_bucket_shuffle(here):
    """A star's hub has all edges: its bucket of `edge` is split, and path's delta goes to each of its parts."""
    edges = np.concatenate((graphs.star(6000), [[9_000 + i, 0] for i in range(50)]))
    with transitive_closure(edges, here, "balanced", run_ahead=0, check_interval=9, partitions=4, buckets=8) as result:
        assert result.count() == 6000 + 50 + 50 * 6000
        first = result.trace["iterations"][0]
    options = {
        "run_ahead": 0,
        "replicate_bytes": 0,
        "check_interval": 1,
        "partitions": 4,
        "buckets": 8,
        "policy": "paper",
        "refinement_ratio": 1.0,
        "refinement_minimum": 99,
    }
    edges = np.concatenate((edges, [[20_000 + i, 9_000 + i] for i in range(50)]))
    with transitive_closure(edges, here, "balanced", **options) as result:
        assert result.count() == 6000 + 50 + 50 * 6000 + 50 + 50 + 50 * 6000
        relations = {event["relation"] for event in result.trace["events"] if event["event"] == "refine"}
        phases = {phase["phase"] for entry in result.trace["iterations"] for phase in entry["phases"]}
        assert "edge" in relations and "intra-bucket" in phases
    assert first["iteration"] == 1


def test_consolidation(here):
    """A hub that is heavy at first and light once the rest has grown: its bucket is refined, then consolidated."""
    edges = np.concatenate(([[1000 + i, 5000] for i in range(300)], graphs.gnp(250, 0.009, seed=3)))
    options = {"refinement_minimum": 0, "check_interval": 1, "consolidation_fraction": 0.0, "refinement_factor": 2}
    options |= {"buckets": 40, "partitions": 2, "policy": "paper", "replicate_bytes": 0}
    for consolidate in (True, False):
        with transitive_closure(edges, here, "balanced", run_ahead=0, consolidate=consolidate, **options) as result:
            with transitive_closure(edges, here, "decomposed") as expected:
                assert result.count() == expected.count()
            events = [(event["event"], event["relation"]) for event in result.trace["events"] if "relation" in event]
            assert ("refine", "path") in events
            assert (("consolidate", "path") in events) == consolidate


def test_the_trace_adds_up(here, tmp_path):
    edges = graphs.gnp(150, 0.02, seed=4)
    options = {"run_ahead": 0, "rollover_threshold": 700, "partitions": 3, "buckets": 8}
    with transitive_closure(edges, here, "balanced", **options) as result:
        trace = result.trace
        assert trace["result"]["tuples"] == result.count() == sum(entry["born"] for entry in trace["iterations"])
        for before, entry in zip(trace["iterations"], trace["iterations"][1:], strict=False):
            assert entry["full"] == before["full"] + entry["born"] == sum(entry["loads"])
            assert sum(map(sum, entry["sizes"])) == entry["full"] and entry["delta"] == before["born"]
            joins = [phase for phase in entry["phases"] if phase["phase"] == "join"]
            inserts = [phase for phase in entry["phases"] if phase["phase"] == "insert"]
            assert [phase["inner"] for phase in joins] == list(range(len(joins)))
            assert sum(sum(phase["sent"]) for phase in joins) == sum(sum(phase["received"]) for phase in inserts)
            for phase in inserts:
                assert [a - b for a, b in zip(phase["received"], phase["duplicates"], strict=True)] == phase["sent"]
            assert sum(sum(phase["sent"]) for phase in inserts) == entry["born"]
        rolled = sum(event["event"] == "roll-over" for event in trace["events"])
        assert rolled == sum(len([p for p in e["phases"] if p["phase"] == "join"]) - 1 for e in trace["iterations"][1:]) > 0
        write_trace(trace, tmp_path / "run.json")
        assert read_trace(tmp_path / "run.json") == trace
        assert json.loads(json.dumps(trace)) == trace
    for text in ("", "[]", '{"iterations": []}', '{"iterations": [], "version": 99}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ValueError, match="is not a trace"):
            read_trace(tmp_path / "bad.json")


def test_running_ahead_counts_the_same_iterations(here):
    edges = graphs.grid(9)
    births = set()
    for options in ({"run_ahead": 0}, {}, {"run_ahead_budget": 300}):
        with transitive_closure(edges, here, "balanced", partitions=3, **options) as result:
            steps = tuple(born for entry in result.trace["iterations"] for born in entry["births"] if born)
            births.add((result.iterations, steps))
    with transitive_closure(edges, here, "decomposed") as result:
        births.add((result.iterations, tuple(result.trace["iterations"][0]["births"])))
    assert len(births) == 1, births


def test_the_inner_relation_is_split_only_where_one_tuple_of_the_delta_is_too_much():
    placement, sizes = BucketMap.deal(4, 4), np.array([900, 10, 10, 10])
    work = np.array([100_000.0, 10, 10, 10])
    one = spread_inner(placement, sizes, work, np.array([1, 5, 5, 5]), Config(), least=1)
    assert one.kinds == {"refine": [0]} and len(one.map.homes[0]) == 4
    assert spread_inner(placement, sizes, work, np.array([90, 5, 5, 5]), Config(), least=1) is None, "the delta can be split"
    assert spread_inner(placement, sizes, work, np.array([1, 5, 5, 5]), Config(), least=1, fixed={0}) is None


def test_the_inner_relation_is_split_for_messages_alone_if_it_saves_a_shuffle():
    """One tuple that reaches 300 partitions a time: in 16 parts each sends 19 messages, and the tuple takes 16."""
    placement, delta = BucketMap.deal(512, 512), np.ones(512)
    sizes, work = np.where(np.arange(512) == 7, 300, 1), np.where(np.arange(512) == 7, 900.0, 3.0)
    change = spread_inner(placement, sizes, work, delta, Config(), 1024)
    assert change.kinds == {"refine": [7]} and len(change.map.homes[7]) == 16
    assert spread_inner(placement, sizes // 6, work, delta, Config(), 1024) is None, "50 messages take less than a shuffle"
    several = np.where(np.arange(512) % 64 == 7, 300, 1)
    change = spread_inner(placement, several, work, delta, Config(), 1024)
    assert change.kinds == {"refine": list(range(7, 512, 64))}, "all, as the last one would keep the others waiting"


def test_the_remaining_iterations_are_those_of_the_trend():
    assert (
        remaining_iterations([7], 4) == 4 and remaining_iterations([7, 7], 4) == 4 and remaining_iterations([5, 7, 9], 4) == 4
    )
    tree = [2**15 - 2**k for k in range(15)]  # the births of a tree of height 14, pointing up
    for done in range(11, 15):
        rest = sum(tree[done - 1 :]) / tree[done - 1]
        assert remaining_iterations(tree[:done], 99) == pytest.approx(rest, rel=0.01)
    assert remaining_iterations([90, 60, 40], 99) == pytest.approx(3, rel=0.05), "geometric"
    assert remaining_iterations([60, 50, 40], 99) == pytest.approx(2.5), "linear"
    assert Outlook.of([{"iteration": 1, "births": [9], "phases": []}], 4.0) == (1, 0), "as many as there were"


@pytest.mark.parametrize(
    "edges, ranks",
    [
        (graphs.bowtie(300, 60), 512),
        (graphs.bowtie(300, 30), 256),
        (cliques(20, 20), 64),
        (cliques(75, 4), 16),
        (small_world(800, 4, 0.05), 256),
        (graphs.tree(14), 16),
    ],
    ids=["bow tie, string of 60", "bow tie, string of 30", "cliques", "small cliques", "small world", "tree"],
)
def test_our_policy_costs_at_most_a_tenth_more_than_none_and_the_papers(edges, ranks):
    row = case(Replayable.of(edges, Config()), ranks)
    assert slower(row) < 1.1 and row["seconds"]["work"] < 1.02 * row["seconds"]["paper"]
