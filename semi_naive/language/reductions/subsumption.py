"""Subsumption: rules that remove a tuple if another tuple of its relation dominates it.

    path(x, y, c1) <= path(x, y, c2) :- c2 < c1.

removes the first of two different tuples if the second is there. As a clause with one head it is

    path(x, y, c1) :- path(x, y, c1), path(x, y, c2), c2 < c1.

whose head is the tuple to remove; the first two atoms are the dominated and the dominating tuple. This rule keeps the least
value of each key. So the relation is evaluated as if its heads had min(c), if every use in recursion is monotone."""

from collections.abc import Callable, Container, Iterator

from semi_naive.language import syntax
from semi_naive.language.errors import WARNING, Problem
from semi_naive.language.reductions.best_values import BestValueUses
from semi_naive.language.types.inference import NUMERIC, Typing
from semi_naive.ra.ir import MIRRORED

WITHOUT_REMOVAL = ("brie", "btree", "eqrel")  # representations that do not support removal


def subsumption_problems(source: syntax.SourceProgram, relations: syntax.Relations) -> Iterator[Problem]:
    """Report subsumptive clauses that compare two relations, and relations that cannot have subsumptive clauses."""
    clauses = source.subsumptions
    names = dict.fromkeys(clause.heads[0].relation for clause in clauses)
    for clause in clauses:
        worse, better = clause.compared
        if worse.relation != better.relation:
            hint = f"write {worse.relation}(…) <= {worse.relation}(…) :- …"
            yield Problem("Subsumption must compare tuples from the same relation", clause.span, hint)
    for name, declaration in relations.items():
        if not declaration.attributes and (name in names or "btree_delete" in declaration.qualifiers):
            hint = "its one tuple has no other to give way to: leave out btree_delete and the subsumptive rules"
            yield Problem(f'Subsumptive relation "{name}" must not be a nullary relation', declaration.span, hint)
    for name in (name for name in names if name in relations):
        declaration = relations[name]
        if unsuitable := sorted(declaration.qualifiers.intersection(WITHOUT_REMOVAL)):
            lacks = 'has one or more subsumptive rules and relational representation "btree_delete" is missing'
            hint = f"leave out {', '.join(unsuitable)}, or write btree_delete in its place"
            yield Problem(f'Relation "{name}" {lacks}', declaration.span, hint)


def subsumption_warnings(source: syntax.SourceProgram, relations: syntax.Relations) -> Iterator[Problem]:
    """Warn of relations that are declared btree_delete and have no subsumptive rules."""
    names = {clause.heads[0].relation for clause in source.subsumptions}
    for name, node in relations.items():
        if "btree_delete" in node.qualifiers and name not in names:
            message = f"No subsumptive rule for relation {node.name}"
            yield Problem(message, node.span, severity=WARNING, flag="no-subsumptive-rule")


# -- relations that keep the best value of each key


def subsumed_lattices(
    source: syntax.SourceProgram,
    typings: list[Typing],
    relations: syntax.Relations,
    ops: dict[str, str],
    group: Callable[[str], frozenset[str]],
) -> dict[str, str]:
    """Return min or max for each relation whose one subsumptive clause keeps the least or the greatest value of each key.

    A relation with a use in recursion that is not monotone is left out, as the result depends on when tuples are removed. ops:
    min or max by relation, from heads; group: returns the strongly connected component of a relation."""
    clauses: dict[str, list[syntax.Clause]] = {}
    for clause in source.subsumptions:
        clauses.setdefault(clause.heads[0].relation, []).append(clause)
    only = {name: first for name, (first, *rest) in clauses.items() if not rest and not relations[name].choice.keys}
    kept = {name: op for name, clause in only.items() if (op := _kept_extreme(clause))}
    for typing in typings:
        name = typing.single.head.relation
        if name in kept and typing.kind(typing.single.head.args[-1]) not in NUMERIC:
            del kept[name]
    while True:
        monotone = {name: op for name, op in kept.items() if _is_monotone(typings, ops | kept, kept, group(name))}
        if monotone == kept:
            return kept
        kept = monotone  # the others are examined again, as the subsumptive clauses of those left out count now


def _kept_extreme(clause: syntax.Clause) -> str:
    """Return min or max if the clause compares two tuples by the last attribute, and they agree in all others; else ""."""
    (worse, better), body = (atom.args for atom in clause.compared), clause.body
    names = {arg.name for arg in (*worse, *better[-1:]) if isinstance(arg, syntax.Variable)}
    # All arguments are variables, and no two are the same: the keys, and the two values.
    if len(worse) != len(better) or len(names) != len(worse) + 1 or worse[:-1] != better[:-1]:
        return ""
    if not isinstance(body, syntax.Constraint) or body.op not in MIRRORED:
        return ""
    # The comparison of the better value with the worse one.
    op = body.op if body.args == (better[-1], worse[-1]) else MIRRORED[body.op] if body.args == (worse[-1], better[-1]) else ""
    return {"<": "min", ">": "max"}.get(op[:1], "")


def _is_monotone(typings: list[Typing], ops: dict[str, str], subsumed: Container[str], group: frozenset[str]) -> bool:
    """True if the clauses of a strongly connected component use best values monotonically. ops: min or max by relation;
    subsumed: relations whose subsumptive clauses do not count, as their heads get min or max."""
    inside = [typing for typing in typings if typing.single.head.relation in group]
    inside = [typing for typing in inside if not (typing.single.dominates and typing.single.head.relation in subsumed)]
    return not any(True for typing in inside for _ in BestValueUses(typing, ops, group).problems())
