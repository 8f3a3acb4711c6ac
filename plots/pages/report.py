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
from semi_naive.plots.figures import PANELS, drawn_figures, panel_alone
from semi_naive.plots.joins import join_figures
from semi_naive.plots.joins import title as title_of_join
from semi_naive.plots.labels import labels
from semi_naive.plots.pages.account import account, reconciled
from semi_naive.plots.pages.configuration import configuration
from semi_naive.plots.pages.inline import inlined
from semi_naive.plots.pages.page import (
    HEAD_OF_FILE,
    bullet_list,
    escape,
    facts,
    folded,
    heading,
    page,
    paragraph,
    section,
    table,
)
from semi_naive.plots.pages.program import relations, rules_table, spread_strata, strata_table
from semi_naive.plots.pages.source import source_sections
from semi_naive.plots.pages.summary import named, outcome, summary
from semi_naive.plots.pages.words import events_in_words
from semi_naive.plots.panels.course import StratumCourse, births_panel, iteration_times, stratum_courses
from semi_naive.plots.run import RecordedRun

PANEL_INCHES = (5.2, 4.0)  # inches of a figure, such that its smallest text is legible on a phone
MAX_DRAWN_STRATA, MAX_DRAWN_ITERATIONS = 4, 2500  # the slowest strata that have figures, and all their iterations
MAX_UNFOLDED_EVENTS, MAX_LISTED_EVENTS = 12, 400


def report(traces, path=None, names=None) -> str:
    """Return the report of a trace, or of several side by side, as an HTML page; also written to `path`, atomically.

    names: the name of each run. The page fetches nothing and has no script. It takes about a tenth of a second a figure, and
    300 kB a run. Raises ValueError for an invalid trace.
    """
    traces, names = _records_with_names(traces, names)
    text = page(title_of(traces, names), body(traces, names), HEAD_OF_FILE)
    if path is not None:
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    return text


def report_files(paths, path) -> None:
    """Write the report of records that --trace has written to a file."""
    report([read_trace(each, joins=True) for each in paths], path, [Path(each).name for each in paths])


def body(traces: list[dict], names: list[str]) -> str:
    """Return the <main> element of the report; the run may be in progress."""
    parts = _sections_of_several(traces, names) if len(traces) > 1 else _sections_of_one(traces[0])
    head = f"<header>\n<h1>{escape(title_of(traces, names))}</h1>\n{_result(traces)}\n</header>"
    return "\n".join(['<main id="report">', head, *filter(None, parts), _footer(traces), "</main>"])


def _records_with_names(traces, names) -> tuple[list[dict], list[str]]:
    """Return the traces and names of `report` as lists of the same length. Raises ValueError for an invalid record."""
    traces = [traces] if isinstance(traces, dict) or not hasattr(traces, "__iter__") else list(traces)
    names = [names] if isinstance(names, str) else [""] * len(traces) if names is None else list(map(str, names))
    if not traces or len(names) != len(traces):
        raise ValueError(f"expected one trace or more, and as many names: got {len(traces)} and {len(names)}")
    for trace, name in zip(traces, names, strict=True):
        try:
            (checked_join if is_join(trace) and len(traces) == 1 else checked)(trace, VERSION)
        except ValueError as wrong:
            raise ValueError(f"{name or 'this'} is not a trace: {wrong}") from None
    return traces, names


def title_of(traces: list[dict], names: list[str]) -> str:
    """Return the title of a report: what was run. names: of the runs, which may be empty."""
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
    """Return the result of the run as a paragraph."""
    if len(traces) > 1:
        return paragraph("Compared on the same axes and in the same colours.", "result")
    trace = traces[0]
    if is_join(trace):
        return paragraph(f"{about(trace['result']['tuples'], 'tuple')} in {seconds(trace['seconds'])}.", "result")
    took = f" in {seconds(trace['seconds'])}" if "seconds" in trace else ""
    return paragraph(f"{outcome(trace)}{took}{'' if 'result' in trace else ' so far'}.", "result")


def _sections_of_one(trace: dict) -> list[str]:
    """Return the sections of the report of one run; a section without content is ""."""
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
    label = escape(title_of_join(trace))
    return _drawings([inlined(figure, f"j-{name}", label) for name, figure in join_figures([trace], [""]).items()])


def _drawings(svgs: list[str]) -> str:
    """Return a figure without a caption for each SVG."""
    return "\n".join(f'<figure>\n<div class="drawing">\n{svg}\n</div>\n</figure>' for svg in svgs)


def _sections_of_several(traces: list[dict], names: list[str]) -> list[str]:
    """Return the sections of several runs: a column for each, labelled by its differing settings."""
    run_labels = labels(traces, names if any(names) else None)
    summaries = [summary(trace) for trace in traces]
    facts_in_order = dict.fromkeys(name for each in summaries for name in each)
    rows = [[name, *(each.get(name, "") for each in summaries)] for name in facts_in_order]
    events = [heading(label) + _events(trace, f"-{n}") for n, (label, trace) in enumerate(zip(run_labels, traces, strict=True))]
    return [
        section("summary", "Summary", table("Each run", [("", ""), *((label, "text") for label in run_labels)], rows)),
        section("figures", "Balance and time", _comparison(traces, run_labels)),
        section("events", "Events", "\n".join(events)),
        section("configuration", "Configuration", configuration(traces, names if all(names) else run_labels)),
    ]


def _figures(trace: dict) -> str:
    """Return the panels of a closure, or of the slowest strata on the partitions."""
    if "strata" not in trace:
        return _panels(RecordedRun(trace), "f", trace)
    spread = spread_strata(trace)
    chosen = _strata_to_draw(spread)
    parts = [
        heading(named(stratum)) + _panels(RecordedRun(stratum["trace"], named(stratum)), f"f{place}", stratum)
        for place, stratum in enumerate(chosen)
    ]
    if spread != chosen:
        left = about(len(spread) - len(chosen), "stratum", "strata")
        parts.append(paragraph(f"Not drawn: {left} on the partitions of one iteration, or of less time.", "quiet"))
    return "\n".join(parts)


def _strata_to_draw(spread: list[dict]) -> list[dict]:
    """Return the first strata with several iterations, as many as fit on a page of about a megabyte."""
    several = [stratum for stratum in spread if len(stratum["trace"]["iterations"]) > 1] or spread
    drawn = several[:1]  # however many iterations it has
    for stratum in several[1:MAX_DRAWN_STRATA]:
        if sum(len(each["trace"]["iterations"]) for each in [*drawn, stratum]) <= MAX_DRAWN_ITERATIONS:
            drawn.append(stratum)
    return drawn


def _panels(run: RecordedRun, name: str, record: dict) -> str:
    """Return the panels of a run. name: the prefix of their names on the page; record: of the closure or the stratum, with its
    account."""
    panels = drawn_figures([run.trace], [*PANELS], [""], PANEL_INCHES) if len(run) else ()
    shown = "\n".join(_figure(each.panel, f"{name}-{each.panel}", each.figure, each.runs) for each in panels)
    took = reconciled(record, sum(entry.get("seconds", 0.0) for entry in run.iterations))
    return f'{took}<div class="figures">\n{shown}\n</div>' if shown else ""


def _courses(trace: dict) -> str:
    """Return figures of the slowest strata that recurred in the driver: the tuples of each iteration."""
    found = stratum_courses(trace)
    several = [(stratum, course) for stratum, course in found if len(course) > 1]
    drawn = several[:MAX_DRAWN_STRATA]
    parts = [heading(named(stratum)) + _course(f"c{place}", course) for place, (stratum, course) in enumerate(drawn)]
    if left := len(found) - len(parts):
        parts.append(paragraph(f"Not drawn: {about(left, 'stratum', 'strata')} of one iteration, or of less time.", "quiet"))
    return "\n".join(parts)


def _course(name: str, course: StratumCourse) -> str:
    """Return the figures of a stratum's course as HTML."""
    titles = {
        births_panel: "Line chart: tuples of each iteration",
        iteration_times: "Stacked areas: time of each iteration",
    }
    drawn = [
        inlined(panel_alone(panel, course, PANEL_INCHES), f"{name}-{panel.__name__}", escape(title))
        for panel, title in titles.items()
    ]
    return paragraph(f"{course.sentence()}.", "quiet") + f'\n<div class="figures">\n{_drawings(drawn)}\n</div>'


def _comparison(traces: list[dict], run_labels: list[str]) -> str:
    """Return every panel, with all runs side by side, as HTML. run_labels: for the captions."""
    shown = drawn_figures(traces, [*PANELS, "strata", "rules"], run_labels)
    parts = [_figure(each.panel, f"c-{each.name}", each.figure, each.runs) for each in shown]
    return '<div class="figures single">\n' + "\n".join(parts) + "\n</div>"


def _figure(panel: str, name: str, figure, beside: list[RecordedRun]) -> str:
    """Return one figure with its description as HTML. Its own title is removed, as the page has it. beside: the runs in it."""
    figure.suptitle("")
    name, caption = "".join(c if c.isalnum() else "-" for c in name), "<br>\n".join(map(escape, description(panel, beside)))
    across = ' tabindex="0"' * (len(beside) > 1)  # wider than a phone
    drawing = f'<div class="drawing"{across}>\n{inlined(figure, name, escape(title_of_figure(panel, beside)))}\n</div>'
    return f"<figure>\n{drawing}\n<figcaption>{caption}</figcaption>\n</figure>"


def _events(trace: dict, name: str = "") -> str:
    """Return the balancing events in order as a list; a long one is folded. name: distinguishes it on the page."""
    if "strata" in trace:
        events_by_prefix = [(f"{named(s)}: ", s.get("trace", {}).get("events", [])) for s in trace["strata"]]
    else:
        events_by_prefix = [("", trace["events"])]
    sentences = [prefix + sentence for prefix, events in events_by_prefix for sentence in events_in_words(events)]
    if not sentences:
        return paragraph("Nothing was moved.", "quiet")
    if len(sentences) <= MAX_UNFOLDED_EVENTS:
        return bullet_list(sentences)
    listed = sentences[:MAX_LISTED_EVENTS]
    if len(sentences) > MAX_LISTED_EVENTS:
        listed.append(f"… and {number(len(sentences) - MAX_LISTED_EVENTS)} more")
    title = f"All {number(len(sentences))} events"
    return bullet_list(sentences[:MAX_UNFOLDED_EVENTS]) + folded(f"more-events{name}", title, bullet_list(listed))


def _footer(traces: list[dict]) -> str:
    begun = [time.strftime("%d %B %Y, %H:%M UTC", time.gmtime(t["started"])) for t in traces if "started" in t]
    return f"<footer>{escape('Recorded ' + '; '.join(begun) + '.') if begun else ''}</footer>"
