"""The boxes of a boxed join, over the plane of its first two variables."""

import numpy as np

from semi_naive.plots.style import MAX_BARS, SAND, number_ticks

COPIED, SECONDS, COUNT = 4, 5, 6  # columns returned by `rectangles` after the first and last x and y
THIN_LINE_WIDTH = 0.15  # line width around very many boxes; three times as wide around few


def rectangles(trace: dict) -> np.ndarray:
    """A row for each rectangle of the plane with boxes: first and last x, first and last y, bytes copied, seconds and answers
    of its boxes, which differ in the other variables. With one variable y is 0.

    >>> box = {"ranges": [[0, 4], [5, 9], [0, 2]], "copied": 80, "seconds": 0.5, "count": 3}
    >>> rectangles({"boxes": [box, box | {"ranges": [[0, 4], [5, 9], [3, 9]]}]}).tolist()
    [[0.0, 4.0, 5.0, 9.0, 160.0, 1.0, 6.0]]
    """
    sums: dict[tuple, np.ndarray] = {}
    for box in trace["boxes"]:
        (x, y), figures = (box["ranges"] + [[0, 0], [0, 0]])[:2], [box["copied"], box["seconds"], box["count"]]
        sums[*x, *y] = sums.get((*x, *y), np.zeros(3)) + figures
    return np.array([[*place, *figures] for place, figures in sums.items()], np.float64).reshape(-1, 7)


def plane(axes, found: np.ndarray, shade: np.ndarray, norm, names=("x", "y"), last=None):
    """Draw rectangles shaded by value; areas without a box are hatched. `last`: the maximum x and y of the plane, if beyond the
    boxes. Returns the mappable of a colour bar."""
    from matplotlib.collections import PolyCollection

    x, y = found[:, [0, 1]] + [0, 1], found[:, [2, 3]] + [0, 1]
    corners = np.stack([np.stack([x[:, i], y[:, j]], axis=1) for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))], axis=1)
    lines = {"edgecolor": "black", "linewidth": THIN_LINE_WIDTH if len(found) > 4 * MAX_BARS else 3 * THIN_LINE_WIDTH}
    shown = axes.add_collection(PolyCollection(corners, array=shade, norm=norm, cmap="cividis", **lines))
    right, top = (x.max(), y.max()) if last is None else (last[0] + 1, last[1] + 1)
    axes.set_xlim(x.min(), right)
    axes.set_ylim(y.min(), top)
    axes.axhspan(y.min(), top, facecolor="none", edgecolor=SAND, hatch="////", linewidth=0, zorder=0)
    axes.set_xlabel(f"{names[0]}  (hatched: no box)")
    axes.set_ylabel(names[1])
    for axis in (axes.xaxis, axes.yaxis):
        number_ticks(axis)
    return shown
