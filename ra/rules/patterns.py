"""Regular expressions as ECMAScript writes them (std::regex of C++), compiled for Python's `re`, over bytes.

The two agree on nearly all; translated is what they write differently: named classes such as [[:alpha:]], a `[` or an empty
set in brackets, what `.` leaves out, `^` and `$`, escapes that only one of them knows.
"""

import re
from functools import cache

_NAMED_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "d": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "s": r"\s",
    "upper": "A-Z",
    "w": r"\w",
    "xdigit": "0-9A-Fa-f",
}
_CONTROLS = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_TOKEN = re.compile(
    r"\\(?P<escape>x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|c[A-Za-z]|[1-9][0-9]*|.)|(?P<set>\[\^?)|(?P<group>\(\?[:=!])|(?P<plain>[^\\])",
    re.DOTALL,
)
_MEMBER = re.compile(
    r"\[:(?P<name>\w+):\]|\\(?P<escape>x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|c[A-Za-z]|.)|(?P<plain>[^\\])", re.DOTALL
)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")


class BadPattern(ValueError):
    """Not a regular expression."""


@cache
def compiled(pattern: str) -> re.Pattern:
    """The expression, to be matched against whole strings with `fullmatch`, over UTF-8 bytes.

    >>> bool(compiled("[[:alpha:]]+[0-9]").fullmatch(b"ab7")), bool(compiled("a.c").fullmatch(b"ac"))
    (True, False)
    """
    try:
        return re.compile(_translated(pattern.encode().decode("latin-1")).encode("latin-1"))
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(str(error)) from error


def _translated(pattern: str) -> str:
    """`pattern` has one character for each byte, and so has the result."""
    out, at = [], 0
    while at < len(pattern):
        if found := _QUANTIFIER.match(pattern, at):
            out.append(found[0])
            at = found.end()
            if _QUANTIFIER.match(pattern, at):
                raise BadPattern(f"nothing to repeat at byte {at}")
            continue
        found = _TOKEN.match(pattern, at)
        if not found:
            raise BadPattern("a backslash at the end")
        at = found.end()
        if found["set"]:
            members, at = _set(pattern, at, negated=len(found["set"]) == 2)
            out.append(members)
        elif found["group"]:
            out.append(found["group"])
        else:
            out.append(_escaped(found["escape"]) if found["escape"] else _plain(pattern, at, found["plain"]))
    return "".join(out)


def _plain(pattern: str, at: int, character: str) -> str:
    if character == ".":
        return r"[^\n\r]"
    if character == "(" and pattern[at : at + 1] == "?":
        raise BadPattern("a group may begin with (?: (?= or (?! only")
    if character == "{":
        raise BadPattern("a { that repeats nothing; write \\{")
    return {"^": r"\A", "$": r"\Z", "(": "(", ")": ")", "|": "|"}.get(character, re.escape(character))


def _escaped(escape: str) -> str:
    if escape in ("d", "D", "w", "W", "s", "S", "b", "B"):
        return "\\" + escape
    if escape[0] in "123456789":
        return f"(?:\\{escape})"
    return re.escape(_character(escape))


def _character(escape: str) -> str:
    """The one that stands behind a backslash."""
    if escape[0] in "xu" and len(escape) > 1:
        code = int(escape[1:], 16)
        if code > 255:
            raise BadPattern(f"\\{escape} is not a byte")
        return chr(code)
    if escape[0] == "c" and len(escape) == 2:
        return chr(ord(escape[1]) % 32)
    if escape in _CONTROLS:
        return _CONTROLS[escape]
    if escape in "xuc":
        raise BadPattern(f"\\{escape} without its digits or letter")
    return escape


def _set(pattern: str, at: int, negated: bool) -> tuple[str, int]:
    """What stands in brackets, from behind the bracket, and where it ends."""
    members = []
    while at < len(pattern) and pattern[at] != "]":
        found = _MEMBER.match(pattern, at)
        if not found:
            break
        at = found.end()
        members.append(_member(found, first=not members, last=pattern[at : at + 1] == "]"))
    if at >= len(pattern) or pattern[at] != "]":
        raise BadPattern("a [ is never closed")
    if not members:
        return (r"[\x00-\xff]" if negated else r"(?!)"), at + 1
    return f"[{'^' * negated}{''.join(members)}]", at + 1


def _member(found: re.Match, first: bool, last: bool) -> str:
    if found["name"]:
        if found["name"] not in _NAMED_CLASSES:
            raise BadPattern(f"unknown class [:{found['name']}:]")
        return _NAMED_CLASSES[found["name"]]
    if found["escape"]:
        if found["escape"] in ("d", "D", "w", "W", "s", "S"):
            return "\\" + found["escape"]
        return re.escape("\b" if found["escape"] == "b" else _character(found["escape"]))
    if found["plain"] == "-" and not (first or last):
        return "-"
    return re.escape(found["plain"])
