"""Sums in recursion: relations aggregated over their own tuples, if no key depends on itself.

    cost(part, sum(n * c)) :- uses(part, other, n), cost(other, c).       the bill of materials
    cost(part, price) :- bought(part, price).

A sum is complete once all its summands are. So the keys are computed in dependency order, starting with keys that depend on no
other. Rules without values derive the keys and their dependencies:

    cost@key(part) :- uses(part, other, n), cost@key(other).
    cost@needs1(part, other) :- uses(part, other, n), cost@key(other).

and then each round (`running.loops`) evaluates the rules for the keys whose dependencies are complete, on the known values:

    cost(part, sum(n * c)) :- cost@now(part), uses(part, other, n), cost@known(other, c).

Every binding of a rule is made once. Keys that need each other in a circle are an error, which names them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from semi_naive.language.errors import NOWHERE, Problem
from semi_naive.language.reductions.heads import Head, Ops
from semi_naive.language.single import Single
from semi_naive.planning import rewrite
from semi_naive.ra import ir
from semi_naive.ra.loops import Loop, Needs


def group_problems(singles: list[Single], summed: dict[str, Ops], group: Callable[[str], frozenset[str]]) -> Iterator[Problem]:
    """Report relations that recur with an aggregated one and are not aggregated. summed: the aggregated relations; group:
    returns the strongly connected component of a relation."""
    reported = set()
    for single in singles:
        name = single.head.relation
        other = min((other for other in summed if other in group(name)), default="") if name not in summed else ""
        if other and name not in reported:
            reported.add(name)
            op = next(iter(summed[other].values()))
            hint = f"write its body into the rules for {other}, or aggregate in its heads as well, not by min or max alone"
            yield Problem(f"{name} is in recursion with {other}, which is aggregated by {op}", single.head.span, hint)


@dataclass
class RecursiveSums:
    """The aggregated relations of one recursive component, with the aggregates of their columns, declarations and heads.

    It replaces `heads` by those of a round, and makes the `relations` and `rules` of the keys, and `needs`: the relations that
    hold the dependencies of keys."""

    group: tuple[str, ...]
    ops: dict[str, Ops]
    declared: dict[str, ir.Relation]
    heads: dict[str, list[Head]]
    relations: dict[str, ir.Relation] = field(default_factory=dict)
    rules: list[ir.Rule] = field(default_factory=list)
    needs: list[Needs] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self):
        """Declare the relations of known tuples, of keys, and of the keys evaluated in a round."""
        for name in self.group:
            relation = self.declared[name]
            key = tuple(attribute for column, attribute in enumerate(relation.attributes) if column not in self.ops[name])
            self.relations[f"{name}@known"] = ir.Relation(f"{name}@known", relation.attributes, span=relation.span)
            for suffix in ("key", "now"):
                self.relations[f"{name}@{suffix}"] = ir.Relation(f"{name}@{suffix}", key, span=relation.span)
        self.heads = {
            name: [self._head(name, number, head) for number, head in enumerate(self.heads[name], 1)] for name in self.group
        }

    def loop(self) -> Loop:
        pairs = tuple((f"{name}@known", name) for name in self.group)
        return Loop(pairs, tuple(f"{name}@now" for name in self.group), tuple(self.needs))

    def _head(self, name: str, number: int, head: Head) -> Head:
        """Return a head restricted to the keys of the round, and add the rules of its keys. number: of the head among those of
        its relation."""
        key, equations = head.named_key(lambda place, kind: ir.Var(f"{name}.key@k{number}_{place}", kind))
        self._add_key_rules(name, number, head.rule, key, equations)
        known = [self._known(literal) for literal in head.rule.body]
        now = ir.Atom(f"{name}@now", tuple(key))
        return replace(head, key=tuple(key), rule=replace(head.rule, body=(now, *known, *equations), plan=None))

    def _known(self, literal: ir.Literal) -> ir.Literal:
        """Return a literal in which the values known so far replace a relation of the component."""
        if isinstance(literal, ir.Atom) and literal.relation in self.group:
            return replace(literal, relation=f"{literal.relation}@known")
        return literal

    # -- keys, and their dependencies

    def _add_key_rules(self, name: str, number: int, rule: ir.Rule, key: list[ir.Term], equations: list[ir.Compare]) -> None:
        """Add the rules for the keys that a rule derives, and for the keys that these need. Report keys made of values."""
        body, needed, values = self._without_values(rule.body, number)
        body, bound = _bound([*body, *equations], values)
        if unbound := [term for term in key if isinstance(term, ir.Var) and term.name not in bound]:
            shown = unbound[0].name.split("@")[0]
            # A name with a dot is of a variable that the program does not have.
            message = f"The key of {name} depends on an aggregated value" + f", by {shown}" * ("." not in shown)
            hint = "keys are derived before values: compute it from relations that this recursion does not aggregate"
            self.problems.append(Problem(message, rule.span or NOWHERE, hint))
            return
        text = f"keys of: {rule.text or rule}"
        self.rules.append(ir.Rule(ir.Atom(f"{name}@key", tuple(key)), tuple(body), span=rule.span, text=text))
        for place, atom in enumerate(needed):
            needs = f"{name}@needs{number}_{place}"
            columns = [*self.relations[f"{name}@key"].attributes, *self.relations[atom.relation].attributes]
            attributes = tuple((f"a{column}", type_) for column, (_, type_) in enumerate(columns))
            self.relations[needs] = ir.Relation(needs, attributes)
            head = ir.Atom(needs, (*key, *atom.args))
            self.rules.append(ir.Rule(head, tuple(body), span=rule.span, text=f"what is needed by: {rule.text or rule}"))
            self.needs.append(Needs(needs, name, atom.relation.removesuffix("@key"), rule.span, rule.text))

    def _without_values(self, body: tuple, number: int) -> tuple[list, list[ir.Atom], set[str]]:
        """Return (the body with atoms of keys in place of those of the component's relations, these atoms, the variables of the
        removed values). number: of the head."""
        literals, key_atoms, values = [], [], set()
        for place, literal in enumerate(body):
            if isinstance(literal, ir.Atom) and literal.relation in self.group:
                ops = self.ops[literal.relation]
                columns = enumerate(zip(literal.args, self.declared[literal.relation].kinds, strict=True))
                # The heads of the rules of `needs` have all columns of a key, so `_` becomes a variable.
                key = (
                    ir.Var(f"any@k{number}_{place}_{column}", kind) if isinstance(arg, ir.Wild) else arg
                    for column, (arg, kind) in columns
                    if column not in ops
                )
                values |= {name for column in ops for name in rewrite.variables_of(literal.args[column])}
                literal = ir.Atom(f"{literal.relation}@key", tuple(key))
                key_atoms.append(literal)
            literals.append(literal)
        return literals, key_atoms, values


def _bound(body: list, values: set[str]) -> tuple[list, set[str]]:
    """Return (a body without the literals whose variables are no longer bound, the variables that are still bound). Without
    these literals the rules of keys derive a superset: a round finds no value for the other keys, and a cycle among them is an
    error, too. values: the variables of recursive values that were removed from the body."""
    bound = {name for atom in rewrite.positive_atoms(body) for arg in atom.args for name in rewrite.variables_bound_by(arg)}
    while new := {name for literal in body for name in _newly_bound(literal, bound, values)} - bound:
        bound |= new
    kept = []
    for literal in body:
        unbound = _required_variables(literal, values) - bound
        if isinstance(literal, ir.Atom):
            # An argument that is computed from values matches anything.
            args = (ir.Wild() if rewrite.variables_of(arg).keys() & unbound else arg for arg in literal.args)
            kept.append(replace(literal, args=tuple(args)))
        elif not unbound:
            kept.append(literal)
    return kept, bound


def _newly_bound(literal: ir.Literal, bound: set[str], values: set[str]) -> set[str]:
    """Return the variables that a range, an aggregate or an equation binds, if some variables are bound."""
    if isinstance(literal, ir.Range):
        ends = [term for term in (literal.start, literal.stop, literal.step) if term is not None]
        return {literal.result.name} if rewrite.variables_of(ends).keys() <= bound else set()
    if isinstance(literal, ir.Aggregate):
        return {literal.result.name} if _required_variables(literal, values) <= bound | {literal.result.name} else set()
    if not isinstance(literal, ir.Compare) or literal.op != "=":
        return set()
    sides = ((literal.left, literal.right), (literal.right, literal.left))
    return {name for to, by in sides if rewrite.variables_of(by).keys() <= bound for name in rewrite.variables_bound_by(to)}


def _required_variables(literal: ir.Literal, values: set[str]) -> set[str]:
    """Return the variables of a literal that other literals must bind: of an aggregate, only its result and the variables of
    recursive values (`values`)."""
    names = set(rewrite.variables_of(literal))
    return names & {*values, literal.result.name} if isinstance(literal, ir.Aggregate) else names
