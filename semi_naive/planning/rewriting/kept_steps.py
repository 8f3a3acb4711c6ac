"""Drop the steps that no rule reads, of a relation in steps that is not wanted whole.

    page(v, r) :- rank(20, v, r).                                  keeps step 20:

        rank(20, v, r) :- rank@step(20), rank@this(v, r).

    page(v, r) :- rank(k, v, r), k = max j : { rank(j, _, _) }.    keeps the last step that has tuples:

        rank(k, v, r) :- rank@end(k), rank@final(v, r).

A loop fills `rank@final` and `rank@end` when a step has made tuples of rank (`running.loops`).
"""

from collections.abc import Iterable
from dataclasses import replace

from semi_naive.planning import rewrite
from semi_naive.ra import ir


def drop_unread_steps(program: ir.Program, keep: set[str] | None) -> ir.Program:
    """Return the program with rules that collect only the steps that are read. keep: the relations wanted whole; None: all."""
    if keep is None:
        return program
    whole = keep | {directive.relation for directive in program.directives}
    for loop in program.loops:
        for name, at in loop.steps.columns if loop.steps else ():
            if name in program.relations and name not in whole:
                program = _narrowed(program, name, at)
    return program


def _narrowed(program: ir.Program, name: str, at: int) -> ir.Program:
    """Return the program that collects only the steps of one relation that are read. at: the place of the step."""
    made = [rule for rule in program.rules if rule.head.relation == name]
    readers = [rule for rule in program.rules if rule not in made and name in rewrite.relations_in(rule.body)]
    if len(made) != 1:
        return program
    steps = {atom.args[at] for rule in readers for atom in _atoms(rule.body, name)}
    if all(isinstance(step, ir.Const) for step in steps):
        step = made[0].head.args[at]
        own = [rewrite.substitute(made[0], {step.name: each}) for each in sorted(steps, key=str)]
        return replace(program, rules=[rule for rule in program.rules if rule not in made] + own)
    if all(_reads_last(rule, name, at) for rule in readers):
        return _with_last(program, made[0], at)
    return program


def _atoms(body: Iterable, name: str) -> list[ir.Atom]:
    return [node for node in rewrite.walk(body) if isinstance(node, ir.Atom) and node.relation == name]


def _reads_last(rule: ir.Rule, name: str, at: int) -> bool:
    """True if a rule reads a relation in steps only at the greatest step that it has."""
    last = {
        literal.result.name for literal in rule.body if isinstance(literal, ir.Aggregate) and _is_greatest(literal, name, at)
    }
    equal = [each for each in rule.body if isinstance(each, ir.Compare) and each.op == "="]
    for each in equal:
        for one, other in ((each.left, each.right), (each.right, each.left)):
            if isinstance(one, ir.Var) and isinstance(other, ir.Var) and one.name in last:
                last.add(other.name)
    found = [atom for atom in rewrite.positive_atoms(rule.body) if atom.relation == name]
    apart = [literal for literal in rule.body if isinstance(literal, ir.Aggregate) and _is_greatest(literal, name, at)]
    read = all(isinstance(atom.args[at], ir.Var) and atom.args[at].name in last for atom in found)
    return read and len(_atoms(rule.body, name)) == len(found) + len(apart)


def _is_greatest(literal: ir.Aggregate, name: str, at: int) -> bool:
    """True for max j : { rank(j, _, _) }."""
    if literal.op != "max" or len(literal.body) != 1 or not isinstance(literal.body[0], ir.Atom):
        return False
    atom = literal.body[0]
    rest = [arg for place, arg in enumerate(atom.args) if place != at]
    return atom.relation == name and atom.args[at] == literal.target and all(isinstance(arg, ir.Wild) for arg in rest)


def _with_last(program: ir.Program, made: ir.Rule, at: int) -> ir.Program:
    """Return the program with the last step of a relation alone, which its loop keeps in relations of their own."""
    name, (held,) = made.head.relation, [atom for atom in made.body if atom.relation == f"{made.head.relation}@this"]
    final, end = f"{name}@final", f"{name}@end"
    relation = program.relations[name]
    attributes = tuple(each for place, each in enumerate(relation.attributes) if place != at)
    own = {final: ir.Relation(final, attributes), end: ir.Relation(end, (relation.attributes[at],))}
    body = ir.Atom(end, (made.head.args[at],)), replace(held, relation=final)
    rules = [
        replace(made, body=body, text=f"{name}: the tuples of its last step") if rule is made else rule
        for rule in program.rules
    ]
    loops = [replace(loop, steps=replace(loop.steps, last=(*loop.steps.last, name)))
             if loop.steps and name in loop.steps.collected else loop for loop in program.loops]  # fmt: skip
    return replace(program, relations=program.relations | own, rules=rules, loops=tuple(loops))
