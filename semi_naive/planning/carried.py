"""The columns that every recursive rule of a stratum carries unchanged from its recursive atoms to its head.

    path(l, x, z) :- path(l, x, y), edge(l, y, z).      carries l and x
    path(l, x, z) :- path(l, x, y), path(l, y, z).      carries l: both atoms must have it

The tuples that agree in the carried columns are a group, and a recursive rule makes tuples of a group from tuples of the same
group. So the groups never meet, and each has a fixpoint of its own: the decomposed plan.
"""

from dataclasses import dataclass

from semi_naive.planning.strata import Stratum
from semi_naive.ra.ir import Atom, Const, Relation, Rule, Var

Columns = dict[str, tuple[int, ...]]  # of each relation of a stratum the carried columns; the i-th of all hold the same value


@dataclass(frozen=True)
class Carried:
    """The columns that a stratum carries unchanged, or the rule in which they are lost."""

    columns: Columns
    lost: Rule | None = None

    def __bool__(self) -> bool:
        return bool(self.columns)

    def told(self, relations: dict[str, Relation]) -> str:
        """Return the carried columns by name.

        >>> from semi_naive.ra.ir import Kind, Type
        >>> number = Type("number", Kind.NUMBER)
        >>> Carried({"path": (0,)}).told({"path": Relation("path", (("x", number), ("y", number)))})
        'path(x)'
        """
        names = {name: [relations[name].attributes[place][0] for place in places] for name, places in self.columns.items()}
        return ", ".join(f"{name}({', '.join(listed)})" for name, listed in names.items())


def carried(stratum: Stratum, relations: dict[str, Relation]) -> Carried:
    """Return the carried columns of a recursive stratum, as many as there are. The value of a lattice is never one, as the best
    value of a key is chosen among all its values.

    >>> from semi_naive.ra.ir import Kind, Type
    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> path = Relation("path", (("x", Type("number", Kind.NUMBER)), ("y", Type("number", Kind.NUMBER))))
    >>> rule = Rule(Atom("path", (x, z)), (Atom("path", (x, y)), Atom("edge", (y, z))))
    >>> carried(Stratum(("path",), [rule], True), {"path": path}).columns
    {'path': (0,)}
    >>> rule = Rule(rule.head, (Atom("path", (x, y)), Atom("path", (y, z))))
    >>> carried(Stratum(("path",), [rule], True), {"path": path}).columns
    {}
    """
    names = set(stratum.relations)
    recursive = [
        (rule, own_atoms) for rule in stratum.rules if (own_atoms := [atom for atom in atoms(rule) if atom.relation in names])
    ]
    places = {name: frozenset(range(relations[name].arity - bool(relations[name].lattice))) for name in stratum.relations}
    first, lost = stratum.relations[0], None
    threads: list[dict[str, int]] = []
    for place in sorted(places[first]):
        thread, losing_rule = _thread(places | {first: frozenset([place])}, recursive)
        lost = lost or losing_rule
        if thread and not any(thread[name] == other[name] for other in threads for name in names):
            threads.append(thread)
    if not recursive or not threads:
        return Carried({}, lost or next((rule for rule, _ in recursive), None))
    return Carried({name: tuple(thread[name] for thread in threads) for name in stratum.relations})


def atoms(rule: Rule) -> list[Atom]:
    return [literal for literal in rule.body if isinstance(literal, Atom)]


def _thread(places: dict[str, frozenset], recursive) -> tuple[dict[str, int], Rule | None]:
    """One column of each relation that all rules carry, out of its `places`; none, and the rule in which it is lost."""
    before: dict[str, frozenset] = {}
    while places != before:  # what a rule leaves of one relation's places, another may narrow down
        before = places
        for rule, atom in ((rule, atom) for rule, own in recursive for atom in own):
            pairs = _equal_places(rule.head, atom, places)
            places = places | {rule.head.relation: frozenset(i for i, _ in pairs)}
            places = places | {atom.relation: frozenset(j for _, j in pairs)}
            if not pairs:
                return {}, rule
    open_ = next((name for name, found in places.items() if len(found) > 1), None)
    if open_ is None:
        return {name: place for name, (place,) in places.items()}, None
    found = [_thread(places | {open_: frozenset([place])}, recursive) for place in sorted(places[open_])]
    return next((one for one in found if one[0]), found[0])


def _equal_places(head: Atom, atom: Atom, places) -> list[tuple[int, int]]:
    """Return the places of a head and of a recursive atom that hold the same variable, or the same constant."""
    found = [(i, j) for i in places[head.relation] for j in places[atom.relation] if head.args[i] == atom.args[j]]
    found = [(i, j) for i, j in found if isinstance(head.args[i], Var | Const)]
    return [(i, j) for i, j in found if i == j] if head.relation == atom.relation else found
