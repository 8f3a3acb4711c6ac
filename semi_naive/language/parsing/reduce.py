"""Common parts of the syntax tree builders: spans, words, and the list of problems."""

import threading
from collections.abc import Sequence
from functools import wraps

from semi_naive.language.errors import Problem, Span
from semi_naive.language.origins import Text
from semi_naive.language.parsing.tokens import Token
from semi_naive.language.syntax import Node

ESCAPES = {'"': '"', "'": "'", "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SIGNIFICANT = frozenset("IDENT QNAME WORD STRING NUMBER UNSIGNED FLOAT IP PARAMETER".split())


def _edge(children: Sequence, backwards: bool) -> Token | Node | None:
    """Return the first (or last) token or node of children, which may be nested lists."""
    for child in reversed(children) if backwards else children:
        if isinstance(child, (Token, Node)):
            return child
        if isinstance(child, (list, tuple)) and (inner := _edge(child, backwards)) is not None:
            return inner
    return None


def significant(children: Sequence) -> list:
    """Return the children without punctuation and keywords."""
    return [child for child in children if not isinstance(child, Token) or child.type in _SIGNIFICANT]


def node(method):
    """Decorate the method of a grammar rule that becomes a node: it gets the span, then the children without punctuation and
    keywords."""

    @wraps(method)
    def reduced(self, children):
        return method(self, self.between(children), *significant(children))

    return reduced


def worded(method):
    """Decorate the method of a grammar rule whose words and operators matter: it gets the span, then every child."""

    @wraps(method)
    def reduced(self, children):
        return method(self, self.between(children), *children)

    return reduced


class ParseState(threading.local):
    """The state of one parse in one thread. origin: of the text; problems: so far; head_aggregates: the aggregates in the form
    of functors in the current statement, which are allowed only as arguments of a head."""

    def begin(self, origin: Text) -> list[Problem]:
        """Start a parse of a text, `origin`. Returns the list to which problems are appended."""
        self.origin, self.problems, self.head_aggregates = origin, [], []
        return self.problems

    def drop_statement(self) -> None:
        """Discard the functors of the current statement, which the parser drops."""
        self.head_aggregates.clear()


class Reduce:
    """The base class of builders, each of which has a method for some rules of the grammar. Builders of one parser share their
    state."""

    def __init__(self, state: ParseState):
        self.state = state

    def between(self, children: Sequence) -> Span:
        """Return the span from the first to the last of some children."""
        first, last = _edge(children, False), _edge(children, True)
        start = self._span(first)
        if first is last:
            return start
        end = self._span(last)
        return Span(start.file, start.line, start.column, end.end_line, end.end_column) if end.file == start.file else start

    def _span(self, place: Token | Node) -> Span:
        return place.span if isinstance(place, Node) else self.state.origin.span(place)

    def problem(self, message: str, span: Span, hint: str = ""):
        """Record an error."""
        self.state.problems.append(Problem(message, span, hint))

    def deprecated(self, message: str, span: Span, hint: str, flag: str = ""):
        """Record a warning about obsolete syntax."""
        self.state.problems.append(Problem(message, span, hint, "Warning", flag=flag))

    def _unescaped(self, text: Token) -> str:
        """Return the string of a quoted literal."""
        inside, out, at = text[1:-1], [], 0
        while (slash := inside.find("\\", at)) >= 0:
            code = inside[slash + 1]
            if code not in ESCAPES:
                hint = "a backslash itself is written \\\\"
                self.problem(f"Unknown escape sequence \\{code}", self._span(text), hint)
            out += [inside[at:slash], ESCAPES.get(code, code)]
            at = slash + 2
        return "".join(out) + inside[at:]


class NameBuilder(Reduce):
    """Lists, qualified names and words."""

    def names(self, children):
        return significant(children)

    args = fields = heads = names

    def qname(self, children):
        first, last = children[0], children[-1]
        return Token.spanning("".join(children), "QNAME", first, last)

    def word(self, children):
        return Token.spanning(str(children[0]), "WORD", children[0], children[0])

    qualifier = intrinsic = aggregate_op = word
