"""The common style of all figures: colours and hatches that differ in greyscale and for colour-blind readers, ticks, legends,
saving.

Text, ticks, spines and outlines are plain black, and nothing else is, so that a page can show a figure in its own colours. In
the result of `svg(figure, transparent=True)`, text has no fill of its own (`svg text {fill: currentColor}`), lines have
`stroke: #000000` (to be replaced by `currentColor`), nothing is white, and the colours occur exactly as written below. `NIGHT`
has a distinguishable colour for each on a dark page.
"""

import io
from pathlib import Path

from semi_naive.host.files import replacing

FORMATS = (".png", ".svg", ".pdf")
# From the cividis map, whose colours differ in greyscale and for colour-blind readers.
DARK, GREY, DUST, SAND, STRAW, YELLOW, PALE = "#00204d", "#575d6d", "#8a8779", "#b5ab8a", "#c7b76b", "#dccb6a", "#dedbd0"
NIGHT = {  # on a dark page
    DARK: "#6f9bd8", GREY: "#9aa1b3", DUST: "#8a8779", SAND: "#b5ab8a", STRAW: "#c7b76b", YELLOW: "#e8d870", PALE: "#4a4a46",
}  # fmt: skip
EVENTS = {"refine": "^", "consolidate": "v", "copy": "s", "move": ">", "roll-over": "D", "checkpoint": "P", "restore": "X",
          "runs lost": "x", "to driver": "<", "to partitions": "h"}  # fmt: skip
PHASES = {  # colour and hatch
    "intra-bucket": (DARK, ""),
    "join": (GREY, "----"),
    "run-ahead": (DUST, "xxxx"),
    "all-to-all": (SAND, "\\\\\\\\"),
    "insert": (STRAW, "////"),
    "driver": (PALE, ""),
}
FURTHER_STYLES = [(YELLOW, "++++"), (PALE, "||||"), (GREY, "//"), (STRAW, "xx")]  # of unknown phases
MAX_BARS = 64  # more bars than this are drawn as an outline
MAX_MARKERS = 60  # more iterations than this are drawn without markers
SMALL_FONT_POINTS = 8  # font size in points of legends and numbers
STEPS = [1, 2, 2.5, 5, 10]  # allowed distances between ticks, times a power of ten
LEGEND_ROW_INCHES = 0.165  # inches that a row of a legend takes


def new_figure(width: float, height: float, title: str = ""):
    """Return an empty matplotlib Figure, with sizes in inches; without pyplot and display."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.1, wspace=0.03, hspace=0.03)
    figure = Figure(figsize=(width, height), dpi=110, layout=layout)
    if title:
        figure.suptitle(wrapped(title, width * 10.5), fontsize=13)
    return figure


def save_figure(figure, path) -> None:
    """Save a figure as .png, .svg or .pdf, atomically; equal figures give equal bytes."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{path}: cannot tell the format: expected a name ending in {', '.join(FORMATS)}")
    with replacing(path) as partial, open(partial, "wb") as file:
        _write(figure, file, path.suffix.lower()[1:])


def svg(figure, transparent: bool = False) -> str:
    """Return a figure as SVG, with text kept as text."""
    buffer = io.BytesIO()
    _write(figure, buffer, "svg", transparent)
    return buffer.getvalue().decode()


def _write(figure, file, kind: str, transparent: bool = False) -> None:
    """Write a figure reproducibly, without dates."""
    from matplotlib import rc_context

    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "semi-naive"}):
        figure.savefig(file, format=kind, transparent=transparent, metadata=dates.get(kind))


def wrapped(text: str, width: float) -> str:
    """Return a text broken into lines of `width` characters; formulas are escaped."""
    import textwrap

    lines = textwrap.wrap(text, max(8, int(width)), break_on_hyphens=False) or [""]
    return literal("\n".join(lines))


def literal(text: str) -> str:
    """Return a text with dollars escaped, so that matplotlib sees no formula.

    >>> print(literal("id($, x)"))
    id(\\$, x)
    """
    return text.replace("$", "\\$")


def engineering(number: float, unit: str = "") -> str:
    """Return a number with a unit prefix: 21.4 M, 3.2 kB."""
    from matplotlib.ticker import EngFormatter

    formatter = EngFormatter(unit, places=None if number == int(number) and abs(number) < 1000 else 1, sep=" ")
    return formatter(number).rstrip()


def whole_ticks(axis) -> None:
    """Put ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=max_ticks(axis), integer=True, min_n_ticks=1, steps=STEPS))


def number_ticks(axis, unit: str = "", whole: bool = True) -> None:
    """Set ticks such as 5k, 20M, 3 MB. whole: at whole numbers only."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=max_ticks(axis), integer=whole, min_n_ticks=1, steps=STEPS))
    axis.set_major_formatter(EngFormatter(unit, sep=" " if unit else ""))


def log_ticks(axis, unit: str = "") -> None:
    """Set ticks at powers of ten, as many as fit."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(10, numticks=max_ticks(axis)))
    axis.set_major_formatter(EngFormatter(unit, sep=" " if unit else ""))
    axis.set_minor_formatter(NullFormatter())


def max_ticks(axis) -> int:
    """Return the number of ticks that fit on an axis."""
    width, height = inches(axis.axes)
    return max(2, min(10, int(width / 0.6 if axis.axis_name == "x" else height / 0.4)))  # inches between two ticks


def inches(axes) -> tuple[float, float]:
    """Return the approximate (width, height) of axes in inches, before the layout is known."""
    place, (width, height) = axes.get_position(original=True), axes.get_figure(root=True).get_size_inches()
    return place.width * width, place.height * height


def iteration_axis(axes, spans, what: str = "iteration") -> None:
    """Set up the x axis of iterations. spans: the bounds of the iterations."""
    axes.set_xlim(spans[0], spans[-1])
    axes.set_xlabel(what)
    whole_ticks(axes.xaxis)


def legend(axes, handles=None, beneath: float = 0.0, on=None) -> float:
    """Draw a legend above the data, and extend the y axis by its height. Return the fraction of the axes' height that is now
    above the data. beneath: inches kept free above the legend; on: the axes that get the legend, if not these."""
    handles = axes.get_legend_handles_labels()[0] if handles is None else handles
    width, height = inches(axes)
    columns, rows = legend_shape([handle.get_label() for handle in handles], width)
    free = min(0.7, (beneath + LEGEND_ROW_INCHES * rows + 0.1) / height)
    lengthen(axes, free)
    place = {"loc": "upper left", "bbox_to_anchor": (0, 1 - beneath / height), "borderaxespad": 0.2}
    shape = {"fontsize": SMALL_FONT_POINTS, "frameon": False, "ncols": columns, "labelspacing": 0.3, "columnspacing": 1.2}
    (on or axes).legend(handles=handles, **place, **shape)
    return free


def legend_shape(labels: list[str], width: float) -> tuple[int, int]:
    """Return (columns, rows) of a legend on a width in inches.

    >>> legend_shape(["full", "delta", "new"], 6), legend_shape(["partitions: 1.20 at the end"] * 4, 3)
    ((3, 1), (1, 4))
    """
    longest = max(map(len, labels), default=0)
    columns = max(1, min(len(labels), 3, int(width / (0.45 + 0.06 * longest))))  # inches beside the text, and of a letter
    return columns, -(-len(labels) // columns)


def lengthen(axes, free: float) -> None:
    """Extend the y axis so that a fraction of its height is above the data."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":
        axes.set_ylim(top=low * (high / low) ** (1 / (1 - free)))
    else:
        axes.set_ylim(top=low + (high - low) / (1 - free))


def titled(axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=11)


def note(axes, text: str) -> None:
    """Replace the axes by a note that says why there is nothing to show."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, wrapped(text, inches(axes)[0] * 9), ha="center", va="center", transform=axes.transAxes, fontsize=10)


def same_limits(all_axes) -> None:
    """Give axes with equal labels (up to a bracket) common limits, for comparison side by side. Axes by bucket keep their own,
    as buckets of different runs do not correspond."""
    for letter in "xy":
        alike: dict[str, list] = {}
        for axes in all_axes:
            label = getattr(axes, f"get_{letter}label")().partition("(")[0].strip()
            if axes.axison and label not in ("", "bucket"):
                alike.setdefault(label, []).append(axes)
        for same in alike.values():
            limits = [getattr(axes, f"get_{letter}lim")() for axes in same]
            widest = min(low for low, _ in limits), max(high for _, high in limits)
            for axes in same:
                getattr(axes, f"set_{letter}lim")(widest)
