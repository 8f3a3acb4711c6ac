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

and otherwise every rule makes a part of `degree@parts`, and one more rule puts the parts together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.single import Single, count_disjuncts
from semi_naive.planning import rewrite
from semi_naive.ra import ir

AGGREGATES = ("min", "max", "sum", "count", "mean")
Key = Sequence[ir.Term]  # the terms of the columns that are not aggregated, in order
Ops = dict[int, str]  # the aggregates of a relation's heads, by column


def is_aggregate(node: syntax.Node) -> bool:
    """True if an expression in a head aggregates. min and max of several arguments are functors."""
    return isinstance(node, syntax.Functor) and (node.name == "count" or node.name in AGGREGATES and len(node.args) == 1)


def head_aggregates(singles: list[Single], problems: list[Problem]) -> dict[str, Ops]:
    """Return the aggregates of each relation whose heads aggregate, by column; append the problems to `problems`."""
    ops: dict[str, Ops] = {}
    first: dict[str, Single] = {}  # of each relation, the first clause whose head aggregates
    disjunctive: dict[int, Problem] = {}  # by clause, as each disjunct is one of the `singles`
    for single in singles:
        name = single.head.relation
        own = {column: arg.name for column, arg in enumerate(single.head.args) if is_aggregate(arg)}
        if own and ops.setdefault(name, own) == own:
            first.setdefault(name, single)
        if {"sum", "mean"} & set(own.values()) and single.clause.body and count_disjuncts(single.clause.body) > 1:
            hint = "make the disjunction a relation of its own: a binding that both ways have would count twice"
            problem = Problem("Disjunctions in a rule whose head adds up are not supported", single.clause.span, hint)
            disjunctive[id(single.clause)] = problem
        elif own and ops[name] != own:
            problems.append(_clash(name, own, ops[name], single, first[name]))
    problems += disjunctive.values()
    return ops


def _clash(name: str, own_ops: Ops, first_ops: Ops, single: Single, first: Single) -> Problem:
    """Return the error for two heads of a relation that aggregate different columns, or one column in two ways. own_ops, ops:
    the aggregates of the clauses `single` and `first`, by column."""
    column = next((column for column in own_ops if own_ops[column] != first_ops.get(column)), min(own_ops))
    notes = [(f"{op_names(first_ops)} here", first.head.span)]
    span = single.head.args[column].span
    if column in first_ops:
        return Problem(f"{name} is aggregated by both {first_ops[column]} and {own_ops[column]}", span, notes=notes)
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


def input_problems(source: syntax.SourceProgram, summed: dict[str, Ops]) -> Iterator[Problem]:
    """Report aggregated relations that are read, as their facts would not take part in the aggregation."""
    for node in source.inputs:
        if node.relation in summed:
            hint = f"read another relation, and copy it by a rule: {node.relation}(…) :- given(…)."
            yield Problem(f"{node.relation} is aggregated in its heads and cannot be read", node.span, hint)


def kind_problems(typings: list, heads: dict[str, Ops]) -> Iterator[Problem]:
    """Report min and max of values that are not numbers, and rules that count values of different types. `inference` checks the
    other aggregates. typings: of all clauses."""
    counted: dict[tuple[str, int], tuple] = {}
    for typing in typings:
        head = typing.single.head
        for column, arg in enumerate(head.args):
            if column not in heads.get(head.relation, {}) or not is_aggregate(arg):
                continue
            if arg.name in ("min", "max") and typing.kind(arg) not in ("number", "unsigned", "float", None):
                yield Problem(f"{arg.name} in a head is of numbers, unsigned or floats", arg.span)
            kinds = tuple(map(typing.kind, arg.args))
            if arg.name == "count" and counted.setdefault((head.relation, column), kinds) != kinds:
                before = ", ".join(map(str, counted[head.relation, column]))
                yield Problem("The rules of a relation count different things", arg.span, f"another one counts ({before})")


@dataclass(frozen=True)
class Head:
    """A lowered clause of a relation whose heads aggregate.

    rule: its body, and an unused head; key: the terms of the columns that are not aggregated, in order; arguments: the terms of
    each aggregate, by column; the value to contribute, if this head does not aggregate; aggregates: True if it does."""

    rule: ir.Rule
    key: tuple
    arguments: dict[int, tuple]
    aggregates: bool

    def named_key(self, variable: Callable[[int, ir.Kind], ir.Var]) -> tuple[list[ir.Term], list[ir.Compare]]:
        """Return (the key as variables and constants, the equations of new variables with computed terms of the key). variable:
        returns a new variable for the term at a place of the key, of a kind."""
        key, equations = [], []
        for place, term in enumerate(self.key):
            if not isinstance(term, ir.Var | ir.Const):
                new = variable(place, term.kind)
                equations.append(ir.Compare("=", new, term, term.kind))
                term = new
            key.append(term)
        return key, equations


class AggregatedRelation:
    """A relation that is aggregated in heads; it turns its heads into rules."""

    def __init__(self, relation: ir.Relation, ops: Ops, heads: list[Head]):
        self.relation, self.ops, self.heads = relation, ops, heads
        self.types = [type_ for _, type_ in relation.attributes]
        self.key_types = [type_ for column, type_ in enumerate(self.types) if column not in ops]
        self.extra: dict[str, ir.Relation] = {}  # further relations that the rules need
        self._numbers = count(1)  # of new variables

    def rules(self) -> list[ir.Rule]:
        """Return the rules that derive the relation."""
        if len(self.heads) == 1 and self.heads[0].aggregates:
            return list(self._single_head_rules(self.heads[0]))
        return [*self._parts(), self._combining_rule()]

    def _name(self, suffix: str) -> str:
        return f"{self.relation.name}@{suffix}"

    def _fresh(self, name: str, kind: ir.Kind) -> ir.Var:
        return ir.Var(f"{name}@h{next(self._numbers)}", kind)

    def _declare(self, name: str, types: list[ir.Type]) -> None:
        attributes = tuple((f"a{place}", type_) for place, type_ in enumerate(types))
        self.extra.setdefault(name, ir.Relation(name, attributes, span=self.relation.span))

    def _head(self, key: Key, results: Mapping[int, ir.Term]) -> ir.Atom:
        """Return the head of a key and of the results of the aggregates, by column."""
        terms = iter(key)
        columns = range(self.relation.arity)
        return ir.Atom(self.relation.name, tuple(results[column] if column in results else next(terms) for column in columns))

    # -- one rule

    def _single_head_rules(self, head: Head) -> Iterator[ir.Rule]:
        """Yield the rules of a relation with one head: first those that collect values to count, then the rule."""
        key, equations = head.named_key(lambda _, kind: self._fresh("key", kind))
        body = [*head.rule.body, *equations]
        aggregates: dict[int, ir.Aggregate] = {}
        for column, op in self.ops.items():
            if op != "count":
                (target,) = head.arguments[column]
                aggregates[column] = self._aggregated(op, target, key, body, self.types[column].kind)
            elif _counts_bindings(head.arguments[column], key, body):
                aggregates[column] = self._aggregated("count", None, key, body, ir.Kind.NUMBER)
            else:
                yield self._values(column, head, key, body)
                aggregates[column] = self._counted(column, key)
        results = {column: aggregate.result for column, aggregate in aggregates.items()}
        yield replace(head.rule, head=self._head(key, results), body=(*body, *aggregates.values()), plan=None)

    def _aggregated(self, op: str, target: ir.Term | None, key: Key, body: list, kind: ir.Kind) -> ir.Aggregate:
        """Return the aggregate of a body for each key. Local variables are renamed, and each `_` still counts as a variable."""
        outer = {term.name for term in key if isinstance(term, ir.Var)}
        inner = rewrite.variables_of([*body, *([target] if target is not None else [])])
        names = {name: self._fresh(name.split("@")[0], var.kind) for name, var in inner.items() if name not in outer}
        target = rewrite.substitute(target, names) if target is not None else None
        return ir.Aggregate(self._fresh(op, kind), op, target, tuple(rewrite.substitute(literal, names) for literal in body))

    # -- counts of distinct values

    def _values(self, column: int, head: Head, key: Key, body: list) -> ir.Rule:
        """Return the rule that collects the values that a column counts: h@values1(key…, argument…)."""
        name, args = self._name(f"values{column}"), head.arguments[column]
        self._declare(name, [*self.key_types, *(ir.Type(term.kind, term.kind) for term in args)])
        return replace(head.rule, head=ir.Atom(name, (*key, *args)), body=tuple(body), plan=None)

    def _counted(self, column: int, key: Key) -> ir.Aggregate:
        """Return the aggregate that counts the collected values of a column."""
        relation = self.extra[self._name(f"values{column}")]
        atom = ir.Atom(relation.name, (*key, *(self._fresh("v", kind) for kind in relation.kinds[len(key) :])))
        return ir.Aggregate(self._fresh("count", ir.Kind.NUMBER), "count", None, (atom,))

    # -- several rules

    def _parts(self) -> Iterator[ir.Rule]:
        """Yield the rules of h@parts(number, key…, part…), the aggregates of each rule. A rule that aggregates makes one part.
        The tuples of all rules without aggregates are collected in h@given, and make part 0."""
        given = self._name("given")
        for number, head in enumerate(self.heads, 1):
            if head.aggregates:
                yield from self._part(number, head)
            else:
                values = (term for column in self.ops for term in head.arguments[column])
                self._declare(given, [*self.key_types, *(self.types[column] for column in self.ops)])
                yield replace(head.rule, head=ir.Atom(given, (*head.key, *values)), plan=None)
        if given in self.extra:
            yield from self._part(0, self._given(given))

    def _given(self, name: str) -> Head:
        """Return the tuples of the rules without aggregates, the relation `name`, in the form of a clause that aggregates."""
        variables = [self._fresh("v", kind) for kind in self.extra[name].kinds]
        key, values = variables[: len(self.key_types)], variables[len(self.key_types) :]
        arguments = {column: (value,) for column, value in zip(self.ops, values, strict=True)}
        text = f"{self.relation.name.partition('@')[0]}: what its rules without aggregates say"
        rule = ir.Rule(ir.Atom(name, ()), (ir.Atom(name, tuple(variables)),), span=self.relation.span, text=text)
        return Head(rule, tuple(key), arguments, aggregates=True)

    def _part(self, number: int, head: Head) -> Iterator[ir.Rule]:
        """Yield the rule that makes one part, after the rules that collect the values to be counted. number: 0 for the part of
        h@given, whose counts are summed."""
        key, equations = head.named_key(lambda _, kind: self._fresh("key", kind))
        body = [*head.rule.body, *equations]
        aggregates: list[ir.Aggregate] = []
        args: list[ir.Var | ir.Const] = []
        for column, op in self.ops.items():
            if op == "count" and number:
                yield self._values(column, head, key, body)
                args.append(ir.Const(0, ir.Kind.NUMBER))  # the collected values of all rules are counted by the last rule
                continue
            fold, (target,) = "sum" if op in ("count", "mean") else op, head.arguments[column]
            added = [self._aggregated(fold, target, key, body, self.types[column].kind)]
            if op == "mean":
                added.append(self._aggregated("count", None, key, body, ir.Kind.NUMBER))
            aggregates += added
            args += [aggregate.result for aggregate in added]
        number_type = ir.Type(ir.Kind.NUMBER, ir.Kind.NUMBER)
        self._declare(self._name("parts"), [number_type, *self.key_types, *(ir.Type(term.kind, term.kind) for term in args)])
        parts = self.extra[self._name("parts")]
        self.extra[parts.name] = replace(parts, rounded=is_rounded(self.ops, self.relation) and len(args) == 1)
        part = ir.Atom(parts.name, (ir.Const(number, ir.Kind.NUMBER), *key, *args))
        yield replace(head.rule, head=part, body=(*body, *aggregates), plan=None)

    def _combining_rule(self) -> ir.Rule:
        """Return the rule that combines the parts of each key."""
        parts = self.extra[self._name("parts")]
        key = [self._fresh("key", type_.kind) for type_ in self.key_types]
        first = 1 + len(key)
        body: list = [ir.Atom(parts.name, (ir.Wild(), *key, *(ir.Wild() for _ in parts.kinds[first:])))]
        places = iter(range(first, parts.arity))
        results = {column: self._total(column, op, key, places, body) for column, op in self.ops.items()}
        text = f"{self.relation.name.partition('@')[0]}: what its rules say, together"
        return ir.Rule(self._head(key, results), tuple(body), span=self.relation.span, text=text)

    def _total(self, column: int, op: str, key: Key, places: Iterator[int], body: list) -> ir.Term:
        """Return the result of one column over all parts of a key, and append the aggregates that compute it to the body.
        places: yields the next column of h@parts."""
        folded = self._folded("sum" if op in ("count", "mean") else op, key, next(places))
        body.append(folded)
        if op == "mean":
            body.append(counted := self._folded("sum", key, next(places)))
            size = ir.Call("to_float", (counted.result,), ir.Kind.FLOAT)
            return ir.Call("/", (folded.result, size), ir.Kind.FLOAT)
        if op == "count" and self._name(f"values{column}") in self.extra:
            body.append(counted := self._counted(column, key))  # to which the numbers of h@given are added
            return ir.Call("+", (folded.result, counted.result), ir.Kind.NUMBER)
        return folded.result

    def _folded(self, op: str, key: Key, place: int) -> ir.Aggregate:
        """Return the aggregate of one column of h@parts over all parts of a key."""
        parts = self.extra[self._name("parts")]
        args: list[ir.Term] = [self._fresh("v", kind) for kind in parts.kinds]
        args[1 : 1 + len(key)] = key
        return ir.Aggregate(self._fresh(op, parts.kinds[place]), op, args[place], (ir.Atom(parts.name, tuple(args)),))


def _counts_bindings(args: tuple, key: Key, body: list) -> bool:
    """True if distinct bindings of the body have distinct arguments, so that bindings can be counted instead."""
    names = {term.name for term in (*args, *key) if isinstance(term, ir.Var)}
    terms = rewrite.walk(rewrite.positive_atoms(body))
    if any(isinstance(term, ir.Wild) for term in terms):
        return False
    return all(isinstance(arg, ir.Var | ir.Const) for arg in args) and _determining_variables(body) <= names


def _determining_variables(body: list) -> set[str]:
    """Return the variables that determine a binding of a body: those of its atoms and ranges. Other variables are equal to
    expressions of these, and the number of a step is one value."""
    names = set(rewrite.variables_of([atom for atom in rewrite.positive_atoms(body) if not atom.relation.endswith("@step")]))
    return names | {literal.result.name for literal in body if isinstance(literal, ir.Range)}
