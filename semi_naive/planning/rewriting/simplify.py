"""Simplification of a program: constants are folded, names merged, and irrelevant rules and literals removed."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from semi_naive.planning import rewrite
from semi_naive.planning.rewriting.aliases import substitute_aliases
from semi_naive.planning.rewriting.folding import fold
from semi_naive.ra import ir

EMPTY_IS_ZERO = ("count", "sum")


def simplify(program: ir.Program, keep: set[str] | None = None, given: Iterable[str] = ()) -> ir.Program:
    """Remove all that cannot change a result.

    keep: the relations wanted besides those with an .output, .printsize or .limitsize; None: all of them.
    given: the relations that may get tuples from elsewhere, besides those with an .input.

    >>> kind = ir.Kind.NUMBER
    >>> x, y = ir.Var("x", kind), ir.Var("y", kind)
    >>> number = ir.Type("number", kind)
    >>> relations = {name: ir.Relation(name, (("x", number),)) for name in "abc"}
    >>> a, b, c = (lambda term, name=name: ir.Atom(name, (term,)) for name in "abc")
    >>> rules = [
    ...     ir.Rule(a(y), (b(x), ir.Compare("=", x, y, kind), ir.Not(c(x)))),
    ...     ir.Rule(a(x), (c(x),)),
    ...     ir.Rule(a(x), (a(x), b(x))),
    ... ]
    >>> before = ir.Program({"number": number}, relations, rules)
    >>> after = simplify(before, keep={"a"}, given={"b"})
    >>> print(*after.rules, list(after.relations))
    a(y) :- b(y). ['a', 'b']
    """
    given = set(given) | {directive.relation for directive in program.directives if directive.kind == "input"}
    given |= {
        name for relation in program.relations.values() if relation.dominated for name in (relation.worse, relation.better)
    }
    given |= {relation.name for relation in program.relations.values() if relation.follows}
    done: dict[int, ir.Rule] = {}  # rules that are settled, by identity: most of them stay as they are
    while True:
        found = (done.get(id(rule)) or settled(rule) for rule in without_empty(program, given))
        smaller = replace(program, rules=without_repetition([rule for rule in found if rule is not None]))
        done |= {id(rule): rule for rule in smaller.rules}
        if smaller.rules == program.rules:
            return smaller if keep is None else without_unused(smaller, keep)
        program = smaller


def settled(rule: ir.Rule) -> ir.Rule | None:
    """Fold constants, merge names and drop true literals of a rule; None if it can have no tuples."""
    if not rule.body and all(isinstance(arg, ir.Const) for arg in rule.head.args):
        return rule
    while True:
        body = _settled(fold(literal) for literal in rule.body)
        if body is None:
            return None
        smaller = substitute_aliases(rewrite.with_body(replace(rule, head=fold(rule.head)), body))
        if smaller == rule:
            return rule
        rule = smaller


def _settled(body: Iterable) -> tuple | None:
    """A body without truths, and with no literal twice; None if it is false."""
    found: dict[str, ir.Literal] = {}
    for literal in body:
        literal = _aggregate(literal) if isinstance(literal, ir.Aggregate) else literal
        if literal == ir.Truth(False):
            return None
        if literal != ir.Truth(True):
            found.setdefault(repr(literal), literal)  # not by ==, as a NaN of Python is not equal to itself
    return tuple(found.values())


def _aggregate(literal: ir.Aggregate) -> ir.Literal:
    """Settle the body of an aggregate; one with a false body becomes its value for an empty body.

    Literals that are twice stay: each `_` of a count is a variable of its own.
    """
    body = [_aggregate(inner) if isinstance(inner, ir.Aggregate) else inner for inner in literal.body]
    if ir.Truth(False) not in body:
        left = tuple(inner for inner in body if inner != ir.Truth(True))
        return replace(literal, body=left or (ir.Truth(True),))
    if literal.init is not None:
        return ir.Compare("=", literal.result, literal.init, literal.result.kind)
    if literal.op not in EMPTY_IS_ZERO:
        return ir.Truth(False)
    zero = 0.0 if literal.result.kind == ir.Kind.FLOAT else 0
    return ir.Compare("=", literal.result, ir.Const(zero, literal.result.kind), literal.result.kind)


def without_repetition(rules: list[ir.Rule]) -> list[ir.Rule]:
    """Drop duplicate rules and tautologies `p :- p`.

    >>> x, y = ir.Var("x", ir.Kind.NUMBER), ir.Var("y", ir.Kind.NUMBER)
    >>> rules = [ir.Rule(ir.Atom("a", (v,)), (ir.Atom("b", (v,)),)) for v in (x, y)]
    >>> print(*without_repetition(rules))
    a(x) :- b(x).
    """
    kept, seen = [], set()
    shapes = Counter(map(_shape_of_rule, rules))
    for rule in rules:
        if not rule.body:
            kept.append(rule)
        elif rule.head not in rule.body and shapes[_shape_of_rule(rule)] == 1:  # most are: 1 s of 5,000 rules
            kept.append(rule)
        elif rule.head not in rule.body:
            same = rewrite.canonical(rule)
            if same not in seen or rewrite.has_autoinc(rule):
                kept.append(rule)
            seen.add(same)
    return kept


def _shape_of_rule(rule: ir.Rule) -> tuple:
    """What two rules that say the same have in common, and that is quick to see."""
    return rule.head.relation, tuple([getattr(literal, "relation", literal.__class__) for literal in rule.body])


def without_empty(program: ir.Program, given: set[str]) -> list[ir.Rule]:
    """The rules, with false for each atom of a relation that can have no tuples."""
    filled = _filled(program, given)

    def change(node):
        if isinstance(node, ir.Not) and node.atom == ir.Truth(False):
            return ir.Truth(True)
        return node if not isinstance(node, ir.Atom) or node.relation in filled else ir.Truth(False)

    if filled >= set(program.relations):
        return program.rules
    return [
        rewrite.with_literals(rule, tuple(rewrite.transform(literal, change) for literal in rule.body))
        for rule in program.rules
    ]


def _filled(program: ir.Program, given: set[str]) -> set[str]:
    """The relations that can have tuples: those `given`, and the heads of rules all of whose atoms can have some."""
    missing = [{atom.relation for atom in rewrite.positive_atoms(rule.body)} for rule in program.rules]
    readers: dict[str, list[int]] = {}
    for number, relations in enumerate(missing):
        for name in relations:
            readers.setdefault(name, []).append(number)
    filled: set[str] = set()
    waiting = [*given, *(rule.head.relation for rule, left in zip(program.rules, missing, strict=True) if not left)]
    while waiting:
        if (name := waiting.pop()) in filled:
            continue
        filled.add(name)
        for number in readers.get(name, ()):
            missing[number].discard(name)
            if not missing[number]:
                waiting.append(program.rules[number].head.relation)
    return filled


def without_unused(program: ir.Program, keep: set[str]) -> ir.Program:
    """The program without relations on which nothing wanted depends."""
    wanted = keep | {directive.relation for directive in program.directives if directive.kind != "input"}
    used = rewrite.reachable(wanted, rewrite.dependencies(program))
    return replace(
        program,
        relations={name: relation for name, relation in program.relations.items() if name in used},
        rules=[rule for rule in program.rules if rule.head.relation in used],
        directives=[directive for directive in program.directives if directive.relation in used],
    )
