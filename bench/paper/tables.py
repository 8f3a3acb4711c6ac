"""Tables as Markdown and as CSV."""

import csv
import io
from dataclasses import dataclass, field

NOTHING = "–"


@dataclass
class ResultTable:
    """Rows of numbers, texts and None, which is a dash: not known, or not measured."""

    title: str
    columns: list[str]
    rows: list[list] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """
        >>> print(ResultTable("Closures", ["graph", "pairs"], [["chain", 1225], ["star", None]]).markdown())
        ## Closures
        <BLANKLINE>
        | graph | pairs |
        |---|---:|
        | chain | 1,225 |
        | star | – |
        <BLANKLINE>
        """
        rules = [":".rjust(4, "-") if self._is_numeric(place) else "---" for place in range(len(self.columns))]
        lines = [_line(self.columns), f"|{'|'.join(rules)}|", *(_line([text(cell) for cell in row]) for row in self.rows)]
        notes = [f"\n{note}" for note in self.notes]
        return "\n".join([f"## {self.title}", "", *lines, *notes, ""])

    def csv(self) -> str:
        """Numbers as they are, and nothing where nothing is known."""
        found = io.StringIO()
        writer = csv.writer(found, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(["" if cell is None else cell for cell in row] for row in self.rows)
        return found.getvalue()

    def _is_numeric(self, place: int) -> bool:
        cells = [row[place] for row in self.rows if row[place] is not None]
        return bool(cells) and all(isinstance(cell, (int, float)) for cell in cells)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"  # a bar would begin a column


def text(value) -> str:
    """A cell as one reads it.

    >>> text(400440055), text(204.8), text(1.00123), text(0.00071), text(None), text("up")
    ('400,440,055', '204.8', '1.001', '0.00071', '–', 'up')
    """
    if value is None:
        return NOTHING
    if isinstance(value, float) and 0 < abs(value) < 0.01:
        return f"{value:.2g}"
    if isinstance(value, float):
        digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
        return f"{value:,.{digits}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
