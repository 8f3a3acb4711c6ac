"""The guard of overdeletion: it drops suspects that still have a derivation from older tuples.

For a rule `path(x, z) :- path(x, y), edge(y, z).` the suspect path(@0, @1) stays if the following body has a binding over the
remaining tuples in which path(@0, y) is older than the suspect, and is no suspect:

    path(@0, y), edge(y, @1)

Each rule of suspects ends with steps that test this (`Guard.guarded`). If a tuple of such a proof is suspected later, its
consequences are suspected again. A rule that negates or aggregates a changed relation proves nothing; its heads are rederived.

Most consequences of a suspect need no test. Each tuple had a derivation from older tuples when it was born, so path(x, z) may
have lost it only if the suspect path(x, y) is older (`Guard.witnessing`). If thousands of derivations have the same heads, as
in a large component of a graph, that leaves few, and each head is tested once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from semi_naive.planning.joins.body import Compiler, PlannedBody, names_of_variables
from semi_naive.planning.joins.order import Greedy, share_indexes
from semi_naive.planning.maintaining.guarded import DerivationRule, proof
from semi_naive.planning.maintaining.names import Kinds, column_variables, suspects
from semi_naive.planning.rewrite import variables_of
from semi_naive.ra.blocks.changes import own_order
from semi_naive.ra.ir import Atom, Compare, Kind, Rule, Term, Var
from semi_naive.ra.rules.ages import AGE, Aged, Older, Ticks, TicksRef
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.exists import Without
from semi_naive.ra.rules.steps import GROUP, AntiJoin, Bind, EarlyProjection, Filter, Join

BORN = "@born"  # the variable of a body that holds the tick of a tuple of the stratum

YOUNGER = Compare("<", Var(BORN, Kind.NUMBER), Var(AGE, Kind.NUMBER), Kind.NUMBER)


class GuardRules:
    """The rules that prove the suspects of a stratum, with their plans. local: the evaluation of the stratum, for its database
    and indexes; below: the relations that it reads.
    """

    def __init__(self, rules: list[Rule], kinds: Kinds, local: Any, below: set[str]):
        """kinds: of the columns of the stratum's relations; local: the evaluation of the stratum; below: the relations of other
        strata that the rules read."""
        proofs = [proof(rule, kinds) for rule in rules]
        self.proofs = sorted(
            proofs, key=lambda candidate: len(candidate.rule.head.args)
        )  # first those without atoms of the stratum
        self.kinds, self.database, self.indexes, self.below = kinds, local.database, local.indexes, below
        self.bodies: dict[int, PlannedBody] = {}
        self.last: tuple[list[PlannedBody], Guard] = [], Guard({name: [] for name in kinds}, TicksRef(Ticks()), suspects, kinds)

    def guard(self, shut: set[int], ticks: Ticks) -> "Guard":
        """The guard of one transaction. shut: ids of rules that negate or aggregate changed relations; they prove nothing."""
        usable = [each for each in self.proofs if id(each.of) not in shut]
        bodies = list(map(self._planned, usable))
        share_indexes(self.bodies, self.indexes)
        bodies = list(map(self._planned, usable))
        if list(map(id, bodies)) != list(map(id, self.last[0])):
            steps: dict[str, list[list]] = {name: [] for name in self.kinds}
            for each, body in zip(usable, bodies, strict=True):
                steps[each.of.head.relation].append(body.derivation.steps)
            self.last = bodies, Guard(steps, TicksRef(ticks), suspects, self.kinds)
        guard = self.last[1]
        guard.now.ticks = ticks
        return guard

    def _planned(self, proof: DerivationRule) -> PlannedBody:
        """Plan a proof from the columns of a tuple. Relations below are read without their delta, the lost tuples."""
        if id(proof) not in self.bodies or self.bodies[id(proof)].outgrown(self.database):
            rule, database = proof.rule, self.database
            atoms = {n: each for n, each in enumerate(rule.body) if isinstance(each, Atom)}
            parts = {n: "full" for n, atom in atoms.items() if atom.relation in self.below}
            greedy = Greedy(database, parts, made=database.orders())
            first = {name for name in variables_of(rule) if name.startswith("@")}
            compiler = Compiler(rule, greedy, self.indexes.order_for, parts, True)
            steps = compiler.compile(rule.body, {*first, AGE, GROUP}, {AGE, GROUP, *variables_of(rule.head)})
            sizes = {atom.relation: database.size(atom.relation) for atom in atoms.values()}
            self.bodies[id(proof)] = PlannedBody(rule, Derivation(steps, rule.head.relation, rule.head.args), greedy.log, sizes)
        return self.bodies[id(proof)]


@dataclass
class Guard:
    """The steps that drop suspects. proofs: for each relation the steps of each proof; now: the ticks; suspects: a function
    from a relation's name to the name of the relation of its suspects.
    """

    proofs: dict[str, list[list]]
    now: TicksRef
    suspects: Callable[[str], str]
    kinds: Kinds
    known: dict[str, list] = field(default_factory=dict)

    def guarded(self, steps: list, relation: str, head: tuple[Term, ...]) -> list:
        """The steps of a rule of suspects, and steps that drop bindings whose head has a proof, or is a suspect already."""
        columns = column_variables(self.kinds[relation])
        if relation not in self.known:
            outer = (*(column.name for column in columns), AGE)
            proofs = [Without(outer, self._older(steps)) for steps in self.proofs[relation]]
            self.known[relation] = [self._lacks(relation, columns), *proofs]
        return [*self.witnessing(steps, relation, head), *self.known[relation]]

    def witnessing(self, steps: list, relation: str, head: tuple[Term, ...]) -> list:
        """The steps of a rule, and steps that leave the columns and the tick of each head once, of derivations from tuples of
        the stratum that are all older than the head. No other derivation matters for a proof."""
        columns = column_variables(self.kinds[relation])
        own = [{str(term), column.name} for term, column in zip(head, columns, strict=True)]

        def is_head(name: str, terms: tuple[Term, ...]) -> bool:
            return name == relation and all(str(term) in either for term, either in zip(terms, own, strict=True))

        dated, more = self._dated(steps, is_head)
        bound = [Bind(column.name, term) for column, term in zip(columns, head, strict=True)]
        once = EarlyProjection((*(column.name for column in columns), AGE))
        return [*dated, *bound, Aged(relation, columns, self.now), *more, once]

    def _dated(self, steps: list, is_head: Callable[[str, tuple], bool]) -> tuple[list, list]:
        """The steps with the tick of the first tuple of the stratum as BORN, and steps that keep the bindings whose tuples are
        all older than AGE. The steps unchanged, if one of them forgets these tuples. is_head: true for the terms of an atom
        that only tests that the head exists."""
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
        """The steps of a proof, with tests that each tuple of the stratum is older and is no suspect."""
        found: list = []
        for step in steps:
            if not isinstance(step, Join) or step.relation not in self.kinds:
                found.append(step)
                continue
            terms = _terms(step)
            found += [step] * bool(step.binds)  # without new variables, the test of its tick includes its existence
            found += [Older(step.relation, terms, self.now), self._lacks(step.relation, terms)]
        return found


def _terms(step: Join) -> tuple[Term, ...]:
    """The columns of the tuples that a join matches, in the relation's order, as far as they are bound."""
    bound = dict(enumerate(step.keys)) | {place: Var(name, Kind.NUMBER) for place, name in step.binds}
    return tuple(bound[place] for column in range(len(step.order)) if (place := step.order.index(column)) in bound)
