"""What several of the paper's figures draw alike: groups of bars, logarithmic axes of few decades."""

import numpy as np

from semi_naive.plots.style import SMALL_FONT_POINTS


def grouped(axes, names: list[str], series: dict[str, list[float]], styles: dict[str, tuple[str, str]]) -> None:
    """A group of bars for each name, in it one of each series; `styles`: colour and hatch by series."""
    width = 0.81 / len(series)
    for place, (label, values) in enumerate(series.items()):
        colour, hatch = styles[label]
        at = np.arange(len(names)) + (place - (len(series) - 1) / 2) * width
        axes.bar(at, values, width, facecolor=colour, hatch=hatch, edgecolor="black", linewidth=0.6, label=label)
    axes.set_xticks(range(len(names)), names)
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)


def logarithmic(axis) -> None:
    """Numbers as one writes them: at decades, and at 2 and 5 where there are few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    low, high = axis.get_view_interval()
    few = high < 200 * max(low, 1e-300)
    axis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if few else (1,), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axis.set_minor_formatter(NullFormatter())
    if few:
        axis.set_minor_locator(NullLocator())


def small_legend(axes, **place) -> None:
    axes.legend(fontsize=SMALL_FONT_POINTS, frameon=False, **place)
