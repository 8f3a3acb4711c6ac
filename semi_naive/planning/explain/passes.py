"""What the passes made of a program, in words: by comparing what was written with what is evaluated."""

import re

from semi_naive.planning.rewrite import rules_by_head
from semi_naive.ra.ir import Program

HALF, FACTOR = re.compile(r"half@\d+"), re.compile(r"factor@\d+")


def describe_changes(before: Program, after: Program) -> list[str]:
    """A line for each thing that was done; none if nothing was."""
    made = [name for name in after.relations if name not in before.relations]
    adorned = {name.partition("@")[0] for name in made if "@" in name}
    lines = [line for name in before.relations if (line := _inlining_note(name, before, after))]
    lines += [f"on demand: {_demanded(name, after)}" for name in made if "@" in name and name + ".demand" in after.relations]
    shared = [name for name in made if name.startswith("shared.")]
    by_head = rules_by_head(after)
    lines += [f"shared: {rule}" for name in shared for rule in by_head[name]]
    lines += [f"halved: {rule}" for name in made if HALF.fullmatch(name) for rule in by_head[name]]
    lines += [f"factored: {rule}" for name in made if FACTOR.fullmatch(name) for rule in by_head[name]]
    lines += [
        f"closed: {name} is an equivalence" for name, r in after.relations.items() if r.eqrel and name in before.relations
    ]
    gone = [name for name in before.relations if name not in after.relations and name not in adorned]
    gone = [name for name in gone if not _inlining_note(name, before, after)]
    lines += [f"left out: {', '.join(gone)}, on which nothing that is wanted depends"] * bool(gone)
    return lines + _left_out(before, after, set(gone))


def _inlining_note(name: str, before: Program, after: Program) -> str:
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
