"""Compile a rule's body, in an order of its atoms, into steps: each literal is applied as soon as its variables are bound.

    sg(x, y) :- delta sg(a, b), edge(a, x), edge(b, y).

becomes: scan delta sg → join edge on a → keep x and b, once each → join edge on b. The order is chosen for the current sizes
(see `order`), and the body is compiled again when they have changed, which takes some 100 µs."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from semi_naive.planning.joins.fanout import Sizes
from semi_naive.planning.joins.multiway import CyclicCore, pushed
from semi_naive.planning.joins.placing import NOWHERE, Placing
from semi_naive.planning.joins.solving import solved
from semi_naive.planning.rewrite import variables_of, walk
from semi_naive.ra import ir
from semi_naive.ra.cached import cached
from semi_naive.ra.ir import Aggregate, Atom, Compare, Kind, Literal, Not, Order, Pack, Range, Rule, Term, Truth, Var, Wild
from semi_naive.ra.rules import steps
from semi_naive.ra.rules.aggregated import Aggregated
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.exists import Without
from semi_naive.ra.rules.folding import Streamed
from semi_naive.ra.rules.gathering import Gather, Hold
from semi_naive.ra.rules.weighing import Weigh, extreme_only

Binds = tuple[tuple[int, str], ...]  # (place in the order of an index, variable) of the columns that bind a variable
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
    """Return the names of the variables of a term, a literal, or an iterable of them."""
    if isinstance(node, Var):  # a fast path: planning spends most of its time in this function
        return {node.name}
    if isinstance(node, Atom) and all(isinstance(term, Var) for term in node.args):
        return {term.name for term in node.args}
    return set(variables_of(node))


@dataclass
class ChosenAtom:
    """One atom of the join order, for `explain`.

    part: the part of the relation that it reads ("full", "delta", "all"); bound: the columns that are bound when it is joined;
    expected: the estimated number of bindings after the join; reason: why it was chosen."""

    atom: Atom
    part: str
    bound: tuple[int, ...]
    expected: float
    reason: str = ""


@dataclass
class PlannedBody:
    """A compiled rule or delta version: its derivation, and its join order."""

    rule: Rule
    derivation: Derivation
    atoms: list[ChosenAtom] = field(default_factory=list)
    sizes: dict[str, float] = field(default_factory=dict)  # the sizes of the relations when it was planned
    note: str = ""  # the reason why a cyclic body is joined atom by atom
    first: str = ""  # the relation of the delta, if no other atom reads it: every order begins with it

    @cached
    def has_alternatives(self) -> bool:
        """True if there may be a better order: two atoms have only one worth trying."""
        return sum(isinstance(literal, ir.Atom) for literal in self.rule.body) > 2

    def outgrown(self, sizes: Sizes) -> bool:
        """True if a relation has grown or shrunk so much since planning that another order may be better."""
        if not self.has_alternatives:
            return False
        for name, planned in self.sizes.items():
            least = MIN_TUPLES_OF_FIRST if name == self.first else MIN_TUPLES
            now, then = max(sizes.size(name), least), max(planned, least)
            if now > REPLAN_RATIO * then or then > REPLAN_RATIO * now:
                return True
        return False

    @cached
    def searched(self) -> set[tuple[str, ir.Order]]:
        """The indexes that the steps search: (relation, order)."""
        return searched_indexes(self.derivation.steps)


def searched_indexes(body_steps: list) -> set[tuple[str, ir.Order]]:
    """Return the indexes that the steps of a body search, including those inside aggregates, as (relation, order)."""
    found: set[tuple[str, ir.Order]] = set()
    for step in body_steps:
        found |= getattr(step, "searched", set())
        found |= searched_indexes(getattr(step, "steps", []))
    return found


class Ungrounded(AssertionError):
    """Raised if nothing binds the variables of a literal, which is impossible in a checked program."""


class Compiler:
    """Compiles one body, or the body of an aggregate in it.

    While it compiles, `atoms` are the (place in the body, atom) pairs that are not joined yet, `pending` the other literals
    that are not applied yet, and `bound` the names of the bound variables."""

    def __init__(
        self, rule: Rule, choose: Any, order_for: Callable[[str, frozenset[int]], Order], parts: dict[int, str],
        every: bool = False, placing: Placing = NOWHERE, deal: bool = False, whole: bool = False,
        sizes: DriverDatabase | None = None,
    ):  # fmt: skip
        """choose: returns the next atom to join (see `order.Greedy`); order_for: returns an index that begins with some
        columns (see `Indexes.order_for`); parts: by place of an atom, the part of the relation that it reads, if not "all";
        every: bindings are a multiset, and a projection must not drop equal ones, as in an aggregate; placing: which indexes
        are partitioned, with each tuple on one partition; deal: each partition starts from its share of the first atom's
        tuples; whole: keep all variables of each binding, and its wildcards, because bindings that are sent are sets; sizes:
        of relations in the driver, which makes indexes of some columns, or in another order, if they pay."""
        self.rule, self.choose, self.order_for, self.parts, self.every = rule, choose, order_for, parts, every
        self.placing, self.deal, self.whole, self.sizes = placing, deal, whole, sizes
        self.steps: list = []
        self.bound: set[str] = set()
        # The terms from which variables got a symbol or record, if bindings may move to another partition.
        self.made_content: dict[str, Term] = {}
        self.first_joined = every  # True if bindings are on the partitions of the first atom's tuples
        self.streams: Mapping[str, Derivation] = {}  # the derivations of relations without a table
        self.weighs = False  # bindings may have a WEIGHT: equal ones are counted, not listed
        self.core: CyclicCore | None = None  # atoms that are joined together, except a delta among them
        # Returns the core of an aggregate's body, given the body and the variables that are bound outside.
        self.choose_inner_core: Callable[[tuple, set[str]], CyclicCore | None] = lambda body, outer: None
        self._fresh_names = 0

    def compile(self, body: Iterable[Literal], start: Collection[str] = (), outside: Collection[str] = frozenset()) -> list:
        """Return the steps of a body. start: variables bound before it; outside: variables that are needed after it."""
        self.bound = set(start)
        self.outside = frozenset(outside)
        self.atoms = [(number, literal) for number, literal in enumerate(body) if isinstance(literal, Atom)]
        self.pending = [literal for literal in body if not isinstance(literal, Atom)]
        self.apply_ready()
        while self.atoms:
            number, atom = self.choose(self.atoms, self.bound)
            self.atoms = [(n, a) for n, a in self.atoms if n != number]
            rest_of_core = self._rest_of_core(number)
            if self.core and (self.core.apart or self.core.indexed) and rest_of_core:
                from semi_naive.planning.joins.bigjoin import BigJoinCompiler  # few programs have a cyclic core

                self.choose.undo()  # BigJoinCompiler chooses the atom to start from, and the order of the others
                BigJoinCompiler(self, {number: atom} | rest_of_core, self.core).compile(number)
            elif self.core and rest_of_core:
                self._join_core({number: atom} | rest_of_core, self.core)
            else:
                self.join(number, atom)
            self.apply_ready()
        if self.pending:
            raise Ungrounded(f"nothing binds the variables of {', '.join(map(str, self.pending))}")
        return self.steps

    # -- needed variables

    def live(self) -> set[str]:
        """Return the names of the live variables: those that the head, a pending literal or an atom not yet joined needs."""
        needed = set(self.outside) | (self.bound if self.whole else set())
        for literal in [*self.pending, *(atom for _, atom in self.atoms)]:
            needed |= names_of_variables(literal)
        return self._with_operands(needed, self._names_whose_content_is_read) | {steps.GROUP, steps.WEIGHT}

    def _with_operands(self, needed: set[str], names_read: Callable[[], set[str]]) -> set[str]:
        """Add the variables from which needed symbols and records are made, if their content is read: `names_read()`. A task
        on another partition does not know the content, and makes it again (`exchange_segments`)."""
        read = names_read() if self.made_content else set()
        for name, term in reversed(self.made_content.items()):
            if name in needed & read:
                needed, read = needed | names_of_variables(term), read | names_of_variables(term)
        return needed

    def _names_whose_content_is_read(self) -> set[str]:
        """Return the variables of which a later literal or the head reads the content. An atom's argument only compares ids."""
        head = set(self.outside) if self.every else names_of_variables(_computed_arguments(self.rule.head))
        computed = (names_of_variables(_computed_arguments(atom)) for _, atom in self.atoms)
        return head.union(names_of_variables(self.pending), *computed)

    def _is_bound(self, term: Term | Literal) -> bool:
        return not has_wild(term) and names_of_variables(term) <= self.bound

    def _are_bound(self, atom: Atom) -> bool:
        return all(self._is_bound(term) for term in atom.args)

    def _fresh_name(self, prefix: object) -> str:
        """Return a numbered variable name that the rule does not have: passes make such names, too."""
        while True:
            self._fresh_names += 1
            if (name := f"{prefix}.{self._fresh_names}") not in variables_of(self.rule):
                return name

    # -- atoms

    def join(self, number: int, atom: Atom) -> None:
        """Add the join with the atom at a place of the body: search an index by the bound columns, bind the new variables, and
        project the bindings if that pays."""
        keys, new = self._match_arguments(number, atom)
        live = self.live() | (set(new.values()) if self.whole else set())
        part = "share" if self.deal else self.parts.get(number, "all")
        self.deal, self.first_joined = False, True
        order = self.order_for(atom.relation, frozenset(keys))
        used = (*order[: len(keys)], *sorted(column for column, name in new.items() if name in live))
        is_searched = part not in ("delta", "share")  # these are scanned, in the order that they have
        bounds = self._range_of_new(atom, new) if is_searched else None
        if bounds:
            ranged = bounds[0]
            order = (*order[: len(keys)], ranged, *(column for column in order[len(keys) :] if column != ranged))
            used = tuple(sorted(used, key=order.index))
        if keys and number not in self.parts and part == "all" and self._choose_projected_index(atom, used):
            order = used
        place_of = {column: place for place, column in enumerate(order)}
        binds = tuple((place_of[column], name) for column, name in sorted(new.items()) if name in live)
        key_terms = tuple(keys[column] for column in order[: len(keys)])
        if is_searched:
            order = self._exchange_if_partitioned(atom.relation, order, key_terms, self.every or bool(binds))
        may_repeat = not self.every and (self.bound - live or len(binds) < len(order) - len(keys))
        step = steps.Join(atom.relation, part, order, key_terms, binds, frozenset(live), self.every)
        step.least, step.greatest = bounds[1:] if bounds else ((), ())
        step.composed = self._composition(keys, binds, live, atom)
        if atom.relation in self.streams:
            columns = tuple((order[place], name) for place, name in binds)
            self.steps.append(Streamed(atom.relation, self.streams[atom.relation], columns))
        else:
            self.steps.append(Weigh(step) if self.weighs and not binds else step)
        self.bound |= set(new.values())
        atoms_only_filter = all(self._are_bound(other) for _, other in self.atoms)  # so duplicates are not joined again
        if may_repeat and binds and step.composed is None and not atoms_only_filter:
            self._project(live)

    def _match_arguments(self, number: int, atom: Atom) -> tuple[dict[int, Term], dict[int, str]]:
        """Return (the bound terms to search by, the names of the variables to bind), each by column. A column whose argument is
        neither gets a fresh variable, and a comparison of it with the argument is added to the pending literals."""
        keys: dict[int, Term] = {}
        new: dict[int, str] = {}
        comparisons = []
        for column, term in enumerate(atom.args):
            if self._is_bound(term):
                keys[column] = term
            elif isinstance(term, Var) and term.name not in new.values():
                new[column] = term.name
            elif self.whole or not isinstance(term, Wild):
                new[column] = self._fresh_name(number)
                if not isinstance(term, Wild):
                    comparisons.append(Compare("=", Var(new[column], term.kind), term, term.kind))
        self.pending += comparisons
        return keys, new

    def _project(self, live: set[str]) -> None:
        """Add a projection to the live variables, which drops duplicate bindings."""
        self.bound &= live
        self.steps.append(steps.EarlyProjection(tuple(sorted(self.bound - {steps.GROUP}))))

    def _choose_projected_index(self, atom: Atom, used: Order) -> bool:
        """Decide whether to search an index that has only the columns in use, without duplicates. If it pays, lower the
        expected number of bindings, log the reason, and return True."""
        if self.sizes is None or self.every or self.whole or len(used) == len(atom.args):
            return False
        share = self.sizes.projects(atom.relation, used, self.choose.rows)
        if share < 1.0:
            self.choose.cap(share * self.choose.rows, len(self.choose.log) - 1)
            self.choose.log[-1].reason += f"; distinct in the columns in use, one tuple of {1 / share:,.0f}"
        return share < 1.0

    def _range_of_new(self, atom: Atom, new: dict[int, str]) -> tuple[int, tuple[Term, ...], tuple[Term, ...]] | None:
        """Return (column, lower bounds, upper bounds): a column of numbers whose new variable is compared with bound terms, so
        that only tuples between them are needed. None if there is none, or if an index that is sorted by this column after the
        keys does not pay. new: the names of the new variables, by column."""
        if self.sizes is None:
            return None
        lower: dict[str, list[Term]] = {}
        upper: dict[str, list[Term]] = {}
        for literal in self.pending:
            if isinstance(literal, Compare) and literal.kind is Kind.NUMBER and literal.op[0] in "<>":
                for op, side, other in literal.both_ways():
                    if isinstance(side, Var) and side.name in new.values() and self._is_bound(other):
                        (upper if op[0] == "<" else lower).setdefault(side.name, []).append(other)
        ranged = [column for column, name in new.items() if name in lower or name in upper]
        if not ranged or not self.sizes.repays_index(atom.relation, self.choose.rows):
            return None
        column = max(ranged, key=lambda column: new[column] in lower and new[column] in upper)
        name = new[column]
        self.choose.log[-1].reason += f"; a range of {name}"
        return column, tuple(lower.get(name, ())), tuple(upper.get(name, ()))

    def _exchange_if_partitioned(self, relation: str, order: Order, keys: tuple[Term, ...], counts: bool) -> Order:
        """Add an exchange to the bucket of the keys if an index is partitioned. Return the order to search in: () if the search
        only tests whether the relation has a tuple, and tuples are not counted. That index of no columns is on every host, and
        needs no exchange."""
        if not self.placing(relation, order):
            return order
        if not keys and not counts and relation not in self.placing.own:
            return ()
        needed = (self.live() | names_of_variables(keys)) & self.bound
        self.steps.append(steps.Exchange(relation, order, keys, frozenset(needed)))
        return order

    def _rest_of_core(self, number: int) -> dict[int, Atom]:
        """Return the other atoms of the core to which an atom belongs, by place; {} for a delta, which is joined before its
        core."""
        if self.core is None or number not in self.core.places or self.parts.get(number) == "delta":
            return {}
        return {n: atom for n, atom in self.atoms if n in self.core.places}

    def _join_core(self, atoms: dict[int, Atom], core: CyclicCore) -> None:
        """Add one multiway join of the atoms of a core, given by place. Its loops also test the pending literals that they
        can."""
        from semi_naive.ra.by_variable.multiway import Multiway  # few programs have a cyclic core

        self.atoms = [(n, atom) for n, atom in self.atoms if n not in atoms]
        self.choose.together(self.atoms, atoms, self.bound, core.reason)
        names = names_of_variables(atoms.values())
        tested = tuple(literal for literal in self.pending if self._is_tested_in_core(literal, atoms.values()))
        self.pending = [literal for literal in self.pending if literal not in tested]
        compared = tuple(literal for literal in tested if isinstance(literal, Compare))
        denied = tuple(literal.atom for literal in tested if isinstance(literal, Not))
        live, before = self.live(), set(self.bound)
        counted = self.weighs and not names & before
        live |= names if self.every and not counted else set()
        needed = live | before | names_of_variables(tested)
        occurrences = Counter(term.name for atom in atoms.values() for term in atom.args if isinstance(term, Var))
        unused = {name for name, times in occurrences.items() if times == 1 and name not in needed and not counted}
        without_unused = tuple(
            Atom(atom.relation, tuple(Wild() if names_of_variables(term) & unused else term for term in atom.args))
            for atom in atoms.values()
        )
        parts = tuple(self.parts.get(number, "all") for number in atoms)
        binds = tuple(sorted((names - before) & live))
        binary = self._binary_steps(atoms, tested, live) if core.each else []
        self.steps.append(
            Multiway(without_unused, parts, compared, binds, frozenset(live), self.deal, binary, core.each, denied, counted)
        )
        self.deal, self.first_joined = False, True
        self.bound |= names
        if self.every:
            return
        atoms_only_filter = all(self._are_bound(other) for _, other in self.atoms)
        if self.bound - live and binds and not atoms_only_filter:
            self._project(live)
        self.bound &= live

    def _is_tested_in_core(self, literal: Literal, atoms: Collection[Atom]) -> bool:
        """True if the loops of a multiway join of the atoms can test a literal."""
        if isinstance(literal, Not) and self.placing(literal.atom.relation, tuple(range(len(literal.atom.args)))):
            return False
        return pushed(literal, atoms, self.choose.sizes)

    def _binary_steps(self, atoms: dict[int, Atom], tested: tuple[Literal, ...], live: set[str]) -> list:
        """Compile the atoms of a core as binary joins, for batches of few bindings; return [] if these would need an exchange.
        tested: the other literals that the core tests; live: the variables that are needed afterwards."""
        parts = {place: self.parts[n] for place, n in enumerate(atoms) if n in self.parts}
        inner = Compiler(self.rule, self.choose.inner(), self.order_for, parts, placing=self.placing)
        binary = inner.compile([*atoms.values(), *tested], start=self.bound, outside=live)
        return [] if any(isinstance(step, steps.Exchange | Hold) for step in binary) else binary

    def _composition(self, keys: dict[int, Term], binds: Binds, live: set[str], atom: Atom) -> tuple[str, str, str] | None:
        """Return the variables (key, carried, new) if the join composes two binary relations: two variables are bound, one of
        them is the key and not needed afterwards, and one variable is new. Else None."""
        needed = {name for name in self.bound if name in live}
        if self.every or len(atom.args) != 2 or len(keys) != 1 or len(binds) != 1 or len(needed) != 1:
            return None
        (key,), (carried,), ((_, new),) = keys.values(), needed, binds
        if not isinstance(key, Var) or key.name == carried:
            return None
        return key.name, carried, new

    # -- other literals

    def apply_ready(self) -> None:
        """Apply pending literals until none is ready. Filters and bindings come first, then negations, ranges and
        aggregates."""
        while applied := next((each for each in sorted(self.pending, key=_application_rank) if self._apply(each)), None):
            self.pending.remove(applied)

    def filter_ready(self) -> None:
        """Apply the comparisons and tests whose variables are all bound."""
        for literal in list(self.pending):
            if isinstance(literal, Compare | ir.Test | Truth) and self._is_bound(literal):
                self.pending.remove(literal)
                self.steps.append(steps.Filter(literal))

    def _apply(self, literal) -> bool:
        """Add the steps of a literal. Returns False if it is not ready."""
        if isinstance(literal, Compare):
            return self._compare(literal)
        if isinstance(literal, ir.Test | Truth):
            if not names_of_variables(literal) <= self.bound:
                return False
            self.steps.append(steps.Filter(literal))
            return True
        if isinstance(literal, Range):
            return self._range(literal)
        before, bound = len(self.steps), set(self.bound)
        applied = self._add_antijoin(literal.atom) if isinstance(literal, Not) else self._aggregate(literal)
        sends = any(isinstance(step, steps.Exchange | Hold) for step in self.steps[before:])
        if sends and not self.first_joined and self.atoms:
            del self.steps[before:]  # bindings cannot be sent before they are on the partitions of the first atom's tuples
            self.bound = bound
            return False
        return applied

    def _add_antijoin(self, atom: Atom) -> bool:
        """Add the antijoin for a negated atom. Returns False if a variable of it is not bound."""
        if not names_of_variables(atom) <= self.bound:
            return False
        if any(has_wild(term) and not isinstance(term, Wild) for term in atom.args):
            # !a([x, _]) has no key to search for: the records that fit are joined, and bindings with none are kept.
            self._add_group(tuple(sorted(names_of_variables(atom))), (atom,))
            return True
        keys = {column: term for column, term in enumerate(atom.args) if not isinstance(term, Wild)}
        order = self.order_for(atom.relation, frozenset(keys))
        key_terms = tuple(keys[column] for column in order[: len(keys)])
        order = self._exchange_if_partitioned(atom.relation, order, key_terms, False)
        self.steps.append(steps.AntiJoin(atom.relation, order, key_terms))
        return True

    def _compare(self, literal: Compare) -> bool:
        """Add a comparison as a filter. An equation may also bind a variable or the fields of a record. Returns False if it is
        not ready."""
        left, right = literal.left, literal.right
        if self._is_bound(left) and self._is_bound(right):
            self.steps.append(steps.Filter(literal))
            return True
        if literal.op != "=":
            return False
        for side, other in ((left, right), (right, left)):
            if isinstance(side, Var) and side.name not in self.bound and self._is_bound(other):
                self.steps.append(steps.Bind(side.name, other))
                self.bound.add(side.name)
                if self.placing is not NOWHERE and makes_content(other):
                    self.made_content[side.name] = other
                return True
            if isinstance(side, Pack) and self._is_bound(other):
                self._unpack(side, other)
                return True
        if solution := solved(literal, self.bound):
            name, term = solution
            self.steps.append(steps.Bind(name, term))
            self.bound.add(name)
            return True
        if isinstance(left, Pack) and isinstance(right, Pack) and left.branch == right.branch:
            fields = zip(left.args, right.args, strict=True)
            pairs = [(one, other) for one, other in fields if not isinstance(one, Wild) and not isinstance(other, Wild)]
            self.pending += [Compare("=", one, other, one.kind) for one, other in pairs]
            return True
        return False

    def _unpack(self, pack: Pack, record: Term) -> None:
        """Bind the fields of a known record; fields that are not new variables are compared."""
        names = []
        for term in pack.args:
            if isinstance(term, Var) and term.name not in self.bound and term.name not in names:
                names.append(term.name)
                continue
            names.append(self._fresh_name("field"))
            if not isinstance(term, Wild):
                self.pending.append(Compare("=", Var(names[-1], term.kind), term, term.kind))
        self.steps.append(steps.Unpack(record, tuple(names), pack.branch, pack.tag))
        self.bound |= set(names)

    def _range(self, literal: Range) -> bool:
        """Add the step that generates the values of a range. Returns False if its limits are not bound."""
        needed = names_of_variables([t for t in (literal.start, literal.stop, literal.step) if t is not None])
        if not needed <= self.bound:
            return False
        if literal.result.name in self.bound:  # a second name for the values, compared with the first
            other = Var(self._fresh_name("range"), literal.result.kind)
            self.pending.append(Compare("=", other, literal.result, other.kind))
            literal = Range(other, literal.start, literal.stop, literal.step)
        self.steps.append(steps.Generate(literal, frozenset(self.live())))
        self.bound.add(literal.result.name)
        return True

    def _aggregate(self, literal: Aggregate) -> bool:
        """Add an aggregate. Returns False if a variable that it shares with the rest of the rule is not bound."""
        inner = names_of_variables([*literal.body, *([] if literal.target is None else [literal.target])])
        others = [other for other in (*self.pending, *(atom for _, atom in self.atoms)) if other is not literal]
        shared = inner & (self.outside | names_of_variables(others) | self.bound)
        shared |= names_of_variables(literal.init) if literal.init is not None else set()
        if not shared <= self.bound:
            return False
        self._add_group(tuple(sorted(shared)), literal.body, literal)
        return True

    def _add_group(self, outer: tuple[str, ...], body: tuple[Literal, ...], literal: Aggregate | None = None) -> None:
        """Add the steps of an aggregate of a body, one group for each binding of the outer variables. Without a `literal`, keep
        the bindings whose group is empty: a negation.

        The body is evaluated on the partition of the bindings if all indexes that it reads are on that partition. One exchange
        before the step may bring the bindings to the indexes, if its keys are outer variables. Otherwise the bindings wait
        (`Hold`) until the body has been evaluated on the partitions (`Gather`)."""
        is_result_bound = literal is not None and literal.result.name in self.bound
        target = names_of_variables(literal.target) if literal is not None and literal.target is not None else set()
        outer = tuple(sorted(self._with_operands({*outer}, lambda: names_of_variables(body) | target)))
        inner = self._inner_steps(body, outer, target | {steps.GROUP}, False, literal)
        moves = [step for step in inner if isinstance(step, steps.Exchange | Hold)]
        only = moves[0] if len(moves) == 1 else None
        if isinstance(only, steps.Exchange) and only.keys and names_of_variables(only.keys) <= set(outer):
            self._exchange_if_partitioned(only.relation, only.order, only.keys, True)
            inner.remove(only)
            moves = []
        if not moves:
            self.steps.append(Aggregated(literal, outer, inner, is_result_bound) if literal else Without(outer, inner))
        else:
            held = frozenset(self.live() & self.bound)
            moving = self._inner_steps(body, outer, target, True)
            self.steps += [Hold(outer, held), *moving, Gather(outer, literal, is_result_bound)]
        if literal is not None:
            self.bound.add(literal.result.name)

    def _inner_steps(
        self,
        body: tuple[Literal, ...],
        outer: tuple[str, ...],
        outside: set[str],
        whole: bool,
        literal: Aggregate | None = None,
    ) -> list:
        """Compile the body of an aggregate or a negation, from its outer variables. outside: variables needed after it; whole:
        see `__init__`; literal: the aggregate, if its bindings may be weighed."""
        compiler = Compiler(self.rule, self.choose.inner(), self.order_for, {}, True, self.placing, whole=whole)
        compiler.core = None if whole or len(body) < 2 else self.choose_inner_core(body, set(outer))
        compiler.made_content = {name: term for name, term in self.made_content.items() if name in outer}
        compiler.streams = self.streams
        compiler.weighs = not whole and self.placing is NOWHERE and literal is not None and literal.init is None
        group = {steps.GROUP} & outside  # bindings that wait for a `Gather` have no number of a group
        inner = compiler.compile(body, start={*outer} | group, outside=outside)
        return extreme_only(inner, literal.op, literal.target) if compiler.weighs and literal is not None else inner


def _application_rank(literal: Literal) -> int:
    """Return a sort key for the literals that are ready: the cheapest is applied first."""
    if isinstance(literal, Aggregate):
        return 3
    return 2 if isinstance(literal, Range) else int(isinstance(literal, Not))


def makes_content(term: Term) -> bool:
    """True if a term makes a symbol or a record."""
    return isinstance(term, ir.Call | Pack) and term.kind in (ir.Kind.SYMBOL, ir.Kind.RECORD)


def _computed_arguments(atom: Atom) -> list[Term]:
    return [term for term in atom.args if not isinstance(term, Var)]


def has_wild(term: Term | Literal) -> bool:
    """True if a term or literal contains `_`."""
    return not isinstance(term, Var) and any(isinstance(node, Wild) for node in walk(term))
