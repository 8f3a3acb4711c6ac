"""A picture of the balance: where the tuples were, how evenly, and where the time went.

save(closure.trace, "balance.png")
"""

from semi_naive.plots import style
from semi_naive.plots.figures import overview


def save(trace: dict, path) -> None:
    """Draw the overview of a trace into a file, .png, .svg or .pdf: whole or not at all."""
    style.save(overview(trace), path)
