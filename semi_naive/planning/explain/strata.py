"""The text about a program's strata, rules, indexes and passes that is the same before a run and after it."""

import re
from dataclasses import replace

from semi_naive.host.numbers import quantity
from semi_naive.planning.explain.bodies import attributes_of, describe_body, enumerated
from semi_naive.planning.joins.order import versions
from semi_naive.planning.rewrite import rules_by_head
from semi_naive.planning.rewriting.whole_bodies import is_partial
from semi_naive.planning.spoken import spoken, spoken_name
from semi_naive.planning.strata import is_fact
from semi_naive.ra.ir import Program


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
        """Yield a line for each relation that keeps only the least or the greatest value of each key."""
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
    """Return the rule versions (rule, delta, parts, number) that are evaluated once, and those evaluated in every iteration."""
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


HALF, FACTOR = re.compile(r"half@\d+"), re.compile(r"factor@\d+")


def describe_changes(before: Program, after: Program) -> list[str]:
    """Return a line for each change that the passes have made to the program."""
    made = [name for name in after.relations if name not in before.relations]
    adorned = {name.partition("@")[0] for name in made if "@" in name}
    lines = [line for name in before.relations if (line := _inlining_note(name, before, after))]
    lines += [f"on demand: {_demanded(name, after)}" for name in made if "@" in name and name + ".demand" in after.relations]
    shared = [name for name in made if name.startswith("shared.")]
    by_head = rules_by_head(after)
    lines += [f"shared: {rule}" for name in shared for rule in by_head[name]]
    lines += [f"halved: {rule}" for name in made if HALF.fullmatch(name) for rule in by_head[name]]
    lines += [f"factored: {rule}" for name in made if FACTOR.fullmatch(name) for rule in by_head[name]]
    lines += [f"aggregated before it is joined: {rule}" for name in made if is_partial(name) for rule in by_head[name]]
    lines += [
        f"closed: {name} is an equivalence" for name, r in after.relations.items() if r.eqrel and name in before.relations
    ]
    gone = [name for name in before.relations if name not in after.relations and name not in adorned]
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
    relation, _, adornment = name.partition("@")
    known = [column for (column, _), mark in zip(after.relations[name].attributes, adornment, strict=True) if mark == "b"]
    return f"{relation} for those {', '.join(known)} that {name}.demand holds, as {name}"


def _left_out(before: Program, after: Program, gone: set[str]) -> list[str]:
    """Rules of which no trace is left, though their relation may be."""
    kept = {rule.span for rule in after.rules}
    rules = [rule for rule in before.rules if rule.body and rule.span not in kept and rule.head.relation not in gone]
    rules = [rule for rule in rules if "inline" not in before.relations[rule.head.relation].qualifiers]
    reason = "it can have no tuples, or says what another rule says"
    return [f"left out: {' '.join((rule.text or str(rule)).split())}  {place(rule)}: {reason}" for rule in rules]


def place(rule) -> str:
    """file:line of a rule, where it was written."""
    return f"[{rule.span.file}:{rule.span.line}]" if rule.span is not None else ""
