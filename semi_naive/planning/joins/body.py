"""Compile a rule's body, in an order of its atoms, into steps: each literal is applied as soon as its variables are bound.

    sg(x, y) :- delta sg(a, b), edge(a, x), edge(b, y).

becomes: scan delta sg → join edge on a → keep x and b, once each → join edge on b. The order is chosen for the current sizes
(see `order`), and the body is compiled again when they have changed, which takes some 100 µs.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from semi_naive.planning.joins.fanout import Sizes
from semi_naive.planning.joins.multiway import CyclicCore, pushed
from semi_naive.planning.joins.placing import NOWHERE, Placing
from semi_naive.planning.joins.solving import solved
from semi_naive.planning.rewrite import variables_of, walk
from semi_naive.ra import ir
from semi_naive.ra.cached import cached
from semi_naive.ra.ir import Aggregate, Atom, Compare, Kind, Not, Order, Pack, Range, Rule, Term, Truth, Var, Wild
from semi_naive.ra.rules import steps
from semi_naive.ra.rules.aggregated import Aggregated
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.exists import Without
from semi_naive.ra.rules.folding import Streamed
from semi_naive.ra.rules.gathering import Gather, Hold
from semi_naive.ra.rules.weighing import Weigh, extreme_only

REPLAN_RATIO = 8  # change of a size since the last planning, larger or smaller, at which a body is planned again
MIN_TUPLES = 64  # tuples of a relation up to which its size does not affect the order
MIN_TUPLES_OF_FIRST = 4096  # the same for the relation with which a body begins


class DriverDatabase(Protocol):
    def projects(self, relation: str, columns: Order, bindings: float) -> float:
        """Return the share of a complete relation's tuples that are distinct in some columns, if an index of these alone pays:
        a join makes `bindings` bindings without it. Otherwise 1."""

    def repays_index(self, relation: str, bindings: float) -> bool:
        """True if an index of a relation takes less time to make than this number of bindings."""


def names_of_variables(node) -> set[str]:
    """The names of the variables of a term, a literal, or several."""
    if isinstance(node, Var):  # most are: planning is mostly this
        return {node.name}
    if isinstance(node, Atom) and all(isinstance(term, Var) for term in node.args):
        return {term.name for term in node.args}
    return set(variables_of(node))


@dataclass
class Chosen:
    """The place of one atom in the order, for `explain`: its bound columns, and the expected number of bindings after it."""

    atom: Atom
    part: str
    bound: tuple[int, ...]
    expected: float
    reason: str = ""


@dataclass
class PlannedBody:
    """A compiled rule or delta version: its derivation, and the reasons for its join order."""

    rule: Rule
    derivation: Derivation
    atoms: list[Chosen] = field(default_factory=list)
    sizes: dict[str, float] = field(default_factory=dict)  # the sizes of the relations when it was planned
    note: str = ""  # the reason why a cyclic body is joined atom by atom
    first: str = ""  # the relation with which every order begins, if it is read once

    @cached
    def is_ordered(self) -> bool:
        """True if another order of its joins may be better: it has more than two atoms."""
        return sum(isinstance(literal, ir.Atom) for literal in self.rule.body) > 2

    def outgrown(self, sizes: Sizes) -> bool:
        """True if a relation has become so much larger or smaller that another order may be better."""
        if not self.is_ordered:
            return False
        for name, planned in self.sizes.items():
            least = MIN_TUPLES_OF_FIRST if name == self.first else MIN_TUPLES
            now, then = max(sizes.size(name), least), max(planned, least)
            if now > REPLAN_RATIO * then or then > REPLAN_RATIO * now:
                return True
        return False

    @cached
    def searched(self) -> set[tuple[str, ir.Order]]:
        """The relations and orders that its steps search."""
        return searched_indexes(self.derivation.steps)


def searched_indexes(given) -> set[tuple[str, ir.Order]]:
    """Return the relations and orders that steps search, including steps inside aggregates. given: the steps."""
    found: set[tuple[str, ir.Order]] = set()
    for step in given:
        found |= getattr(step, "searched", set())
        found |= searched_indexes(getattr(step, "steps", []))
    return found


class Compiler:
    """Compiles one body. `choose(candidates, bound)` returns the next atom; `order_for(relation, columns)` an index."""

    def __init__(
        self, rule: Rule, choose, order_for, parts, every: bool = False, placing: Placing = NOWHERE, deal: bool = False,
        whole: bool = False, sizes: DriverDatabase | None = None,
    ):  # fmt: skip
        """placing: which indexes are partitioned, with each tuple on one partition; deal: each partition starts from its share
        of the first atom's tuples; whole: keep all variables of each binding, and its wildcards, because bindings that are
        sent are sets; sizes: of relations in the driver, where indexes of some columns, or in another order, are made if
        they pay."""
        self.rule, self.choose, self.order_for, self.parts, self.every = rule, choose, order_for, parts, every
        self.placing, self.deal, self.whole, self.sizes = placing, deal, whole, sizes
        self.steps: list = []
        self.bound: set[str] = set()
        self.made: dict[str, Term] = {}  # variables of symbols and records that the rule makes, if bindings may move
        self.fresh = 0
        self.begun = every  # whether the tuples of a first atom have been read: bindings are where those are
        self.streams: Mapping[str, Derivation] = {}  # of relations without a table, what makes their tuples
        self.weighs = False  # bindings may have a WEIGHT: equal ones are counted, not listed
        self.core: CyclicCore | None = None  # atoms that are joined together, but for a delta among them
        self.core_of: Callable[[tuple, set[str]], CyclicCore | None] = lambda body, outer: None  # of an aggregate's body

    def compile(self, body, start=(), outside=frozenset()) -> list:
        """Steps for `body` from bindings of `start`; `outside`: variables that are needed when it is done."""
        self.bound = set(start)
        self.outside = frozenset(outside)
        self.atoms = [(number, literal) for number, literal in enumerate(body) if isinstance(literal, Atom)]
        self.left = [literal for literal in body if not isinstance(literal, Atom)]
        self.apply_ready()
        while self.atoms:
            number, atom = self.choose(self.atoms, self.bound)
            self.atoms = [(n, a) for n, a in self.atoms if n != number]
            together = self._together(number)
            if self.core and (self.core.apart or self.core.indexed) and together:
                from semi_naive.planning.joins.bigjoin import BigJoinCompiler  # few programs have a cyclic core

                self.choose.undo()
                BigJoinCompiler(self, {number: atom} | together, self.core).compile(number)
            elif self.core and together:
                self._multiway({number: atom} | together, self.core)
            else:
                self.join(number, atom)
            self.apply_ready()
        if self.left:
            raise AssertionError(f"nothing binds the variables of {', '.join(map(str, self.left))}")  # the checks see to it
        return self.steps

    # -- needed variables

    def live(self) -> set[str]:
        """Return the variables that are still needed: by the head, by literals that are not applied, and by atoms that are not
        joined."""
        needed = set(self.outside) | (self.bound if self.whole else set())
        for literal in [*self.left, *(atom for _, atom in self.atoms)]:
            needed |= names_of_variables(literal)
        return self._with_operands(needed, self._read) | {steps.GROUP, steps.WEIGHT}

    def _with_operands(self, needed: set[str], read: Callable[[], set[str]]) -> set[str]:
        """Add the variables from which needed symbols and records are made, if their content is `read` and not only their ids
        compared. A task on another partition does not know the content, and makes it again (`exchange_segments`)."""
        found = read() if self.made else set()
        for name, term in reversed(self.made.items()):
            if name in needed & found:
                needed, found = needed | names_of_variables(term), found | names_of_variables(term)
        return needed

    def _read(self) -> set[str]:
        """The variables that are left to be read by more than an atom's lookup."""
        head = set(self.outside) if self.every else names_of_variables(_computed(self.rule.head))
        return head.union(names_of_variables(self.left), *(names_of_variables(_computed(atom)) for _, atom in self.atoms))

    def _known(self, term) -> bool:
        return not has_wild(term) and names_of_variables(term) <= self.bound

    # -- atoms

    def join(self, number: int, atom: Atom) -> None:
        """Add the join with an atom: search an index by the known columns, bind the new variables, project if that pays."""
        keys: dict[int, Term] = {}
        new: dict[int, str] = {}
        after = []
        for place, term in enumerate(atom.args):
            if self._known(term):
                keys[place] = term
            elif isinstance(term, Var) and term.name not in new.values():
                new[place] = term.name
            elif self.whole or not isinstance(term, Wild):
                self.fresh += 1
                name = f"{number}.{self.fresh}"
                new[place] = name
                if not isinstance(term, Wild):
                    after.append(Compare("=", Var(name, term.kind), term, term.kind))
        self.left += after
        live = self.live() | (set(new.values()) if self.whole else set())
        part = "share" if self.deal else self.parts.get(number, "all")
        self.deal, self.begun = False, True
        order = self.order_for(atom.relation, frozenset(keys))
        used = (*order[: len(keys)], *sorted(place for place, name in new.items() if name in live))
        between = self._between(atom, new) if part not in ("delta", "share") else None
        if between:
            rest = [column for column in order[len(keys) :] if column != between[0]]
            order = (*order[: len(keys)], between[0], *rest)
            used = tuple(sorted(used, key=order.index))
        if keys and number not in self.parts and part == "all" and self._choose_projected_index(atom, used):
            order = used
        rank = {column: place for place, column in enumerate(order)}
        binds = tuple((rank[place], name) for place, name in sorted(new.items()) if name in live)
        ordered = tuple(keys[column] for column in order[: len(keys)])
        if part not in ("delta", "share"):
            order = self._reached(atom.relation, order, ordered, self.every or bool(binds))
        lossy = not self.every and (self.bound - live or len(binds) < len(order) - len(keys))
        step = steps.Join(atom.relation, part, order, ordered, binds, frozenset(live), self.every)
        step.least, step.greatest = between[1:] if between else ((), ())
        step.composed = self._composed(keys, binds, live, atom)
        if atom.relation in self.streams:
            columns = tuple((order[place], name) for place, name in binds)
            self.steps.append(Streamed(atom.relation, self.streams[atom.relation], columns))
        else:
            self.steps.append(Weigh(step) if self.weighs and not binds else step)
        self.bound |= set(new.values())
        if lossy and binds and any(not self._covered(other) for _, other in self.atoms) and step.composed is None:
            kept = tuple(sorted((self.bound & live) - {steps.GROUP}))
            self.steps.append(steps.EarlyProjection(kept))
            self.bound &= live

    def _choose_projected_index(self, atom: Atom, used: Order) -> bool:
        """Join an atom by an index of the columns in use alone, without duplicates, if that pays. Then return True, lower the
        expected number of bindings, and log the reason."""
        if self.sizes is None or self.every or self.whole or len(used) == len(atom.args):
            return False
        share = self.sizes.projects(atom.relation, used, self.choose.rows)
        if share < 1.0:
            self.choose.cap(share * self.choose.rows, len(self.choose.log) - 1)
            self.choose.log[-1].reason += f"; distinct in the columns in use, one tuple of {1 / share:,.0f}"
        return share < 1.0

    def _between(self, atom: Atom, new: dict[int, str]) -> tuple[int, tuple[Term, ...], tuple[Term, ...]] | None:
        """Return (column, least, greatest): a column of numbers whose new variable is compared with bound terms, so that only
        tuples from `least` to `greatest` are needed. The index, if it pays, is sorted by this column after the keys."""
        if self.sizes is None or not self.sizes.repays_index(atom.relation, self.choose.rows):
            return None
        found: dict[str, tuple[list[Term], list[Term]]] = {}
        for literal in self.left:
            if isinstance(literal, Compare) and literal.kind is Kind.NUMBER and literal.op[0] in "<>":
                for op, one, other in literal.both_ways():
                    if isinstance(one, Var) and one.name in new.values() and self._known(other):
                        found.setdefault(one.name, ([], []))[op[0] == "<"].append(other)
        if not found:
            return None
        place, name = max(((place, name) for place, name in new.items() if name in found), key=lambda one: all(found[one[1]]))
        self.choose.log[-1].reason += f"; a range of {name}"
        return place, tuple(found[name][0]), tuple(found[name][1])

    def _reached(self, relation: str, order, keys: tuple, counts: bool) -> tuple[int, ...]:
        """Return the order to search in, after an exchange to the bucket of the keys if the index is partitioned. If the search
        only tests whether the relation has a tuple, and tuples are not counted, it needs no exchange: the index of no columns
        is on every host."""
        if not self.placing(relation, order):
            return order
        if not keys and not counts and relation not in self.placing.own:
            return ()
        needed = (self.live() | names_of_variables(keys)) & self.bound
        self.steps.append(steps.Exchange(relation, order, keys, frozenset(needed)))
        return order

    def _together(self, number: int) -> dict[int, Atom]:
        """Return the other atoms of the core to which an atom belongs. A delta is joined separately, before its core."""
        if self.core is None or number not in self.core.places or self.parts.get(number) == "delta":
            return {}
        return {n: atom for n, atom in self.atoms if n in self.core.places}

    def _multiway(self, atoms: dict[int, Atom], core: CyclicCore) -> None:
        """Add one step that joins several atoms."""
        from semi_naive.ra.by_variable.multiway import Multiway  # few programs have a cyclic core

        self.atoms = [(n, atom) for n, atom in self.atoms if n not in atoms]
        self.choose.together(self.atoms, atoms, self.bound, core.reason)
        new = names_of_variables(atoms.values())
        within = tuple(literal for literal in self.left if self._within(literal, atoms.values()))
        self.left = [literal for literal in self.left if literal not in within]
        compared = tuple(literal for literal in within if isinstance(literal, Compare))
        denied = tuple(literal.atom for literal in within if isinstance(literal, Not))
        live, before = self.live(), set(self.bound)
        counted = self.weighs and not new & before
        live |= new if self.every and not counted else set()
        asked = live | before | names_of_variables(within)
        used = Counter(term.name for atom in atoms.values() for term in atom.args if isinstance(term, Var))
        alone = {name for name, times in used.items() if times == 1 and name not in asked and not counted}
        shown = tuple(
            Atom(a.relation, tuple(Wild() if names_of_variables(t) & alone else t for t in a.args)) for a in atoms.values()
        )
        parts = tuple(self.parts.get(number, "all") for number in atoms)
        binds = tuple(sorted((new - before) & live))
        steps_for_few = self._for_few(atoms, within, live) if core.each else []
        step = Multiway(shown, parts, compared, binds, frozenset(live), self.deal, steps_for_few, core.each, denied, counted)
        self.steps.append(step)
        self.deal, self.begun = False, True
        self.bound |= new
        if self.every:
            return
        if self.bound - live and binds and any(not self._covered(other) for _, other in self.atoms):
            self.steps.append(steps.EarlyProjection(tuple(sorted((self.bound & live) - {steps.GROUP}))))
        self.bound &= live

    def _within(self, literal, atoms) -> bool:
        """True if the loops over some atoms can decide a literal: they bind all its variables."""
        if isinstance(literal, Not) and self.placing(literal.atom.relation, tuple(range(len(literal.atom.args)))):
            return False
        return pushed(literal, atoms, self.choose.sizes)

    def _for_few(self, atoms: dict[int, Atom], within: tuple, live) -> list:
        """Compile the atoms of a core as binary joins; [] if these would need an exchange. within: literals of the core that
        are not joined; live: variables that are needed afterwards."""
        parts = {place: self.parts[n] for place, n in enumerate(atoms) if n in self.parts}
        inner = Compiler(self.rule, self.choose.inner(), self.order_for, parts, placing=self.placing)
        made = inner.compile([*atoms.values(), *within], start=self.bound, outside=live)
        return [] if any(isinstance(step, steps.Exchange | Hold) for step in made) else made

    def _composed(self, keys, binds, live, atom) -> tuple | None:
        """Return (key, carried, new) if the join has this form: two variables are bound, one of them is the key and not needed
        afterwards, and one variable is new. Else None."""
        needed = {name for name in self.bound if name in live}
        if self.every or len(atom.args) != 2 or len(keys) != 1 or len(binds) != 1 or len(needed) != 1:
            return None
        (key,), (carried,) = keys.values(), needed
        if not isinstance(key, Var) or key.name == carried:
            return None
        return key.name, carried, binds[0][1]

    def _covered(self, atom: Atom) -> bool:
        return all(self._known(term) for term in atom.args)

    # -- everything else

    def apply_ready(self) -> None:
        """Apply literals until none is ready. Filters and bindings come first, then negations, ranges and aggregates."""
        progress = True
        while progress:
            progress = False
            for literal in sorted(self.left, key=_application_rank):
                if self._apply(literal):
                    self.left.remove(literal)
                    progress = True
                    break

    def filter_ready(self) -> None:
        """Apply comparisons and tests whose variables are all bound."""
        for literal in list(self.left):
            if (
                isinstance(literal, Compare | ir.Test | Truth)
                and not has_wild(literal)
                and names_of_variables(literal) <= self.bound
            ):
                self.left.remove(literal)
                self.steps.append(steps.Filter(literal))

    def _apply(self, literal) -> bool:
        """Add the steps of a literal. Returns False if it is not ready."""
        if isinstance(literal, Compare):
            return self._compare(literal)
        if isinstance(literal, ir.Test | Truth):
            return self._if_known(names_of_variables(literal), lambda: steps.Filter(literal))
        if isinstance(literal, Range):
            return self._range(literal)
        before, bound = len(self.steps), set(self.bound)
        applied = self._add_antijoin(literal.atom) if isinstance(literal, Not) else self._aggregate(literal)
        if not self.begun and self.atoms and any(isinstance(step, steps.Exchange | Hold) for step in self.steps[before:]):
            del self.steps[before:]  # bindings cannot go anywhere before they are where the first atom's tuples are
            self.bound = bound
            return False
        return applied

    def _if_known(self, names: set[str], make) -> bool:
        """Append a step that `make` returns if all variables in `names` are bound, and return True."""
        if not names <= self.bound:
            return False
        self.steps.append(make())
        return True

    def _add_antijoin(self, atom: Atom) -> bool:
        """Add the antijoin for a negated atom, if all of its variables are bound. Return whether it was added."""
        if not names_of_variables(atom) <= self.bound:
            return False
        if any(has_wild(term) and not isinstance(term, Wild) for term in atom.args):
            # !a([x, _]) has no key to search for: the records that fit are joined, and bindings with none are kept.
            self._grouped(tuple(sorted(names_of_variables(atom))), (atom,))
            return True
        keys = {place: term for place, term in enumerate(atom.args) if not isinstance(term, Wild)}
        order = self.order_for(atom.relation, frozenset(keys))
        key_terms = tuple(keys[column] for column in order[: len(keys)])
        self.steps.append(steps.AntiJoin(atom.relation, self._reached(atom.relation, order, key_terms, False), key_terms))
        return True

    def _compare(self, literal: Compare) -> bool:
        """Add a comparison as a filter; an equation may also bind a variable or the fields of a record."""
        left, right = literal.left, literal.right
        if self._known(left) and self._known(right):
            self.steps.append(steps.Filter(literal))
            return True
        if literal.op != "=":
            return False
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Var) and one.name not in self.bound and self._known(other):
                self.steps.append(steps.Bind(one.name, other))
                self.bound.add(one.name)
                if self.placing is not NOWHERE and makes_content(other):
                    self.made[one.name] = other
                return True
            if isinstance(one, Pack) and self._known(other):
                self._unpack(one, other)
                return True
        if found := solved(literal, self.bound):
            self.steps.append(steps.Bind(*found))
            self.bound.add(found[0])
            return True
        if isinstance(left, Pack) and isinstance(right, Pack) and left.branch == right.branch:
            self.left += [Compare("=", a, b, _kind(a, b)) for a, b in zip(left.args, right.args, strict=True) if _tells(a, b)]
            return True
        return False

    def _unpack(self, pack: Pack, record: Term) -> None:
        """Bind the fields of a known record; fields that are not new variables are compared."""
        names = []
        for term in pack.args:
            if isinstance(term, Var) and term.name not in self.bound and term.name not in names:
                names.append(term.name)
                continue
            self.fresh += 1
            names.append(f"field.{self.fresh}")
            if not isinstance(term, Wild):
                self.left.append(Compare("=", Var(names[-1], term.kind), term, term.kind))
        self.steps.append(steps.Unpack(record, tuple(names), pack.branch, pack.tag))
        self.bound |= set(names)

    def _range(self, literal: Range) -> bool:
        """Add a range, if its limits are bound."""
        needed = names_of_variables([t for t in (literal.start, literal.stop, literal.step) if t is not None])
        if not needed <= self.bound:
            return False
        if literal.result.name in self.bound:  # a second name for the values, compared with the first
            self.fresh += 1
            other = Var(f"range.{self.fresh}", literal.result.kind)
            self.left.append(Compare("=", other, literal.result, other.kind))
            literal = Range(other, literal.start, literal.stop, literal.step)
        self.steps.append(steps.Generate(literal, frozenset(self.live())))
        self.bound.add(literal.result.name)
        return True

    def _aggregate(self, literal: Aggregate) -> bool:
        """Add an aggregate, if the variables that it shares with the rest of the rule are bound."""
        inner = names_of_variables(literal.body)
        inner |= names_of_variables(literal.target) if literal.target is not None else set()
        begin = names_of_variables(literal.init) if literal.init is not None else set()
        shared = inner & (self._live_without(literal) | self.bound) | begin
        if not shared <= self.bound:
            return False
        self._grouped(tuple(sorted(shared)), literal.body, literal)
        return True

    def _grouped(self, outer: tuple[str, ...], body: tuple, literal: Aggregate | None = None) -> None:
        """Add the steps of an aggregate of a body, one group for each binding of the outer variables. Without a `literal`, keep
        the bindings whose group is empty: a negation.

        The body is evaluated on the partition of the bindings if all indexes that it reads are there. One exchange before the
        step may bring the bindings there, if its keys are outer variables. Otherwise the bindings wait (`Hold`) until the body
        has been evaluated on the partitions (`Gather`).
        """
        bound = literal is not None and literal.result.name in self.bound
        target = names_of_variables(literal.target) if literal is not None and literal.target is not None else set()
        outer = tuple(sorted(self._with_operands({*outer}, lambda: names_of_variables(body) | target)))
        made = self._inner(body, outer, target | {steps.GROUP}, False, literal)
        moves = [step for step in made if isinstance(step, steps.Exchange | Hold)]
        first = moves[0] if len(moves) == 1 else None
        if isinstance(first, steps.Exchange) and first.keys and names_of_variables(first.keys) <= set(outer):
            self._reached(first.relation, first.order, first.keys, True)
            made.remove(first)
            moves = []
        if not moves:
            self.steps.append(Aggregated(literal, outer, made, bound) if literal else Without(outer, made))
        else:
            held = frozenset(self.live() & self.bound)
            self.steps += [Hold(outer, held), *self._inner(body, outer, target, True), Gather(outer, literal, bound)]
        if literal is not None:
            self.bound.add(literal.result.name)

    def _inner(self, body, outer: tuple[str, ...], outside: set[str], whole: bool, literal: Aggregate | None = None) -> list:
        """The steps of a body within the body, from its outer variables."""
        compiler = Compiler(self.rule, self.choose.inner(), self.order_for, {}, True, self.placing, whole=whole)
        compiler.core = None if whole or len(body) < 2 else self.core_of(body, set(outer))
        compiler.made = {name: term for name, term in self.made.items() if name in outer}
        compiler.streams = self.streams
        compiler.weighs = not whole and self.placing is NOWHERE and literal is not None and literal.init is None
        made = compiler.compile(body, start={*outer} | ({steps.GROUP} & outside), outside=outside)
        return extreme_only(made, literal.op, literal.target) if compiler.weighs and literal is not None else made

    def _live_without(self, literal) -> set[str]:
        """The variables that occur outside of an aggregate."""
        needed = set(self.outside)
        for other in [*self.left, *(atom for _, atom in self.atoms)]:
            if other is not literal:
                needed |= names_of_variables(other)
        return needed


def _application_rank(literal) -> int:
    return 3 if isinstance(literal, Aggregate) else 2 if isinstance(literal, Range) else int(isinstance(literal, Not))


def makes_content(term) -> bool:
    """True if a term makes a symbol or a record."""
    return isinstance(term, ir.Call | Pack) and term.kind in (ir.Kind.SYMBOL, ir.Kind.RECORD)


def _computed(atom: Atom) -> list[Term]:
    return [term for term in atom.args if not isinstance(term, Var)]


def has_wild(term) -> bool:
    return not isinstance(term, Var) and any(isinstance(node, Wild) for node in walk(term))


def _kind(a, b):
    return next(term.kind for term in (a, b) if not isinstance(term, Wild))


def _tells(a, b) -> bool:
    return not (isinstance(a, Wild) or isinstance(b, Wild))
