"""Choose the plan of a stratum and give the reason, for a run and for `explain`."""

from collections.abc import Collection
from dataclasses import dataclass

from semi_naive.config import Config
from semi_naive.host.account import part
from semi_naive.host.numbers import quantity
from semi_naive.planning.carried import Carried, carried
from semi_naive.planning.detect_closure import ReachabilityShape, reachability_shape
from semi_naive.planning.strata import Stratum
from semi_naive.ra.ir import Atom

MAX_READ_FACTOR = 4  # times Config.local_tuples: the most tuples that a stratum in the driver reads
IN_ONE_PLACE = {  # the attributes of relations that cannot be spread over partitions, and the reasons
    "eqrel": "the classes of an equivalence relation are united in one place",
    "choice": "a choice-domain chooses among all tuples of an iteration",
    "joins": "the least upper bounds of a lattice are of all tuples of an iteration",
    "dominated": "all tuples are compared with those of an iteration, as some subsume others",
    "follows": "the numbers of iterations are those of the stratum as a whole",
}


@dataclass
class PlanChoice:
    """The plan of a stratum: "local", "balanced" or "decomposed". groups: how the stratum is decomposed if it is too large for
    the driver; None if it is balanced then.
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
    columns_text: str  # the columns in which the tuples of a group agree, for messages
    following: ReachabilityShape | None = None

    @property
    def reason(self) -> str:
        """The reason for the decomposed plan, as text."""
        if self.following:
            return self.following.reason
        columns = self.columns_text
        return f"all recursive rules carry {columns} unchanged: its groups never meet, and what else is read fits every host"


@part("plan")
def choose_plan(stratum: Stratum, database, config: Config, plan: str = "auto") -> PlanChoice:
    """Choose the plan by which to start a stratum. stratum: without its facts; database: a `Database` or a `Cardinality`; plan:
    the requested plan. Raises ValueError if "decomposed" is requested for a recursive stratum that cannot be decomposed."""
    groups, refused = (None, "") if plan == "balanced" else decomposable(stratum, database, config)
    if plan == "decomposed" and stratum.recursive:
        if not groups:
            raise ValueError(f"{', '.join(stratum.relations)} cannot be evaluated by the decomposed plan: {refused}")
        return PlanChoice("decomposed", f"asked for; {groups.reason}", groups)
    why = f"; {groups.reason}" if groups else ""
    if groups and (unfit := why_not_decomposed(stratum, database, config)):
        groups, why = None, f"; {unfit}"
    plan_on_partitions = "decomposed" if groups else "balanced"
    if groups and groups.following and groups.following.large(database, config):
        return PlanChoice("decomposed", groups.reason, groups)
    reason_to_stay = why_in_one_place(stratum, database.program.relations)
    if reason_to_stay and not groups:
        return PlanChoice("local", reason_to_stay)
    spread = [name for name in stratum.reads.union(stratum.relations) if name in database.on_partitions]
    if sum(database.count(name) for name in spread) > config.local_tuples:  # fewer are collected faster than a job runs
        return PlanChoice(plan_on_partitions, f"it reads {', '.join(sorted(spread))}, which is on the partitions{why}", groups)
    total = round(sum(database.count(name) for name in stratum.reads))
    reason = f"it reads {quantity(total, 'tuple')}"
    if config.local_tuples == 0 or total > MAX_READ_FACTOR * (config.local_tuples or 0):
        return PlanChoice(plan_on_partitions, reason + why, groups)
    return PlanChoice("local", reason, groups)


def decomposable(stratum: Stratum, database, config: Config) -> tuple[Groups | None, str]:
    """Return (groups, "") for a recursive stratum that can be decomposed, else (None, the reason)."""
    relations = database.program.relations
    if not stratum.recursive:
        return None, ""
    if limited := limit_sizes(stratum.relations, database.program):
        return None, f"{next(iter(limited))} has a .limitsize, which ends the recursion of all groups at once"
    reduced = any(relations[name].eqrel or relations[name].stepwise for name in stratum.relations)
    if reduced or stratum.makes_numbers:
        return None, why_in_one_place(stratum, relations)
    columns, shape = carried(stratum, relations), reachability_shape(stratum, database, config)
    if not columns and not (shape and shape.closure):
        return None, f"it carries no column unchanged from every recursive atom to the head: {columns.lost}"
    return Groups(columns, columns.described(relations), shape), ""


def why_not_decomposed(stratum: Stratum, database, config: Config) -> str:
    """Return the reason why a stratum that can be decomposed should not be; "" if it should."""
    if config.checkpoint_dir:
        return "only the balanced plan has anything to checkpoint"
    size = 8 * sum(database.count(name) for name in stratum.reads)  # a tuple takes one word of 8 bytes or more
    if size > config.replicate_bytes:
        return f"it reads {quantity(size, 'byte')}, and every host has room for copies of {config.replicate_bytes:,}"
    return ""


def limit_sizes(relations: Collection[str], program) -> dict[str, int]:
    """Return the .limitsize of those of some relations that have one."""
    return {name: size for name, size in program.limit_sizes.items() if name in relations}


def why_in_one_place(stratum: Stratum, relations) -> str:
    """Return the reason why a stratum cannot be spread over partitions; "" if it can."""
    if stratum.makes_numbers:
        return "autoinc() counts in one place"
    for attribute, reason in IN_ONE_PLACE.items():
        if any(getattr(relations[name], attribute) for name in stratum.relations):
            return reason
    best = {name for name in stratum.relations if relations[name].lattice}
    for rule in stratum.rules if best else ():
        own = [literal for literal in rule.body if isinstance(literal, Atom) and literal.relation in stratum.relations]
        if len(own) > 1 and any(atom.relation in best for atom in own):
            return f"{own[0].relation} is aggregated in recursion, and a rule joins it with another of its stratum"
    return ""
