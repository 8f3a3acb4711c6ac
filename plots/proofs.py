"""Draw a proof: each tuple above the one whose premise it is, and a table of the rules below.

The input is the dictionary that `Proof.to_dict` returns. A tuple that several steps use is drawn once.
"""

from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from semi_naive.host.numbers import shortened
from semi_naive.plots.style import DARK, DUST, GREY, PALE, SAND, SMALL_FONT_POINTS, literal, new_figure

MAX_DRAWN_TUPLES = 30  # tuples drawn at most, those nearest to the conclusion
MAX_TUPLE_CHARACTERS = 44  # characters of a tuple or a condition
LETTER, GAP, LEVEL = 0.073, 0.16, 0.62  # inches of a character, between neighbours, and between levels
RULE_LINE_INCHES = 0.17  # inches of a rule's line


@dataclass(eq=False)
class ProofBox:
    """A tuple or a condition with its position: `x` its centre in inches, `level` its height above the conclusion."""

    text: str
    kind: str  # fact, made, condition, or left out
    rule: str = ""
    above: list["ProofBox"] = field(default_factory=list)  # premises and conditions, drawn directly above it
    shared: list["ProofBox"] = field(default_factory=list)  # premises that are drawn above another box
    level: int = 0
    x: float = 0.0

    @property
    def own_width(self) -> float:
        """The width of its text in inches."""
        return LETTER * (len(self.text) + 2 * len(self.rule) + 2) + GAP

    @property
    def width(self) -> float:
        """The width with all boxes above it, in inches."""
        return max(self.own_width, sum(one.width for one in self.above))


def proof_figure(proof: dict):
    """Return a matplotlib Figure of a proof, given as the result of `Proof.to_dict`."""
    boxes, rules = lay_out_proof(proof)
    levels = 1 + max(box.level for box in boxes)
    width = max(boxes[0].width, LETTER * max((len(line) for line in rules), default=0), 3.0)
    height = LEVEL * levels + RULE_LINE_INCHES * (len(rules) + 1)
    figure = new_figure(width + 0.3, height + 0.3)
    axes = figure.subplots()
    axes.set(xlim=(0, width), ylim=(-RULE_LINE_INCHES * (len(rules) + 1) - LEVEL / 2, LEVEL * (levels - 0.5)))
    axes.set_axis_off()
    shift = (width - boxes[0].width) / 2
    for box in boxes:
        for upper in (*box.above, *box.shared):
            ends = [box.x + shift, upper.x + shift], [LEVEL * box.level + 0.14, LEVEL * upper.level - 0.14]
            axes.plot(*ends, color=DUST if upper.kind == "condition" else GREY, linewidth=0.8, zorder=0)
    for box in boxes:
        _write(axes, box, box.x + shift)
    for number, line in enumerate(rules):
        y = -LEVEL / 2 - RULE_LINE_INCHES * (number + 0.7)
        axes.text(0, y, literal(line), fontsize=SMALL_FONT_POINTS, family="monospace", va="center")
    return figure


def lay_out_proof(proof: dict) -> tuple[list[ProofBox], list[str]]:
    """Return (the boxes of a proof with their positions, conclusion first; a line for each rule that is used)."""
    boxes, numbers = _boxes(proof)
    for box in boxes:  # each follows all boxes below it, so its level is final
        for one in (*box.above, *box.shared):
            one.level = max(one.level, box.level + 1)
    waiting = [(boxes[0], 0.0)]
    while waiting:
        box, begin = waiting.pop()
        box.x = begin + box.width / 2
        begin += (box.width - sum(one.width for one in box.above)) / 2
        for one in box.above:
            waiting.append((one, begin))
            begin += one.width
    return boxes, [f"{name}  {' '.join(rule.split())}" for rule, name in numbers.items()]


def _boxes(proof: dict) -> tuple[list[ProofBox], dict[str, str]]:
    """Return (the boxes of a proof, each before its premises; the short name of each rule, by its text). A tuple has one box.
    Up to `MAX_DRAWN_TUPLES` are drawn; a box says how many are left out."""
    names: dict[str, str] = {}
    root = _box(proof, names)
    found, known, waiting = [root], {id(proof): root}, [(proof, root)]
    drawn = 1
    for entry, box in waiting:  # which grows meanwhile: breadth first, so that the tuples nearest to the conclusion are drawn
        left_out = 0
        for premise in entry.get("premises", ()):
            if id(premise) in known:  # `to_dict` has one dictionary for the proof of a tuple, however many steps use it
                if known[id(premise)] not in box.above:
                    box.shared.append(known[id(premise)])
            elif drawn >= MAX_DRAWN_TUPLES:
                left_out += 1
            else:
                drawn += 1
                known[id(premise)] = one = _box(premise, names)
                box.above.append(one)
                waiting.append((premise, one))
        if left_out:
            box.above.append(ProofBox(f"… {left_out} more", "left out"))
        box.above += [ProofBox(shortened(text, MAX_TUPLE_CHARACTERS), "condition") for text in entry.get("conditions", ())]
        found += box.above
    order: TopologicalSorter[ProofBox] = TopologicalSorter({root: ()})
    for box in found:
        for one in (*box.above, *box.shared):
            order.add(one, box)
    return list(order.static_order()), names


def _box(entry: dict, names: dict[str, str]) -> ProofBox:
    """Return the box of a tuple. entry: its part of the proof; names: the short name of each rule, to which new ones are
    added."""
    text = shortened(entry["atom"], MAX_TUPLE_CHARACTERS)
    if "rule" not in entry:
        return ProofBox(text, "fact")
    name = names.setdefault(entry["rule"], f"R{len(names) + 1}")
    return ProofBox(text, "made", name)


def _write(axes, box: ProofBox, x: float) -> None:
    """Draw a box: facts are filled, derived tuples have a frame and the name of their rule, conditions have neither."""
    looks = {"fact": {"facecolor": SAND, "edgecolor": "black"}, "made": {"facecolor": PALE, "edgecolor": DARK}}
    frame = {"boxstyle": "round,pad=0.3", "linewidth": 0.8, **looks[box.kind]} if box.kind in looks else None
    style = "italic" if frame is None else "normal"
    y = LEVEL * box.level
    font = {"fontsize": SMALL_FONT_POINTS, "family": "monospace", "style": style}
    axes.text(x, y, literal(box.text), ha="center", va="center", bbox=frame, **font)
    if box.rule:
        beside = x + LETTER * (len(box.text) + 1) / 2 + 0.04
        axes.text(beside, y, box.rule, fontsize=SMALL_FONT_POINTS - 1.5, family="monospace", ha="left", va="center")
