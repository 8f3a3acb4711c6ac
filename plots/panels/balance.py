"""The evenness of the tuples over time, and the balancing events."""

from collections.abc import Sequence

import numpy as np

from semi_naive.plots.run import RecordedRun
from semi_naive.plots.style import (
    DARK,
    EVENTS,
    GREY,
    LEGEND_ROW_INCHES,
    MAX_MARKERS,
    YELLOW,
    inches,
    iteration_axis,
    legend,
    note,
    number_ticks,
    titled,
)

MAX_MARKERS_IN_A_ROW = 500  # markers next to each other
RATIOS = {  # the line of the buckets is wide and light: that of the subbuckets often lies on it
    "buckets": {"marker": "s", "linewidth": 5, "color": YELLOW, "markersize": 8},
    "subbuckets": {"marker": "^", "linestyle": "--", "color": GREY, "markersize": 5},
    "partitions": {"marker": "o", "color": DARK, "markersize": 5},
}


def imbalance(axes, run: RecordedRun, among: Sequence[RecordedRun] = ()) -> None:
    """Draw heaviest ÷ average of partitions, buckets and subbuckets, with balancing events above."""
    if not len(run) or run.by_task:
        note(axes, "no imbalance over time: this plan moves nothing" if run.by_task else "no iterations")
        return
    lines = [line for name in RATIOS for line in _ratio(axes, run, name)]
    if run.limit:
        style = {"color": "black", "linewidth": 0.8, "linestyle": (0, (1, 3))}
        lines.append(axes.axhline(run.limit, label=f"limit of a subbucket: {run.limit:g}", **style))
    _ratio_axis(axes, max(_highest(each) for each in (run, *among)))
    kinds = _event_kinds(run)
    beneath = LEGEND_ROW_INCHES * len(kinds) + 0.08 * bool(kinds)
    legend(axes, lines + _event_rows(axes, run, kinds), beneath)
    iteration_axis(axes, run.spans)
    titled(axes, "Imbalance" if kinds else "Imbalance, nothing to be done")


def _ratio(axes, run: RecordedRun, name: str) -> list:
    """Draw one ratio over the iterations; return its lines, none if the record has no such ratio."""
    ratios = run.ratios(name)
    if np.isnan(ratios).all():
        return []
    style = RATIOS[name] if len(run) <= MAX_MARKERS else {**RATIOS[name], "marker": None}
    label = run.place + "s" if name == "partitions" else name
    return axes.plot(run.numbers, ratios, label=f"{label}: {ratios[-1]:.2f} at the end", **style)


def _highest(run: RecordedRun) -> float:
    """Return the greatest ratio that is drawn of a run, its limit included; at least 1."""
    ratios = [run.ratios(name) for name in RATIOS] if len(run) and not run.by_task else []
    return float(np.nanmax([run.limit or 1, 1, *np.concatenate([[1.0], *ratios])]))


def _ratio_axis(axes, highest: float) -> None:
    """Scale the axis from 1, perfect balance; logarithmically if the maximum is large."""
    if highest > 10:
        from semi_naive.plots.style import log_ticks

        axes.set_yscale("log")
        log_ticks(axes.yaxis)
    else:
        number_ticks(axes.yaxis, whole=False)
    axes.set_ylim(0.97 if highest <= 10 else 0.9, max(highest, 1.02) * 1.05)
    axes.set_ylabel("heaviest ÷ average")
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)


def _event_kinds(run: RecordedRun) -> list[str]:
    """Return the kinds of a run's events, in the order of `EVENTS`, without the initial placement of facts."""
    found = {event["event"] for event in run.events} - {"placed"}
    return [kind for kind in EVENTS if kind in found] + sorted(found - EVENTS.keys())


def _event_rows(axes, run: RecordedRun, kinds: list[str]) -> list:
    """Draw one row of markers for each kind of event along the upper edge, and a marker for each in the legend."""
    from matplotlib.lines import Line2D

    (_, height), handles = inches(axes), []
    for row, kind in enumerate(kinds):
        # Roll-overs are in an iteration, all other events between two.
        every = [event["iteration"] + 0.5 * (kind != "roll-over") for event in run.events if event["event"] == kind]
        positions = _distinguishable(every, run.spans)
        marker = EVENTS.get(kind, "$?$") if len(positions) <= MAX_MARKERS else "|"
        y = 1 - LEGEND_ROW_INCHES * (row + 0.6) / height
        above, ys = axes.get_xaxis_transform(), [y] * len(positions)
        axes.scatter(positions, ys, s=22, marker=marker, transform=above, color=GREY, clip_on=False, zorder=3)
        label = f"{kind}: {len(every):,}×"
        handles.append(Line2D([], [], label=label, marker=marker, color=GREY, linestyle="none", markersize=5))
    return handles


def _distinguishable(positions: list[float], spans) -> list[float]:
    """Return the positions that a reader of the plot can tell apart: the first of those that would share one marker, ascending.
    spans: the bounds of the axis.

    >>> _distinguishable([2.5, 2.5, 1000, 1000.5], [0.5, 100_000.5])
    [2.5, 1000]
    """
    step = max(1e-9, (spans[-1] - spans[0]) / MAX_MARKERS_IN_A_ROW)
    return list({round(place / step): place for place in sorted(set(positions), reverse=True)}.values())[::-1]
