"""The tokens of a program's text."""

import re
from collections.abc import Iterator, Mapping


class Token(str):
    """The text of a terminal, and its place. Lines and columns begin at 1; the end is the position after the token."""

    __slots__ = ("type", "start_pos", "line", "column", "end_line", "end_column", "end_pos")

    def __new__(cls, text, type="", start_pos=0, line=1, column=1, end_line=1, end_column=1, end_pos=0):
        """type: the terminal; start_pos, end_pos: positions in the text; line, column: from 1."""
        made = str.__new__(cls, text)
        made.type, made.start_pos, made.line, made.column = type, start_pos, line, column
        made.end_line, made.end_column, made.end_pos = end_line, end_column, end_pos
        return made

    @classmethod
    def spanning(cls, text: str, type: str, first: "Token", last: "Token") -> "Token":
        """Return a token made of several. first, last: its first and last part."""
        return cls(text, type, first.start_pos, first.line, first.column, last.end_line, last.end_column, last.end_pos)


def tokens_of(
    text: str, pattern: re.Pattern, words: Mapping[str, Mapping[str, str]], ignored: frozenset[str]
) -> Iterator[Token]:
    """Yield the tokens of a text.

    pattern: matches any part of a text, by a group for each terminal.
    words: for each terminal, the texts that are tokens of another terminal.
    ignored: terminals whose tokens are left out.
    """
    line, begin = 1, 0  # the current line, and the position where it begins
    for found in pattern.finditer(text):
        kind, some, (start, end), first = found.lastgroup, found.group(), found.span(), line
        column = start - begin + 1
        if "\n" in some:
            line, begin = line + some.count("\n"), start + some.rindex("\n") + 1
        if kind not in ignored:
            kind = words[kind].get(some, kind) if kind in words else kind
            yield Token(some, kind, start, first, column, line, end - begin + 1, end)
