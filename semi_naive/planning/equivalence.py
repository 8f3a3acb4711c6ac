"""Equivalence relations: what `eqrel` promises, as rules."""

from dataclasses import replace

from ra.rules.ir import Atom, Program, Rule, Var


def equivalences(program: Program) -> Program:
    """Close each eqrel relation that has rules or facts under reflexivity, symmetry and transitivity.

    >>> from ra.rules.ir import Kind, Relation, Type
    >>> number = Type("number", Kind.NUMBER)
    >>> same = Relation("same", (("a", number), ("b", number)), frozenset({"eqrel"}))
    >>> for rule in equivalences(Program({}, {"same": same}, [])).rules: print(rule)
    same(y, x) :- same(x, y).
    same(x, z) :- same(x, y), same(y, z).
    """
    added = [rule for relation in program.relations.values() if relation.eqrel for rule in _closing(relation)]
    return replace(program, rules=program.rules + added) if added else program


def _closing(relation) -> list[Rule]:
    """Reflexivity follows: same(x, y), same(y, x) give same(x, x)."""
    x, y, z = (Var(name, relation.kinds[0]) for name in "xyz")

    def rule(head, *body):
        atoms = tuple(Atom(relation.name, pair) for pair in body)
        made = Rule(Atom(relation.name, head), atoms, span=relation.span)
        return replace(made, text=f"{made}  (eqrel)")

    return [rule((y, x), (x, y)), rule((x, z), (x, y), (y, z))]
