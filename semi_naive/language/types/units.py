"""Check that arithmetic on dates, timestamps and durations has a meaning, and choose the functor that an argument's type needs.

To type inference, these types are subtypes of number, so that `d + 1` is allowed. This module tells what such a term counts: a
date counts days, a timestamp and a duration microseconds, so `date + duration` is an error.
"""

from collections.abc import Iterator

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.types.inference import Typing
from semi_naive.ra.expressions.calendar import PARSE, TEXT_OF
from semi_naive.ra.ir import ENCODED, Kind

D, T, U, N = Kind.DATE, Kind.TIMESTAMP, Kind.DURATION, Kind.NUMBER
RESULTS = {
    ("+", D, N): D, ("+", N, D): D, ("-", D, N): D, ("-", D, D): N,
    ("+", T, U): T, ("+", U, T): T, ("-", T, U): T, ("-", T, T): U,
    ("+", U, U): U, ("-", U, U): U, ("*", U, N): U, ("*", N, U): U,
    ("/", U, N): U, ("/", U, U): N, ("%", U, U): U,
}  # fmt: skip
SUMMARY = (
    "there are date + days, date - date, timestamp + duration, timestamp - timestamp, and sums, differences, multiples and "
    "quotients of durations; timestamp(d) is a date's midnight, hours(2) a duration"
)
DATE_PARTS, TIME_PARTS = ("year", "month", "day", "weekday"), ("hour", "minute", "second")
TAKES = {  # the kinds that the argument of a functor may have
    **dict.fromkeys(DATE_PARTS, (D, T)), **dict.fromkeys(TIME_PARTS, (T,)), "date": (T, D), "timestamp": (D, T),
    **dict.fromkeys(("days", "hours", "minutes", "seconds"), (N,)),
}  # fmt: skip
# What the result of a functor counts.
GIVES = {"date": D, "timestamp": T, "duration": U, **dict.fromkeys(("days", "hours", "minutes", "seconds"), U)}

OF_DATES = {*TAKES, *GIVES, "to_string"}  # functors that depend on what their argument counts


def unit(typing: Typing, node: syntax.Node) -> Kind | None:
    """Return what the value of an expression of numbers counts: a kind of dates or times, or NUMBER; None if it is unknown, as
    for a variable that is only bound by arithmetic."""
    if isinstance(node, syntax.Functor) and node.name in GIVES:
        return GIVES[node.name]
    if isinstance(node, syntax.Functor) and len(node.args) == 2 and node.name in ("+", "-", "*", "/", "%"):
        left, right = (unit(typing, arg) for arg in node.args)
        return None if left is None or right is None else RESULTS.get((node.name, left, right), Kind.NUMBER)
    if isinstance(node, syntax.Number):
        return Kind.NUMBER
    types = typing.types(node) or frozenset()
    if len(types) != 1:
        return None
    (name,) = types
    encoded = typing.env.encoded_as(name)
    # A variable that only arithmetic binds has the type of constants, which `env` does not contain. A functor such as max(d, e)
    # has the type of the place where it stands, which says nothing about d and e.
    return encoded or (Kind.NUMBER if name in typing.env and not isinstance(node, syntax.Functor) else None)


def functor_problems(typing: Typing, node: syntax.Functor) -> Iterator[Problem]:
    """Yield the problem of a functor whose arguments count different things, or not what it takes."""
    units = [unit(typing, arg) for arg in node.args]
    # A symbol is no number, but the text of a date, say.
    if node.name in TAKES and units[0] not in (None, *TAKES[node.name]) and typing.kind(node.args[0]) == Kind.NUMBER:
        takes = " or ".join(f"a {kind}" for kind in TAKES[node.name])
        hint = f"it takes {takes}; as(…, {TAKES[node.name][0]}) converts a number"
        yield Problem(f"{node.name} of a {units[0]}", node.span, hint)
    elif node.name in ("+", "-", "*", "/", "%") and len(units) == 2 and None not in units and ENCODED & set(units):
        if (node.name, *units) not in RESULTS:
            yield Problem(f"{units[0]} {node.name} {units[1]} has no meaning", node.span, SUMMARY)


def argument_problem(typing: Typing, arg: syntax.Node, type_name: str) -> Problem | None:
    """Return the problem of a computed argument that counts something else than an attribute of a type does."""
    expected = typing.env.encoded_as(type_name)
    if not isinstance(arg, syntax.Functor) or expected is None or (actual := unit(typing, arg)) in (None, expected):
        return None
    return Problem(f"a {actual} where a {type_name} is expected", arg.span, f"as(…, {type_name}) converts it")


def chosen_functor(typing: Typing, node: syntax.Functor) -> tuple[str, bool]:
    """Return (the functor of the evaluator that computes a functor, True if a timestamp is cut to its date first)."""
    kind, arg = typing.kind(node.args[0]), node.args[0]
    if node.name in GIVES and kind == Kind.SYMBOL:
        return PARSE + node.name, False
    counted = unit(typing, arg)
    if node.name == "to_string" and counted in ENCODED:
        return TEXT_OF + counted.value, False
    if node.name in DATE_PARTS:
        return node.name, counted == Kind.TIMESTAMP
    return ("as" if counted is not None and GIVES.get(node.name) == counted else node.name), False
