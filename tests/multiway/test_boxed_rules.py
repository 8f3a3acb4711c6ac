"""Rules whose tries are in files, and joined box by box: the same answers, and no more slices in memory than allowed."""

import pytest
from test_multiway_datalog import GRAPH, NEAR, TRIANGLES, interpreted, letters  # noqa: F401

from bench.fuzz.checks import check
from bench.fuzz.random_programs import cyclic_case
from bench.fuzz.rounds import random_cases
from semi_naive import Config, Program
from semi_naive.ra.by_variable import multiway as step
from semi_naive.ra.by_variable.tries_in_files import TriesInFiles
from semi_naive.ra.multiway import boxing

BUDGET = 600  # bytes: the tries of random cases have some 200 to 2,000


@pytest.fixture
def boxes(interpreted, monkeypatch) -> list[int]:  # noqa: F811
    """Tries of all rules are in files; the list gets the bytes of the slices of each box."""
    loops, found = boxing.Shelf._loops_of, []

    def noted(*given):
        for run, own in loops(*given):
            found.append(run.bytes)
            yield run, own
            del own

    monkeypatch.setattr(step.Multiway, "_in_files", lambda *_: TriesInFiles(BUDGET, False, None))
    monkeypatch.setattr(boxing.Shelf, "_loops_of", noted)
    return found


@random_cases(60, cyclic_case)
def test_cyclic_bodies_in_boxes_agree_with_the_oracle(case, random, boxes):
    boxes.clear()
    check(case, Config(multiway="always"))
    assert max(boxes, default=0) <= BUDGET


@random_cases(10, cyclic_case)
def test_boxes_are_dealt_to_partitions_and_resumed_after_a_roll_over(case, random, boxes, here):
    check(case, Config(local_tuples=0, partitions=3, buckets=4, rollover_threshold=5, multiway="always"), spark=here)


def test_deltas_start_from_boxes_in_the_driver_and_on_partitions(boxes, here):
    with Program(NEAR).run(letters(), multiway="never") as expected:
        for spark, options in ((None, {}), (here, {"local_tuples": 0, "partitions": 3})):
            boxes.clear()
            with Program(NEAR).run(letters(), spark, multiway="always", **options) as result:
                assert all(result[name].to_set() == expected[name].to_set() for name in expected)
            assert len(boxes) > 10 and max(boxes) <= BUDGET


RULE = "corner(x, x) :- edge(x, y), edge(y, z), edge(x, z), !edge(z, y), x != 3."


def test_a_rule_may_be_boxed_and_tries_beyond_the_memory_are(monkeypatch, tmp_path):
    """64 kB hold the table of a corner of each triangle, but not three tries of 5,700 edges."""
    budgets, pieces = [], boxing.Shelf.pieces

    def noted(shelf, budget, *given):
        budgets.append(budget)
        assert any(tmp_path.iterdir())
        return pieces(shelf, budget, *given)

    monkeypatch.setattr(boxing.Shelf, "pieces", noted)
    options = {"local_dir": str(tmp_path), "multiway": "always"}
    with Program(TRIANGLES + RULE).run({"edge": GRAPH}, **options) as result:
        expected = result["corner"].to_set()
    assert not budgets and len(expected) > 300
    monkeypatch.setattr(step, "MIN_BOXED_BYTES", 1000)
    for hint, memory, boxed in (
        (".join boxed", 1 << 30, True),
        (".join boxed", None, True),
        ("", 1 << 16, True),
        ("", 1 << 30, False),
    ):
        budgets.clear()
        with Program(TRIANGLES + RULE + hint).run({"edge": GRAPH}, memory=memory, **options) as result:
            assert result["corner"].to_set() == expected
            assert bool(budgets) == boxed and (memory is None or set(budgets) <= {memory})
            assert ("box by box, with the tries in files" in result.explain()) == (hint == ".join boxed")
        assert not any(tmp_path.iterdir())


def test_the_tries_of_a_rule_are_removed_with_it_and_written_once_for_all_deltas(boxes, monkeypatch, tmp_path):
    monkeypatch.setattr(step.Multiway, "_in_files", lambda *_: TriesInFiles(BUDGET, True, str(tmp_path)))
    written, stored = [], step.Tries.stored
    monkeypatch.setattr(step.Tries, "stored", lambda tries, key, *place: written.append(key) or stored(tries, key, *place))
    with Program(NEAR.split(".decl corner")[0]).run(letters(), multiway="always") as result:
        assert result["near"].count() > 3
    of_edges = [key for key in written if not key.relation.startswith("@")]
    assert len(of_edges) == len(set(of_edges)) < len(written)
    del result
    assert not any(tmp_path.iterdir())
