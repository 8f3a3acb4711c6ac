"""Proofs of tuples that registered rules with parameters derive.

For subscribers, the rules are evaluated with each parameter as an attribute. A proof refers to the rules as written, in which
`$name` has one value. So the rules are evaluated again for these values, over the relations of an epoch.
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
    """Yield the proofs of a relation's tuples for given parameters. No transaction is open while the block runs. The rules read
    the relations of an epoch. If it is the last one, relations of registered rules without a subscriber are evaluated too."""
    registry = session.registry
    with session.in_turn():
        key = registry.parameter_key(name, given)
        rules: Registered = registry.rules[name]
        with registry.evaluated(rules.reads):
            now = session.at(session.epoch) if epoch.number == session.epoch else epoch
            for each in rules.reads:
                now.check(each)
            asked = Table(len(key))
            asked.insert([np.array([bits]) for bits in key], 1)
            asked.settle()
            yield _proofs_at(session, rules, asked, now)


def _proofs_at(session: Any, rules: Registered, asked: Table, epoch: Any) -> "Why":
    """Evaluate rules over the relations of an epoch for given parameter values, and return the search for proofs in the result.
    asked: the one tuple of parameter values. epoch: the contents of the relations."""
    from semi_naive.provenance.why import Why
    from semi_naive.running.run import ProgramRun

    known, values = session.registry.readable, session.upkeep.values
    program = parameters_as_variables(rules, known, session.program.checked)
    reads = {rules.asked: asked, **{name: epoch.contents(name) for name in rules.reads}}
    wanted = type(session.program).from_checked(
        replace(program, directives=[ir.FileDirective("output", rules.name)]), rules.name
    )
    run = ProgramRun(wanted, wanted.compile(reads, once=False), Config(), session.upkeep.run.cluster.spark, values=values)
    with run.run(reads, lenient=True):
        derived = {name: table for name, table in run.database.tables.items() if name not in rules.reads}
        spread = {name: value for name, value in run.database.on_partitions.items() if name not in rules.reads}
    tables = {name: table for name, table in epoch.tables.items() if name not in epoch.spread}
    before = session.registry.with_registered_rules(session.program.checked, epoch.tables.keys() | epoch.spread.keys())
    own = {name: value for name, value in program.relations.items() if name not in before.relations}
    more = [rule for rule in program.rules if rule.head.relation in own]
    whole = replace(before, relations=before.relations | own, rules=[*before.rules, *more], sums=before.sums | program.sums)
    return Why(whole, tables | derived, values, epoch.given, {**epoch.spread, **spread}, named={rules.asked: rules.parameters})
