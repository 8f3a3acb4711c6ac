"""Boxed leapfrog triejoin: any budget from the least up gives the same answer, and none is exceeded."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multiway_cases import arrays, rows_of, tuples_of
from test_multiway_leapfrog import CLIQUE, TRIANGLE, edges, oriented, uncompiled  # noqa: F401

from bench.fuzz.oracle import answer
from bench.fuzz.random_queries import random_query
from bench.fuzz.rounds import random_cases
from semi_naive.graphs import generators
from semi_naive.ra.multiway import boxing, leapfrog
from semi_naive.ra.multiway.query import Comparison, ConjunctiveQuery, Constant, QueryAtom
from semi_naive.ra.multiway.tries import boxes
from semi_naive.ra.multiway.tries.boxes import BudgetTooSmall
from semi_naive.ra.multiway.tries.paged import write_trie
from semi_naive.ra.multiway.tries.slices import bytes_of, copy_slice, least_bytes, siblings
from semi_naive.ra.multiway.tries.trie import Tries
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.ra.storage.runs import Store


def least(query) -> int:
    return sum(least_bytes(len(atom.terms)) for atom in query.atoms)


def within(boxed: boxing.Boxed, budget: int) -> bool:
    return all(box["bytes"] <= budget for box in boxed.trace["boxes"])


@random_cases(100, random_query)
def test_any_query_under_any_budget_equals_the_oracle(case, random, uncompiled):  # noqa: F811
    query, expected = case.query, sorted(answer(case.query, case.facts))
    tries, budget = Tries.of(arrays(case.facts)), least(query) + random.randint(0, 80)
    boxed = boxing.run_boxed(query, tries, budget, threads=1)
    assert rows_of(boxed.rows) == expected and boxed.count == len(expected)
    assert within(boxed, budget)
    assert boxing.run_boxed(query, tries, budget, count=True, threads=1).count == len(expected)
    assert rows_of(boxing.run_boxed(query, tries, 1 << 40, threads=1).rows) == expected  # in one box


def test_every_budget_counts_the_same_triangles(uncompiled):  # noqa: F811
    small = np.sort(generators.gnp(12, 0.4, seed=3), axis=1)
    expected, counts = leapfrog.leapfrog_join(TRIANGLE, {"e": small}, count=True), set()
    for budget in range(least(TRIANGLE), 700, 7):
        boxed = boxing.run_boxed(TRIANGLE, {"e": small}, budget, threads=1)
        counts.add(boxed.count)
        assert within(boxed, budget) and len(np.unique(boxed.rows, axis=0)) == boxed.count
    assert counts == {expected} and len(boxed.trace["boxes"]) == 1


@pytest.mark.parametrize("query", [TRIANGLE, CLIQUE], ids=["triangle", "4-clique"])
def test_less_memory_makes_more_boxes(oriented, query):  # noqa: F811
    tries = Tries.of({"e": oriented})
    expected, before = leapfrog.leapfrog_join(query, tries, count=True), 0
    whole = boxing.run_boxed(query, tries, 1 << 40, count=True)
    assert whole.count == expected and len(whole.trace["boxes"]) == 1
    for percent in (100, 30):
        budget = whole.trace["input_bytes"] * percent // 100
        boxed = boxing.run_boxed(query, tries, budget, count=True)
        assert boxed.count == expected and within(boxed, budget)
        assert len(boxed.trace["boxes"]) > before
        before = len(boxed.trace["boxes"])


def test_all_dimensions_but_the_last_have_the_same_share(tmp_path, monkeypatch):
    """Of a budget for three, 4 : 4 : 1, where no two of them have the same slice."""
    monkeypatch.setattr(boxes, "RATIOS", (4,))
    store, budget = Store.create(str(tmp_path)), 3_000
    shelf = boxing.Shelf.of(CLIQUE, {"e": np.sort(generators.gnp(150, 0.1, seed=1), axis=1)}, store)
    tries = shelf.open()
    slices = [set(box.slices) for box in shelf.boxes(budget) if len(set(box.slices)) == 3]
    sizes = [sorted(bytes_of(siblings(tries[s.trie], s.path), s.low, s.high) for s in own) for own in slices]
    last, *others = np.median(sizes, axis=0) / budget * 9
    assert len(sizes) > 100 and 0.8 < last < 1.3 and all(3.7 < share <= 4.2 for share in others)
    store.remove()


def test_what_the_trace_says_adds_up(oriented):  # noqa: F811
    boxed = boxing.run_boxed(TRIANGLE, {"e": oriented}, 6_000, count=True)
    trace, boxes = boxed.trace, boxed.trace["boxes"]
    assert sum(box["count"] for box in boxes) == trace["result"]["tuples"] == boxed.count
    assert boxes[0]["copied"] == boxes[0]["bytes"] and all(0 < box["copied"] <= box["bytes"] for box in boxes)
    assert any(box["copied"] < box["bytes"] for box in boxes)  # what the box before had stays
    assert trace["seconds"] > sum(box["seconds"] for box in boxes)
    assert json.loads(json.dumps(trace)) == trace


def test_the_list_of_a_value_that_is_too_long_spills(oriented):  # noqa: F811
    """Node 0 is in no more than a box's share with half of its neighbours: they are cut by the next variables."""
    hub = np.stack([np.zeros(500, np.int64), np.arange(1, 501)], axis=1)
    pairs = np.concatenate([hub, oriented])
    query = edges("xy", "yz", "xz", order=("x", "y", "z"))
    boxed = boxing.run_boxed(query, {"e": pairs}, 2_500, count=True)
    spilled = [box for box in boxed.trace["boxes"] if box["ranges"][0] == [0, 0]]
    assert len(spilled) > 1 and len({tuple(box["ranges"][2]) for box in spilled}) > 1
    assert boxed.count == leapfrog.leapfrog_join(query, {"e": pairs}, count=True) and within(boxed, 2_500)


def test_tries_that_are_damaged_on_disk_are_one_clear_error(monkeypatch):
    write = Tries.stored

    def damaged(tries, *place):
        stored = write(tries, *place)
        with open(stored.arrays.file.path, "r+b") as words:
            words.write(b"\1")
        return stored

    monkeypatch.setattr(Tries, "stored", damaged)
    with pytest.raises(RunsLost, match="a run is damaged or cut short: .*0.trie"):
        boxing.run_boxed(TRIANGLE, {"e": np.arange(20).reshape(2, 10).T}, 6_000, count=True)


def test_a_comparison_skips_boxes():
    both = generators.gnp(300, 0.05, seed=1)
    ordered = ConjunctiveQuery(TRIANGLE.atoms, (Comparison("<", "x", "y"), Comparison("<", "y", "z")), ("x", "y", "z"))
    plain = ConjunctiveQuery(TRIANGLE.atoms, (), ("x", "y", "z"))
    few, many = (boxing.run_boxed(query, {"e": both}, 6_000, count=True) for query in (ordered, plain))
    assert len(few.trace["boxes"]) < 0.7 * len(many.trace["boxes"])
    assert few.count == leapfrog.leapfrog_join(ordered, {"e": both}, count=True)


def test_a_budget_below_the_smallest_box_says_what_works():
    pairs = np.array([[1, 2], [2, 3], [1, 3]])
    with pytest.raises(BudgetTooSmall, match="a budget of 95 bytes .* the least that works is 96"):
        boxing.run_boxed(TRIANGLE, {"e": pairs}, 95)
    assert boxing.run_boxed(TRIANGLE, {"e": pairs}, 96).rows.tolist() == [[1, 2, 3]]


def test_boxes_are_tasks_of_spark(spark, oriented):  # noqa: F811
    query = ConjunctiveQuery(TRIANGLE.atoms, (Comparison("!=", "x", Constant(3)), Comparison("<", "x", "z")))
    boxed = boxing.run_boxed(query, {"e": oriented}, 9_000, sc=spark.sparkContext)
    assert rows_of(boxed.rows) == rows_of(leapfrog.leapfrog_join(query, {"e": oriented}))
    assert within(boxed, 9_000) and len(boxed.trace["boxes"]) > 10
    assert boxing.run_boxed(
        TRIANGLE, {"e": oriented}, 9_000, count=True, sc=spark.sparkContext
    ).count == leapfrog.leapfrog_join(TRIANGLE, {"e": oriented}, count=True)


ids = st.integers(0, 9)


@given(rows=st.sets(st.tuples(ids, ids, ids), min_size=1), path=st.lists(ids, max_size=2), low=ids, high=st.integers(0, 10))
@settings(deadline=None)
def test_a_slice_is_what_it_says_and_as_large_as_it_was_measured(tmp_path_factory, rows, path, low, high):
    store = Store.create(str(tmp_path_factory.mktemp("slice")))
    trie = write_trie([np.array(sorted(rows)).T], 3, 10, store, "0").open()
    high = max(low, high)
    of = siblings(trie, path)
    piece = copy_slice(of, low, high)
    assert piece.bytes == bytes_of(of, low, high)
    depth = len(path)
    if piece.values[depth].size:
        expected = sorted(row for row in rows if list(row[:depth]) == path and low <= row[depth] < high)
        assert tuples_of(piece) == expected


def test_a_budget_of_very_many_boxes_is_told(uncompiled, monkeypatch, caplog):  # noqa: F811
    monkeypatch.setattr(boxing, "MANY_BOXES", 3)
    edges = np.array([(x, y) for x in range(12) for y in range(12) if x < y])
    query = ConjunctiveQuery(tuple(QueryAtom("edge", pair) for pair in ("xy", "yz", "xz")))
    for budget, told in ((200, True), (1 << 20, False)):
        caplog.clear()
        assert boxing.run_boxed(query, {"edge": edges}, budget, count=True).count == 220
        assert (
            any(re.search(r"3 boxes of 200 bytes have covered [\d.]+ % of the values of", text) for text in caplog.messages)
            == told
        )
