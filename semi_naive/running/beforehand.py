"""Static joins: atoms of a recursive rule that never change, joined once, before the stratum that reads them. Planning adds
them to the program (`planning/rewriting/static_joins`); its reader is evaluated as written if one is too large."""

from dataclasses import replace

from semi_naive.host.account import PARTS
from semi_naive.planning.joins.indexes import Indexes
from semi_naive.planning.joins.order import plan_body
from semi_naive.planning.rewriting.static_joins import bound_of, is_static
from semi_naive.planning.strata import Stratum, is_fact
from semi_naive.running.driver.local import Local, TooLarge
from semi_naive.running.progress.state import RunState, stratum_record

BEFOREHAND = "what never changes is joined once, by the stratum that reads it"
LEFT_OUT = "left out with all of its reader: one is too large or reads what is on the partitions, or there are checkpoints"


def make_static_joins(run: RunState, number: int, stratum: Stratum) -> Stratum:
    """Make the static joins that a stratum reads, in this process, and return the stratum. If one is too large or reads a
    relation on the partitions, or there are checkpoints, return the stratum as it was written, which reads none. The result is
    stored in `run.strata`, and a record of each join is added to `run.plans`."""
    names = {*filter(is_static, stratum.reads)}
    joins = [(place, join) for place, join in enumerate(run.strata) if names.intersection(join.relations)] if names else []
    if not joins:
        return stratum
    spread = run.database.on_partitions.keys()
    here = not run.config.checkpoint_dir and all(spread.isdisjoint(join.reads) for _, join in joins)
    feasible = here and all(is_expected_small(run, join) for _, join in joins)
    made = feasible and all(_make_static_join(run, place, join) for place, join in joins)
    if not made:
        written = run.compiled.unjoined_strata[stratum.relations[0]]
        stratum = replace(written, rules=[rule for rule in written.rules if not is_fact(rule)])  # facts were loaded before
    run.strata[number] = stratum
    for place, join in joins:
        entry = stratum_record(place, join, "local", BEFOREHAND if made else LEFT_OUT, run.database.count(join.relations[0]))
        # the time is charged to the stratum that reads it
        run.plans.setdefault(place, entry | {"seconds": 0.0, "account": dict.fromkeys(PARTS, 0.0)})
    return stratum


def is_expected_small(run: RunState, join: Stratum) -> bool:
    """True if the tuples that a static join is expected to have are within its bound."""
    body = plan_body(join.rules[0], run.database, Indexes(run.indexes.arities), {})
    return body.atoms[-1].expected <= _bound(run, join)


def _bound(run: RunState, join: Stratum) -> int:
    """Return the tuples that a static join may have."""
    return bound_of(sum(map(run.database.count, join.reads)))


def _make_static_join(run: RunState, number: int, join: Stratum) -> bool:
    """Make a static join, unless it has been made before. Return False if it makes too many tuples; it is empty then."""
    name = join.relations[0]
    if run.database.count(name):
        return True
    local = Local(
        join, number, run.database, run.indexes, run.profile, _bound(run, join), multiway=run.config.multiway,
        cores=run.cluster.driver_cores,
    )  # fmt: skip
    run.bodies[number] = local.bodies
    try:
        local.run()
    except TooLarge:
        return False
    finally:
        run.database.forget_sizes(name)
    return True
