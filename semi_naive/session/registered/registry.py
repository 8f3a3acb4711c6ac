"""The registered rules of a session, and their evaluation while they have users.

A relation of registered rules is evaluated while it has users: subscriptions, queries, and evaluated rules that read it. All
users share its tuples, and the session's own relations with their indexes. When the last user releases it, it is dropped.
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from semi_naive.host import limits
from semi_naive.host.numbers import quantity
from semi_naive.io import as_columns
from semi_naive.language.errors import ProgramError
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, difference, empty
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Program, Relation
from semi_naive.session.durability.registrations import Registrations
from semi_naive.session.registered.bodies import NAME, rules_of_body
from semi_naive.session.registered.demand import Demand
from semi_naive.session.registered.rules import Inlined, Registered, registered, source
from semi_naive.session.registered.shapes import Shapes
from semi_naive.session.registered.subscribers import Subscribers
from semi_naive.session.registered.subscriptions import rest_of_table, without_parameters
from semi_naive.session.system import RELATIONS

log = logging.getLogger("semi_naive")


@dataclass(frozen=True)
class Waiting:
    """Rules that read relations which are not there yet. missing: these; error: the one that was found when they came."""

    text: str
    missing: frozenset[str]
    error: ValueError | None = None


class Registry:
    """The registered rules of one session, and its subscribers. Rules only change while no transaction is open."""

    def __init__(self, session: Any):
        self._session = session
        self.rules: dict[str, Registered] = {}
        self._demand = Demand(session, self.rules)
        inlined = {name: Inlined(found) for name, found in session.program.checked.inlined.items()}
        # All relations that other rules may read.
        self.known: dict[str, Relation | Registered | Inlined] = RELATIONS | inlined | session.declared
        self._sources = {name: source(each) for name, each in RELATIONS.items() if name not in session.declared}
        self.waiting: dict[str, Waiting] = {}
        self._shapes = Shapes(session.program.checked.types)
        # The number of users of each (relation, values of its parameters).
        self._uses: dict[tuple[str, tuple[int, ...]], int] = {}
        self.subscribers = Subscribers(session, self)

    # -- rules

    def register(self, name: str, text: str, check: Callable[[Registered], None] | None = None) -> None:
        """See `Session.register`. check: raises an exception if the rules are valid, but not allowed. Rules with a check do not
        wait for relations that are not there, because what they would read is not known."""
        if name in self.rules or name in self.waiting:
            raise ValueError(f"{name} is registered already: unregister it first")
        if check is None:
            self._register_or_wait(name, text)
        else:
            self._register(name, text)
            check(self.rules[name])
        self._resume()
        self._session.note(False, "register", name, text)

    def _register_or_wait(self, name: str, text: str) -> None:
        """Check rules and add them; if they read relations that are not there and have no other errors, they wait for these."""
        try:
            self._register(name, text)
        except ProgramError as error:
            missing = {each.undefined for each in error.problems if each.severity == "Error"}
            if "" in missing or not missing:
                raise
            log.warning("the rules for %s wait for %s, which is not there yet", name, ", ".join(sorted(missing)))
            self._set_waiting(self.waiting | {name: Waiting(text, frozenset(missing))})

    def _set_waiting(self, waiting: dict[str, Waiting]) -> None:
        """Replace the rules that wait; the open turn restores them if it fails."""
        self._session.undo(partial(setattr, self, "waiting", self.waiting))
        self.waiting = waiting

    def _resume(self) -> None:
        """Register the rules that wait, as far as the relations that they read are there now. Rules that turn out to be wrong
        wait on: whoever asks for them gets the error."""
        while ready := [name for name, each in self.waiting.items() if each.missing <= self.known.keys() and not each.error]:
            name, waited = ready[0], self.waiting[ready[0]]
            self._set_waiting({each: one for each, one in self.waiting.items() if each != name})
            try:
                self._register_or_wait(name, waited.text)
            except (ProgramError, ValueError) as error:
                log.warning("the rules for %s are wrong, now that all that they read is there: %s", name, error)
                self._set_waiting(self.waiting | {name: replace(waited, error=error)})

    def check_waiting(self, name: str) -> None:
        """Raise an error if the rules for a relation wait for others."""
        if waited := self.waiting.get(name):
            if waited.error:
                raise waited.error
            missing = ", ".join(sorted(waited.missing - self.known.keys()))
            raise ValueError(f"the rules for {name} wait for {missing}: register {missing} first")

    def _register(self, name: str, text: str) -> None:
        """Check rules and add them. The open turn removes them if it fails."""
        rules = registered(name, text, self.known, self._session.program.checked, self._shapes)
        for other in self.rules.values() if rules.types else ():
            for each in rules.types.keys() & other.types.keys():
                if rules.types[each] != other.types[each]:
                    raise ValueError(f"the rules for {other.name} declare another type {each}: give one of them another name")
        self._session.undo(partial(self._drop, name))
        self._add(rules)

    def _add(self, rules: Registered) -> None:
        """Add rules that have been checked."""
        self.rules[rules.name] = rules
        if not rules.parameters:
            self.known[rules.name] = rules

    def _drop(self, name: str) -> None:
        self.rules.pop(name, None)
        self.known.pop(name, None)

    def unregister(self, name: str) -> None:
        """See `Session.unregister`."""
        if name in self.waiting:
            self._session.note(False, "unregister", name)
            self._set_waiting({each: one for each, one in self.waiting.items() if each != name})
            return
        rules = self._registered(name)
        readers = sorted(each.name for each in self.rules.values() if name in each.reads | each.inlines)
        if readers:
            raise ValueError(f"{name} is read by {', '.join(readers)}: unregister what reads it first")
        if rules.users:
            raise ValueError(
                f"{name} is needed by {quantity(rules.users, 'subscription')}: cancel first, and end those that have a name"
            )
        self._session.note(False, "unregister", name)
        self._session.undo(partial(self._add, rules))
        self._drop(name)

    def _registered(self, name: str) -> Registered:
        """Return registered rules. Raises KeyError if there are none of this name."""
        if name not in self.rules:
            raise KeyError(f"{name!r} is not registered; registered are {', '.join(sorted(self.rules)) or 'no rules'}")
        return self.rules[name]

    def relation(self, name: str) -> Relation:
        """Return a relation of the program, of registered rules, or about the session. Raises KeyError if there is none."""
        self.check_waiting(name)
        if self.is_system(name):
            return RELATIONS[name]
        return self.rules[name].relation if name in self.rules else self._session.relations[self._session.known(name)]

    def with_rules(self, program: Program, evaluated: Collection[str]) -> Program:
        """Return a program with the registered rules without parameters for some relations that have been evaluated."""
        for rules in self.rules.values():
            if rules.name in evaluated and not rules.parameters:
                own = {name: each for name, each in rules.checked.relations.items() if name not in program.relations}
                added = [rule for rule in rules.checked.rules if rule.head.relation in own]
                sums = program.sums | rules.checked.sums
                program = replace(program, relations=program.relations | own, rules=[*program.rules, *added], sums=sums)
        return program

    def is_system(self, name: str) -> bool:
        """True for a relation about the session, unless the program declares a relation of that name."""
        return name in RELATIONS and name not in self._session.declared

    def check_given(self, name: str, given: dict) -> tuple[str, ...]:
        """Return the names of a relation's parameters. Raises ValueError unless exactly these are given."""
        wanted = self.rules[name].parameters if name in self.rules else ()
        if set(given) != set(wanted):
            named = f"the parameters {', '.join(f'{each}=…' for each in wanted)}" if wanted else "no parameters"
            found = ", ".join(sorted(given)) or "none"
            raise ValueError(f"{name} has {named}, and {found} {'is' if len(given) == 1 else 'are'} given")
        return wanted

    def key(self, name: str, given: dict) -> tuple[int, ...]:
        """Return given values of parameters in 64 bits. They may be new symbols, so no transaction may be open."""
        if not (wanted := self.check_given(name, given)):
            return ()
        upkeep, relation = self._session.upkeep, self.relation(name)
        asked = Relation(f"{name}.parameters", relation.attributes[: len(wanted)])
        columns = as_columns([tuple(given[each] for each in wanted)], asked, upkeep.program.types, upkeep.values)
        return tuple(int(column[0]) for column in columns)

    # -- evaluation

    def need(self, name: str, key: tuple[int, ...]) -> None:
        """Count a user of a relation, until `release`. Its registered rules, and those that they read, are evaluated and
        maintained while they have users; a system relation is kept up to date; a relation of the program is evaluated at its
        first use. key: the values of its parameters."""
        rules = self.rules.get(name) or self._sources.get(name)
        if rules is None:
            self._materialize(name)
            return
        for each in sorted(rules.reads):
            self.need(each, ())
        self._savepoint(rules)
        if not rules.users:
            rules.strata = self._session.upkeep.extend(rules.compiled(), rules.inputs)
            if self.is_system(name):
                self._session.upkeep.apply({name: difference(Table(rules.relation.arity), self._session.system.table(name))})
        rules.users += 1
        self._count_use(rules, key, 1)
        self._renew(rules)

    def answers_on_demand(self, name: str) -> bool:
        """True if a query with constants of a relation evaluates what it asks for, as the relation is not evaluated."""
        return self._demand.definition(name) is not None

    def _materialize(self, name: str) -> None:
        """Evaluate a relation of the program at its first use. It is maintained as long as the session is open, so that later
        uses cost nothing."""
        if name not in self._session.upkeep.relations.tables:
            self._session.save()
            if self._session.upkeep.materialize(name):
                self._session.renew(name, self._session.relations.get(name))  # none, if the checks have made it

    def _renew(self, rules: Registered) -> None:
        """Show readers the relation of rules while it has users."""
        self._session.renew(rules.name, rules.relation if rules.users and not self.is_system(rules.name) else None)

    def release(self, name: str, key: tuple[int, ...]) -> None:
        """Release the relations that only this subscriber or query used."""
        rules = self.rules.get(name) or self._sources.get(name)
        if rules is None:
            return
        with limits.lifted():  # an evaluation that has exceeded its limits is released, too
            self._savepoint(rules)
            if rules.users > 1:
                self._count_use(rules, key, -1)
            else:
                del self._uses[name, key]
            self._remove_user(rules)
            for each in sorted(rules.reads):
                self.release(each, ())
            self._renew(rules)

    def sources_in_use(self) -> list[str]:
        """The system relations that rules or subscribers read."""
        return [name for name, each in self._sources.items() if each.users]

    def _remove_user(self, rules: Registered) -> None:
        """Count one user less. If it was the last, the relations of the rules are dropped."""
        rules.users -= 1
        if not rules.users:
            self._session.upkeep.retract(rules.strata)
            rules.strata = []

    def _savepoint(self, rules: Registered) -> None:
        """Let the open turn restore the evaluated rules and their users if it fails. Called before they change."""
        self._session.save()
        self._session.undo(partial(vars(rules).update, users=rules.users, strata=rules.strata))

    def saved(self) -> tuple:
        """Return a savepoint for `restore`."""
        return dict(self._uses), self.subscribers.saved()

    def restore(self, saved: tuple) -> None:
        """Restore a saved state."""
        self._uses, subscribers = saved
        self.subscribers.restore(subscribers)

    def _count_use(self, rules: Registered, key: tuple[int, ...], times: int) -> None:
        """Count a use of values of parameters (times=1), or take one back (times=-1). The first use inserts the values into the
        relation of parameters, and the end of the last one deletes them."""
        before = self._uses.get((rules.name, key), 0)
        if key and not before + min(times, 0):
            row, none = Block.of([np.array([value]) for value in key], 1), empty(len(key))
            self._session.upkeep.apply({rules.asked: Change(row, none) if times > 0 else Change(none, row)})
        self._uses[rules.name, key] = before + times
        if not before + times:
            del self._uses[rules.name, key]

    @contextlib.contextmanager
    def there(self, names: Iterable[str]):
        """Evaluate the relations of registered rules among `names` while the block runs."""
        with contextlib.ExitStack() as stack:
            for each in sorted(self.rules.keys() & set(names)):
                self.need(each, ())
                stack.callback(self.release, each, ())
            yield

    @contextlib.contextmanager
    def body(self, text: str, check: Callable[[Registered], None] = lambda _: None):
        """Register a rule for the answers to a body until the block ends, and yield the name of their relation. check: see
        `register`."""
        name = NAME
        while name in self.known or name in self.rules:
            name += "_"
        self._register(name, rules_of_body(name, text, self.known, self._session.program.checked))
        try:
            check(self.rules[name])
            self.rules[name] = self._demand.narrowed(self.rules[name])
            yield name
        finally:
            self._drop(name)

    @contextlib.contextmanager
    def answer(self, name: str, given: dict, owner: str | None = None):
        """Yield (relation without its parameters, table) of a relation at the last epoch. A relation that is not evaluated yet
        is evaluated until the block ends. owner: see `System.table`. given: the values of parameters, by name."""
        key, relation = self.key(name, given), self.relation(name)
        if self.is_system(name):
            yield relation, self._session.system.table(name, owner)
            return
        self.need(name, key)
        try:
            table = self._session.upkeep.relations.table(name)
            yield without_parameters(relation, len(key)), rest_of_table(table, key) if key else table
        finally:
            self.release(name, key)

    def registrations(self) -> Registrations:
        """The rules and named subscriptions to store in the directory of the session."""
        texts = {name: rules.text for name, rules in self.rules.items()}
        return Registrations(texts | {name: each.text for name, each in self.waiting.items()}, dict(self.subscribers.histories))

    def take_up(self, registrations: Registrations, redefined: Iterable[str]) -> None:
        """Restore the rules and named subscriptions stored in a directory. Rules that are not valid any more are left out, with
        a warning. redefined: the relations whose rules have changed since; subscriptions to them are left out, too."""
        for name, text in registrations.rules.items():
            try:
                self._register_or_wait(name, text)
            except ProgramError as error:
                log.warning("the rules for %s, which were registered, are not right any more and are left out: %s", name, error)
        self._resume()
        changed = set(redefined)
        for name, rules in self.rules.items():
            changed |= {name} if rules.reads & changed else set()
        for called, history in registrations.names.items():
            name = history.relation
            if name not in {*self.rules, *self._session.relations, *RELATIONS} or name in changed:
                log.warning("%s follows from other rules now: the changes kept for the subscription %r are gone", name, called)
            else:
                if not history.lapsed:
                    self.need(name, history.key)
                self.subscribers.histories[called] = history
