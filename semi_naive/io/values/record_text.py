"""Records and branches as text: parse `[1, [2, nil]]` and `$Cons(1, $Nil)` in fact files, and print them in several styles."""

import json
import re
from typing import NamedTuple

from semi_naive.branch import Branch, readable
from semi_naive.io.values.bits import Mismatch, abbreviated, bits_of_text, float_text, short_float_text, to_value
from semi_naive.ra.ir import ENCODED, Kind, Type
from semi_naive.ra.values.encoded import text_of_encoded

SPACE = " \t\n\v\f\r"
NAME = re.compile(r"[?\w.]*")  # the name of a branch, possibly qualified


class TableStyle:
    """The style of delimited text: how fields are printed, and records in them by `RecordTexts`. nil: the text of nil.

    rfc4180: all texts are quoted fields, so quotes are doubled. readable: strings in records are quoted if they would be read
    back otherwise, as in fact files.
    """

    nil = "nil"

    def __init__(self, rfc4180: bool = False, readable: bool = False):
        self.rfc4180, self.readable = rfc4180, readable

    @property
    def keeps_symbols(self) -> bool:
        """True if `field` returns a symbol as it is."""
        return not self.rfc4180

    def field(self, value, kind: Kind) -> str:
        """Return the text of a field of a row: of a symbol, a float, or the text of an encoded value or of a record."""
        if kind == Kind.FLOAT:
            return float_text(value)
        if self.rfc4180 and kind not in ENCODED:
            doubled = value.replace('"', '""') if kind == Kind.SYMBOL else value  # `scalar` has doubled those of a record
            return f'"{doubled}"'
        return value

    def scalar(self, value, kind: Kind) -> str:
        """Return the text of a value in a record."""
        if kind == Kind.SYMBOL and self.rfc4180:
            return readable(value, always=True).replace('"', '""')
        if kind == Kind.SYMBOL:
            return readable(value) if self.readable else value
        if kind in ENCODED:
            return text_of_encoded(value)
        return float_text(value) if kind == Kind.FLOAT else str(value)

    def pieces(self, names: list) -> list[str]:
        """Return the texts before, between and after the fields of a record. names: of the fields."""
        return ["[", *[", "] * (len(names) - 1), "]"] if names else ["[]"]

    def branch(self, name: str, names: list) -> list[str]:
        """Return the same for the fields of a branch with a name."""
        return [f"${name}(", *[", "] * (len(names) - 1), ")"] if names else [f"${name}"]


class JsonStyle:
    """The style of JSON: lists or objects."""

    nil = "null"
    keeps_symbols = False

    def __init__(self, objects: bool):
        self.objects = objects

    def field(self, value, kind: Kind) -> str:
        """Return the JSON of a field of a row: of a symbol, a float, or the text of an encoded value or of a record."""
        if kind == Kind.SYMBOL or kind in ENCODED - {Kind.BOOL}:
            return json.dumps(value, ensure_ascii=False)
        return short_float_text(value) if kind == Kind.FLOAT else str(value)

    def scalar(self, value, kind: Kind) -> str:
        return self.field(text_of_encoded(value) if kind in ENCODED else value, kind)

    def pieces(self, names: list) -> list[str]:
        opened, closed = "{}" if self.objects else "[]"
        if not names:
            return [opened + closed]
        keys = [f"{json.dumps(name)}: " if self.objects else "" for name in names]
        return [opened + keys[0], *[f", {key}" for key in keys[1:]], closed]

    def branch(self, name: str, names: list) -> list[str]:
        """Return the pieces of a branch, as in ["Cons", 1, ["Nil"]] or {"Cons": {"head": 1, "tail": {"Nil": {}}}}. Soufflé
        defines no form for branches."""
        if self.objects:
            first, *others = self.pieces(names)
            opened = f"{{{json.dumps(name)}: {first}"
            return [opened, *others[:-1], others[-1] + "}"] if others else [opened + "}"]
        return [f"[{json.dumps(name)}" + ", " * bool(names), *[", "] * (len(names) - 1), "]"] if names else [f'["{name}"]']


Style = TableStyle | JsonStyle


class _Unfinished(NamedTuple):
    """An unfinished record or branch: the (name, type name) of its fields, its closing bracket, and its parsed fields."""

    fields: tuple
    end: str
    values: list
    branch: str = ""

    def value(self) -> Branch | list:
        return Branch(self.branch, *self.values) if self.branch else self.values


def parse_record(text: str, type_: Type, types: dict):
    """Return the nested value of a record's text: lists for records, `Branch` for branches, None for nil. Raises Mismatch for a
    text that is no value of the type.

    Symbols in it end at the next comma or closing bracket, or are in double quotes, with special characters escaped by
    backslashes.
    """
    top: list = []  # will have the value as its only member
    unfinished = [_Unfinished((), "", top)]  # records and branches, the innermost last
    value_type, position = type_, _skip_space(text, 0)
    while True:
        value, position = _begin_value(text, position, value_type, unfinished[-1].end)
        if isinstance(value, _Unfinished):
            unfinished.append(value)
        else:
            unfinished[-1].values.append(value)
        while len(unfinished) > 1 and len(unfinished[-1].values) == len(unfinished[-1].fields):
            position = _expect(text, _skip_space(text, position), unfinished[-1].end) if unfinished[-1].end else position
            ended = unfinished.pop()
            unfinished[-1].values.append(ended.value())
        if len(unfinished) == 1:
            break
        innermost = unfinished[-1]
        position = _skip_space(text, _expect(text, _skip_space(text, position), ",") if innermost.values else position)
        _, type_name = innermost.fields[len(innermost.values)]
        value_type = types[type_name]
    if text[position:].strip(SPACE):
        raise Mismatch(f"{abbreviated(text)}: expected the end of the record at {text[position : position + 10]!r}")
    return top[0]


def _begin_value(text: str, position: int, type_: Type, end: str) -> tuple:
    """Parse the beginning of a value at a position. Return (a scalar or nil, its end), or (`_Unfinished`, the position of its
    first field). end: the closing bracket around the value."""
    if type_.kind == Kind.SYMBOL:
        return _symbol(text, position, end)
    if type_.kind != Kind.RECORD:
        return _number(text, position, type_.kind, end)
    if type_.branches:
        return _begin_branch(text, position, type_)
    if text.startswith("nil", position):
        return None, position + 3
    return _Unfinished(type_.fields, "]", []), _expect(text, position, "[")


def _begin_branch(text: str, position: int, type_: Type) -> tuple:
    """Parse the beginning of a branch at a position. Return (an unfinished branch, the position of its first field), or (a
    branch without fields, its end). `$Nil` may have brackets, as in a program."""
    position = _skip_space(text, _expect(text, position, "$"))
    match = NAME.match(text, position)
    assert match is not None  # an empty name, if there is none
    name = match[0]
    if (branch := next((each for each in type_.branches if each.name == name), None)) is None:
        raise Mismatch(f"{abbreviated(text)}: {type_.name} has the branches {branch_list(type_)}, not ${name}")
    position += len(name)
    if branch.fields:
        return _Unfinished(branch.fields, ")", [], name), _expect(text, _skip_space(text, position), "(")
    after = _skip_space(text, position)
    closed = _skip_space(text, after + 1) if text.startswith("(", after) else -1  # -1: no brackets
    return Branch(name), _expect(text, closed, ")") if closed >= 0 else position


def branch_list(type_: Type) -> str:
    """Return the branches of a type, as a program writes them."""
    return ", ".join(f"${each.name}" for each in type_.branches)


def _number(text: str, position: int, kind: Kind, close: str) -> tuple:
    """Parse a number at a position, up to the next comma or closing bracket `close`. Return (number, end)."""
    end = _end_of_field(text, position, close)
    return to_value(bits_of_text(text[position:end], kind), kind), end


def _symbol(text: str, position: int, close: str) -> tuple:
    """Parse a symbol at a position, quoted or up to the next comma or closing bracket `close`. Return (string, end)."""
    if not text.startswith('"', position):
        end = _end_of_field(text, position, close)
        return text[position:end], end
    parts: list[str] = []
    begin = position + 1
    while True:
        quote, escape = text.find('"', begin), text.find("\\", begin)
        if quote < 0:
            raise Mismatch(f"{abbreviated(text)}: the quote at {text[position : position + 10]!r} is not closed")
        if escape < 0 or quote < escape:
            return "".join(parts) + text[begin:quote], quote + 1
        parts += [text[begin:escape], text[escape + 1 : escape + 2]]
        begin = escape + 2


def _end_of_field(text: str, position: int, close: str) -> int:
    """Return the position of the next comma or closing bracket `close`."""
    ends = [end for end in (text.find(",", position), text.find(close, position)) if end >= 0]
    if not ends:
        raise Mismatch(f"{abbreviated(text)}: expected ',' or {close!r} before the end")
    return min(ends)


def _expect(text: str, position: int, char: str) -> int:
    """Return the position after a character that is expected at a position. Raises Mismatch for another one."""
    if text[position : position + 1] != char:
        actual = repr(text[position]) if position < len(text) else "the end"
        raise Mismatch(f"{abbreviated(text)}: expected {char!r}, found {actual}")
    return position + 1


def _skip_space(text: str, position: int) -> int:
    """Return the first position from `position` on that is not white space."""
    while position < len(text) and text[position] in SPACE:
        position += 1
    return position
