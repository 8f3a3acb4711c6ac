"""What a run of a program would do and why, as text: strata, plans, join orders, indexes.

The decisions are made by what makes them in a run. What is not known before one is how many tuples the rules make: a relation
with rules is taken at what they are expected to make of the facts; a recursive one at what its first iteration finds.
"""

from itertools import groupby

from semi_naive.config import Config
from semi_naive.planning.explain.bodies import enumerated, estimated
from semi_naive.planning.explain.strata import Telling, all_versions, rule_text
from semi_naive.planning.joins.order import plan_all, plan_body
from semi_naive.planning.joins.placing import Placing
from semi_naive.planning.spoken import spoken_name
from semi_naive.running.choose_plan import chosen
from semi_naive.running.relations.cardinality import ASSUMED_TUPLES, Cardinality
from semi_naive.running.run import ProgramRun


def explained(program, facts=None, only_outputs: bool = False, config: Config | None = None, plan="auto") -> str:
    """The text of `Program.explain`. `facts` are loaded, nothing is evaluated."""
    config = config or Config()
    run = ProgramRun(program, program.compile(facts, only_outputs, config.max_iterations is not None), config, plan=plan)
    if facts is None:
        run.load_constants()
    else:
        run.load(facts, lenient=True)
    try:
        for table in run.database.tables.values():
            table.settle()
        return _Expectation(run, known=facts is not None).text()
    finally:
        run.cluster.release()


class _Expectation(Telling):
    """What is expected of a run that has its facts. `known`: whether they are all there will be."""

    def __init__(self, run, known: bool):
        super().__init__(run)
        self.known, self.sizes = known, Cardinality(run.database)
        if not known:
            for name in self.program.relations:
                if name in self.inputs or (name in self.given and not run.database.count(name)):
                    self.sizes.suppose(name, ASSUMED_TUPLES)

    def facts(self):
        if not self.known:
            yield "not given: each relation that is read is supposed to have 1,000 tuples; plans and orders depend on that"
        for name in self.program.relations:
            if name in self.given or name in self.inputs or self.run.database.count(name):
                supposed = "supposed " * (name in self.sizes.supposed)
                yield f"{self.named(name)}: {supposed}{estimated(self.sizes.count(name), 'tuple')}"

    # -- one stratum

    def stratum(self, number: int, stratum):
        choice = chosen(stratum, self.sizes, self.run.config, self.run.plan, self.run.cluster.cores)
        yield from self._plan(choice)
        if choice.plan == "local" and self.run.streamed.issuperset(stratum.relations):
            yield "  no table of its tuples is made: the only rule that reads them folds them as they come"
        yield from self.lattices(stratum)
        followed = choice.plan == "decomposed" and choice.groups and choice.groups.following
        yield from self._followed(stratum) if followed else self._rules(stratum, choice.plan == "balanced")
        sizes = enumerated(
            [f"{estimated(self.sizes.count(name), 'tuple')} in {spoken_name(name)}" for name in stratum.relations]
        )
        yield from ("", f"expected: {sizes}{', before it recurs' * stratum.recursive}")
        if choice.plan != "local":
            self.sizes.on_partitions |= set(stratum.relations)

    def _plan(self, choice):
        most = self.run.config.local_tuples
        yield f"plan {choice.plan}: {choice.reason}"
        if choice.plan == "local" and choice.reason.startswith("it reads"):
            other = "balanced"
            if choice.groups:
                other = "the decomposed plan of a closure" if choice.groups.closure else f"decomposed; {choice.groups.reason}"
            yield f"  should it make more than {most:,} in an iteration: {other}"

    def _followed(self, stratum):
        """What follows edges is evaluated by no recursive rule; there is at least its base."""
        yield from ("", *map(rule_text, stratum.rules))
        self._made(self._planned(all_versions(stratum)[0], Placing()))

    def _rules(self, stratum, balanced: bool):
        placing = Placing()
        if balanced:
            own = frozenset(stratum.relations) if stratum.recursive else frozenset()
            placing = Placing(own, self.run.config.replicate_bytes, self.sizes.bytes)
        once, again = all_versions(stratum)
        bodies = self._planned(once, placing, balanced)
        self._made(bodies)
        bodies |= self._planned([*once, *again], placing, balanced)
        for rule, found in groupby([*once, *again], key=lambda one: one[0]):
            yield from self.rule(rule, [(version, bodies[id(rule), version[3]]) for version in found])
        yield from self.indexes(bodies.values(), placing.told if balanced else None)

    def _planned(self, every, placing: Placing, balanced: bool = False) -> dict:
        """Bodies as a run compiles them."""
        bodies, multiway = {}, self.run.config.multiway

        def plan(rule, at, parts, number):
            if (id(rule), number) not in bodies:
                deal = balanced and at is None
                bodies[id(rule), number] = plan_body(
                    rule, self.sizes, self.run.indexes, parts, at, number, placing, deal, multiway, folds=not balanced
                )
            return bodies[id(rule), number]

        plan_all(plan, every, bodies, self.run.indexes, placing)
        return bodies

    def _made(self, bodies: dict) -> None:
        for body in bodies.values():
            head = body.rule.head
            made = body.atoms[-1].expected if body.atoms else 1.0
            self.sizes.suppose(head.relation, made if head.args else min(1.0, made))
