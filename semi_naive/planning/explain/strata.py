"""The parts of explanations that are equal before and after a run: a program's strata, rules, indexes and passes, as text."""

import re
from dataclasses import replace

from semi_naive.host.numbers import quantity
from semi_naive.planning.explain.bodies import attributes_of, describe_body, enumerated
from semi_naive.planning.joins.order import versions
from semi_naive.planning.rewrite import rules_by_head
from semi_naive.planning.rewriting.classes import CLASS
from semi_naive.planning.rewriting.whole_bodies import is_partial
from semi_naive.planning.spoken import spoken, spoken_name
from semi_naive.planning.strata import is_fact
from semi_naive.ra.ir import Const, Program, Steps


class Telling:
    """The lines that explain the strata of `run`, a `semi_naive.running.run.ProgramRun`. Subclasses provide the lines of one
    stratum."""

    def __init__(self, run):
        self.run, self.program = run, run.program
        self.written = {(rule.head, rule.body) for rule in run.asked.checked.rules}
        every = run.compiled.strata
        self.strata = [replace(s, rules=[rule for rule in s.rules if not is_fact(rule)]) for s in every]
        self.given = {name for stratum in self.strata if not stratum.rules for name in stratum.relations}
        self.given = {name for name in self.given if not HALF.fullmatch(name)}  # a half of rules that are joined beforehand
        loops = [loop.of for loop in run.compiled.loops.values() if loop.of.steps]
        self.carried = {name: float(name in loop.turns) for loop in loops for name in loop.carried}  # 1.0 if it has one tuple
        self.inputs = {directive.relation for directive in self.program.directives if directive.kind == "input"}

    def text(self) -> str:
        return "\n".join(self.lines()) + "\n"

    def lines(self):
        """Yield all lines of the explanation."""
        rules = sum(len(stratum.rules) for stratum in self.strata)
        relations = quantity(len(self.program.relations), "relation")
        yield f"{self.run.asked.name}: {relations}, {quantity(rules, 'rule')} besides facts{self.more()}"
        if made := describe_changes(self.run.asked.checked, self.program):
            yield from ("", "What was done to the rules", *(f"  {line}" for line in made))
        yield from ("", "Facts", *(f"  {line}" for line in self.facts()))
        numbered = [(n, stratum) for n, stratum in enumerate(self.strata) if stratum.rules]
        places = {number: at for at, (number, _) in enumerate(numbered, 1)}
        for at, (number, stratum) in enumerate(numbered, 1):
            if (loop := self.run.compiled.loops.get(number)) and loop.of.steps:
                inside = [places[each] for each in loop.numbers if each in places]
                yield from ("", *self.in_steps(loop.of.steps, inside))
            recursive = ", recursive" * stratum.recursive
            yield from ("", f"Stratum {at} of {len(numbered)}: {', '.join(map(spoken_name, stratum.relations))}{recursive}")
            yield from (f"  {line}" if line else "" for line in self.stratum(number, stratum))

    def more(self) -> str:
        return ""

    def facts(self):
        raise NotImplementedError

    def pushed(self, name: str) -> str:
        """Text: what is not read of a relation's facts."""
        pushed = self.run.compiled.pushdown.get(name)
        return f", read {pushed.text()}" if pushed else ""

    def stratum(self, number: int, stratum):
        raise NotImplementedError

    def in_steps(self, steps: Steps, places: list[int]):
        """Yield lines about a component in steps. places: the numbers of the strata that a step evaluates, in their order."""
        yield f"In steps: {', '.join(name for name, _ in steps.columns)}{self.steps_done(places)}"
        strata = f"strata {places[0]} to {places[-1]}, in this order" if len(places) > 1 else f"stratum {places[0]}"
        yield f"  each step evaluates {strata}; it reads {quantity(steps.oldest, 'step')} before it"
        rules = rules_by_head(self.program)
        for name, at in steps.columns:
            read = [rule.head.args[at] for rule in rules.get(name, ())]
            which = "its last step" if name in steps.last else "all its steps"
            if read and all(isinstance(step, Const) for step in read):
                which = f"step {enumerated([str(step) for step in read])}"
            yield f"  kept of {name}: {which if read else 'the steps that are read by the next ones'}"
        yield "  on demand: no, as a step is evaluated whole; in a session: a change of what it reads computes all steps anew"

    def steps_done(self, places: list[int]) -> str:
        """Return the number of steps that a run has done."""
        return ""

    # -- what strata are told with

    def named(self, relation: str) -> str:
        """Return a relation's name with its attributes."""
        return spoken_name(relation) + attributes_of(self.program, relation, range(self.program.relations[relation].arity))

    def lattices(self, stratum):
        """Yield a line for each relation that keeps only the least or the greatest value of each key."""
        for name in stratum.relations:
            if lattice := self.program.relations[name].lattice:
                *key, (value, _) = self.program.relations[name].attributes
                best = {"min": "least", "max": "greatest"}[lattice]
                each = enumerated([n for n, _ in key]) if key else "relation"
                yield f"{spoken_name(name)}: of each {each} the {best} {value}"

    def rule(self, rule, found, note: str = ""):
        """Yield the lines of a rule. found: for each version ((rule, place of the atom that reads the delta, parts, number),
        body); the body is None if it did not run."""
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
        """Yield the lines about the indexes that the bodies search, and by which columns. placed: returns where an index is, if
        the stratum is on the partitions."""
        uses: dict[tuple, set] = {}
        for body in bodies:
            for relation, order, keys in index_searches(body.derivation.steps):
                uses.setdefault((relation, order), set()).add(keys)
        if uses:
            yield from ("", "indexes")
        for relation, order in sorted(uses, key=str):
            attributes = [enumerated(self._names(relation, order[:keys])) for keys in sorted(uses[relation, order]) if keys]
            how = f"searched by {'; by '.join(attributes)}" if attributes else "read from beginning to end"
            if not order and self.program.relations[relation].arity:
                how = "whether it has a tuple"
            yield f"  {spoken_name(relation)}{attributes_of(self.program, relation, order)}: {how}"
            if placed and (placement := placed(relation, order)):
                yield f"    {placement}"

    def _names(self, relation: str, columns) -> list[str]:
        return [self.program.relations[relation].attributes[column][0] for column in columns]


def all_versions(stratum) -> tuple[list, list]:
    """Return the rule versions (rule, delta, parts, number) that are evaluated once, and those evaluated in every iteration."""
    recursive = set(stratum.relations) if stratum.recursive else set()
    once: list[tuple] = [(rule, None, {}, 0) for rule in stratum.rules if not versions(rule, recursive)]
    again = [(rule, at, parts, n) for rule in stratum.rules for n, (at, parts) in enumerate(versions(rule, recursive))]
    return once, again


def index_searches(steps) -> list[tuple]:
    """Return (relation, order, number of bound columns) of all joins and negations in some steps, inner steps included."""
    searches = []
    for step in steps:
        if hasattr(step, "relation") and hasattr(step, "order"):
            searches.append((step.relation, step.order, len(step.keys)))
        searches += index_searches(getattr(step, "steps", ()))
    return searches


def rule_text(rule) -> str:
    """Return a rule as it was written, on one line, with its place."""
    return f"{' '.join((rule.text or str(rule)).split())}  {place(rule)}".rstrip()


HALF, FACTOR, STATIC = (re.compile(rf"{name}@\d+") for name in ("half", "factor", "static"))


def describe_changes(before: Program, after: Program) -> list[str]:
    """Return a line for each change that the passes have made to the program."""
    made = [name for name in after.relations if name not in before.relations]
    adorned = {name.partition("@")[0] for name in made if "@" in name}
    lines = [line for name in before.relations if (line := _inlining_note(name, before, after))]
    lines += [f"on demand: {_demanded(name, after)}" for name in made if "@" in name and name + ".demand" in after.relations]
    shared = [name for name in made if name.startswith("shared.")]
    by_head = rules_by_head(after)
    lines += [f"shared: {rule}" for name in shared for rule in by_head[name]]
    lines += [f"joined beforehand: {rule}" for name in made if STATIC.fullmatch(name) for rule in by_head[name]]
    lines += [f"halved: {rule}" for name in made if HALF.fullmatch(name) for rule in by_head[name]]
    lines += [f"factored: {rule}" for name in made if FACTOR.fullmatch(name) for rule in by_head[name]]
    lines += [f"aggregated before it is joined: {rule}" for name in made if is_partial(name) for rule in by_head[name]]
    lines += [
        f"closed: {name} is an equivalence" for name, r in after.relations.items() if r.eqrel and name in before.relations
    ]
    classes = {name for name in before.relations if name + CLASS in after.relations}
    pairs = {name: "made at the end" if name in after.relations else "not made" for name in sorted(classes)}
    lines += [f"closed: {name} is an equivalence, kept as classes; its pairs are {made}" for name, made in pairs.items()]
    gone = [name for name in before.relations if name not in after.relations and name not in adorned | classes]
    gone = [name for name in gone if not _inlining_note(name, before, after)]
    lines += [f"left out: {', '.join(gone)}, on which nothing that is wanted depends"] * bool(gone)
    return lines + _left_out(before, after, set(gone))


def _inlining_note(name: str, before: Program, after: Program) -> str:
    """Return a line on a relation qualified `inline`: whether it was inlined. Empty for other relations."""
    if "inline" not in before.relations[name].qualifiers:
        return ""
    if name in after.relations:
        return f"not inlined: {name}, as that would change what is computed"
    return f"inlined: {name}"


def _demanded(name: str, after: Program) -> str:
    """Return text: which tuples of a relation are computed on demand."""
    relation, _, adornment = name.partition("@")
    known = [column for (column, _), mark in zip(after.relations[name].attributes, adornment, strict=True) if mark == "b"]
    return f"{relation} for those {', '.join(known)} that {name}.demand holds, as {name}"


def _left_out(before: Program, after: Program, gone: set[str]) -> list[str]:
    """Return lines about rules that were removed although their relation remains. gone: removed relations."""
    kept = {rule.span for rule in after.rules}
    rules = [rule for rule in before.rules if rule.body and rule.span not in kept and rule.head.relation not in gone]
    rules = [rule for rule in rules if "inline" not in before.relations[rule.head.relation].qualifiers]
    reason = "it can have no tuples, or says what another rule says"
    return [f"left out: {' '.join((rule.text or str(rule)).split())}  {place(rule)}: {reason}" for rule in rules]


def place(rule) -> str:
    """Return "file:line" of a rule."""
    return f"[{rule.span.file}:{rule.span.line}]" if rule.span is not None else ""
