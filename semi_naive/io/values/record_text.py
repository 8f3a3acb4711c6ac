"""Records and branches as text: parse `[1, [2, nil]]` and `$Cons(1, $Nil)` in fact files, and print them in several styles."""

import json
import re
from typing import NamedTuple

from semi_naive.branch import Branch, readable
from semi_naive.io.values.bits import Mismatch, abbreviated, float_text, of_text, short_float_text, to_value
from semi_naive.ra.ir import Kind

SPACE = " \t\n\v\f\r"
NAME = re.compile(r"[?\w.]*")  # the name of a branch, possibly qualified


class TableStyle:
    """The style of .csv files. rfc4180: the text is inside a quoted field, so quotes are doubled."""

    nil = "nil"

    def __init__(self, rfc4180: bool = False):
        self.rfc4180 = rfc4180

    def scalar(self, value, kind: Kind) -> str:
        """Return a value that is not a record as text."""
        if kind == Kind.SYMBOL:
            return readable(value, always=True).replace('"', '""') if self.rfc4180 else value
        return float_text(value) if kind == Kind.FLOAT else str(value)

    def pieces(self, names: list) -> list[str]:
        return ["[", *[", "] * (len(names) - 1), "]"] if names else ["[]"]

    def branch(self, name: str, names: list) -> list[str]:
        return [f"${name}(", *[", "] * (len(names) - 1), ")"] if names else [f"${name}"]


class ReadableStyle(TableStyle):
    """The style of fact files, with strings quoted if they would be read back otherwise."""

    def scalar(self, value, kind: Kind) -> str:
        return readable(value) if kind == Kind.SYMBOL else super().scalar(value, kind)


class JsonStyle:
    """The style of JSON: lists or objects."""

    nil = "null"

    def __init__(self, objects: bool):
        self.objects = objects

    def scalar(self, value, kind: Kind) -> str:
        """Return a value that is not a record as text."""
        if kind == Kind.SYMBOL:
            return json.dumps(value, ensure_ascii=False)
        return short_float_text(value) if kind == Kind.FLOAT else str(value)

    def pieces(self, names: list) -> list[str]:
        """Return the text before, between and after the fields of a record."""
        opened, closed = "{}" if self.objects else "[]"
        if not names:
            return [opened + closed]
        keys = [f"{json.dumps(name)}: " if self.objects else "" for name in names]
        return [opened + keys[0], *[f", {key}" for key in keys[1:]], closed]

    def branch(self, name: str, names: list) -> list[str]:
        """Return the parts of a branch as ["Cons", 1, ["Nil"]], or {"Cons": {"head": 1, "tail": {"Nil": {}}}}. Soufflé defines
        no form for branches."""
        if self.objects:
            first, *others = self.pieces(names)
            opened = f"{{{json.dumps(name)}: {first}"
            return [opened, *others[:-1], others[-1] + "}"] if others else [opened + "}"]
        return [f"[{json.dumps(name)}" + ", " * bool(names), *[", "] * (len(names) - 1), "]"] if names else [f'["{name}"]']


class _Open(NamedTuple):
    """An unfinished record or branch: the (name, type name) of its fields, its closing bracket, and its parsed fields."""

    fields: tuple
    end: str
    found: list
    branch: str = ""

    def value(self):
        return Branch(self.branch, *self.found) if self.branch else self.found


def parse_record(text: str, type_, types: dict):
    """The nested value of a record's text: lists for records, `Branch` for branches, None for nil. Raises Mismatch for a text
    that is no value of the type.

    Symbols in it end at the next comma or closing bracket, or are in double quotes, with special characters escaped by
    backslashes.
    """
    done: list = []
    open_ = [_Open((), "", done)]  # unfinished records and branches
    kind, at = type_, _skip(text, 0)
    while True:
        value, at = _begin_value(text, at, kind, open_[-1].end)
        if isinstance(value, _Open):
            open_.append(value)
        else:
            open_[-1].found.append(value)
        while len(open_) > 1 and len(open_[-1].found) == len(open_[-1].fields):
            at = _expect(text, _skip(text, at), open_[-1].end) if open_[-1].end else at
            ended = open_.pop()
            open_[-1].found.append(ended.value())
        if len(open_) == 1:
            break
        inside = open_[-1]
        at = _skip(text, _expect(text, _skip(text, at), ",") if inside.found else at)
        kind = types[inside.fields[len(inside.found)][1]]
    if text[at:].strip(SPACE):
        raise Mismatch(f"{abbreviated(text)}: expected the end of the record at {text[at : at + 10]!r}")
    return done[0]


def _begin_value(text: str, at: int, type_, end: str) -> tuple:
    """Parse the beginning of a value at a position. Return (a scalar or nil, end of it), or (`_Open`, position of its first
    field). end: the closing bracket around the value."""
    if type_.kind == Kind.SYMBOL:
        return _symbol(text, at, end)
    if type_.kind != Kind.RECORD:
        return _number(text, at, type_.kind, end)
    if type_.branches:
        return _begin_branch(text, at, type_)
    if text.startswith("nil", at):
        return None, at + 3
    return _Open(type_.fields, "]", []), _expect(text, at, "[")


def _begin_branch(text: str, at: int, type_) -> tuple:
    """Begin a branch. `$Nil` may have brackets, as in a program. at: its position. Returns (an unfinished branch, the position
    of its first field), or (the branch, its end)."""
    at = _skip(text, _expect(text, at, "$"))
    name = NAME.match(text, at)[0]
    if (branch := next((each for each in type_.branches if each.name == name), None)) is None:
        raise Mismatch(f"{abbreviated(text)}: {type_.name} has the branches {branch_list(type_)}, not ${name}")
    at += len(name)
    if branch.fields:
        return _Open(branch.fields, ")", [], name), _expect(text, _skip(text, at), "(")
    after = _skip(text, at)
    closed = _skip(text, after + 1) if text.startswith("(", after) else -1
    return Branch(name), _expect(text, closed, ")") if closed >= 0 else at


def branch_list(type_) -> str:
    """The branches of a type, as they are written."""
    return ", ".join(f"${each.name}" for each in type_.branches)


def _number(text: str, at: int, kind: Kind, close: str) -> tuple:
    end = _end_of_field(text, at, close)
    return to_value(of_text(text[at:end], kind), kind), end


def _symbol(text: str, at: int, close: str) -> tuple:
    """Parse a symbol, quoted or up to the next comma or closing bracket. Return (string, end). at: its position; close: the
    closing bracket."""
    if not text.startswith('"', at):
        end = _end_of_field(text, at, close)
        return text[at:end], end
    parts, begin = [], at + 1
    while True:
        quote, escape = text.find('"', begin), text.find("\\", begin)
        if quote < 0:
            raise Mismatch(f"{abbreviated(text)}: the quote at {text[at : at + 10]!r} is not closed")
        if escape < 0 or quote < escape:
            return "".join(parts) + text[begin:quote], quote + 1
        parts += [text[begin:escape], text[escape + 1 : escape + 2]]
        begin = escape + 2


def _end_of_field(text: str, at: int, close: str) -> int:
    """Return the position of the next comma or closing bracket. close: the closing bracket."""
    ends = [end for end in (text.find(",", at), text.find(close, at)) if end >= 0]
    if not ends:
        raise Mismatch(f"{abbreviated(text)}: expected ',' or {close!r} before the end")
    return min(ends)


def _expect(text: str, at: int, char: str) -> int:
    """Return the position after an expected character. at: its position."""
    if text[at : at + 1] != char:
        found = repr(text[at]) if at < len(text) else "the end"
        raise Mismatch(f"{abbreviated(text)}: expected {char!r}, found {found}")
    return at + 1


def _skip(text: str, at: int) -> int:
    """Return the first position from `at` on that is not white space."""
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at
