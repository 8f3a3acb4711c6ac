"""Which plan a stratum is evaluated by, and why: what a run does, and what `explain` says that it would do."""

from dataclasses import dataclass

from semi_naive.config import Config
from semi_naive.planning.rewrite import walk
from semi_naive.planning.strata import Stratum, rule_edges
from semi_naive.ra.rules.ir import Atom, Autoinc, Const, Rule
from semi_naive.running.shapes import ClosureShape, closure_of

READ_HERE = 4  # times Config.local_tuples: what a stratum may read in the driver


@dataclass
class Choice:
    """plan: "closure", "local" or "balanced". closure: what the stratum is the closure of, if it is one; one that is begun
    locally becomes that when it turns out large."""

    plan: str
    reason: str
    closure: ClosureShape | None = None


def chosen(stratum: Stratum, database, config: Config, read_by: set[int]) -> Choice:
    """The first plan that takes the stratum: closure, local, balanced. `read_by`: the strata that read its first relation,
    itself not counted; `stratum` is without its facts."""
    by_rules = limits(stratum, database.program) or config.checkpoint_dir  # what closures have no notion of
    closure = None if by_rules else closure_of(stratum, stratum.rules, database, read_by)
    if closure and closure.rule == "path-path" and config.max_iterations:
        closure = None  # it would be evaluated as another rule, whose iterations reach less far
    if closure and closure.large(database, config):
        return Choice("closure", f"a transitive closure; {closure.plan(database, config)[1]}", closure)
    names = names_read(stratum.rules)
    here = in_one_place(stratum, database.program.relations)
    if here:
        return Choice("local", here, closure)
    spread = [name for name in names if name in database.spread]
    if sum(database.count(name) for name in spread) > config.local_tuples:  # fewer come back sooner than a job is done
        return Choice("balanced", f"it reads {', '.join(sorted(spread))}, which is on the partitions", closure)
    total = round(sum(database.count(name) for name in names))
    reason = f"it reads {total:,} tuples"
    if config.local_tuples == 0 or total > READ_HERE * config.local_tuples:
        return Choice("balanced", reason, closure)
    return Choice("local", reason, closure)


def limits(stratum: Stratum, program) -> dict[str, int]:
    """The .limitsize of each of a stratum's relations that has one."""
    found = (d for d in program.directives if d.kind == "limitsize" and d.relation in stratum.relations)
    return {directive.relation: int(directive.parameters["n"]) for directive in found if "n" in directive.parameters}


def names_read(rules: list[Rule]) -> set[str]:
    return {edge.body for rule in rules for edge in rule_edges(rule)}


def readers(strata: list[Stratum]) -> dict[str, set[int]]:
    """Of each relation, the strata whose rules read it."""
    found: dict[str, set[int]] = {}
    for number, stratum in enumerate(strata):
        for name in names_read(stratum.rules):
            found.setdefault(name, set()).add(number)
    return found


def is_fact(rule: Rule) -> bool:
    return not rule.body and all(isinstance(term, Const) for term in rule.head.args)


def in_one_place(stratum: Stratum, relations) -> str:
    """Why a stratum cannot be spread over partitions; empty if it can."""
    if any(makes_numbers(rule) for rule in stratum.rules):
        return "autoinc() counts in one place"
    if any(relations[name].eqrel for name in stratum.relations):
        return "the classes of an equivalence relation are united in one place"
    for rule in stratum.rules:
        own = [a for a in rule.body if isinstance(a, Atom) and a.relation in stratum.relations]
        if len(own) > 1 and any(relations[atom.relation].lattice for atom in own):
            return f"{own[0].relation} is aggregated in recursion, and a rule joins it with another of its stratum"
    return ""


def makes_numbers(rule: Rule) -> bool:
    """Whether the rule counts with autoinc()."""
    return any(isinstance(node, Autoinc) for node in walk(rule))
