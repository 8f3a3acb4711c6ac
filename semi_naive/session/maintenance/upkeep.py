"""How a program's relations follow its facts: stratum by stratum, and only those that something has changed for.

1. Facts of a relation without rules are inserted into its table, or taken out of it.
2. A stratum that reads what has changed, and none of it negated or in an aggregate, follows by delta rules (`following`).
3. One on the partitions goes on there by delta rules, too (`continuing`).
4. Any other stratum is computed anew, by the plan that a run would choose, and compared with what it was: a pass over sorted
   blocks. So is one for which a large part of what it reads has changed, and one that has followed for too long.

What the next strata see of a relation is its table without what it has lost, and what is new as its delta. Tables are never
changed in place: those of the epoch before stay as they are, and are there again if anything fails.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import cast

from semi_naive.balance.jit import load
from semi_naive.planning.passes import Compiled
from semi_naive.planning.strata import Stratum, is_fact, readers
from semi_naive.ra import memory
from semi_naive.ra.failures import told
from semi_naive.ra.rules.block import Block
from semi_naive.ra.rules.changes import (
    Change,
    apart,
    at_home,
    difference,
    empty,
    grown,
    plain,
    reversed_to,
    selected,
    together,
    within,
    without,
)  # fmt: skip
from semi_naive.ra.rules.table import Table, snapshot
from semi_naive.ra.tuple_at_a_time.ready import LOADED, ready
from semi_naive.running.choose_plan import in_one_place
from semi_naive.running.local import TooLarge
from semi_naive.running.recovery import Recovery
from semi_naive.session.maintenance import implied
from semi_naive.session.maintenance.anew import Closure
from semi_naive.session.maintenance.closed_tables import closed, explicit_again
from semi_naive.session.maintenance.closures import differing, felt, is_dense
from semi_naive.session.maintenance.continuing import Continuing
from semi_naive.session.maintenance.flips import is_exact
from semi_naive.session.maintenance.following import Following
from semi_naive.session.maintenance.implied import Counted, Implied, is_unspelt, is_worth_it
from semi_naive.session.maintenance.pace import Kind, Stopwatch, kind_of
from semi_naive.session.maintenance.spread import AnyChange, SpreadChange, here
from semi_naive.session.maintenance.suspecting import TooSlow
from semi_naive.session.maintenance.ticks import Clock

LARGE = 0.2  # of what a stratum reads and has: where more of it is new, the stratum is computed anew
MOST = 0.5  # of a relation's facts: where more come or go, its indexes are made again when they are searched
FEW = 100  # tuples that are followed whatever part they are
MANY = 1 << 17  # tuples of a session whose transactions call kernels by their machine code, from the first one on
SEARCHES = "kernels.ranges", "kernels.inside", "kernels.pack", "kernels.unpack", "kernels.expand_some", "kernels.field_at"
KERNELS = *SEARCHES, "blocks._among", "words._drop", "unions._rows"


class Upkeep(Continuing):
    """The relations of a session."""

    def __post_init__(self):
        program = self.compiled.program  # whose relations may become more (see `extend`), here and nowhere else
        program = replace(program, relations=dict(program.relations), types=dict(program.types))
        self.compiled = replace(self.compiled, program=program)
        super().__post_init__()
        self.local: dict[int, Following] = {}
        self.stale: set[int] = set()  # strata that are computed anew by the next transaction, whatever has changed
        self.taken_up: dict[str, Table] = {}  # what a directory has of relations, while a session is opened there

    def begin(self, given, changeable: Iterable[str]) -> None:
        """Read the facts, compute everything. given: as for `Program.run`, but what is left out begins empty."""
        changeable = set(changeable)
        with told(lambda: self.cluster.known):
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
            if stratum.rules or not self._are_plain(stratum):
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
            load(KERNELS)
            ready(LOADED)

    def extend(self, more: Compiled, inputs: Iterable[str]) -> list[int]:
        """Evaluate more rules, whose relations are new or are read as they are, and keep them up to date. inputs: those of them
        that facts come and go for. Returns the numbers of the strata; after an error there is nothing of them."""
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
        try:
            with told(lambda: self.cluster.known):
                self.read_by = readers(self.strata)
                self._trying(partial(self._all, numbers), self._again)
        except BaseException:
            self.retract(numbers)
            raise
        return numbers

    def retract(self, numbers: Iterable[int]) -> None:
        """Forget strata, and all that there is of their relations. Who reads them now still has their tables."""
        self._go_on_from(self.state())
        for number in numbers:
            self._forget_counts(number)
            for name in self.strata[number].relations:
                every: tuple[dict, ...] = (self.tables, self.spread, self.facts.given, self.facts.written, self.lines)
                for each in (*every, self.program.relations):
                    each.pop(name, None)
                self.shared.discard(name)
                self.indexes.arities.pop(name, None)
            for kept in (self.local, self.closures, self.paces, self.ticks, self.dense, self.deltas, self.waits):
                kept.pop(number, None)
            self.strata[number] = Stratum((), [], False)
        while self.strata and not self.strata[-1].relations:
            self.strata.pop()
        self.read_by = readers(self.strata)

    def _forget_counts(self, number: int) -> dict[str, Table]:
        """Those that a stratum's rules have are not known from now on; what they have been."""
        counted = self.local[number].counts.counted if number in self.local else []
        return {one.relation: self.tables.pop(one.relation) for one in counted if one.relation in self.tables}

    def _prepare(self, changeable: set[str]) -> None:
        """Before strata are computed: their facts are there."""
        self.recovery = Recovery(self, lambda names: None)
        alone = [each for number, each in enumerate(self.strata) if number not in self.looping and self._are_plain(each)]
        self.shared = {name for stratum in alone if not stratum.rules
                       for name in stratum.relations if name in changeable and name not in self.facts.written}  # fmt: skip

    # -- a transaction

    def apply(
        self,
        net: dict[str, Change],
        last: Callable[[Mapping], None] = lambda _: None,
        told_of: Iterable[str] = (),
    ) -> dict[str, AnyChange]:
        """Change explicit facts, and have all relations follow; what has changed of each, in this process where somebody is
        `told_of` it. After an error all is as it was, also after one of `last`, which gets that when all else is done."""
        before = self.state()
        try:
            with told(lambda: self.cluster.known):
                changes = self._trying(partial(self._followed_all, net, set(told_of)), self._again)
            for name in changes:
                self.tables[name] = self.whole.pop(name, self.tables[name])
                self.tables[name].settle()
            self.facts.given |= {name: self.tables[name] for name in net.keys() & self.shared}
            last(changes)
            return changes
        except BaseException:
            self._back_to(before)
            if not self.spread:
                self._end_job()
            raise
        finally:
            self.whole.clear()
            self.database.kept.clear()

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
                    found = self._of_stratum(number, stratum, own, changes)
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
        found = {name: self._compared(name, kept) for name, kept in before.items()}
        for known, name in loop.of.pairs:  # later strata may read what is known, too
            found[known] = found[name]
            kept = self.kept(name)
            self._keep(known, snapshot(kept) if isinstance(kept, Table) else kept)
            self.whole.update({known: self.tables[known]} if name in self.whole else {})
        return found

    def _of_stratum(self, number: int, stratum: Stratum, own: dict, changes: dict) -> Mapping[str, AnyChange]:
        """What changes of a stratum's relations; their tables then have what is new as their delta."""
        counts = self._forget_counts(number)  # only who follows here knows what becomes of them
        if number in self.stale:
            return self._all_anew(number, {name: self.kept(name) for name in stratum.relations})
        if closure := self._closure(number, own, changes):
            self._tell({closure.edges}, changes)
            unread = closure.relation in self.spread or is_unspelt(self.tables[closure.relation])
            pairs = None if unread else self.tables[closure.relation]
            if not felt(self.tables[closure.edges], cast(Change, changes[closure.edges]), pairs):
                return {}
        if self._is_spread(stratum, changes):
            return self._on_partitions(number, stratum, own, changes)
        if not stratum.rules and self._are_plain(stratum):
            return {name: self._of_facts(name, change) for name, change in own.items()}
        before = dict(self.tables)
        dense = closure and is_dense(self.tables[closure.edges], before[closure.relation])
        if closure and dense and (found := self._by_components(number, closure, changes)):
            return found
        if self._can_follow(stratum, own, changes):
            pace, kind = self.paces[number], self._kind(stratum, own, changes)
            if seconds := pace.allowed(kind):
                self._tell(stratum.reads, changes)
                self.tables.update(counts)
                self._count_missing(self._following(number, stratum), changes)
            elif pace.can_invest(kind) and self._may_get_ticks(number, own, changes):
                pace.invest()
                self.dense.setdefault(number, True)  # it is computed anew in any case
            allowed = Stopwatch(seconds)
            try:
                found = self._follow(number, stratum, own, changes, allowed) if seconds else None
                if found is not None:
                    pace.following(kind, allowed.seconds)
                    return found
            except (TooSlow, TooLarge):
                self.tables = before.copy()
                pace.failing(kind, allowed.seconds, number in self.ticks)
                if pace.can_invest(kind) and self._may_get_ticks(number, own, changes):
                    pace.leave(kind)
        if closure and not dense and (found := self._by_components(number, closure, changes)):
            return found
        return self._all_anew(number, before)

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
                return {name: change or Counted(found, came, went)}
        if came > (self.config.local_tuples or 0):
            return None
        change = change or Counted(found, came, went).spelt
        if change.size:
            self.tables[name] = grown(without(pairs, change.lost), change.born)
        return {name: change}

    def _of_facts(self, name: str, change: Change) -> Change:
        """A relation without rules has its facts and no more."""
        table = self.tables[name]
        written = self.facts.written.get(name)
        born = change.born if written is None else selected(change.born, ~within(change.born, written))
        lost = change.lost if written is None else selected(change.lost, ~within(change.lost, written))
        if born.size + lost.size > MOST * table.count:
            table = at_home(table)
        self.tables[name] = grown(without(table, lost), born)
        return Change(born, lost)

    def _tell(self, names: Iterable[str], changes: Mapping[str, AnyChange]) -> None:
        """Tables of relations that were computed anew have what is new as their delta, for who follows it."""
        for name in self.whole.keys() & names & changes.keys():
            if self.tables[name] is self.whole[name]:
                born = cast(Change, changes[name]).born
                self.tables[name] = grown(without(self.whole[name], born), born)

    def _can_follow(self, stratum: Stratum, own: dict[str, Change], changes: dict[str, Change]) -> bool:
        if not all(map(is_exact, stratum.rules)) or self._is_stepwise(stratum):
            return False
        if not self.config.local_tuples and not in_one_place(stratum, self.program.relations):
            return False  # it is to be on the partitions
        names = stratum.reads | set(stratum.relations)
        return self._few_changed(names, own, changes, FEW, LARGE)

    def _kind(self, stratum: Stratum, own: dict[str, Change], changes: dict[str, Change]) -> Kind:
        read = [change for name, change in changes.items() if name in stratum.reads]
        return kind_of((change.born.size, change.lost.size) for change in [*read, *own.values()])

    def _follow(self, number: int, stratum: Stratum, own: dict, changes: dict, allowed: Stopwatch) -> dict[str, Change]:
        """What changes of a stratum, by its rules, if it takes no longer than is allowed; else TooSlow."""
        tables, local = self.tables, self._following(number, stratum)
        changes = changes | self._recounted(local, changes, allowed)
        below = {name: changes[name] for name in local.below & changes.keys()}
        before, begun = {name: tables[name] for name in stratum.relations}, allowed.seconds
        for name, order in local.searches(below):
            if name in before or name in below:
                tables[name].blocks("full", order)  # an index that is missing is made once, whatever becomes of this
        allowed.most += allowed.seconds - begun
        begun, local.each = allowed.seconds, 0.0
        suspected = self._suspected(local, own, below, allowed, self.ticks.get(number))
        with self._expecting(number, begun, allowed) if suspected else nullcontext():
            derived = self._derived_once if local.is_straight else self._derived
            return derived(number, own, below, suspected, allowed)

    @contextmanager
    def _expecting(self, number: int, begun: float, allowed: Stopwatch) -> Iterator[None]:
        """From suspects on, which have been looked for since `begun`: TooSlow if what comes now is likely to take too long."""
        pace, looked = self.paces[number], allowed.seconds - begun
        if not (expected := pace.expected(looked)):
            raise TooSlow
        allowed.most = max(allowed.most, begun + expected)
        try:
            yield
        finally:
            pace.learn(looked, allowed.seconds - begun)

    def _derived(
        self, number: int, own: dict, below: dict[str, Change], suspected: dict[str, Block], allowed: Stopwatch
    ) -> dict[str, Change]:
        """The same, once the suspects are known."""
        tables, stratum, local = self.tables, self.strata[number], self.local[number]
        before = {name: tables[name] for name in stratum.relations}
        rest = {name: without(table, suspected[name]) if name in suspected else table for name, table in before.items()}
        ticks = self.ticks.get(number)
        clock = Clock(stratum, ticks.next) if ticks else None
        for name, table in rest.items():
            if name in local.closed:
                self._close(name, table, own.get(name), suspected.get(name))
                tables[name] = clock.timed(name, tables[name]) if clock else tables[name]
                continue
            tables[name] = clock.timed(name, snapshot(table)) if clock else snapshot(table)
            if name in own:
                tables[name].insert_block(own[name].born)
        local.each = 0.0 if suspected else self.paces[number].each(sum(table.count for table in before.values()))
        local.follow(own, below, suspected, allowed)
        found = {}
        for name, table in rest.items():
            if name in local.closed:
                tables[name] = plain(tables[name])
                if clock:
                    clock.keep(name, tables[name])
                found[name] = self._compared_here(name, before[name], tables[name])
            else:
                found[name] = self._changed(name, before[name], table, suspected.get(name))
        for one in local.counts.counted:
            tables[one.relation].settle()
        if ticks and clock:
            self.ticks[number] = ticks.after(clock.births, clock.now, {name: change.lost for name, change in found.items()})
        return found

    def _derived_once(
        self, number: int, own: dict, below: dict[str, Change], suspected: dict[str, Block], allowed: Stopwatch
    ) -> dict[str, Change]:
        """The same of a relation that none of its rules reads: all that is asked of it is whether it has what they make."""
        (name,), local = self.strata[number].relations, self.local[number]
        table = self.tables[name]
        local.each = 0.0 if suspected else self.paces[number].each(table.count)
        born, gone = (own[name].born if name in own else empty(table.arity)), suspected.get(name) or empty(table.arity)
        again = gone if name in own or name not in local.single else None  # what was a fact may be derived as well
        made = together([born, local.heads(name, below, "born", again, allowed)], table.arity)
        change = Change(selected(made, ~within(made, table)), apart(gone, made))
        self.tables[name] = grown(without(table, change.lost), change.born) if change.size else table
        for one in local.counts.counted:
            self.tables[one.relation].settle()
        return {name: change}

    def _count_missing(self, local: Following, changes: dict[str, Change]) -> None:
        """Count what was there before, as far as it is not known. It takes as long as the aggregates do."""
        missing = [one for one in local.counts.counted if one.relation not in self.tables]
        local.allowed = Stopwatch()
        with self._reversed({name: change for one in missing for name, change in changes.items() if name in one.reads}):
            for one in missing:
                self.tables[one.relation] = local.counts.whole(one)

    def _recounted(self, local: Following, changes: dict[str, Change], allowed: Stopwatch) -> dict[str, Change]:
        """What changes of the counts that a stratum's rules have; their tables then have what is new as their delta."""
        wanted = [one for one in local.counts.counted if one.reads & changes.keys()]
        below = {name: change for one in wanted for name, change in changes.items() if name in one.reads}
        local.allowed, found = allowed, {}
        with self._reversed(below):
            lost = [local.counts.changed(one, below, gained=False) for one in wanted]
        for one, parts in zip(wanted, lost, strict=True):
            change = local.counts.change(one, local.counts.changed(one, below, gained=True), parts)
            self.tables[one.relation] = grown(without(self.tables[one.relation], change.lost), change.born)
            found[one.relation] = change
        return found

    @contextmanager
    def _reversed(self, below: dict[str, Change]) -> Iterator[None]:
        """Relations are as they were before they changed, and have what they have lost as their delta."""
        now = {name: self.tables[name] for name in below}
        self.tables.update({name: reversed_to(table, below[name].lost) for name, table in now.items()})
        yield
        self.tables.update(now)

    def _close(self, name: str, table: Table, own: Change | None, suspected: Block | None) -> None:
        """A relation has a table of its own sort with the tuples that are left, and, as new, explicit facts that may not be
        among them."""
        relation = self.program.relations[name]
        found = closed(relation, table)
        for facts in (self.facts.given.get(name), self.facts.written.get(name)) if own or suspected else ():
            for block in explicit_again(relation, facts, suspected) if facts else ():
                found.insert_block(block)
        if own:
            found.insert_block(own.born)
        self.database.tables[name] = found

    def _changed(self, name: str, before: Table, rest: Table, suspected: Block | None) -> Change:
        """What has changed of a relation that has followed, from the rest that it had without suspects."""
        after = self.tables[name]
        added, gone = difference(rest, after).born, suspected or empty(after.arity)
        change = Change(apart(added, gone), apart(gone, added))
        table = without(before, change.lost) if change.lost.size < gone.size else rest
        for order in after.full:
            table.blocks("full", order)  # an index that has been missing until now
        self.tables[name] = grown(table, change.born) if change.size else before
        return change

    def _suspected(self, local: Following, own: dict, below: dict[str, Change], allowed: Stopwatch, ticks) -> dict[str, Block]:
        """The tuples of a stratum that may have no derivation left."""
        deleted = {name: change.lost for name, change in own.items() if change.lost.size}
        shut = {flip.relation for flip in local.flips}
        if not deleted and not any(change.lost.size or name in shut for name, change in below.items()):
            return {}
        given = {name: self._explicit(name) for name in local.stratum.relations if name in local.known}
        with self._reversed(below):
            found = local.suspect(deleted, below, given, allowed, ticks)
        return {name: block for name, block in found.items() if block.size}

    def _following(self, number: int, stratum: Stratum) -> Following:
        if number not in self.local:
            stays = in_one_place(stratum, self.program.relations)
            budget = None if stays else self.config.local_tuples
            self.local[number] = Following(
                stratum, number, self.database, self.indexes, self.profile, budget, multiway=self.config.multiway,
                memory=self.config.memory, stays=stays, small=self.config.small_delta, cores=self.cluster.here,
                known=set(self.facts.given) | set(self.facts.written),
            )  # fmt: skip
        return self.local[number]

    def _may_get_ticks(self, number: int, own: dict[str, Change], changes: dict[str, Change]) -> bool:
        """Whether what has gone made a stratum follow for too long whose suspects can be guarded, and are not yet. To compute
        it so takes longer; what was saved pays for that, in a transaction without an attempt."""
        local, stratum = self._following(number, self.strata[number]), self.strata[number]
        lost = any(change.lost.size for name, change in (own | changes).items() if name in own or name in local.below)
        able = stratum.recursive and self._can_have_ticks(stratum)
        return lost and able and not {number} & (self.closures.keys() | self.ticks.keys() | self.dense.keys())


def _changed(table: Table, change: Change) -> Table:
    found = grown(without(table, change.lost), change.born)
    found.settle()
    return found
