"""The numbers of tuples in `new`, `delta` and `full` over the iterations."""

from collections.abc import Sequence

from semi_naive.plots.run import RecordedRun
from semi_naive.plots.style import DARK, GREY, MAX_MARKERS, SAND, iteration_axis, legend, log_ticks, note, number_ticks, titled

LINES = {
    "full": {"color": SAND, "marker": "s", "linewidth": 3.5, "markersize": 7},
    "delta": {"color": GREY, "marker": "^", "linestyle": "--", "markersize": 5},
    "new": {"color": DARK, "marker": "o", "markersize": 4},
}


def tuples(axes, run: RecordedRun, among: Sequence[RecordedRun] = ()) -> None:
    """Draw the tuples in `delta` at the start of each iteration, in `new` and in `full` at its end; logarithmic if they are far
    apart. Zero values are not drawn."""
    if not len(run):
        note(axes, "no iterations")
        return
    steps, log = run.steps, any(_far_apart(each) for each in (run, *among) if len(each))
    for name, style in LINES.items():
        style = style if len(steps["iteration"]) <= MAX_MARKERS else {**style, "marker": None}
        values = steps[name].astype(float)
        values[values == 0] = float("nan") if log else 0
        axes.plot(steps["iteration"], values, label=f"{name}: {_legend_number(name, steps[name])}", **style)
    if log:
        axes.set_yscale("log")
    axes.set_ylim(_least(steps) if log else 0, max(1, steps["full"].max()) * (1.5 if log else 1.05))
    (log_ticks if log else number_ticks)(axes.yaxis)
    titled(axes, "Tuples in new, delta and full")
    axes.set_ylabel("tuples")
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    iteration_axis(axes, run.spans, "step" if run.by_task else "iteration")
    legend(axes)


def _least(steps: dict) -> float:
    """Return a limit below the smallest value drawn."""
    return 0.7 * min((values[values > 0].min() for values in steps.values() if (values > 0).any()), default=1)


def _legend_number(name: str, values) -> str:
    """Return the text after a line's name. values: its number of tuples in each iteration."""
    return f"{values[-1]:,} at the end" if name == "full" else f"{values.max():,} at most"


def _far_apart(run: RecordedRun) -> bool:
    """True if `full` grows to more than 100 times the fewest births, so that the axis is logarithmic."""
    seen = run.steps["new"][run.steps["new"] > 0]
    return seen.size > 1 and run.steps["full"].max() > 100 * seen.min()
