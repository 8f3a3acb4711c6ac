"""Draw one figure of any run: a closure, a program, or a multiway join."""

from semi_naive.balance.joins import checked_join, is_join
from semi_naive.balance.trace import VERSION
from semi_naive.plots.figures import overview
from semi_naive.plots.joins import join_figures
from semi_naive.plots.panels import rules_panel, strata_panel
from semi_naive.plots.style import new_figure

ROW, AROUND = 0.26, 1.2  # inches of a stratum or a rule, and of the margins
MAX_PANEL_ROWS = 20  # rows of a panel


def picture(trace: dict):
    """Return a matplotlib Figure: for a closure the overview of its balance, for a program the time of its strata and rules,
    for a join the distribution of work. Raises ValueError for an invalid trace."""
    if is_join(trace):
        (figure,) = join_figures([checked_join(trace, VERSION)], [""]).values()
        return figure
    return _program_figure(trace) if "strata" in trace else overview(trace)


def _program_figure(trace: dict):
    """Return the figure of a program: its slowest strata and rules."""
    rows_of_panel = {strata_panel: trace["strata"], rules_panel: trace.get("profile", {}).get("rules", [])}
    drawn = [panel for panel, rows in rows_of_panel.items() if rows] or [strata_panel]
    heights = [AROUND + ROW * min(max(2, len(rows_of_panel[panel])), MAX_PANEL_ROWS) for panel in drawn]
    figure = new_figure(11, sum(heights) + 0.4, str(trace.get("program", "a program")))
    all_axes = figure.subplots(len(drawn), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, panel in zip(all_axes, drawn, strict=True):
        panel(axes, trace)
    return figure
