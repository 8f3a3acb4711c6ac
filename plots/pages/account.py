"""The account of a run's time by part, as a bar and as a table."""

from semi_naive.host.account import PARTS, as_sum
from semi_naive.host.numbers import summands
from semi_naive.plots.pages.page import Markup, bar, paragraph, table


def account(trace: dict) -> str:
    """Return a table of the parts: seconds, share, and seconds in strata. The parts add up to the total time."""
    parts = summands(trace.get("account", {}))
    if not parts:
        return ""
    total, strata = sum(parts.values()) or 1.0, _seconds_in_strata(trace)
    rows = [
        [name, f"{seconds:.3f} s", bar(seconds / total, name), *_strata_cell(strata, name), PARTS.get(name, "")]
        for name, seconds in parts.items()
    ]
    total_in_strata = {"all": sum(strata.values())} if strata else {}
    rows.append(["all", f"{total:.3f} s", "", *_strata_cell(total_in_strata, "all"), ""])
    within = [("in strata", "number")] * bool(strata)
    columns = [("part", ""), ("time", "number"), ("share", "bar"), *within, ("what it is", "text")]
    caption = "The parts add up to the time of the run; drawing this page is not in it"
    return _stacked(parts, total) + table(caption, columns, rows)


def _seconds_in_strata(trace: dict) -> dict[str, float]:
    """Return the seconds of each part that were spent in strata; none for a closure, which is one stratum."""
    found: dict[str, float] = {}
    for stratum in trace.get("strata", []):
        for name, seconds in stratum.get("account", {}).items():
            found[name] = found.get(name, 0.0) + seconds
    return found


def _strata_cell(strata: dict[str, float], name: str) -> list[str]:
    """Return [the seconds of a part in strata as text]; [] if there is no such column."""
    return [f"{strata[name]:.3f} s" if name in strata else ""] if strata else []


def _stacked(parts: dict[str, float], total: float) -> str:
    """Return all parts as one bar with a legend."""
    shown = "".join(
        f'<i style="flex-grow: {seconds / total:.4f}" data-part="{name}" title="{name} {seconds:.3f} s"></i>'
        for name, seconds in parts.items()
    )
    names = Markup("").join(f'<span><i data-part="{name}"></i>{name}</span> ' for name in parts)
    return f'<div class="account" aria-hidden="true">{shown}</div>\n<p class="legend" aria-hidden="true">{names}</p>\n'


def reconciled(record: dict, iterations: float) -> str:
    """Return a sentence that relates the time of the iterations in a figure to the time of a stratum or closure."""
    if not iterations or not record.get("account"):
        return ""
    took = f" All of it took {as_sum(record)}." if "seconds" in record else ""  # a run in progress has no sum
    return paragraph(f"The iterations took {iterations:.3f} s.{took}", "quiet")
