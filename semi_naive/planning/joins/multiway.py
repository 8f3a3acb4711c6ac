"""Choose the cyclic core of a body: the atoms to join variable by variable, because binary joins would make many more
bindings.

    far(x, t) :- edge(x, y), edge(y, z), edge(x, z), edge(z, t).

The core is the rest of the body after all ears are removed (GYO reduction: Graham, Yu and Ozsoyoglu): the triangle. edge(z, t)
is an ear, for which no plan is better than a binary join. An acyclic body is treated as a core if a trial of its binary joins
on samples makes many bindings of which few last. A core starts from the existing bindings: in a delta version, from the delta.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace

from semi_naive.host.numbers import quantity
from semi_naive.planning.joins.fanout import BOUND_ATOM_SELECTIVITY, selection_size
from semi_naive.ra.ir import Atom, Compare, Const, Kind, Not, Rule, Var, Wild
from semi_naive.ra.rules.steps import MIN_TRIE_BINDINGS

MIN_ACYCLIC_TUPLES = 2_000  # tuples that an acyclic body reads from which a multiway join is considered
MIN_FANOUT = 0.01  # the least expected number of tuples for a value, as 0 would hide every later join
# For each hint on a rule: the mode, and the qualifier that requests it.
HINTS = {"multiway": ("always", ".join"), "binary": ("never", ".join")}
CYCLIC = "the body is cyclic; binary joins"
MADE, FUSED = 25, 2  # nanoseconds a binding that a binary join makes, and one that the fused join makes
# Bindings of binary joins, in all and for each binding, from which BiGJoin is worth its stages.
SHIPPED, SPREADING = 1_000_000, 4
BIGJOIN_COST_RATIO = 2.5  # a binding sent by BiGJoin takes 330 ns, one of binary joins 130 ns
READ, FOUND = 150, 100  # and those of the multiway plan: for each tuple that it reads, and each answer


@dataclass(frozen=True)
class CyclicCore:
    """Atoms of a body, by their places, that are joined together, and the reason.

    each: the bindings that binary joins are expected to make of one binding; 0 if they are not to be used for few bindings.
    apart: relations are partitioned, so BiGJoin joins them instead of loops over tries.
    indexed: BiGJoin searches the indexes that other joins use.
    order: the order of variables for BiGJoin, if it is given.
    """

    places: frozenset[int]
    reason: str
    each: float = 0.0
    apart: bool = False
    indexed: bool = False
    order: tuple[str, ...] = ()


@dataclass(frozen=True)
class CoreChoice:
    """The core to be joined by the multiway plan, or None. note: for `explain`, why a cyclic body has none."""

    core: CyclicCore | None = None
    note: str = ""


def choose_core(
    rule: Rule, sizes, parts: dict[int, str], delta: int | None, version: int, mode: str, placing, binary, indexed=False
) -> CoreChoice:  # fmt: skip
    """Choose the atoms of a rule's body, or of a delta version, to be joined variable by variable. `mode`: Config.multiway, for
    rules without .join; `placing`: which indexes are partitioned; `binary`: compiles the body as binary joins for a trial, or
    None; `indexed`: a core that starts from a delta searches existing indexes."""
    atoms = {n: literal for n, literal in enumerate(rule.body) if isinstance(literal, Atom)}
    mode, asks = HINTS.get(rule.join, (mode, "Config.multiway"))
    if len(atoms) < (2 if mode == "always" else 3):  # a cycle has three
        return CoreChoice()
    places = core_of(atoms)
    if mode == "never" or version in (rule.plan or {}):
        return CoreChoice(note=f"{CYCLIC} as {asks if mode == 'never' else '.plan'} asks" * bool(places))
    if mode == "always":
        kind = "the cyclic core" if places else "all atoms"
        all_of = places or group_of({n: atom_variables(atom) for n, atom in atoms.items() if eligible(atom)})
        apart, indexed = _is_partitioned(atoms, all_of - {delta}, placing), indexed and delta is not None
        return CoreChoice(CyclicCore(all_of, f"{kind}, as {asks} asks", apart=apart, indexed=indexed))
    if indexed and delta is not None and places:
        return CoreChoice(CyclicCore(places, "the cyclic core, from what has changed", indexed=True))
    if _is_partitioned(atoms, (places or atoms.keys()) - {delta}, placing):
        return _partitioned(atoms, places, sizes, parts, delta) if places else CoreChoice()
    if not places:
        return CoreChoice() if delta is not None else _beyond(atoms, sizes, binary)
    return _cyclic(atoms, places, sizes, parts, delta)


def _is_partitioned(atoms, places, placing) -> bool:
    """True if the relation of some atom is partitioned."""
    return any(placing(atoms[n].relation, tuple(range(len(atoms[n].args)))) for n in places)


def _partitioned(atoms, places, sizes, parts, delta) -> CoreChoice:
    """Choose between BiGJoin and binary joins for a cyclic core over partitioned relations. If the skew is known, compare with
    the bindings that BiGJoin ships. If it is not, only the bindings of binary joins count: at worst BiGJoin takes half as long
    again."""
    made, each = bindings_made(atoms, places, sizes, parts, delta)
    expected = f"expected to make {quantity(made, 'binding')}"
    starts = places if delta is None else {delta}
    known = [found for start in starts if (found := _shipped(atoms, places, start, sizes)) is not None]
    if made < max(SHIPPED, BIGJOIN_COST_RATIO * min(known, default=0.0)) or each < SPREADING:
        shipped = f", and BiGJoin to ship {min(known):,.0f}" if known and made >= SHIPPED else ""
        return CoreChoice(note=f"{CYCLIC} all the same: they are {expected}{shipped}")
    return CoreChoice(CyclicCore(places, f"the cyclic core, partitioned: binary joins are {expected}", apart=True))


def _shipped(atoms, places, start: int, sizes) -> float | None:
    """Estimate the bindings that BiGJoin ships from one atom on: one for each atom that counts the next variable, and the
    values proposed by the atom with the fewest tuples. None if the estimate does not exist."""
    relation, bound = atoms[start].relation, atom_variables(atoms[start])
    column = {term.name: place for place, term in enumerate(atoms[start].args) if isinstance(term, Var)}
    for name in sorted(frozenset().union(*(atom_variables(atoms[n]) for n in places)) - bound):
        met = [
            n
            for n in sorted(places - {start})
            if name in atom_variables(atoms[n]) and len(atom_variables(atoms[n]) & bound) == 1
        ]
        if len(met) > 1:
            found = [(n, c, term) for n in met for c, term in enumerate(atoms[n].args) if _bound(term, bound)]
            fewest = sizes.fewest_fanout(relation, [(column[term.name], atoms[n].relation, c) for n, c, term in found])
            return None if fewest is None else sizes.size(relation) * (len(met) + fewest)
    return None


def _cyclic(atoms, places, sizes, parts, delta) -> CoreChoice:
    """Choose the multiway plan for a cyclic core in one process, unless binary joins make few bindings or a relation grows."""
    growing = [atoms[n].relation for n in sorted(places & parts.keys()) if n != delta]
    if growing:
        return CoreChoice(note=f"{CYCLIC} all the same, as {growing[0]} grows in each iteration")
    made, each = bindings_made(atoms, places, sizes, parts, delta)
    if delta is not None:
        return CoreChoice(CyclicCore(places, "the cyclic core", each))
    if made < max(MIN_TRIE_BINDINGS, _tuples_to_read(atoms, places, sizes, delta)):
        return CoreChoice(note=f"{CYCLIC} all the same: they are expected to make {quantity(made, 'binding')}")
    return CoreChoice(CyclicCore(places, f"the cyclic core: binary joins are expected to make {quantity(made, 'binding')}"))


def choose_counted(rule: Rule, body: tuple, outer: set[str], sizes, mode: str, placing, binary) -> CyclicCore | None:
    """Return the core of an aggregate's body, unless a variable is bound outside or several tuples can be one binding."""
    choice = choose_core(replace(rule, body=body, plan=None), sizes, {}, None, 0, mode, placing, None if outer else binary)
    atoms = [body[place] for place in choice.core.places] if choice.core else []
    if any(atom_variables(atom) & outer or Wild() in atom.args for atom in atoms) or choice.core and choice.core.apart:
        return None
    return choice.core


def _beyond(atoms, sizes, binary) -> CoreChoice:
    """Choose the multiway plan for an acyclic body if a trial of its binary joins makes many bindings of which few remain."""
    tuples_read, names = _tuples_to_read(atoms, atoms, sizes, None), {n: atom_variables(atom) for n, atom in atoms.items()}
    if (
        tuples_read < MIN_ACYCLIC_TUPLES
        or binary is None
        or len(group_of(names)) < len(atoms)
        or not all(map(eligible, atoms.values()))
    ):
        return CoreChoice()
    from semi_naive.planning.joins.trial import tried  # few bodies need one

    trial = tried(binary(), sizes) if hasattr(sizes, "sample") else None
    if trial is None or trial.total < MIN_TRIE_BINDINGS:
        return CoreChoice()
    results = min(trial.found, largest_result(atoms, sizes, {}))
    if sum(made * (FUSED if fused else MADE) for made, fused in trial.made) < READ * tuples_read + FOUND * results:
        return CoreChoice()
    reason = f"binary joins are expected to make {quantity(trial.total, 'binding')}, of which {results:,.0f} last"
    return CoreChoice(CyclicCore(frozenset(atoms), reason))


def largest_result(atoms: dict[int, Atom], sizes, parts: dict[int, str]) -> float:
    """The AGM bound: the most bindings that some atoms can have together (Atserias, Grohe, Marx 2008)."""
    from semi_naive.ra.multiway import query as joins
    from semi_naive.ra.multiway.agm import agm_bound

    query = joins.ConjunctiveQuery(
        tuple(joins.QueryAtom(str(n), tuple(sorted(atom_variables(atom)))) for n, atom in atoms.items())
    )
    return agm_bound(query, {str(n): max(1, math.ceil(sizes.size(a.relation, parts.get(n, "all")))) for n, a in atoms.items()})


def _tuples_to_read(atoms, places, sizes, delta) -> float:
    """The tuples that tries are made from."""
    return sum(sizes.size(name) for name in {atoms[n].relation for n in places if n != delta})


# -- cyclic cores


def atom_variables(atom: Atom) -> frozenset[str]:
    return frozenset(term.name for term in atom.args if isinstance(term, Var))


def eligible(atom: Atom) -> bool:
    """True if a trie can be built for the atom: all its terms are variables, constants or wildcards."""
    return bool(atom_variables(atom)) and all(isinstance(term, Var | Const | Wild) for term in atom.args)


def core_of(atoms: dict[int, Atom]) -> frozenset[int]:
    """Return the places of the atoms that remain when ears are removed, with the atoms that only bind the same variables; of
    several unconnected groups, the largest.

    >>> x, y, z, t = (Var(name, Kind.NUMBER) for name in "xyzt")
    >>> body = [Atom("e", pair) for pair in ((x, y), (y, z), (z, t), (x, z))] + [Atom("good", (y,))]
    >>> sorted(core_of(dict(enumerate(body)))), sorted(core_of(dict(enumerate(body[:3]))))
    ([0, 1, 3, 4], [])
    """
    possible = {n: atom_variables(atom) for n, atom in atoms.items() if eligible(atom)}
    places = group_of(residue(possible))
    bound = frozenset().union(*(possible[n] for n in places))
    return frozenset(n for n, own in possible.items() if own <= bound)


def group_of(edges: dict[int, frozenset[str]]) -> frozenset[int]:
    """The largest group of edges that variables connect."""
    groups: list[tuple[frozenset, frozenset]] = [(frozenset(), frozenset())]
    for place, edge in edges.items():
        met = [group for group in groups if group[1] & edge]
        one = frozenset({place}).union(*(places for places, _ in met)), edge.union(*(names for _, names in met))
        groups = [group for group in groups if group not in met] + [one]
    return max(groups, key=lambda group: len(group[0]))[0]


def residue(edges: dict[int, frozenset[str]]) -> dict[int, frozenset[str]]:
    """Remove variables of a single edge, and edges contained in another edge, until none is left."""
    left = dict(edges)
    while True:
        edges_of = Counter(name for edge in left.values() for name in edge)
        lonely = {name for name, met in edges_of.items() if met == 1}
        smaller = {n: edge - lonely for n, edge in left.items()}
        within = next((n for n, e in smaller.items() if not e or any(e <= o for m, o in smaller.items() if m != n)), None)
        if within is None:
            return smaller
        left = {n: edge for n, edge in smaller.items() if n != within}


# -- what binary joins would make


def bindings_made(atoms: dict[int, Atom], core: frozenset[int], sizes, parts, delta) -> tuple[float, float]:
    """Estimate (the bindings that binary joins of the core make, from the delta or the best start; those for each binding with
    which they start)."""
    starts = [delta] if delta is not None else list(atoms)
    return min(_made_from(start, atoms, core, sizes, parts, delta) for start in starts)


def _made_from(start: int, atoms, core, sizes, parts, delta) -> tuple[float, float]:
    """Estimate the bindings that binary joins of the core make from one atom on, in all and for each binding to begin with."""
    _, rows = _partners(atoms[start], [], frozenset(), sizes, parts.get(start, "all"))
    total, began = (rows, 1.0) if start in core and start != delta else (0.0, rows)
    joined, left = [start], set(atoms) - {start}
    while left:
        offered = [atoms[m] for m in joined if m != delta]
        bound = frozenset().union(*(atom_variables(atoms[m]) for m in joined))
        met = {n: _partners(atoms[n], offered, bound, sizes, parts.get(n, "all")) for n in left}
        place = min(met, key=lambda n: (*met[n], n))
        began = rows if place in core and not total else began
        rows *= met[place][1]
        total += rows if place in core else 0.0
        joined.append(place)
        left.remove(place)
    return total, total / began


def _partners(atom: Atom, known: list[Atom], bound, sizes, part: str) -> tuple[bool, float]:
    """Return (True if nothing joins the atom yet, tuples that match a binding). The estimate includes skew if both tables are
    in this process. known: the atoms joined before; bound: their variables; part: the part of the relation that is read."""
    places = [place for place, term in enumerate(atom.args) if isinstance(term, Const) or _bound(term, bound)]
    rest, constants = selection_size(sizes, atom, part)
    if len(places) == len(atom.args) and not constants:
        return False, BOUND_ATOM_SELECTIVITY
    size, keys = max(sizes.size(atom.relation, part), 1.0), 1.0
    for place in set(places) - {place for place, _ in constants}:
        keys *= max(1.0, size / max(_matching_tuples(atom, place, known, size, sizes), MIN_FANOUT))
    return not places, max(rest, MIN_FANOUT) / min(keys, size)


def _bound(term, bound) -> bool:
    return isinstance(term, Var) and term.name in bound


def _matching_tuples(atom: Atom, place: int, known: list[Atom], size: float, sizes) -> float:
    """Tuples that have a value in one column, as another atom offers it. place: the column; known: the atoms joined before;
    size: tuples of the atom's relation."""
    average = size / max(1.0, sizes.distinct(atom.relation, place))
    offered = [(o.relation, c) for o in known for c, term in enumerate(o.args) if term == atom.args[place]]
    if isinstance(atom.args[place], Const) or not hasattr(sizes, "join_fanout"):
        return average
    return min([sizes.join_fanout(name, (c,), atom.relation, (place,)) for name, c in offered], default=average)


def pushed(literal, atoms, sizes) -> bool:
    """True if the loops over some atoms can test a literal: a comparison of signed numbers, or a negated atom, of constants and
    variables that the loops bind. The trie of a negated atom must not be larger than those of the other relations together."""
    bound = frozenset().union(*map(atom_variables, atoms))
    if isinstance(literal, Not):
        read = sum(sizes.size(name) for name in {atom.relation for atom in atoms})
        return eligible(literal.atom) and atom_variables(literal.atom) <= bound and sizes.size(literal.atom.relation) <= read
    if not isinstance(literal, Compare) or literal.kind != Kind.NUMBER:
        return False
    sides = (literal.left, literal.right)
    return all(isinstance(s, Const) or _bound(s, bound) for s in sides) and any(isinstance(s, Var) for s in sides)
