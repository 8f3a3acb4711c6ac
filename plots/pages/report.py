"""The report of a run as one self-contained page: figures, balancing events, times and configuration. Several runs are shown
side by side.

    report(closure.trace, "report.html")
"""

import time
from pathlib import Path, PurePath

from semi_naive.balance.joins import checked_join, is_join
from semi_naive.balance.record import checked
from semi_naive.balance.trace import VERSION, read_trace
from semi_naive.host.files import replacing
from semi_naive.host.numbers import about, number, seconds
from semi_naive.plots.descriptions import description, title_of_figure
from semi_naive.plots.figures import PANELS, comparison, figures, panel_alone
from semi_naive.plots.joins import join_figures
from semi_naive.plots.joins import title as title_of_join
from semi_naive.plots.labels import labels
from semi_naive.plots.pages.account import account, reconciled
from semi_naive.plots.pages.configuration import configuration
from semi_naive.plots.pages.inline import inlined
from semi_naive.plots.pages.page import (
    bullet_list,
    escape,
    facts,
    folded,
    heading,
    page,
    paragraph,
    section,
    standing_alone,
    table,
)
from semi_naive.plots.pages.program import relations, rules_table, spread_strata, strata_table
from semi_naive.plots.pages.source import source_sections
from semi_naive.plots.pages.summary import named, outcome, summary
from semi_naive.plots.pages.words import events_in_words
from semi_naive.plots.panels.course import births_panel, iteration_times, stratum_courses
from semi_naive.plots.run import RecordedRun, recorded_runs

PANEL = (5.2, 4.0)  # inches of a figure, such that its smallest text is legible on a phone
DRAWN, AT_MOST = 4, 2500  # number of a program's slowest strata that have figures; and of their iterations in total
UNFOLDED, LISTED = 12, 400  # events shown unfolded, and at all


def report(traces, path=None, names=None) -> str:
    """The report of a trace, or of several side by side, as HTML; also written to `path`, atomically.

    names: of the runs, one each. The page fetches nothing and needs no script. It takes about a tenth of a second a figure, and
    300 kB a run. Raises ValueError for an invalid trace.
    """
    traces, names = _records_with_names(traces, names)
    text = page(title_of(traces, names), body(traces, names), standing_alone())
    if path is not None:
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    return text


def report_files(paths, path) -> None:
    """The report of records written by --trace."""
    report([read_trace(each, joins=True) for each in paths], path, [Path(each).name for each in paths])


def body(traces: list[dict], names: list[str]) -> str:
    """The report without its head; the run may be in progress."""
    parts = _of_several(traces, names) if len(traces) > 1 else _of_one(traces[0])
    head = f"<header>\n<h1>{escape(title_of(traces, names))}</h1>\n{_result(traces)}\n</header>"
    return "\n".join(['<main id="report">', head, *filter(None, parts), _footer(traces), "</main>"])


def _records_with_names(traces, names) -> tuple[list[dict], list[str]]:
    """Return valid records and as many names. Raises ValueError for an invalid record."""
    traces = [traces] if isinstance(traces, dict) or not hasattr(traces, "__iter__") else list(traces)
    names = [""] * len(traces) if names is None else [names] if isinstance(names, str) else [str(name) for name in names]
    if not traces or len(names) != len(traces):
        raise ValueError(f"expected one trace or more, and as many names: got {len(traces)} and {len(names)}")
    for trace, name in zip(traces, names, strict=True):
        try:
            (checked_join if is_join(trace) and len(traces) == 1 else checked)(trace, VERSION)
        except ValueError as wrong:
            raise ValueError(f"{name or 'this'} is not a trace: {wrong}") from None
    return traces, names


def title_of(traces: list[dict], names: list[str]) -> str:
    """The title of a run."""
    if len(traces) > 1:
        return f"{len(traces)} runs side by side"
    trace, name = traces[0], names[0]
    if "strata" in trace:
        return PurePath(trace.get("program") or name or "A program").name
    if is_join(trace):
        return title_of_join(trace)
    what = "Closure, simulated" if trace.get("plan") == "simulated" else "Transitive closure"
    return f"{what} of {name}" if name else what


def _result(traces: list[dict]) -> str:
    """The result of the run in one line."""
    if len(traces) > 1:
        return paragraph("Compared on the same axes and in the same colours.", "result")
    trace = traces[0]
    if is_join(trace):
        return paragraph(f"{about(trace['result']['tuples'], 'tuple')} in {seconds(trace['seconds'])}.", "result")
    took = f" in {seconds(trace['seconds'])}" if "seconds" in trace else ""
    return paragraph(f"{outcome(trace)}{took}{'' if 'result' in trace else ' so far'}.", "result")


def _of_one(trace: dict) -> list[str]:
    """The sections of one run."""
    if is_join(trace):
        return [section("figures", "Where the work was", _join_figures(trace))]
    return [
        section("summary", "Summary", facts("The run in short", summary(trace))),
        section("account", "Where the time went", account(trace)),
        section("strata", "Strata", strata_table(trace)),
        section("rules", "Hottest rules", rules_table(trace)),
        section("source", "The program", source_sections(trace)),
        section("relations", "Relations", relations(trace)),
        section("iterations", "Iterations in the driver", _courses(trace)),
        section("figures", "Balance and time", _figures(trace)),
        section("events", "Events", _events(trace)),
        section("configuration", "Configuration", configuration([trace], [""])),
    ]


def _join_figures(trace: dict) -> str:
    """The figures of a multiway join."""
    drawn = [inlined(figure, f"j-{name}", escape(title_of_join(trace))) for name, figure in join_figures([trace], [""]).items()]
    return "\n".join(f'<figure>\n<div class="drawing">\n{drawing}\n</div>\n</figure>' for drawing in drawn)


def _of_several(traces: list[dict], names: list[str]) -> list[str]:
    """The sections of several runs: a column for each, labelled by its differing settings."""
    called = labels(traces, names if any(names) else None)
    told = [summary(trace) for trace in traces]
    rows = [[name, *(each.get(name, "") for each in told)] for name in dict.fromkeys(name for each in told for name in each)]
    events = [heading(label) + _events(trace, f"-{n}") for n, (label, trace) in enumerate(zip(called, traces, strict=True))]
    return [
        section("summary", "Summary", table("Each run", [("", ""), *((label, "text") for label in called)], rows)),
        section("figures", "Balance and time", _comparison(traces, names if any(names) else None, called)),
        section("events", "Events", "\n".join(events)),
        section("configuration", "Configuration", configuration(traces, names if all(names) else called)),
    ]


def _figures(trace: dict) -> str:
    """The panels of a closure, or of the slowest strata on the partitions."""
    if "strata" not in trace:
        return _panels(RecordedRun(trace), "f", trace)
    spread = spread_strata(trace)
    chosen = _drawn(spread)
    parts = [
        heading(named(stratum)) + _panels(RecordedRun(stratum["trace"], named(stratum)), f"f{place}", stratum)
        for place, stratum in enumerate(chosen)
    ]
    left = about(len(spread) - len(chosen), "stratum", "strata")
    parts += [paragraph(f"Not drawn: {left} on the partitions of one iteration, or of less time.", "quiet")] * (
        spread != chosen
    )
    return "\n".join(parts)


def _drawn(spread: list[dict]) -> list[dict]:
    """The first strata with several iterations, as many as fit on a page of about a megabyte."""
    several = [stratum for stratum in spread if len(stratum["trace"]["iterations"]) > 1] or spread
    drawn = several[:1]
    for stratum in several[1:DRAWN]:
        if sum(len(each["trace"]["iterations"]) for each in [*drawn, stratum]) <= AT_MOST:
            drawn.append(stratum)
    return drawn


def _panels(run: RecordedRun, name: str, record: dict) -> str:
    """The panels of a run; record: has its account."""
    drawn = figures(run.trace, PANELS, PANEL) if len(run) else {}
    shown = "\n".join(_figure(panel, f"{name}-{panel}", figure, [run]) for panel, figure in drawn.items())
    took = reconciled(record, sum(entry.get("seconds", 0.0) for entry in run.iterations))
    return f'{took}<div class="figures">\n{shown}\n</div>' if shown else ""


def _courses(trace: dict) -> str:
    """Figures of the slowest strata that recurred in the driver: the tuples of each iteration."""
    found = stratum_courses(trace)
    several = [one for one in found if len(one[1]) > 1]
    parts = [heading(named(stratum)) + _course(f"c{place}", course) for place, (stratum, course) in enumerate(several[:DRAWN])]
    if left := len(found) - len(parts):
        parts.append(paragraph(f"Not drawn: {about(left, 'stratum', 'strata')} of one iteration, or of less time.", "quiet"))
    return "\n".join(parts)


def _course(name: str, course) -> str:
    """Return the figures of a stratum's course as HTML."""
    drawn = [
        inlined(panel_alone(panel, course, PANEL), f"{name}-{panel.__name__}", escape(title))
        for panel, title in (
            (births_panel, "Line chart: tuples of each iteration"),
            (iteration_times, "Stacked areas: time of each iteration"),
        )
    ]
    shown = "\n".join(f'<figure>\n<div class="drawing">\n{figure}\n</div>\n</figure>' for figure in drawn)
    return paragraph(f"{course.told()}.", "quiet") + f'\n<div class="figures">\n{shown}\n</div>'


def _comparison(traces: list[dict], names, called: list[str]) -> str:
    """Return every panel, with all runs side by side, as HTML. called: the label of each run."""
    drawn, parts = comparison(traces, names, only=[*PANELS, "strata", "rules"]), []
    for name, figure in drawn.items():
        stratum, _, panel = name.rpartition("-")
        beside = [_run(trace, stratum, label) for trace, label in zip(traces, called, strict=True)] if panel in PANELS else []
        parts.append(_figure(panel, f"c-{name}", figure, beside))
    return '<div class="figures single">\n' + "\n".join(parts) + "\n</div>"


def _run(trace: dict, stratum: str, label: str) -> RecordedRun:
    """Return the recorded run of a stratum, or of the only one, with a label."""
    runs = recorded_runs(trace)
    run = runs[stratum] if stratum in runs else next(iter(runs.values()))
    run.label = label
    return run


def _figure(panel: str, name: str, figure, beside: list[RecordedRun]) -> str:
    """Return one figure with its description as HTML. Its own title is removed, as the page has it. beside: the runs in it."""
    figure.suptitle("")
    name, caption = "".join(c if c.isalnum() else "-" for c in name), "<br>\n".join(map(escape, description(panel, beside)))
    across = ' tabindex="0"' * (len(beside) > 1)  # wider than a phone
    drawing = f'<div class="drawing"{across}>\n{inlined(figure, name, escape(title_of_figure(panel, beside)))}\n</div>'
    return f"<figure>\n{drawing}\n<figcaption>{caption}</figcaption>\n</figure>"


def _events(trace: dict, name: str = "") -> str:
    """The balancing events in order; a long list is folded."""
    found = [(f"{named(s)}: ", s.get("trace", {}).get("events", [])) for s in trace.get("strata", [])]
    found = found if "strata" in trace else [("", trace["events"])]
    told = [where + sentence for where, events in found for sentence in events_in_words(events)]
    if not told:
        return paragraph("Nothing was moved.", "quiet")
    shown = told if len(told) <= LISTED else told[:LISTED]
    left = [f"… and {number(len(told) - LISTED)} more"] * (len(told) > LISTED)
    if len(told) <= UNFOLDED:
        return bullet_list(shown)
    return bullet_list(shown[:UNFOLDED]) + folded(
        f"more-events{name}", f"All {number(len(told))} events", bullet_list(shown + left)
    )


def _footer(traces: list[dict]) -> str:
    begun = [time.strftime("%d %B %Y, %H:%M UTC", time.gmtime(t["started"])) for t in traces if "started" in t]
    return f"<footer>{escape('Recorded ' + '; '.join(begun) + '.') if begun else ''}</footer>"
