"""Cases of random tests, and the parts that can be left out of them."""

from dataclasses import dataclass, field, replace
from functools import cached_property

from bench.fuzz.oracle import as_written
from bench.fuzz.texts import datalog, needs_text
from semi_naive import Program
from semi_naive.planning.rewrite import walk
from semi_naive.planning.rewriting.simplify import simplify
from semi_naive.ra import ir
from semi_naive.ra.multiway.query import ConjunctiveQuery

Relations = dict[str, set[tuple]]
Part = tuple


@dataclass
class Case:
    """A program, its facts, and transactions: lists of (operation, relation, rows). `seed`: what it is made from."""

    program: ir.Program
    facts: Relations
    steps: list = field(default_factory=list)
    features: frozenset = frozenset()
    seed: int | None = None

    @property
    def changed(self) -> list[str]:
        """The relations that are given, or that transactions change."""
        return [*self.facts, *sorted({name for step in self.steps for _, name, _ in step} - {*self.facts})]

    @property
    def by_text(self) -> bool:
        """True if the engine gets the text of the program, and not its rules."""
        return "text" in self.features or needs_text(self.program)

    @cached_property
    def checked(self) -> ir.Program:
        """The program for the engine."""
        return Program(datalog(self.program)).checked if self.by_text else self.program

    def meaning(self, given, limited: bool = False) -> ir.Program:
        """The program for the oracle, if some relations are given. Iterations are counted without rules that cannot fire, as
        these join strata; and choices depend on iterations."""
        if limited or any(each.stepwise for each in self.program.relations.values()):
            return simplify(self.checked, None, given)
        return as_written(self.program) if self.by_text else self.program

    def __str__(self) -> str:
        steps = ["; ".join(f"{operation} {name} {rows}" for operation, name, rows in step) for step in self.steps]
        return "\n".join([datalog(self.program, self.facts), *(f"// transaction: {step}" for step in steps)])

    # -- smaller cases

    def parts(self) -> list[Part]:
        """The parts that a smaller case may lack: rules, transactions, facts, and parts of rules and of transactions."""
        rules = self.program.rules
        literals = [("literal", at, place) for at in {*self._first()} for place in _removable(rules[at])]
        steps = [("step", at) for at in range(len(self.steps))]
        operations = [("operation", at, place) for _, at in steps for place in range(len(self.steps[at]))]
        rows = [("row", at, place, row) for _, at, place in operations for row in self.steps[at][place][2]]
        return [*(("rule", at) for at in range(len(rules))), *steps, *_parts(self.facts), *operations, *literals, *rows]

    def without(self, gone: set[Part]) -> "Case":
        rules, bodies = [], {}
        for at, (rule, first) in enumerate(zip(self.program.rules, self._first(), strict=True)):
            kept = tuple(each for place, each in enumerate(rule.body) if ("literal", first, place) not in gone)
            body = bodies.setdefault(first, kept)
            if ("rule", at) not in gone:
                rules.append(replace(rule, body=body, text=str(replace(rule, body=body))))
        steps = [self._step(at, gone) for at in range(len(self.steps)) if ("step", at) not in gone]
        return replace(self, program=replace(self.program, rules=rules), facts=_without(self.facts, gone), steps=steps)

    def _first(self) -> list[int]:
        """Of each rule the place of the first that has the same body: a rule of several heads stays one."""
        first: dict[int, int] = {}
        return [first.setdefault(id(rule.body), at) for at, rule in enumerate(self.program.rules)]

    def _step(self, at: int, gone: set[Part]) -> list:
        return [
            (operation, name, [row for row in rows if ("row", at, place, row) not in gone])
            for place, (operation, name, rows) in enumerate(self.steps[at])
            if ("operation", at, place) not in gone
        ]

    def trimmed(self) -> "Case":
        """The case without relations that nothing speaks of."""
        names = {name for step in self.steps for _, name, _ in step} | {name for name, rows in self.facts.items() if rows}
        names |= {node.relation.split("@")[0] for node in walk(self.program.rules) if isinstance(node, ir.Atom)}
        relations = {name: each for name, each in self.program.relations.items() if name.split("@")[0] in names}
        directives = [each for each in self.program.directives if each.relation in names]
        facts = {name: rows for name, rows in self.facts.items() if name in names}
        return replace(self, program=replace(self.program, relations=relations, directives=directives), facts=facts)


@dataclass
class QueryCase:
    """A conjunctive query and its relations."""

    query: ConjunctiveQuery
    facts: Relations
    seed: int | None = None

    def parts(self) -> list[Part]:
        return [*_parts(self.facts), *self.query.atoms, *self.query.comparisons]

    def without(self, gone: set[Part]) -> "QueryCase":
        query = replace(self.query, atoms=tuple(each for each in self.query.atoms if each not in gone))
        bound = set(query.variables)  # what has another variable cannot stay
        atoms = tuple(each for each in query.atoms if bound.issuperset(each.terms))
        compared = [each for each in query.comparisons if each not in gone]
        compared = [each for each in compared if all(not isinstance(side, str) or side in bound for side in each[1:])]
        order = query.order and tuple(name for name in query.order if name in bound)
        return QueryCase(ConjunctiveQuery(atoms, tuple(compared), order), _without(self.facts, gone))

    def trimmed(self) -> "QueryCase":
        return self


def _removable(rule: ir.Rule) -> list[int]:
    """The places of literals that can be left out; of a subsumptive rule only conditions can."""
    if "@" not in rule.head.relation:
        return [*range(len(rule.body))]
    return [at for at, each in enumerate(rule.body) if isinstance(each, ir.Atom) and "@" not in each.relation]


def _parts(facts: Relations) -> list[Part]:
    return [("fact", name, row) for name, rows in facts.items() for row in sorted(rows, key=repr)]


def _without(facts: Relations, gone: set[Part]) -> Relations:
    return {name: {row for row in rows if ("fact", name, row) not in gone} for name, rows in facts.items()}
