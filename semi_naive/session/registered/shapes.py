"""The shape of rules: texts of one shape are right, or wrong, together. So of many that are alike one is checked.

    .decl near7(y: number)                         .decl near8(y: number)
    near7(y) :- reach(7, y).                       near8(y) :- reach(8, y).

The relation that a text is for may have any name, and constants any value of their sort; a statement counts once, however many
there are like it. All else is part of the shape as it stands, and so is what the text reads of the session.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from semi_naive.language.parse import words

# Strings without escapes, comments, numbers but for zeros, words with what they begin with, and dots that end a statement.
_TOKENS = re.compile(
    r'"[^"]*"|//[^\n]*|/\*.*?\*/|(?<![\w?.])0*[1-9][0-9]{0,17}(?![\w?]|\.[0-9])'
    r"|[$@]?[a-zA-Z_?][\w?]*(?:\.[a-zA-Z_?][\w?]*)*|\.(?=\s|$)", re.ASCII | re.DOTALL,
)  # fmt: skip
# What may be wrong whatever its sort is, or be another thing elsewhere: patterns, plans, lines, what is read before the parser.
_UNLIKE = re.compile(r"[\\#]|__|\bmatch\b|\.(?!decl\s)[a-z_]+\s", re.ASCII)
_NAME = re.compile(r"[a-zA-Z?][\w?]*|_[\w?]+", re.ASCII)
_DOTTED = re.compile(r"[a-zA-Z_?][\w?]*\s*\.\s+[a-zA-Z_?]", re.ASCII)  # may be the name of a relation in a component
ITSELF, END = "\0", "\1"
MOST = 10_000  # shapes that are kept


@dataclass(frozen=True)
class Shape:
    """parts: what each statement looks like, each once; `sample`: a statement of each, if others are like one of them."""

    parts: tuple[str, ...]
    sample: str = ""


def shape_of(name: str, text: str) -> Shape | None:
    """Of rules for a relation; None where they may be unlike what they look like. 10 µs a rule.

    >>> shape_of("r", "r(x) :- e(x, 3). r(5).").parts == shape_of("s", "s(x) :- e(x, 7). s(8). s(9).").parts
    True
    >>> shape_of("s", "s(x) :- e(x, 7). s(8). s(9).").sample
    's(x) :- e(x, 7). s(8).'
    """
    if _UNLIKE.search(text) or ITSELF in text or END in text:
        return None
    ends = []

    def alike(found: re.Match) -> str:
        one = found[0]
        if one == ".":
            ends.append(found.end())
            return END
        return ITSELF if one == name else _SORTS.get(one[0], one)

    parts = [part.strip() for part in _TOKENS.sub(alike, text).split(END)]
    if len(set(parts)) == len(parts):
        return Shape(tuple(parts))
    if _DOTTED.search(text):
        return None
    statements: dict[str, str] = {}
    for part, begin, end in zip(parts, [0, *ends], [*ends, len(text)], strict=True):
        statements.setdefault(part, text[begin:end])
    sample = "".join(statements.values())
    declared_twice = sample.count(".decl") < text.count(".decl")
    return None if declared_twice else Shape(tuple(statements), sample)


_SORTS = {'"': '""', "/": " ", **dict.fromkeys("0123456789", "1")}


@dataclass
class Right:
    """What is known of the rules of one shape. reads: the relations of the session, as they were. inline: other rules read the
    statements in place of the relation."""

    reads: dict[str, Any]
    own: frozenset[str]  # what else is declared with the relation
    parameters: tuple[str, ...]
    inline: bool = False


@dataclass
class Shapes:
    """Those that have been found right. types: names with another meaning, as words of the grammar have."""

    types: Container[str]
    right: dict[tuple[str, ...], Right] = field(default_factory=dict)

    def of(self, name: str, text: str, known: Mapping[str, Any]) -> Shape | None:
        """The shape of rules, if it can tell anything about them."""
        if name in known or name in self.types or name in words() or not _NAME.fullmatch(name):
            return None
        return shape_of(name, text)

    def get(self, shape: Shape, known: Mapping[str, Any]) -> Right | None:
        """What is known of the shape, if it reads the very relations that it did."""
        found = self.right.get(shape.parts)
        if found is None or any(known.get(name) is not each for name, each in found.reads.items()):
            return None
        return None if found.own & known.keys() else found

    def keep(self, shape: Shape, right: Right) -> None:
        if len(self.right) >= MOST:
            self.right.clear()
        if not any("." in name for name in right.reads):  # a dotted name may begin with that of the relation
            self.right[shape.parts] = right
