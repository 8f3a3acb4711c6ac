"""A picture of the balance: where the tuples were, how evenly, and where the time went.

    save(closure.trace, "balance.png")

Of the balanced plan four panels: tuples in each subbucket, imbalance ratio, time by phase, tuples on each partition.
Of the decomposed plan three: tuples and seconds of each task, births by step. Reads nothing but the trace
(`balance.trace`), draws on a figure of its own and leaves pyplot alone.
"""

from pathlib import Path

import numpy as np

from balance.policy import imbalance_ratio
from balance.trace import VERSION

FORMATS = (".png", ".svg", ".pdf")
# All colours are from the cividis map: they differ in grey, and for every eye.
DARK, GREY, SAND, YELLOW, PALE = "#00204d", "#575d6d", "#a69d75", "#dccb6a", "#dedbd0"
EVENTS = {"refine": "^", "consolidate": "v", "copy": "s", "roll-over": "D", "checkpoint": "P", "restore": "X"}
PHASES = {  # colour and hatch
    "intra-bucket": (DARK, ""),
    "join": (GREY, "...."),
    "run-ahead": ("#8a8779", "xxxx"),
    "all-to-all": ("#b5ab8a", "\\\\\\\\"),
    "insert": ("#c7b76b", "////"),
    "driver": (PALE, ""),
}
RATIOS = {  # the line of the buckets is wide and light: that of the subbuckets often lies on it
    "buckets": {"marker": "s", "linewidth": 5, "color": YELLOW, "markersize": 8},
    "subbuckets": {"marker": "^", "linestyle": "--", "color": GREY, "markersize": 5},
    "partitions": {"marker": "o", "color": DARK, "markersize": 5},
}
MOST_BARS = 64  # more partitions than this are drawn as an outline
MOST_MARKERS = 60  # more iterations than this are drawn as lines without markers


def save(trace: dict, path) -> None:
    """Draw a trace into a file, .png, .svg or .pdf: whole or not at all."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"{path}: cannot tell the format: expected a name ending in {', '.join(FORMATS)}")
    figure = balance_figure(trace)
    partial = path.with_name(f".{path.name}.partial")
    try:
        figure.savefig(partial, format=suffix[1:])
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def balance_figure(trace: dict):
    """The matplotlib Figure of a trace. ValueError when it is not one, or of another version."""
    iterations = lasting(_checked(trace))
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 9), dpi=110, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.1, wspace=0.03, hspace=0.03)
    figure.suptitle(_title(trace), fontsize=13)
    if not iterations:
        figure.text(0.5, 0.5, "No iterations: there was nothing to evaluate.", ha="center", va="center", fontsize=13)
    elif "sizes" in iterations[-1]:
        _draw_balanced(figure, trace, iterations)
    else:
        _draw_decomposed(figure, iterations[-1])
    return figure


def _checked(trace) -> list[dict]:
    if not isinstance(trace, dict) or not isinstance(trace.get("iterations"), list):
        raise ValueError("expected a trace: a dictionary with a list of 'iterations', as `balance.trace` describes")
    if trace.get("version") != VERSION:
        found = trace.get("version")
        raise ValueError(f"expected a trace of version {VERSION}, got version {found!r}: record the run again")
    return trace["iterations"]


def lasting(iterations: list[dict]) -> list[dict]:
    """The iterations that led to the result: those made again after a restart count once.

    >>> [e["n"] for e in lasting([{"iteration": 1, "n": 0}, {"iteration": 2, "n": 1}, {"iteration": 2, "n": 2}])]
    [0, 2]
    """
    kept: list[dict] = []
    for entry in iterations:
        while kept and kept[-1]["iteration"] >= entry["iteration"]:
            kept.pop()
        kept.append(entry)
    return kept


def _title(trace: dict) -> str:
    """What ran, in one line."""
    result = trace.get("result", {})
    facts = [f"{trace[key]} {word}" for key, word in (("plan", "plan"), ("rule", "rule")) if key in trace]
    if "tuples" in result:
        facts.append(f"{_count(result['tuples'], 'tuple')} in {_count(result['iterations'], 'iteration')}")
    if "seconds" in trace:
        facts.append(f"{trace['seconds']:,.2f} s")
    return "  ·  ".join(facts)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _draw_balanced(figure, trace: dict, iterations: list[dict]) -> None:
    edges, grid = spans(iterations), figure.add_gridspec(2, 2)
    events, config = trace.get("events", []), trace.get("config", {})
    _heat_map(figure, figure.add_subplot(grid[0, 0]), iterations, edges, events)
    limit = config.get("refinement_ratio") if config.get("refine") else None
    _imbalance(figure, grid[0, 1], iterations, edges, events, limit)
    _times(figure.add_subplot(grid[1, 0]), iterations, edges)
    _partitions(figure.add_subplot(grid[1, 1]), iterations[-1], events)


def spans(iterations: list[dict]) -> np.ndarray:
    """Where each entry begins and ends on the axis of iterations; one that ran ahead is as wide as its steps.

    >>> spans([{"iteration": 1, "steps": 1}, {"iteration": 5, "steps": 4}]).tolist()
    [0.5, 1.5, 5.5]
    """
    first = iterations[0]
    return np.array([first["iteration"] - first.get("steps", 1), *(entry["iteration"] for entry in iterations)]) + 0.5


def _of(entry: dict, events: list[dict]) -> list[dict]:
    """The events of the relation whose sizes the iterations show, in its home index."""
    return [e for e in events if e.get("relation") == entry.get("relation", "path") and not e.get("index")]


def _heat_map(figure, axes, iterations, edges, events) -> None:
    """One band a bucket, split as the bucket is into subbuckets."""
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    finest = max(len(subs) for entry in iterations for subs in entry["sizes"])
    columns = [np.concatenate([_stretch(subs, finest) for subs in entry["sizes"]]) for entry in iterations]
    loads = np.ma.masked_equal(np.stack(columns, axis=1), 0)
    rows = np.arange(len(columns[0]) + 1) / finest - 0.5
    norm = LogNorm(loads.min() or 1, max(10, loads.max() or 1))  # of nothing at all, min and max are masked: false
    image = axes.pcolorfast(edges, rows, loads, cmap=colormaps["cividis"].with_extremes(bad="white"), norm=norm)
    figure.colorbar(image, ax=axes, label="tuples in a subbucket (white: none)", pad=0.02)
    refined = [event for event in _of(iterations[-1], events) if event["event"] == "refine"]
    split = [(event["iteration"] + 0.5, b["bucket"]) for event in refined for b in event.get("buckets", ())]
    if split:
        style = {"marker": ">", "s": 34, "color": "white", "edgecolors": "black", "linewidths": 0.8, "clip_on": False}
        axes.scatter(*zip(*split, strict=True), zorder=3, label="bucket refined", **style)
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), fontsize=8, frameon=False, borderaxespad=0.1)
    axes.set_title("Tuples in each subbucket", loc="left")
    axes.set_ylabel("bucket")
    _whole_ticks(axes.yaxis)
    _iteration_axis(axes, edges)


def _stretch(subs: list[int], rows: int) -> np.ndarray:
    """The subbuckets of one bucket, on so many rows."""
    return np.asarray(subs)[np.arange(rows) * len(subs) // rows]


def _imbalance(figure, cell, iterations, edges, events, limit) -> None:
    """Heaviest ÷ average, of partitions, buckets and subbuckets; above it, when something was done about it."""
    kinds = list(dict.fromkeys(event["event"] for event in events))
    kinds.sort(key=lambda kind: list(EVENTS).index(kind) if kind in EVENTS else len(EVENTS))
    parts = cell.subgridspec(2, 1, height_ratios=[1 + len(kinds), 12]) if kinds else cell.subgridspec(1, 1)
    axes = figure.add_subplot(parts[-1, 0])
    at, highest = [entry["iteration"] for entry in iterations], max(limit or 1, 1)
    for name, style in RATIOS.items():
        ratios = [entry["imbalance"].get(name, np.nan) for entry in iterations]
        style = style if len(at) <= MOST_MARKERS else {**style, "marker": None}
        axes.plot(at, ratios, label=f"{name}: {ratios[-1]:.2f} at the end", **style)
        highest = np.nanmax([highest, *ratios])
    if limit:
        style = {"color": "black", "linewidth": 0.8, "linestyle": (0, (1, 3))}
        axes.axhline(limit, label=f"a subbucket over {limit:g} is refined", **style)
    _ratio_axis(axes, highest)
    axes.legend(loc="best", fontsize=8, framealpha=0.9)
    _iteration_axis(axes, edges)
    top = _event_rows(figure.add_subplot(parts[0, 0], sharex=axes), events, kinds) if kinds else axes
    top.set_title("Imbalance" if kinds else "Imbalance (nothing had to be done)", loc="left")


def _event_rows(axes, events, kinds: list[str]):
    """One row of markers a kind: at an iteration, or after it."""
    for row, kind in enumerate(kinds):
        at = [event["iteration"] + 0.5 * (kind != "roll-over") for event in events if event["event"] == kind]
        marker = EVENTS.get(kind, "o") if len(at) <= MOST_MARKERS else "|"
        axes.scatter(at, [row] * len(at), marker=marker, color=GREY, s=30, clip_on=False, zorder=3)
    axes.set_yticks(range(len(kinds)), kinds, fontsize=8)
    axes.set_ylim(len(kinds) - 0.4, -0.6)
    axes.tick_params(axis="both", length=0, pad=7, labelbottom=False)
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    return axes


def _ratio_axis(axes, highest: float) -> None:
    """From 1, which is perfect; logarithmic when the worst is far from it."""
    if highest > 10:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(0.97 if highest <= 10 else 0.9, highest * 1.15)
    axes.set_ylabel("heaviest ÷ average")
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)


def _times(axes, iterations, edges) -> None:
    """The slowest task of each phase, one on the other, and what is left: planning, scheduling, Spark."""
    base = np.zeros(len(iterations))
    for name, (colour, hatch) in PHASES.items():
        seconds = np.array([phase_seconds(entry, name) for entry in iterations])
        if seconds.any():
            style = {"facecolor": colour, "hatch": hatch, "edgecolor": "white" if hatch else colour, "linewidth": 0}
            label = f"{name}: {seconds.sum():.2f} s"
            axes.stairs(base + seconds, edges, baseline=base, fill=True, label=label, **style)
            base = base + seconds
    axes.stairs(base, edges, color="black", linewidth=0.6 if len(base) <= MOST_MARKERS else 0.2)
    axes.set_ylim(0, max(base.max() * 1.05, 1e-3))
    axes.set_title("Time, slowest task of each phase", loc="left")
    several = any(entry.get("steps", 1) > 1 for entry in iterations)
    axes.set_ylabel("seconds an iteration, or a run-ahead of several" if several else "seconds an iteration")
    axes.legend(loc="best", fontsize=8, framealpha=0.9, reverse=True)
    _iteration_axis(axes, edges)


def phase_seconds(entry: dict, name: str) -> float:
    """Seconds of one phase in an iteration, all inner iterations together.

    >>> phase_seconds({"phases": [{"phase": "join", "seconds": [1, 3]}, {"phase": "join", "seconds": [2]}]}, "join")
    5
    """
    if name == "driver":
        return entry.get("driver", 0)
    return sum(max(phase["seconds"], default=0) for phase in entry["phases"] if phase["phase"] == name)


def _partitions(axes, last: dict, events) -> None:
    """The loads at the end; and around the balancing that moved most, before and after it."""
    moves = [e for e in _of(last, events) if "loads_before" in e and "loads_after" in e]
    after = [event["loads_after"] for event in moves if event["iteration"] >= last["iteration"]]
    shown = {"at the end": after[-1] if after else last["loads"]}
    if moves:
        most = max(moves, key=lambda event: event.get("moved", 0))
        what = f"{most['event']} after iteration {most['iteration']}"
        shown = {f"before {what}": most["loads_before"], f"after {what}": most["loads_after"], **shown}
    styles = [("white", "////"), (YELLOW, "...."), (DARK, "")][-len(shown) :]
    width = 0.8 / len(shown)
    for place, ((when, loads), style) in enumerate(zip(shown.items(), styles, strict=True)):
        at = np.arange(len(loads)) + (place - (len(shown) - 1) / 2) * width
        _bars(axes, at, loads, width, style, f"{when}: imbalance {imbalance_ratio(loads):.2f}")
    axes.set_title("Tuples on each partition", loc="left")
    axes.set_xlabel("partition")
    _bar_axis(axes, max(map(max, shown.values())), len(shown), "tuples")


def _bars(axes, at, loads, width: float, style: tuple[str, str], label: str) -> None:
    colour, hatch = style
    if len(loads) <= MOST_BARS:
        axes.bar(at, loads, width, facecolor=colour, hatch=hatch, label=label, edgecolor="black", linewidth=0.6)
    else:
        line = {"////": ("black", ":"), "....": (SAND, "-"), "": (DARK, "-")}[hatch]
        axes.stairs(loads, np.arange(len(loads) + 1) - 0.5, color=line[0], linestyle=line[1], label=label)


def _bar_axis(axes, highest: float, legend_rows: int, what: str) -> None:
    """Bars start at 0; the legend stands above them."""
    axes.set_ylim(0, max(highest, 1e-6) * (1.08 + 0.09 * legend_rows))
    axes.set_ylabel(what)
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    _whole_ticks(axes.xaxis)
    if what == "tuples":
        _tuple_ticks(axes.yaxis)


def _draw_decomposed(figure, entry: dict) -> None:
    """The decomposed plan moves nothing: what there is to see is whether the tasks weighed alike."""
    grid = figure.add_gridspec(2, 2)
    seconds = [second for phase in entry["phases"] if phase["phase"] == "groups" for second in phase["seconds"]]
    panels = (("Tuples of each task", "tuples", entry["loads"]), ("Time of each task", "seconds", seconds))
    for place, (title, what, values) in enumerate(panels):
        axes = figure.add_subplot(grid[0, place])
        label = f"{_count(len(values), 'task')}: imbalance {imbalance_ratio(values):.2f}"
        _bars(axes, np.arange(len(values)), values, 0.8, (DARK, ""), label)
        axes.axhline(np.mean(values), color="black", linewidth=1, linestyle="--", label="average")
        axes.set_title(title, loc="left")
        axes.set_xlabel("task")
        _bar_axis(axes, max(values), 2, what)
    _births(figure.add_subplot(grid[1, :]), entry["births"])


def _births(axes, births: list[int]) -> None:
    edges = np.arange(len(births) + 1) + 0.5
    axes.stairs(births, edges, fill=True, facecolor=YELLOW, edgecolor="black", linewidth=0.6)
    if min(births) > 0 and max(births) > 100 * min(births):
        axes.set_yscale("log")
        axes.set_ylim(bottom=max(0.7, min(births) / 2))
    else:
        _tuple_ticks(axes.yaxis)
    axes.set_title("Tuples born in each step", loc="left")
    axes.set_ylabel("tuples")
    _iteration_axis(axes, edges)
    axes.set_xlabel("step")


def _iteration_axis(axes, edges) -> None:
    axes.set_xlim(edges[0], edges[-1])
    axes.set_xlabel("iteration")
    _whole_ticks(axes.xaxis)


def _whole_ticks(axis) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=10, integer=True, min_n_ticks=1))


def _tuple_ticks(axis) -> None:
    """5k, 20M; and never a part of a tuple."""
    from matplotlib.ticker import EngFormatter

    _whole_ticks(axis)
    axis.set_major_formatter(EngFormatter(sep=""))
