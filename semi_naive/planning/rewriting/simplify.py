"""Simplify a program: fold constants, merge variables that are equal, and remove rules and literals without effect."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from semi_naive.planning import rewrite
from semi_naive.ra import ir

EMPTY_IS_ZERO = ("count", "sum")


def simplify(program: ir.Program, keep: set[str] | None = None, given: Iterable[str] = ()) -> ir.Program:
    """Remove all parts of a program that cannot change a result.

    keep: the required relations besides those with an .output, .printsize or .limitsize; None: all relations.
    given: the relations that may get tuples from elsewhere, besides those with an .input.
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
    """Return a body without true and duplicate literals; None if it is false."""
    found: dict[str, ir.Literal] = {}
    for literal in body:
        literal = _aggregate(literal) if isinstance(literal, ir.Aggregate) else literal
        if literal == ir.Truth(False):
            return None
        if literal != ir.Truth(True):
            found.setdefault(repr(literal), literal)  # not by ==, as a NaN of Python is not equal to itself
    return tuple(found.values())


def _aggregate(literal: ir.Aggregate) -> ir.Literal:
    """Simplify the body of an aggregate. An aggregate with a false body becomes its value for an empty body.

    Duplicate literals are not removed, as each `_` of a count is a variable of its own.
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
    """Return a key that equivalent rules have in common, and that is fast to compute."""
    return rule.head.relation, tuple([getattr(literal, "relation", literal.__class__) for literal in rule.body])


def without_empty(program: ir.Program, given: set[str]) -> list[ir.Rule]:
    """Return the rules, with false for each atom of a relation that can have no tuples."""
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
    """Return the relations that can have tuples: those in `given`, and the heads of rules whose atoms all can have some."""
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
    """Return the program without relations on which nothing wanted depends."""
    wanted = keep | {directive.relation for directive in program.directives if directive.kind != "input"}
    used = rewrite.reachable(wanted, rewrite.dependencies(program))
    return replace(
        program,
        relations={name: relation for name, relation in program.relations.items() if name in used},
        rules=[rule for rule in program.rules if rule.head.relation in used],
        directives=[directive for directive in program.directives if directive.relation in used],
    )


def substitute_aliases(rule: ir.Rule) -> ir.Rule:
    """Return the rule without equalities of a variable and another or a constant, in aggregates' bodies too.

    >>> kind = ir.Kind.NUMBER
    >>> x, y, z = (ir.Var(name, kind) for name in "xyz")
    >>> def equal(left, right): return ir.Compare("=", left, right, kind)
    >>> body = ir.Atom("b", (x, y)), equal(z, x), equal(y, ir.Const(3, kind))
    >>> print(substitute_aliases(ir.Rule(ir.Atom("a", (z, y)), body)))
    a(x, 3) :- b(x, 3).
    """
    head, body = _resolved(rule.head, rule.body, set())
    if any(isinstance(literal, ir.Aggregate) for literal in body):
        body = _substitute_in_body(head, body, set())
    return rule if (head, body) == (rule.head, rule.body) else replace(rule, head=head, body=body)


def _resolved(shown, body: tuple, fixed: set[str]):
    """Substitute in `shown` and a body; variables in `fixed` belong to the surrounding body."""
    while (found := _first_alias(body, fixed)) is not None:
        index, terms = found
        shown = None if shown is None else rewrite.substitute(shown, terms)
        body = tuple(rewrite.substitute(literal, terms) for i, literal in enumerate(body) if i != index)
    return shown, body


def _substitute_in_body(shown, body: tuple, around: set[str]) -> tuple:
    """Return the body with the equalities in its aggregates resolved. shown: the part of the rule outside the body; around:
    names of variables outside, which the aggregates may share."""
    changed = list(body)
    for index, literal in enumerate(body):
        if isinstance(literal, ir.Aggregate):
            others = [other for i, other in enumerate(body) if i != index] + [shown] * (shown is not None)
            fixed = around | {literal.result.name, *rewrite.variables_of(others)}
            target, inner = _resolved(literal.target, literal.body, fixed)
            inner = _substitute_in_body(target, inner, fixed) or (ir.Truth(True),)
            changed[index] = replace(literal, target=target, body=inner)
    return tuple(changed)


def _first_alias(body: tuple, fixed: set[str]):
    """Return (position, {name: term}) of the first equality that can be removed by substitution; None if there is none."""
    kept = fixed | rewrite.results_of(body)
    for index, literal in enumerate(body):
        if isinstance(literal, ir.Compare) and literal.op == "=":
            sides = (literal.left, literal.right)
            for var, term in (sides[::-1], sides) if _is_generated(literal.right) else (sides, sides[::-1]):
                if isinstance(var, ir.Var) and _is_alias(var, term, literal.kind, kept):
                    return index, {var.name: term}
    return None


def _is_alias(var: ir.Var, term: ir.Term, kind: ir.Kind, kept: set[str]) -> bool:
    return isinstance(term, ir.Var | ir.Const) and var != term and var.kind == term.kind == kind and var.name not in kept


def _is_generated(term) -> bool:
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
    return rewrite.transform(node, _folded)


def _folded(node):
    """Return a node whose parts are folded, folded itself."""
    if isinstance(node, ir.Call):
        return _call(node)
    if isinstance(node, ir.Compare):
        return _compare(node)
    return node


def _numeric(terms) -> bool:
    return all(isinstance(term, ir.Const) and term.kind in NUMERIC for term in terms)


def _call(call: ir.Call):
    """Numbers only: strings and records have their ids in the run that makes them. A user's function is called when due."""
    if call.op.startswith("@") or call.kind not in NUMERIC or not _numeric(call.args):
        return call
    from semi_naive.ra.expressions.terms import EvaluationError, evaluate
    from semi_naive.ra.values.kinds import numbers

    try:
        return ir.Const(numbers(evaluate(call, {}, 1, None), call.kind)[0].item(), call.kind)
    except EvaluationError:
        return call


def _compare(literal: ir.Compare):
    """Return a comparison as a truth value if its result is known."""
    left, right = literal.left, literal.right
    if isinstance(left, ir.Var) and left == right:
        return ir.Truth(REFLEXIVE[literal.op])
    if _numeric((left, right)):
        from semi_naive.ra.expressions.terms import holds

        return ir.Truth(bool(holds(literal, {}, 1, None)[0]))
    if isinstance(left, ir.Const) and isinstance(right, ir.Const) and literal.op in ("=", "!="):
        return ir.Truth((left.value == right.value) == (literal.op == "="))
    if literal.op in ("=", "!=") and literal.kind == ir.Kind.RECORD and _differ(left, right):
        return ir.Truth(literal.op == "!=")
    return literal


def _differ(left, right) -> bool:
    """True if two record terms cannot be equal: a constructed record is not nil, and records of different branches differ."""
    if isinstance(left, ir.Pack) and isinstance(right, ir.Pack):
        return bool(left.branch and right.branch) and left.branch != right.branch
    return {type(left), type(right)} == {ir.Const, ir.Pack}
