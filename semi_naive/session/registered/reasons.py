"""Proofs of tuples that registered rules with parameters derive.

The rules are evaluated with a parameter as an attribute, for all subscribers. A proof is of the rules as they are written,
where `$name` has one value: they are evaluated once more, for these values, over the relations of an epoch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from semi_naive.config import Config
from semi_naive.ra import ir
from semi_naive.ra.blocks.table import Table
from semi_naive.session.registered.rules import Registered, parameters_as_variables

if TYPE_CHECKING:
    from semi_naive.provenance.why import Why


@contextmanager
def reasons(session: Any, name: str, given: dict, epoch: Any) -> Iterator["Why"]:
    """The proofs for given parameters of a relation, while no transaction is open. The rules read the relations of an epoch; of
    the last one also those that had no subscriber so far."""
    registry = session.registry
    with session.alone():
        key = registry.key(name, given)
        rules: Registered = registry.rules[name]
        with registry.there(rules.reads):
            now = session.at(session.epoch) if epoch.number == session.epoch else epoch
            for each in rules.reads:
                now.check(each)
            asked = Table(len(key))
            asked.insert([np.array([bits]) for bits in key], 1)
            asked.settle()
            yield _proofs_at(session, rules, asked, now)


def _proofs_at(session: Any, rules: Registered, asked: Table, epoch: Any) -> "Why":
    """The proofs over the relations of an epoch and the tuples that the rules derive from these. asked: the one tuple of the
    parameters' values."""
    from semi_naive.provenance.why import Why
    from semi_naive.running.run import ProgramRun

    known, values = session.registry.known, session.upkeep.values
    program = parameters_as_variables(rules, known, session.program.checked)
    reads = {rules.asked: asked, **{each: epoch.kept(each) for each in rules.reads}}
    wanted = type(session.program).from_checked(
        replace(program, directives=[ir.FileDirective("output", rules.name)]), rules.name
    )
    run = ProgramRun(wanted, wanted.compile(reads), Config(), session.upkeep.run.cluster.spark, values=values)
    with run.run(reads, lenient=True):
        made = {name: table for name, table in run.database.tables.items() if name not in rules.reads}
        spread = {name: each for name, each in run.database.on_partitions.items() if name not in rules.reads}
    kept = {name: table for name, table in epoch.tables.items() if name not in epoch.spread}
    before = session.registry.with_rules(session.program.checked, epoch.tables.keys() | epoch.spread.keys())
    own = {name: each for name, each in program.relations.items() if name not in before.relations}
    more = [rule for rule in program.rules if rule.head.relation in own]
    whole = replace(before, relations=before.relations | own, rules=[*before.rules, *more], sums=before.sums | program.sums)
    return Why(whole, kept | made, values, epoch.given, {**epoch.spread, **spread}, named={rules.asked: rules.parameters})
