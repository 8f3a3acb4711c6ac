"""The tokens of a program's text."""

import re
from collections.abc import Iterator, Mapping

from semi_naive.language.errors import Span
from semi_naive.language.origins import Text


class Token(str):
    """The text of a terminal, and its place. type: the terminal; start, end: positions in the program's text; span: the place
    in the file that it comes from."""

    __slots__ = ("type", "start", "end", "span")
    type: str
    start: int
    end: int
    span: Span

    def __new__(cls, text: str, type: str, start: int, end: int, span: Span):
        token = str.__new__(cls, text)
        token.type, token.start, token.end, token.span = type, start, end, span
        return token

    @classmethod
    def spanning(cls, text: str, type: str, first: "Token", last: "Token") -> "Token":
        """Return a token made of several. first, last: its first and last part."""
        return cls(text, type, first.start, last.end, first.span if first is last else first.span.to(last.span))


def tokens_of(
    text: Text, pattern: re.Pattern, words: Mapping[str, Mapping[str, str]], ignored: frozenset[str]
) -> Iterator[Token]:
    """Yield the tokens of a text.

    pattern: matches any part of a text, by a group for each terminal.
    words: {terminal: {text: other terminal}}, for the texts that are tokens of another terminal, such as keywords.
    ignored: terminals whose tokens are left out."""
    file, line, line_start, piece_end = "", 1, 0, 0  # of the current piece; its current line, and where that begins
    for match in pattern.finditer(text.whole()):
        kind, value, (start, end) = match.lastgroup, match.group(), match.span()
        if start >= piece_end:
            (file, line, column), piece_end = text.place(start), text.piece_end(start)
            line_start = start - column + 1
        first_line, column = line, start - line_start + 1
        if "\n" in value:
            line, line_start = line + value.count("\n"), start + value.rindex("\n") + 1
        if kind is not None and kind not in ignored:
            kind = words[kind].get(value, kind) if kind in words else kind
            is_whole = end <= piece_end
            span = Span(file, first_line, column, line, end - line_start + 1) if is_whole else text.between(start, end)
            yield Token(value, kind, start, end, span)
