"""Draw the strata of a program and the balance of a run as small SVG figures. Lines and text have the colour of the surrounding
text, for light and dark themes.
"""

from dataclasses import dataclass, field
from html import escape

from semi_naive.balance.policy import imbalance_ratio
from semi_naive.host.numbers import quantity, shortened
from semi_naive.planning.strata import Stratum, rule_edges

MAX_STRATA = 60  # the most strata that are drawn
MAX_BOX_CHARACTERS, LETTER = 26, 7.3  # characters of a box, and pixels of each
HIGH, ROW, GAP = 24, 34, 46  # pixels: the height of a box, the distance of rows, the gap between columns
WIDE, TALL, BARS = 300, 70, 64  # pixels: the width and height of a chart; and its most bars
INK = 'fill="currentColor"'
TEXT = 'font-family="ui-monospace, monospace" font-size="12"'


@dataclass(eq=False)
class StratumBox:
    """A stratum and its position in the figure. level: its column; x, y: its upper left corner."""

    stratum: Stratum
    # the strata that it reads: True if the whole stratum must be complete first (negation, aggregation)
    before: dict["StratumBox", bool] = field(default_factory=dict)
    level: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def text(self) -> str:
        return shortened(", ".join(self.stratum.relations), MAX_BOX_CHARACTERS) + " ↻" * self.stratum.recursive

    @property
    def width(self) -> float:
        return LETTER * len(self.text) + 16


def strata_svg(strata: list[Stratum], inputs: set[str], outputs: set[str]) -> str:
    """Draw strata as a graph from left to right, in which a line leads from a stratum to each stratum that reads it. ↻ marks a
    recursive stratum. Inputs have a dashed frame, outputs a thick one. A dashed line means negation or aggregation. If there
    are more than MAX_STRATA strata, or none, only their number is returned."""
    if not 0 < len(strata) <= MAX_STRATA:
        return f"<div>{quantity(len(strata), 'stratum', 'strata')}</div>"
    boxes = _place_boxes(strata)
    width = max(box.x + box.width for box in boxes) + 2
    height = max(box.y for box in boxes) + HIGH + 2
    lines = "".join(_draw_edge(before, box, whole) for box in boxes for before, whole in box.before.items())
    drawn = "".join(_box(box, inputs, outputs) for box in boxes)
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    label = quantity(len(strata), "stratum", "strata")
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" {size}>{lines}{drawn}</svg>'
    return f'<div style="overflow-x:auto">{svg}</div>'


def _place_boxes(strata: list[Stratum]) -> list[StratumBox]:
    """Return the boxes of strata with their positions: in columns, sorted in each by the positions of the strata they read."""
    boxes = [StratumBox(stratum) for stratum in strata]
    home = {name: box for box in boxes for name in box.stratum.relations}
    columns: list[list[StratumBox]] = []
    for box in boxes:  # strata follow the strata that they read
        for edge in (edge for rule in box.stratum.rules for edge in rule_edges(rule)):
            if (other := home.get(edge.body)) not in (None, box):
                # True if it is read otherwise than by a positive atom: such an edge is drawn otherwise
                box.before[other] = box.before.get(other, False) or bool(edge.via)
        box.level = 1 + max((other.level for other in box.before), default=-1)
        if box.level == len(columns):
            columns.append([])
        columns[box.level].append(box)
    x = 1.0
    for column in columns:
        column.sort(key=lambda box: sum(other.y for other in box.before) / max(1, len(box.before)))
        for row, box in enumerate(column):
            box.x, box.y = x, 1 + ROW * row
        x += max(box.width for box in column) + GAP
    return boxes


def _draw_edge(before: StratumBox, box: StratumBox, whole: bool) -> str:
    """Draw the line from a stratum to one that reads it. whole: dashed, for negation or aggregation, which read a complete
    relation."""
    begin, end, y, to = before.x + before.width, box.x, before.y + HIGH / 2, box.y + HIGH / 2
    bend = min(GAP, (end - begin) / 2)
    path = f"M{begin:.0f} {y:.0f}C{begin + bend:.0f} {y:.0f} {end - bend:.0f} {to:.0f} {end:.0f} {to:.0f}"
    dashes = ' stroke-dasharray="4 3"' * whole
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity="0.55"{dashes}/>'


def _box(box: StratumBox, inputs: set[str], outputs: set[str]) -> str:
    names = set(box.stratum.relations)
    frame = ' stroke-dasharray="3 2"' * bool(names & inputs) + f' stroke-width="{2 if names & outputs else 1}"'
    shade = 0.16 if box.stratum.recursive else 0.05
    place = f'x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{HIGH}" rx="4"'
    title = f"{', '.join(box.stratum.relations)}: {quantity(len(box.stratum.rules), 'rule')}"
    text = f'<text x="{box.x + 8:.0f}" y="{box.y + 16:.0f}" {INK} {TEXT}>{escape(box.text)}</text>'
    outline = f'<rect {place} {INK} fill-opacity="{shade}" stroke="currentColor"{frame}/>'
    return f"<g><title>{escape(title[:500])}</title>{outline}{text}</g>"


def balance_svg(trace: dict) -> str:
    """Return HTML with a chart of the new tuples of each iteration of a closure, and one of the final tuples of each partition;
    "" without iterations. One entry of the trace has the births of all iterations that a job has run ahead."""
    entries = trace.get("iterations", ())
    born = [tuples for entry in entries for tuples in entry["births"]]
    if not born:
        return ""
    loads, where = entries[-1]["loads"], {"decomposed": "task", "simulated": "rank"}.get(trace.get("plan", ""), "partition")
    charts = [bars_svg(f"new tuples by iteration, of {len(born):,}", born)]
    if len(loads) > 1:
        title = f"tuples by {where}, of {len(loads):,}; heaviest ÷ average {imbalance_ratio(loads):.2f}"
        charts.append(bars_svg(title, loads, mean=True))
    return f'<div style="display:flex;flex-wrap:wrap;gap:24px">{"".join(charts)}</div>'


def bars_svg(title: str, values: list[int], mean: bool = False) -> str:
    """Draw a bar chart under its title. Many values are averaged in groups. mean: draw a line at the mean."""
    step = -(-len(values) // BARS)
    groups = [values[start : start + step] for start in range(0, len(values), step)]  # the last may have fewer
    heights = [sum(group) / len(group) for group in groups]
    top, width = max(heights) or 1, WIDE / len(heights)  # 1 if all values are 0, as bars are divided by it
    bars = [
        f'<rect x="{number * width:.1f}" y="{TALL * (1 - value / top):.1f}" width="{max(width - 1, 0.5):.1f}"'
        f' height="{TALL * value / top:.1f}" {INK} fill-opacity="0.45"/>'
        for number, value in enumerate(heights)
    ]
    if mean:
        y = TALL * (1 - sum(values) / len(values) / top)
        bars.append(f'<path d="M0 {y:.1f}H{WIDE}" stroke="currentColor" stroke-dasharray="4 3"/>')
    size = f'width="{WIDE}" height="{TALL + 1}" viewBox="0 0 {WIDE} {TALL + 1}"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" {size}>{"".join(bars)}</svg>'
    return f'<figure style="margin:8px 0"><figcaption>{escape(title)}</figcaption>{svg}</figure>'
