"""Records as text: `[1, [2, nil]]` in fact files, and how they are printed in tables and JSON."""

import json

from semi_naive.io.bits import Mismatch, float_text, of_text, short_float_text, shown, to_value
from semi_naive.ra.rules.ir import Kind

SPACE = " \t\n\v\f\r"
OPENED = object()


class Tables:
    """As .csv files have them. `rfc4180`: inside of a quoted field, so that strings get doubled quotes."""

    nil = "nil"

    def __init__(self, rfc4180: bool = False):
        self.rfc4180 = rfc4180

    def scalar(self, value, kind: Kind) -> str:
        if kind == Kind.SYMBOL:
            return f'""{quoted(value)}""' if self.rfc4180 else value
        return float_text(value) if kind == Kind.FLOAT else str(value)

    def pieces(self, names: list) -> list[str]:
        return ["[", *[", "] * (len(names) - 1), "]"] if names else ["[]"]


class Readable(Tables):
    """As tables have them, but strings that would not be read back are quoted."""

    def scalar(self, value, kind: Kind) -> str:
        if kind == Kind.SYMBOL and (set(value) & set(',]"') or value != value.lstrip()):
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return super().scalar(value, kind)


class Json:
    """As JSON has them, lists or objects."""

    nil = "null"

    def __init__(self, objects: bool):
        self.objects = objects

    def scalar(self, value, kind: Kind) -> str:
        if kind == Kind.SYMBOL:
            return json.dumps(value, ensure_ascii=False)
        return short_float_text(value) if kind == Kind.FLOAT else str(value)

    def pieces(self, names: list) -> list[str]:
        opened, closed = "{}" if self.objects else "[]"
        if not names:
            return [opened + closed]
        keys = [f"{json.dumps(name)}: " if self.objects else "" for name in names]
        return [opened + keys[0], *[f", {key}" for key in keys[1:]], closed]


def quoted(text: str) -> str:
    r"""The inside of a quoted field, as Soufflé writes it: a quote becomes \"" .

    >>> print(quoted('a"b'))
    a\""b
    """
    return text.replace('"', '\\""')


def parsed(text: str, type_, types: dict):
    """The nested value of a record's text: lists, and None for nil. Mismatch when it is none of the type.

    Symbols in it end at the next comma or bracket, or are in double quotes, with backslashes before what is special.
    """
    done = []
    open_ = [(None, done)]  # the records begun and not ended, with their fields so far
    kind, at = type_, _skip(text, 0)
    while True:
        value, at = _begin(text, at, kind)
        if value is OPENED:
            open_.append((kind, []))
        else:
            open_[-1][1].append(value)
        while len(open_) > 1 and len(open_[-1][1]) == len(open_[-1][0].fields):
            at = _expect(text, _skip(text, at), "]")
            fields = open_.pop()[1]
            open_[-1][1].append(fields)
        if len(open_) == 1:
            break
        kind, fields = open_[-1]
        at = _skip(text, _expect(text, _skip(text, at), ",") if fields else at)
        kind = types[kind.fields[len(fields)][1]]
    if text[at:].strip(SPACE):
        raise Mismatch(f"{shown(text)}: expected the end of the record at {text[at : at + 10]!r}")
    return done[0]


def _begin(text: str, at: int, type_) -> tuple:
    """A scalar or nil with where it ends, or `OPENED` and where its first field is."""
    if type_.kind == Kind.SYMBOL:
        return _symbol(text, at)
    if type_.kind != Kind.RECORD:
        return _number(text, at, type_.kind)
    if text.startswith("nil", at):
        return None, at + 3
    return OPENED, _expect(text, at, "[")


def _number(text: str, at: int, kind: Kind) -> tuple:
    end = _end_of_field(text, at)
    return to_value(of_text(text[at:end], kind), kind), end


def _symbol(text: str, at: int) -> tuple:
    if not text.startswith('"', at):
        end = _end_of_field(text, at)
        return text[at:end], end
    parts, begin = [], at + 1
    while True:
        close, escape = text.find('"', begin), text.find("\\", begin)
        if close < 0:
            raise Mismatch(f"{shown(text)}: the quote at {text[at : at + 10]!r} is not closed")
        if escape < 0 or close < escape:
            return "".join(parts) + text[begin:close], close + 1
        parts += [text[begin:escape], text[escape + 1 : escape + 2]]
        begin = escape + 2


def _end_of_field(text: str, at: int) -> int:
    ends = [end for end in (text.find(",", at), text.find("]", at)) if end >= 0]
    if not ends:
        raise Mismatch(f"{shown(text)}: expected ',' or ']' before the end")
    return min(ends)


def _expect(text: str, at: int, char: str) -> int:
    if text[at : at + 1] != char:
        found = repr(text[at]) if at < len(text) else "the end"
        raise Mismatch(f"{shown(text)}: expected {char!r}, found {found}")
    return at + 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at
