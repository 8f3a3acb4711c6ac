"""Aggregates in heads: determine how the columns of a relation are aggregated, and the rules that the heads become.

    degree(x, 0) :- node(x).
    degree(x, count(y)) :- edge(x, y).

For each key (the other columns) there is one tuple. Every rule contributes to it: `sum`, `mean`, `min` and `max` take a value
of each distinct binding of the body's variables, and each `_` of an atom is a variable of its own; `count(e, …)` counts the
distinct values of its arguments, whichever rules they come from. A rule without an aggregate, or a fact, contributes its
tuples: to a count or a sum as a number to be added.

`min` or `max` alone in the last column is a lattice (see `lattices`). All other aggregates become (in recursion, for the keys
evaluated in a round: see `recursive_sums`) one rule with aggregates of its own body, if it is the only rule:

    degree(x, n) :- edge(x, y), n = count : { edge(x, y.1) }.

and otherwise every rule makes a part of `degree@parts`, and one more rule puts the parts together.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.single import Single, count_disjuncts
from semi_naive.planning import rewrite
from semi_naive.ra import ir

AGGREGATES = ("min", "max", "sum", "count", "mean")
Ops = dict[int, str]  # the aggregates of a relation's heads, by column


def is_aggregate(node) -> bool:
    """True if an expression aggregates in a head. min and max of several arguments are functors."""
    return isinstance(node, syntax.Functor) and (node.name == "count" or node.name in AGGREGATES and len(node.args) == 1)


def head_aggregates(found: list[Single], relations, problems: list[Problem]) -> dict[str, Ops]:
    """The aggregation of each relation with aggregates in heads, by column, and the problems."""
    ops: dict[str, Ops] = {}
    first: dict[str, Single] = {}
    doubled: dict[int, Problem] = {}
    for single in found:
        name = single.head.relation
        own = {at: arg.name for at, arg in enumerate(single.head.args) if is_aggregate(arg)}
        if own and ops.setdefault(name, own) == own:
            first.setdefault(name, single)
        if {"sum", "mean"} & set(own.values()) and single.clause.body and count_disjuncts(single.clause.body) > 1:
            hint = "make the disjunction a relation of its own: a binding that both ways have would count twice"
            problem = Problem("Disjunctions in a rule whose head adds up are not supported", single.clause.span, hint)
            doubled[id(single.clause)] = problem
        elif own and ops[name] != own:
            problems.append(_clash(name, own, ops[name], single, first[name]))
    problems += doubled.values()
    return ops


def _clash(name: str, own: Ops, ops: Ops, single: Single, first: Single) -> Problem:
    """Return the error for two heads of a relation that aggregate different columns, or one column in two ways."""
    at = next((at for at in own if own[at] != ops.get(at)), min(own))
    notes = [(f"{op_names(ops)} here", first.head.span)]
    span = single.head.args[at].span
    if at in ops:
        return Problem(f"{name} is aggregated by both {ops[at]} and {own[at]}", span, notes=notes)
    hint = "a head that aggregates does so in the same columns; one without any aggregate gives the values of all columns"
    return Problem(f"{name} is aggregated in different columns", span, hint, notes=notes)


def op_names(ops: Ops) -> str:
    return ", ".join(dict.fromkeys(ops.values()))


def is_lattice(ops: Ops, arity: int) -> bool:
    """True if the last column, and no other, is a minimum or a maximum."""
    return list(ops) == [arity - 1] and ops[arity - 1] in ("min", "max")


def is_rounded(ops: Ops, relation: ir.Relation) -> bool:
    """True if the last column, and no other, is a sum or a mean of floats."""
    last = relation.arity - 1
    return list(ops) == [last] and ops[last] in ("sum", "mean") and relation.kinds[last] == ir.Kind.FLOAT


def input_problems(source: syntax.SourceProgram, summed: dict[str, Ops]):
    """Report aggregated relations that are read, as their facts would not take part in the aggregation."""
    for node in source.statements:
        if isinstance(node, syntax.Directive) and node.kind == "input" and node.relation in summed:
            hint = f"read another relation, and copy it by a rule: {node.relation}(…) :- given(…)."
            yield Problem(f"{node.relation} is aggregated in its heads and cannot be read", node.span, hint)


def kind_problems(typings: list, heads: dict[str, Ops]):
    """Report min and max of values that are not numbers, and rules that count values of different types. `inference` checks the
    other aggregates."""
    counted: dict[tuple[str, int], tuple] = {}
    for typing in typings:
        head = typing.single.head
        for at, arg in enumerate(head.args):
            if at not in heads.get(head.relation, {}) or not is_aggregate(arg):
                continue
            if arg.name in ("min", "max") and typing.kind(arg) not in ("number", "unsigned", "float", None):
                yield Problem(f"{arg.name} in a head is of numbers, unsigned or floats", arg.span)
            kinds = tuple(typing.kind(each) for each in arg.args)
            if arg.name == "count" and counted.setdefault((head.relation, at), kinds) != kinds:
                before = ", ".join(map(str, counted[head.relation, at]))
                yield Problem("The rules of a relation count different things", arg.span, f"another one counts ({before})")


@dataclass(frozen=True)
class Head:
    """A lowered rule whose head aggregates. key: the terms of the other columns, in order; of: the arguments of each aggregate,
    by column, or the values if the head does not aggregate.
    """

    rule: ir.Rule  # its head is not used
    key: tuple
    of: dict[int, tuple]
    aggregates: bool


class AggregatedRelation:
    """A relation that is aggregated in heads; it turns its heads into rules. extra: further relations that the rules need."""

    def __init__(self, relation: ir.Relation, ops: Ops, heads: list[Head]):
        self.relation, self.ops, self.heads = relation, ops, heads
        self.types = [type_ for _, type_ in relation.attributes]
        self.key_types = [type_ for at, type_ in enumerate(self.types) if at not in ops]
        self.extra: dict[str, ir.Relation] = {}
        self._numbers = count(1)

    def rules(self) -> list[ir.Rule]:
        """Return the rules that derive the relation."""
        if len(self.heads) == 1 and self.heads[0].aggregates:
            return list(self._single_head_rules(self.heads[0]))
        return [*self._parts(), self._combining_rule()]

    @property
    def _told(self) -> str:
        """The relation as it was declared."""
        return self.relation.name.partition("@")[0]

    def _name(self, what: str) -> str:
        return f"{self.relation.name}@{what}"

    def _fresh(self, name: str, kind: ir.Kind) -> ir.Var:
        return ir.Var(f"{name}@h{next(self._numbers)}", kind)

    def _declare(self, name: str, types: list[ir.Type]) -> None:
        attributes = tuple((f"a{at}", type_) for at, type_ in enumerate(types))
        self.extra.setdefault(name, ir.Relation(name, attributes, span=self.relation.span))

    def _head(self, key, made: dict[int, ir.Term]) -> ir.Atom:
        terms = iter(key)
        return ir.Atom(self.relation.name, tuple(made[at] if at in made else next(terms) for at in range(self.relation.arity)))

    # -- one rule

    def _single_head_rules(self, head: Head) -> Iterator[ir.Rule]:
        """Yield the rules of a relation with one head: first those that collect the values to be counted, then the rule
        itself."""
        key, body = self._named_key(head)
        added: list[ir.Aggregate] = []
        for at, op in self.ops.items():
            if op != "count":
                added.append(self._aggregated(op, head.of[at][0], key, body, self.types[at].kind))
            elif _counts_bindings(head.of[at], key, body):
                added.append(self._aggregated("count", None, key, body, ir.Kind.NUMBER))
            else:
                yield self._values(at, head, key, body)
                added.append(self._counted(at, key))
        made = {at: each.result for at, each in zip(self.ops, added, strict=True)}
        yield replace(head.rule, head=self._head(key, made), body=(*body, *added), plan=None)

    def _named_key(self, head: Head) -> tuple[list[ir.Term], list]:
        """The key as variables and constants, and the body with equations that give these their values."""
        body, key = list(head.rule.body), []
        for term in head.key:
            if not isinstance(term, ir.Var | ir.Const):
                name = self._fresh("key", term.kind)
                body.append(ir.Compare("=", name, term, term.kind))
                term = name
            key.append(term)
        return key, body

    def _aggregated(self, op: str, target, key, body: list, kind) -> ir.Aggregate:
        """The aggregate of a body for each key. Its own variables are renamed, and each `_` still counts as a variable."""
        outer = {term.name for term in key if isinstance(term, ir.Var)}
        inner = rewrite.variables_of([*body, *([target] if target is not None else [])])
        names = {name: self._fresh(name.split("@")[0], var.kind) for name, var in inner.items() if name not in outer}
        target = rewrite.substitute(target, names) if target is not None else None
        return ir.Aggregate(self._fresh(op, kind), op, target, tuple(rewrite.substitute(literal, names) for literal in body))

    # -- counts of distinct values

    def _values(self, at: int, head: Head, key, body) -> ir.Rule:
        """The rule that collects the values that a column counts: h@values1(key…, argument…)."""
        name, args = self._name(f"values{at}"), head.of[at]
        self._declare(name, [*self.key_types, *(ir.Type(term.kind, term.kind) for term in args)])
        return replace(head.rule, head=ir.Atom(name, (*key, *args)), body=tuple(body), plan=None)

    def _counted(self, at: int, key) -> ir.Aggregate:
        """Return the aggregate that counts the collected values of a column."""
        relation = self.extra[self._name(f"values{at}")]
        atom = ir.Atom(relation.name, (*key, *(self._fresh("v", kind) for kind in relation.kinds[len(key) :])))
        return ir.Aggregate(self._fresh("count", ir.Kind.NUMBER), "count", None, (atom,))

    # -- several rules

    def _parts(self) -> Iterator[ir.Rule]:
        """Yield the rules of h@parts(number, key…, part…), the aggregates of each rule. A rule that aggregates gives one part.
        The tuples of all rules without aggregates give part 0, by way of h@given."""
        given = self._name("given")
        for number, head in enumerate(self.heads, 1):
            if head.aggregates:
                yield from self._part(number, head)
            else:
                values = tuple(head.of[at][0] for at in self.ops)
                self._declare(given, [*self.key_types, *(self.types[at] for at in self.ops)])
                yield replace(head.rule, head=ir.Atom(given, (*head.key, *values)), plan=None)
        if given in self.extra:
            yield from self._part(0, self._given(given))

    def _given(self, name: str) -> Head:
        """The tuples of the rules without aggregates, in the form of a rule that aggregates."""
        variables = [self._fresh("v", kind) for kind in self.extra[name].kinds]
        width = len(self.key_types)
        of = {at: (variables[width + place],) for place, at in enumerate(self.ops)}
        text = f"{self._told}: what its rules without aggregates say"
        rule = ir.Rule(ir.Atom(name, ()), (ir.Atom(name, tuple(variables)),), span=self.relation.span, text=text)
        return Head(rule, tuple(variables[:width]), of, True)

    def _part(self, number: int, head: Head) -> Iterator[ir.Rule]:
        """Yield the rule that makes one part, and before it the rules that collect the values to be counted."""
        key, body = self._named_key(head)
        added: list[ir.Aggregate] = []
        for at, op in self.ops.items():
            if op == "count" and number:
                yield self._values(at, head, key, body)
            else:
                fold = "sum" if op in ("count", "mean") else op
                added.append(self._aggregated(fold, head.of[at][0], key, body, self.types[at].kind))
            if op == "mean":
                added.append(self._aggregated("count", None, key, body, ir.Kind.NUMBER))
        made = iter(added)
        args: list[ir.Term] = []
        for op in self.ops.values():
            args.append(ir.Const(0, ir.Kind.NUMBER) if op == "count" and number else next(made).result)
            args += [next(made).result] if op == "mean" else []
        number_type = ir.Type(ir.Kind.NUMBER, ir.Kind.NUMBER)
        self._declare(self._name("parts"), [number_type, *self.key_types, *(ir.Type(term.kind, term.kind) for term in args)])
        parts = self.extra[self._name("parts")]
        self.extra[parts.name] = replace(parts, rounded=is_rounded(self.ops, self.relation) and len(args) == 1)
        made_head = ir.Atom(self._name("parts"), (ir.Const(number, ir.Kind.NUMBER), *key, *args))
        yield replace(head.rule, head=made_head, body=(*body, *added), plan=None)

    def _combining_rule(self) -> ir.Rule:
        """The rule that combines the parts of each key."""
        parts = self.extra[self._name("parts")]
        key = [self._fresh("key", type_.kind) for type_ in self.key_types]
        first = 1 + len(key)
        body: list = [ir.Atom(parts.name, (ir.Wild(), *key, *(ir.Wild() for _ in parts.kinds[first:])))]
        places = iter(range(first, parts.arity))
        made = {at: self._total(at, op, key, places, body) for at, op in self.ops.items()}
        text = f"{self._told}: what its rules say, together"
        return ir.Rule(self._head(key, made), tuple(body), span=self.relation.span, text=text)

    def _total(self, at: int, op: str, key, places: Iterator[int], body: list) -> ir.Term:
        """Return the result of one column over all parts of a key; the aggregates that make it are added to the body."""
        folded = self._folded("sum" if op in ("count", "mean") else op, key, next(places))
        body.append(folded)
        if op == "mean":
            body.append(counted := self._folded("sum", key, next(places)))
            size = ir.Call("to_float", (counted.result,), ir.Kind.FLOAT)
            return ir.Call("/", (folded.result, size), ir.Kind.FLOAT)
        if op == "count" and self._name(f"values{at}") in self.extra:
            body.append(counted := self._counted(at, key))
            return ir.Call("+", (folded.result, counted.result), ir.Kind.NUMBER)
        return folded.result

    def _folded(self, op: str, key, place: int) -> ir.Aggregate:
        """One column of all parts of a key, aggregated."""
        parts = self.extra[self._name("parts")]
        args = [self._fresh("v", kind) for kind in parts.kinds]
        args[1 : 1 + len(key)] = key
        return ir.Aggregate(self._fresh(op, parts.kinds[place]), op, args[place], (ir.Atom(parts.name, tuple(args)),))


def _counts_bindings(args: tuple, key, body) -> bool:
    """True if distinct bindings of the body have distinct arguments, so that bindings can be counted instead."""
    names = {term.name for term in (*args, *key) if isinstance(term, ir.Var)}
    terms = rewrite.walk(rewrite.positive_atoms(body))
    if any(isinstance(term, ir.Wild) for term in terms):
        return False
    return all(isinstance(arg, ir.Var | ir.Const) for arg in args) and _determining_variables(body) <= names


def _determining_variables(body) -> set[str]:
    """Return the variables that determine a binding of a body: those of its atoms and ranges. Other variables are equal to
    expressions of these, and the number of a step is one value."""
    found = set(rewrite.variables_of([atom for atom in rewrite.positive_atoms(body) if not atom.relation.endswith("@step")]))
    return found | {literal.result.name for literal in body if isinstance(literal, ir.Range)}
