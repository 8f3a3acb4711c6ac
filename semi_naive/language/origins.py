"""The origin of each part of a text that is assembled from files and macros."""

import os
from bisect import bisect_right
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType

from semi_naive.language.errors import Span

MAX_FILES = 10_000
TOO_MANY_FILES = f"more than {MAX_FILES:,} files are included"


# By path: the editor's text of unsaved files.
UNSAVED: ContextVar[Mapping[str, str]] = ContextVar("UNSAVED", default=MappingProxyType({}))


def read_text(path: str | os.PathLike) -> str:
    """Return the text of a source file; bytes that are not UTF-8 are kept, so that they can be written again."""
    unsaved = UNSAVED.get()
    if unsaved and (text := unsaved.get(os.path.abspath(path))) is not None:
        return text
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        return file.read()


class Text:
    """A program's text, assembled from pieces; `place` returns the origin of a position.

    >>> text = Text("a.dl")
    >>> text.append("A(1).", "a.dl", 1, 1)
    >>> text.append("B(2).", "b.dl", 7, 3)
    >>> text.whole(), text.place(6)
    ('A(1).B(2).', ('b.dl', 7, 4))
    """

    def __init__(self, file: str):
        self._parts: list[str] = []
        self._length = 0  # characters of all parts
        self._starts = [0]  # offsets at which the pieces begin
        self._places = [(file, 1, 1)]  # the file, line and column of each piece
        self._next = (file, 1, 1)  # the place after the last piece

    def append(self, part: str, file: str, line: int, column: int):
        """Append text that begins at a place of a file."""
        if self._next != (file, line, column):
            self._starts.append(self._length)
            self._places.append((file, line, column))
            self._next = (file, line, column)
        self.extend(part)

    def extend(self, part: str):
        """Append text that continues the last piece, or blanks, whose origin is irrelevant."""
        self._parts.append(part)
        self._length += len(part)
        file, line, column = self._next
        newlines = part.count("\n")
        self._next = (file, line + newlines, len(part) - part.rfind("\n") if newlines else column + len(part))

    def copy(self, other: "Text", start: int, end: int):
        """Append a part of another text, with its origins."""
        whole, cuts = other.whole(), other._starts
        inner = cuts[bisect_right(cuts, start) : bisect_right(cuts, end - 1)]
        for left, right in zip([start, *inner], [*inner, end], strict=True):
            if left < right:
                self.append(whole[left:right], *other.place(left))

    def whole(self) -> str:
        """Return the text as one string."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def place(self, position: int) -> tuple[str, int, int]:
        """Return the file, line and column of a position."""
        index = bisect_right(self._starts, position) - 1
        start, (file, line, column) = self._starts[index], self._places[index]
        whole = self.whole()
        newlines = whole.count("\n", start, position)
        if newlines:
            return file, line + newlines, position - whole.rfind("\n", start, position)
        return file, line, column + position - start

    def piece_end(self, position: int) -> int:
        """Return the end of the piece that contains a position."""
        index = bisect_right(self._starts, position)
        return self._starts[index] if index < len(self._starts) else self._length

    def between(self, start: int, end: int) -> Span:
        """Return the span of the part between two positions, which may be empty and at the end of the text."""
        file, line, column = self.place(start)
        if end <= start:
            return Span(file, line, column, line, column)
        last_file, end_line, end_column = self.place(end - 1)
        if last_file != file:  # a span is in one file, so the first character stands for the part
            return Span(file, line, column, line, column + 1)
        return Span(file, line, column, end_line, end_column + 1)
