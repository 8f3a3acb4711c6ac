"""A progress bar on standard error; the same text is shown on the live page."""

import logging
import sys

from semi_naive.progress_text import ProgressText

_log, _compiling = logging.getLogger("semi_naive"), logging.getLogger("semi_naive.compiling")


class _LogAboveBar(logging.Handler):
    """Prints log records above the bar."""

    def __init__(self, console):
        super().__init__()
        self.console = console

    def emit(self, record) -> None:
        self.console.print(f"semi-naive: {record.getMessage()}", highlight=False)


class Progress(ProgressText):
    """A progress bar, shown while the `with` block runs if standard error is a terminal. `rich` is loaded only then.

    what: the name of the run; page: the live page, if any.
    """

    def __init__(self, what: str, quiet: bool, page=None):
        self.bar, self.page, self.what = None, page, what
        if quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.fields[text]}"))
        self.bar = Bar(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
        self.lines = _LogAboveBar(self.bar.console)

    def __enter__(self):
        if self.bar:
            _log.addHandler(self.lines)
            _compiling.setLevel(logging.INFO)
            self.bar.start()
            self.task = self.bar.add_task(self.what, total=None, text="reading")
        return self

    def __exit__(self, *error):
        if self.bar:
            self.bar.stop()
            _log.removeHandler(self.lines)

    def show(self, text: str, name: str, done: int | None, total: int | None) -> None:
        """Show a text. name: of the stratum; done, total: steps, if known."""
        if self.page:
            self.page.say(f"{name}: {text}" if name else text)
        if self.bar:
            self.bar.update(self.task, description=name or self.what, text=text, completed=done, total=total)
