"""The order of the joins in a body, chosen greedily: the atom that is expected to leave the fewest bindings comes next.

The number of tuples that match a binding is estimated (see `fanout`) from the relation's size and the number of distinct values
of its bound columns, at the start of the stratum, or when these turn out to have changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from semi_naive.host.account import part
from semi_naive.planning.joins.body import ChosenAtom, Compiler, DriverDatabase, PlannedBody, names_of_variables
from semi_naive.planning.joins.fanout import Sizes, fanout
from semi_naive.planning.joins.folds import fold_steps
from semi_naive.planning.joins.indexes import Indexes
from semi_naive.planning.joins.multiway import choose_core, choose_counted, largest_result
from semi_naive.planning.joins.placing import NOWHERE, Placing
from semi_naive.planning.maintaining.names import origin
from semi_naive.planning.rewriting.whole_bodies import FoldedBody, fold_of
from semi_naive.ra.ir import Atom, Call, Order, Rule, Var
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.weighing import extreme_only

NO_STREAMS: dict[str, Derivation] = {}
MIN_SAMPLED_TUPLES = 256  # tuples of a relation from which its distribution of values is sampled
MAX_FIRST_ATOMS = 24  # atoms of a body that are tried as the first one: the smallest
FEWEST = "fewest tuples expected"
GUARDED_COST_RATIO = 2  # of the bindings that tell which keys a partial aggregate needs: the groups of these are joined again
INDEX_COST_RATIO = 2  # weight of the bindings of an atom that needs a new index


def bound_places(atom: Atom, bound: set[str]) -> list[int]:
    return [place for place, term in enumerate(atom.args) if _is_bound(term, bound)]


def _is_bound(term, bound: set[str]) -> bool:
    used = names_of_variables(term)
    return not (isinstance(term, Var) and term.name not in bound) and used <= bound and str(term) != "_"


@dataclass
class Greedy:
    """Chooses the next atom of one body. first: the atom that must come first, the delta; given: the order of a .plan; made:
    the existing indexes, if a further one costs too much for a few bindings.
    """

    sizes: Sizes
    parts: dict[int, str]
    first: int | None = None
    given: tuple[int, ...] = ()
    made: dict[str, set[Order]] | None = None

    def __post_init__(self):
        self.rows, self.log, self.taken = 1.0, [], 0
        self.met: dict[str, tuple[str, int]] = {}  # by variable, the relation and the column that have bound it

    def __call__(self, atoms, bound):
        """Choose the next of the (place, atom) pairs in `atoms`, if the variables in `bound` are bound."""
        if len(atoms) == 1 and (self.taken or self.first is None) and not self.given:
            chosen, reason = atoms[0], "the last atom" if self.taken else "the only atom"
        elif self.taken == 0 and self.first is not None and any(n == self.first for n, _ in atoms) and not self.given:
            chosen, reason = next((n, a) for n, a in atoms if n == self.first), "the delta comes first"
        elif self.given:
            wanted = next(n for n in self.given if any(n == other for other, _ in atoms))
            chosen, reason = next((n, a) for n, a in atoms if n == wanted), "given by .plan"
        elif self.taken == 0 and not bound and len(atoms) > 1:
            few = len(atoms) <= MAX_FIRST_ATOMS
            starts = (
                atoms
                if few
                else sorted(atoms, key=lambda candidate: self.expected(candidate[0], candidate[1], set()))[:MAX_FIRST_ATOMS]
            )
            chosen, reason = min(starts, key=lambda candidate: self._cost_from(candidate, atoms)), "the cheapest start"
        else:
            chosen, reason = min(atoms, key=lambda candidate: self._rank(candidate, bound)), FEWEST
        number, atom = chosen
        self.take(number, atom, bound, reason)
        return chosen

    def take(self, number: int, atom: Atom, bound, reason: str) -> None:
        """Record an atom as the next one, with the reason."""
        self.rows *= self.expected(number, atom, bound)
        self.taken += 1
        self.log.append(ChosenAtom(atom, self.parts.get(number, "all"), tuple(bound_places(atom, bound)), self.rows, reason))
        self._bind(atom)

    def _bind(self, atom: Atom) -> None:
        """Record where each variable of an atom is first bound."""
        for place, term in enumerate(atom.args):
            if isinstance(term, Var):
                self.met.setdefault(term.name, (origin(atom.relation), place))

    def undo(self) -> None:
        """The last choice is made in another way."""
        self.log.pop()
        self.rows = self.log[-1].expected if self.log else 1.0
        self.taken -= 1

    def together(self, left, atoms: dict[int, Atom], bound, reason: str) -> None:
        """Replace the last choice, which was the first of several atoms, by all of them as one multiway join. atoms: by place;
        bound: the variables bound before."""
        bound, number = set(bound) | names_of_variables(atoms[next(iter(atoms))]), next(iter(atoms))
        before = self.log[-2].expected if len(self.log) > 1 else 1.0
        rest = [candidate for candidate in atoms.items() if candidate[0] != number]
        while rest:
            candidate = min(rest, key=lambda candidate: self._rank(candidate, bound))
            self.rows *= self.expected(*candidate, bound)
            self._bind(candidate[1])
            bound |= names_of_variables(candidate[1])
            rest.remove(candidate)
        self.rows = min(self.rows, before * largest_result(atoms, self.sizes, self.parts))
        self.log[-1] = ChosenAtom(atoms[number], self.parts.get(number, "all"), (), self.rows, reason)

    def cap(self, most: float, since: int) -> None:
        """Expect no more bindings than `most` after each of the atoms that were taken last, from number `since` on."""
        self.rows = min(self.rows, most)
        for chosen in self.log[since:]:
            chosen.expected = min(chosen.expected, most)

    def inner(self) -> "Greedy":
        """Return the chooser for the body of an aggregate, and for joins of a few bindings, which begin with the variables
        bound here."""
        inner = Greedy(self.sizes, {}, made=self.made)
        inner.met = dict(self.met)
        return inner

    def expected(self, number: int, atom: Atom, bound) -> float:
        """Estimate the number of tuples of an atom that match one binding. If the values of its bound columns all come from one
        large relation, the estimate includes skew: a value that is frequent in one relation often is in the other."""
        places, part = tuple(bound_places(atom, bound)), self.parts.get(number, "all")
        partners_ = self._partners(atom, places) if 0 < len(places) < len(atom.args) and part != "delta" else None
        return fanout(self.sizes, atom, part, list(places)) if partners_ is None else partners_

    def _partners(self, atom: Atom, places: tuple[int, ...]) -> float | None:
        """Estimate the tuples that the values of variables meet, if all are from one relation and the estimate exists."""
        by = [self.met[term.name] for place in places if isinstance(term := atom.args[place], Var) and term.name in self.met]
        relation = by[0][0] if by else ""
        if len(by) < len(places) or any(name != relation for name, _ in by) or not hasattr(self.sizes, "join_fanout"):
            return None
        if min(self.sizes.size(relation), self.sizes.size(atom.relation)) < MIN_SAMPLED_TUPLES:
            return None
        return self.sizes.join_fanout(relation, tuple(column for _, column in by), atom.relation, places)

    def _rank(self, one, bound):
        """Rank atoms that share a bound variable before atoms that would make a product. A complete relation of at most one
        tuple makes no product: its values are parameters, by which other atoms are filtered or searched."""
        number, atom = one
        product = not bound_places(atom, bound) and bool(atom.args) and bool(bound)
        expected = self.expected(number, atom, bound)
        if product and number not in self.parts and self.sizes.size(atom.relation) <= 1:
            product = False
        return product, expected * (1 if self._is_made(number, atom, bound) else INDEX_COST_RATIO), number

    def _is_made(self, number: int, atom: Atom, bound) -> bool:
        """True if the search of an atom needs no new index."""
        if self.made is None or self.parts.get(number) == "delta":
            return True
        places = set(bound_places(atom, bound))
        return not places or any(places == set(order[: len(places)]) for order in self.made.get(atom.relation, ()))

    def _cost_from(self, start, atoms) -> float:
        """Estimate all bindings if this atom comes first and the others follow greedily."""
        variables = {number: names_of_variables(atom) for number, atom in atoms}
        rows = total = self.expected(start[0], start[1], set())
        bound = fresh = variables[start[0]]
        remaining = {number: atom for number, atom in atoms if number != start[0]}
        ranks = {number: self._rank((number, atom), bound) for number, atom in remaining.items()}
        while remaining:
            for number in [number for number in remaining if not fresh.isdisjoint(variables[number])]:
                ranks[number] = self._rank((number, remaining[number]), bound)
            number = min(remaining, key=ranks.__getitem__)
            del remaining[number]
            rows *= ranks[number][1]
            total += rows
            fresh = variables[number] - bound
            bound = bound | fresh
        return total


@part("plan")
def plan_body(
    rule: Rule, sizes: Sizes, indexes: Indexes, parts: dict[int, str], delta: int | None = None, version=0,
    placing: Placing = NOWHERE, deal: bool = False, multiway: str = "auto", made: dict[str, set[Order]] | None = None,
    indexed: bool = False, in_driver: DriverDatabase | None = None, folds: bool = False,
    streams: Mapping[str, Derivation] = NO_STREAMS, lattice: str | None = None,
) -> PlannedBody:  # fmt: skip
    """Compile a rule's body in the best order known. `parts`: which part of a relation each atom reads, by its place in
    the body; `delta`: the place of the atom that reads the delta; `placing`, `deal`, `in_driver`: see `Compiler`; `multiway`:
    Config's; `made`: see `Greedy`; `indexed`: see `choose_core`. `folds`: it is evaluated in the driver, so a body that is
    aggregated as a whole may be folded; `streams`: relations that have no table, see `Compiler`; `lattice`: "min" or
    "max", if the head's table keeps the best value of each key."""
    fold = fold_of(rule) if folds and not parts and not rule.plan else None
    if fold is None or fold.guards:
        written = _plan_as_written(
            rule, sizes, indexes, parts, delta, version, placing, deal, multiway, made, indexed, in_driver, streams, lattice
        )
        if fold is None:
            return written
    folded = _plan_fold(rule, fold, sizes, indexes, multiway, made, streams)
    if fold.guards and _cost(folded) > GUARDED_COST_RATIO * _cost(written):
        return written
    return folded


def _cost(body: PlannedBody) -> float:
    return sum(chosen.expected for chosen in body.atoms)


def _plan_fold(rule: Rule, fold: FoldedBody, sizes, indexes: Indexes, multiway: str, made, streams) -> PlannedBody:
    """Compile a rule that aggregates its whole body; its guards are left out."""
    greedy = Greedy(sizes, {}, made=made)
    compiler, after = Compiler(rule, greedy, indexes.order_for, {}), Compiler(rule, greedy.inner(), indexes.order_for, {})
    compiler.streams = streams
    binary = partial(binary_steps, rule, sizes, indexes.arities, fold.body, every=True)
    compiler.core = choose_counted(rule, fold.body, set(), sizes, multiway, NOWHERE, binary)
    steps = fold_steps(rule, fold, compiler, after)
    read = {atom.relation: sizes.size(atom.relation) for atom in (*fold.guards, *fold.body) if isinstance(atom, Atom)}
    return PlannedBody(rule, Derivation(steps, rule.head.relation, rule.head.args), greedy.log, read)


def _plan_as_written(
    rule, sizes, indexes, parts, delta, version, placing, deal, multiway, made, indexed, in_driver, streams, lattice
) -> PlannedBody:
    """Compile a rule's body as it is written: see `plan_body`."""
    atoms = [number for number, literal in enumerate(rule.body) if isinstance(literal, Atom)]
    given = tuple(atoms[place] for place in (rule.plan or {}).get(version, ()))
    if given and delta is not None and placing.own:  # each partition begins with its part of the delta
        given = (delta, *(place for place in given if place != delta))
    greedy = Greedy(sizes, parts, delta, given, made)
    compiler = Compiler(rule, greedy, indexes.order_for, parts, placing=placing, deal=deal, sizes=in_driver)
    compiler.streams = streams

    binary = partial(binary_steps, rule, sizes, indexes.arities)
    choice = choose_core(rule, sizes, parts, delta, version, multiway, placing, partial(binary, rule.body), indexed)
    compiler.core = choice.core
    compiler.choose_inner_core = lambda body, outer: choose_counted(
        rule, body, outer, sizes, multiway, placing, partial(binary, body, every=True)
    )
    steps = compiler.compile(rule.body, outside=names_of_variables(rule.head))
    if lattice:
        steps = _towards_best(steps, rule, lattice, placing is NOWHERE)
    read = [rule.body[number].relation for number in atoms]
    derivation = Derivation(steps, rule.head.relation, rule.head.args)
    begins = rule.body[delta].relation if delta is not None else ""
    first = begins if read.count(begins) == 1 else ""
    return PlannedBody(rule, derivation, greedy.log, {name: sizes.size(name) for name in read}, choice.note, first)


def _towards_best(steps: list, rule: Rule, lattice: str, here: bool) -> list:
    """Return the steps of a body whose heads go to a table of best values. It folds the heads, and sorts one of each key: the
    last join need not make distinct ones itself, and without recursion not all of a group. here: all is in this process."""
    if getattr(steps[-1], "composed", None):
        steps[-1].composed = None
    *keys, value = rule.head.args
    reads_itself = any(getattr(each, "relation", None) == rule.head.relation for each in rule.body)
    is_key = not names_of_variables(value).isdisjoint(names_of_variables(keys))
    return extreme_only(steps, lattice, value) if here and not reads_itself and not is_key else steps


def binary_steps(rule: Rule, sizes: Sizes, arities: dict[str, int], body, every: bool = False) -> list:
    """Return a body compiled as binary joins over all tuples, without requesting indexes: for a trial."""
    compiler = Compiler(rule, Greedy(sizes, {}), Indexes(arities).order_for, {}, every)
    return compiler.compile(body, outside=names_of_variables(rule.head))


@part("plan")
def share_indexes(bodies: dict, indexes: Indexes) -> None:
    """Settle the indexes that the bodies of a stratum search. Bodies compiled with another order are dropped from `bodies`, and
    compiled again when they are needed."""
    if moved := indexes.settle():
        for key in [key for key, body in bodies.items() if any(name in moved for name, _ in body.searched)]:
            del bodies[key]


@part("plan")
def plan_all(plan, every, bodies: dict, indexes: Indexes, placing: Placing) -> list[PlannedBody]:
    """Plan the bodies of rule versions, each with the settled indexes of all. `plan` keeps its results in `bodies`, and replans
    a body with another order, or with an index replicated that is partitioned."""
    while True:
        for one in every:
            plan(*one)
        share_indexes(bodies, indexes)
        found = [plan(*one) for one in every]
        if not placing.decide(set().union(*(body.searched for body in found))):
            return found
        bodies.clear()


def versions(rule: Rule, recursive: set[str]) -> list[tuple[int, dict[int, str]]]:
    """Return the delta versions of a rule: (place of the atom that reads the delta, the part that each recursive atom reads).

    As in semi-naive evaluation, each combination of tuples is found once: atoms before the delta read "all" (older tuples and
    the delta), atoms after it "full" (older tuples). For `path(x, z) :- path(x, y), path(y, z)` they are (0, {0: "delta",
    1: "full"}) and (1, {0: "all", 1: "delta"}). In this order, atoms with computed columns come first. For
    `p(t, i, a), p(t, (i + 1) % 9, b)`, the version from p(t, i, a) reads all tuples of the other atom. The version from the
    other atom reads older tuples of p(t, i, a), which cannot be searched by i then.
    """
    places = [n for n, literal in enumerate(rule.body) if isinstance(literal, Atom) and literal.relation in recursive]
    computed = [place for place in places if any(isinstance(term, Call) for term in rule.body[place].args)]
    order = computed + [place for place in places if place not in computed]

    def parts(delta: int) -> dict[int, str]:
        before = order[: order.index(delta)]
        return {place: "delta" if place == delta else "all" if place in before else "full" for place in places}

    return [(delta, parts(delta)) for delta in places]
