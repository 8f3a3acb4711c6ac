"""Stacked quantities of iterations: time, bytes, tuples made."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from semi_naive.plots.panels.partitions import bars_of
from semi_naive.plots.run import RecordedRun
from semi_naive.plots.style import (
    DARK,
    FURTHER_STYLES,
    MAX_MARKERS,
    PHASES,
    SAND,
    YELLOW,
    engineering,
    iteration_axis,
    legend,
    lengthen,
    note,
    number_ticks,
    titled,
    whole_ticks,
)

MAX_HATCHED_STEPS = 240  # hatches do not show on narrower steps
NEW, KNOWN, DROPPED_BY_JOIN = (DARK, ""), (SAND, "\\\\\\\\"), (YELLOW, "----")


def times(axes, run: RecordedRun, among: Sequence[RecordedRun] = ()) -> None:
    """Draw the time of each iteration by phase, stacked, with the slowest partition of each; the rest is planning, scheduling
    and Spark. A line shows the number of inner iterations if there were several (the paper's figure 11). For the decomposed
    plan, the time of each task."""
    if not len(run):
        note(axes, "no iterations")
        return
    if run.by_task:
        phases = [phase for entry in run.iterations for phase in entry["phases"] if phase["phase"] == "groups"]
        seconds = [duration for phase in phases for duration in phase["seconds"]]
        bars_of(axes, "Time of each task", "seconds", {"": seconds}, run.place)
        return
    layers = [(name, run.seconds(name)) for name in [*run.phases(tuple(PHASES)), "driver"]]
    several = any(entry["steps"] > 1 for entry in run.iterations)
    what = "time of an iteration" + " (or a run-ahead of several)" * several
    handles = _stacked(axes, run, [(f"{name}: {_seconds(s.sum())}", s, style) for (name, s), style in _styled(layers)], what)
    titled(axes, "Time, slowest of each phase")
    number_ticks(axes.yaxis, "s", whole=False)
    most = max(int(each.inner.max(initial=1)) for each in (run, *among))
    if most > 1:
        _inner(axes, run, most, handles)
    else:
        legend(axes, handles)


def shuffled_bytes(axes, run: RecordedRun, among: Sequence[RecordedRun] = ()) -> None:
    """Draw the bytes that each iteration shuffled, by phase."""
    if not len(run) or run.by_task:
        note(axes, "no bytes: this plan shuffles nothing" if run.by_task else "no iterations")
        return
    layers = [(name, run.shuffled(name)) for name in run.phases(tuple(PHASES))]
    labels = [(f"{name}: {engineering(b.sum(), 'B')}", b, style) for (name, b), style in _styled(layers)]
    handles = _stacked(axes, run, labels, "bytes of an iteration")
    titled(axes, "Bytes shuffled" if handles else "Bytes shuffled: none")
    number_ticks(axes.yaxis, "B")
    legend(axes, handles)


def duplicates(axes, run: RecordedRun, among: Sequence[RecordedRun] = ()) -> None:
    """Draw the tuples that each iteration made: new ones, and duplicates by the place where they were dropped."""
    if not len(run) or run.by_task:
        note(axes, "duplicates are not counted in this plan" if run.by_task else "no iterations")
        return
    born = np.array([entry["born"] for entry in run.iterations])
    layers = [
        ("new", born, NEW),
        ("dropped by the insert", run.known, KNOWN),
        ("dropped by the join", run.dropped_by_join, DROPPED_BY_JOIN),
    ]
    made = max(1, sum(int(values.sum()) for _, values, _ in layers))
    labels = [(f"{name}: {engineering(v.sum())} ({v.sum() / made:.0%})", v, style) for name, v, style in layers]
    handles = _stacked(axes, run, labels, "tuples of an iteration")
    titled(axes, "Tuples made, and duplicates")
    number_ticks(axes.yaxis)
    legend(axes, handles)


def _styled(layers: list[tuple]) -> list[tuple[tuple, tuple[str, str]]]:
    """Return (layer, (colour, hatch)) for each layer, a tuple that begins with the name of a phase."""
    others = iter(FURTHER_STYLES * len(layers))
    return [(layer, PHASES[layer[0]] if layer[0] in PHASES else next(others)) for layer in layers]


def _stacked(axes, run: RecordedRun, layers: list[tuple], what: str) -> list:
    """Draw stacked layers (label, value of each entry, (colour, hatch)) over the iterations, without empty ones. Return the
    legend's entries, top first. what: the label of the axis."""
    from matplotlib.patches import StepPatch

    starts = _starts(len(run))
    edges, base, handles = np.append(run.spans[starts], run.spans[-1]), np.zeros(len(starts)), []
    for label, values, (colour, hatch) in layers:
        if values.any():
            style: dict[str, Any] = {"facecolor": colour, "hatch": hatch, "edgecolor": "black" if hatch else colour}
            style["baseline"] = base  # matplotlib's type, a float, lacks arrays
            top = base + np.add.reduceat(values, starts) / np.diff([*starts, len(run)])  # the mean of a step's entries
            steps = StepPatch(top, edges, fill=True, linewidth=0, label=label, **style)
            handles.append(axes.add_artist(steps))  # add_patch would compute limits, which is slow
            base = top
    width = 0.6 if len(base) <= MAX_MARKERS else 0.2
    axes.add_artist(StepPatch(base, edges, fill=False, edgecolor="black", linewidth=width))
    axes.set_ylim(0, max(base.max() * 1.05, 1e-6))
    axes.set_ylabel(what + f" (means of {-(-len(run) // len(starts))})" * (len(starts) < len(run)))
    iteration_axis(axes, run.spans)
    return handles[::-1]


def _starts(iterations: int) -> np.ndarray:
    """Return the first entry of each drawn step: one entry, or a group that is wide enough to see."""
    together = -(-iterations // MAX_HATCHED_STEPS)
    return np.arange(0, iterations, together)


def _inner(axes, run: RecordedRun, most: int, handles: list) -> None:
    """Draw the number of inner iterations on a second axis."""
    twin, starts = axes.twinx(), _starts(len(run))
    marker = "o" if len(run) <= MAX_MARKERS else None
    style = {"color": "black", "marker": marker, "markerfacecolor": "none", "markersize": 5, "linewidth": 0.9, "linestyle": ":"}
    heaviest = np.maximum.reduceat(run.inner, starts)
    handles += twin.plot(run.numbers[starts], heaviest, label=f"inner iterations: {run.inner.sum():,}", **style)
    twin.set_ylim(0, most * 1.05)
    twin.set_ylabel("inner iterations")
    whole_ticks(twin.yaxis)
    lengthen(twin, legend(axes, handles, on=twin))


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 10 else f"{seconds:.2f} s" if seconds >= 0.1 else engineering(seconds, "s")
