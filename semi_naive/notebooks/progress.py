"""Show the progress of a run: an HTML bar in a notebook, the bar of the commands on a terminal.

`Program.run(…, progress=None)` shows one in a notebook, True on a terminal as well, False none.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from semi_naive.progress_text import UPDATE_SECONDS, ProgressText

SECONDS_BEFORE_BAR = 1.0  # seconds before a notebook shows a bar; most runs end sooner


class InNotebook(ProgressText):
    """A progress bar, an HTML element that is updated during the run, and removed after it."""

    def __init__(self, what: str):
        self.what, self.begun, self.element = what, time.monotonic(), None
        self.last = self.begun + SECONDS_BEFORE_BAR - UPDATE_SECONDS  # such that the first update comes after these seconds

    def __enter__(self):
        return self

    def show(self, text, name, done, total) -> None:
        """Show a text. name: of the stratum; done, total: steps, if known."""
        from html import escape

        many = "" if done is None or not total else f' value="{done}" max="{total}"'
        took = f"{time.monotonic() - self.begun:.0f} s"
        bar = f'<progress{many} aria-label="{escape(self.what)}" style="vertical-align:middle"></progress>'
        self._replace_element(f"<div>{bar} {escape(f'{name or self.what}: {text} · {took}')}</div>")

    def _replace_element(self, html: str) -> None:
        from IPython.display import HTML, display

        if self.element is None:
            self.element = display(HTML(html), display_id=True)
        else:
            self.element.update(HTML(html))

    def __exit__(self, *_):
        if self.element is not None:
            self._replace_element("")


def in_notebook() -> bool:
    """True if this process is a Jupyter kernel, which shows HTML; a shell of IPython on a terminal is none."""
    module: Any = sys.modules.get("IPython")
    shell = module and module.get_ipython()
    return hasattr(shell, "kernel")


@contextmanager
def showing(progress, what: str, steps: str) -> Iterator[Callable[..., None] | None]:
    """Yield the progress callback of a run: `progress` itself, or a bar. what: the name of the run; steps: "stratum" or
    "closure", the method of the bar that is called back."""
    bar: Any = None
    if progress in (None, True) and in_notebook():
        bar = InNotebook(what)
    elif progress is True:
        from semi_naive.cli.progress import Progress

        bar = Progress(what, quiet=False)
    if bar is None:
        yield progress or None
        return
    with bar:
        yield getattr(bar, steps)
