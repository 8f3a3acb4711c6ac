"""The time of a Datalog program's strata and rules. Both panels read the program's record."""

import numpy as np

from semi_naive.host.numbers import shortened
from semi_naive.plots.style import DARK, SAND, STRAW, YELLOW, engineering, literal, note, number_ticks, titled

PLANS = {"local": (SAND, "\\\\\\\\"), "decomposed": (YELLOW, "----"), "balanced": (DARK, "")}
MAX_ROWS = 20
MAX_ROW_LABEL_CHARACTERS = 64  # characters of a rule or of a stratum's relations


def strata_panel(axes, record: dict, among=()) -> None:
    """Draw the seconds of each stratum, in the order of evaluation; of many, the slowest. Colours are plans."""
    found = record.get("strata", [])
    slowest = sorted(found, key=lambda stratum: -stratum["seconds"])[:MAX_ROWS]
    rows = [stratum for stratum in found if any(stratum is each for each in slowest)]
    styles = [PLANS.get(stratum["plan"], (STRAW, "////")) for stratum in rows]
    labels = [f"{shortened(', '.join(s['relations']), MAX_ROW_LABEL_CHARACTERS)}  ({engineering(s['tuples'])})" for s in rows]
    _draw_bars(axes, [s["seconds"] for s in rows], labels, styles)
    _title(axes, "Time by stratum (tuples)", len(rows), len(found))
    if rows:
        _plan_legend(axes, rows, styles)


def rules_panel(axes, record: dict, among=()) -> None:
    """Draw the seconds of the slowest rules: the average over partitions."""
    found = record.get("profile", {}).get("rules", [])
    hottest = sorted(found, key=lambda rule: -rule["seconds"])[:MAX_ROWS]
    _draw_bars(axes, [rule["seconds"] for rule in hottest], [_rule(rule) for rule in hottest], [(DARK, "")] * len(hottest))
    _title(axes, "Time by rule (tuples made)", len(hottest), len(found))


def _rule(rule: dict) -> str:
    """Return the label of a rule: its line, its text and the tuples it has made."""
    where = f"{rule['line']}: " if rule.get("line") else ""
    text = shortened(where + " ".join(rule["rule"].split()), MAX_ROW_LABEL_CHARACTERS)
    return f"{text}  ({engineering(rule['made'])})"


def _draw_bars(axes, values, labels, styles) -> None:
    """Draw a bar in each row, from the top."""
    if not labels:
        note(axes, "nothing was evaluated")
        return
    rows = np.arange(len(values))
    for y, value, (colour, hatch) in zip(rows, values, styles, strict=True):
        axes.barh(y, value, 0.75, facecolor=colour, hatch=hatch, edgecolor="black", linewidth=0.6)
    axes.set_yticks(rows, [literal(label) for label in labels], fontsize=8)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.set_xlim(0, max(*values, 1e-6) * 1.05)
    axes.set_xlabel("time")
    number_ticks(axes.xaxis, "s", whole=False)


def _title(axes, title: str, shown: int, found: int) -> None:
    titled(axes, title if shown == found else f"{title}, {shown} of {found}")


def _plan_legend(axes, rows, styles) -> None:
    """Draw a legend of the occurring plans below the bars."""
    from matplotlib.patches import Patch

    plans = dict(zip([stratum["plan"] for stratum in rows], styles, strict=True))
    handles = [Patch(facecolor=c, hatch=h, edgecolor="black", linewidth=0.6, label=plan) for plan, (c, h) in plans.items()]
    low, high = axes.get_ylim()  # rows are counted downwards, so the greater one is at the bottom
    axes.set_ylim(low + 0.5 + 0.12 * len(rows), high)
    axes.legend(handles=handles, loc="lower right", fontsize=8, frameon=False, ncols=len(handles))
