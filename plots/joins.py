"""Draw the figures of multiway joins: the boxes of a boxed join in the plane of two variables, or the work of each partition
for a BiGJoin.

Several records are drawn one below the other.
"""

from typing import Any

import numpy as np

from semi_naive.balance.policy import imbalance_ratio
from semi_naive.host.numbers import quantity
from semi_naive.plots.panels.partitions import bars_of
from semi_naive.plots.style import (
    DARK,
    MAX_BARS,
    SAND,
    SMALL_FONT_POINTS,
    engineering,
    new_figure,
    note,
    number_ticks,
    same_limits,
    titled,
    wrapped,
)

WIDTH, HEIGHT = 11, 4.8  # inches of one record's figure
STEP_INCHES = 0.17  # inches of a step of BiGJoin
COPIED, SECONDS, COUNT = 4, 5, 6  # columns returned by `rectangles` after the first and last x and y
THIN_LINE_WIDTH = 0.15  # line width around very many boxes; three times as wide around few
FORMS = {"boxed": "boxed leapfrog", "shuffled": "BiGJoin", "skew": "BiGJoin-S"}


def join_figures(traces: list[dict], names: list[str], only=None) -> dict:
    """Return the figure of some records by its name, "boxes" or "work"; none if `only` has other names. Raises ValueError for
    an unknown name, and for records of both kinds."""
    kinds = {join_kind(trace) for trace in traces}
    if unknown := [name for name in only or () if name not in DRAWN]:
        raise ValueError(f"there is no figure {unknown[0]!r} of a multiway join: expected some of {', '.join(DRAWN)}")
    if len(kinds) > 1:
        raise ValueError("some of these joins were boxed and some were not: there is nothing to compare")
    kind = kinds.pop()
    return {kind: _figure(DRAWN[kind], traces, names)} if kind in (only or DRAWN) else {}


def join_kind(trace: dict) -> str:
    """Return the name of the figure of a multiway join's record."""
    return "boxes" if "boxes" in trace else "work"


def _figure(panels, traces: list[dict], names: list[str]):
    """Return a figure with two panels for each record. panels(axes of a row, record): draws them."""
    several = len(traces) > 1
    heights = [max(HEIGHT, 1.8 + STEP_INCHES * len(trace.get("steps", ()))) for trace in traces]
    figure = new_figure(WIDTH, sum(heights), "" if several else title(traces[0]))
    grid = figure.subplots(len(traces), 2, squeeze=False, height_ratios=heights)
    for row, trace, name in zip(grid, traces, names, strict=True):
        panels(row, trace)
        if several:
            label = wrapped(f"{name}: {title(trace, ', ')}", 62)
            titled(row[0], f"{label}\n{row[0].get_title(loc='left')}")
    if panels is _draw_work:
        same_limits(grid[:, 0])
    return figure


def title(trace: dict, between: str = "  ·  ") -> str:
    """Describe the run in one line: plan, order, memory or rounds, result and time."""
    facts = [f"{FORMS.get(trace['form'], trace['form'])}, order {', '.join(map(str, trace['order']))}"]
    if "boxes" in trace:
        share = trace["budget"] / max(trace["input_bytes"], 1)
        facts.append(f"{engineering(trace['budget'], 'B')} of memory ({share:.0%} of the input)")
        facts.append(quantity(len(trace["boxes"]), "box", "boxes"))
    else:
        facts.append(quantity(trace["rounds"], "round"))
        facts.append(f"{trace['peak']:,} in flight at most")
    return between.join([*facts, quantity(trace["result"]["tuples"], "tuple"), f"{trace['seconds']:,.2f}\N{NO-BREAK SPACE}s"])


def _draw_boxes(row, trace: dict) -> None:
    """Draw the boxes in the plane of the first two variables, shaded by bytes copied and by time."""
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import EngFormatter

    boxes = rectangles(trace)
    if not len(boxes) or not trace["order"]:
        for axes in row:
            note(axes, "no boxes: nothing can be an answer" if not len(boxes) else "no plane: there are no variables")
        return
    names = [*map(str, trace["order"]), ""][:2]
    time = boxes[:, SECONDS]
    for axes, shade, norm, heading, unit in (
        (row[0], boxes[:, COPIED], Normalize(0, max(boxes[:, COPIED].max(), 1)), "Bytes copied for boxes", "B"),
        # A logarithmic scale has no 0, and needs two different ends.
        (row[1], time, LogNorm(max(time.min(), 1e-9), max(time.max(), 1e-8)), "Time of boxes", "s"),
    ):
        shown = plane(axes, boxes, shade, norm, names)
        axes.get_figure().colorbar(shown, ax=axes, pad=0.02, format=EngFormatter(unit))
        titled(axes, f"{heading}, by {' and '.join(filter(None, names))}")


def _draw_work(row, trace: dict) -> None:
    """Draw the work of each partition, and of each step."""
    bars_of(row[0], "Work of each partition", "tuples received and produced", {"": trace["work"]}, "partition")
    steps = [(step["stage"], step["phase"], np.add(step["received"], step["sent"])) for step in trace["steps"]]
    steps = [(trace["order"][stage], phase, work) for stage, phase, work in steps if work.any()]
    if not steps:
        note(row[1], "no steps: some relation has no tuples")
        return
    _draw_steps(row[1], steps)


def _draw_steps(axes, steps: list[tuple]) -> None:
    """Draw a bar for each step: the mean work of the partitions, in front of the heaviest one, and their ratio. steps:
    (variable, phase, the work of each partition)."""
    rows = np.arange(len(steps))[::-1]
    means, most = [work.mean() for _, _, work in steps], [work.max() for _, _, work in steps]
    axes.barh(rows, most, 0.8, facecolor=SAND, edgecolor="black", linewidth=0.6, hatch="////", label="heaviest partition")
    axes.barh(rows, means, 0.8, facecolor=DARK, edgecolor="black", linewidth=0.6, label="mean")
    for row, (_, _, work), heaviest in zip(rows, steps, most, strict=True):
        axes.text(heaviest, row, f" {imbalance_ratio(work):.2f}", va="center", fontsize=7)
    axes.set_yticks(rows, [f"{variable}: {phase}" for variable, phase, _ in steps], fontsize=SMALL_FONT_POINTS)
    axes.set_xlim(0, max(most) * 1.12)
    axes.set_ylim(-0.6, len(steps) + 1.2)
    number_ticks(axes.xaxis)
    axes.set_xlabel("tuples received and produced; beside it heaviest ÷ mean")
    axes.legend(fontsize=SMALL_FONT_POINTS, frameon=False, loc="upper right", ncols=2)
    titled(axes, "Work of each step")


DRAWN = {"boxes": _draw_boxes, "work": _draw_work}


def rectangles(trace: dict) -> np.ndarray:
    """Return a row for each rectangle of the plane with boxes: first and last x, first and last y, and the bytes copied,
    seconds and answers of its boxes, which differ in the other variables. With one variable y is 0.

    >>> box = {"ranges": [[0, 4], [5, 9], [0, 2]], "copied": 80, "seconds": 0.5, "count": 3}
    >>> rectangles({"boxes": [box, box | {"ranges": [[0, 4], [5, 9], [3, 9]]}]}).tolist()
    [[0.0, 4.0, 5.0, 9.0, 160.0, 1.0, 6.0]]
    """
    sums: dict[tuple, np.ndarray] = {}
    for box in trace["boxes"]:
        x, y, *_ = box["ranges"] + [[0, 0], [0, 0]]  # 0 in place of missing variables
        sums[*x, *y] = sums.get((*x, *y), np.zeros(3)) + [box["copied"], box["seconds"], box["count"]]
    return np.array([[*place, *figures] for place, figures in sums.items()], np.float64).reshape(-1, 7)


def plane(axes, boxes: np.ndarray, shade: np.ndarray, norm, names=("x", "y"), last=None):
    """Draw rectangles shaded by value; areas without a box are hatched. Return the mappable of a colour bar.

    boxes: an array (n, 4 or more): (low x, high x, low y, high y, …). shade: the value of each; norm: its colour scale. last:
    the maximum x and y of the plane, if beyond the boxes.
    """
    from matplotlib.collections import PolyCollection

    x, y = boxes[:, [0, 1]] + [0, 1], boxes[:, [2, 3]] + [0, 1]  # a rectangle contains its last value, and ends at the next
    # matplotlib's type, a Sequence, lacks arrays
    corners: Any = np.stack([np.stack([x[:, i], y[:, j]], axis=1) for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))], axis=1)
    width = THIN_LINE_WIDTH if len(boxes) > 4 * MAX_BARS else 3 * THIN_LINE_WIDTH
    rectangles = PolyCollection(corners, array=shade, norm=norm, cmap="cividis", edgecolor="black", linewidth=width)
    shown = axes.add_collection(rectangles)
    right, top = (x.max(), y.max()) if last is None else (last[0] + 1, last[1] + 1)
    axes.set_xlim(x.min(), right)
    axes.set_ylim(y.min(), top)
    axes.axhspan(y.min(), top, facecolor="none", edgecolor=SAND, hatch="////", linewidth=0, zorder=0)
    axes.set_xlabel(f"{names[0]}  (hatched: no box)")
    axes.set_ylabel(names[1])
    for axis in (axes.xaxis, axes.yaxis):
        number_ticks(axis)
    return shown
