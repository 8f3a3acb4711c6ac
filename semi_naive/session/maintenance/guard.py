"""Suspects that need not go: they have a derivation of tuples that are all older, and none of which has gone.

For a rule `path(x, z) :- path(x, y), edge(y, z).` whatever is suspected as path(@0, @1) stays if this makes anything, on what
remains, of a path(@0, y) that is older, and no suspect:

    path(@0, y), edge(y, @1)

So each rule of suspects ends with steps that drop what stays (`Guard.guarded`). A tuple that was a witness, and is suspected
later, has what follows from it suspected again. A rule that negates or aggregates what has changed proves nothing here: what is
left is derived again later.

Nor is every tuple looked at that a suspect was used for. Each tuple has had a derivation of older ones from the beginning; so
path(x, z) may lack one only if path(x, y), the suspect, is older than it. Where thousands of derivations make the same tuples,
as in a large component of a graph, that leaves few of them, and each tuple is looked at once for all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from semi_naive.planning.joins.body import Compiler, PlannedBody, names_of_variables
from semi_naive.planning.joins.order import Greedy
from semi_naive.planning.maintaining.guarded import DerivationRule
from semi_naive.planning.maintaining.names import Kinds, column_variables
from semi_naive.planning.rewrite import variables_of
from semi_naive.ra.blocks.changes import own_order
from semi_naive.ra.ir import Atom, Compare, Kind, Term, Var
from semi_naive.ra.rules.ages import AGE, Aged, Now, Older
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.exists import Without
from semi_naive.ra.rules.steps import GROUP, AntiJoin, Bind, EarlyProjection, Filter, Join

BORN = "@born"  # the tick of a tuple that something is derived of, among the variables of a body


YOUNGER = Compare("<", Var(BORN, Kind.NUMBER), Var(AGE, Kind.NUMBER), Kind.NUMBER)


def planned(proof: DerivationRule, local: Any) -> PlannedBody:
    """Plan a proof from the columns of a tuple; `local`: a `Local`."""
    rule, parts = proof.rule, {n: "full" for n, each in enumerate(proof.rule.body) if _reads(each, local.below)}
    greedy = Greedy(local.database, parts, made=local.database.orders())
    compiler = Compiler(rule, greedy, local.indexes.order_for, parts, True)
    first = {name for name in variables_of(rule) if name.startswith("@")}
    steps = compiler.compile(rule.body, {*first, AGE, GROUP}, {AGE, GROUP, *variables_of(rule.head)})
    sizes = {each.relation: local.database.size(each.relation) for each in rule.body if isinstance(each, Atom)}
    return PlannedBody(rule, Derivation(steps, rule.head.relation, rule.head.args), greedy.log, sizes)


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

    def guarded(self, steps: list, relation: str, head: tuple[Term, ...]) -> list:
        """The steps of a rule of suspects with more, which drop the bindings whose head stays, and those whose head is
        suspected by now."""
        columns = column_variables(self.kinds[relation])
        if relation not in self.known:
            outer = (*(column.name for column in columns), AGE)
            proofs = [Without(outer, self._older(steps)) for steps in self.proofs[relation]]
            self.known[relation] = [self._lacks(relation, columns), *proofs]
        return [*self.witnessing(steps, relation, head), *self.known[relation]]

    def witnessing(self, steps: list, relation: str, head: tuple[Term, ...]) -> list:
        """The steps of a rule with more, after which there are the columns of a head and its tick, each once, of derivations
        whose tuples of the stratum are all older than the head: without any other it is as well derived as with it."""
        columns = column_variables(self.kinds[relation])
        own = [{str(term), column.name} for term, column in zip(head, columns, strict=True)]

        def is_head(name: str, terms: tuple[Term, ...]) -> bool:
            return name == relation and all(str(term) in either for term, either in zip(terms, own, strict=True))

        dated, more = self._dated(steps, is_head)
        bound = [Bind(column.name, term) for column, term in zip(columns, head, strict=True)]
        once = EarlyProjection((*(column.name for column in columns), AGE))
        return [*dated, *bound, Aged(relation, columns, self.now), *more, once]

    def _dated(self, steps: list, is_head: Callable[[str, tuple], bool]) -> tuple[list, list]:
        """The steps with the tick of the first tuple of the stratum, as BORN, and what keeps the bindings of which all of its
        tuples are older than AGE. As they are, if one of them forgets which tuples these are. is_head: of a relation's terms,
        whether they ask for the head itself, as `suspecting.there` does."""
        own = {name: name for name in self.kinds} | {self.suspects(name): name for name in self.kinds}
        dated: list = []
        more: list = []
        needed: set[str] = set()
        if not all(isinstance(step, Join | AntiJoin | Bind | Filter) for step in steps):
            return steps, []
        for step in steps:
            terms = _terms(step) if isinstance(step, Join) and step.relation in own else ()
            whole = bool(terms) and len(terms) == len(step.order) and not is_head(step.relation, terms)
            if isinstance(step, Join) and (whole or needed):
                step = replace(
                    step, keep=step.keep | needed | (names_of_variables(step.keys) if whole else set()), composed=None
                )
            dated.append(step)
            if whole and more:
                more.append(Older(own[step.relation], terms, self.now))
                needed |= names_of_variables(terms)
            elif whole:
                dated.append(Aged(own[step.relation], terms, self.now, BORN))
                more.append(Filter(YOUNGER))
                needed.add(BORN)
        return dated, more

    def _lacks(self, relation: str, terms: tuple[Term, ...]) -> AntiJoin:
        return AntiJoin(self.suspects(relation), own_order(len(terms)), terms)

    def _older(self, steps: list) -> list:
        """The steps with some that look at each tuple of the stratum as soon as it is known."""
        found: list = []
        for step in steps:
            if not isinstance(step, Join) or step.relation not in self.kinds:
                found.append(step)
                continue
            terms = _terms(step)
            found += [step] * bool(step.binds)  # without new variables, its tick tells whether a tuple is there
            found += [Older(step.relation, terms, self.now), self._lacks(step.relation, terms)]
        return found


def _terms(step: Join) -> tuple[Term, ...]:
    """The columns of the tuples that a join meets, in their order, as far as it knows them."""
    bound = dict(enumerate(step.keys)) | {place: Var(name, Kind.NUMBER) for place, name in step.binds}
    return tuple(bound[place] for column in range(len(step.order)) if (place := step.order.index(column)) in bound)


def _reads(literal, relations: set[str]) -> bool:
    return isinstance(literal, Atom) and literal.relation in relations
