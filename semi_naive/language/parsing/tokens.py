"""The tokens of a program's text."""

import re
from collections.abc import Iterator, Mapping


class Token(str):
    """The text of a terminal, and its place. Lines and columns begin at 1; the end is the position after the token."""

    __slots__ = ("type", "start_pos", "line", "column", "end_line", "end_column", "end_pos")

    def __new__(cls, text, type="", start_pos=0, line=1, column=1, end_line=1, end_column=1, end_pos=0):
        """type: the terminal; start_pos, end_pos: positions in the text; line, column: from 1."""
        token = str.__new__(cls, text)
        token.type, token.start_pos, token.line, token.column = type, start_pos, line, column
        token.end_line, token.end_column, token.end_pos = end_line, end_column, end_pos
        return token

    @classmethod
    def spanning(cls, text: str, type: str, first: "Token", last: "Token") -> "Token":
        """Return a token made of several. first, last: its first and last part."""
        return cls(text, type, first.start_pos, first.line, first.column, last.end_line, last.end_column, last.end_pos)


def tokens_of(
    text: str, pattern: re.Pattern, words: Mapping[str, Mapping[str, str]], ignored: frozenset[str]
) -> Iterator[Token]:
    """Yield the tokens of a text.

    pattern: matches any part of a text, by a group for each terminal.
    words: {terminal: {text: other terminal}}, for the texts that are tokens of another terminal, such as keywords.
    ignored: terminals whose tokens are left out."""
    line, line_start = 1, 0  # the current line, and the position where it begins
    for match in pattern.finditer(text):
        kind, value, (start, end), first_line = match.lastgroup, match.group(), match.span(), line
        column = start - line_start + 1
        if "\n" in value:
            line, line_start = line + value.count("\n"), start + value.rindex("\n") + 1
        if kind not in ignored:
            kind = words[kind].get(value, kind) if kind in words else kind
            yield Token(value, kind, start, first_line, column, line, end - line_start + 1, end)
