"""The shapes of texts of rules. If one text of a shape is valid, all are, so only one of many similar texts is checked.

    .decl near7(y: number)                         .decl near8(y: number)
    near7(y) :- reach(7, y).                       near8(y) :- reach(8, y).

Texts of one shape may differ in the name of the relation that they define, in the values of constants, but not in their types,
and in the number of similar statements. The rest of the text is its shape, including the relations of the session that it
reads.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from semi_naive.language.parsing.parse import words

# Strings without escapes, comments, numbers except for zeros, words with their first sign ($ or @), dots that end a statement.
_TOKENS = re.compile(
    r'"[^"]*"|//[^\n]*|/\*.*?\*/|(?<![\w?.])0*[1-9][0-9]{0,17}(?![\w?]|\.[0-9])'
    r"|[$@]?[a-zA-Z_?][\w?]*(?:\.[a-zA-Z_?][\w?]*)*|\.(?=\s|$)", re.ASCII | re.DOTALL,
)  # fmt: skip
# Texts whose validity depends on more than their shape: patterns, plans, line numbers, directives of the preprocessor.
_WITHOUT_SHAPE = re.compile(r"[\\#]|__|\bmatch\b|\.(?!decl\s)[a-z_]+\s", re.ASCII)
_NAME = re.compile(r"[a-zA-Z?][\w?]*|_[\w?]+", re.ASCII)
_DOTTED = re.compile(r"[a-zA-Z_?][\w?]*\s*\.\s+[a-zA-Z_?]", re.ASCII)  # may be the name of a relation in a component
ITSELF, END = "\0", "\1"  # in a shape: the name of the relation that the text defines, and the end of a statement
MAX_SHAPES = 10_000  # shapes that are stored at most, in about 10 MB


@dataclass(frozen=True)
class TextShape:
    """The shape of a text of rules. parts: the distinct shapes of its statements. sample: if statements have the same shape, a
    shorter text with one statement of each shape."""

    parts: tuple[str, ...]
    sample: str = ""


def shape_of(name: str, text: str) -> TextShape | None:
    """Return the shape of a text of rules for the relation `name`; None if the shape does not determine whether the text is
    valid. Takes 10 µs a rule.

    >>> shape_of("r", "r(x) :- e(x, 3). r(5).").parts == shape_of("s", "s(x) :- e(x, 7). s(8). s(9).").parts
    True
    >>> shape_of("s", "s(x) :- e(x, 7). s(8). s(9).").sample
    's(x) :- e(x, 7). s(8).'
    """
    if _WITHOUT_SHAPE.search(text) or ITSELF in text or END in text:
        return None
    ends = []

    def replacement(match: re.Match) -> str:
        """Return the text that replaces a token in the shape; also record the ends of statements."""
        token = match[0]
        if token == ".":
            ends.append(match.end())
            return END
        return ITSELF if token == name else _REPLACEMENTS.get(token[0], token)

    parts = [part.strip() for part in _TOKENS.sub(replacement, text).split(END)]
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


# The texts that replace strings, comments and numbers in a shape, by their first character.
_REPLACEMENTS = {'"': '""', "/": " ", **dict.fromkeys("0123456789", "1")}


@dataclass
class CheckedShape:
    """The result of checking one text of a shape.
    reads: the relations of the session that it reads, as they were when it was checked.
    others: the relations that it declares, without the one that it defines.
    inline: the statements replace the relation in rules that read it."""

    reads: dict[str, Any]
    others: frozenset[str]
    parameters: tuple[str, ...]
    inline: bool = False


@dataclass
class Shapes:
    """The shapes of texts that were valid. types: the names of types, which relations cannot have."""

    types: Container[str]
    valid: dict[tuple[str, ...], CheckedShape] = field(default_factory=dict)

    def of(self, name: str, text: str, readable: Mapping[str, Any]) -> TextShape | None:
        """Return the shape of a text of rules for the relation `name`; None if this text has to be checked itself. readable:
        the relations of the session, by name."""
        if name in readable or name in self.types or name in words() or not _NAME.fullmatch(name):
            return None
        return shape_of(name, text)

    def get(self, shape: TextShape, readable: Mapping[str, Any]) -> CheckedShape | None:
        """Return the result for a shape, if the relations that it reads have not changed. readable: the session's relations."""
        checked = self.valid.get(shape.parts)
        if checked is None or any(readable.get(name) is not relation for name, relation in checked.reads.items()):
            return None
        return None if checked.others & readable.keys() else checked

    def keep(self, shape: TextShape, checked: CheckedShape) -> None:
        """Store the result for a valid shape."""
        if len(self.valid) >= MAX_SHAPES:
            self.valid.clear()
        if not any("." in name for name in checked.reads):  # a dotted name may begin with that of the relation
            self.valid[shape.parts] = checked
