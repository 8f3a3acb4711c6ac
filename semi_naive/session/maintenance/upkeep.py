"""How a program's relations follow its facts: stratum by stratum, and only those that something has changed for.

1. Facts of a relation without rules are inserted into its table, or taken out of it.
2. A stratum in this process that reads what has changed follows by delta rules (`in_driver`).
3. A stratum on the partitions follows there by delta rules (`across_partitions`).
4. Any other stratum is computed anew, by the plan that a run would choose, and compared with what it was: a pass over sorted
   blocks. So is a stratum for which a large part of what it reads has changed, and one whose maintenance exceeds its budget.

What the next strata see of a relation is its table without what it has lost, and what is new as its delta. Tables are never
changed in place: those of the epoch before stay as they are, and are there again if anything fails.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import partial
from typing import Any, cast

from semi_naive.host import limits, memory
from semi_naive.host.budget import OverBudget
from semi_naive.host.jit import load_kernels
from semi_naive.planning.maintaining import maintaining
from semi_naive.planning.rewriting.passes import Compiled
from semi_naive.planning.strata import Stratum, is_fact, readers
from semi_naive.ra.blocks.changes import (
    Change,
    at_home,
    grown,
    membership,
    selected_tuples,
    table_without,
)  # fmt: skip
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.spark.failures import translate_failures
from semi_naive.ra.tuple_at_a_time.ready import LOADING_SECONDS, machine_is_ready
from semi_naive.running.driver.local import TooLarge
from semi_naive.running.progress.recovery import Recovery
from semi_naive.session.maintenance import implied
from semi_naive.session.maintenance.across_partitions import AcrossPartitions
from semi_naive.session.maintenance.anew import Anew, Closure
from semi_naive.session.maintenance.budget import FREE
from semi_naive.session.maintenance.closures import differing, felt, is_dense
from semi_naive.session.maintenance.implied import CountedClosure, Implied, is_unspelt, is_worth_it
from semi_naive.session.maintenance.in_driver import InDriver
from semi_naive.session.maintenance.placed import State
from semi_naive.session.maintenance.spread import AnyChange, SpreadChange, here

MOST = 0.5  # of a relation's facts: where more come or go, its indexes are made again when they are searched
MANY = 1 << 17  # tuples of a session whose transactions call kernels by their machine code, from the first one on
SEARCHES = (
    "kernels.ranges",
    "kernels.mark_within_bounds",
    "kernels.pack_fields",
    "kernels.unpack",
    "kernels.expand_some",
    "kernels.field_at",
)
KERNELS = *SEARCHES, "lanes._mark_in_lanes", "words._drop", "unions._unite_rows"


Structure = tuple[State, list[tuple[dict, dict]], dict[str, Any]]


class Upkeep(Anew):
    """The relations of a session."""

    def __post_init__(self):
        program = self.compiled.program  # whose relations may become more (see `extend`), here and nowhere else
        program = replace(program, relations=dict(program.relations), types=dict(program.types))
        self.compiled = replace(self.compiled, program=program)
        super().__post_init__()
        self.in_driver, self.across = InDriver(self), AcrossPartitions(self)
        self.stale: set[int] = set()  # strata that are computed anew by the next transaction, whatever has changed
        self.taken_up: dict[str, Table] = {}  # what a directory has of relations, while a session is opened there

    def begin(self, given, changeable: Iterable[str]) -> None:
        """Read the facts, compute everything. given: as for `Program.run`, but what is left out begins empty."""
        changeable = set(changeable)
        with translate_failures(lambda: self.cluster.known):
            self._load(given, changeable)
            self._prepare(changeable)
            self._trying(partial(self._all, range(len(self.strata))), self._again)
            self._load_kernels()

    def take_up(self, directory, changeable: Iterable[str]) -> tuple[int, list[str]]:
        """Be what a session was that has ended, in its directory (`durable`). Returns the epoch that it made last, and the
        relations that were derived anew, as their rules are not what they were then. Others are derived anew, too: those that
        were on the partitions, and what follows from them."""
        changeable = set(changeable)
        self.tables = {name: Table(each.arity) for name, each in self.program.relations.items()}
        epoch, net = directory.take_up(self, changeable)
        self._read_text(self.program.rules)
        self._prepare(changeable)
        missing: set[str] = set()
        for number, stratum in enumerate(self.strata):
            names = set(stratum.relations)
            if self.shared >= names:
                self.tables |= {name: self.facts.given[name] for name in names}
                continue
            for name in names:
                self._restart(name)
            if stratum.rules or not self.are_plain(stratum):
                self._detect(number)
                if names - self.taken_up.keys() or stratum.reads & missing:
                    self.stale.add(number)
                    missing |= names
                else:
                    self.tables |= {name: self.taken_up[name] for name in names}
            else:
                for name in names:  # the program's text has all of them
                    self.tables[name].settle()
        if net or self.stale:
            self.apply(net)
        stale = [name for number in sorted(self.stale) for name in self.strata[number].relations]
        anew = [name for name in stale if name not in directory.same]
        self.stale, self.taken_up = set(), {}
        self._load_kernels()
        return epoch, anew

    def _load_kernels(self) -> None:
        """Before the first transactions, one after the other of which would otherwise wait for one."""
        if sum(table.count for table in self.tables.values()) >= MANY:
            load_kernels(KERNELS)
            machine_is_ready(LOADING_SECONDS)

    def extend(self, more: Compiled, inputs: Iterable[str]) -> list[int]:
        """Evaluate more rules, whose relations are new or are read as they are, and keep them up to date. inputs: the relations
        among them whose facts may change. Returns the numbers of the strata. After an error the caller has to `restore`."""
        limits.measure(self.nbytes)
        self._go_on_from(self.state())
        fresh = {name: each for name, each in more.program.relations.items() if name not in self.program.relations}
        self.program.relations.update(fresh)
        self.program.types.update(more.program.types)
        self.indexes.arities.update({name: each.arity for name, each in fresh.items()})
        self.tables = self.tables | {name: Table(each.arity) for name, each in fresh.items()}
        self.facts.given |= {name: self.tables[name] for name in inputs}
        self.shared |= set(inputs)
        self._read_text(more.program.rules)
        own = [stratum for stratum in more.strata if fresh.keys() >= set(stratum.relations)]
        numbers = list(range(len(self.strata), len(self.strata) + len(own)))
        self.strata += [replace(stratum, rules=[rule for rule in stratum.rules if not is_fact(rule)]) for stratum in own]
        with translate_failures(lambda: self.cluster.known):
            self.read_by = readers(self.strata)
            self._trying(partial(self._all, numbers), self._again)
        return numbers

    def retract(self, numbers: Iterable[int]) -> None:
        """Forget strata, and all that there is of their relations. Who reads them now still has their tables."""
        self._go_on_from(self.state())
        for number in numbers:
            self.in_driver.set_counts_aside(number)
            for name in self.strata[number].relations:
                every: tuple[dict, ...] = (self.tables, self.spread, self.facts.given, self.facts.written, self.lines)
                for each in (*every, self.program.relations):
                    each.pop(name, None)
                self.shared.discard(name)
                self.indexes.arities.pop(name, None)
            for kept in (self.in_driver.local, self.across.deltas, self.closures, self.budgets, self.ticks, self.dense):
                kept.pop(number, None)
            self.strata[number] = Stratum((), [], False)
        while self.strata and not self.strata[-1].relations:
            self.strata.pop()
        self.read_by = readers(self.strata)

    def _prepare(self, changeable: set[str]) -> None:
        """Before strata are computed: their facts are there."""
        self.recovery = Recovery(self, lambda names: None)
        alone = [each for number, each in enumerate(self.strata) if number not in self.looping and self.are_plain(each)]
        self.shared = {name for stratum in alone if not stratum.rules
                       for name in stratum.relations if name in changeable and name not in self.facts.written}  # fmt: skip

    def explain_changes(self, name: str | None, known: Callable[[str], Any]) -> str:
        """The rules that maintain the strata, or the stratum of one relation; `known` raises if there is no such relation."""
        strata = [each for each in self.strata if each.rules and (name is None or name in each.relations)]
        if name is not None and not strata:
            known(name)
            return f"{name}\n  no rule derives it\n"
        return "\n".join(map(self._explained, strata))

    def _explained(self, stratum: Stratum) -> str:
        relations = {name: self.program.relations[name] for name in stratum.relations}
        explicit = {*self.facts.given, *self.facts.written} & relations.keys()
        best = {name for name, each in relations.items() if each.lattice is not None}
        steps = maintaining(stratum, explicit, best, {name: each.kinds for name, each in relations.items()})
        lines = [", ".join(stratum.relations)]
        for step, rules in steps.items():
            lines += [f"  {step}", *(f"    {rule}" for rule in rules)]
        return "\n".join(lines) + "\n"

    # -- a transaction

    def apply(self, net: dict[str, Change], told_of: Iterable[str] = ()) -> dict[str, AnyChange]:
        """Change explicit facts, and have all relations follow. Return the changes of each relation, in this process where
        a subscriber is `told_of` it. After an error the caller goes `back_to` the state of before."""
        limits.measure(self.nbytes)
        with translate_failures(lambda: self.cluster.known):
            changes = self._trying(partial(self._followed_all, net, set(told_of)), self._again)
        for name in changes:
            self.tables[name] = self.whole.pop(name, self.tables[name])
            self.tables[name].settle()
        self.facts.given |= {name: self.tables[name] for name in net.keys() & self.shared}
        self.whole.clear()
        self.database.kept.clear()
        return changes

    def back_to(self, state: State) -> None:
        """Go back to a state, and forget what is kept from one transaction for the next."""
        self._go_on_from(state)
        self.tables = {name: table for name, table in self.tables.items() if name in self.program.relations}
        for kept in (self.in_driver.local, self.across.deltas, self.whole, self.database.kept):
            kept.clear()
        self.sweep()

    def saved(self) -> Structure:
        """What `extend` and `retract` change, for `restore`."""
        places = self.program.relations, self.program.types, self.indexes.arities
        kept = {name: getattr(self, name).copy() for name in ("strata", "shared", "lines", "budgets", "dense")}
        return self.state(), [(place, place.copy()) for place in places], kept

    def restore(self, saved: Structure) -> None:
        """Put back what was `saved`."""
        state, places, kept = saved
        for place, before in places:  # which others read meanwhile
            place.update(before)
            for name in place.keys() - before.keys():
                del place[name]
        vars(self).update(kept, read_by=readers(kept["strata"]))
        self.back_to(state)

    def _followed_all(self, net: dict[str, Change], told_of: set[str]) -> dict[str, AnyChange]:
        for name in net.keys() - self.shared:
            self.facts.given[name] = _changed(self.facts.given[name], net[name])
        changes: dict[str, AnyChange] = {}
        self.whole.clear()
        for number, stratum in enumerate(self.strata):
            own = {name: net[name] for name in stratum.relations if name in net}
            found: Mapping[str, AnyChange] = {}
            if number in self.looping:
                found = self._of_loop(number, net, changes)
            elif own or number in self.stale or stratum.reads & changes.keys():
                with memory.at(partial(self._place, number)):
                    limits.check_limits()
                    found = self._of_stratum(number, stratum, own, changes)
                    limits.check_bytes(now=True)
            changes |= {name: here(change) if name in told_of else change for name, change in found.items() if change.size}
        return changes

    def _of_loop(self, number: int, net: dict[str, Change], changes: dict[str, AnyChange]) -> dict[str, AnyChange]:
        """What changes of the strata of a loop, in the turn of the first: they are computed anew."""
        loop = self.compiled.loops.get(number)
        strata = [self.strata[each] for each in loop.numbers] if loop else []
        concerns = {name for each in strata for name in (*each.reads, *each.relations)}
        if loop is None or not (concerns & (changes.keys() | net.keys()) or self.stale.intersection(loop.numbers)):
            return {}
        before = {name: self.kept(name) for each in strata for name in each.relations}
        self._loop(loop)
        found = {name: self.compared(name, kept) for name, kept in before.items()}
        for known, name in loop.of.pairs:  # later strata may read what is known, too
            found[known] = found[name]
            kept = self.kept(name)
            self.keep(known, snapshot(kept) if isinstance(kept, Table) else kept)
            self.whole.update({known: self.tables[known]} if name in self.whole else {})
        return found

    def _of_stratum(self, number: int, stratum: Stratum, own: dict, changes: dict) -> Mapping[str, AnyChange]:
        """What changes of a stratum's relations; their tables then have what is new as their delta."""
        self.in_driver.set_counts_aside(number)
        if number in self.stale:
            return self._all_anew(number, {name: self.kept(name) for name in stratum.relations})
        if closure := self.closure(number, own, changes):
            self.in_driver.mark_new({closure.edges}, changes)
            unread = closure.relation in self.spread or is_unspelt(self.tables[closure.relation])
            pairs = None if unread else self.tables[closure.relation]
            if not felt(self.tables[closure.edges], cast(Change, changes[closure.edges]), pairs):
                return {}
        before = {name: self.kept(name) for name in stratum.relations}
        for way in self._ways(number, stratum, own, changes, closure):
            if (found := way()) is not None:
                return found
        return self._all_anew(number, before)

    def _ways(
        self, number: int, stratum: Stratum, own: dict, changes: dict, closure: Closure | None
    ) -> Iterator[Callable[[], Mapping[str, AnyChange] | None]]:
        """The ways to maintain a stratum, in the order in which they are tried."""
        if self._is_spread(stratum, changes):
            yield partial(self.across.changes_of_closure, number, own, changes)
            yield partial(self._maintained, self.across, number, stratum, own, changes)
            return
        if not stratum.rules and self.are_plain(stratum):
            yield lambda: {name: self._of_facts(name, change) for name, change in own.items()}
        components = partial(self._by_components, number, closure, changes) if closure else None
        dense = closure and is_dense(self.tables[closure.edges], self.tables[closure.relation])
        if components and dense:
            yield components
        yield partial(self._maintained, self.in_driver, number, stratum, own, changes)
        if components and not dense:
            yield components

    def _maintained(
        self, place: InDriver | AcrossPartitions, number: int, stratum: Stratum, own: dict, changes: dict
    ) -> Mapping[str, AnyChange] | None:
        """Maintain a stratum by delta rules where it is. None if it has to be computed anew: then all is as it was."""
        allowed, ticks = self._budget(number), number in self.ticks
        loses = any(change.went for change in (*own.values(), *(changes[name] for name in stratum.reads & changes.keys())))
        most = allowed.bindings(self.config.follow, bounded=not (loses or stratum.recursive))
        dear = most <= FREE or place.lacks_counts(number)
        if not place.can_follow(number, stratum, own, changes) or not allowed.tries(loses, dear):
            return None
        tables, spread = dict(self.tables), dict(self.spread)
        try:
            found = place.follow(number, stratum, own, changes, most)
            allowed.kept(loses, ticks)
            return found
        except (OverBudget, TooLarge):
            self.tables, self.database.on_partitions = tables, spread  # type: ignore[assignment]
            if allowed.exceeded(loses, ticks) and place.guards and self._may_have_ticks(number):
                self.dense.setdefault(number, True)  # it is computed in any case
            return None

    def few_changed(self, names: Set[str], own: Mapping, changes: Mapping, few: int, part: float) -> bool:
        """True if no more than a part of some relations' tuples, or than a few, have changed."""
        changed = sum((changes.get(name) or own[name]).size for name in names & (changes.keys() | own.keys()))
        return changed <= few or changed <= part * sum(self.database.count(name) for name in names)

    def _is_spread(self, stratum: Stratum, changes: dict[str, AnyChange]) -> bool:
        """Whether it is, or reads, what is on the partitions, or has been until now."""
        changed = {name for name, change in changes.items() if isinstance(change, SpreadChange)}
        return bool((self.spread.keys() | changed) & (stratum.reads | set(stratum.relations)))

    def _by_components(self, number: int, closure: Closure, changes: dict[str, Change]) -> dict[str, Change] | None:
        """What changes of a closure; None where its rules, or to compute it anew, are quicker, and where so much has come that
        it is for the partitions. Pairs that nobody has asked for are counted, and so are many that change."""
        name, pairs = closure.relation, self.tables[closure.relation]
        edges, unspelt, cores = self.tables[closure.edges].blocks("all", (0, 1)), is_unspelt(pairs), self.cluster.here
        found = differing(edges, changes[closure.edges], pairs.count, None if unspelt else pairs.packing, cores)
        if found is None:
            return None
        came, went, change = found.found(implied.FEW)
        count = pairs.count + came - went
        if came + went and self._may_be_implied(number, closure) and count <= self._most_pairs:
            if is_worth_it(pairs, came + went, count):
                self.tables[name] = Implied(edges, count, cores) if count else Table(2)
                return {name: change or CountedClosure(found, came, went)}
        if came > (self.config.local_tuples or 0):
            return None
        change = change or CountedClosure(found, came, went).spelt
        if change.size:
            self.tables[name] = grown(table_without(pairs, change.lost), change.born)
        return {name: change}

    def _of_facts(self, name: str, change: Change) -> Change:
        """A relation without rules has its facts and no more."""
        table = self.tables[name]
        written = self.facts.written.get(name)
        born = change.born if written is None else selected_tuples(change.born, ~membership(change.born, written))
        lost = change.lost if written is None else selected_tuples(change.lost, ~membership(change.lost, written))
        if born.size + lost.size > MOST * table.count:
            table = at_home(table)
        self.tables[name] = grown(table_without(table, lost), born)
        return Change(born, lost)


def _changed(table: Table, change: Change) -> Table:
    found = grown(table_without(table, change.lost), change.born)
    found.settle()
    return found
