"""The order of the joins in a body, chosen greedily: the atom that is expected to leave the fewest bindings comes next.

The number of tuples that match a binding is estimated (see `fanout`) from the relation's size and the number of distinct values
of its bound columns, at the start of the stratum, or when these turn out to have changed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

from semi_naive.host.account import part
from semi_naive.planning.joins.body import ChosenAtom, PlannedBody, names_of_variables
from semi_naive.planning.joins.compiler import Compiler
from semi_naive.planning.joins.fanout import Sizes, fanout
from semi_naive.planning.joins.indexes import Indexes
from semi_naive.planning.joins.multiway import choose_core, choose_counted, largest_result
from semi_naive.planning.joins.placing import NOWHERE, Placing
from semi_naive.planning.maintaining.names import origin
from semi_naive.planning.rewrite import has_autoinc
from semi_naive.planning.rewriting.whole_bodies import FoldedBody, fold_of
from semi_naive.ra.ir import Atom, Call, Order, Rule, Var, Wild
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.folding import Folded
from semi_naive.ra.rules.weighing import extreme_only

NO_STREAMS: dict[str, Derivation] = {}
MIN_SAMPLED_TUPLES = 256  # tuples of a relation from which its distribution of values is sampled
MIN_FANOUT = 0.01  # the least expected number of tuples for a binding, as 0 would hide every later join
MAX_FIRST_ATOMS = 24  # atoms of a body that are tried as the first one: the smallest
GUARDED_COST_RATIO = 2  # cost of a partial aggregate without its guards, over that with them, up to which guards are left out
INDEX_COST_RATIO = 2  # weight of the bindings of an atom that needs a new index
MIN_CHARGED_TUPLES = 1 << 12  # of a relation from which an index that a rule needs counts: 0.2 ms
INDEXED_TUPLE_BINDINGS = 4  # a tuple of a new index takes 60 ns, a binding of a join by a key 15 (bench.analytics, 2026-11)


def bound_places(atom: Atom, bound: set[str]) -> list[int]:
    """Return the columns of an atom whose terms have a value. bound: the names of the bound variables."""
    return [place for place, term in enumerate(atom.args) if not isinstance(term, Wild) and names_of_variables(term) <= bound]


@dataclass
class Greedy:
    """Chooses the next atom of one body, and keeps a log of the choices.

    parts: by place of an atom in the body, the part of its relation that it reads, if not "all"; first: the place of the atom
    that must come first, the delta; given: the places of the atoms in the order of a .plan; made: the existing indexes, if a
    further one costs too much for a few bindings; indexes: those that other rules search, if the rule is evaluated once in the
    driver, so that an index which only this rule searches counts."""

    sizes: Sizes
    parts: dict[int, str]
    first: int | None = None
    given: tuple[int, ...] = ()
    made: dict[str, set[Order]] | None = None
    indexes: Indexes | None = None

    def __post_init__(self):
        self.rows, self.log, self.taken = 1.0, [], 0  # the expected bindings, the chosen atoms, and their number
        self.bound_by: dict[str, tuple[str, int]] = {}  # by variable, the relation and the column that have bound it first

    def __call__(self, atoms: list[tuple[int, Atom]], bound: set[str]) -> tuple[int, Atom]:
        """Choose and log the next of some (place, atom) pairs. bound: the names of the bound variables."""
        (number, atom), reason = self._choose(atoms, bound)
        self.take(number, atom, bound, reason)
        return number, atom

    def _choose(self, atoms: list[tuple[int, Atom]], bound: set[str]) -> tuple[tuple[int, Atom], str]:
        """Return the next (place, atom), and the reason."""
        by_place = dict(atoms)
        if self.given:
            place = next(place for place in self.given if place in by_place)
            return (place, by_place[place]), "given by .plan"
        if not self.taken and self.first is not None and self.first in by_place:
            return (self.first, by_place[self.first]), "the delta comes first"
        if len(atoms) == 1:
            return atoms[0], "the last atom" if self.taken else "the only atom"
        if not bound and (few := [pair for pair in atoms if self._is_parameter(*pair)]):
            return few[0], "the cheapest start"
        if not any(bound_places(atom, bound) for _, atom in atoms):
            starts = atoms
            if len(atoms) > MAX_FIRST_ATOMS:
                starts = sorted(atoms, key=lambda candidate: self.expected(candidate[0], candidate[1], set()))[:MAX_FIRST_ATOMS]
            return min(starts, key=lambda candidate: self._cost_from(candidate, atoms)), "the cheapest start"
        return min(atoms, key=lambda candidate: self._rank(candidate, bound)), "fewest tuples expected"

    def take(self, number: int, atom: Atom, bound: set[str], reason: str) -> None:
        """Record an atom as the next one, with the reason."""
        self.rows *= self.expected(number, atom, bound)
        self.taken += 1
        self.log.append(ChosenAtom(atom, self.rows, reason))
        self._bind(atom)

    def _bind(self, atom: Atom) -> None:
        """Record where each variable of an atom is first bound."""
        for place, term in enumerate(atom.args):
            if isinstance(term, Var):
                self.bound_by.setdefault(term.name, (origin(atom.relation), place))

    def undo(self) -> None:
        """Remove the last choice from the log."""
        self.log.pop()
        self.rows = self.log[-1].expected if self.log else 1.0
        self.taken -= 1

    def together(self, atoms: dict[int, Atom], bound: set[str], reason: str) -> None:
        """Replace the last choice by one multiway join of several atoms. atoms: by place, the last choice first; bound: the
        variables bound before."""
        (_, first), *rest = atoms.items()
        bound = bound | names_of_variables(first)
        before = self.log[-2].expected if len(self.log) > 1 else 1.0
        while rest:
            place, atom = min(rest, key=lambda candidate: self._rank(candidate, bound))
            self.rows *= self.expected(place, atom, bound)
            self._bind(atom)
            bound = bound | names_of_variables(atom)
            rest.remove((place, atom))
        self.rows = min(self.rows, before * largest_result(atoms, self.sizes, self.parts))
        self.log[-1] = ChosenAtom(first, self.rows, reason)

    def cap(self, most: float, since: int) -> None:
        """Lower the expected bindings to `most`, now and in the log from entry `since` on."""
        self.rows = min(self.rows, most)
        for chosen in self.log[since:]:
            chosen.expected = min(chosen.expected, most)

    def bindings_of_core(self, atoms: dict[int, Atom], core: frozenset[int]) -> tuple[float, float]:
        """Estimate (the bindings that binary joins of a cyclic core make; how many of these there are for each binding with
        which the core starts). atoms: of the whole body, by place; the delta is not a part of the core."""
        binary, bound, left = Greedy(self.sizes, self.parts, self.first), set[str](), dict(atoms)
        rows, made, before = 1.0, 0.0, 0.0
        while left:
            number, atom = binary(list(left.items()), bound)
            fanout = max(binary.expected(number, atom, bound), MIN_FANOUT)
            if number in core and number != self.first:
                before = before or rows  # the bindings with which the core starts
                made += rows * fanout
            rows *= fanout
            bound |= names_of_variables(left.pop(number))
        return made, made / before

    def inner(self) -> "Greedy":
        """Return the chooser for an aggregate's body, and for joins of a few bindings, which begin with the bound variables."""
        inner = Greedy(self.sizes, {}, made=self.made)
        inner.bound_by = dict(self.bound_by)
        return inner

    def expected(self, number: int, atom: Atom, bound: set[str]) -> float:
        """Estimate the number of tuples of an atom that match one binding. If the values of its bound columns all come from one
        large relation, the estimate includes skew: a value that is frequent in one relation often is in the other."""
        places, part = tuple(bound_places(atom, bound)), self.parts.get(number, "all")
        skewed = self._skewed_fanout(atom, places) if 0 < len(places) < len(atom.args) and part != "delta" else None
        return fanout(self.sizes, atom, part, list(places)) if skewed is None else skewed

    def _skewed_fanout(self, atom: Atom, places: tuple[int, ...]) -> float | None:
        """Estimate the tuples of an atom that match a binding of some columns, from samples of both relations; None unless one
        relation, of which a sample exists, has bound all these columns."""
        terms = [atom.args[place] for place in places]
        sources = [self.bound_by[term.name] for term in terms if isinstance(term, Var) and term.name in self.bound_by]
        relations = {relation for relation, _ in sources}
        if len(sources) < len(places) or len(relations) != 1 or not hasattr(self.sizes, "join_fanout"):
            return None
        (relation,) = relations
        if min(self.sizes.size(relation), self.sizes.size(atom.relation)) < MIN_SAMPLED_TUPLES:
            return None
        return self.sizes.join_fanout(relation, tuple(column for _, column in sources), atom.relation, places)

    def _rank(self, candidate: tuple[int, Atom], bound: set[str]) -> tuple[bool, float, int]:
        """Return (True if the atom makes a product, expected tuples for a binding, its place): the least is joined next."""
        number, atom = candidate
        product = not bound_places(atom, bound) and bool(atom.args) and bool(bound) and not self._is_parameter(number, atom)
        weight = 1 if self._has_index(number, atom, bound) else INDEX_COST_RATIO
        return product, weight * self.expected(number, atom, bound), number

    def _is_parameter(self, number: int, atom: Atom) -> bool:
        """True if an atom reads a complete relation of at most one tuple: a join with it makes no product, and other atoms are
        filtered or searched by its values."""
        return number not in self.parts and self.sizes.size(atom.relation) <= 1

    def _has_index(self, number: int, atom: Atom, bound: set[str]) -> bool:
        """True if the search of an atom needs no new index."""
        if self.made is None or self.parts.get(number) == "delta":
            return True
        places = set(bound_places(atom, bound))
        return not places or any(places == set(order[: len(places)]) for order in self.made.get(atom.relation, ()))

    def _index_cost(self, atom: Atom, bound: set[str]) -> float:
        """Return the bindings that take as long as making the index in which an atom is searched."""
        if self.indexes is None or (size := self.sizes.size(atom.relation)) < MIN_CHARGED_TUPLES:
            return 0.0
        places = frozenset(bound_places(atom, bound))
        # or a prefix of the relation's own order
        known = places in self.indexes.searches.get(atom.relation, ()) or places == set(range(len(places)))
        return 0.0 if known or len(places) == len(atom.args) else INDEXED_TUPLE_BINDINGS * size

    def _cost_from(self, start: tuple[int, Atom], atoms: list[tuple[int, Atom]]) -> float:
        """Estimate the bindings of all joins and indexes together, if `start` comes first and the others follow greedily."""
        variables = {number: names_of_variables(atom) for number, atom in atoms}
        first, _ = start
        rows = total = self.expected(*start, set())
        bound = newly_bound = variables[first]
        remaining = {number: atom for number, atom in atoms if number != first}
        ranks = {number: self._rank((number, atom), bound) for number, atom in remaining.items()}
        while remaining:
            for number in [number for number in remaining if not newly_bound.isdisjoint(variables[number])]:
                ranks[number] = self._rank((number, remaining[number]), bound)
            number = min(remaining, key=ranks.__getitem__)
            _, expected, _ = ranks[number]
            rows *= expected
            total += rows + self._index_cost(remaining.pop(number), bound)
            newly_bound = variables[number] - bound
            bound = bound | newly_bound
        return total


@part("plan")
def plan_body(
    rule: Rule, sizes: Sizes, indexes: Indexes, parts: dict[int, str], delta: int | None = None, version=0,
    placing: Placing = NOWHERE, deal: bool = False, multiway: str = "auto", made: dict[str, set[Order]] | None = None,
    indexed: bool = False, in_driver: Any = None, folds: bool = False,
    streams: Mapping[str, Derivation] = NO_STREAMS, lattice: str | None = None, projectable: Collection[str] = (),
) -> PlannedBody:  # fmt: skip
    """Compile a rule's body in the best order known. `parts`: the part of a relation that an atom reads, by place in the body;
    `delta`: the place of the atom that reads the delta; `version`: the number of the delta version, for its .plan; `placing`,
    `deal`: see `Compiler`; `in_driver`: `sizes` there; `multiway`: Config's; `made`: see `Greedy`; `indexed`: see
    `choose_core`; `folds`: the rule is evaluated in the driver, so a body that is aggregated as a whole may be folded;
    `streams`: the derivations of relations without a table; `lattice`: "min" or "max", if the head keeps best values;
    `projectable`: see `Compiler`."""
    fold = fold_of(rule) if folds and not parts and not rule.plan else None
    folded = _plan_fold(rule, fold, sizes, indexes, multiway, made, streams) if fold else None
    if fold and folded and not fold.guards:
        return folded
    atoms = [number for number, literal in enumerate(rule.body) if isinstance(literal, Atom)]
    given = tuple(atoms[place] for place in (rule.plan or {}).get(version, ()))
    if given and delta is not None and placing.own:  # each partition begins with its part of the delta
        given = (delta, *(place for place in given if place != delta))
    once = delta is None and not parts and placing is NOWHERE
    greedy = Greedy(sizes, parts, delta, given, made, indexes if once else None)
    compiler = Compiler(rule, greedy, indexes.order_for, parts, placing=placing, deal=deal, sizes=in_driver)
    # autoinc() numbers every binding, so no column of them may be dropped
    compiler.streams, compiler.projectable = streams, () if has_autoinc(rule) else projectable

    binary = partial(binary_steps, rule, sizes, indexes.arities)
    choice = choose_core(rule, greedy, version, multiway, placing, partial(binary, rule.body), indexed)
    compiler.core = choice.core
    compiler.choose_inner_core = lambda body, outer: choose_counted(
        rule, body, outer, Greedy(sizes, {}), multiway, placing, partial(binary, body, every=True)
    )
    steps = compiler.compile(rule.body, outside=names_of_variables(rule.head))
    if folded and _cost(folded.atoms) <= GUARDED_COST_RATIO * _cost(greedy.log):
        return folded
    if lattice and steps:
        steps = _towards_best(steps, rule, lattice, placing is NOWHERE)
    relations = [rule.body[number].relation for number in atoms]
    delta_relation = rule.body[delta].relation if delta is not None else ""
    first = delta_relation if relations.count(delta_relation) == 1 else ""
    planned = {name: sizes.size(name) for name in relations}
    derivation = Derivation(steps, rule.head.relation, rule.head.args)
    return PlannedBody(rule, derivation, greedy.log, planned, choice.note, first, compiler.may_project)


def _cost(log: list[ChosenAtom]) -> float:
    return sum(chosen.expected for chosen in log)


def _plan_fold(
    rule: Rule, fold: FoldedBody, sizes: Sizes, indexes: Indexes, multiway: str, made: dict[str, set[Order]] | None,
    streams: Mapping[str, Derivation],
) -> PlannedBody:  # fmt: skip
    """Compile a rule that aggregates its whole body (`fold`), without its guards: the body is evaluated once, and folded by the
    key (`ra.rules.folding`)."""
    greedy = Greedy(sizes, {}, made=made, indexes=indexes)
    compiler = Compiler(rule, greedy, indexes.order_for, {}, every=True)
    after = Compiler(rule, greedy.inner(), indexes.order_for, {})
    compiler.streams, compiler.weighs = streams, True
    binary = partial(binary_steps, rule, sizes, indexes.arities, fold.body, every=True)
    compiler.core = choose_counted(rule, fold.body, set(), Greedy(sizes, {}), multiway, NOWHERE, binary)
    steps = compiler.compile(fold.body, outside=fold.outside)
    names = {*fold.keys, *(aggregate.result.name for aggregate in fold.aggregates)}
    rest = after.compile(fold.after, start=names, outside=names_of_variables(rule.head))
    steps = [Folded(fold.keys, fold.aggregates, steps, fold.least_count), *rest]
    planned = {atom.relation: sizes.size(atom.relation) for atom in (*fold.guards, *fold.body) if isinstance(atom, Atom)}
    return PlannedBody(rule, Derivation(steps, rule.head.relation, rule.head.args), greedy.log, planned)


def _towards_best(steps: list, rule: Rule, lattice: str, in_driver: bool) -> list:
    """Change the steps of a body whose heads go to a table of best values. The table folds the heads, and sorts one of each
    key. So the last join need not make distinct heads itself, and without recursion only the best heads of a group."""
    if getattr(steps[-1], "composed", None):
        steps[-1].composed = None
    *keys, value = rule.head.args
    reads_itself = any(getattr(literal, "relation", None) == rule.head.relation for literal in rule.body)
    # then the values that are not best belong to other keys
    value_is_key = not names_of_variables(value).isdisjoint(names_of_variables(keys))
    return extreme_only(steps, lattice, value) if in_driver and not reads_itself and not value_is_key else steps


def binary_steps(rule: Rule, sizes: Sizes, arities: dict[str, int], body, every: bool = False) -> list:
    """Return a body compiled as binary joins over all tuples, without requesting indexes: for a trial."""
    compiler = Compiler(rule, Greedy(sizes, {}), Indexes(arities).order_for, {}, every)
    return compiler.compile(body, outside=names_of_variables(rule.head))


@part("plan")
def share_indexes(bodies: dict, indexes: Indexes) -> None:
    """Settle the indexes that the bodies of a stratum search. Drop bodies compiled with another order from `bodies`; they are
    compiled again when they are needed."""
    if moved := indexes.settle():
        for key in [key for key, body in bodies.items() if any(name in moved for name, _ in body.searched)]:
            del bodies[key]


@part("plan")
def plan_all(plan, rule_versions: Sequence[tuple], bodies: dict, indexes: Indexes, placing: Placing) -> list[PlannedBody]:
    """Plan the bodies of rule versions, each with the settled indexes of all. `plan(*version)` returns the body of a version,
    and caches it in `bodies`. All are planned again if an index that was replicated is now partitioned."""
    while True:
        for version in rule_versions:
            plan(*version)
        share_indexes(bodies, indexes)
        planned = [plan(*version) for version in rule_versions]
        # ends, as a partitioned index remains partitioned
        if not placing.decide(set().union(*(body.searched for body in planned))):
            return planned
        bodies.clear()


class RuleVersion(NamedTuple):
    """A version of a rule in semi-naive evaluation."""

    rule: Rule
    place: Any  # the place in the body of the atom that reads the delta; None for a nonrecursive rule
    parts: dict[int, str]  # the part of its relation that the atom at a place reads: "full", "delta" or "all" (the default)
    number: int  # the number of the version among those of the rule

    @property
    def delta_relation(self) -> str:
        return cast(Atom, self.rule.body[self.place]).relation


def versions(rule: Rule, recursive: set[str]) -> list[tuple[int, dict[int, str]]]:
    """Return the delta versions of a rule: (place of the atom that reads the delta, the part that each recursive atom reads).

    As in semi-naive evaluation, each combination of tuples is found once: atoms before the delta read "all" (older tuples and
    the delta), atoms after it "full" (older tuples). For `path(x, z) :- path(x, y), path(y, z)` they are (0, {0: "delta",
    1: "full"}) and (1, {0: "all", 1: "delta"}). In this order, atoms with computed columns come first. For
    `p(t, i, a), p(t, (i + 1) % 9, b)`, the version from p(t, i, a) reads all tuples of the other atom. The version from the
    other atom reads older tuples of p(t, i, a), which cannot be searched by i then."""
    atoms = ((place, literal) for place, literal in enumerate(rule.body) if isinstance(literal, Atom))
    places = [place for place, atom in atoms if atom.relation in recursive]
    computed = [place for place in places if any(isinstance(term, Call) for term in rule.body[place].args)]
    order = computed + [place for place in places if place not in computed]

    def part(place: int, delta: int) -> str:
        if place == delta:
            return "delta"
        return "all" if order.index(place) < order.index(delta) else "full"

    return [(delta, {place: part(place, delta) for place in places}) for delta in places]
