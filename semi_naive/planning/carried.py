"""The columns that every recursive rule of a stratum carries unchanged from its recursive atoms to its head.

    path(l, x, z) :- path(l, x, y), edge(l, y, z).      carries l and x
    path(l, x, z) :- path(l, x, y), path(l, y, z).      carries l: both atoms must have it

The tuples that agree in the carried columns are a group, and a recursive rule makes tuples of a group from tuples of the same
group. So the groups never meet, and each has a fixpoint of its own: the decomposed plan."""

from dataclasses import dataclass

from semi_naive.planning.rewrite import positive_atoms
from semi_naive.planning.strata import Stratum
from semi_naive.ra.ir import Atom, Const, Relation, Rule, Var

Columns = dict[str, tuple[int, ...]]  # by relation, its carried columns; those with the same number hold the same value


@dataclass(frozen=True)
class Carried:
    """The columns that a stratum carries unchanged. lost: if there are none, a rule that does not carry any."""

    columns: Columns
    lost: Rule | None = None

    def __bool__(self) -> bool:
        return bool(self.columns)

    def described(self, relations: dict[str, Relation]) -> str:
        """Return the carried columns as text.

        >>> from semi_naive.ra.ir import Kind, Type
        >>> number = Type("number", Kind.NUMBER)
        >>> Carried({"path": (0,)}).described({"path": Relation("path", (("x", number), ("y", number)))})
        'path(x)'
        """
        names = {name: [relations[name].attributes[place][0] for place in places] for name, places in self.columns.items()}
        return ", ".join(f"{name}({', '.join(listed)})" for name, listed in names.items())


def carried(stratum: Stratum, relations: dict[str, Relation]) -> Carried:
    """Return all carried columns of a recursive stratum. The value of a lattice is never carried, as the best value of a key is
    chosen among all its values.

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
    recursive = [(rule, atom) for rule in stratum.rules for atom in positive_atoms(rule.body) if atom.relation in names]
    candidates = {name: frozenset(range(relations[name].arity - bool(relations[name].lattice))) for name in stratum.relations}
    first, lost = stratum.relations[0], None
    choices: list[dict[str, int]] = []
    for column in sorted(candidates[first]):  # a choice has one column of every relation, so those of the first suffice
        choice, losing_rule = _carried_columns(candidates | {first: frozenset([column])}, recursive)
        lost = lost or losing_rule
        # a column can be carried for one choice only
        if choice and not any(choice[name] == other[name] for other in choices for name in names):
            choices.append(choice)
    if not recursive or not choices:
        return Carried({}, lost or next((rule for rule, _ in recursive), None))
    return Carried({name: tuple(choice[name] for choice in choices) for name in stratum.relations})


def _carried_columns(
    candidates: dict[str, frozenset[int]], recursive: list[tuple[Rule, Atom]]
) -> tuple[dict[str, int], Rule | None]:
    """Choose one of the candidate columns of each relation such that all rules carry its value: return (the columns, None), or
    ({}, a rule that does not carry it). recursive: (rule, recursive atom) pairs."""
    before: dict[str, frozenset[int]] = {}
    while candidates != before:  # a rule may exclude candidates of one relation, and so others by another rule
        before = candidates
        for rule, atom in recursive:
            pairs = _equal_columns(rule.head, atom, candidates)
            candidates = candidates | {rule.head.relation: frozenset(column for column, _ in pairs)}
            candidates = candidates | {atom.relation: frozenset(column for _, column in pairs)}
            if not pairs:
                return {}, rule
    ambiguous = next((name for name, columns in candidates.items() if len(columns) > 1), None)
    if ambiguous is None:
        return {name: column for name, (column,) in candidates.items()}, None
    choices = [candidates | {ambiguous: frozenset([column])} for column in sorted(candidates[ambiguous])]
    results = [_carried_columns(choice, recursive) for choice in choices]
    return next(((columns, lost) for columns, lost in results if columns), results[0])  # all fail: report the first


def _equal_columns(head: Atom, atom: Atom, candidates: dict[str, frozenset[int]]) -> list[tuple[int, int]]:
    """Return the pairs of candidate columns, of a head and of a recursive atom, that hold the same variable or constant. In two
    atoms of one relation, it must be the same column."""
    pairs = [(i, j) for i in candidates[head.relation] for j in candidates[atom.relation] if head.args[i] == atom.args[j]]
    pairs = [(i, j) for i, j in pairs if isinstance(head.args[i], Var | Const)]
    return [(i, j) for i, j in pairs if i == j] if head.relation == atom.relation else pairs
