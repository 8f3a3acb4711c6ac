"""The parts of explanations that are equal before and after a run: a program's strata, rules, indexes and passes, as text."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from semi_naive.host.numbers import quantity
from semi_naive.planning.explain.bodies import attribute_names, describe_body, enumerated
from semi_naive.planning.joins.body import PlannedBody
from semi_naive.planning.joins.order import RuleVersion, versions
from semi_naive.planning.rewrite import is_extracted, rules_by_head
from semi_naive.planning.rewriting.classes import CLASS
from semi_naive.planning.spoken import spoken, spoken_name
from semi_naive.planning.strata import Stratum, is_fact
from semi_naive.ra.ir import Const, Order, Program, Rule
from semi_naive.ra.loops import Steps


class Explanation:
    """The lines that explain the strata of a run. Subclasses provide the lines of one
    stratum, and of the facts.

    written: (head, body) of the rules of the program; given: relations without rules; carried: for relations that a component
    in steps carries from step to step, 1.0 if they have one tuple, else 0.0; inputs: relations with an .input."""

    def __init__(self, run: Any):
        self.run, self.program = run, run.program
        self.written = {(rule.head, rule.body) for rule in run.asked.checked.rules}
        self.strata = [replace(s, rules=[rule for rule in s.rules if not is_fact(rule)]) for s in run.compiled.strata]
        given = {name for stratum in self.strata if not stratum.rules for name in stratum.relations}
        # a half of a rule (`rewriting.halve`) without rules is read only by the program before its joins were made
        self.given = {name for name in given if not is_extracted(name, HALF)}
        loops = [loop.of for loop in run.compiled.loops.values() if loop.of.steps]
        # the expected sizes, in the first round, of relations that a loop carries from round to round: 1, or unknown
        self.carried = {name: float(name in loop.agenda) for loop in loops for name in loop.carried}
        self.inputs = {directive.relation for directive in self.program.directives if directive.kind == "input"}

    def text(self) -> str:
        return "\n".join(self.lines()) + "\n"

    def lines(self) -> Iterator[str]:
        """Yield all lines of the explanation."""
        rules = sum(len(stratum.rules) for stratum in self.strata)
        relations = quantity(len(self.program.relations), "relation")
        yield f"{self.run.asked.name}: {relations}, {quantity(rules, 'rule')} besides facts{self.cost()}"
        if changes := describe_changes(self.run.asked.checked, self.program):
            yield from ("", "What was done to the rules", *(f"  {line}" for line in changes))
        yield from ("", "Facts", *(f"  {line}" for line in self.facts()))
        with_rules = [number for number, stratum in enumerate(self.strata) if stratum.rules]
        shown_numbers = {number: shown for shown, number in enumerate(with_rules, 1)}
        for number, shown in shown_numbers.items():
            stratum = self.strata[number]
            if (loop := self.run.compiled.loops.get(number)) and loop.of.steps:
                inside = [shown_numbers[member] for member in loop.numbers if member in shown_numbers]
                yield from ("", *self.in_steps(loop.of.steps, inside))
            recursive = ", recursive" * stratum.recursive
            names = ", ".join(map(spoken_name, stratum.relations))
            yield from ("", f"Stratum {shown} of {len(with_rules)}: {names}{recursive}")
            yield from (f"  {line}" if line else "" for line in self.stratum(number, stratum))

    def cost(self) -> str:
        """Return the cost of the run as text, if it has run."""
        return ""

    def facts(self) -> Iterator[str]:
        raise NotImplementedError

    def pushed(self, name: str) -> str:
        """Return as text which attributes and rows of a relation's facts are read; "" if all are."""
        pushed = self.run.compiled.pushdown.get(name)
        return f", read {pushed.text()}" if pushed else ""

    def stratum(self, number: int, stratum: Stratum) -> Iterator[str]:
        raise NotImplementedError

    def in_steps(self, steps: Steps, shown: list[int]) -> Iterator[str]:
        """Yield lines about a component in steps. shown: the numbers of the strata that a step evaluates, as they are shown."""
        yield f"In steps: {', '.join(name for name, _ in steps.columns)}{self.steps_done(shown)}"
        strata = f"strata {shown[0]} to {shown[-1]}, in this order" if len(shown) > 1 else f"stratum {shown[0]}"
        yield f"  each step evaluates {strata}; it reads {quantity(steps.lookback, 'step')} before it"
        rules = rules_by_head(self.program)
        for name, column in steps.columns:
            # the rules of a relation in steps collect its steps
            collected = [rule.head.args[column] for rule in rules.get(name, ())]
            kept = "its last step" if name in steps.last else "all its steps"
            if not collected:
                kept = "the steps that are read by the next ones"
            elif all(isinstance(step, Const) for step in collected):
                kept = f"step {enumerated([str(step) for step in collected])}"
            yield f"  kept of {name}: {kept}"
        yield "  on demand: no, as a step is evaluated whole; in a session: a change of what it reads computes all steps anew"

    def steps_done(self, shown: list[int]) -> str:
        """Return as text how many steps a run has done, if it has run. shown: see `in_steps`."""
        return ""

    # -- parts of the lines of a stratum

    def named(self, relation: str) -> str:
        """Return a relation's name with its attributes."""
        names = attribute_names(self.program, relation, range(self.program.relations[relation].arity))
        return f"{spoken_name(relation)}({', '.join(names)})"

    def lattices(self, stratum: Stratum) -> Iterator[str]:
        """Yield a line for each relation that keeps only the least or the greatest value of each key."""
        for name in stratum.relations:
            if lattice := self.program.relations[name].lattice:
                *key, (value, _) = self.program.relations[name].attributes
                best = {"min": "least", "max": "greatest"}[lattice]
                key_text = enumerated([attribute for attribute, _ in key]) if key else "relation"
                yield f"{spoken_name(name)}: of each {key_text} the {best} {value}"

    def rule(self, rule: Rule, bodies: list[tuple[RuleVersion, PlannedBody | None]], note: str = "") -> Iterator[str]:
        """Yield the lines of a rule. bodies: of its versions; None for a version that did not run."""
        yield from ("", rule_text(rule))
        if (rule.head, rule.body) not in self.written:
            yield f"  as {spoken(rule)}"
        if note:
            yield f"  {note}"
        for version, body in bodies:
            number = f", version {version.number}" * (len(bodies) > 1)
            yield "  once" if version.place is None else f"  from what is new in {spoken(rule.body[version.place])}{number}"
            yield from (f"    {line}" for line in (describe_body(body, self.program) if body else ["nothing was new"]))

    def indexes(self, bodies: Iterable[PlannedBody], placed: Callable[[str, Order], str] | None = None) -> Iterator[str]:
        """Yield the lines about the indexes that the bodies search, and by which columns. placed: returns where an index is, if
        the stratum is on the partitions."""
        searches: dict[tuple, set] = {}
        for body in bodies:
            for relation, order, keys in index_searches(body.derivation.steps):
                searches.setdefault((relation, order), set()).add(keys)
        if searches:
            yield from ("", "indexes")
        for relation, order in sorted(searches, key=str):
            names = attribute_names(self.program, relation, order)
            by = [enumerated(names[:keys]) for keys in sorted(searches[relation, order]) if keys]
            how = f"searched by {'; by '.join(by)}" if by else "read from beginning to end"
            if not order and self.program.relations[relation].arity:
                how = "whether it has a tuple"
            yield f"  {spoken_name(relation)}({', '.join(names)}): {how}"
            if placed and (placement := placed(relation, order)):
                yield f"    {placement}"


def all_versions(stratum: Stratum) -> tuple[list[RuleVersion], list[RuleVersion]]:
    """Return (the rule versions that are evaluated once, those that are evaluated in every iteration)."""
    nonrecursive, recursive = [], []
    for rule in stratum.rules:
        deltas = versions(rule, set(stratum.relations) if stratum.recursive else set())
        recursive += [RuleVersion(rule, delta, parts, number) for number, (delta, parts) in enumerate(deltas)]
        nonrecursive += [] if deltas else [RuleVersion(rule, None, {}, 0)]
    return nonrecursive, recursive


def index_searches(steps: Iterable) -> list[tuple]:
    """Return (relation, order, number of bound columns) of all joins and negations in some steps, inner steps included."""
    searches = []
    for step in steps:
        if hasattr(step, "relation") and hasattr(step, "order"):
            searches.append((step.relation, step.order, len(step.keys)))
        searches += index_searches(getattr(step, "steps", ()))
    return searches


def rule_text(rule: Rule) -> str:
    """Return a rule as it was written, on one line, with its place."""
    return f"{' '.join((rule.text or str(rule)).split())}  {place(rule)}".rstrip()


HALF = "half@"
EXTRACTED = {  # for the beginning of the name of a relation that a pass adds, the change that it stands for
    "shared.": "shared", "static@": "joined beforehand", HALF: "halved", "factor@": "factored",
    "early@": "aggregated before it is joined",
}  # fmt: skip


def describe_changes(before: Program, after: Program) -> list[str]:
    """Return a line for each change that the passes have made to the program."""
    new = [name for name in after.relations if name not in before.relations]
    adorned = {name.partition("@")[0] for name in new if "@" in name}
    lines = [line for name in before.relations if (line := _inlining_note(name, before, after))]
    lines += [f"on demand: {_demanded(name, after)}" for name in new if "@" in name and name + ".demand" in after.relations]
    by_head = rules_by_head(after)
    for prefix, change in EXTRACTED.items():
        lines += [f"{change}: {rule}" for name in new if is_extracted(name, prefix) for rule in by_head[name]]
    equivalences = (name for name, relation in after.relations.items() if relation.eqrel and name in before.relations)
    lines += [f"closed: {name} is an equivalence" for name in equivalences]
    classes = {name for name in before.relations if name + CLASS in after.relations}
    pairs = {name: "made at the end" if name in after.relations else "not made" for name in sorted(classes)}
    lines += [f"closed: {name} is an equivalence, kept as classes; its pairs are {made}" for name, made in pairs.items()]
    removed = [name for name in before.relations if name not in after.relations and name not in adorned | classes]
    removed = [name for name in removed if not _inlining_note(name, before, after)]
    lines += [f"left out: {', '.join(removed)}, on which nothing that is wanted depends"] * bool(removed)
    return lines + _removed_rules(before, after, set(removed))


def _inlining_note(name: str, before: Program, after: Program) -> str:
    """Return a line that says whether a relation qualified `inline` was inlined; "" for other relations."""
    if "inline" not in before.relations[name].qualifiers:
        return ""
    if name in after.relations:
        return f"not inlined: {name}, as that would change what is computed"
    return f"inlined: {name}"


def _demanded(name: str, after: Program) -> str:
    """Return as text which tuples of a relation are computed on demand. name: of the adorned relation."""
    relation, _, adornment = name.partition("@")
    known = [column for (column, _), mark in zip(after.relations[name].attributes, adornment, strict=True) if mark == "b"]
    return f"{relation} for those {', '.join(known)} that {name}.demand holds, as {name}"


def _removed_rules(before: Program, after: Program, removed: set[str]) -> list[str]:
    """Return lines about rules that were removed although their relation remains. removed: relations that do not."""
    kept = {rule.span for rule in after.rules}  # a rule that a pass has changed keeps its span
    rules = [rule for rule in before.rules if rule.body and rule.span not in kept and rule.head.relation not in removed]
    rules = [rule for rule in rules if "inline" not in before.relations[rule.head.relation].qualifiers]
    reason = "it can have no tuples, or says what another rule says"
    return [f"left out: {' '.join((rule.text or str(rule)).split())}  {place(rule)}: {reason}" for rule in rules]


def place(rule: Rule) -> str:
    """Return "file:line" of a rule."""
    return f"[{rule.span.file}:{rule.span.line}]" if rule.span is not None else ""
