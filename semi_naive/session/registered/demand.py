"""Rules on demand: a query of a relation that is not evaluated gets the relation's rules, and computes only the tuples that its
constants and parameters ask for (`planning.rewriting.magic`).

    query(y) :- friends(795, y).        friends(x, z) :- friends(x, y), edge(y, z).        …

makes the friends of 795. Rules are synthesised when they are used (Göbel 2019, "Optimising Distributed Dataflows in Interactive
Environments").
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from semi_naive.planning import rewrite
from semi_naive.ra.ir import Atom, Const, Program, Rule, Var
from semi_naive.session.registered.rules import MAGIC, Registered

MAX_RULES = 200  # that are compiled for one query: some 0.2 s


@dataclass(frozen=True)
class Definition:
    """The rules of one relation that is not evaluated, in a checked program, and the relations that they read."""

    program: Program
    reads: frozenset[str]


class Demand:
    """The definitions of a session's relations that are not evaluated. registered: the registered rules by relation."""

    def __init__(self, session: Any, registered: Mapping[str, Registered]):
        self._session, self._registered = session, registered

    def definition(self, name: str) -> Definition | None:
        """Return the rules of a relation, if it is not evaluated and they can be evaluated on demand. Those of the program
        cannot if the relation may have facts of users, too, or if it recurs in rounds."""
        if (rules := self._registered.get(name)) is not None:
            own = [rule for rule in rules.checked.rules if rule.head.relation not in rules.reads]
            whole = rules.users or rules.parameters or rules.define
            return None if whole else Definition(replace(rules.checked, rules=own), rules.reads)
        session, checked = self._session, self._session.program.checked
        if name not in checked.relations or name in session.upkeep.relations.tables:
            return None
        if checked.loops or not checked.relations[name].plain or name in session.changeable:
            return None
        rules_of_it = self._rules_of_program[name]
        nodes = (node for rule in rules_of_it for node in rewrite.walk(rule.body))
        reads = frozenset(node.relation for node in nodes if isinstance(node, Atom))
        relations = {each: checked.relations[each] for each in reads | {name}}
        sums = {each: head for each, head in checked.sums.items() if each == name}
        return Definition(Program(checked.types, relations, rules_of_it, sums=sums), reads)

    @cached_property
    def _rules_of_program(self) -> dict[str, list[Rule]]:
        """The rules of the session's program by the relation of their head."""
        found: dict[str, list[Rule]] = defaultdict(list)
        for rule in self._session.program.checked.rules:
            found[rule.head.relation].append(rule)
        return found

    def narrowed(self, rules: Registered) -> Registered:
        """Return rules together with those of the relations that they read, and so on, if they ask each for some tuples only.
        Relations of which all tuples would be computed are read, as others may do. Returns the rules as they are if there are
        too many others, as each has to be compiled."""
        if not all(asks_for_some(rules, each) for each in rules.reads if self.definition(each)):
            return rules
        shared: set[str] = set()
        while True:
            found = self._with_definitions(rules, shared)
            if len(found.checked.rules) > MAX_RULES or not all(map(self._can_be_evaluated, found.reads)):
                return rules
            made = found.compiled()
            own = {f"{rules.name}.{name}": name for name in found.checked.relations if name != rules.name}
            whole = {own[name] for name in own.keys() & made.program.relations.keys()}  # computed without a demand
            if not whole - shared:
                return replace(found, prepared=made)
            shared |= whole

    def _can_be_evaluated(self, name: str) -> bool:
        upkeep = self._session.upkeep
        return name in self._registered or name in upkeep.relations.dependents.homes or self._session.registry.is_system(name)

    def _with_definitions(self, rules: Registered, shared: set[str]) -> Registered:
        """Return rules with those of the relations that they read; shared: without the rules of these."""
        program, reads, waiting = rules.checked, set(), set(rules.reads)
        while waiting:
            name = min(waiting)
            waiting.remove(name)
            reads.add(name)
            if name not in shared and (found := self.definition(name)):
                more = found.program
                program = replace(
                    program, types=program.types | more.types, relations=program.relations | more.relations,
                    rules=[*program.rules, *more.rules], sums=program.sums | more.sums,
                )  # fmt: skip
                waiting |= found.reads - reads
        derived = {rule.head.relation for rule in program.rules}
        program = replace(program, pragmas=program.pragmas | {MAGIC.key: MAGIC.value})
        return replace(rules, reads=frozenset(reads - derived), make=lambda: program)


def asks_for_some(rules: Registered, name: str) -> bool:
    """True if each atom by which rules read a relation has a constant or a parameter, so that some of its tuples will do."""
    atoms = [node for node in rewrite.walk(rules.checked.rules) if isinstance(node, Atom)]
    given = {each for atom in atoms if atom.relation == rules.asked for each in rewrite.variables_of(atom)}

    def is_given(arg) -> bool:
        return isinstance(arg, Const) or isinstance(arg, Var) and arg.name in given

    return all(any(map(is_given, atom.args)) for atom in atoms if atom.relation == name)
