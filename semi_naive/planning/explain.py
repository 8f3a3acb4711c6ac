"""What a run of a program would do and why, as text: strata, plans, join orders, indexes.

The decisions are made by what makes them in a run. What is not known before one is how many tuples the rules make: a relation
with rules is taken at what they are expected to make of the facts; a recursive one at what its first iteration finds.
"""

from dataclasses import dataclass, replace
from itertools import groupby

from semi_naive.config import Config
from semi_naive.planning.changes import changes, place
from semi_naive.planning.describe import attributes_of, counted, described, listed
from semi_naive.planning.order import plan_body, share_indexes, versions


def explained(program, facts=None, only_outputs: bool = False, config: Config | None = None) -> str:
    """The text of `Program.explain`. `facts` are loaded, nothing is evaluated."""
    from semi_naive.running.run import Run

    run = Run(program, program.compile(facts, only_outputs), config or Config())
    if facts is None:
        run.load_constants()
    else:
        run.load(facts, lenient=True)
    for table in run.database.tables.values():
        table.settle()
    return "\n".join(_Explanation(run, known=facts is not None).lines()) + "\n"


@dataclass
class _Explanation:
    """`known`: whether the facts are."""

    run: object
    known: bool

    def __post_init__(self):
        from semi_naive.running.choosing import is_fact
        from semi_naive.running.expected import UNKNOWN, Expected

        self.program, self.indexes, self.config = self.run.program, self.run.indexes, self.run.config
        self.sizes = Expected(self.run.database)
        self.written = {(rule.head, rule.body) for rule in self.run.asked.checked.rules}
        every = self.run.compiled.strata
        self.strata = [replace(s, rules=[rule for rule in s.rules if not is_fact(rule)]) for s in every]
        self.given = [name for stratum in self.strata if not stratum.rules for name in stratum.relations]
        if not self.known:
            inputs = {directive.relation for directive in self.program.directives if directive.kind == "input"}
            for name in self.program.relations:
                if name in inputs or (name in self.given and not self.run.database.count(name)):
                    self.sizes.suppose(name, UNKNOWN)

    def lines(self):
        rules = sum(len(stratum.rules) for stratum in self.strata)
        relations = counted(len(self.program.relations), "relation")
        yield f"{self.run.asked.name}: {relations}, {counted(rules, 'rule')} besides facts"
        if made := changes(self.run.asked.checked, self.program):
            yield from ("", "What was done to the rules", *(f"  {line}" for line in made))
        yield from self._facts()
        numbered = [(n, stratum) for n, stratum in enumerate(self.strata) if stratum.rules]
        for at, (number, stratum) in enumerate(numbered, 1):
            recursive = ", recursive" * stratum.recursive
            yield from ("", f"Stratum {at} of {len(numbered)}: {', '.join(stratum.relations)}{recursive}")
            yield from (f"  {line}" if line else "" for line in self._stratum(number, stratum))

    def _facts(self):
        yield from ("", "Facts")
        if not self.known:
            yield "  not given: each relation that is read is supposed to have 1,000 tuples; plans and orders depend on that"
        inputs = {directive.relation for directive in self.program.directives if directive.kind == "input"}
        for name in self.program.relations:
            if name in self.given or name in inputs or self.run.database.count(name):
                tuples = f"{'supposed ' * (name in self.sizes.supposed)}{counted(self.sizes.count(name), 'tuple')}"
                yield f"  {name}{attributes_of(self.program, name, range(self.program.relations[name].arity))}: {tuples}"

    # -- one stratum

    def _stratum(self, number: int, stratum):
        from semi_naive.running.choosing import chosen

        reads = self.run.read_by.get(stratum.relations[0], set()) - {number}
        choice = chosen(stratum, self.sizes, self.config, reads)
        yield from self._plan(choice)
        for name in stratum.relations:
            if lattice := self.program.relations[name].lattice:
                *key, (value, _) = self.program.relations[name].attributes
                best = {"min": "least", "max": "greatest"}[lattice]
                yield f"{name}: of each {listed([n for n, _ in key]) if key else 'relation'} the {best} {value}"
        if choice.plan == "closure":
            yield from ("", *map(_text, stratum.rules))
            self._supposed(stratum)
        else:
            yield from self._bodies(stratum, choice.plan == "balanced")
        sizes = listed([f"{counted(self.sizes.count(name), 'tuple')} in {name}" for name in stratum.relations])
        yield from ("", f"expected: {sizes}{', before it recurs' * stratum.recursive}")

    def _plan(self, choice):
        if choice.plan == "closure":
            yield f"plan {choice.closure.plan(self.sizes, self.config)[0]}: {choice.reason}"
            return
        yield f"plan {choice.plan}: {choice.reason}"
        if choice.plan == "local" and choice.reason.startswith("it reads"):
            other = f"the {choice.closure.plan(self.sizes, self.config)[0]} plan of a closure" if choice.closure else "balanced"
            yield f"  should it make more than {self.config.local_tuples:,} in an iteration: {other}"

    def _supposed(self, stratum) -> None:
        """A closure is evaluated by no rules; there is at least what it is the closure of."""
        bodies = self._planned([(rule, None, {}, 0) for rule in stratum.rules if not versions(rule, set(stratum.relations))])
        self._made(bodies)
        self.sizes.spread |= set(stratum.relations)

    def _bodies(self, stratum, balanced: bool):
        recursive = set(stratum.relations) if stratum.recursive else set()
        spread = frozenset(recursive) if balanced else frozenset()
        once = [(rule, None, {}, 0) for rule in stratum.rules if not versions(rule, recursive)]
        again = [(rule, at, parts, n) for rule in stratum.rules for n, (at, parts) in enumerate(versions(rule, recursive))]
        bodies = self._planned(once, spread, balanced)
        self._made(bodies)
        bodies |= self._planned(again, spread)
        for rule, found in groupby([*once, *again], key=lambda one: one[0]):
            yield from self._rule(rule, [(version, bodies[id(rule), version[3]]) for version in found])
        yield from self._indexes(bodies.values())
        self.sizes.spread |= set(stratum.relations) if balanced else set()

    def _planned(self, wanted, spread=frozenset(), deal: bool = False) -> dict:
        """Bodies as a run compiles them: all, and once more those that can share an index."""
        bodies = {}

        def plan(rule, at, parts, number):
            if (id(rule), number) not in bodies:
                body = plan_body(rule, self.sizes, self.indexes, parts, at, number, spread=spread, deal=deal)
                bodies[id(rule), number] = body

        for again in (False, True):
            for one in wanted:
                plan(*one)
            if not again:
                share_indexes(bodies, self.indexes)
        return bodies

    def _made(self, bodies: dict) -> None:
        for body in bodies.values():
            head = body.rule.head
            made = body.atoms[-1].expected if body.atoms else 1.0
            self.sizes.suppose(head.relation, made if head.args else min(1.0, made))

    def _rule(self, rule, found):
        yield from ("", _text(rule))
        if (rule.head, rule.body) not in self.written:
            yield f"  as {rule}"
        for (_, at, _, number), body in found:
            yield (
                "  once" if at is None else f"  from what is new in {rule.body[at]}" + f", version {number}" * (len(found) > 1)
            )
            yield from (f"    {line}" for line in described(body, self.program))

    def _indexes(self, bodies):
        uses: dict[tuple, set] = {}
        for body in bodies:
            for relation, order, keys in searches(body.derivation.steps):
                uses.setdefault((relation, order), set()).add(keys)
        if uses:
            yield from ("", "indexes")
        for relation, order in sorted(uses, key=str):
            by = [listed(self._names(relation, order[:keys])) for keys in sorted(uses[relation, order]) if keys]
            yield f"  {relation}{attributes_of(self.program, relation, order)}: " + (
                f"searched by {'; by '.join(by)}" if by else "read from beginning to end"
            )

    def _names(self, relation: str, columns) -> list[str]:
        return [self.program.relations[relation].attributes[column][0] for column in columns]


def searches(found) -> list[tuple]:
    """(relation, order, number of columns that are known) of all joins and negations, inner ones too."""
    made = []
    for step in found:
        if hasattr(step, "relation") and hasattr(step, "order"):
            made.append((step.relation, step.order, len(step.keys)))
        made += searches(getattr(step, "steps", ()))
    return made


def _text(rule) -> str:
    return f"{' '.join((rule.text or str(rule)).split())}  {place(rule)}".rstrip()
