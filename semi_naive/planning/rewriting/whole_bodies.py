"""Rules whose head aggregates their whole body.

    s(a, sum) :- e(a, b), f(b, c), sum = sum c.1 : { e(a, b.1), f(b.1, c.1) }.

is what `s(a, sum(c)) :- e(a, b), f(b, c).` becomes. To read it as one body that is folded by its key saves evaluating it twice.
"""

from dataclasses import dataclass, replace

from semi_naive.planning.rewrite import (
    atoms_of,
    fresh,
    has_autoinc,
    is_extracted,
    rules_by_head,
    substitute,
    variables_of,
    walk,
)
from semi_naive.ra.ir import Aggregate, Atom, Compare, Const, Literal, Program, Rule, Var, Wild

PARTIAL = "early@"  # begins the names of relations of partial aggregates


def is_partial(relation: str) -> bool:
    """True if a relation holds partial aggregates. It may have keys that no rule needs."""
    return is_extracted(relation, PARTIAL)


@dataclass(frozen=True)
class FoldedBody:
    """The parts of a rule whose head aggregates its whole body. guards: literals that only restrict the keys; body: literals
    whose bindings are folded by the `keys`; aggregates: without bodies, their targets in the variables of `body`; after:
    literals that read the results."""

    guards: tuple[Literal, ...]
    body: tuple[Literal, ...]
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    after: tuple[Literal, ...] = ()

    @property
    def outside(self) -> set[str]:
        """The variables of the body whose values the fold needs: the keys, and those of the targets."""
        return {*self.keys, *variables_of([aggregate.target for aggregate in self.aggregates])}

    @property
    def least_count(self) -> int:
        """The least result of the only aggregate that the comparisons `result > constant` let through; 1 without any."""
        least = 1
        for literal in self.after:
            if isinstance(literal, Compare) and len(self.aggregates) == 1 and literal.left == self.aggregates[0].result:
                if literal.op == ">" and isinstance(literal.right, Const) and isinstance(literal.right.value, int):
                    least = max(least, literal.right.value + 1)
        return least

    def literals(self) -> tuple[Literal, ...]:
        """Return the body of a rule with these parts: each aggregate has a copy of the body, its local variables renamed."""
        results = {aggregate.result.name for aggregate in self.aggregates}
        taken = results.union(variables_of([*self.guards, *self.body, *self.after]))
        aggregates = []
        for aggregate in self.aggregates:
            local = {name: var for name, var in variables_of([*self.body, aggregate.target]).items() if name not in self.keys}
            names = {name: replace(var, name=fresh(name.partition("@")[0], taken)) for name, var in local.items()}
            body = tuple(substitute(literal, names) for literal in self.body)
            aggregates.append(replace(aggregate, target=substitute(aggregate.target, names), body=body))
        return (*self.guards, *self.body, *aggregates, *self.after)


def fold_of(rule: Rule) -> FoldedBody | None:
    """Return the parts of a rule whose head aggregates its whole body; None for other rules. Only a rule for partial aggregates
    may have guards."""
    folding = [literal for literal in rule.body if isinstance(literal, Aggregate)]
    results = {aggregate.result.name for aggregate in folding}
    user_defined = any(aggregate.init is not None for aggregate in folding)
    # two aggregates with one result are compared, which no fold does
    if not folding or len(results) < len(folding) or user_defined or has_autoinc(rule):
        return None
    after = tuple(literal for literal in rule.body if literal not in folding and variables_of(literal).keys() & results)
    plain = [literal for literal in rule.body if literal not in folding and literal not in after]
    number_of_guards = len(plain) - len(folding[0].body)  # the body comes after them: see `FoldedBody.literals`
    guards, body = tuple(plain[:number_of_guards]), tuple(plain[number_of_guards:])
    if number_of_guards < 0 or guards and not is_partial(rule.head.relation):
        return None
    keys: set[str] = set()
    aggregates = []
    for number, aggregate in enumerate(folding):
        names = _renaming(aggregate.body, body)
        if names is None:
            return None
        shared = {name for name, renamed in names.items() if name == renamed}
        inner = variables_of([*aggregate.body, aggregate.target])
        if number and keys != shared or not inner.keys() <= names.keys():
            return None
        keys = shared
        renamed = {name: replace(var, name=names[name]) for name, var in inner.items()}
        aggregates.append(replace(aggregate, target=substitute(aggregate.target, renamed), body=()))
    if variables_of([rule.head, *guards, *after]).keys() & (variables_of(body).keys() - keys):
        return None
    return FoldedBody(guards, body, tuple(sorted(keys)), tuple(aggregates), after)


def streamed(program: Program) -> set[str]:
    """Return the relations of partial aggregates that need no table: one rule without guards makes all tuples, each once, and
    one rule reads each tuple once, without a search."""
    if not any(map(is_partial, program.relations)):
        return set()
    makers = rules_by_head(program)
    readers: dict[str, list[Rule]] = {}
    for rule in program.rules:
        for name in {node.relation for node in walk(rule.body) if isinstance(node, Atom) and is_partial(node.relation)}:
            readers.setdefault(name, []).append(rule)
    pairs = {name: (makers[name][0], rules[0]) for name, rules in readers.items() if len(rules) == len(makers[name]) == 1}
    scanned = {name: maker for name, (maker, reader) in pairs.items() if _scans(reader, name)}
    return {name for name, maker in scanned.items() if (fold := fold_of(maker)) and not fold.guards}


def _scans(rule: Rule, name: str) -> bool:
    """True if a rule reads a relation only in an aggregated body that has no other atom and no variables from outside."""
    fold, aggregates = fold_of(rule), [literal for literal in rule.body if isinstance(literal, Aggregate)]
    others = [literal for literal in rule.body if not isinstance(literal, Aggregate)]
    if not fold:
        if len(aggregates) != 1 or atoms_of(others, name):
            return False
        if variables_of(aggregates[0].body).keys() & variables_of([rule.head, *others]).keys():
            return False
    atoms = [node for node in walk(fold.body if fold else aggregates[0].body) if isinstance(node, Atom)]
    terms = [term for atom in atoms for term in atom.args if not isinstance(term, Wild)]
    is_search = len(variables_of(terms)) < len(terms) or any(not isinstance(term, Var) for term in terms)
    copies = 1 + len(aggregates) if fold else 1  # a folded body is also written in each aggregate
    return len(atoms) == 1 and not is_search and len(atoms_of(rule.body, name)) == copies


def _renaming(body: tuple, other: tuple) -> dict[str, str] | None:
    """Return the one-to-one renaming of variables that turns a body into another: {name: name in the other}. None if there is
    none, or if it gives a variable the name of a different variable of the body."""
    names: dict[str, str] = {}
    for node, other_node in zip(walk(body), walk(other), strict=False):  # bodies of other forms differ in the last test
        if isinstance(node, Var) and isinstance(other_node, Var):
            if names.setdefault(node.name, other_node.name) != other_node.name:
                return None
    in_other = variables_of(other)
    if len(set(names.values())) < len(names) or any(name in in_other and name != new for name, new in names.items()):
        return None
    renamed = {name: replace(var, name=names[name]) for name, var in variables_of(body).items() if name in names}
    return names if tuple(substitute(literal, renamed) for literal in body) == other else None
