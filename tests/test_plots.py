"""The picture of the balance: of every kind of trace, of odd ones, and of what is no trace."""

import copy
import subprocess
import sys

import numpy as np
import pytest

import graphs
from balance.trace import VERSION
from plots.balance import balance_figure, lasting, save
from semi_naive import transitive_closure


def entry(number: int, sizes, steps: int = 1, **facts) -> dict:
    """One iteration of the balanced plan."""
    loads = [sum(map(sum, sizes[p::2])) for p in range(2)]
    phases = [
        {"inner": 0, "phase": name, "received": [1, 1], "sent": [1, 1], "bytes": [8, 8], "seconds": [0.01, 0.02]}
        for name in ("join", "insert")
    ]
    ratios = {"partitions": 1.2, "buckets": 2.0, "subbuckets": 1.5}
    return {
        "iteration": number, "steps": steps, "births": [5] * steps, "born": 5 * steps, "delta": 5, "full": sum(loads),
        "phases": phases, "driver": 0.03, "seconds": 0.07, "sizes": sizes, "loads": loads, "imbalance": ratios, **facts,
    }  # fmt: skip


def trace(iterations: list[dict], events=(), **facts) -> dict:
    return {
        "version": VERSION, "plan": "balanced", "rule": "path-edge", "seconds": 1.5,
        "config": {"refine": True, "refinement_ratio": 3.0}, "iterations": iterations, "events": list(events),
        "result": {"tuples": 10, "iterations": len(iterations), "disk_bytes": 80}, **facts,
    }  # fmt: skip


REFINED = trace(
    [entry(1, [[9], [1], [0]]), entry(2, [[30], [2], [0]]), entry(3, [[9, 9, 9, 9], [2], [1]])],
    [
        {"event": "refine", "iteration": 2, "relation": "path", "moved": 27, "loads_before": [30, 2],
         "loads_after": [18, 14], "buckets": [{"bucket": 0, "before": [30], "after": [8, 8, 7, 7]}], "seconds": 0.1},
        {"event": "roll-over", "iteration": 3, "inner": 0},
    ],
)  # fmt: skip
GROUPS = {
    "iteration": 3, "steps": 3, "births": [9, 5, 1], "born": 15, "full": 15, "delta": 9, "loads": [8, 7],
    "imbalance": {"partitions": 1.07},
    "phases": [
        {"inner": 0, "phase": "groups", "received": [4, 5], "sent": [8, 7], "bytes": [0, 0], "seconds": [0.1, 0.2]},
    ],
}  # fmt: skip


def texts(figure) -> str:
    """All that can be read on a figure, once it is drawn."""
    figure.draw_without_rendering()
    parts = [*figure.texts, figure._suptitle]
    for axes in figure.axes:
        legend = axes.get_legend()
        parts += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label, *(legend.texts if legend else [])]
        parts += axes.get_xticklabels() + axes.get_yticklabels()
    return "\n".join(part.get_text() for part in parts)


def test_a_refined_run_shows_what_was_done_and_what_it_changed():
    figure = balance_figure(copy.deepcopy(REFINED))
    seen = texts(figure)
    for expected in ("Tuples in each subbucket", "heaviest ÷ average", "refine", "roll-over", "driver: 0.09 s",
                     "before refine after iteration 2: imbalance 1.88", "partitions: 1.20 at the end"):  # fmt: skip
        assert expected in seen
    heat = figure.axes[0].images[0].get_array()
    assert heat.shape == (12, 3)  # three buckets, the finest in four
    assert heat[:, 2].tolist() == [9, 9, 9, 9, 2, 2, 2, 2, 1, 1, 1, 1]


def test_a_decomposed_run_shows_its_tasks_and_its_steps():
    seen = texts(balance_figure(trace([GROUPS], plan="decomposed")))
    assert "Tuples of each task" in seen and "2 tasks: imbalance 1.07" in seen and "Tuples born in each step" in seen


@pytest.mark.parametrize(
    "iterations",
    [
        [entry(1, [[3]])],
        [entry(1, [[0], [0]])],
        [entry(k + 1, [[k + 1], [2 * k]]) for k in range(2000)],
        [entry(1, [[3], [1]]), entry(400, [[9], [9]], steps=399)],
        [entry(1, [[1], [2]], loads=list(range(200)))],
    ],
    ids=["one iteration", "no tuples", "2000 iterations", "run ahead", "200 partitions"],
)
def test_odd_runs_are_drawn_with_few_ticks(iterations):
    figure = balance_figure(trace(iterations))
    figure.draw_without_rendering()
    assert all(len(axes.get_xticks()) <= 15 and len(axes.get_yticks()) <= 20 for axes in figure.axes)


def test_a_run_without_iterations_says_so():
    assert "No iterations" in texts(balance_figure(trace([])))


def test_iterations_made_again_after_a_restart_count_once():
    entries = [entry(1, [[1]]), entry(2, [[2]]), entry(3, [[3]]), entry(2, [[20]]), entry(3, [[30]])]
    assert [e["sizes"] for e in lasting(entries)] == [[[1]], [[20]], [[30]]]
    balance_figure(trace(entries)).draw_without_rendering()


@pytest.mark.parametrize("thing", [None, [], {}, {"version": VERSION}, {"version": 99, "iterations": []}])
def test_what_is_no_trace_is_refused(thing):
    with pytest.raises(ValueError, match="expected a trace"):
        balance_figure(thing)


def test_saving_goes_by_the_name_and_leaves_no_parts(tmp_path):
    save(REFINED, tmp_path / "a.png")
    save(REFINED, tmp_path / "a.svg")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG") and "<svg" in (tmp_path / "a.svg").read_text()
    with pytest.raises(ValueError, match="expected a name ending in .png"):
        save(REFINED, tmp_path / "a.gif")
    assert len(list(tmp_path.iterdir())) == 2


def test_importing_is_cheap_and_drawing_leaves_pyplot_alone():
    code = (
        "import sys, plots.balance as b; assert not {'matplotlib', 'pyspark'} & set(sys.modules); "
        f"b.balance_figure({trace([])!r}); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("plan", ["balanced", "decomposed"])
def test_real_traces_are_drawn(spark, plan, tmp_path):
    options = {"run_ahead": 0, "partitions": 4, "refinement_minimum": 64} if plan == "balanced" else {}
    with transitive_closure(graphs.tree(8), spark, plan, **options) as closure:
        loads = np.array(closure.trace["iterations"][-1]["loads"])
        assert loads.sum() == closure.count() == 3586
        save(closure.trace, tmp_path / "run.png")
        assert (tmp_path / "run.png").stat().st_size > 10_000
