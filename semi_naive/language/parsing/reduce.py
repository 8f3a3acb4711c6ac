"""Common parts of the syntax tree builders: spans, words, and the list of problems."""

import threading
from collections.abc import Sequence
from functools import wraps

from semi_naive.language.errors import WARNING, Problem, Span
from semi_naive.language.parsing.tokens import Token
from semi_naive.language.syntax import Functor

ESCAPES = {'"': '"', "'": "'", "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SIGNIFICANT = frozenset("IDENT QNAME WORD STRING NUMBER UNSIGNED FLOAT IP PARAMETER".split())


def _edge(children: Sequence, step: int) -> Span | None:
    """Return the span of the first token or node of children, which may be nested lists. step: -1 for the last one."""
    for child in children[::step]:
        if (span := getattr(child, "span", None)) is not None:
            return span
        if isinstance(child, (list, tuple)) and (inner := _edge(child, step)) is not None:
            return inner
    return None


def significant(children: Sequence) -> list:
    """Return the children without punctuation and keywords."""
    return [child for child in children if not isinstance(child, Token) or child.type in _SIGNIFICANT]


def node(method):
    """Decorate the method of a rule that becomes a node: it gets the span and the children, no punctuation and keywords."""

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


def of_fields(cls, own: int | None = None):
    """Return the method of a grammar rule whose names and values are the fields of a node, in order. own: those after so many
    are one field, as a tuple."""

    def reduced(self, children):
        values = [str(child) if child.__class__ is Token else child for child in significant(children)]
        if own is not None:
            values[own:] = [tuple(values[own:])]
        return cls(*values, span=self.between(children))

    return reduced


class ParseState(threading.local):
    """The state of one parse in one thread. problems: so far; head_aggregates: the aggregates in the form of functors in the
    current statement, which are allowed only as arguments of a head."""

    def begin(self) -> list[Problem]:
        """Start a parse. Returns the list to which problems are appended."""
        self.problems: list[Problem] = []
        self.head_aggregates: list[Functor] = []
        return self.problems


class Reduce:
    """The base class of builders, which have methods for rules of the grammar. Builders of one parser share their state."""

    def __init__(self, state: ParseState):
        self.state = state

    def between(self, children: Sequence) -> Span:
        """Return the span from the first to the last of some children."""
        first, last = _edge(children, 1), _edge(children, -1)
        assert first is not None and last is not None  # a rule with a place has a token or a node
        return first if first is last else first.to(last)

    def problem(self, message: str, span: Span, hint: str = ""):
        """Record an error."""
        self.state.problems.append(Problem(message, span, hint))

    def deprecated(self, message: str, span: Span, hint: str, flag: str = ""):
        """Record a warning about obsolete syntax."""
        self.state.problems.append(Problem(message, span, hint, WARNING, flag=flag))

    def _unescaped(self, text: Token) -> str:
        """Return the string of a quoted literal."""
        inside, out, at = text[1:-1], [], 0
        while (slash := inside.find("\\", at)) >= 0:
            code = inside[slash + 1]
            if code not in ESCAPES:
                hint = "a backslash itself is written \\\\"
                self.problem(f"Unknown escape sequence \\{code}", text.span, hint)
            out += [inside[at:slash], ESCAPES.get(code, code)]
            at = slash + 2
        return "".join(out) + inside[at:]


class NameBuilder(Reduce):
    """Lists, qualified names and words."""

    def names(self, children):
        return significant(children)

    fields = heads = parameter = component_head = plan = names

    def args(self, children):
        return tuple(significant(children))

    field = args

    def qname(self, children):
        first, last = children[0], children[-1]
        return Token.spanning("".join(children), "QNAME", first, last)

    def word(self, children):
        return Token.spanning(str(children[0]), "WORD", children[0], children[0])

    qualifier = intrinsic = aggregate_op = word
