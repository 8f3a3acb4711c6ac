"""Rules as Python data: programs without text, for programs that generate programs.

    >>> from semi_naive import Program
    >>> from semi_naive.rules import value, var
    >>> pair = {"x": "number", "y": "number"}
    >>> program = Program.from_rules(
    ...     relations={"edge": pair, "path": pair, "far": {"x": "number", "what": "symbol"}},
    ...     rules=[
    ...         (("path", "x", "y"), ("edge", "x", "y")),
    ...         (("path", "x", "z"), ("path", "x", "y"), ("edge", "y", "z")),
    ...         (("far", "x", value("far")), ("path", 1, "x"), ("!", "edge", 1, "x"), var("x") * 2 > 3),
    ...     ],
    ... )
    >>> print(*program.checked.rules, sep="\\n")
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
    far(x, "far") :- path(1, x), !edge(1, x), (x * 2) > 3.
    >>> program.run(facts={"edge": [(1, 2), (2, 3)]})["far"].to_list()
    [(3, 'far')]

A rule is (head, literal, …), a fact (head,). An atom is (relation, term, …), a negation ("!", relation, term, …), a comparison
(op, term, term) with = != < <= > >=, a test ("match", pattern, term) or ("contains", part, term). A term is

    "x"                              a variable, "_" any value
    3, 1.5, value("a"), None         a constant: a number, a string, nil
    ["x", 1]                         a record
    Branch("Cons", "x", "t")         a branch of an algebraic data type; see `semi_naive.Branch`
    ("+", "x", 1), ("cat", "s", …)   a functor, by the name it has in Datalog; also var("x") + 1
    ("sum", "n", [("b", "x", "n")])  an aggregate over a body; ("count", [("b", "x", "_")])
    ("min", "d")                     in a head, as the last term: the least in recursion; ("max", "d")
"""

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Expression:
    """A term that + - * / % ** and comparisons work on. `data`: the term as plain data."""

    data: object

    def __add__(self, other):
        return Expression(("+", self, other))

    def __radd__(self, other):
        return Expression(("+", other, self))

    def __sub__(self, other):
        return Expression(("-", self, other))

    def __rsub__(self, other):
        return Expression(("-", other, self))

    def __mul__(self, other):
        return Expression(("*", self, other))

    def __rmul__(self, other):
        return Expression(("*", other, self))

    def __truediv__(self, other):
        return Expression(("/", self, other))

    def __mod__(self, other):
        return Expression(("%", self, other))

    def __pow__(self, other):
        return Expression(("^", self, other))

    def __neg__(self):
        return Expression(("neg", self))

    def __lt__(self, other):
        return "<", self, other

    def __le__(self, other):
        return "<=", self, other

    def __gt__(self, other):
        return ">", self, other

    def __ge__(self, other):
        return ">=", self, other

    def __eq__(self, other):
        return "=", self, other

    def __ne__(self, other):
        return "!=", self, other

    __hash__ = object.__hash__


@dataclass(frozen=True)
class Value:
    """A string constant, as opposed to a variable."""

    text: str


def var(name: str) -> Expression:
    """Return a variable to compute with: var("x") + 1, var("x") < var("y")."""
    return Expression(name)


def value(constant) -> Expression:
    """Return a constant. String constants must be made by this function, as plain strings are variables."""
    return Expression(Value(constant) if isinstance(constant, str) else constant)
