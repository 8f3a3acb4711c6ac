"""Rules whose head aggregates their whole body.

    s(a, sum) :- e(a, b), f(b, c), sum = sum c.1 : { e(a, b.1), f(b.1, c.1) }.

is what `s(a, sum(c)) :- e(a, b), f(b, c).` becomes. To read it as one body that is folded by its key saves evaluating it twice.
"""

from dataclasses import dataclass, replace

from semi_naive.planning.rewrite import fresh, has_autoinc, rules_by_head, substitute, variables_of, walk
from semi_naive.ra.ir import Aggregate, Atom, Literal, Program, Rule, Var, Wild

PARTIAL = "early@"  # begins the names of relations of partial aggregates


def is_partial(relation: str) -> bool:
    """True if a relation holds partial aggregates: keys that no rule needs do no harm there."""
    return relation.startswith(PARTIAL)


@dataclass(frozen=True)
class FoldedBody:
    """The parts of such a rule. guards: literals that only tell which keys are needed; body: what is folded by the `keys`;
    aggregates: without bodies, their targets in the variables of `body`; after: literals that read the results."""

    guards: tuple[Literal, ...]
    body: tuple[Literal, ...]
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    after: tuple[Literal, ...] = ()

    @property
    def outside(self) -> set[str]:
        """The variables of the body that are needed of a binding."""
        return {*self.keys, *variables_of([one.target for one in self.aggregates if one.target is not None])}

    def literals(self) -> tuple[Literal, ...]:
        """The body of a rule with these parts."""
        taken = {*variables_of([*self.guards, *self.body, *self.after]), *(one.result.name for one in self.aggregates)}
        made = []
        for one in self.aggregates:
            inner = variables_of([*self.body, *([one.target] if one.target is not None else [])])
            names = {n: replace(var, name=fresh(n.partition("@")[0], taken)) for n, var in inner.items() if n not in self.keys}
            target = None if one.target is None else substitute(one.target, names)
            made.append(replace(one, target=target, body=tuple(substitute(literal, names) for literal in self.body)))
        return (*self.guards, *self.body, *made, *self.after)


def fold_of(rule: Rule) -> FoldedBody | None:
    """The parts of a rule whose head aggregates its whole body; None for other rules. Only a rule for partial aggregates may
    have guards."""
    found = [literal for literal in rule.body if isinstance(literal, Aggregate)]
    results = {one.result.name for one in found}
    if not found or len(results) < len(found) or any(one.init is not None for one in found) or has_autoinc(rule):
        return None
    after = tuple(one for one in rule.body if one not in found and variables_of(one).keys() & results)
    plain = [one for one in rule.body if one not in found and one not in after]
    size = len(plain) - len(found[0].body)
    guards, body = tuple(plain[:size]), tuple(plain[size:])
    if size < 0 or guards and not is_partial(rule.head.relation):
        return None
    keys, aggregates = None, []
    for one in found:
        names = _names_in(body, one.body)
        own = None if names is None else {name for name, mine in names.items() if name == mine}
        if names is None or keys not in (None, own):
            return None
        keys = own
        inner = variables_of([*one.body, *([one.target] if one.target is not None else [])])
        if not inner.keys() <= names.keys():
            return None
        named = {name: replace(var, name=names[name]) for name, var in inner.items()}
        aggregates.append(replace(one, target=None if one.target is None else substitute(one.target, named), body=()))
    assert keys is not None
    if variables_of([rule.head, *guards, *after]).keys() & (variables_of(body).keys() - keys):
        return None
    return FoldedBody(guards, body, tuple(sorted(keys)), tuple(aggregates), after)


def streamed(program: Program) -> set[str]:
    """The relations of partial aggregates that need no table: one rule without guards makes all tuples, each once, and one rule
    reads them, from beginning to end and nothing else."""
    if not any(map(is_partial, program.relations)):
        return set()
    makers = rules_by_head(program)
    readers: dict[str, list[Rule]] = {}
    for rule in program.rules:
        for name in {node.relation for node in walk(rule.body) if isinstance(node, Atom) and is_partial(node.relation)}:
            readers.setdefault(name, []).append(rule)
    alone = {name for name, found in readers.items() if len(found) == len(makers[name]) == 1 and _scans(found[0], name)}
    return {name for name in alone if (fold := fold_of(makers[name][0])) and not fold.guards}


def _scans(rule: Rule, name: str) -> bool:
    """True if a rule reads a relation only in a body that is aggregated and has no other atom, nor variables from outside."""
    fold, found = fold_of(rule), [one for one in rule.body if isinstance(one, Aggregate)]
    rest = [rule.head, *(one for one in rule.body if not isinstance(one, Aggregate))]
    shared = variables_of(found[0].body).keys() & variables_of(rest).keys() if found else set()
    if not fold and (len(found) != 1 or shared or _atoms_of(rest[1:], name)):
        return False
    atoms = [node for node in walk(fold.body if fold else found[0].body) if isinstance(node, Atom)]
    terms = [term for atom in atoms for term in atom.args if not isinstance(term, Wild)]
    once = len(variables_of(terms)) == len(terms) and all(isinstance(term, Var) for term in terms)
    return len(atoms) == 1 and once and len(_atoms_of(rule.body, name)) == (1 + len(found) if fold else 1)


def _atoms_of(literals, name: str) -> list[Atom]:
    return [node for node in walk(literals) if isinstance(node, Atom) and node.relation == name]


def _names_in(body: tuple, other: tuple) -> dict[str, str] | None:
    """By variable of another body, the variable of this one in its place; None if they differ in more than names. No variable
    of the one stands in another place of the other."""
    names: dict[str, str] = {}
    for mine, theirs in zip(walk(body), walk(other), strict=False):
        if isinstance(mine, Var) and isinstance(theirs, Var) and names.setdefault(theirs.name, mine.name) != mine.name:
            return None
    own = variables_of(body)
    if len(set(names.values())) < len(names) or any(name in own and name != mine for name, mine in names.items()):
        return None
    named = {name: replace(var, name=names[name]) for name, var in variables_of(other).items() if name in names}
    return names if tuple(substitute(literal, named) for literal in other) == body else None
