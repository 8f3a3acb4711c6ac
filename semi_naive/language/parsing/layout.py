"""Format a program's text in the canonical layout: spaces, indentation and blank lines. Tokens, comments, preprocessor lines
and line breaks inside statements are kept.

    path(x,z):-path(x,y),          becomes      path(x, z) :- path(x, y),
      edge(y ,z).                                   edge(y, z).

The layout depends only on tokens and brackets, not on the grammar. So texts that do not parse, such as those with macros, can
be formatted, too."""

import re
from dataclasses import dataclass, field
from itertools import pairwise

CLOSED = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
MAX_RULE_CHARACTERS = 100  # characters above which a rule on one line is broken
INDENT = "    "
TOKEN = re.compile(
    r"""(?P<blanks>[ \t\r\f\v]+)|(?P<newline>\n)
    |(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<string>"[^"\\]*(?:\\.[^"\\]*)*"?)
    |(?P<word>choice-domain\b|[0-9]\w*(?:\.[0-9]+)*|[A-Za-z_?][\w?]*(?:\.[A-Za-z_?][\w?]*)*)
    |(?P<directive>\.[A-Za-z_]\w*(?=\s|\Z))
    |(?P<mark>:-|<:|<=|>=|!=|->|@!?\[|@@|.)""",
    re.DOTALL | re.VERBOSE,
)
WORDS = frozenset("land lor lxor band bor bxor bshl bshr bshru bnot lnot".split())  # operators that are words
AGGREGATES = frozenset("count sum min max mean".split())
UNFINISHED = frozenset(", | = : <: ->".split())  # words that continue a directive
FOLLOWING = frozenset({".plan", ".join"})  # keywords that belong to the preceding rule
OPENING, CLOSING = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True)
class Lexeme:
    """A token of a text. kind: its group of `TOKEN`, "marker" for a preprocessor line, or "note" for an annotation; glued: no
    space precedes it."""

    kind: str
    text: str
    glued: bool = False

    @property
    def is_open(self) -> bool:
        """True if its end is missing."""
        if self.kind == "string":
            return CLOSED.fullmatch(self.text) is None
        return self.kind == "comment" and self.text.startswith("/*") and not (len(self.text) > 3 and self.text.endswith("*/"))


NOTHING = Lexeme("", "")


def tokens(text: str) -> list[list[Lexeme]]:
    """Return the tokens of each line; a token of several lines belongs to the line where it begins.

    >>> [[token.text for token in line] for line in tokens("p(1). // one\\n#define X 1\\n.decl a.b(x:T)")]
    [['p', '(', '1', ')', '.', '// one'], ['#define X 1'], ['.decl', 'a.b', '(', 'x', ':', 'T', ')']]
    """
    lines: list[list[Lexeme]] = [[]]
    position, glued = 0, False
    while position < len(text):
        if text[position] == "#":
            match = re.compile(r"(?:\\\n|[^\n])*").match(text, position)
            assert match is not None
            lines[-1].append(Lexeme("marker", match[0].rstrip()))
            position, glued = match.end(), False
            continue
        match = TOKEN.match(text, position)
        assert match is not None and match.lastgroup is not None  # the last alternative is any character
        kind, part, position = match.lastgroup, match[0], match.end()
        if kind == "newline":
            lines.append([])
        elif kind == "mark" and part.endswith("["):
            if part != "[":
                end = _end_of_annotation(text, position)
                kind, part, position = "note", part + text[position:end], end
            lines[-1].append(Lexeme(kind, part, glued))
        elif kind != "blanks":
            lines[-1].append(Lexeme(kind, part.rstrip() if kind == "comment" else part, glued))
        glued = kind not in ("newline", "blanks")
    return lines


def _end_of_annotation(text: str, at: int) -> int:
    """Return the position after an annotation. at: the position after its opening bracket."""
    depth = 1
    while at < len(text) and depth:
        match = TOKEN.match(text, at)
        assert match is not None
        depth += (match[0] == "[" or match[0].startswith("@") and match[0].endswith("[")) - (match[0] == "]")
        at = match.end()
    return at


def formatted(text: str) -> str:
    """Return a program's text in the canonical layout; formatting is idempotent. A text with an unclosed string or comment, or
    whose tokens would change, is returned unchanged.

    >>> print(formatted("path(x,z):-path(x,y) ,edge(y,z).//far\\n\\n\\n.decl  path( x:symbol,y :symbol )"))
    path(x, z) :- path(x, y), edge(y, z).  //far
    <BLANKLINE>
    .decl path(x: symbol, y: symbol)
    <BLANKLINE>
    """
    lines, state = tokens(text), _State()
    last = next((line[-1] for line in reversed(lines) if line), NOTHING)
    if last.is_open:
        return text
    has_line_macro = any(token.text == "__LINE__" for line in lines for token in line)  # its value is the number of its line
    out_lines: list[str] = []
    for line in lines:
        if line or has_line_macro or out_lines and out_lines[-1]:  # of several empty lines the first is kept
            out_lines += state.laid_out(line, not has_line_macro)
    while out_lines and not out_lines[-1]:
        out_lines.pop()
    result = "\n".join(out_lines) + "\n" * bool(out_lines)
    return result if _texts(tokens(result)) == _texts(lines) else text


def _texts(lines: list[list[Lexeme]]) -> list[str]:
    return [token.text for line in lines for token in line]


@dataclass
class _State:
    """The state of the layout before a token: open brackets, and the current statement."""

    brackets: list[str] = field(default_factory=list)  # the open brackets; a "block" contains statements
    begun: bool = False  # True inside a statement
    directive: str = ""  # the first token of a statement that is not a clause
    base: int = 0  # the number of brackets that were open when the statement began
    before: Lexeme = NOTHING  # the previous token
    signed: bool = False  # True if the previous token is the sign of a number

    @property
    def clause(self) -> bool:
        return self.begun and not self.directive

    @property
    def inside(self) -> bool:
        """True if a bracket of the statement is open."""
        return len(self.brackets) > self.base

    def laid_out(self, line: list[Lexeme], breaks: bool) -> list[str]:
        """Return a line of tokens as text, broken into several if it is too long and may be broken."""
        if not line:
            return [""]
        if line[0].kind == "marker":
            return [line[0].text]
        if self._begins(line[0], line[1] if len(line) > 1 else NOTHING):
            self._end()
        indent, whole = INDENT * self._indent(line[0]), not self.begun  # whole: no statement goes on from the line before
        parts: list[tuple[str, str]] = []  # each token with the space before it
        ends: list[int] = []  # positions at which the line may be broken: after :-, and then after , and ; outside of brackets
        for place, (token, after) in enumerate(zip(line, [*line[1:], NOTHING], strict=True)):
            space = self._space(token) if place else ""
            self._take(token, after)
            parts.append((space, token.text))
            if not self.inside and (token.text == ":-" or ends and token.text in (",", ";")):
                ends.append(place + 1)
            self.before = token
        text = indent + "".join(map("".join, parts))
        if breaks and whole and not self.begun and ends and "\n" not in text and len(text) > MAX_RULE_CHARACTERS:
            cuts = pairwise([0, *ends, len(parts)])
            lines = ["".join(map("".join, parts[begin:end])).lstrip() for begin, end in cuts]
            return [indent + lines[0], *(indent + INDENT + line for line in lines[1:])]
        return [text]

    def _begins(self, token: Lexeme, after: Lexeme) -> bool:
        """True if a token begins a statement after a directive, which has no terminator."""
        if not self.directive or self.inside:
            return False
        if token.kind == "directive":
            return True
        # True if the directive may end here; .once is complete without a name.
        complete = self.before.text not in UNFINISHED and self.before.kind != "directive" or self.directive == ".once"
        return complete and token.kind == "word" and token.text != "choice-domain" and after.text == "("

    def _indent(self, first: Lexeme) -> int:
        """Return the indentation of a line that begins with a token, in levels."""
        depth = len(self.brackets)
        if first.kind == "directive" and first.text in FOLLOWING:
            return depth + 1
        if first.text in CLOSING and self.brackets:
            return depth - 1 + self.clause
        if not self.begun or first.kind == "comment" and not self.clause and not self.inside:
            return depth
        return depth + (self.clause or not self.inside)

    def _take(self, token: Lexeme, after: Lexeme) -> None:
        """Update the brackets and the statement for a token. after: the next token."""
        text = token.text
        if token.kind in ("comment", "marker", "note"):
            return
        after_operand = self.before.text not in WORDS and (self.before.kind != "mark" or self.before.text in CLOSING)
        self.signed = text == "-" and not after_operand
        if self._begins(token, after):
            self._end()
        if not self.begun and text not in CLOSING:
            self.begun, self.directive, self.base = True, text if token.kind == "directive" else "", len(self.brackets)
        if text in OPENING:
            block = text == "{" and self.directive == ".comp" and not self.inside
            self.brackets.append("block" if block else text)
            if block:
                self._end()
        elif text in CLOSING and self.brackets:
            if self.brackets.pop() == "block":
                self._end()
        elif text == "." and self.clause and not self.inside:
            # A dot directly before a name may belong to a qualified one, as in `a .b(x)`; behind an argument list it cannot.
            if after.kind != "word" or not after.glued or self.before.text == ")":
                self._end()

    def _end(self) -> None:
        """End the current statement."""
        self.begun, self.directive, self.base = False, "", len(self.brackets)

    # -- between two tokens

    def _space(self, token: Lexeme) -> str:
        """Return the space between the previous token and this one: two before a // comment; one beside comments, annotations
        and preprocessor lines, and between two statements; else as `_apart` decides."""
        if token.kind == "comment" and token.text.startswith("//"):
            return "  "
        beside_comment = {token.kind, self.before.kind} & {"comment", "note", "marker"}
        return " " if beside_comment or not self.begun or self._apart(self.before, token) else ""

    def _apart(self, before: Lexeme, token: Lexeme) -> bool:
        """True if a space separates two tokens of a statement; if both layouts are common, the original is kept."""
        left, right, was_apart = before.text, token.text, not token.glued
        if "directive" in (before.kind, token.kind):
            return True
        if right in (",", ")", "]", ".") or left in ("(", "[", "!"):
            return False
        if left in (".", "$", "@", "@@"):
            return was_apart
        if right == "(":
            return self._apart_from_bracket(before, was_apart)
        if left == ":":
            return True
        if right == ":":
            return self.clause or self.directive == ".comp" and not self.inside or self.directive == ".plan" and was_apart
        if {left, right} & {"{", "}"}:
            return self._apart_from_brace(left, right)
        if {left, right} & {"<", ">"} and not self.clause:
            return left == ">" and right not in ("<", ">")
        if "=" in (left, right) and self.directive and self.inside:  # a setting
            return False
        return not (left == "-" and self.signed)

    @staticmethod
    def _apart_from_bracket(before: Lexeme, was_apart: bool) -> bool:
        """True if a space separates a token from an opening parenthesis. was_apart: a space separates them in the original."""
        if before.kind == "word":
            return was_apart and (before.text in WORDS or before.text in AGGREGATES or before.text == "choice-domain")
        return was_apart if before.text in (")", "]", "}", ":", "-") else True

    def _apart_from_brace(self, left: str, right: str) -> bool:
        """True if a space separates a brace from its neighbour: inside of braces in clauses and in .lattice, outside always.
        (`,` and closing brackets after a brace are handled before.)"""
        if left == "{" or right == "}":  # inside
            return (left, right) != ("{", "}") and (self.clause or self.directive == ".lattice")
        return True
