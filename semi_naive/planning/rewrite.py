"""Tools for passes over rules: traverse the terms and literals of a rule, replace parts, and rename variables apart.

A node is a part of a rule in `ra.ir`: a term, a literal, or the rule itself."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from operator import is_not
from typing import TypeVar

from semi_naive.ra import ir

T = TypeVar("T")  # of vertices: a relation, a stratum

NODES = frozenset([
    ir.Var, ir.Wild, ir.Const, ir.Call, ir.Pack, ir.Autoinc,
    ir.Atom, ir.Not, ir.Compare, ir.Test, ir.Truth, ir.Range, ir.Aggregate, ir.Rule,
])  # fmt: skip
LEAVES = frozenset([ir.Var, ir.Wild, ir.Const, ir.Autoinc, ir.Truth, type(None)])  # None: the target of a count
FLIPPED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", "<=": ">", ">": "<="}


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def children(node) -> list:
    """Return the nodes directly inside a node, in the order they are written."""
    nodes: list = []
    if node.__class__ in LEAVES:
        return nodes
    for name in _field_names(node.__class__):
        value = getattr(node, name)
        if value.__class__ in NODES:
            nodes.append(value)
        elif value.__class__ is tuple:
            nodes += [part for part in value if part.__class__ in NODES]
    return nodes


def walk(node) -> Iterator:
    """Yield a node and all nodes inside it, outermost first. For a tuple or list of nodes, yield those of each; a list may
    have None for a part that is left out, as the target of a count."""
    stack = [node] if node.__class__ in NODES else [*node][::-1]
    while stack:
        node = stack.pop()
        yield node
        if node.__class__ not in LEAVES:
            stack += children(node)[::-1]


def map_children(node, change: Callable):
    """Return the node with `change` applied to each node directly inside it; the same object if none changes."""
    if node.__class__ in LEAVES:
        return node
    changed = {}
    for name in _field_names(node.__class__):
        value = getattr(node, name)
        if value.__class__ in NODES:
            if (new := change(value)) is not value:
                changed[name] = new
        elif value.__class__ is tuple:
            parts = tuple([change(part) if part.__class__ in NODES else part for part in value])
            if any(map(is_not, parts, value)):
                changed[name] = parts
    return replace(node, **changed) if changed else node


def transform(node, change: Callable):
    """Return a node with `change` applied to it and to every node inside it, innermost first."""
    return change(map_children(node, lambda child: transform(child, change)))


def variables_of(node) -> dict[str, ir.Var]:
    """Return {name: variable} of a term, a literal, a rule or several of them, aggregates included, in the order of occurrence.

    >>> x, y = ir.Var("x", ir.Kind.NUMBER), ir.Var("y", ir.Kind.NUMBER)
    >>> list(variables_of([ir.Atom("e", (y, ir.Wild())), ir.Compare("=", x, y, ir.Kind.NUMBER)]))
    ['y', 'x']
    """
    variables: dict[str, ir.Var] = {}
    for inner in walk(node):
        if inner.__class__ is ir.Var:
            variables.setdefault(inner.name, inner)
    return variables


def substitute(node, terms: Mapping[str, ir.Term]):
    """Replace the variables named in `terms`, all at once.

    The result of a range or of an aggregate must be a variable: never give another term for one.

    >>> x, y = ir.Var("x", ir.Kind.NUMBER), ir.Var("y", ir.Kind.NUMBER)
    >>> print(substitute(ir.Atom("e", (x, y)), {"x": y, "y": ir.Const(3, ir.Kind.NUMBER)}))
    e(y, 3)
    """
    if not terms:
        return node
    if isinstance(node, ir.Var):
        return terms.get(node.name, node)
    return map_children(node, lambda child: substitute(child, terms))


def fresh(name: str, taken: set[str]) -> str:
    """Return a name like `name` that is not in `taken`, and add it there. Users cannot write such a name.

    >>> taken = {"x", "x.1"}
    >>> fresh("x", taken), fresh("x.1", taken)
    ('x.2', 'x.3')
    """
    stem, number = name.partition(".")[0], 1
    while (candidate := f"{stem}.{number}") in taken:
        number += 1
    taken.add(candidate)
    return candidate


def rename_apart(rule: ir.Rule, taken: set[str]) -> ir.Rule:
    """Return the rule with all variables renamed to names that are not in `taken`, and add these there.

    >>> x = ir.Var("x", ir.Kind.NUMBER)
    >>> print(rename_apart(ir.Rule(ir.Atom("a", (x,)), (ir.Atom("b", (x,)),)), {"x"}))
    a(x.1) :- b(x.1).
    """
    return substitute(rule, {name: replace(var, name=fresh(name, taken)) for name, var in variables_of(rule).items()})


def canonical(node) -> str:
    """Return a text that is equal for nodes that differ only in the names of their variables, and different for all others.

    >>> x, y = ir.Var("x", ir.Kind.NUMBER), ir.Var("y", ir.Kind.NUMBER)
    >>> canonical(ir.Atom("e", (x, y))) == canonical(ir.Atom("e", (y, x))) != canonical(ir.Atom("e", (x, x)))
    True
    """
    return repr(substitute(node, {n: replace(v, name=str(i)) for i, (n, v) in enumerate(variables_of(node).items())}))


def components(names: Iterable[Collection[str]]) -> list[list[int]]:
    """Group sets of names that share one, directly or through other sets: the places of each group, by the first.

    >>> components([{"x"}, {"y"}, {"x", "z"}])
    [[0, 2], [1]]
    """
    groups: list[tuple[set[str], list[int]]] = []
    for place, own in enumerate(names):
        joined, places = set(own), [place]
        for group in [group for group in groups if not group[0].isdisjoint(own)]:
            groups.remove(group)
            joined, places = joined | group[0], group[1] + places
        groups.append((joined, places))
    return sorted(sorted(places) for _, places in groups)


def connected(nodes: Iterable) -> list[list[int]]:
    """Group nodes that variables connect, as `components` does."""
    return components(map(variables_of, nodes))


def connected_with(node, literals: Sequence) -> list:
    """Return the literals that variables connect with a node, directly or through other literals."""
    first, *_ = connected([node, *literals])  # groups are sorted: the first one has place 0, the node
    return [literals[place - 1] for place in first[1:]]


def has_simple_arguments(atom: ir.Atom) -> bool:
    """True if all arguments of an atom are variables, constants or wildcards."""
    return all(isinstance(arg, ir.Var | ir.Wild | ir.Const) for arg in atom.args)


def is_plain(rule: ir.Rule) -> bool:
    """True if a rule has only atoms and tests, and neither a plan nor features that depend on the order of evaluation."""
    plain = all(isinstance(literal, ir.Atom | ir.Compare | ir.Test | ir.Not) for literal in rule.body)
    return plain and not (rule.plan or rule.join or has_autoinc(rule))


def part_of(rule: ir.Rule, atoms: Iterable[ir.Atom]) -> tuple[tuple[ir.Literal, ...], dict[str, ir.Var], tuple[ir.Var, ...]]:
    """Return the part of a rule's body that joins some of its atoms: (the atoms and the filters on their variables, in the
    order of the body; their variables; those that the rest of the rule needs)."""
    joined = {*map(id, atoms)}  # by identity, as a body may have equal literals
    joined_variables = variables_of([literal for literal in rule.body if id(literal) in joined])
    filters = (literal for literal in rule.body if isinstance(literal, ir.Compare | ir.Test))
    joined |= {id(literal) for literal in filters if variables_of(literal).keys() <= joined_variables.keys()}
    needed = variables_of([rule.head, *(literal for literal in rule.body if id(literal) not in joined)])
    kept = tuple(var for name, var in joined_variables.items() if name in needed)
    return tuple(literal for literal in rule.body if id(literal) in joined), joined_variables, kept


def is_extracted(name: str, prefix: str) -> bool:
    """True if a pass has made a relation for a part of rules, with this prefix (`Extracted`). A relation of the program may be
    called `static`, too, and be computed on demand as `static@bf`.

    >>> is_extracted("static@1", "static@"), is_extracted("static@bf", "static@")
    (True, False)
    """
    return name.startswith(prefix) and name.removeprefix(prefix).isdigit()


class Extracted:
    """A program whose rules a pass goes through, and the relations of the bodies that it takes out of them. Equal bodies have
    one relation. rules: of the new program so far; names: the names of the relations, by the text of their rules without names
    of variables; prefix: begins the names."""

    def __init__(self, program: ir.Program, prefix: str, names: dict[str, str] | None = None):
        self.before, self.prefix, self.names = program, prefix, {} if names is None else names
        self.relations, self.rules = dict(program.relations), list[ir.Rule]()

    def atom(self, body: tuple, variables: Sequence[ir.Var], rule: ir.Rule) -> ir.Atom:
        """Return the atom with these variables that replaces a part of the body of a rule. If its relation is new, add the rule
        that derives it; the text of that names the rule from which it is taken."""
        text = canonical(ir.Rule(ir.Atom("", tuple(variables)), body))
        name = self.names.setdefault(text, f"{self.prefix}{len(self.names) + 1}")
        head = ir.Atom(name, tuple(variables))
        if name not in self.relations:
            attributes = tuple((var.name, ir.Type(var.kind.value, var.kind)) for var in variables)
            self.relations[name] = ir.Relation(name, attributes, span=rule.span)
            new_rule = ir.Rule(head, body, span=rule.span)
            self.rules.append(replace(new_rule, text=f"{new_rule}  (of: {rule.text or rule})"))
        return head

    def program(self) -> ir.Program:
        """Return the new program; the same object, if no body was taken out of a rule."""
        changed = len(self.relations) > len(self.before.relations)
        return replace(self.before, rules=self.rules, relations=self.relations) if changed else self.before


def relations_in(nodes) -> set[str]:
    """Return the relations of all atoms in literals, rules or several of them."""
    return {node.relation for node in walk(nodes) if isinstance(node, ir.Atom)}


def positive_atoms(body: Iterable) -> list[ir.Atom]:
    """Return the atoms of a body that are neither negated nor aggregated."""
    return [literal for literal in body if isinstance(literal, ir.Atom)]


def atoms_of(nodes, relation: str) -> list[ir.Atom]:
    """Return the atoms of a relation in literals, rules or several of them, at any depth."""
    return [node for node in walk(nodes) if isinstance(node, ir.Atom) and node.relation == relation]


def variables_bound_by(term: ir.Term) -> set[str]:
    """Return the names of the variables that a term binds if it is matched with a value: those of a variable, and of the fields
    of a record. The result of an expression does not determine its operands."""
    if isinstance(term, ir.Pack):
        return set().union(*map(variables_bound_by, term.args))
    return {term.name} if isinstance(term, ir.Var) else set()


def results_of(body: Iterable) -> set[str]:
    """Return the variables to which ranges and aggregates of a body assign values. They must remain variables."""
    return {part.result.name for part in walk(body) if isinstance(part, (ir.Range, ir.Aggregate))}


def has_autoinc(node) -> bool:
    """True if a node contains autoinc() at any depth."""
    return any(part.__class__ is ir.Autoinc for part in walk(node))


def with_literals_at(rule: ir.Rule, place: int, *literals: ir.Literal) -> ir.Rule:
    """Return the rule, without its .plan, with literals in place of that at a place of its body."""
    return replace(rule, body=(*rule.body[:place], *literals, *rule.body[place + 1 :]), plan=None)


def with_body(rule: ir.Rule, body: Iterable) -> ir.Rule:
    """Return the rule with another body; the same object, if the literals are the same objects. If the number of atoms changes,
    drop its .plan, which numbers them."""
    body = tuple(body)
    if len(body) == len(rule.body) and not any(map(is_not, body, rule.body)):
        return rule
    same = len(positive_atoms(body)) == len(positive_atoms(rule.body))
    return replace(rule, body=body, plan=rule.plan if same else None)


def rules_by_head(program: ir.Program) -> dict[str, list[ir.Rule]]:
    """Return the rules of each relation; an empty list for a relation without rules."""
    rules: dict[str, list[ir.Rule]] = {name: [] for name in program.relations}
    for rule in program.rules:
        rules[rule.head.relation].append(rule)
    return rules


def dependencies(program: ir.Program) -> dict[str, set[str]]:
    """Return for each relation the relations on which it depends: those that its rules read (positively, negated or
    aggregated), the one that determines which of its tuples to remove, and those whose iterations it records."""
    depends_on: dict[str, set[str]] = {name: set() for name in program.relations}
    for rule in program.rules:
        depends_on[rule.head.relation] |= {part.relation for part in walk(rule.body) if isinstance(part, ir.Atom)}
    for name, relation in program.relations.items():
        depends_on[name] |= {relation.removal, *relation.follows} if relation.dominated else {*relation.follows}
    return depends_on


def reachable(starts: Iterable[T], edges: Mapping[T, Iterable[T]]) -> set[T]:
    """Return all nodes that can be reached, the starts included.

    >>> sorted(reachable("a", {"a": {"b"}, "b": {"c"}, "c": set(), "d": {"a"}}))
    ['a', 'b', 'c']
    """
    reached: set[T] = set()
    unexpanded = list(starts)
    while unexpanded:
        if (vertex := unexpanded.pop()) not in reached:
            reached.add(vertex)
            unexpanded.extend(edges.get(vertex, ()))
    return reached
