"""The text about a program's strata, rules and indexes that is the same before a run and after it."""

from dataclasses import replace

from semi_naive.host.numbers import quantity
from semi_naive.planning.explain.bodies import attributes_of, describe_body, enumerated
from semi_naive.planning.explain.passes import describe_changes, place
from semi_naive.planning.joins.order import versions
from semi_naive.planning.spoken import spoken, spoken_name
from semi_naive.planning.strata import is_fact


class Telling:
    """Lines about the strata of `run`, a `semi_naive.running.run.ProgramRun`. Subclasses give the lines of one stratum."""

    def __init__(self, run):
        self.run, self.program = run, run.program
        self.written = {(rule.head, rule.body) for rule in run.asked.checked.rules}
        every = run.compiled.strata
        self.strata = [replace(s, rules=[rule for rule in s.rules if not is_fact(rule)]) for s in every]
        self.given = {name for stratum in self.strata if not stratum.rules for name in stratum.relations}
        self.inputs = {directive.relation for directive in self.program.directives if directive.kind == "input"}

    def text(self) -> str:
        return "\n".join(self.lines()) + "\n"

    def lines(self):
        rules = sum(len(stratum.rules) for stratum in self.strata)
        relations = quantity(len(self.program.relations), "relation")
        yield f"{self.run.asked.name}: {relations}, {quantity(rules, 'rule')} besides facts{self.more()}"
        if made := describe_changes(self.run.asked.checked, self.program):
            yield from ("", "What was done to the rules", *(f"  {line}" for line in made))
        yield from ("", "Facts", *(f"  {line}" for line in self.facts()))
        numbered = [(n, stratum) for n, stratum in enumerate(self.strata) if stratum.rules]
        for at, (number, stratum) in enumerate(numbered, 1):
            recursive = ", recursive" * stratum.recursive
            yield from ("", f"Stratum {at} of {len(numbered)}: {', '.join(map(spoken_name, stratum.relations))}{recursive}")
            yield from (f"  {line}" if line else "" for line in self.stratum(number, stratum))

    def more(self) -> str:
        return ""

    def facts(self):
        raise NotImplementedError

    def stratum(self, number: int, stratum):
        raise NotImplementedError

    # -- what strata are told with

    def named(self, relation: str) -> str:
        """A relation with its attributes."""
        return spoken_name(relation) + attributes_of(self.program, relation, range(self.program.relations[relation].arity))

    def lattices(self, stratum):
        for name in stratum.relations:
            if lattice := self.program.relations[name].lattice:
                *key, (value, _) = self.program.relations[name].attributes
                best = {"min": "least", "max": "greatest"}[lattice]
                yield f"{name}: of each {enumerated([n for n, _ in key]) if key else 'relation'} the {best} {value}"

    def rule(self, rule, found, note: str = ""):
        """`found`: of each version (rule, the atom that reads the delta, parts, number) the body, or None."""
        yield from ("", rule_text(rule))
        if (rule.head, rule.body) not in self.written:
            yield f"  as {spoken(rule)}"
        if note:
            yield f"  {note}"
        for (_, at, _, number), body in found:
            version = f", version {number}" * (len(found) > 1)
            yield "  once" if at is None else f"  from what is new in {spoken(rule.body[at])}{version}"
            yield from (f"    {line}" for line in (describe_body(body, self.program) if body else ["nothing was new"]))

    def indexes(self, bodies, placed=None):
        """What the bodies search, and by which of its columns; `placed` says where an index is, if the stratum is spread."""
        uses: dict[tuple, set] = {}
        for body in bodies:
            for relation, order, keys in index_searches(body.derivation.steps):
                uses.setdefault((relation, order), set()).add(keys)
        if uses:
            yield from ("", "indexes")
        for relation, order in sorted(uses, key=str):
            by = [enumerated(self._names(relation, order[:keys])) for keys in sorted(uses[relation, order]) if keys]
            how = f"searched by {'; by '.join(by)}" if by else "read from beginning to end"
            if not order and self.program.relations[relation].arity:
                how = "whether it has a tuple"
            yield f"  {spoken_name(relation)}{attributes_of(self.program, relation, order)}: {how}"
            if placed and (where := placed(relation, order)):
                yield f"    {where}"

    def _names(self, relation: str, columns) -> list[str]:
        return [self.program.relations[relation].attributes[column][0] for column in columns]


def all_versions(stratum) -> tuple[list, list]:
    """(rule, delta, parts, number) of what is evaluated once, and of what is evaluated again and again."""
    recursive = set(stratum.relations) if stratum.recursive else set()
    once: list[tuple] = [(rule, None, {}, 0) for rule in stratum.rules if not versions(rule, recursive)]
    again = [(rule, at, parts, n) for rule in stratum.rules for n, (at, parts) in enumerate(versions(rule, recursive))]
    return once, again


def index_searches(found) -> list[tuple]:
    """(relation, order, number of columns that are known) of all joins and negations, inner ones too."""
    made = []
    for step in found:
        if hasattr(step, "relation") and hasattr(step, "order"):
            made.append((step.relation, step.order, len(step.keys)))
        made += index_searches(getattr(step, "steps", ()))
    return made


def rule_text(rule) -> str:
    """A rule as it was written, on one line, with its place."""
    return f"{' '.join((rule.text or str(rule)).split())}  {place(rule)}".rstrip()
