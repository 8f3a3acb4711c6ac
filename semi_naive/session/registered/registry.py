"""The registered rules of a session, and their evaluation while they have users.

A relation of registered rules is evaluated while it has users: subscriptions, queries, and evaluated rules that read it. All
users share its tuples, and the session's own relations with their indexes. When the last user releases it, it is dropped.
"""

import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from semi_naive.host import limits
from semi_naive.host.numbers import quantity
from semi_naive.io import as_columns
from semi_naive.language.errors import ProgramError
from semi_naive.planning.maintaining.names import changes_only, is_changes_only, with_tuples
from semi_naive.planning.rewrite import reachable, walk
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, empty
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.expressions.terms import bits_of_constant
from semi_naive.ra.ir import Atom, Const, Program, Relation
from semi_naive.session.durability.registrations import Registrations
from semi_naive.session.facts import settled_table
from semi_naive.session.registered.bodies import NAME, rules_of_body
from semi_naive.session.registered.checking import registered
from semi_naive.session.registered.declarations import declared_relation
from semi_naive.session.registered.demand import Demand
from semi_naive.session.registered.rules import Inlined, Registered, rules_of_changes, system_rules
from semi_naive.session.registered.shapes import Shapes
from semi_naive.session.registered.subscribers import Subscribers
from semi_naive.session.registered.subscriptions import rest_of_table, without_parameters
from semi_naive.session.system import RELATIONS

log = logging.getLogger("semi_naive")

Uses = dict[tuple[str, tuple[int, ...]], int]  # the number of users by (relation, values of its parameters in 64 bits)


@dataclass(frozen=True)
class Waiting:
    """Rules that read relations which are not registered yet.
    missing: the names of these relations. error: the error of the rules that was found once all relations were registered."""

    text: str
    share: bool | None
    missing: frozenset[str]
    error: ValueError | None = None


class Registry:
    """The registered rules of one session, and its subscribers. Rules only change while no transaction is open."""

    def __init__(self, session: Any):
        self._session = session
        self.rules: dict[str, Registered] = {}  # by relation
        self.demand = Demand(session, self.rules)
        inlined = {name: Inlined(statements) for name, statements in session.program.checked.inlined.items()}
        # The relations that registered rules may read: those of the program, of registered rules, and about the session.
        self.readable: dict[str, Relation | Registered | Inlined] = RELATIONS | inlined | session.declared
        # The system relations, except for those whose names the program declares. They are maintained while they have users.
        own = {name: relation for name, relation in RELATIONS.items() if name not in session.declared}
        self.system_rules = {name: system_rules(relation) for name, relation in own.items()}
        self.waiting: dict[str, Waiting] = {}  # by relation
        self.declarations: dict[str, str] = {}  # the texts of relations that were added to the session, by name
        self.of_changes: dict[str, Registered] = {}  # the rules whose changes alone have subscribers: see `rules_of_changes`
        self._shapes = Shapes(session.program.checked.types)
        self._uses: Uses = {}  # to acquire them again: see `_separate_twins`
        self.subscribers = Subscribers(session, self)

    # -- relations of facts

    def declare(self, text: str) -> str:
        """Add a relation to the session, and return its name: see `Session.declare`. Readers do not see it yet."""
        session = self._session
        relation = declared_relation(text, self.readable.keys() | self.waiting.keys(), session.program.checked)
        session.commits.add_savepoint()
        for holder, attribute in ((session, "changeable"), (session, "declared"), (self, "declarations")):
            session.turns.add_undo(partial(setattr, holder, attribute, getattr(holder, attribute)))
        session.turns.add_undo(partial(self.readable.pop, relation.name, None))
        session.upkeep.declare(relation)
        # other threads read the current ones
        session.changeable, session.declared = (
            session.changeable | {relation.name},
            session.declared | {relation.name: relation},
        )
        self.declarations, self.readable[relation.name] = self.declarations | {relation.name: text}, relation
        return relation.name

    def show_declared(self, name: str) -> None:
        """Show a declared relation to readers, and register the rules that waited for it. A snapshot makes it last."""
        commits = self._session.commits
        commits.set_relation(name, self._session.declared[name])
        self._register_unblocked()
        if commits.directory:
            commits.write_snapshot(commits.directory)

    # -- rules

    def register(
        self, name: str, text: str, check: Callable[[Registered], None] | None = None, share: bool | None = None,
        add: bool = False,
    ) -> None:  # fmt: skip
        """See `Session.register`. check: raises an exception if the rules are valid, but not allowed. With a check, rules that
        read unknown relations are an error, and do not wait for these: a check needs to know what the rules read."""
        if share not in (None, True, False):
            raise ValueError(f"share is {share!r}: expected True, False, or None, which chooses")
        known = self.rules.get(name) or self.waiting.get(name)
        if known and not add:
            raise ValueError(f"{name} is registered already: unregister it first, or add rules to it with add=True")
        if add and not known:
            raise ValueError(f"{name} is not registered, so no rules can be added to it: register it without add")
        readers = []
        if known:
            readers = self._withdraw(name)
            text, share = f"{known.text}\n{text}", known.share if share is None else share
        if check is None:
            self._register_or_wait(name, text, share)
        else:
            self._register(name, text, share)  # undone with the open turn if the check raises an exception
            check(self.rules[name])
        if name in self.waiting and (between := self.waiting[name].missing & {reader.name for reader in readers}):
            message = f"{name} would read {min(between)}, which reads {name}"
            raise ValueError(f"{message}: register rules that need each other under one name")
        for reader in readers:
            self._register_or_wait(reader.name, reader.text, reader.share)
        self._register_unblocked()
        self._session.commits.log_event("register", name, text, share)

    def register_patterns(self, texts: list[tuple[str, str]]) -> str:
        """Register the rules of a pattern (`rules_of_pattern`), except for those that are registered already. Return the name
        of the last relation: another one if its name is taken."""
        *indexes, (match, rules) = texts
        names = (match if number == 1 else f"{match}_{number}" for number in count(1))

        def is_free(name: str) -> bool:
            same = name in self.rules and self.rules[name].text == rules.format(match=name)
            return same or name not in self.readable

        match = next(filter(is_free, names))
        for name, text in [*indexes, (match, rules.format(match=match))]:
            if name not in self.rules or self.rules[name].text != text:
                self.register(name, text)
        return match

    def _withdraw(self, name: str) -> list[Registered]:
        """Forget rules, which may wait, and all that read them, before they are registered again. Return the latter. Raises
        ValueError if one of them has users. The open turn restores them if it fails."""
        if name in self.waiting:
            self._remove_waiting(name)
        elif name in self.rules:
            self._separate_twins(self.rules[name])
        readers: dict[str, set[str]] = defaultdict(set)
        for rules in self.rules.values():
            for read in rules.reads | rules.inlines:
                readers[read].add(rules.name)
        names = reachable([name], readers)
        withdrawn = [rules for rules in self.rules.values() if rules.name in names]
        if used := [rules.name for rules in withdrawn if self._users(rules)]:
            raise ValueError(
                f"{', '.join(used)} is evaluated, for subscriptions: cancel these before rules are added to {name}"
            )
        for rules in reversed(withdrawn):  # steps of undo are taken from the last to the first, so the rules keep their order
            self._session.turns.add_undo(partial(self._add, rules))
            self._drop(rules.name)
        return [rules for rules in withdrawn if rules.name != name]

    def _register_or_wait(self, name: str, text: str, share: bool | None = None) -> None:
        """Check rules and add them. If their only errors are relations that are not registered, they wait for these."""
        try:
            self._register(name, text, share)
        except ProgramError as error:
            missing = {problem.undefined for problem in error.problems if problem.severity == "Error"}
            if "" in missing or not missing:  # "": an error of another kind
                raise
            log.warning("the rules for %s wait for %s, which is not there yet", name, ", ".join(sorted(missing)))
            self._set_waiting(self.waiting | {name: Waiting(text, share, frozenset(missing))})

    def _set_waiting(self, waiting: dict[str, Waiting]) -> None:
        """Replace the dictionary of waiting rules. The open turn restores the old one if it fails."""
        self._session.turns.add_undo(partial(setattr, self, "waiting", self.waiting))
        self.waiting = waiting

    def _register_unblocked(self) -> None:
        """Register the waiting rules whose missing relations are all registered now. Rules with other errors remain waiting;
        `check_waiting` raises their error."""
        readable = self.readable
        while ready := [item for item in self.waiting.items() if item[1].missing <= readable.keys() and not item[1].error]:
            name, rules = ready[0]
            self._remove_waiting(name)
            try:
                self._register_or_wait(name, rules.text, rules.share)
            except (ProgramError, ValueError) as error:
                log.warning("the rules for %s are wrong, now that all that they read is there: %s", name, error)
                self._set_waiting(self.waiting | {name: replace(rules, error=error)})

    def _remove_waiting(self, name: str) -> None:
        self._set_waiting({other: rules for other, rules in self.waiting.items() if other != name})

    def check_waiting(self, name: str) -> None:
        """Raise an error if the rules for a relation wait for other relations."""
        if rules := self.waiting.get(name):
            if rules.error:
                raise rules.error
            missing = ", ".join(sorted(rules.missing - self.readable.keys()))
            raise ValueError(f"the rules for {name} wait for {missing}: register {missing} first")

    def _register(self, name: str, text: str, share: bool | None = None) -> None:
        """Check rules and add them. The open turn removes them if it fails."""
        rules = registered(name, text, self.readable, self._session.program.checked, self._shapes)
        rules.share = share
        for other in self.rules.values() if rules.types else ():
            for type_name in rules.types.keys() & other.types.keys():
                if rules.types[type_name] != other.types[type_name]:
                    message = f"the rules for {other.name} declare another type {type_name}"
                    raise ValueError(f"{message}: give one of them another name")
        self._session.turns.add_undo(partial(self._drop, name))
        self._add(rules)

    def _add(self, rules: Registered) -> None:
        self.rules[rules.name] = self.readable[rules.name] = rules

    def _drop(self, name: str) -> None:
        """Forget registered rules, which are not readable any more."""
        self.rules.pop(name, None)
        self.readable.pop(name, None)

    def unregister(self, name: str) -> None:
        """See `Session.unregister`."""
        if name in self.waiting:
            self._session.commits.log_event("unregister", name)
            self._remove_waiting(name)
            return
        rules = self._registered(name)
        readers = sorted(reader.name for reader in self.rules.values() if name in reader.reads | reader.inlines)
        if readers:
            raise ValueError(f"{name} is read by {', '.join(readers)}: unregister what reads it first")
        self._separate_twins(rules)
        if number := self._users(rules):
            users = quantity(number, "subscription")
            raise ValueError(f"{name} is needed by {users}: cancel first, and end those that have a name")
        self._session.commits.log_event("unregister", name)
        self._session.turns.add_undo(partial(self._add, rules))
        self._drop(name)

    def _separate_twins(self, rules: Registered) -> None:
        """If rules are evaluated only for twins (`Synthesis.twin`), let the first of these be evaluated in their place, and the
        others be its copies."""
        twins = [each for each in self.rules.values() if each.users and each.form.twin == rules.name]
        if not twins or rules.users > sum(each.users for each in twins):  # each user of a twin is one of the rules, too
            return
        names = {each.name for each in twins}
        uses = [use for use, count in self._uses.items() if use[0] in names for _ in range(count)]
        for use in uses:
            self.release(*use)
        for use in uses:
            self.acquire(*use)

    def _users(self, rules: Registered) -> int:
        """Return the number of users of rules, including subscribers to changes alone."""
        of_changes = self.of_changes.get(changes_only(rules.name))
        return rules.users + (of_changes.users if of_changes else 0)

    def _registered(self, name: str) -> Registered:
        """Return registered rules. Raises KeyError if there are none of this name."""
        if name not in self.rules:
            raise KeyError(f"{name!r} is not registered; registered are {', '.join(sorted(self.rules)) or 'no rules'}")
        return self.rules[name]

    def relation(self, name: str) -> Relation:
        """Return a relation of the program, of registered rules, or about the session. Raises KeyError if there is none."""
        name = with_tuples(name)
        self.check_waiting(name)
        if name in self.system_rules:
            return RELATIONS[name]
        return self.rules[name].relation if name in self.rules else self._session.relations[self._session.check_known(name)]

    def with_registered_rules(self, program: Program, evaluated: Collection[str]) -> Program:
        """Return a program together with the relations that were added, and the registered rules of the relations
        `evaluated`."""
        program = replace(program, relations=self._session.declared | program.relations)
        for rules in self.rules.values():
            if rules.name in evaluated:
                own_relations = rules.checked.relations.items()
                added_relations = {name: relation for name, relation in own_relations if name not in program.relations}
                added_rules = [rule for rule in rules.checked.rules if rule.head.relation in added_relations]
                sums = program.sums | rules.checked.sums
                relations = program.relations | added_relations
                program = replace(program, relations=relations, rules=[*program.rules, *added_rules], sums=sums)
        return program

    def check_given(self, name: str, given: dict[str, Any]) -> tuple[str, ...]:
        """Return the names of a relation's parameters. Raises ValueError unless `given` has exactly these keys."""
        parameters = self.rules[name].parameters if name in self.rules else ()
        if set(given) != set(parameters):
            expected = ", ".join(f"{parameter}=…" for parameter in parameters)
            named = f"the parameters {expected}" if parameters else "no parameters"
            given_names = ", ".join(sorted(given)) or "none"
            raise ValueError(f"{name} has {named}, and {given_names} {'is' if len(given) == 1 else 'are'} given")
        return parameters

    def parameter_key(self, name: str, given: dict[str, Any]) -> tuple[int, ...]:
        """Return the values of a relation's parameters in 64 bits. given: the values by name. New symbols among them are
        numbered, so a turn must be open."""
        if not (parameters := self.check_given(name, given)):
            return ()
        upkeep, relation = self._session.upkeep, self.relation(name)
        parameter_relation = Relation(f"{name}.parameters", relation.attributes[: len(parameters)])
        row = tuple(given[parameter] for parameter in parameters)
        columns = as_columns([row], parameter_relation, upkeep.program.types, upkeep.values)
        return tuple(int(column[0]) for column in columns)

    # -- evaluation

    def acquire(self, name: str, key: tuple[int, ...], once: bool = False) -> None:
        """Add a user of a relation, until `release`. Registered rules, and those that they read, are evaluated and maintained
        while they have users. A system relation is maintained while it has users. A relation of the program is evaluated at its
        first use, and is then maintained until the session is closed. key: the values of the relation's parameters. once: the
        user reads it now, and then releases it."""
        rules = self._evaluable(name)
        if rules is None:
            self._evaluate_program_relation(name)
            return
        self._savepoint(rules)
        if not rules.users:
            rules.synthesis = self.demand.synthesis(rules)
        self._acquire_uses(rules, key, once)
        if not rules.users:
            self._read_whole_if_wide(rules, key, once)  # parts have their tuples by now
            rules.strata = self._session.upkeep.extend(rules.form.compiled, self.first_facts(rules, key))
            # How much rules ask for that evaluate tuples alone (`Synthesis.alone`) is known only after their evaluation.
            if self._read_whole_if_wide(rules, key, once):
                rules.strata = self._session.upkeep.extend(rules.form.compiled, self.first_facts(rules, key))
        else:
            self._change_parameters(rules, key, 1)
        rules.users += 1
        self._uses[name, key] = self._uses.get((name, key), 0) + 1
        self._show(rules)

    def _read_whole_if_wide(self, rules: Registered, key: tuple[int, ...], once: bool) -> bool:
        """If rules ask for too many tuples of a relation, let them read all of it, and return True; not for one answer
        (`once`). They must be evaluated again if they were. key: the values of their parameters."""
        wide = set() if once else self.demand.wide(rules)
        if wide:
            self._session.upkeep.retract(rules.strata)
            self._release_uses(rules, key)
            rules.strata, rules.synthesis = [], self.demand.synthesis(rules, wide)
            self._acquire_uses(rules, key, once)
        return bool(wide)

    def _evaluable(self, name: str) -> Registered | None:
        """Return the rules of a relation that is evaluated while it has users; None for one of the program."""
        if is_changes_only(name) and name not in self.of_changes:
            self.of_changes[name] = rules_of_changes(self._registered(with_tuples(name)))
        by_name: tuple[dict[str, Registered], ...] = (self.rules, self.system_rules, self.demand.parts, self.of_changes)
        return next((each[name] for each in by_name if name in each), None)

    def _uses_of(self, rules: Registered, key: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]]]:
        """Return the relations that evaluated rules use, each with the values of its parameters. key: those of the rules."""
        values = self._session.upkeep.values

        def bits(value: Const | int) -> int:
            return key[value] if isinstance(value, int) else int(bits_of_constant(value, values))

        return [(name, tuple(map(bits, asked))) for name, asked in rules.form.uses]

    def _acquire_uses(self, rules: Registered, key: tuple[int, ...], once: bool) -> None:
        """Add users of the relations that rules use. key: the values of the rules' parameters."""
        for name, values in self._uses_of(rules, key):
            self.acquire(name, values, once)

    def _release_uses(self, rules: Registered, key: tuple[int, ...]) -> None:
        """Remove the users that `_acquire_uses` has added."""
        for name, values in reversed(self._uses_of(rules, key)):
            self.release(name, values)

    def reads_of(self, name: str) -> set[str]:
        """Return the relations that the rules of a relation read, directly or by registered rules, without inlined ones."""
        return reachable(self.rules[name].reads, {reader: rules.reads for reader, rules in self.rules.items()})

    def lacks_for_proofs(self, name: str, evaluated: Collection[str]) -> bool:
        """True for registered rules whose proofs need more than the relations `evaluated`: values of parameters, or relations
        of which a part is evaluated."""
        return name in self.rules and (bool(self.rules[name].parameters) or not self.reads_of(name) <= set(evaluated))

    def needed_for_proofs(self, name: str) -> list[str]:
        """Return the relations of the program on which one of them depends, itself included."""
        reads: dict[str, set[str]] = defaultdict(set)
        for rule in self._session.program.checked.rules:
            reads[rule.head.relation] |= {node.relation for node in walk(rule.body) if isinstance(node, Atom)}
        return sorted(reachable([name], reads))

    def _evaluate_program_relation(self, name: str) -> None:
        """Evaluate a relation of the program, unless it is evaluated already, and show it to readers."""
        if name not in self._session.upkeep.relations.tables:
            self._session.commits.add_savepoint()
            if self._session.upkeep.materialize(name):
                # A relation that the checks of rules have added is not shown.
                self._session.commits.set_relation(name, self._session.relations.get(name))

    def _show(self, rules: Registered) -> None:
        """Add the relation of rules to the last epoch if it has users, else remove it. System relations, and parts of
        relations, are not shown."""
        self._session.commits.set_relation(rules.name, rules.relation if rules.users and rules.name in self.rules else None)

    def release(self, name: str, key: tuple[int, ...]) -> None:
        """Remove a user of a relation, which `acquire` has added. Relations without users are dropped."""
        rules = self._evaluable(name)
        if rules is None:
            return
        with limits.lifted():  # an evaluation that has exceeded its limits is released, too
            self._savepoint(rules)
            self._uses[name, key] -= 1
            if not self._uses[name, key]:
                del self._uses[name, key]
                if rules.users > 1:  # with the last user the relation of the parameters is dropped as a whole
                    self._change_parameters(rules, key, -1)
            rules.users -= 1
            if not rules.users:
                self.demand.forget(rules)
                self._session.upkeep.retract(rules.strata)
                rules.strata = []
                self.of_changes.pop(name, None)
            self._release_uses(rules, key)
            self._show(rules)

    def _savepoint(self, rules: Registered) -> None:
        """Add steps to the open turn that restore the state of rules, and evaluated rules, if it fails. Call it first."""
        self._session.commits.add_savepoint()
        self._session.turns.add_undo(
            partial(vars(rules).update, users=rules.users, strata=rules.strata, synthesis=rules.synthesis)
        )

    def savepoint(self) -> Callable[[], None]:
        """Return a step that restores the current uses, parts of relations and subscriptions."""
        uses, parts, restore_subscribers = dict(self._uses), dict(self.demand.parts), self.subscribers.savepoint()
        of_changes = dict(self.of_changes)

        def restore() -> None:
            self._uses, self.demand.parts, self.of_changes = uses, parts, of_changes
            restore_subscribers()

        return restore

    def first_facts(self, rules: Registered, key: tuple[int, ...]) -> dict[str, Table]:
        """Return the facts with which rules begin to be evaluated: the first values of their parameters, or those of a system
        relation."""
        if not rules.parameters:
            return {name: self._session.system.table(name) for name in rules.inputs}
        return {rules.parameter_relation: settled_table([_row_of(key)])}

    def _change_parameters(self, rules: Registered, key: tuple[int, ...], diff: int) -> None:
        """Insert (`diff` = 1) or delete (-1) values of the parameters of evaluated rules that have no other user."""
        if key and (rules.name, key) not in self._uses:
            row, none = _row_of(key), empty(len(key))
            self._session.upkeep.apply({rules.parameter_relation: Change(row, none) if diff > 0 else Change(none, row)})

    @contextlib.contextmanager
    def evaluated(self, names: Iterable[str]) -> Iterator[None]:
        """Evaluate the relations `names` of the program and of registered rules without parameters while the block runs."""
        without_parameters = {name for name, rules in self.rules.items() if not rules.parameters}
        with contextlib.ExitStack() as stack:
            for name in sorted((without_parameters | self._session.declared.keys()) & set(names)):
                self.acquire(name, (), once=True)
                stack.callback(self.release, name, ())
            yield

    @contextlib.contextmanager
    def registered_body(self, text: str, check: Callable[[Registered], None] = lambda _: None) -> Iterator[str]:
        """Register a rule for the answers to a query's body until the block ends. Yield its name. check: see `register`."""
        name = NAME
        while name in self.readable or name in self.rules:
            name += "_"
        self._register(name, rules_of_body(name, text, self.readable, self._session.program.checked))
        try:
            check(self.rules[name])
            yield name
        finally:
            self._drop(name)

    @contextlib.contextmanager
    def contents_of(self, name: str, given: dict[str, Any], owner: str | None = None) -> Iterator[tuple[Relation, Table]]:
        """Yield the last contents of a relation, as (relation without its parameters, table). A relation that is not evaluated
        is evaluated until the block ends. owner: see `System.table`. given: the values of parameters, by name."""
        key, relation = self.parameter_key(name, given), self.relation(name)
        if name in self.system_rules:
            yield relation, self._session.system.table(name, owner)
            return
        self.acquire(name, key, once=True)
        try:
            table = self._session.upkeep.relations.table(name)
            yield without_parameters(relation, len(key)), rest_of_table(table, key) if key else table
        finally:
            self.release(name, key)

    def registrations(self) -> Registrations:
        """Return the rules and the named subscriptions to store in the directory of the session."""
        texts = {name: (rules.text, rules.share) for name, rules in self.rules.items()}
        texts |= {name: (rules.text, rules.share) for name, rules in self.waiting.items()}
        return Registrations(texts, dict(self.subscribers.histories), self.declarations)

    def load(self, registrations: Registrations, redefined: Iterable[str]) -> None:
        """Restore the rules and named subscriptions stored in a directory. Rules that are not valid any more are left out, with
        a warning. redefined: the relations whose rules have changed since; subscriptions to them are left out, too."""
        for name, (text, *share) in registrations.rules.items():  # earlier versions have stored no share
            try:
                self._register_or_wait(name, text, *share)
            except ProgramError as error:
                log.warning("the rules for %s, which were registered, are not right any more and are left out: %s", name, error)
        self._register_unblocked()
        reads = {name: rules.reads for name, rules in self.rules.items()}
        changed = {*redefined, *(name for name in reads if not reachable([name], reads).isdisjoint(redefined))}
        for subscription, history in registrations.names.items():  # by the name of the subscription
            name = with_tuples(history.relation)
            if name not in {*self.rules, *self._session.relations, *RELATIONS} or name in changed:
                message = "%s follows from other rules now: the changes kept for the subscription %r are gone"
                log.warning(message, name, subscription)
            else:
                if not history.lapsed:
                    self.acquire(history.relation, history.key)
                self.subscribers.histories[subscription] = history


def _row_of(key: tuple[int, ...]) -> Block:
    """Return the values of parameters as a block of one tuple."""
    return Block.of([np.array([value]) for value in key], 1)
