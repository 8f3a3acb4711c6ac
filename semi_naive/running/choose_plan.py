"""Choose the plan of a stratum and give the reason, for a run and for `explain`."""

from collections.abc import Collection
from dataclasses import dataclass

from semi_naive.config import Config
from semi_naive.host.account import part
from semi_naive.host.numbers import quantity
from semi_naive.planning.carried import Carried, carried
from semi_naive.planning.detect_closure import ReachabilityShape, following
from semi_naive.planning.strata import Stratum
from semi_naive.ra.ir import Atom

MAX_READ_FACTOR = 4  # times Config.local_tuples: the most tuples that a stratum in the driver reads


@dataclass
class PlanChoice:
    """The plan of a stratum: "local", "balanced" or "decomposed". groups: how a stratum can be decomposed, also if it begins in
    the driver and turns out large; None if it would be balanced.
    """

    plan: str
    reason: str
    groups: "Groups | None" = None


class NotGroups(Exception):
    """Raised if the base of a stratum has too few groups, or one group has most of it."""


@dataclass
class Groups:
    """The groups into which a stratum is decomposed: by columns that its rules carry, or by the edges that they follow."""

    carried: Carried
    told: str  # the columns that the groups share, as text
    following: ReachabilityShape | None = None

    @property
    def closure(self) -> bool:
        return self.following is not None and self.following.closure

    @property
    def reason(self) -> str:
        """The reason for the decomposed plan, as text."""
        if self.following:
            return self.following.reason
        return f"all recursive rules carry {self.told} unchanged: its groups never meet, and what else is read fits every host"


@part("plan")
def chosen(stratum: Stratum, database, config: Config, plan: str = "auto", cores: int = 1) -> PlanChoice:
    """Choose the plan by which to start a stratum. stratum: without its facts. plan: the requested plan. Raises ValueError if
    "decomposed" is requested for a recursive stratum that cannot be decomposed."""
    groups, refused = (None, "") if plan == "balanced" else decomposable(stratum, database, config)
    if plan == "decomposed" and stratum.recursive:
        if not groups:
            raise ValueError(f"{', '.join(stratum.relations)} cannot be evaluated by the decomposed plan: {refused}")
        return PlanChoice("decomposed", f"asked for; {groups.reason}", groups)
    unfit = groups and worthless(stratum, groups, database, config, cores)
    groups, why = (None, f"; {unfit}") if unfit else (groups, f"; {groups.reason}" if groups else "")
    large = "decomposed" if groups else "balanced"
    if groups and groups.following and groups.following.large(database, config):
        return PlanChoice("decomposed", groups.reason, groups)
    names = stratum.reads
    here = in_one_place(stratum, database.program.relations)
    if here and not groups:
        return PlanChoice("local", here)
    spread = [name for name in names.union(stratum.relations) if name in database.on_partitions]
    if sum(database.count(name) for name in spread) > config.local_tuples:  # fewer come back sooner than a job is done
        return PlanChoice(large, f"it reads {', '.join(sorted(spread))}, which is on the partitions{why}", groups)
    total = round(sum(database.count(name) for name in names))
    reason = f"it reads {quantity(total, 'tuple')}"
    if config.local_tuples == 0 or total > MAX_READ_FACTOR * (config.local_tuples or 0):
        return PlanChoice(large, reason + why, groups)
    return PlanChoice("local", reason, groups)


def decomposable(stratum: Stratum, database, config: Config) -> tuple[Groups | None, str]:
    """The groups of a recursive stratum, or why it cannot be decomposed."""
    relations = database.program.relations
    if not stratum.recursive:
        return None, ""
    if limited := limits(stratum.relations, database.program):
        return None, f"{next(iter(limited))} has a .limitsize, which ends the recursion of all groups at once"
    closed = any(relations[name].eqrel or relations[name].stepwise for name in stratum.relations)
    if closed or stratum.makes_numbers:
        return None, in_one_place(stratum, relations)
    found, shape = carried(stratum, relations), following(stratum, database, config)
    if not found and not (shape and shape.closure):
        return None, f"it carries no column unchanged from every recursive atom to the head: {found.lost}"
    return Groups(found, found.described(relations), shape), ""


def worthless(stratum: Stratum, groups: Groups, database, config: Config, cores: int) -> str:
    """Return the reason why a stratum that can be decomposed should not be; "" if it should."""
    if config.checkpoint_dir:
        return "only the balanced plan has anything to checkpoint"
    size = 8 * sum(database.count(name) for name in stratum.reads)
    if size > config.replicate_bytes:
        return f"it reads {quantity(size, 'byte')}, and every host has room for copies of {config.replicate_bytes:,}"
    return ""


def limits(relations: Collection[str], program) -> dict[str, int]:
    """The .limitsize of each of some relations that has one."""
    found = (d for d in program.directives if d.kind == "limitsize" and d.relation in relations)
    return {directive.relation: int(directive.parameters["n"]) for directive in found if "n" in directive.parameters}


def in_one_place(stratum: Stratum, relations) -> str:
    """Why a stratum cannot be spread over partitions; empty if it can."""
    if stratum.makes_numbers:
        return "autoinc() counts in one place"
    if any(relations[name].eqrel for name in stratum.relations):
        return "the classes of an equivalence relation are united in one place"
    if any(relations[name].choice for name in stratum.relations):
        return "a choice-domain chooses among all tuples of an iteration"
    if any(relations[name].joins for name in stratum.relations):
        return "the least upper bounds of a lattice are of all tuples of an iteration"
    if any(relations[name].dominated for name in stratum.relations):
        return "all tuples are compared with those of an iteration, as some subsume others"
    if any(relations[name].follows for name in stratum.relations):
        return "the numbers of iterations are those of the stratum as a whole"
    best = {name for name in stratum.relations if relations[name].lattice}
    for rule in stratum.rules if best else ():
        own = [a for a in rule.body if isinstance(a, Atom) and a.relation in stratum.relations]
        if len(own) > 1 and any(atom.relation in best for atom in own):
            return f"{own[0].relation} is aggregated in recursion, and a rule joins it with another of its stratum"
    return ""
