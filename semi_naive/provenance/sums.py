"""Explain values of aggregated heads in terms of the written rules: the tuples from which a value is aggregated.

    degree(x, count(y)) :- edge(x, y).          degree(3, 2)   [degree(x, count(y)) :- edge(x, y).]
    degree(x, count(y)) :- edge(y, x).             2 = count y : { edge(3, y) ; edge(y, 3) }
                                                   edge(3, 4)   [fact]

The rules that are evaluated (`language.reductions.heads`, `language.reductions.recursive_sums`) are generated, and not shown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from semi_naive.host.numbers import series
from semi_naive.planning import rewrite
from semi_naive.planning.spoken import as_written
from semi_naive.ra.ir import Atom, Compare, Const, Program, Relation, Term, Var, Wild


def with_written_heads(program: Program) -> Program:
    """Return the program with a rule for each written head that aggregates, deriving tuples of its key with any value, in place
    of the evaluated rules."""
    generated = {name for name in program.relations if name.partition("@")[0] in program.sums}
    rules = [rule for rule in program.rules if rule.head.relation not in generated]
    for name, (ops, heads) in program.sums.items():
        for head in heads:
            key = iter(head.key)
            args = tuple(Wild() if column in ops else next(key) for column in range(program.relations[name].arity))
            rules.append(replace(head.rule, head=Atom(name, args), plan=None))
    return replace(program, rules=rules)


def aggregated_from(program: Program, name: str, values: tuple) -> Iterator[str]:
    """Yield a line for each aggregated value of a tuple of a relation: the value, and the rules from which it is aggregated."""
    ops, heads = program.sums[name]
    key = [value for column, value in enumerate(values) if column not in ops]
    for column, op in ops.items():
        bodies_by_target: dict[str, list[str]] = {}
        for head in heads:
            constants, equations = _unified(head.key, key)
            if constants is None:
                continue
            terms = [rewrite.substitute(term, constants) for term in head.arguments[column]]
            body = [rewrite.substitute(literal, constants) for literal in (*head.rule.body, *equations)]
            target = ", ".join(_text(term, program.relations) for term in terms)
            target = f"{op} {target}" if head.aggregates else target
            bodies_by_target.setdefault(target, []).append(", ".join(_text(literal, program.relations) for literal in body))
        pieces = []
        for target, bodies in bodies_by_target.items():
            nonempty = " ; ".join(filter(None, bodies))
            pieces.append(f"{target} : {{ {nonempty} }}" if nonempty else target)
        yield f"{values[column]} = {_combined_text(op, pieces)}"


def _combined_text(op: str, pieces: list[str]) -> str:
    """Return the text of an aggregate over several pieces.

    >>> _combined_text("sum", ["sum c : { a(c) }", "7"]), _combined_text("max", ["max c : { a(c) }", "7"])
    ('sum c : { a(c) } + 7', 'max of max c : { a(c) } and 7')
    """
    if op in ("sum", "count") or len(pieces) == 1:
        return " + ".join(pieces)
    return f"{op} of {series(pieces)}"


def _unified(key: tuple, values: list) -> tuple[dict[str, Term] | None, list[Compare]]:
    """Match the terms of a key with values. Return (the constant of each variable, equations for computed terms), or (None, [])
    if they do not match."""
    constants: dict[str, Term] = {}
    equations = []
    for term, value in zip(key, values, strict=True):
        if isinstance(value, tuple):
            continue  # a record, which no constant stands for: it leaves the term's variables free, and excludes no rule
        constant = Const(value, term.kind)
        if isinstance(term, Const):
            if term.value != value:
                return None, []
        elif not isinstance(term, Var):
            equations.append(Compare("=", term, constant, term.kind))
        elif constants.setdefault(term.name, constant) != constant:
            return None, []
    return constants, equations


def _text(node, relations: Mapping[str, Relation]) -> str:
    """Return a term or a literal as a program writes it."""
    return str(as_written(node, relations))
