"""Compile relational algebra: an expression of joins, unions and so on becomes a Datalog program.

    edge.join(edge.rename(x="y", y="z")).project("x", "z")        answer(x, z) :- edge(x, y), edge(y, z).

Select, project, join, product, intersection and difference make one body, however deep they are nested, so that the planner
orders all of its joins. Unions (with a rule for each side), aggregates (with a body of their own) and subexpressions used twice
become relations of the program, and are computed once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from semi_naive.planning.rewrite import fresh, substitute, variables_of, walk
from semi_naive.ra import ir
from semi_naive.ra.ir import Atom, Const, Kind, Truth, Var, Wild
from semi_naive.schema import Schema

ANSWER = "answer"


@dataclass
class Conjunction:
    """A body: its literals, and the term of each column of the derived tuples."""

    literals: list
    terms: list

    def equate(self, left: int, right: int) -> None:
        """Make two columns, given by position, equal."""
        self.unify(self.terms[right], self.terms[left])

    def unify(self, old, new) -> None:
        """Substitute one term for another in all literals and columns; false is added if both are different constants."""
        if isinstance(old, Const):
            old, new = new, old
        if isinstance(old, Var):
            self.literals = [substitute(literal, {old.name: new}) for literal in self.literals]
            self.terms = [substitute(term, {old.name: new}) for term in self.terms]
        elif old.value != new.value:
            self.literals.append(Truth(False))


class Rules:
    """The program that computes the expression `root`.

    relations, rules: those of the program so far; `declared` adds a relation, and `add` a rule.

    given: the node (`semi_naive.operators`) of each relation whose tuples are known.
    beyond: for each relation of groups with overflowing sums, the sum's name and the schema of the groups.
    """

    def __init__(self, root):
        self.relations: dict[str, ir.Relation] = {}
        self.rules: list[ir.Rule] = []
        self.given: dict[str, Any] = {}
        self.beyond: dict[str, tuple[str, Schema]] = {}
        self._names: dict[object, str] = {}  # by node, the relation that has its tuples
        self._variables = 0
        # by node, the number of nodes that read it: `body` makes one that is read twice a relation
        self._uses = Counter(node for parent in _nodes(root) for node in parent.inputs)
        self._define(root, self.declared(ANSWER, root.schema))

    def program(self) -> ir.Program:
        directives = [ir.FileDirective("input", name) for name in self.given]
        directives += [ir.FileDirective("output", name) for name in (ANSWER, *self.beyond)]
        return ir.Program({}, self.relations, self.rules, directives)

    def declared(self, stem: str, schema: Schema) -> str:
        """Declare a new relation; return its name."""
        name = stem if stem == ANSWER else f"{stem}{len(self.relations)}"
        self.relations[name] = schema.relation(name)
        return name

    def named(self, node) -> str:
        """Return the relation that has a node's tuples, which is defined at the first call."""
        if node not in self._names:
            stem = "given" if node.held is not None else type(node).__name__.lower()
            self._define(node, self.declared(stem, node.schema))
        return self._names[node]

    def _define(self, node, name: str) -> None:
        """Define a relation for a node: as input if its tuples are known, else by rules."""
        self._names[node] = name
        if node.held is not None:
            self.given[name] = node
        else:
            node.define(self, name)

    def body(self, node) -> Conjunction:
        """Return the body that derives a node's tuples: an atom if they are known, or used elsewhere, too."""
        known = node.held is not None or self._uses[node] > 1
        return self.atom(self.named(node), node.schema) if known else node.body(self)

    def atom(self, name: str, schema: Schema) -> Conjunction:
        """Return a body of one atom, with a fresh variable for each column."""
        terms = [self.variable(column, kind) for column, kind in zip(schema.columns, schema.kinds, strict=True)]
        return Conjunction([Atom(name, tuple(terms))], terms)

    def variable(self, column: str, kind: Kind) -> Var:
        """Return a fresh variable for a column; `add` removes the number from its name."""
        self._variables += 1
        return Var(f"{column.partition('.')[0]}.{self._variables}", kind)

    def add(self, name: str, body: Conjunction) -> None:
        """Add a rule that derives a relation. Variables are named after the columns; those used once become wildcards."""
        rule = ir.Rule(Atom(name, tuple(body.terms)), tuple(body.literals))
        times = Counter(part.name for part in walk(rule) if isinstance(part, Var))
        once = {variable for variable, count in times.items() if count == 1}
        wild = dict.fromkeys(once, Wild())
        kept = [substitute(literal, wild) if isinstance(literal, Atom) else literal for literal in rule.body]
        rule = ir.Rule(rule.head, tuple(kept))
        columns = zip(body.terms, self.relations[name].attributes, strict=True)
        labels = {term.name: column for term, (column, _) in columns if isinstance(term, Var)}
        taken, names = set(labels.values()), {}
        for variable, term in variables_of(rule).items():
            label = labels.get(variable) or variable.partition(".")[0]
            label = fresh(label, taken) if label in taken and variable not in labels else label  # columns name head variables
            taken.add(label)
            names[variable] = Var(label, term.kind)
        rule = substitute(rule, names)
        self.rules.append(replace(rule, text=str(rule)))


def _nodes(root) -> list:
    """Return a node and its descendants, without duplicates."""
    found, waiting = {root: None}, [root]
    while waiting:
        parent = waiting.pop()
        parent.check_open()
        for node in parent.inputs:
            if node not in found:
                found[node] = None
                waiting.append(node)
    return list(found)
