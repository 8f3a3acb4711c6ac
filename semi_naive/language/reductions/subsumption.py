"""Subsumption: rules that remove a tuple if another tuple of its relation dominates it.

    path(x, y, c1) <= path(x, y, c2) :- c2 < c1.

removes the first of two different tuples if the second is there. As a clause with one head it is

    path(x, y, c1) :- path(x, y, c1), path(x, y, c2), c2 < c1.

whose head is the tuple to remove; the first two atoms are the dominated and the dominating tuple. This rule keeps the least
value of each key. So the relation is evaluated as if its heads had min(c), if every use in recursion is monotone.
"""

from collections.abc import Iterator

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.reductions.best_values import uses
from semi_naive.language.types.inference import NUMERIC, Typing
from semi_naive.ra.ir import MIRRORED

OWN = ("brie", "btree", "eqrel")  # representations that do not support removal


def dominations(source: syntax.SourceProgram) -> list[syntax.Clause]:
    """Return the subsumptive clauses."""
    return [node for node in source.statements if isinstance(node, syntax.Clause) and node.dominating is not None]


def subsumption_problems(source: syntax.SourceProgram, relations) -> Iterator[Problem]:
    """Report such clauses that compare two relations, and relations that cannot have them."""
    clauses = dominations(source)
    names = dict.fromkeys(clause.heads[0].relation for clause in clauses)
    for clause in clauses:
        if clause.heads[0].relation != clause.dominating.relation:
            hint = f"write {clause.heads[0].relation}(…) <= {clause.heads[0].relation}(…) :- …"
            yield Problem("Subsumption must compare tuples from the same relation", clause.span, hint)
    for name, declaration in relations.items():
        if not declaration.attributes and (name in names or "btree_delete" in declaration.qualifiers):
            hint = "its one tuple has no other to give way to: leave out btree_delete and the subsumptive rules"
            yield Problem(f'Subsumptive relation "{name}" must not be a nullary relation', declaration.span, hint)
    for name in (name for name in names if name in relations):
        declaration = relations[name]
        if declaration.qualifiers.intersection(OWN):
            what = 'has one or more subsumptive rules and relational representation "btree_delete" is missing'
            hint = (
                f"leave out {', '.join(sorted(declaration.qualifiers.intersection(OWN)))}, or write btree_delete in its place"
            )
            yield Problem(f'Relation "{name}" {what}', declaration.span, hint)


def without_rules(source: syntax.SourceProgram, relations) -> Iterator[syntax.RelationDecl]:
    """Return the relations that are declared btree_delete and have no subsumptive rules."""
    names = {clause.heads[0].relation for clause in dominations(source)}
    return (node for name, node in relations.items() if "btree_delete" in node.qualifiers and name not in names)


# -- relations that keep the best value of each key


def subsumed_lattices(
    source: syntax.SourceProgram, typings: list[Typing], relations, ops: dict[str, str], group
) -> dict[str, str]:
    """Return min or max for each relation whose one subsumptive clause keeps the least or the greatest value of each key.

    A relation with a use in recursion that is not monotone is left out, as the result depends on when tuples are removed. ops:
    min or max by relation, from heads; group: the relations in recursion with one.
    """
    clauses: dict[str, list[syntax.Clause]] = {}
    for clause in dominations(source):
        clauses.setdefault(clause.heads[0].relation, []).append(clause)
    alone = {name: some[0] for name, some in clauses.items() if len(some) == 1 and not relations[name].choice.keys}
    found = {name: op for name, clause in alone.items() if (op := _kept_extreme(clause))}
    for typing in typings:
        name = typing.single.head.relation
        if name in found and typing.kind(typing.single.head.args[-1]) not in NUMERIC:
            del found[name]
    while True:
        left = {name: op for name, op in found.items() if not _hindered(name, typings, ops | found, found, group(name))}
        if left == found:
            return found
        found = left


def _kept_extreme(clause: syntax.Clause) -> str:
    """Return min or max if the clause compares tuples that agree in all attributes but the last, by that one; else ""."""
    worse, better = clause.heads[0].args, clause.dominating.args
    names = [arg.name for arg in (*worse, *better[-1:]) if isinstance(arg, syntax.Variable)]
    body = clause.body
    if len(worse) != len(better) or len(set(names)) != len(worse) + 1 or worse[:-1] != better[:-1]:
        return ""
    if not isinstance(body, syntax.Constraint) or body.op not in MIRRORED:
        return ""
    op = body.op if body.args == (better[-1], worse[-1]) else MIRRORED[body.op] if body.args == (worse[-1], better[-1]) else ""
    return {"<": "min", ">": "max"}.get(op[:1], "")


def _hindered(name: str, typings: list[Typing], ops, found, group: set[str]) -> bool:
    """True if a rule in recursion with a relation uses best values in a way that is not monotone."""
    own = [each for each in typings if each.single.head.relation in group]
    own = [each for each in own if not (each.single.dominates and each.single.head.relation in found)]
    return any(True for each in own for _ in uses(each, ops, group))
