"""Draw the balance of a run in one figure: the distribution of tuples, the imbalance, and the time.

save(closure.trace, "balance.png")
"""

from semi_naive.plots import style
from semi_naive.plots.figures import overview


def save_overview(trace: dict, path) -> None:
    """Draw the overview of a trace into a file, .png, .svg or .pdf, atomically."""
    style.save_figure(overview(trace), path)
