"""Choose the cyclic core of a body: the atoms to join variable by variable, if binary joins make many more bindings.

    far(x, t) :- edge(x, y), edge(y, z), edge(x, z), edge(z, t).

The core is the rest of the body after all ears are removed (GYO reduction: Graham, Yu and Ozsoyoglu): the triangle. edge(z, t)
is an ear, for which no plan is better than a binary join. An acyclic body is treated as a core if a trial of its binary joins
on samples makes many bindings of which few last. A core starts from the existing bindings: in a delta version, from the delta.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass, replace
from typing import Any

from semi_naive.host.numbers import quantity
from semi_naive.planning.joins.fanout import Sizes
from semi_naive.planning.joins.placing import Placing
from semi_naive.planning.rewrite import components, connected, has_simple_arguments, variables_of
from semi_naive.ra.ir import Atom, Call, Compare, Const, Kind, Literal, Not, Rule, Term, Var, Wild
from semi_naive.ra.rules.steps import MIN_TRIE_BINDINGS

Atoms = dict[int, Atom]  # atoms of a body, by place
Parts = dict[int, str]  # by place of an atom, the part of its relation that it reads, if not "all"
MIN_ACYCLIC_TUPLES = 2_000  # tuples that an acyclic body reads from which a multiway join is considered
# For each hint on a rule: the mode, and the qualifier that requests it.
HINTS = {"multiway": ("always", ".join"), "boxed": ("always", ".join"), "binary": ("never", ".join")}
ARITHMETIC = "+", "-", "*"  # functors of signed numbers that loops compute
SAME_BY_BITS = Kind.UNSIGNED, Kind.SYMBOL  # kinds other than signed numbers whose values are equal if their 64 bits are
CYCLIC = "the body is cyclic; binary joins"
# Costs in nanoseconds: of a binding that a binary or a fused join makes; of a tuple that the multiway plan reads; of an answer.
BINARY_NS, FUSED_NS, READ_NS, ANSWER_NS = 25, 2, 150, 100
MIN_BIGJOIN_BINDINGS = 1_000_000  # bindings of binary joins from which BiGJoin is worth its stages
MIN_BIGJOIN_FANOUT = 4  # bindings that binary joins make of one binding, from which it is
BIGJOIN_COST_RATIO = 2.5  # a binding sent by BiGJoin takes 330 ns, one of binary joins 130 ns


@dataclass(frozen=True)
class CyclicCore:
    """Atoms of a body, by their places, that are joined together, and the reason.

    binary_fanout: the bindings that binary joins are expected to make of one binding; 0 if they are never used, not even for
    batches of few bindings.
    apart: relations are partitioned, so BiGJoin joins them instead of loops over tries.
    indexed: BiGJoin searches the indexes that other joins use.
    order: the order of variables for BiGJoin, if it is given.
    boxed: tries are in files, and joined box by box."""

    places: frozenset[int]
    reason: str
    binary_fanout: float = 0.0
    apart: bool = False
    indexed: bool = False
    order: tuple[str, ...] = ()
    boxed: bool = False


@dataclass(frozen=True)
class CoreChoice:
    """The core to be joined by the multiway plan, or None. note: for `explain`, why a cyclic body has none."""

    core: CyclicCore | None = None
    note: str = ""


def choose_core(
    rule: Rule, chooser: Any, version: int, mode: str, placing: Placing, binary: Callable[[], list] | None,
    indexed: bool = False,
) -> CoreChoice:  # fmt: skip
    """Choose the atoms of a rule's body, or of a delta version, to be joined variable by variable.

    `chooser`: of the order of binary joins; `version`, `placing`: see `order.plan_body`; `mode`: Config.multiway, for rules
    without .join; `binary`: compiles the body as binary joins for a trial, or None; `indexed`: a core of a delta searches
    existing indexes."""
    sizes, delta = chooser.sizes, chooser.first
    atoms = {n: literal for n, literal in enumerate(rule.body) if isinstance(literal, Atom)}
    mode, requested_by = HINTS.get(rule.join, (mode, "Config.multiway"))
    if len(atoms) < (2 if mode == "always" else 3):  # a cycle has three atoms
        return CoreChoice()
    places = core_of(atoms)
    if mode == "never" or version in (rule.plan or {}):
        note = f"{CYCLIC} as {requested_by if mode == 'never' else '.plan'} asks"
        return CoreChoice(note=note if places else "")
    if mode == "always":
        kind = "the cyclic core" if places else "all atoms"
        joined = places or largest_component({n: atom_variables(atom) for n, atom in atoms.items() if can_have_trie(atom)})
        apart, indexed = _is_partitioned(atoms, joined - {delta}, placing), indexed and delta is not None
        reason, boxed = f"{kind}, as {requested_by} asks", rule.join == "boxed"
        return CoreChoice(CyclicCore(joined, reason, apart=apart, indexed=indexed, boxed=boxed))
    if indexed and delta is not None and places:
        return CoreChoice(CyclicCore(places, "the cyclic core, from what has changed", indexed=True))
    if _is_partitioned(atoms, (places or atoms.keys()) - {delta}, placing):  # a delta need not be searched
        return _choose_partitioned(atoms, places, chooser) if places else CoreChoice()
    if not places:
        return CoreChoice() if delta is not None else _choose_acyclic(atoms, sizes, binary)
    return _choose_cyclic(atoms, places, chooser)


def _is_partitioned(atoms: Atoms, places: Collection[int], placing: Placing) -> bool:
    """True if the relation of an atom at one of the places is partitioned."""
    return any(placing(atoms[n].relation, tuple(range(len(atoms[n].args)))) for n in places)


def _choose_partitioned(atoms: Atoms, places: frozenset[int], chooser: Any) -> CoreChoice:
    """Choose between BiGJoin and binary joins for a cyclic core over partitioned relations. If the skew is known, compare the
    bindings of binary joins with those that BiGJoin ships. Otherwise only the bindings of binary joins count: at worst BiGJoin
    takes half as long again."""
    made, per_start = chooser.bindings_of_core(atoms, places)
    expected = f"expected to make {quantity(made, 'binding')}"
    starts = places if chooser.first is None else {chooser.first}
    shipped = [estimate for start in starts if (estimate := _bindings_shipped(atoms, places, start, chooser.sizes)) is not None]
    if made < max(MIN_BIGJOIN_BINDINGS, BIGJOIN_COST_RATIO * min(shipped, default=0.0)) or per_start < MIN_BIGJOIN_FANOUT:
        compared = f", and BiGJoin to ship {min(shipped):,.0f}" if shipped and made >= MIN_BIGJOIN_BINDINGS else ""
        return CoreChoice(note=f"{CYCLIC} all the same: they are {expected}{compared}")
    return CoreChoice(CyclicCore(places, f"the cyclic core, partitioned: binary joins are {expected}", apart=True))


def _bindings_shipped(atoms: Atoms, places: frozenset[int], start: int, sizes) -> float | None:
    """Estimate the bindings that BiGJoin ships for the first variable that several atoms can propose, if it starts from the
    atom at `start`: one for each of these atoms, which count it, and the values proposed by the atom with the fewest tuples.
    None if the estimate does not exist. sizes: those of relations on the partitions."""
    relation, bound = atoms[start].relation, atom_variables(atoms[start])
    column = {term.name: place for place, term in enumerate(atoms[start].args) if isinstance(term, Var)}
    variables = {n: atom_variables(atoms[n]) for n in places}
    for name in sorted(frozenset().union(*variables.values()) - bound):
        proposing = [n for n in sorted(places - {start}) if name in variables[n] and len(variables[n] & bound) == 1]
        if len(proposing) > 1:
            joins = [
                (column[term.name], atoms[n].relation, place)
                for n in proposing
                for place, term in enumerate(atoms[n].args)
                if _is_bound(term, bound)
            ]
            fewest = sizes.fewest_fanout(relation, joins)
            return None if fewest is None else sizes.size(relation) * (len(proposing) + fewest)
    return None


def _choose_cyclic(atoms: Atoms, places: frozenset[int], chooser: Any) -> CoreChoice:
    """Choose the multiway plan for a cyclic core in one process, unless binary joins make few bindings or a relation grows."""
    delta = chooser.first
    growing = [atoms[n].relation for n in sorted(places & chooser.parts.keys()) if n != delta]
    if growing:  # its trie would be built again in each iteration
        return CoreChoice(note=f"{CYCLIC} all the same, as {growing[0]} grows in each iteration")
    made, per_start = chooser.bindings_of_core(atoms, places)
    if delta is not None:  # small deltas are left to binary joins, by `binary_fanout`
        return CoreChoice(CyclicCore(places, "the cyclic core", per_start))
    if made < max(MIN_TRIE_BINDINGS, _tuples_to_read(atoms, places, chooser.sizes, delta)):
        return CoreChoice(note=f"{CYCLIC} all the same: they are expected to make {quantity(made, 'binding')}")
    return CoreChoice(CyclicCore(places, f"the cyclic core: binary joins are expected to make {quantity(made, 'binding')}"))


def choose_counted(
    rule: Rule, body: tuple, outer: set[str], chooser: Any, mode: str, placing: Placing, binary: Callable[[], list] | None
) -> CyclicCore | None:  # fmt: skip
    """Return the core of an aggregate's body; None if it is partitioned, if a variable of it is bound outside (`outer`), or if
    several of its tuples can make one binding. Other arguments: see `choose_core`."""
    trial = None if outer else binary  # a trial starts without bound variables
    core = choose_core(replace(rule, body=body, plan=None), chooser, 0, mode, placing, trial).core
    if core is None or core.apart:
        return None
    atoms = [body[place] for place in core.places]
    return None if any(atom_variables(atom) & outer or Wild() in atom.args for atom in atoms) else core


def _choose_acyclic(atoms: Atoms, sizes: Sizes, binary: Callable[[], list] | None) -> CoreChoice:
    """Choose the multiway plan for an acyclic body if a trial of its binary joins makes many bindings of which few remain."""
    tuples_read = _tuples_to_read(atoms, atoms, sizes, None)
    if binary is None or tuples_read < MIN_ACYCLIC_TUPLES or not all(map(can_have_trie, atoms.values())):
        return CoreChoice()
    if len(connected(atoms.values())) > 1:
        return CoreChoice()
    from semi_naive.planning.joins.trial import run_trial  # few bodies need one

    trial = run_trial(binary(), sizes) if hasattr(sizes, "sample") else None
    if trial is None or trial.total < MIN_TRIE_BINDINGS:
        return CoreChoice()
    results = min(trial.found, largest_result(atoms, sizes, {}))
    binary_cost = sum(made * (FUSED_NS if fused else BINARY_NS) for made, fused in trial.made)
    if binary_cost < READ_NS * tuples_read + ANSWER_NS * results:
        return CoreChoice()
    reason = f"binary joins are expected to make {quantity(trial.total, 'binding')}, of which {results:,.0f} last"
    return CoreChoice(CyclicCore(frozenset(atoms), reason))


def largest_result(atoms: Atoms, sizes: Sizes, parts: Parts) -> float:
    """Return the AGM bound: the most bindings that some atoms can have together (Atserias, Grohe, Marx 2008). atoms, parts: by
    place in the body."""
    from semi_naive.ra.multiway import query as joins
    from semi_naive.ra.multiway.agm import agm_bound

    query = joins.ConjunctiveQuery(
        tuple(joins.QueryAtom(str(n), tuple(sorted(atom_variables(atom)))) for n, atom in atoms.items())
    )
    return agm_bound(query, {str(n): max(1, math.ceil(sizes.size(a.relation, parts.get(n, "all")))) for n, a in atoms.items()})


def _tuples_to_read(atoms: Atoms, places: Iterable[int], sizes: Sizes, delta: int | None) -> float:
    """Return the number of tuples from which tries are built: of the distinct relations of the atoms, without the delta."""
    return sum(sizes.size(name) for name in {atoms[n].relation for n in places if n != delta})


# -- cyclic cores


def atom_variables(atom: Atom) -> frozenset[str]:
    return frozenset(term.name for term in atom.args if isinstance(term, Var))


def can_have_trie(atom: Atom) -> bool:
    """True if a trie can be built for the atom: all its terms are variables, constants or wildcards."""
    return bool(atom_variables(atom)) and has_simple_arguments(atom)


def core_of(atoms: Atoms) -> frozenset[int]:
    """Return the places of a body's cyclic core: the atoms that remain when ears are removed, and atoms of their variables
    only. Of several unconnected cores, return the largest. atoms: by place.

    >>> x, y, z, t = (Var(name, Kind.NUMBER) for name in "xyzt")
    >>> body = [Atom("e", pair) for pair in ((x, y), (y, z), (z, t), (x, z))] + [Atom("good", (y,))]
    >>> sorted(core_of(dict(enumerate(body)))), sorted(core_of(dict(enumerate(body[:3]))))
    ([0, 1, 3, 4], [])
    """
    possible = {n: atom_variables(atom) for n, atom in atoms.items() if can_have_trie(atom)}
    places = largest_component(residue(possible))
    bound = frozenset().union(*(possible[n] for n in places))
    return frozenset(n for n, own in possible.items() if own <= bound)


def largest_component(edges: dict[int, frozenset[str]]) -> frozenset[int]:
    """Return the places of the largest connected component of a hypergraph. edges: the variables of each edge, by place."""
    places = list(edges)
    return frozenset(places[number] for number in max(components(edges.values()), key=len, default=()))


def residue(edges: dict[int, frozenset[str]]) -> dict[int, frozenset[str]]:
    """Reduce a hypergraph by GYO: remove variables of a single edge, and edges contained in another edge, until no more can be
    removed. edges: the variables of each edge, by place."""
    while True:
        degrees = Counter(name for edge in edges.values() for name in edge)
        edges = {n: frozenset(name for name in edge if degrees[name] > 1) for n, edge in edges.items()}
        ear = next((n for n, edge in edges.items() if not edge or any(edge <= edges[m] for m in edges if m != n)), None)
        if ear is None:
            return edges
        edges = {n: edge for n, edge in edges.items() if n != ear}


def _is_bound(term: Term, bound: Container[str]) -> bool:
    return isinstance(term, Var) and term.name in bound


def is_tested_in_loops(literal: Literal, atoms: Collection[Atom], sizes: Sizes) -> bool:
    """True if the loops of a multiway join over some atoms can test a literal: a comparison of signed numbers (with sums,
    differences and products), one of ids for equality, or a negated atom, of constants and variables that the loops bind. The
    trie of a negated atom must not exceed those of the other relations."""
    bound = frozenset().union(*map(atom_variables, atoms))
    if isinstance(literal, Not):
        read = sum(sizes.size(name) for name in {atom.relation for atom in atoms})
        atom = literal.atom
        return can_have_trie(atom) and atom_variables(atom) <= bound and sizes.size(atom.relation) <= read
    if not isinstance(literal, Compare):
        return False
    sides = (literal.left, literal.right)
    if literal.kind != Kind.NUMBER:
        return literal.kind in SAME_BY_BITS and literal.op in ("=", "!=") and all(_is_bound(side, bound) for side in sides)
    return all(_is_computable(side, bound) for side in sides) and bool(variables_of(sides))


def _is_computable(term: Term, bound: Container[str]) -> bool:
    """True if the loops of a multiway join can compute a signed number of constants and variables that they bind."""
    if isinstance(term, Call):
        is_known = term.kind == Kind.NUMBER and term.op in ARITHMETIC and len(term.args) == 2
        return is_known and all(_is_computable(arg, bound) for arg in term.args)
    return isinstance(term, Const) and isinstance(term.value, int) or _is_bound(term, bound)
