"""Explain before a run: what a run of the program would do and why, as text: strata, plans, join orders, indexes.

The decisions are made by the same code as in a run. Unknown before a run are the sizes of derived relations: they are estimated
from the facts, those of a recursive relation from its first iteration."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from semi_naive.config import Config
from semi_naive.planning.explain.bodies import enumerated, estimated
from semi_naive.planning.explain.strata import Explanation, all_versions, rule_text
from semi_naive.planning.joins.body import PlannedBody
from semi_naive.planning.joins.order import RuleVersion, plan_all, plan_body
from semi_naive.planning.joins.placing import Placing
from semi_naive.planning.rewriting.static_joins import bound_of, is_static
from semi_naive.planning.spoken import spoken_name
from semi_naive.planning.strata import Stratum
from semi_naive.running.choose_plan import PlanChoice, choose_plan
from semi_naive.running.relations.cardinality import ASSUMED_TUPLES, Cardinality
from semi_naive.running.run import ProgramRun

Bodies = dict[tuple[int, int], PlannedBody]  # by (id of the rule, number of its version)


def explained(program: Any, facts=None, only_outputs: bool = False, config: Config | None = None, plan: str = "auto") -> str:
    """Return the text of `Program.explain`. The facts are loaded, but no rule is evaluated."""
    config = config or Config()
    run = ProgramRun(program, program.compile(facts, only_outputs, config.max_iterations is not None), config, plan=plan)
    if facts is None:
        run.load_constants()
    else:
        run.load(facts, lenient=True)
    try:
        for table in run.database.tables.values():
            table.settle()
        return _PlannedExplanation(run, known=facts is not None).text()
    finally:
        run.cluster.release()


class _PlannedExplanation(Explanation):
    """The explanation of a run whose facts are loaded. known: True if there will be no further facts."""

    def __init__(self, run: ProgramRun, known: bool):
        """known: the facts are loaded, so that their sizes need not be assumed."""
        super().__init__(run)
        self.known, self.sizes = known, Cardinality(run.database)
        for name in self.carried:
            self.sizes.suppose(name, self.carried[name] or ASSUMED_TUPLES)  # 0.0: unknown
        if not known:
            for name in self.program.relations:
                if name in self.inputs or (name in self.given and not run.database.count(name)):
                    self.sizes.suppose(name, ASSUMED_TUPLES)

    def facts(self) -> Iterator[str]:
        """Yield the lines about facts."""
        if not self.known:
            yield "not given: each relation that is read is supposed to have 1,000 tuples; plans and orders depend on that"
        for name in self.program.relations:
            if name not in self.carried and (name in self.given or name in self.inputs or self.run.database.count(name)):
                supposed = "supposed " * (name in self.sizes.supposed)
                yield f"{self.named(name)}: {supposed}{estimated(self.sizes.count(name), 'tuple')}{self.pushed(name)}"

    # -- one stratum

    def stratum(self, number: int, stratum: Stratum) -> Iterator[str]:
        """Yield the lines about one stratum."""
        if is_static(stratum.relations[0]):
            most = bound_of(sum(map(self.sizes.count, stratum.reads)))
            yield f"joined beforehand if it makes at most {most:,} tuples; else its atoms stay in the rules that read it"
        choice = choose_plan(stratum, self.sizes, self.run.config, self.run.plan)
        yield from self._plan(choice)
        if choice.plan == "local" and self.run.streamed.issuperset(stratum.relations):
            yield "  no table of its tuples is made: the only rule that reads them folds them as they come"
        yield from self.lattices(stratum)
        followed = choice.plan == "decomposed" and choice.groups and choice.groups.following
        yield from self._followed(stratum) if followed else self._rules(stratum, choice.plan == "balanced")
        sizes = ((self.sizes.count(name), spoken_name(name)) for name in stratum.relations)
        counts = enumerated([f"{estimated(size, 'tuple')} in {name}" for size, name in sizes])
        yield from ("", f"expected: {counts}{', before it recurs' * stratum.recursive}")
        if choice.plan != "local":
            self.sizes.on_partitions |= set(stratum.relations)

    def _plan(self, choice: PlanChoice) -> Iterator[str]:
        """Yield the lines about the plan of a stratum, and about the plan to which it changes if it turns out too large."""
        most = self.run.config.local_tuples
        yield f"plan {choice.plan}: {choice.reason}"
        if choice.plan == "local" and choice.reason.startswith("it reads"):  # chosen only for the size of what it reads
            other = "balanced"
            if groups := choice.groups:
                is_closure = groups.following and groups.following.closure
                other = "the decomposed plan of a closure" if is_closure else f"decomposed; {groups.reason}"
            yield f"  should it make more than {most:,} in an iteration: {other}"

    def _followed(self, stratum: Stratum) -> Iterator[str]:
        """Yield the rules of a stratum that follows edges, which is evaluated without its recursive rules. The estimate of its
        size is that of its base."""
        yield from ("", *map(rule_text, stratum.rules))
        once, _ = all_versions(stratum)
        self._suppose_sizes(self._planned(once, Placing()))

    def _rules(self, stratum: Stratum, balanced: bool) -> Iterator[str]:
        """Yield the lines about a stratum's rules and indexes."""
        placing = Placing()
        if balanced:
            own = frozenset(stratum.relations) if stratum.recursive else frozenset()
            placing = Placing(own, self.run.config.replicate_bytes, self.sizes.bytes)
        nonrecursive, recursive = all_versions(stratum)
        bodies = self._planned(nonrecursive, placing, balanced)
        self._suppose_sizes(bodies)
        bodies |= self._planned([*nonrecursive, *recursive], placing, balanced)  # together: they share indexes
        for rule, group in groupby([*nonrecursive, *recursive], key=lambda version: version.rule):
            yield from self.rule(rule, [(version, bodies[id(rule), version.number]) for version in group])
        yield from self.indexes(bodies.values(), placing.described if balanced else None)

    def _planned(self, rule_versions: list[RuleVersion], placing: Placing, balanced: bool = False) -> Bodies:
        """Return the bodies of rule versions as a run compiles them."""
        bodies: Bodies = {}
        multiway = self.run.config.multiway

        def plan(rule, delta, parts, number):
            if (id(rule), number) not in bodies:
                deal = balanced and delta is None
                bodies[id(rule), number] = plan_body(
                    rule, self.sizes, self.run.indexes, parts, delta, number, placing, deal, multiway, folds=not balanced,
                    lattice=self.program.lattice(rule.head.relation),
                )  # fmt: skip
            return bodies[id(rule), number]

        plan_all(plan, rule_versions, bodies, self.run.indexes, placing)
        return bodies

    def _suppose_sizes(self, bodies: Bodies) -> None:
        """Record the expected sizes of the relations that the bodies derive, from which other rules are planned."""
        for body in bodies.values():
            head = body.rule.head
            size = body.atoms[-1].expected if body.atoms else 1.0
            self.sizes.suppose(head.relation, size if head.args else min(1.0, size))  # without columns: at most one tuple
