"""Format the progress of a run as text, for a terminal, a notebook or a page."""

import time

from semi_naive.host.numbers import quantity, shortened

UPDATE_SECONDS = 0.1  # seconds between two updates; iterations may be shorter
MAX_NAME_CHARACTERS = 30  # characters of a stratum's name


class ProgressText:
    """A progress callback that formats progress as text; subclasses display it in `show`."""

    tick, last = UPDATE_SECONDS, 0.0

    def closure(self, iteration: int, delta: int, tuples: int, done: int | None = None, total: int | None = None) -> None:
        """Report the progress of a closure. tuples: the pairs so far; done, total: groups of the decomposed plan."""
        pairs = f"iteration {iteration} · delta {delta:,} · {quantity(tuples, 'pair')}"
        self._say(pairs if done is None else f"groups {done} of {total}", "", done, total)

    def stratum(self, name: str, number: int, of: int, iteration: int, delta: int, tuples: int) -> None:
        """Report the progress of a program: of stratum `number` of `of`. tuples: those of the stratum so far."""
        text = f"stratum {number} of {of} · iteration {iteration} · delta {delta:,} · {quantity(tuples, 'tuple')}"
        self._say(text, shortened(name, MAX_NAME_CHARACTERS), number - 1, of)

    def _say(self, text: str, name: str, done: int | None, total: int | None) -> None:
        """Display a text, unless the last update was less than `tick` seconds ago. done, total: steps, if known."""
        now = time.monotonic()
        if now > self.last + self.tick:
            self.last = now
            self.show(text, name, done, total)

    def show(self, text: str, name: str, done: int | None, total: int | None) -> None:
        raise NotImplementedError
