"""Drop the steps that no rule reads, of a relation in steps that is not wanted whole.

    page(v, r) :- rank(20, v, r).                                  keeps step 20:

        rank(20, v, r) :- rank@step(20), rank@this(v, r).

    page(v, r) :- rank(k, v, r), k = max j : { rank(j, _, _) }.    keeps the last step that has tuples:

        rank(k, v, r) :- rank@end(k), rank@final(v, r).

A loop fills `rank@final` and `rank@end` when a step has made tuples of rank (`running.loops`)."""

from dataclasses import replace

from semi_naive.planning import rewrite
from semi_naive.ra import ir


def drop_unread_steps(program: ir.Program, keep: set[str] | None) -> ir.Program:
    """Change the rules that collect the steps of relations: they collect only the steps that are read. keep: the relations
    wanted whole; None: all."""
    if keep is None:
        return program
    whole = keep | {directive.relation for directive in program.directives}
    for loop in program.loops:
        for name, column in loop.steps.columns if loop.steps else ():
            if name in program.relations and name not in whole:
                program = _without_unread_steps(program, name, column)
    return program


def _without_unread_steps(program: ir.Program, name: str, column: int) -> ir.Program:
    """Collect only the steps of one relation that are read, if the program does not read all. column: that of the step."""
    collecting = [rule for rule in program.rules if rule.head.relation == name]
    readers = [rule for rule in program.rules if rule not in collecting and name in rewrite.relations_in(rule.body)]
    if len(collecting) != 1:
        return program
    (collect,) = collecting
    steps = {atom.args[column] for rule in readers for atom in rewrite.atoms_of(rule.body, name)}
    if all(isinstance(step, ir.Const) for step in steps):  # without readers, no step is collected
        variable = collect.head.args[column].name
        single_steps = [rewrite.substitute(collect, {variable: step}) for step in sorted(steps, key=str)]
        return replace(program, rules=[rule for rule in program.rules if rule not in collecting] + single_steps)
    if all(_reads_last(rule, name, column) for rule in readers):
        return _with_last_step(program, collect, column)
    return program


def _reads_last(rule: ir.Rule, name: str, column: int) -> bool:
    """True if a rule reads a relation in steps only at the greatest step that it has."""
    aggregates = [literal for literal in rule.body if isinstance(literal, ir.Aggregate)]
    greatest = [aggregate for aggregate in aggregates if _is_greatest(aggregate, name, column)]
    last = {aggregate.result.name for aggregate in greatest}  # variables of the greatest step
    for literal in rule.body:
        if isinstance(literal, ir.Compare) and literal.op == "=":
            sides = {side.name for side in (literal.left, literal.right) if isinstance(side, ir.Var)}
            if len(sides) == 2 and last & sides:  # one pass: an equation that is missed only keeps more steps
                last |= sides
    atoms = [atom for atom in rewrite.positive_atoms(rule.body) if atom.relation == name]
    at_last = all(isinstance(atom.args[column], ir.Var) and atom.args[column].name in last for atom in atoms)
    return at_last and len(rewrite.atoms_of(rule.body, name)) == len(atoms) + len(greatest)  # no other atom reads it


def _is_greatest(literal: ir.Aggregate, name: str, column: int) -> bool:
    """True for an aggregate of the greatest step of a relation: max j : { rank(j, _, _) }. column: that of the step."""
    if literal.op != "max" or len(literal.body) != 1 or not isinstance(literal.body[0], ir.Atom):
        return False
    (atom,) = literal.body
    rest = [arg for place, arg in enumerate(atom.args) if place != column]
    return atom.relation == name and atom.args[column] == literal.target and all(isinstance(arg, ir.Wild) for arg in rest)


def _with_last_step(program: ir.Program, collect: ir.Rule, column: int) -> ir.Program:
    """Change the rule that collects the steps of a relation: it reads the last step, for which the loop gets relations."""
    name = collect.head.relation
    (this,) = [atom for atom in collect.body if atom.relation == f"{name}@this"]
    final, end = f"{name}@final", f"{name}@end"
    relation = program.relations[name]
    attributes = tuple(attribute for place, attribute in enumerate(relation.attributes) if place != column)
    relations = {final: ir.Relation(final, attributes), end: ir.Relation(end, (relation.attributes[column],))}
    body = ir.Atom(end, (collect.head.args[column],)), replace(this, relation=final)
    read_last = replace(collect, body=body, text=f"{name}: the tuples of its last step")
    rules = [read_last if rule is collect else rule for rule in program.rules]
    loops = []
    for loop in program.loops:
        if loop.steps and name in loop.steps.collected:
            loop = replace(loop, steps=replace(loop.steps, last=(*loop.steps.last, name)))
        loops.append(loop)
    return replace(program, relations=program.relations | relations, rules=rules, loops=tuple(loops))
