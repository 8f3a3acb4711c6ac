"""Compile a rule's body, in an order of its atoms, into steps: each literal is applied as soon as its variables are bound.

    sg(x, y) :- delta sg(a, b), edge(a, x), edge(b, y).

becomes: scan delta sg → join edge on a → keep x and b, once each → join edge on b. The order is chosen for the current sizes
(see `order`), and the body is compiled again when they have changed, which takes some 100 µs."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from semi_naive.planning.joins.body import has_wild, makes_content, names_of_variables
from semi_naive.planning.joins.multiway import CyclicCore
from semi_naive.planning.joins.placing import NOWHERE, Placing
from semi_naive.planning.joins.solving import solved
from semi_naive.planning.rewrite import map_children, variables_of
from semi_naive.ra import ir
from semi_naive.ra.ir import (
    Aggregate,
    Atom,
    Call,
    Compare,
    Kind,
    Literal,
    Not,
    Order,
    Pack,
    Range,
    Rule,
    Term,
    Truth,
    Var,
    Wild,
)
from semi_naive.ra.rules import steps
from semi_naive.ra.rules.aggregated import Aggregated
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.exists import Without
from semi_naive.ra.rules.folding import Streamed
from semi_naive.ra.rules.gathering import Gather, Hold
from semi_naive.ra.rules.weighing import Weigh, extreme_only

NUMBERS = Kind.NUMBER, Kind.UNSIGNED
TOTAL_FUNCTORS = frozenset("+ - * neg band bor bxor bnot bshl bshr bshru min max".split())  # of numbers; they have no errors


class Ungrounded(AssertionError):
    """Raised if nothing binds the variables of a literal, which is impossible in a checked program."""


class Compiler:
    """Compiles one body, or the body of an aggregate in it.

    While it compiles, `atoms` are the (place in the body, atom) pairs that are not joined yet, `pending` the other literals
    that are not applied yet, and `bound` the names of the bound variables."""

    def __init__(
        self, rule: Rule, choose: Any, order_for: Callable[[str, frozenset[int]], Order], parts: dict[int, str],
        every: bool = False, placing: Placing = NOWHERE, deal: bool = False, whole: bool = False,
        sizes: Any = None,
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
        self.projectable: Collection[str] = ()  # recursive relations that may be read by some of their columns
        self.may_project = False  # True if indexes of some columns of such a relation may pay once it has grown
        self.weighs = False  # bindings may have a WEIGHT: equal ones are counted, not listed
        self.core: CyclicCore | None = None  # atoms that are joined together, except a delta among them
        # Returns the core of an aggregate's body, given the body and the variables that are bound outside.
        self.choose_inner_core: Callable[[tuple, set[str]], CyclicCore | None] = lambda body, outer: None
        self._fresh_names = 0

    def compile(self, body: Iterable[Literal], start: Collection[str] = (), outside: Collection[str] = frozenset()) -> list:
        """Return the steps of a body. start: variables bound before it; outside: variables that are needed after it."""
        self.bound, self.outside = set(start), frozenset(outside)
        self.atoms = [(number, literal) for number, literal in enumerate(body) if isinstance(literal, Atom)]
        self.pending = [literal for literal in body if not isinstance(literal, Atom)]
        self.apply_ready()
        while self.atoms:
            number, atom = self.choose(self.atoms, self.bound)
            self.atoms = [(n, a) for n, a in self.atoms if n != number]
            rest_of_core = self._rest_of_core(number)
            if self.core and rest_of_core:
                from semi_naive.planning.joins.core import add_core  # few programs have a cyclic core

                add_core(self, number, {number: atom} | rest_of_core, self.core)
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
        for name, term in reversed(self.made_content.items()):  # a term has only variables made before it
            if name in needed & read:
                needed, read = needed | names_of_variables(term), read | names_of_variables(term)
        return needed

    def _names_whose_content_is_read(self) -> set[str]:
        """Return the variables of which a later literal or the head reads the content. An atom's argument only compares ids."""
        # an aggregate reads the content of its target
        head = set(self.outside) if self.every else names_of_variables(_computed_arguments(self.rule.head))
        computed = (names_of_variables(_computed_arguments(atom)) for _, atom in self.atoms)
        return head.union(names_of_variables(self.pending), *computed)

    def _is_bound(self, term: Term | Literal) -> bool:
        """True if all variables of a term or literal are bound, and it contains no `_`."""
        return not has_wild(term) and names_of_variables(term) <= self.bound

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
        if self._choose_projected_index(number, atom, used, bool(keys)):
            order = used
        place_of = {column: place for place, column in enumerate(order)}
        binds = tuple((place_of[column], name) for column, name in sorted(new.items()) if name in live)
        key_terms = tuple(keys[column] for column in order[: len(keys)])
        if is_searched:
            order = self._exchange_if_partitioned(atom.relation, order, key_terms, counts=self.every or bool(binds))
        # a variable or a column is dropped
        may_repeat = not self.every and (self.bound - live or len(binds) < len(order) - len(keys))
        step = steps.Join(atom.relation, part, order, key_terms, binds, frozenset(live), self.every)
        step.projected = order == used and number in self.parts and len(used) < len(atom.args)  # of a recursive relation
        step.least, step.greatest = bounds[1:] if bounds else ((), ())
        step.composed = self._composition(keys, binds, live, atom)
        if atom.relation in self.streams:
            columns = tuple((order[place], name) for place, name in binds)
            self.steps.append(Streamed(atom.relation, self.streams[atom.relation], columns))
        else:
            self.steps.append(Weigh(step) if self.weighs and not binds else step)
        self.bound |= set(new.values())
        if may_repeat and binds and step.composed is None:  # a composed join drops duplicates itself
            self.project(live)

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

    def project(self, live: set[str]) -> None:
        """Add a projection to the live variables, which drops duplicate bindings, unless the other atoms only filter."""
        if self._has_partners():
            self.bound &= live
            self.steps.append(steps.EarlyProjection(tuple(sorted(self.bound - {steps.GROUP}))))

    def _has_partners(self) -> bool:
        """True if another atom may multiply the bindings: it does not only filter them."""
        return not all(self._is_bound(term) for _, atom in self.atoms for term in atom.args)

    def _choose_projected_index(self, number: int, atom: Atom, used: Order, is_searched: bool) -> bool:
        """Decide whether to read an index that has only the columns in use, without duplicates. If it pays, lower the expected
        number of bindings, log the reason, and return True.

        Of a recursive relation, such an index grows with it. Its delta has each combination of values once, when it is new: in
        the iterations since, the rule has made its heads with all that the other atoms had. So this pays if other atoms follow,
        and for a searched relation always."""
        part = self.parts.get(number, "all")
        if self.sizes is None or self.every or self.whole or not 0 < len(used) < len(atom.args):
            return False
        if number in self.parts:
            bindings = math.inf  # it is searched again in each iteration, so its size alone decides
            if atom.relation not in self.projectable or not (self._has_partners() if part == "delta" else is_searched):
                return False
            self.may_project = True
        elif is_searched and part == "all":
            bindings = self.choose.rows
        else:
            return False
        share = self.sizes.projected_share(atom.relation, used, bindings)
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
        bounds: dict[str, tuple[list[Term], list[Term]]] = {name: ([], []) for name in new.values()}  # lower and upper
        for literal in self.pending:
            if isinstance(literal, Compare) and literal.kind is Kind.NUMBER and literal.op[0] in "<>":
                for op, side, other in literal.both_ways():
                    if isinstance(side, Var) and side.name in bounds and self._is_bound(other):
                        bounds[side.name][op[0] == "<"].append(other)
        ranged = [column for column, name in new.items() if any(bounds[name])]
        if not ranged or not self.sizes.repays_index(atom.relation, self.choose.rows):
            return None
        column = max(ranged, key=lambda column: all(bounds[new[column]]))  # preferably with bounds on both sides
        lower, upper = bounds[new[column]]
        self.choose.log[-1].reason += f"; a range of {new[column]}"  # a superset: the comparisons stay pending
        return column, tuple(lower), tuple(upper)

    def _exchange_if_partitioned(self, relation: str, order: Order, keys: tuple[Term, ...], counts: bool) -> Order:
        """Add an exchange to the bucket of the keys if an index is partitioned. Return the order to search in: () if the search
        only tests whether the relation has a tuple, and tuples are not counted. The index of no columns is on every host."""
        if not self.placing(relation, order):
            return order
        if not keys and not counts and relation not in self.placing.own:
            return ()
        needed = (self.live() | names_of_variables(keys)) & self.bound
        self.steps.append(steps.Exchange(relation, order, keys, frozenset(needed)))
        return order

    def _rest_of_core(self, number: int) -> dict[int, Atom]:
        """Return the other atoms of the core to which an atom belongs, by place; {} for a delta, joined before its core."""
        if self.core is None or number not in self.core.places or self.parts.get(number) == "delta":
            return {}
        return {n: atom for n, atom in self.atoms if n in self.core.places}

    def _composition(self, keys: dict[int, Term], binds: tuple, live: set[str], atom: Atom) -> tuple[str, str, str] | None:
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
        """Apply pending literals until none is ready: first filters and bindings, then negations, ranges and aggregates."""
        while applied := next(filter(self._apply, sorted(self.pending, key=_application_rank)), None):
            self.pending.remove(applied)

    def filter_ready(self) -> None:
        """Apply the comparisons and tests whose variables are all bound."""
        self.pending = [literal for literal in self.pending if not self._filter(literal)]

    def _filter(self, literal: Literal) -> bool:
        """Add a comparison or test whose variables are all bound. Return False for another literal."""
        if not isinstance(literal, Compare | ir.Test | Truth) or not self._is_bound(literal):
            return False
        self.steps.append(steps.Filter(literal))
        return True

    def _apply(self, literal) -> bool:
        """Add the steps of a literal. Return False if it is not ready: a variable that they need is not bound."""
        if isinstance(literal, Compare | ir.Test | Truth):
            return self._filter(literal) or isinstance(literal, Compare) and literal.op == "=" and self._equate(literal)
        if isinstance(literal, Range):
            return self._generate_range(literal)
        before, bound = len(self.steps), set(self.bound)
        applied = self._add_antijoin(literal.atom) if isinstance(literal, Not) else self._aggregate(literal)
        sends = any(isinstance(step, steps.Exchange | Hold) for step in self.steps[before:])
        if sends and not self.first_joined and self.atoms:
            del self.steps[before:]  # bindings cannot be sent before they are on the partitions of the first atom's tuples
            self.bound = bound
            return False
        return applied

    def _add_antijoin(self, atom: Atom) -> bool:
        """Add the antijoin for a negated atom. Return False if a variable of it is not bound."""
        if not names_of_variables(atom) <= self.bound:
            return False
        if any(has_wild(term) and not isinstance(term, Wild) for term in atom.args):
            # !a([x, _]) has no key to search for: the records that fit are joined, and bindings with none are kept.
            self._add_group(tuple(sorted(names_of_variables(atom))), (atom,))
            return True
        keys = {column: term for column, term in enumerate(atom.args) if not isinstance(term, Wild)}
        order = self.order_for(atom.relation, frozenset(keys))
        key_terms = tuple(keys[column] for column in order[: len(keys)])
        order = self._exchange_if_partitioned(atom.relation, order, key_terms, counts=False)
        self.steps.append(steps.AntiJoin(atom.relation, order, key_terms))
        return True

    def _equate(self, literal: Compare) -> bool:
        """Let an equation bind a variable or the fields of a record. Return False if it is not ready."""
        left, right = literal.left, literal.right
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
            pairs = [pair for pair in fields if not any(isinstance(field, Wild) for field in pair)]
            self.pending += [Compare("=", field, other, field.kind) for field, other in pairs]
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

    def _generate_range(self, literal: Range) -> bool:
        """Add the step that generates the values of a range. Return False if its limits are not bound."""
        if not names_of_variables([literal.start, literal.stop, literal.step]) <= self.bound:
            return False
        if literal.result.name in self.bound:  # a second name for the values, compared with the first
            other = Var(self._fresh_name("range"), literal.result.kind)
            self.pending.append(Compare("=", other, literal.result, other.kind))
            literal = Range(other, literal.start, literal.stop, literal.step)
        self._compute_before_range()
        self.steps.append(steps.Generate(literal, frozenset(self.live())))
        self.bound.add(literal.result.name)
        return True

    def _compute_before_range(self) -> None:
        """Compute the parts of pending comparisons that do not depend on a range before its values are generated."""

        def computed(node):
            is_part = isinstance(node, Call) and node.op in TOTAL_FUNCTORS and node.kind in NUMBERS
            if not is_part or not names_of_variables(node) or not self._is_bound(node):
                return map_children(node, computed)
            name = self._fresh_name("part")
            self.steps.append(steps.Bind(name, node))
            self.bound.add(name)
            return Var(name, node.kind)

        self.pending = [computed(each) if isinstance(each, Compare) else each for each in self.pending]

    def _aggregate(self, literal: Aggregate) -> bool:
        """Add an aggregate. Return False if a variable that it shares with the rest of the rule is not bound."""
        inner = names_of_variables([*literal.body, literal.target])
        others = [other for other in (*self.pending, *(atom for _, atom in self.atoms)) if other is not literal]
        shared = inner & (self.outside | names_of_variables(others) | self.bound) | names_of_variables([literal.init])
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
        target = names_of_variables([literal.target]) if literal is not None else set()
        outer = tuple(sorted(self._with_operands({*outer}, lambda: names_of_variables(body) | target)))
        inner = self._inner_steps(body, outer, target | {steps.GROUP}, whole=False, literal=literal)
        moves = [step for step in inner if isinstance(step, steps.Exchange | Hold)]
        only = moves[0] if len(moves) == 1 else None
        if isinstance(only, steps.Exchange) and only.keys and names_of_variables(only.keys) <= set(outer):
            self._exchange_if_partitioned(only.relation, only.order, only.keys, counts=True)
            inner.remove(only)
            moves = []
        if not moves:
            self.steps.append(Aggregated(literal, outer, inner, is_result_bound) if literal else Without(outer, inner))
        else:
            held = frozenset(self.live() & self.bound)
            moving = self._inner_steps(body, outer, target, whole=True)
            self.steps += [Hold(outer, held), *moving, Gather(outer, literal, is_result_bound)]
        if literal is not None:
            self.bound.add(literal.result.name)

    def _inner_steps(
        self, body: tuple[Literal, ...], outer: tuple[str, ...], outside: set[str], whole: bool,
        literal: Aggregate | None = None,
    ) -> list:  # fmt: skip
        """Compile the body of an aggregate or a negation, from its outer variables. outside: variables needed after it; whole:
        see `__init__`; literal: the aggregate, if its bindings may be weighed."""
        compiler = Compiler(self.rule, self.choose.inner(), self.order_for, {}, every=True, placing=self.placing, whole=whole)
        compiler.core = None if whole or len(body) < 2 else self.choose_inner_core(body, set(outer))
        compiler.made_content = {name: term for name, term in self.made_content.items() if name in outer}
        compiler.streams = self.streams
        # a user-defined aggregate, which has an `init`, takes each value by itself
        compiler.weighs = not whole and self.placing is NOWHERE and literal is not None and literal.init is None
        group = {steps.GROUP} & outside  # bindings that wait for a `Gather` have no number of a group
        inner = compiler.compile(body, start={*outer} | group, outside=outside)
        return extreme_only(inner, literal.op, literal.target) if compiler.weighs and literal is not None else inner


def _application_rank(literal: Literal) -> int:
    """Return a sort key for the literals that are ready: the cheapest is applied first."""
    if isinstance(literal, Aggregate):
        return 3
    return 2 if isinstance(literal, Range) else int(isinstance(literal, Not))


def _computed_arguments(atom: Atom) -> list[Term]:
    """Return the arguments of an atom that are not variables."""
    return [term for term in atom.args if not isinstance(term, Var)]
