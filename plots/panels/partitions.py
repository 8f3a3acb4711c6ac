"""The loads of the partitions, or of the decomposed plan's tasks."""

from collections.abc import Sequence

import numpy as np

from semi_naive.balance.policy import imbalance_ratio
from semi_naive.host.numbers import quantity
from semi_naive.plots.run import RecordedRun
from semi_naive.plots.style import DARK, MAX_BARS, SAND, YELLOW, legend, note, number_ticks, titled, whole_ticks

STYLES = [("none", "////"), (YELLOW, "----"), (DARK, "")]
OUTLINES = {"////": ("black", ":"), "----": (SAND, "-"), "": (DARK, "-")}
MAX_PARTITIONS_BY_NUMBER = 512  # more than a screen shows are drawn sorted by weight, not by number


def partitions(axes, run: RecordedRun, among: Sequence[RecordedRun] = ()) -> None:
    """Draw the tuples on each partition at the end, and before and after the largest move."""
    if not len(run):
        note(axes, "no iterations")
        return
    bars_of(axes, f"Tuples {'of' if run.by_task else 'on'} each {run.place}", "tuples", run.loads, run.place)
    places = {len(each.loads["at the end"]) for each in (run, *among) if len(each)}
    # Loads of 4 and of 4,096 partitions have no common scale; axes with different labels get none (`same_limits`).
    if len(places) > 1 and max(places) > MAX_BARS:
        axes.set_ylabel(f"tuples on one of {len(run.loads['at the end']):,}")


def bars_of(axes, title: str, what: str, shown: dict, place: str) -> None:
    """Draw lists of loads side by side. shown: the lists by label; a single one may have an empty label. what: the unit of the
    loads; place: the name of a place that has a load."""
    width, many = 0.8 / len(shown), max(map(len, shown.values()))
    # One list alone has the style of the loads at the end, which come last.
    for number, ((when, loads), style) in enumerate(zip(shown.items(), STYLES[-len(shown) :], strict=True)):
        name = f"{when}: " if when else f"{quantity(len(loads), place)}: "
        label = f"{name}imbalance {imbalance_ratio(loads):.2f}"
        offset = (number - (len(shown) - 1) / 2) * width
        _bars(axes, offset, loads, width, style, label) if many <= MAX_BARS else _outline(axes, loads, style, label)
    if len(shown) == 1:
        average = np.mean(next(iter(shown.values())))
        axes.axhline(average, color="black", linewidth=1, linestyle="--", label="average")
    axes.set_ylim(0, max(*map(max, shown.values()), 1e-6) * 1.05)
    titled(axes, title)
    axes.set_xlabel(f"{place}s, the heaviest first" if many > MAX_PARTITIONS_BY_NUMBER else place)
    axes.set_ylabel("time" if what == "seconds" else what)
    whole_ticks(axes.xaxis)
    if what == "seconds":
        number_ticks(axes.yaxis, "s", whole=False)
    else:
        number_ticks(axes.yaxis)
    legend(axes)


def _bars(axes, offset: float, loads, width: float, style: tuple[str, str], label: str) -> None:
    """Draw one bar for each partition. offset: horizontal; style: colour and hatch."""
    colour, hatch = style
    x = np.arange(len(loads)) + offset
    axes.bar(x, loads, width, facecolor=colour, hatch=hatch, label=label, edgecolor="black", linewidth=0.6)


def _outline(axes, loads, style: tuple[str, str], label: str) -> None:
    """Draw an outline over the partitions; if there are very many, sorted by weight."""
    colour, dashes = OUTLINES[style[1]]
    edges = np.arange(len(loads) + 1)
    if len(loads) > MAX_PARTITIONS_BY_NUMBER:
        starts = np.arange(MAX_PARTITIONS_BY_NUMBER) * len(loads) // MAX_PARTITIONS_BY_NUMBER
        loads, edges = np.sort(loads)[::-1][starts], np.append(starts, len(loads))
    axes.stairs(loads, edges - 0.5, color=colour, linestyle=dashes, linewidth=1.3, label=label)
