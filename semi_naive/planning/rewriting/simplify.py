"""Simplify a program: fold constants, merge variables that are equal, and remove rules and literals without effect."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from semi_naive.planning import rewrite
from semi_naive.ra import ir

Reader = TypeVar("Reader", bound=ir.Atom | ir.Term | None)  # the head that reads a body, or the target of an aggregate
EMPTY_IS_ZERO = ("count", "sum")


def simplify(program: ir.Program, keep: set[str] | None = None, given: Iterable[str] = ()) -> ir.Program:
    """Remove all parts of a program that cannot change a result.

    keep: the required relations besides those with an .output, .printsize or .limitsize; None: all relations.
    given: the relations that may get tuples by other means than rules, besides those with an .input."""
    given = set(given) | {directive.relation for directive in program.directives if directive.kind == "input"}
    for relation in program.relations.values():
        given |= {relation.worse, relation.better} if relation.dominated else set()  # filled while tuples are compared
        given |= {relation.name} if relation.follows else set()  # iterations of other relations, which it records
    done: dict[int, ir.Rule] = {}  # settled rules, by their ids: most do not change any more
    compared: list[ir.Rule] = []  # rules without repetition
    while True:
        rules = [done.get(id(rule)) or settled(rule) for rule in without_empty(program, given)]  # None: its body is false
        if rules != compared:
            compared = without_repetition([rule for rule in rules if rule is not None])
        smaller = replace(program, rules=compared)
        done |= {id(rule): rule for rule in smaller.rules}
        if smaller.rules == program.rules:
            return smaller if keep is None else without_unused(smaller, keep)
        program = smaller


def settled(rule: ir.Rule) -> ir.Rule | None:
    """Fold constants, merge equal variables and drop true literals of a rule until it is stable. None if its body is false."""
    if not rule.body and all(isinstance(arg, ir.Const) for arg in rule.head.args):  # most facts
        return rule
    while True:
        head, body = fold(rule.head), _without_true(map(fold, rule.body))
        if body is None:
            return None
        smaller = substitute_aliases(rewrite.with_body(rule if head is rule.head else replace(rule, head=head), body))
        if smaller is rule or smaller == rule:
            return rule
        rule = smaller


def _without_true(body: Iterable) -> tuple | None:
    """Return a body without true and duplicate literals; None if it is false."""
    kept: list[ir.Literal] = []
    for literal in body:
        literal = _simplified_aggregate(literal) if isinstance(literal, ir.Aggregate) else literal
        if not isinstance(literal, ir.Truth):
            kept.append(literal)
        elif not literal.value:
            return None
    if len(set(map(_shape_of_literal, kept))) == len(kept):  # no two can be equal
        return tuple(kept)
    return tuple({repr(literal): literal for literal in kept}.values())  # not by ==, as a NaN of Python is not equal to itself


def _simplified_aggregate(literal: ir.Aggregate) -> ir.Literal:
    """Simplify the body of an aggregate. An aggregate with a false body becomes its value for an empty body.

    Duplicate literals are not removed, as each `_` of a count is a variable of its own."""
    body = [_simplified_aggregate(inner) if isinstance(inner, ir.Aggregate) else inner for inner in literal.body]
    if ir.Truth(False) not in body:
        kept = tuple(inner for inner in body if inner != ir.Truth(True))
        return replace(literal, body=kept or (ir.Truth(True),))
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
    kept, texts = [], set()
    shapes = list(map(_shape_of_rule, rules))
    frequency = Counter(shapes)
    for rule, shape in zip(rules, shapes, strict=True):
        if rule.head in rule.body:
            continue
        if not rule.body or frequency[shape] == 1:  # a fast path for most rules: it saves 1 s for 5,000
            kept.append(rule)
            continue
        text = rewrite.canonical(rule)
        if text not in texts or rewrite.has_autoinc(rule):  # each copy of a rule with autoinc() counts anew
            kept.append(rule)
        texts.add(text)
    return kept


def _shape_of_rule(rule: ir.Rule) -> tuple:
    """Return a key that is equal for duplicate rules, and fast to compute."""
    return rule.head.relation, tuple(map(_shape_of_literal, rule.body))


def _shape_of_literal(literal: ir.Literal) -> str | type:
    """Return a key that is equal for duplicate literals."""
    return literal.relation if isinstance(literal, ir.Atom) else literal.__class__


def without_empty(program: ir.Program, given: set[str]) -> list[ir.Rule]:
    """Return the rules, with false in place of each atom of a relation that can have no tuples. given: see `simplify`."""
    nonempty = _nonempty(program, given)

    def change(node):
        if isinstance(node, ir.Not) and node.atom == ir.Truth(False):
            return ir.Truth(True)
        return node if not isinstance(node, ir.Atom) or node.relation in nonempty else ir.Truth(False)

    if nonempty >= set(program.relations):
        return program.rules
    return [rewrite.with_body(rule, (rewrite.transform(literal, change) for literal in rule.body)) for rule in program.rules]


def _nonempty(program: ir.Program, given: set[str]) -> set[str]:
    """Return the relations that can have tuples: those in `given`, and the heads of rules whose positive atoms all can."""
    # For each rule, the relations of its positive atoms that are not known to be nonempty.
    missing = [{atom.relation for atom in rewrite.positive_atoms(rule.body)} for rule in program.rules]
    readers: dict[str, list[int]] = {}
    for number, relations in enumerate(missing):
        for name in relations:
            readers.setdefault(name, []).append(number)
    nonempty: set[str] = set()
    derivable = (rule.head.relation for rule, relations in zip(program.rules, missing, strict=True) if not relations)
    unpropagated = [*given, *derivable]
    while unpropagated:
        if (name := unpropagated.pop()) in nonempty:
            continue
        nonempty.add(name)
        for number in readers.get(name, ()):
            missing[number].discard(name)
            if not missing[number]:
                unpropagated.append(program.rules[number].head.relation)
    return nonempty


def without_unused(program: ir.Program, keep: set[str]) -> ir.Program:
    """Return the program without the relations on which no required relation depends. keep: see `simplify`."""
    wanted = keep | {directive.relation for directive in program.directives if directive.kind != "input"}
    used = rewrite.reachable(wanted, rewrite.dependencies(program))
    return replace(
        program,
        relations={name: relation for name, relation in program.relations.items() if name in used},
        rules=[rule for rule in program.rules if rule.head.relation in used],
        directives=[directive for directive in program.directives if directive.relation in used],
    )


def substitute_aliases(rule: ir.Rule) -> ir.Rule:
    """Remove equations of a variable and another variable or a constant from a rule and its aggregates, by substitution.

    >>> kind = ir.Kind.NUMBER
    >>> x, y, z = (ir.Var(name, kind) for name in "xyz")
    >>> def equal(left, right): return ir.Compare("=", left, right, kind)
    >>> body = ir.Atom("b", (x, y)), equal(z, x), equal(y, ir.Const(3, kind))
    >>> print(substitute_aliases(ir.Rule(ir.Atom("a", (z, y)), body)))
    a(x, 3) :- b(x, 3).
    """
    head, body = _without_aliases(rule.head, rule.body, set())
    if any(isinstance(literal, ir.Aggregate) for literal in body):
        body = _without_aliases_in_aggregates(head, body, set())
    return rule if (head, body) == (rule.head, rule.body) else replace(rule, head=head, body=body)


def _without_aliases(reader: Reader, body: tuple, fixed: set[str]) -> tuple[Reader, tuple]:
    """Return (reader, body) without the equations that substitution can remove. reader: the body's head, or the target of an
    aggregate; fixed: variables of a surrounding body, which stay."""
    while (alias := _first_alias(body, fixed)) is not None:
        index, terms = alias
        reader = rewrite.substitute(reader, terms)
        body = tuple(rewrite.substitute(literal, terms) for i, literal in enumerate(body) if i != index)
    return reader, body


def _without_aliases_in_aggregates(reader: Reader, body: tuple, outside: set[str]) -> tuple:
    """Return a body after the substitutions in its aggregates. outside: variables of surrounding bodies."""
    changed = list(body)
    for index, literal in enumerate(body):
        if isinstance(literal, ir.Aggregate):
            others = [other for i, other in enumerate(body) if i != index] + [reader]
            fixed = outside | {literal.result.name, *rewrite.variables_of(others)}
            target, inner = _without_aliases(literal.target, literal.body, fixed)
            inner = _without_aliases_in_aggregates(target, inner, fixed) or (ir.Truth(True),)
            changed[index] = replace(literal, target=target, body=inner)
    return tuple(changed)


def _first_alias(body: tuple, fixed: set[str]) -> tuple[int, dict[str, ir.Term]] | None:
    """Return (position, {name: term}) of the first equation that can be removed by substitution; None if there is none."""
    equations = [(index, part) for index, part in enumerate(body) if isinstance(part, ir.Compare) and part.op == "="]
    fixed = fixed | rewrite.results_of(body) if equations else fixed
    for index, literal in equations:
        sides = (literal.left, literal.right)
        both_ways = (sides[::-1], sides) if _is_generated(literal.right) else (sides, sides[::-1])  # generated names go first
        for var, term in both_ways:
            if isinstance(var, ir.Var) and var.name not in fixed and _is_alias(var, term, literal.kind):
                return index, {var.name: term}
    return None


def _is_alias(var: ir.Var, term: ir.Term, kind: ir.Kind) -> bool:
    """True if another variable, or a constant, of the same kind can replace a variable."""
    return isinstance(term, ir.Var | ir.Const) and var != term and var.kind == term.kind == kind


def _is_generated(term: ir.Term) -> bool:
    """True for generated variables; they are substituted before the user's."""
    return isinstance(term, ir.Var) and not term.name.isidentifier()


NUMERIC = (ir.Kind.NUMBER, ir.Kind.UNSIGNED, ir.Kind.FLOAT)
REFLEXIVE = {"=": True, "<=": True, ">=": True, "!=": False, "<": False, ">": False}


def fold(node):
    """Return the node with its constant parts computed. A part without a value, such as a division by zero, is not changed, as
    it may never be evaluated.

    >>> kind = ir.Kind.NUMBER
    >>> x, one, two, zero = ir.Var("x", kind), ir.Const(1, kind), ir.Const(2, kind), ir.Const(0, kind)
    >>> print(fold(ir.Compare("=", x, ir.Call("+", (one, two), kind), kind)))
    x = 3
    >>> print(fold(ir.Compare("<", one, two, kind)), fold(ir.Call("/", (one, zero), kind)))
    true (1 / 0)
    """
    if isinstance(node, ir.Atom) and rewrite.has_simple_arguments(node):  # most literals
        return node
    return rewrite.transform(node, _folded)


def _folded(node):
    """Fold a node whose parts are folded."""
    if isinstance(node, ir.Call):
        return _folded_call(node)
    if isinstance(node, ir.Compare):
        return _folded_comparison(node)
    return node


def _are_numbers(terms: Iterable[ir.Term]) -> bool:
    """True if all terms are constants of a numeric kind."""
    return all(isinstance(term, ir.Const) and term.kind in NUMERIC for term in terms)


def _folded_call(call: ir.Call) -> ir.Term:
    """Return a call of numeric constants as its value. Strings and records get their ids only in a run, and a user-defined
    functor may have side effects."""
    if call.op.startswith("@") or call.kind not in NUMERIC or not _are_numbers(call.args):
        return call
    from semi_naive.ra.expressions.terms import EvaluationError, evaluate
    from semi_naive.ra.values.kinds import numbers

    try:
        return ir.Const(numbers(evaluate(call, {}, 1, None), call.kind)[0].item(), call.kind)
    except EvaluationError:
        return call


def _folded_comparison(literal: ir.Compare) -> ir.Literal:
    """Return a comparison as a truth value if its result is known."""
    left, right = literal.left, literal.right
    if isinstance(left, ir.Var) and left == right:
        return ir.Truth(REFLEXIVE[literal.op])
    if _are_numbers((left, right)):
        from semi_naive.ra.expressions.terms import holds

        return ir.Truth(bool(holds(literal, {}, 1, None)[0]))
    if isinstance(left, ir.Const) and isinstance(right, ir.Const) and literal.op in ("=", "!="):
        return ir.Truth((left.value == right.value) == (literal.op == "="))
    if literal.op in ("=", "!=") and literal.kind == ir.Kind.RECORD and _differ(left, right):
        return ir.Truth(literal.op == "!=")
    return literal


def _differ(left: ir.Term, right: ir.Term) -> bool:
    """True if two record terms cannot be equal: a constructed record is not nil, and records of different branches differ."""
    if isinstance(left, ir.Pack) and isinstance(right, ir.Pack):
        return bool(left.branch and right.branch) and left.branch != right.branch
    return {type(left), type(right)} == {ir.Const, ir.Pack}
