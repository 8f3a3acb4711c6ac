"""Panels: functions `panel(axes, run)`, each of which draws one aspect of a run on given axes, and reads nothing else.

`among` are the runs drawn side by side: choices that depend on the data (a colour scale, a logarithmic axis, a second axis) are
made for all of them, so that they can be compared. A panel without data shows the reason.
"""

from semi_naive.plots.panels.balance import imbalance
from semi_naive.plots.panels.heat import heat_map
from semi_naive.plots.panels.partitions import partitions
from semi_naive.plots.panels.program import rules_panel, strata_panel
from semi_naive.plots.panels.stacks import duplicates, shuffled_bytes, times
from semi_naive.plots.panels.tuples import tuples

__all__ = [
    "duplicates", "heat_map", "imbalance", "partitions", "rules_panel", "shuffled_bytes", "strata_panel", "times", "tuples",
]  # fmt: skip
