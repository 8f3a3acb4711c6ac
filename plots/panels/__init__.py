"""The panels: each draws one thing of a run on axes that it is given, `panel(axes, run)`, and reads nothing but the run.

`among` are the runs that it is drawn beside: what is chosen by the numbers (a colour's meaning, a logarithmic axis, a second
axis) is chosen for all of them, so that side by side one may compare. A panel that has nothing to show of a run says why.
"""

from .balance import imbalance
from .heat import heat_map
from .partitions import partitions
from .program import rules, strata
from .stacks import duplicates, shuffled, times
from .tuples import tuples

__all__ = ["duplicates", "heat_map", "imbalance", "partitions", "rules", "shuffled", "strata", "times", "tuples"]
