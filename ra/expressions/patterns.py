"""Match regular expressions in the syntax of ECMAScript (std::regex of C++) against bytes. RE2, a part of Arrow, matches in
time linear in the string.

Expressions that RE2 does not support (back references, lookaheads, more than 1,000 repetitions) are matched by Python's `re`,
which backtracks: it is stopped after `MAX_SECONDS` for a string. Both get a translation of the syntax in which they differ from
ECMAScript: named classes such as [[:alpha:]], a `[` or an empty set in brackets, the characters excluded by `.`, `^` and `$`,
and some escapes.
"""

import re
import signal
import threading
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from semi_naive.ra.text.arrow_arrays import booleans_of, strings_of

MAX_SECONDS = 10  # for matching a string with Python's `re`
CACHED_PATTERNS = 1024  # compiled expressions that are cached

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
    "space": r"\t-\r ",
    "s": r"\t-\r ",
    "upper": "A-Z",
    "w": r"\w",
    "xdigit": "0-9A-Fa-f",
}
_SPACES = {"s": r"\t-\r ", "S": r"\x00-\x08\x0e-\x1f!-\xff"}
_PYTHON_END, _RE2_END = r"\Z", r"\z"
_CONTROLS = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_TOKEN = re.compile(
    r"\\(?P<escape>x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|c[A-Za-z]|[1-9][0-9]*|.)|(?P<set>\[\^?)|(?P<group>\(\?[:=!])|(?P<plain>[^\\])",
    re.DOTALL,
)
_MEMBER = re.compile(
    r"\[:(?P<name>\w+):\]|\\(?P<escape>x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|c[A-Za-z]|.)|(?P<plain>[^\\])", re.DOTALL
)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")


class BadRegularExpression(ValueError):
    """An invalid regular expression."""


class TooLong(ValueError):
    """Raised if Python's `re` exceeds its time."""


def matching(pattern: str, strings) -> np.ndarray:
    """Return a mask of the strings of an Arrow array that match an expression from end to end.

    >>> import pyarrow as pa
    >>> matching("(a+)+b", pa.array(["aab", "a" * 100])).tolist()
    [True, False]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    python_pattern = compile_pattern(pattern)  # also checks the expression: RE2 is only given a correct one
    if linear(pattern):
        return booleans_of(pc.match_substring_regex(strings.view(pa.binary()), pattern=_for_re2(pattern)))
    mask = np.zeros(len(strings), np.bool_)
    for number, string in enumerate(strings.to_pylist()):
        with _at_most(MAX_SECONDS):
            mask[number] = python_pattern.fullmatch(string.encode()) is not None
    return mask


@lru_cache(CACHED_PATTERNS)
def linear(pattern: str) -> bool:
    """True if RE2 supports the expression. Others are matched by Python's `re`, which can be interrupted only in the main
    thread.

    >>> linear("(a+)+b"), linear(r"(a+)+b(?=c)")
    (True, False)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(strings_of([""]).view(pa.binary()), pattern=_for_re2(pattern))
    except pa.ArrowInvalid:
        return False
    return True


def _for_re2(pattern: str) -> str:
    """Translate an expression for RE2, to match a string from end to end."""
    return f"\\A(?:{_portable_expression(pattern, end=_RE2_END)})\\z"


@contextmanager
def _at_most(seconds: float):
    """Raise TooLong if the block takes more seconds. Without effect outside of the main thread, as only that gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _stop(number, frame):
    """Handle the signal of `_at_most`."""
    raise TooLong(f"matching takes more than {MAX_SECONDS} s; without back references and lookaheads it is done at once")


@lru_cache(CACHED_PATTERNS)
def compile_pattern(pattern: str) -> re.Pattern:
    """Compile an expression for `fullmatch` with the UTF-8 bytes of a string. Raises BadRegularExpression.

    >>> bool(compile_pattern("[[:alpha:]]+[0-9]").fullmatch(b"ab7")), bool(compile_pattern("a.c").fullmatch(b"ac"))
    (True, False)
    """
    try:
        return re.compile(_portable_expression(pattern, end=_PYTHON_END).encode())
    except (re.error, OverflowError, RecursionError) as error:
        raise BadRegularExpression(str(error)) from error


@lru_cache(2 * CACHED_PATTERNS)
def _portable_expression(pattern: str, end: str) -> str:
    """Translate an expression to ASCII, in the syntax that Python and RE2 have in common. end: stands for `$`, which they write
    differently."""
    pattern = pattern.encode().decode("latin-1")  # one character for each byte
    out, at = [], 0
    while at < len(pattern):
        if match := _QUANTIFIER.match(pattern, at):
            out.append(match[0])
            at = match.end()
            if _QUANTIFIER.match(pattern, at):  # ECMAScript has no a*+, which to Python is a possessive quantifier
                raise BadRegularExpression(f"nothing to repeat at byte {at}")
            continue
        match = _TOKEN.match(pattern, at)
        if not match:
            raise BadRegularExpression("a backslash at the end")
        at = match.end()
        if match["set"]:
            members, at = _set(pattern, at, negated=len(match["set"]) == 2)
            out.append(members)
        elif match["group"]:
            out.append(match["group"])
        else:
            out.append(_escaped(match["escape"]) if match["escape"] else _translate_character(pattern, at, match["plain"], end))
    return "".join(out)


def _translate_character(pattern: str, at: int, character: str, end: str) -> str:
    """Translate a character outside of brackets; `end` stands for `$`. at: the position after it in the pattern."""
    if character == ".":
        return r"[^\n\r]"
    if character == "(" and pattern[at : at + 1] == "?":
        raise BadRegularExpression("a group may begin with (?: (?= or (?! only")
    if character == "{":
        raise BadRegularExpression("a { that repeats nothing; write \\{")
    return {"^": r"\A", "$": end, "(": "(", ")": ")", "|": "|"}.get(character, _literal(character))


def _literal(character: str) -> str:
    """Return an expression that matches one byte, given as a character."""
    return character if character.isascii() and character.isalnum() else f"\\x{ord(character):02x}"


def _escaped(escape: str) -> str:
    """Translate an escape outside of brackets."""
    if escape in _SPACES:
        return f"[{_SPACES[escape]}]"
    if escape == "B":
        return r"(?!\b)"  # Python's own \B does not match an empty string
    if escape in ("d", "D", "w", "W", "b"):
        return "\\" + escape
    if escape[0] in "123456789":
        return f"(?:\\{escape})"  # a group, so that a digit after it is not read as part of the number
    return _literal(_character(escape))


def _character(escape: str) -> str:
    """Return the character that an escape denotes. escape: the text after the backslash."""
    if escape[0] in "xu" and len(escape) > 1:
        code = int(escape[1:], 16)
        if code > 255:
            raise BadRegularExpression(f"\\{escape} is not a byte")
        return chr(code)
    if escape[0] == "c" and len(escape) == 2:  # \cA is the control character 1
        return chr(ord(escape[1]) % 32)
    if escape in _CONTROLS:
        return _CONTROLS[escape]
    if escape in "xuc":
        raise BadRegularExpression(f"\\{escape} without its digits or letter")
    return escape


def _set(pattern: str, at: int, negated: bool) -> tuple[str, int]:
    """Translate a bracket expression, whose first member is at a position of the pattern. Return (translation, position after
    it)."""
    members: list[str] = []
    while at < len(pattern) and pattern[at] != "]":
        match = _MEMBER.match(pattern, at)
        if not match:
            break
        at = match.end()
        members.append(_member(match, first=not members, last=pattern[at : at + 1] == "]"))
    if at >= len(pattern) or pattern[at] != "]":
        raise BadRegularExpression("a [ is never closed")
    if not members:
        return (r"[\x00-\xff]" if negated else r"[^\x00-\xff]"), at + 1
    return f"[{'^' * negated}{''.join(members)}]", at + 1


def _member(match: re.Match, first: bool, last: bool) -> str:
    """Translate a member of a bracket expression: a named class, an escape or a character. match: the match of _MEMBER; first,
    last: it is the first or last member, where a `-` is a character."""
    if match["name"]:
        if match["name"] not in _NAMED_CLASSES:
            raise BadRegularExpression(f"unknown class [:{match['name']}:]")
        return _NAMED_CLASSES[match["name"]]
    if match["escape"]:
        if match["escape"] in _SPACES:
            return _SPACES[match["escape"]]
        if match["escape"] in ("d", "D", "w", "W"):
            return "\\" + match["escape"]
        return _literal("\b" if match["escape"] == "b" else _character(match["escape"]))  # in brackets, \b is a backspace
    if match["plain"] == "-" and not (first or last):
        return "-"
    return _literal(match["plain"])
