"""Rules on demand: a query of a relation that is not evaluated is evaluated together with the rules of the relation, and
computes only the tuples that its constants and parameters ask for (`planning.rewriting.magic`).

    query(y) :- friends(795, y).        friends(x, z) :- friends(x, y), edge(y, z).        …

computes the friends of 795. Rules are synthesised when they are used (Göbel 2019, "Optimising Distributed Dataflows in
Interactive Environments").
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from semi_naive.planning import rewrite
from semi_naive.ra.ir import Atom, Const, Program, Rule, Var
from semi_naive.session.registered.rules import MAGIC, Registered

MAX_RULES = 200  # rules that are compiled for one query at most, in some 0.2 s


@dataclass(frozen=True)
class Definition:
    """The rules of one relation, as a checked program, and the relations that they read."""

    program: Program
    reads: frozenset[str]


class Demand:
    """The definitions of a session's relations that are not evaluated. registered: the registered rules by relation."""

    def __init__(self, session: Any, registered: Mapping[str, Registered]):
        self._session, self._registered = session, registered

    def definition(self, name: str) -> Definition | None:
        """Return the rules of a relation that is not evaluated, if they can be evaluated on demand; otherwise None. A relation
        of the program that may have facts of users, has a reduction, or recurs in rounds cannot."""
        if (rules := self._registered.get(name)) is not None:
            if rules.users or rules.parameters or rules.inline_statements:
                return None
            own = [rule for rule in rules.checked.rules if rule.head.relation not in rules.reads]
            return Definition(replace(rules.checked, rules=own), rules.reads)
        session, checked = self._session, self._session.program.checked
        if name not in checked.relations or name in session.upkeep.relations.tables:
            return None
        if checked.loops or not checked.relations[name].plain or name in session.changeable:
            return None
        own = self._rules_of_program[name]
        nodes = (node for rule in own for node in rewrite.walk(rule.body))
        reads = frozenset(node.relation for node in nodes if isinstance(node, Atom))
        relations = {each: checked.relations[each] for each in reads | {name}}
        sums = {each: head for each, head in checked.sums.items() if each == name}
        return Definition(Program(checked.types, relations, own, sums=sums), reads)

    @cached_property
    def _rules_of_program(self) -> dict[str, list[Rule]]:
        """The rules of the session's program by the relation of their head."""
        rules: dict[str, list[Rule]] = defaultdict(list)
        for rule in self._session.program.checked.rules:
            rules[rule.head.relation].append(rule)
        return rules

    def narrowed(self, rules: Registered) -> Registered:
        """Return rules together with the rules of the relations that they read, directly or not, so that only the needed tuples
        of these are computed. A relation of which all tuples would be computed is read instead, as it can be shared. The rules
        are returned unchanged if they read a relation without a constant, or if more than MAX_RULES would be compiled."""
        if not all(asks_for_some(rules, each) for each in rules.reads if self.definition(each)):
            return rules
        shared: set[str] = set()
        while True:
            extended = self._with_definitions(rules, shared)
            if len(extended.checked.rules) > MAX_RULES or not all(map(self._can_be_evaluated, extended.reads)):
                return rules
            compiled = extended.compiled()
            names = {f"{rules.name}.{name}": name for name in extended.checked.relations if name != rules.name}
            # A relation of which only some tuples are computed has another name: see `planning.rewriting.magic`.
            computed_whole = {names[name] for name in names.keys() & compiled.program.relations.keys()}
            if computed_whole <= shared:
                return replace(extended, precompiled=compiled)
            shared |= computed_whole

    def _can_be_evaluated(self, name: str) -> bool:
        upkeep = self._session.upkeep
        return name in self._registered or name in upkeep.relations.dependents.homes or self._session.registry.is_system(name)

    def _with_definitions(self, rules: Registered, shared: set[str]) -> Registered:
        """Return rules together with those of all relations that they read, directly or not, except for `shared`."""
        program, reads, waiting = rules.checked, set(), set(rules.reads)
        while waiting:
            name = min(waiting)
            waiting.remove(name)
            reads.add(name)
            if name not in shared and (definition := self.definition(name)):
                more = definition.program
                program = replace(
                    program, types=program.types | more.types, relations=program.relations | more.relations,
                    rules=[*program.rules, *more.rules], sums=program.sums | more.sums,
                )  # fmt: skip
                waiting |= definition.reads - reads
        derived = {rule.head.relation for rule in program.rules}
        program = replace(program, pragmas=program.pragmas | {MAGIC.key: MAGIC.value})
        return replace(rules, reads=frozenset(reads - derived), check=lambda: program)


def asks_for_some(rules: Registered, name: str) -> bool:
    """True if each atom by which rules read a relation has a constant or a parameter, so that not all its tuples are needed."""
    atoms = [node for node in rewrite.walk(rules.checked.rules) if isinstance(node, Atom)]
    parameter_atoms = [atom for atom in atoms if atom.relation == rules.parameter_relation]
    parameters = {variable for atom in parameter_atoms for variable in rewrite.variables_of(atom)}

    def is_bound(arg) -> bool:
        return isinstance(arg, Const) or isinstance(arg, Var) and arg.name in parameters

    return all(any(map(is_bound, atom.args)) for atom in atoms if atom.relation == name)
