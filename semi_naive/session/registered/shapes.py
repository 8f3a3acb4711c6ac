"""The shapes of texts of rules, so that of many similar texts only one is checked: if one text of a shape is valid, all are.

    .decl near7(y: number)                         .decl near8(y: number)
    near7(y) :- reach(7, y).                       near8(y) :- reach(8, y).

Texts of one shape may differ in the name of the relation that they define, in the values of constants of one sort, and in how
often similar statements occur. Everything else is part of the shape, including the relations of the session that the text
reads.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from semi_naive.language.parsing.parse import words

# Strings without escapes, comments, numbers but for zeros, words with what they begin with, and dots that end a statement.
_TOKENS = re.compile(
    r'"[^"]*"|//[^\n]*|/\*.*?\*/|(?<![\w?.])0*[1-9][0-9]{0,17}(?![\w?]|\.[0-9])'
    r"|[$@]?[a-zA-Z_?][\w?]*(?:\.[a-zA-Z_?][\w?]*)*|\.(?=\s|$)", re.ASCII | re.DOTALL,
)  # fmt: skip
# Texts that no other text of the shape speaks for: patterns, plans, lines, directives of the preprocessor.
_UNLIKE = re.compile(r"[\\#]|__|\bmatch\b|\.(?!decl\s)[a-z_]+\s", re.ASCII)
_NAME = re.compile(r"[a-zA-Z?][\w?]*|_[\w?]+", re.ASCII)
_DOTTED = re.compile(r"[a-zA-Z_?][\w?]*\s*\.\s+[a-zA-Z_?]", re.ASCII)  # may be the name of a relation in a component
ITSELF, END = "\0", "\1"
MOST_SHAPES = 10_000  # shapes that are remembered; about 10 MB


@dataclass(frozen=True)
class TextShape:
    """The shape of a text of rules. parts: the distinct forms of its statements. sample: one statement of each form, if several
    have one form.
    """

    parts: tuple[str, ...]
    sample: str = ""


def shape_of(name: str, text: str) -> TextShape | None:
    """Return the shape of rules for a relation, or None if their form does not determine whether they are valid. 10 µs a
    rule.

    >>> shape_of("r", "r(x) :- e(x, 3). r(5).").parts == shape_of("s", "s(x) :- e(x, 7). s(8). s(9).").parts
    True
    >>> shape_of("s", "s(x) :- e(x, 7). s(8). s(9).").sample
    's(x) :- e(x, 7). s(8).'
    """
    if _UNLIKE.search(text) or ITSELF in text or END in text:
        return None
    ends = []

    def alike(found: re.Match) -> str:
        """Return the part of the form that a token stands for; also record the ends of statements."""
        token = found[0]
        if token == ".":
            ends.append(found.end())
            return END
        return ITSELF if token == name else _SORTS.get(token[0], token)

    parts = [part.strip() for part in _TOKENS.sub(alike, text).split(END)]
    if len(set(parts)) == len(parts):
        return TextShape(tuple(parts))
    if _DOTTED.search(text):
        return None
    statements: dict[str, str] = {}
    for part, begin, end in zip(parts, [0, *ends], [*ends, len(text)], strict=True):
        statements.setdefault(part, text[begin:end])
    sample = "".join(statements.values())
    declared_twice = sample.count(".decl") < text.count(".decl")
    return None if declared_twice else TextShape(tuple(statements), sample)


_SORTS = {'"': '""', "/": " ", **dict.fromkeys("0123456789", "1")}


@dataclass
class CheckedShape:
    """The result of checking one text of a shape. reads: the relations of the session that it reads, as they were. own: the
    other relations that it declares. inline: other rules read the statements in place of the relation.
    """

    reads: dict[str, Any]
    own: frozenset[str]
    parameters: tuple[str, ...]
    inline: bool = False


@dataclass
class Shapes:
    """The shapes that have been checked and are valid. types: names that cannot name a relation, as those of types."""

    types: Container[str]
    right: dict[tuple[str, ...], CheckedShape] = field(default_factory=dict)

    def of(self, name: str, text: str, known: Mapping[str, Any]) -> TextShape | None:
        """Return the shape of rules, or None if they must be checked themselves. known: the relations of the session, by
        name."""
        if name in known or name in self.types or name in words() or not _NAME.fullmatch(name):
            return None
        return shape_of(name, text)

    def get(self, shape: TextShape, known: Mapping[str, Any]) -> CheckedShape | None:
        """The result for the shape, if it reads the same relations as then. known: the relations of the session, by name."""
        found = self.right.get(shape.parts)
        if found is None or any(known.get(name) is not each for name, each in found.reads.items()):
            return None
        return None if found.own & known.keys() else found

    def keep(self, shape: TextShape, right: CheckedShape) -> None:
        """Remember a valid shape."""
        if len(self.right) >= MOST_SHAPES:
            self.right.clear()
        if not any("." in name for name in right.reads):  # a dotted name may begin with that of the relation
            self.right[shape.parts] = right
