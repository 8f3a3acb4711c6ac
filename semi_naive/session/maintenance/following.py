"""A stratum that follows what has come and gone below it, by delta rules, on the tables that are there.

A rule `head :- a, b, c.` whose a and b have new tuples is, with a' for what is new and a⁰ for what was there before:

    head :- a', b⁰, c.        head :- a, b', c.

These are the delta versions of semi-naive evaluation with the changed relations in place of the recursive ones, so each new
combination is met once. What they make is the delta that the stratum's own recursion begins with, and that goes on as in any
run, a tuple or a block at a time. Where tuples are gone, this comes before it (Gupta, Mumick, Subrahmanian 1993, "Maintaining
views incrementally"; Motik et al. 2019, "Maintenance of Datalog materialisations revisited"):

1. suspect: what the same versions make of the tuples that are gone, and whatever follows from it, with all else as it was;
   a tuple that somebody has given is none; and what the rules of `flips` make, if one negates or aggregates what has changed;
   without these, all of that is one recursion (`suspecting`), which begins with what is gone: edge- has that of edge
2. guard, where ticks are known: a suspect that a rule derives from what remains, by older tuples only, is none (see `guard`)
3. without the suspects, rederive: a rule for `head(x, y)` that begins with the suspects, `head(x, y) :- head:(x, y), a, b, c.`;
   not where a head tells all tuples that it was made of, and no other rule makes it
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from semi_naive.planning.joins.body import PlannedBody, names_of_variables
from semi_naive.planning.joins.order import outgrown, versions
from semi_naive.planning.maintaining import Maintained
from semi_naive.planning.maintaining.counted import counting
from semi_naive.planning.maintaining.flips import NEGATED
from semi_naive.planning.maintaining.guarded import DerivationRule, proof
from semi_naive.planning.maintaining.names import asked, explicit, lost, suspects
from semi_naive.planning.maintaining.suspected import suspected, suspecting
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, empty, membership, own_order, selected_tuples, union_of_blocks, with_delta
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Aggregate, Atom, Const, Not, Order, Range, Rule, Var, Wild
from semi_naive.ra.rules.ages import Now, Ticks
from semi_naive.session.maintenance.closed_tables import is_closed, reached
from semi_naive.session.maintenance.counting import Counts
from semi_naive.session.maintenance.guard import Guard, planned
from semi_naive.session.maintenance.heads import Heads
from semi_naive.session.maintenance.suspecting import Incremental, Suspecting


@dataclass
class Following(Incremental):
    """One stratum of a session, from one transaction to the next: its plans are kept. known: the relations that may have
    explicit facts."""

    known: set[str] = field(default_factory=set)

    def __post_init__(self):
        small = self.small
        self.stratum, found = counting(self.stratum)
        self.indexes.arities.update({one.relation: len(one.atom.args) for one in found})
        super().__post_init__()
        self.counts = Counts(self, found)
        self.guard: Guard | None = None  # of the last time
        self.below = self.stratum.reads - set(self.stratum.relations)
        self.changing = [
            (rule, place, parts, -1 - number)
            for rule in self.stratum.rules
            for number, (place, parts) in enumerate(versions(rule, set(self.below)))
        ]  # the numbers are negative: those from 0 on are of the stratum's own recursion
        relations = self.database.program.relations
        self.closed = {name: relations[name] for name in self.stratum.relations if is_closed(relations[name])}
        best = {name for name, relation in self.closed.items() if relation.lattice is not None}
        rules = Maintained(self.stratum, self.known, best)
        self.rederiving, self.flips = rules.rederiving, rules.flips
        heads = Counter(rule.head.relation for rule in self.stratum.rules)
        self.single = {rule.head.relation for rule in self.stratum.rules if heads[rule.head.relation] == 1 and is_single(rule)}
        self.single -= self.closed.keys() | self.recursive
        self.kinds = {name: relations[name].kinds for name in self.stratum.relations}
        self.is_straight = not self.stratum.recursive and not self.closed and len(self.stratum.relations) == 1
        self.proofs = sorted(
            (proof(rule, self.kinds) for rule in self.stratum.rules), key=lambda each: len(each.rule.head.args)
        )
        for name in self.stratum.relations:
            for beside in (suspects(name), asked(name), explicit(name)):
                self.indexes.arities[beside] = self.indexes.arities[name]
        self.suspecting = Suspecting(
            suspecting(self.stratum, self.known, best, self.kinds), self.number, self.database, self.indexes, self.profile,
            multiway=self.multiway, memory=self.memory, stays=self.stays, small=small, cores=self.cores,
        )  # fmt: skip
        for flip in self.flips:
            self.indexes.arities[flip.changed] = self.indexes.arities[flip.relation]
        for name in self.below:
            self.indexes.arities[lost(name)] = self.indexes.arities[name]
        self.losing = {guarded: self._losing(asked if guarded else suspects, best) for guarded in (False, True)}

    def searches(self, below: dict[str, Change]) -> set[tuple[str, Order]]:
        """The relations and orders that are searched for such changes of the relations below."""
        with self._flipped(below, "all") as flipped:
            wanted = [*self._of_changed(set(below)), *flipped, *self.every(False)]
            self._plan(wanted)
            return set().union(*(self._body(*one).searched for one in wanted))

    def follow(self, own: dict[str, Change], below: dict[str, Change], suspected: dict[str, Block]) -> None:
        """To the fixpoint. The relations of `below`, which have changed, have what is new as their delta, those of the stratum
        have new explicit facts, of `own`, in `new`, and lack what is `suspected`. After an error, as OverBudget, the
        tables are inconsistent."""
        self.begin()
        self.tables = {name: self.database.tables[name] for name in self.stratum.relations}
        self.marks = {name: table.mark() for name, table in self.tables.items()}
        with self._flipped(below, "lost") as flipped:
            self._derive_all(flipped)
        gone = self.single - own.keys()  # what was a fact may be derived as well
        with self._suspected({name: block for name, block in suspected.items() if block.size and name not in gone}) as asked:
            first = [(rule, 0, {0: "delta"}, 0) for rule in self.rederiving if rule.head.relation in asked]
            self.begin_with([*first, *self._of_changed({name for name, change in below.items() if change.born.size})])
        self.go_on()

    def heads(self, name: str, below: dict[str, Change], part: str, rederived: Block | None) -> Block:
        """All that the rules for a relation that none of them reads make of what is "born" of the relations below, or of what
        they have "lost", with all else as it is; and what is `rederived` of some tuples."""
        table = cast(Table, self.database.tables[name])
        heads = Heads(table.arity, table.packing)
        self.tables, self.marks = {name: heads}, {name: heads.mark()}
        self.begin()
        changed = {other for other, change in below.items() if getattr(change, part).size}
        flip = "lost" if part == "born" else "born"
        asked = {name: rederived} if rederived is not None and rederived.size else {}
        with self._flipped(below, flip) as flipped, self._suspected(asked):
            again = [(rule, 0, {0: "delta"}, 0) for rule in self.rederiving] if asked else []
            self._derive_all([*again, *self._of_changed(changed), *flipped])
        return heads.united()

    def suspect(
        self, deleted: dict[str, Block], below: dict[str, Change], given: dict[str, Table], ticks: Ticks | None = None
    ) -> dict[str, Block]:
        """Of each relation of the stratum the tuples that may have no derivation any more: all that have one from `deleted`
        explicit facts, or from what relations below have lost, which is their delta, or lack, with what they have now; and
        from such tuples. given: explicit facts of each, without what is deleted; ticks: of all tuples, if they are known. The
        tables stay as they are."""
        if self.is_straight:
            (name,) = self.stratum.relations
            gone = union_of_blocks([*deleted.values(), self.heads(name, below, "lost", None)], self.indexes.arities[name])
            return {name: selected_tuples(gone, ~membership(gone, given[name])) if name in given else gone}
        self.begin()
        linear = len(self.suspecting.again) > len(self.kinds) and not any(each.eqrel for each in self.closed.values())
        guard = self._guard(below, ticks) if linear and ticks else None
        if linear and not deleted and not any(flip.relation in below for flip in self.flips):
            with self._lost(below) as names:
                return self._all_suspected({}, given, guard, [one for name, one in self.losing[bool(guard)] if name in names])
        old = {name: cast(Table, self.database.tables[name]) for name in self.stratum.relations}
        self.tables = {name: Table(table.arity) for name, table in old.items()}
        self.marks = {name: table.mark() for name, table in self.tables.items()}
        for name, block in deleted.items():
            self.tables[name].insert_block(block)
        self._derive_all(self._of_changed({name for name, change in below.items() if change.lost.size}))
        with self._flipped(below, "born") as flipped:
            self._derive_all(flipped)
        return self._all_suspected(self._fresh(given, old), given, guard) if linear else self._by_rounds(given, old)

    def _by_rounds(self, given: dict[str, Table], old: dict[str, Table]) -> dict[str, Block]:
        """All suspects, by relation: the first ones, which are the new tuples of `given`, and the tuples that the rules derive
        from them, round by round and a block at a time. The tables are those of `old` afterwards."""
        tables = self.database.tables
        found: dict[str, list[Block]] = {name: [] for name in old}
        while fresh := self._fresh(given, old):
            tables.update(old)
            for name, table in old.items():
                found[name] += [fresh[name]] if name in fresh else []
                tables[name] = with_delta(table, fresh[name]) if name in fresh else table
            self._derive_all([version for version in self.every(False) if version[0].body[version[1]].relation in fresh])
        tables.update(old)
        return {name: union_of_blocks(blocks, old[name].arity) for name, blocks in found.items()}

    def _all_suspected(
        self, fresh: dict[str, Block], given: dict[str, Table], guard: Guard | None, losing: Sequence[tuple] = ()
    ) -> dict[str, Block]:
        """Those of some tuples, and of what some versions make, that are suspects, with all that follows from them."""
        tables, names = self.database.tables, self.stratum.relations
        for name in names:
            first, after = (Table(tables[name].arity) for _ in range(2))
            tables[asked(name)], tables[suspects(name)] = (first, after) if guard else (after, first)
            first.begin_with(fresh.get(name) or empty(first.arity))
            tables[explicit(name)] = given.get(name) or Table(first.arity)
        try:
            self.suspecting.guard = guard
            self.suspecting.begin()
            if losing:
                self.suspecting.begin_with(losing)
            self.suspecting.go_on()
            blocks = {name: tables[suspects(name)].blocks("all", own_order(tables[name].arity)) for name in names}
            return {name: union_of_blocks(found, tables[name].arity) for name, found in blocks.items()}
        finally:
            if guard:
                guard.now.ticks = Ticks()  # those of now may be others' no longer, and take as much as the tuples
            for name in names:
                for beside in (suspects(name), asked(name), explicit(name)):
                    tables.pop(beside, None)

    def _losing(self, named: Callable[[str], str], best: set[str]) -> list[tuple[str, tuple]]:
        """The versions that begin with what relations below have lost, each with that relation. named: their heads."""
        found = []
        for rule, place, parts, number in self.changing:
            made, name = suspected(rule, self.known, best, named), rule.body[place].relation
            changed = replace(rule.body[place], relation=lost(name))
            body = (*made.body[:place], changed, *made.body[place + 1 :])
            found.append((name, (replace(made, body=body), place, parts, number)))
        return found

    @contextmanager
    def _lost(self, below: dict[str, Change]) -> Iterator[set[str]]:
        """The relations of what relations have lost are there; of which there are any."""
        names = {name for name, change in below.items() if change.lost.size}
        for name in names:
            table = self.database.tables[lost(name)] = Table(below[name].lost.arity)
            table.begin_with(below[name].lost)
        try:
            yield names
        finally:
            for name in names:
                self.database.tables.pop(lost(name), None)

    @contextmanager
    def _flipped(self, below: dict[str, Change], part: str) -> Iterator[list]:
        """The versions that begin with what relations have gained and lost that rules negate or aggregate; of those that they
        negate, only a `part` of it: "born", "lost", or "all"."""
        found = []
        for flip in self.flips:
            if (change := below.get(flip.relation)) is None:
                continue
            parts = {"born": change.born, "lost": change.lost}
            chosen = [parts[part]] if flip.how == NEGATED and part in parts else list(parts.values())
            if any(block.size for block in chosen):
                table = self.database.tables[flip.changed] = Table(change.born.arity)
                table.insert_block(union_of_blocks(chosen, table.arity))
                table.advance()
                found.append((flip.rule, 0, {0: "delta"}, 0))
        try:
            yield found
        finally:
            for flip in self.flips:
                self.database.tables.pop(flip.changed, None)

    def _fresh(self, given: dict[str, Table], old: dict[str, Table]) -> dict[str, Block]:
        """The suspects that have been found since the last time, by relation."""
        fresh = {}
        for name, table in self.tables.items():
            if not table.advance():
                continue
            block = table.delta[table.home]
            if name not in self.closed:
                fresh[name] = selected_tuples(block, ~membership(block, given[name])) if name in given else block
                continue
            fresh[name] = found = reached(self.closed[name], block, old[name])
            if self.closed[name].eqrel:
                table.insert_block(found)
                table.advance()
            else:
                table.delta = {table.home: found} if found.size else {}
        return {name: block for name, block in fresh.items() if block.size}

    def _guard(self, below: dict[str, Change], ticks: Ticks) -> Guard:
        """Those rules prove something that neither negate nor aggregate what has changed; first those without atoms of the
        stratum, as they take the least."""
        shut = {id(flip.closed) for flip in self.flips if flip.relation in below}
        open_ = [each for each in self.proofs if id(each.of) not in shut]
        for each in open_:
            self._planned(each)
        self._plan([])
        planned = [(each.of.head.relation, self._planned(each).derivation.steps) for each in open_]
        proofs = {name: [steps for head, steps in planned if head == name] for name in self.stratum.relations}
        if self.guard is None or not self.guard.has(proofs):
            self.guard = Guard(proofs, Now(ticks), suspects, self.kinds)
        self.guard.now.ticks = ticks
        return self.guard

    def _planned(self, proof: DerivationRule) -> PlannedBody:
        key = id(proof), 0
        if key not in self.bodies or outgrown(self.bodies[key], self.database):
            self.planned = True
            self.bodies[key] = planned(proof, self)
        return self.bodies[key]

    @contextmanager
    def _suspected(self, suspected: dict[str, Block]) -> Iterator[dict[str, Block]]:
        """The relations of suspects are there."""
        tables = self.database.tables
        for name, block in suspected.items():
            table = tables[suspects(name)] = Table(block.arity)
            table.insert_block(block)
            table.advance()
        try:
            yield suspected
        finally:
            for name in suspected:
                tables.pop(suspects(name), None)

    def begin(self) -> None:
        super().begin()
        self.database.kept.clear()

    def _of_changed(self, changed: set[str]) -> list[tuple]:
        """(rule, the atom that reads the delta, parts, number) of the versions that begin with a changed relation."""
        return [one for one in self.changing if one[0].body[one[1]].relation in changed]


def is_single(rule: Rule) -> bool:
    """Whether each head has one instance of the rule at most: it has all variables of the body, which has no wildcards. And
    whether what it negates tells for certain which heads are gone: of `!n(x + 1)` the flip says nothing about x.

    >>> from semi_naive.ra.ir import Kind
    >>> x, y = (Var(name, Kind.NUMBER) for name in "xy")
    >>> is_single(Rule(Atom("p", (x, y)), (Atom("e", (x, y)),))), is_single(Rule(Atom("p", (x,)), (Atom("e", (x, y)),)))
    (True, False)
    """
    atoms = [literal for literal in rule.body if isinstance(literal, Atom)]
    plain = all(isinstance(term, Var | Const) for atom in atoms for term in atom.args)
    closed = not any(isinstance(literal, Aggregate | Range) for literal in rule.body)
    negated = [literal.atom for literal in rule.body if isinstance(literal, Not)]
    certain = all(isinstance(term, Var | Const | Wild) for atom in negated for term in atom.args)
    return (
        plain
        and closed
        and certain
        and names_of_variables(atoms) <= {term.name for term in rule.head.args if isinstance(term, Var)}
    )
