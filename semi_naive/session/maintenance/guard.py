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

from semi_naive.planning.joins.body import PlannedBody, names_of_variables
from semi_naive.planning.joins.compiler import Compiler
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
OLDER_THAN_HEAD = Compare("<", Var(BORN, Kind.NUMBER), Var(AGE, Kind.NUMBER), Kind.NUMBER)


class GuardRules:
    """The rules that prove the suspects of a stratum, with their plans."""

    def __init__(self, rules: list[Rule], kinds: Kinds, local: Any, below: set[str]):
        """kinds: those of the columns of the stratum's relations; local: the evaluation of the stratum, for its database and
        indexes; below: the relations of other strata that the rules read."""
        proofs = [proof(rule, kinds) for rule in rules]
        self.proofs = sorted(proofs, key=lambda each: len(each.rule.head.args))  # first those without atoms of the stratum
        self.kinds, self.database, self.indexes, self.below = kinds, local.database, local.indexes, below
        self.bodies: dict[int, PlannedBody] = {}  # by the ids of `proofs`, which live as long as these rules
        # The planned proofs of the last guard, and this guard, which is used again while they are the same.
        self.last: tuple[list[PlannedBody], Guard] = [], Guard({name: [] for name in kinds}, TicksRef(Ticks()), kinds)

    def guard(self, unusable: set[int], ticks: Ticks) -> "Guard":
        """Return the guard of one transaction. unusable: the ids of the rules that negate or aggregate changed relations, which
        prove nothing. ticks: those of the tuples of the stratum."""
        usable = [proof for proof in self.proofs if id(proof.of) not in unusable]
        bodies = list(map(self._planned, usable))
        share_indexes(self.bodies, self.indexes)
        bodies = list(map(self._planned, usable))  # again, as `share_indexes` may drop some
        if list(map(id, bodies)) != list(map(id, self.last[0])):
            steps: dict[str, list[list]] = {name: [] for name in self.kinds}
            for proof, body in zip(usable, bodies, strict=True):
                steps[proof.of.head.relation].append(body.derivation.steps)
            self.last = bodies, Guard(steps, TicksRef(ticks), self.kinds)
        guard = self.last[1]
        guard.now.ticks = ticks
        return guard

    def _planned(self, proof: DerivationRule) -> PlannedBody:
        """Plan a proof from the columns of a tuple. Relations below are read without their delta, the lost tuples."""
        if id(proof) not in self.bodies or self.bodies[id(proof)].outgrown(self.database):
            rule, database = proof.rule, self.database
            atoms = {n: literal for n, literal in enumerate(rule.body) if isinstance(literal, Atom)}
            parts = {n: "full" for n, atom in atoms.items() if atom.relation in self.below}
            greedy = Greedy(database, parts, made=database.orders())
            columns = {name for name in variables_of(rule) if name.startswith("@")}  # see `column_variables`
            compiler = Compiler(rule, greedy, self.indexes.order_for, parts, every=True)
            outside = {AGE, GROUP, *variables_of(rule.head)}  # the variables that are needed afterwards
            steps = compiler.compile(rule.body, {*columns, AGE, GROUP}, outside)
            sizes = {atom.relation: database.size(atom.relation) for atom in atoms.values()}
            self.bodies[id(proof)] = PlannedBody(rule, Derivation(steps, rule.head.relation, rule.head.args), greedy.log, sizes)
        return self.bodies[id(proof)]


@dataclass
class Guard:
    """The steps that drop suspects.
    proofs: for each relation the steps of each proof. now: the ticks of this transaction. kinds: those of the columns of the
    stratum's relations. guard_steps: the steps that `guarded` appends, by relation."""

    proofs: dict[str, list[list]]
    now: TicksRef
    kinds: Kinds
    guard_steps: dict[str, list] = field(default_factory=dict)

    def guarded(self, steps: list, relation: str, head: tuple[Term, ...]) -> list:
        """Return the steps of a rule of suspects, then steps that drop bindings whose head has a proof or is a suspect."""
        columns = column_variables(self.kinds[relation])
        if relation not in self.guard_steps:
            outer = (*(column.name for column in columns), AGE)
            proofs = [Without(outer, self._older(steps)) for steps in self.proofs[relation]]
            self.guard_steps[relation] = [self._is_no_suspect(relation, columns), *proofs]
        return [*self.witnessing(steps, relation, head), *self.guard_steps[relation]]

    def witnessing(self, steps: list, relation: str, head: tuple[Term, ...]) -> list:
        """Return the steps of a rule of suspects, followed by steps that project to the columns and the tick of each head. They
        drop derivations from a tuple of the stratum that is not older than the head, as only older tuples can prove a tuple."""
        columns = column_variables(self.kinds[relation])
        head_names = [{str(term), column.name} for term, column in zip(head, columns, strict=True)]

        def is_head(name: str, terms: tuple[Term, ...]) -> bool:
            return name == relation and all(str(term) in names for term, names in zip(terms, head_names, strict=True))

        dated, tests = self._with_ages(steps, is_head)
        bound = [Bind(column.name, term) for column, term in zip(columns, head, strict=True)]
        projection = EarlyProjection((*(column.name for column in columns), AGE))
        return [*dated, *bound, Aged(relation, columns, self.now), *tests, projection]

    def _with_ages(self, steps: list, is_head: Callable[[str, tuple], bool]) -> tuple[list, list]:
        """Return (steps, tests). steps: the given ones, which also bind BORN to the tick of the first tuple of the stratum.
        tests: steps that drop bindings with a tuple of the stratum that is not older than AGE. If a step forgets such tuples,
        the given steps and no tests are returned. is_head: True for an atom that only tests that the head exists."""
        # The relations of the stratum by their names and by those of their suspects.
        of_stratum = {name: name for name in self.kinds} | {suspects(name): name for name in self.kinds}
        dated: list = []
        tests: list = []
        needed: set[str] = set()  # variables that the tests read, so all later joins must keep them
        if not all(isinstance(step, Join | AntiJoin | Bind | Filter) for step in steps):
            return steps, []
        for step in steps:
            terms = _terms(step) if isinstance(step, Join) and step.relation in of_stratum else ()
            is_premise = bool(terms) and len(terms) == len(step.order) and not is_head(step.relation, terms)
            if isinstance(step, Join) and (is_premise or needed):
                keys = names_of_variables(step.keys) if is_premise else set()
                step = replace(step, keep=step.keep | needed | keys, composed=None)
            dated.append(step)
            if is_premise and tests:  # BORN has the tick of an earlier tuple
                tests.append(Older(of_stratum[step.relation], terms, self.now))
                needed |= names_of_variables(terms)
            elif is_premise:
                dated.append(Aged(of_stratum[step.relation], terms, self.now, BORN))
                tests.append(Filter(OLDER_THAN_HEAD))
                needed.add(BORN)
        return dated, tests

    def _is_no_suspect(self, relation: str, terms: tuple[Term, ...]) -> AntiJoin:
        """Return the step that drops bindings in which the tuple of these terms is a suspect."""
        return AntiJoin(suspects(relation), own_order(len(terms)), terms)

    def _older(self, steps: list) -> list:
        """Return the steps of a proof with tests that each tuple of the stratum is older than AGE and no suspect."""
        tested: list = []
        for step in steps:
            if not isinstance(step, Join) or step.relation not in self.kinds:
                tested.append(step)
                continue
            terms = _terms(step)
            if step.binds:  # a join that binds no variable is not needed, as unknown tuples are not older
                tested.append(step)
            tested += [Older(step.relation, terms, self.now), self._is_no_suspect(step.relation, terms)]
        return tested


def _terms(step: Join) -> tuple[Term, ...]:
    """Return the terms of the columns that a join binds or searches by, in the relation's own order."""
    bound = dict(enumerate(step.keys)) | {place: Var(name, Kind.NUMBER) for place, name in step.binds}
    return tuple(bound[place] for column in range(len(step.order)) if (place := step.order.index(column)) in bound)
