"""The course of a stratum in the driver: the same whoever evaluates, and never long."""

import numpy as np
import pytest

from semi_naive import Program
from semi_naive.balance.course import FIGURES, ROOM, Course
from semi_naive.balance.record import checked
from semi_naive.balance.trace import VERSION
from semi_naive.plots.pages.report import report
from semi_naive.plots.panels.course import StratumCourse as Drawn
from semi_naive.plots.panels.course import iteration_times
from semi_naive.plots.style import new_figure

STEPS = ".decl b(x: number)\n.output b\nb(0). b(x + 1) :- b(x), x < {}.\n"
GROWING = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
"""


def course(program: str, facts=None, **options) -> dict:
    with Program(program).run(facts, **options) as result:
        (found,) = [each["course"] for each in checked(result.trace, VERSION)["strata"] if each["recursive"]]
    return found


@pytest.mark.parametrize("iterations", [1, 5, ROOM, ROOM + 1, 3 * ROOM + 7, 50_000])
def test_entries_are_few_and_lose_nothing(iterations):
    kept = Course()
    for number in range(1, iterations + 1):
        kept.note(number, number % 7, 2 * number)
    found = kept.to_json()
    assert len(found["steps"]) <= ROOM and sum(found["steps"]) == iterations == found["iteration"][-1]
    assert sum(found["born"]) == sum(number % 7 for number in range(1, iterations + 1)) and found["full"][-1] == 2 * iterations
    assert np.array_equal(np.cumsum(found["steps"]), found["iteration"])
    assert [2 * number for number in found["iteration"]] == found["full"]
    most = max(found["steps"])
    assert most == min(found["steps"][:-1], default=most), "the resolution is the same from the first to the last"


def test_rounds_follow_each_other_and_an_iteration_counts_once():
    kept = Course()
    for _ in range(2):
        kept.begin(anew=True)
        for number in (1, 2, 2):
            kept.note(number, 1, 9)
    kept.begin(anew=False)
    kept.note(5, 4, 9)
    assert kept.to_json()["iteration"] == [1, 2, 3, 4, 7] and sum(kept.to_json()["steps"]) == 5


@pytest.mark.parametrize("program", [STEPS.format(300), STEPS.format(2 * ROOM + 5), GROWING])
def test_it_is_the_same_a_tuple_and_a_block_at_a_time(program, machine):
    facts = {"edge": [(x, x + 1) for x in range(90)]} if "edge" in program else None
    blocks, tuples = (course(program, facts, small_delta=small) for small in (0, 1000))
    assert set(blocks) == set(FIGURES) and sum(blocks["compiled"]) == 0
    assert [sum(found["born"]) for found in (blocks, tuples)] == [tuples["full"][-1]] * 2
    assert sum(blocks["steps"]) == sum(tuples["steps"])
    if max(blocks["steps"] + tuples["steps"]) == 1:
        assert all(blocks[name] == tuples[name] for name in ("iteration", "born", "full"))


def test_the_machine_keeps_few_entries_of_many_iterations(machine):
    found = course(STEPS.format(30_000))
    assert sum(found["compiled"]) > 20_000 and len(found["steps"]) <= ROOM
    assert sum(found["steps"]) == 30_002 and sum(found["born"]) == found["full"][-1] == 30_001
    assert np.array_equal(np.cumsum(found["steps"]), found["iteration"])


def test_a_sentence_says_what_it_made():
    one = {name: [1] for name in FIGURES} | {"compiled": [0], "seconds": [0.5]}
    assert Drawn(one).sentence() == "1 iteration in the driver in 500 ms; 1 tuple born, most in iteration 1: 1"
    one |= {name: [3000] for name in ("iteration", "steps", "born", "full")}
    assert Drawn(one).sentence().endswith("3,000 tuples born, most in iterations 1 to 3,000: 1 each")


def test_short_iterations_beside_a_long_one_can_be_seen():
    one = {name: [1] * 50 for name in FIGURES} | {"iteration": list(range(1, 51)), "compiled": [0] + [1] * 49}
    for first, scale in ((1e-4, "linear"), (1.0, "log")):
        axes = new_figure(5, 4).add_subplot()
        iteration_times(axes, Drawn(one | {"seconds": [first] + [2e-6] * 49}))
        assert axes.get_yscale() == scale and axes.get_ylim()[0] < 2e-6 and axes.get_ylim()[1] > first


def test_a_hundred_thousand_iterations_are_a_small_page():
    kept = Course()
    draw = np.random.default_rng(1)
    for number in range(1, 100_001):
        kept.note(number, int(draw.integers(1, 10**6)), number * 10**6)
    stratum = {"relations": ["b"], "plan": "local", "reason": "", "tuples": 5, "seconds": 1.0, "course": kept.to_json()}
    text = report({"version": VERSION, "program": "p.dl", "seconds": 1.0, "config": {}, "strata": [stratum]})
    assert len(text.encode()) < 200_000 and text.count("<svg") == 2 and "100,000 iterations in the driver" in text


@pytest.mark.parametrize("wrong", [{"steps": [1]}, {"steps": "x"}, {"born": [-1, 2]}])
def test_a_course_that_is_none(wrong):
    good = {name: [1, 2] for name in FIGURES}
    stratum = {"relations": ["b"], "plan": "local", "tuples": 5, "seconds": 1.0, "course": good | wrong}
    with pytest.raises(ValueError, match=r"strata\[0\].course"):
        checked({"version": VERSION, "strata": [stratum]}, VERSION)
