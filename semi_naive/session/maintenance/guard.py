"""Suspects that need not go: they have a derivation of tuples that are all older, and none of which has gone.

For a rule `path(x, z) :- path(x, y), edge(y, z).` whatever is suspected as path(@0, @1) stays if this makes anything, on what
remains, of a path(@0, y) that is older, and no suspect:

    path(@0, y), edge(y, @1)

So each rule of suspects ends with steps that drop what stays (`Guard.steps`). A tuple that was a witness, and is suspected
later, has what follows from it suspected again. A rule that negates or aggregates what has changed proves nothing here: what is
left is derived again later.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from semi_naive.planning.body import Body, Compiler
from semi_naive.planning.order import Greedy
from semi_naive.planning.rewrite import substitute, variables_of
from semi_naive.ra.rules.ages import AGE, Aged, Now, Older
from semi_naive.ra.rules.changes import own_order
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.ir import Atom, Compare, Kind, Rule, Term, Var, Wild
from semi_naive.ra.rules.steps import GROUP, AntiJoin, Bind, Join, Without

Kinds = dict[str, tuple[Kind, ...]]


@dataclass(frozen=True, eq=False)
class Proof:
    """The derivations by a rule (`of`) of one tuple, `rule`: its head has the terms of all atoms of the stratum."""

    of: Rule
    rule: Rule

    def plan(self, local: Any) -> Body:
        """Its steps, from the columns of a tuple; `local`: a `Local`."""
        rule, parts = self.rule, {n: "full" for n, each in enumerate(self.rule.body) if _reads(each, local.below)}
        greedy = Greedy(local.database, parts, made=local.database.orders())
        compiler = Compiler(rule, greedy, local.indexes.order_for, parts, True)
        first = {name for name in variables_of(rule) if name.startswith("@")}
        steps = compiler.compile(rule.body, {*first, AGE, GROUP}, {AGE, GROUP, *variables_of(rule.head)})
        sizes = {each.relation: local.database.size(each.relation) for each in rule.body if isinstance(each, Atom)}
        return Body(rule, Derivation(steps, rule.head.relation, rule.head.args), greedy.log, sizes)


@dataclass
class Guard:
    """`proofs` by relation, as steps; `now`: the ticks; `suspects`: what the relation of a relation's suspects is called."""

    proofs: dict[str, list[list]]
    now: Now
    suspects: Callable[[str], str]
    kinds: Kinds
    known: dict[str, list] = field(default_factory=dict)

    def has(self, proofs: dict[str, list[list]]) -> bool:
        """Whether the proofs are these very steps."""
        mine, theirs = ([id(steps) for each in some.values() for steps in each] for some in (self.proofs, proofs))
        return mine == theirs

    def steps(self, relation: str, head: tuple[Term, ...]) -> list:
        """What drops the bindings whose head stays, and those whose head is suspected by now."""
        columns = columns_of(self.kinds[relation])
        if relation not in self.known:
            outer = (*(column.name for column in columns), AGE)
            proofs = [Without(outer, self._older(steps)) for steps in self.proofs[relation]]
            self.known[relation] = [self._lacks(relation, columns), Aged(relation, columns, self.now), *proofs]
        return [*(Bind(column.name, term) for column, term in zip(columns, head, strict=True)), *self.known[relation]]

    def _lacks(self, relation: str, terms: tuple[Term, ...]) -> AntiJoin:
        return AntiJoin(self.suspects(relation), own_order(len(terms)), terms)

    def _older(self, steps: list) -> list:
        """The steps with some that look at each tuple of the stratum as soon as it is known."""
        found: list = []
        for step in steps:
            if not isinstance(step, Join) or step.relation not in self.kinds:
                found.append(step)
                continue
            bound = dict(enumerate(step.keys)) | {place: Var(name, Kind.NUMBER) for place, name in step.binds}
            terms = tuple(bound[step.order.index(column)] for column in range(len(step.order)))
            found += [step] * bool(step.binds)  # without new variables, its tick tells whether a tuple is there
            found += [Older(step.relation, terms, self.now), self._lacks(step.relation, terms)]
        return found


def proof(rule: Rule, own: Kinds) -> Proof:
    """Of a rule; own: the relations of the stratum.

    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> step = Rule(Atom("p", (x, z)), (Atom("p", (x, y)), Atom("e", (y, z))))
    >>> print(proof(step, {"p": (Kind.NUMBER,) * 2}).rule)
    p(@0, ?y) :- p(@0, ?y), e(?y, @1).
    >>> print(proof(replace(step, head=Atom("p", (x, x))), {"p": (Kind.NUMBER,) * 2}).rule)
    p(@0, ?y) :- p(@0, ?y), e(?y, ?z), @0 = @1.
    """
    columns, same = columns_of(own[rule.head.relation]), []
    given: dict[str, Term] = {}
    for column, term in zip(columns, rule.head.args, strict=True):
        if isinstance(term, Var) and term.name not in given:
            given[term.name] = replace(column, kind=term.kind)
        else:
            same.append((term, column))
    given |= {name: replace(each, name=f"?{name}") for name, each in variables_of(rule).items() if name not in given}
    body: list = []
    terms: list[Term] = []
    for place, literal in enumerate(rule.body):
        literal = substitute(literal, given)
        if isinstance(literal, Atom) and literal.relation in own:
            named = zip(literal.args, own[literal.relation], strict=True)
            literal = replace(literal, args=tuple(_named(term, f"{place}_{i}", kind) for i, (term, kind) in enumerate(named)))
            terms += literal.args
        body.append(literal)
    body += [Compare("=", substitute(term, given), column, Kind.NUMBER) for term, column in same]  # the same bits
    return Proof(rule, replace(rule, head=Atom(rule.head.relation, tuple(terms)), body=tuple(body), plan=None, join="binary"))


def columns_of(kinds: tuple[Kind, ...]) -> tuple[Var, ...]:
    """Variables for the columns of a tuple; no program has any of these names."""
    return tuple(Var(f"@{place}", kind) for place, kind in enumerate(kinds))


def _named(term: Term, name: str, kind: Kind) -> Term:
    return Var(f"?{name}", kind) if isinstance(term, Wild) else term


def _reads(literal, relations: set[str]) -> bool:
    return isinstance(literal, Atom) and literal.relation in relations
