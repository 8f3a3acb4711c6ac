"""A heat map of tuples: a row for each subbucket or partition, a column for each iteration."""

from collections.abc import Sequence

import numpy as np

from semi_naive.plots.run import RecordedRun
from semi_naive.plots.style import iteration_axis, note, titled, whole_ticks

MAX_MARKED_REFINEMENTS = 200  # refinements marked one by one
LOGARITHMIC_RATIO = 20  # ratio above which the scale is logarithmic
BELOW_SCALE_FRACTION = 0.02  # fraction of the numbers that may be below the scale
MOST_ROWS, MOST_COLUMNS = 512, 1000  # resolution of a screen; rows beyond it are merged by their maxima


def heat_map(axes, run: RecordedRun, among: Sequence[RecordedRun] = ()) -> None:
    """Draw the tuples in each subbucket over the iterations: one band for each bucket, divided into its subbuckets. If the
    trace has no sizes of subbuckets, draw the loads of the partitions.

    among: the runs drawn side by side, which have a common colour scale; the last one shows it.

    Takes time in proportion to the sizes in the trace.
    """
    if not len(run) or run.by_task:
        note(axes, "no map: this plan moves nothing" if run.by_task else "no map: no partitions were recorded")
        return
    columns = [_maxima(column, MOST_ROWS) for column in _columns(run, run.has_sizes)]
    rows = len(run.iterations[-1]["sizes"]) if run.has_sizes else max(len(entry["loads"]) for entry in run.iterations)
    what = "in a subbucket" if run.has_sizes else f"on a {run.place}"
    compared = [each for each in among or [run] if len(each) and not each.by_task]
    norm = _norm(compared, run.has_sizes)
    _draw(axes, run, columns, rows, what, norm, bar=run is compared[-1] or run not in among)  # not in `among`: drawn alone
    axes.set_ylabel("bucket" if run.has_sizes else run.place)
    titled(axes, "Tuples in each subbucket" if run.has_sizes else f"Tuples on each {run.place}")
    if run.has_sizes and run.refined:
        _mark_refinements(axes, run.refined)


def _mark_refinements(axes, refined: list[tuple[float, int]]) -> None:
    """Mark each refinement; if there are many, mark the iterations with a line."""
    if len(refined) <= MAX_MARKED_REFINEMENTS:
        style = {"marker": ">", "s": 34, "color": "none", "edgecolors": "black", "linewidths": 0.9, "clip_on": False}
        axes.scatter(*zip(*refined, strict=True), zorder=3, **style)
        axes.set_xlabel("iteration  (▷: a bucket was refined)")
        return
    for when in sorted({when for when, _ in refined}):
        axes.axvline(when, color="black", linestyle=":", linewidth=1)
    axes.set_xlabel("iteration  (dotted: buckets were refined)")


def _draw(axes, run: RecordedRun, columns: list[np.ndarray], rows: int, what: str, norm, bar: bool) -> None:
    """Draw a matrix of numbers as colours, over `rows` buckets or partitions. columns: the numbers of each iteration; what: the
    place of the tuples, for the label; norm: the colour scale; bar: also draw it."""
    from matplotlib import colormaps

    spans, columns = _shrunk(run.spans, np.ma.masked_equal(np.stack(columns, axis=1), 0))
    colours = colormaps["cividis"].with_extremes(bad=(0, 0, 0, 0))
    edges = np.linspace(-0.5, rows - 0.5, len(columns) + 1)
    image = axes.pcolorfast(spans, edges, columns, cmap=colours, norm=norm)
    if bar:
        axes.get_figure().colorbar(image, ax=axes, pad=0.02, label=f"tuples {what} (blank: none)")
    iteration_axis(axes, run.spans)
    whole_ticks(axes.yaxis)


def _norm(runs: list[RecordedRun], subbuckets: bool):
    """Return the common colour scale of all runs. It is logarithmic if the numbers differ by orders of magnitude, and leaves
    out the smallest, so that most of the map uses most of the colours."""
    from matplotlib.colors import LogNorm, Normalize

    values = np.concatenate([np.ones(0), *(column[column > 0] for run in runs for column in _columns(run, subbuckets))])
    if not values.size:
        return Normalize(0, 1)
    least, most = np.quantile(values, BELOW_SCALE_FRACTION), values.max()
    if most >= LOGARITHMIC_RATIO * least:
        return LogNorm(least, most)
    return Normalize(min(least, most - 1), most)  # the ends must differ, even if all numbers are equal


def _columns(run: RecordedRun, subbuckets: bool) -> list[np.ndarray]:
    """Return a column of numbers for each iteration: of the subbuckets, if they were recorded, or of the partitions."""
    return _subbuckets(run) if subbuckets and run.has_sizes else [np.asarray(e["loads"]) for e in run.iterations]


def _subbuckets(run: RecordedRun) -> list[np.ndarray]:
    """Return a column for each iteration, in which a bucket has the same number of rows in all."""
    buckets = max(len(entry["sizes"]) for entry in run.iterations)
    finest = max(len(subs) for entry in run.iterations for subs in entry["sizes"])
    rows = min(finest, max(1, MOST_ROWS // buckets))
    columns = [np.concatenate([_resized(subs, rows) for subs in entry["sizes"]]) for entry in run.iterations]
    return [_maxima(column, MOST_ROWS) for column in columns]


def _resized(values, rows: int) -> np.ndarray:
    """Return values as a number of rows: each value repeated, or the maximum of each group.

    >>> _resized([5, 7], 4).tolist(), _resized([5, 7, 1, 2], 2).tolist()
    ([5, 5, 7, 7], [7, 2])
    """
    values = np.asarray(values)
    if values.size <= rows:
        return values[np.arange(rows) * values.size // rows]
    return np.maximum.reduceat(values, np.arange(rows) * values.size // rows)


def _maxima(values, most: int) -> np.ndarray:
    """Return up to `most` values: unchanged, or the maxima of groups."""
    return _resized(values, min(len(values), most))


def _shrunk(spans, columns):
    """Return (spans, columns) reduced to the resolution of a screen, by the maxima of columns side by side."""
    if columns.shape[1] <= MOST_COLUMNS:
        return spans, columns
    starts = np.arange(MOST_COLUMNS) * columns.shape[1] // MOST_COLUMNS
    heaviest = np.maximum.reduceat(columns.filled(0), starts, axis=1)
    return np.append(spans[starts], spans[-1]), np.ma.masked_equal(heaviest, 0)
