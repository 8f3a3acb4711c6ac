"""Proofs of tuples that registered rules derive, if they have parameters, or read a part of a relation only.

For subscribers, the rules are evaluated with each parameter as an attribute. A proof shows the rules as the user wrote them, in
which `$name` has one value. So they are evaluated once more for these values, over the relations of an epoch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from semi_naive.config import Config
from semi_naive.ra import ir
from semi_naive.ra.blocks.table import Table
from semi_naive.session.registered.checking import parameters_as_variables
from semi_naive.session.registered.rules import Registered

if TYPE_CHECKING:
    from semi_naive.provenance.why import Why


@contextmanager
def reasons(session: Any, name: str, parameters: dict[str, Any], epoch: Any) -> Iterator["Why"]:
    """Yield the search for proofs of a relation of registered rules at an epoch. parameters: the values of its parameters, by
    name. No transaction is open while the block runs. At the last epoch, registered rules that the relation depends on, and
    that are not evaluated, are evaluated for this."""
    registry = session.registry
    with session.in_turn():
        key = registry.parameter_key(name, parameters)
        rules: Registered = registry.rules[name]
        needed = registry.reads_of(name) | (set() if rules.parameters else {name})
        with registry.evaluated(needed), registry.contents_of(name, parameters):
            if epoch.number == session.epoch:
                epoch = session.at(session.epoch)  # with the relations that have just been evaluated
            for needed_name in sorted(needed):
                epoch.check(needed_name)
            if not rules.parameters:
                yield epoch.proofs
                return
            yield _proofs_at(session, rules, registry.first_facts(rules, key), epoch)


def _proofs_at(session: Any, rules: Registered, parameter_values: dict[str, Table], epoch: Any) -> "Why":
    """Evaluate rules over the relations of an epoch, and return the search for proofs in the result. parameter_values: the
    relation of the parameters, by name, with one tuple."""
    from semi_naive.provenance.why import Why
    from semi_naive.running.run import ProgramRun

    registry, values = session.registry, session.upkeep.values
    checked = parameters_as_variables(rules, registry.readable, session.program.checked)
    checked = replace(checked, directives=[ir.FileDirective("output", rules.name)])
    inputs = parameter_values | {name: epoch.contents(name) for name in rules.reads}
    program = type(session.program).from_checked(checked, rules.name)
    run = ProgramRun(program, program.compile(inputs, once=False), Config(), session.upkeep.run.cluster.spark, values=values)
    with run.run(inputs, lenient=True):
        derived = {name: table for name, table in run.database.tables.items() if name not in rules.reads}
        spread = {name: runs for name, runs in run.database.on_partitions.items() if name not in rules.reads}
    tables = {name: table for name, table in epoch.tables.items() if name not in epoch.spread} | derived
    # The search needs the rules of all relations: those of the program, of other registered rules, and the given ones.
    others = registry.with_registered_rules(session.program.checked, {*epoch.tables, *epoch.spread} - {rules.name})
    own = {name: relation for name, relation in checked.relations.items() if name not in rules.reads}
    own_rules = [rule for rule in checked.rules if rule.head.relation in own]
    relations, sums = others.relations | own, others.sums | checked.sums
    whole = replace(others, relations=relations, rules=[*others.rules, *own_rules], sums=sums)
    names = {rules.parameter_relation: rules.parameters}
    return Why(whole, tables, values, epoch.given, {**epoch.spread, **spread}, named=names)
