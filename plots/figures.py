"""Draw the figures of a record: an overview, and one for each panel; several records are drawn side by side.

for name, figure in figures(closure.trace).items():
    save(figure, f"run-{name}.png")
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from semi_naive.balance.joins import checked_join, is_join
from semi_naive.balance.trace import VERSION
from semi_naive.plots.joins import join_figures
from semi_naive.plots.labels import labels
from semi_naive.plots.panels import (
    duplicates,
    heat_map,
    imbalance,
    partitions,
    rules_panel,
    shuffled_bytes,
    strata_panel,
    times,
    tuples,
)
from semi_naive.plots.panels.program import MAX_ROWS
from semi_naive.plots.run import RecordedRun, drawable, recorded_runs
from semi_naive.plots.style import new_figure, same_limits, titled, wrapped

PANELS = {
    "heat": heat_map, "imbalance": imbalance, "times": times, "tuples": tuples, "bytes": shuffled_bytes,
    "duplicates": duplicates, "partitions": partitions,
}  # fmt: skip
BY_TASK = ("times", "tuples", "partitions")  # panels that the decomposed plan has
PROGRAM = {"strata": strata_panel, "rules": rules_panel}  # figures of a Datalog program's record
OVERVIEW = "balance"
NAMES = (OVERVIEW, *PANELS, *PROGRAM)
SHOWN = ("heat", "imbalance", "times", "tuples", "duplicates", "partitions")  # panels of the overview
WIDTH, HEIGHT = 7.5, 4.6  # inches of one panel by itself


def figures(trace: dict, only=None, size: tuple[float, float] = (WIDTH, HEIGHT)) -> dict:
    """Return the figures of one record: matplotlib Figures by name, the overview first.

    A closure has balance, heat, imbalance, times, tuples, bytes, duplicates, partitions; panels without data under the plan are
    left out. A program has strata, rules, and the above for each stratum that was on the partitions, as "path-heat".

    only: the names to draw, without the stratum; None: all. size: inches of a single panel. Raises ValueError for an invalid
    trace, and for an unknown name.
    """
    return {each.name: each.figure for each in drawn_figures([trace], _checked_names(only), [""], size)}


def overview(trace: dict):
    """Return the main panels of a closure's or a stratum's trace in one figure. For the record of a program with one stratum on
    the partitions, they are those of that stratum."""
    runs = recorded_runs(trace)
    if len(runs) > 1:
        raise ValueError(f"expected the trace of one stratum, got those of {', '.join(runs)}: `figures` draws each")
    return _overview(next(iter(runs.values())))


def comparison(traces: list, names=None, only=None) -> dict:
    """Return the figures of several records side by side, with common axes and colours, by name, as in `figures`. Each record
    is labelled by its name, if it has one, and by the settings in which the records differ. Programs are compared by the
    strata that all of them have. Raises ValueError if there is none."""
    if len(traces) < 2:
        raise ValueError(f"expected two traces or more to compare, got {len(traces)}")
    return {each.name: each.figure for each in drawn_figures(traces, _checked_names(only), labels(traces, names))}


def picture(trace: dict):
    """Return a matplotlib Figure: for a closure the overview of its balance, for a program the time of its strata and rules,
    for a join the distribution of work. Raises ValueError for an invalid trace."""
    if is_join(trace):
        (figure,) = join_figures([checked_join(trace, VERSION)], [""]).values()
        return figure
    if "strata" not in trace:
        return overview(trace)
    return _rows_figure([(name, trace, "") for name in PROGRAM if _bars(trace, name)] or [("strata", trace, "")])


class Drawn(NamedTuple):
    """A figure with its name, which begins with the stratum, and the runs in it; the figures of strata and rules have none."""

    name: str
    panel: str
    figure: Any
    runs: list[RecordedRun]


def drawn_figures(
    traces: list[dict], wanted: Sequence[str], record_labels: list[str], size: tuple[float, float] = (WIDTH, HEIGHT)
) -> Iterator[Drawn]:
    """Yield the figures of one record, or of several side by side."""
    runs_of_stratum = _runs_by_stratum([drawable(trace) for trace in traces], record_labels)
    for name in PROGRAM:
        if name in wanted and all("strata" in trace for trace in traces):
            pairs = zip(traces, record_labels, strict=True)
            yield Drawn(name, name, _rows_figure([(name, trace, label) for trace, label in pairs]), [])
    for stratum, runs in runs_of_stratum.items():
        prefix = f"{stratum}-" if stratum else ""
        if OVERVIEW in wanted:
            overview_of_runs = _overview_side_by_side(runs) if len(runs) > 1 else _overview(runs[0])
            yield Drawn(prefix + OVERVIEW, OVERVIEW, overview_of_runs, runs)
        for name in dict.fromkeys(name for run in runs for name in _panels(run)):
            if name in wanted:
                yield Drawn(prefix + name, name, _panel_figure(PANELS[name], runs, size), runs)


def _checked_names(only) -> tuple:
    """Return the names of the figures to draw; all if none are given. Raises ValueError for an unknown name."""
    unknown = [name for name in only or () if name not in NAMES]
    if unknown:
        raise ValueError(f"there is no figure {unknown[0]!r}: expected some of {', '.join(NAMES)}")
    return tuple(only or NAMES)


def _panels(run: RecordedRun) -> tuple:
    """Return the names of the panels that have data under the run's plan."""
    if not len(run):
        return ()
    return BY_TASK if run.by_task else tuple(PANELS)


def _runs_by_stratum(records: list[dict], record_labels: list[str]) -> dict[str, list[RecordedRun]]:
    """Return the labelled runs to compare, by stratum. If each record has one run, the names of the strata need not agree.
    Raises ValueError if the records have no stratum in common. records: the runs of each, by stratum."""
    if all(len(each) == 1 for each in records):
        names = {name for each in records for name in each}
        name = names.pop() if len(names) == 1 else ""
        records = [{name: run} for each in records for run in each.values()]
    common = [name for name in records[0] if all(name in each for each in records)]
    if not common and any(records):
        have = "; ".join(f"{label}: {_strata(each)}" for label, each in zip(record_labels, records, strict=True))
        raise ValueError(f"these runs have no stratum on the partitions in common, so there is nothing to compare ({have})")
    for name in common:
        for label, each in zip(record_labels, records, strict=True):
            each[name].label = label
    return {name: [each[name] for each in records] for name in common}


def _strata(found: dict[str, RecordedRun]) -> str:
    """Return the names of a record's runs as text, for an error."""
    return ", ".join(name or "a closure" for name in found) or "none"


def _overview(run: RecordedRun):
    """Draw the panels that apply to a run on a grid of two columns."""
    if not len(run):
        figure = new_figure(WIDTH, HEIGHT, run.title)
        figure.text(0.5, 0.5, "No iterations: there was nothing to evaluate.", ha="center", va="center", fontsize=13)
        return figure
    names = [name for name in SHOWN if name in _panels(run)]
    rows = -(-len(names) // 2)
    figure = new_figure(13, 4.3 * rows + 0.5, run.title)
    grid = figure.add_gridspec(rows, 2)
    for place, name in enumerate(names):
        alone = place == len(names) - 1 and place % 2 == 0  # if their number is odd, the last one fills a row
        PANELS[name](figure.add_subplot(grid[place // 2, :] if alone else grid[place // 2, place % 2]), run)
    return figure


def panel_alone(panel, shown, size: tuple[float, float], title: str = ""):
    """Return a figure of one panel. size: inches."""
    figure = new_figure(*size, title)
    panel(figure.add_subplot(), shown)
    return figure


def _panel_figure(panel, runs: list[RecordedRun], size: tuple[float, float] = (WIDTH, HEIGHT)):
    """Draw one panel of one run, or of several runs in a grid."""
    if len(runs) == 1:
        return panel_alone(panel, runs[0], size, runs[0].title)
    columns = min(3, len(runs))
    rows = -(-len(runs) // columns)
    figure = new_figure(5 * columns, 4.3 * rows + 0.3)
    all_axes = [figure.add_subplot(rows, columns, place + 1) for place in range(len(runs))]
    _side_by_side(panel, all_axes, runs, with_titles=True)
    return figure


def _overview_side_by_side(runs: list[RecordedRun]):
    """Draw the overview of several runs: a column for each, a row for each panel."""
    names = [name for name in SHOWN if any(name in _panels(run) for run in runs)]
    figure = new_figure(5 * len(runs), 4.1 * len(names) + 0.3)
    for row, name in enumerate(names):
        places = [figure.add_subplot(len(names), len(runs), row * len(runs) + place + 1) for place in range(len(runs))]
        _side_by_side(PANELS[name], places, runs, with_titles=not row)
    return figure


def _side_by_side(panel, all_axes, runs: list[RecordedRun], with_titles: bool) -> None:
    """Draw a panel for each run, with equal axis limits."""
    for axes, run in zip(all_axes, runs, strict=True):
        panel(axes, run, runs)
        if with_titles:
            titled(axes, wrapped(run.label, 40) + "\n" + axes.get_title(loc="left"))
    same_limits(all_axes)


def _rows_figure(rows: list[tuple[str, dict, str]]):
    """Return a figure of the strata or rules of records, given as (name of the panel, record, label), one below the other
    because of the long labels."""
    heights = [1.2 + 0.26 * _height_in_bars(record, name) for name, record, _ in rows]
    records = [record for _, record, _ in rows]
    is_of_one = all(record is records[0] for record in records)
    figure = new_figure(11, sum(heights) + 0.4, _program(records[0]) if is_of_one else "")
    all_axes = figure.subplots(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (name, record, label) in zip(all_axes, rows, strict=True):
        PROGRAM[name](axes, record)
        if label:
            titled(axes, f"{wrapped(label, 100)}\n{axes.get_title(loc='left')}")
    if not is_of_one:
        same_limits(all_axes)
    return figure


def _bars(record: dict, name: str) -> list:
    """Return the entries of a record that the panel of its strata or rules draws."""
    return record.get("strata", []) if name == "strata" else record.get("profile", {}).get("rules", [])


def _height_in_bars(record: dict, name: str) -> int:
    """Return the height of the panel of strata or of rules: a row for each bar, and one for the legend of strata."""
    return max(2, min(len(_bars(record, name)), MAX_ROWS) + (name == "strata"))


def _program(record: dict) -> str:
    facts = [str(record.get("program", "a program"))]
    if "seconds" in record:
        facts.append(f"{record['seconds']:,.2f} s")
    return "  ·  ".join(facts)
