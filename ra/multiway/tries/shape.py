"""The shape of a query: the part of it that determines the machine code. Names and values do not matter, only how atoms share
variables.

Under a variable order every atom has a *path*: the depths of its variables, ascending. That is the column order of its trie. A
*node* (a trie and a beginning of a path) is one sibling range, known once that beginning is bound; atoms over one relation with
the same beginning share it. A variable's values are in the intersection of the ranges of several nodes, its *set*.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from semi_naive.ra.multiway.query import ConjunctiveQuery, Expression, QueryAtom

TOP = -1  # the depth before any variable is bound


class TrieKey(NamedTuple):
    """The identity of a trie: a relation's columns in an order, restricted to tuples whose columns in `equal` agree in
    pairs.
    """

    relation: str
    order: tuple[int, ...]
    equal: tuple[tuple[int, int], ...] = ()


class TrieNode(NamedTuple):
    """A sibling range of a trie: the slot of the trie, and the path to it: depths of variables."""

    slot: int
    path: tuple[int, ...]

    @property
    def level(self) -> int:
        return len(self.path)

    @property
    def parent(self) -> "TrieNode":
        return TrieNode(self.slot, self.path[:-1])

    @property
    def known_depth(self) -> int:
        """The depth at which the range is known."""
        return max((TOP, *self.path))


Values = frozenset[TrieNode]  # a set: the intersection of the ranges of some nodes


def known_depth(values: Values) -> int:
    """Return the depth at which a set is known."""
    return max(node.known_depth for node in values)


class Member(NamedTuple):
    """An atom in terms of its trie: the trie's slot, and the atom's path."""

    slot: int
    path: tuple[int, ...]
    negated: bool

    def node(self, level: int) -> TrieNode:
        """Return the node in which the term at a level of the path is searched."""
        return TrieNode(self.slot, self.path[:level])


Side = int | tuple[str, "Side", "Side"]  # the depth of a variable, ~k for the k-th literal, or (operator, side, side)


class Compared(NamedTuple):
    """A comparison of two sides."""

    op: str
    left: Side
    right: Side

    @property
    def depths(self) -> set[int]:
        """The depths of its variables."""
        return depths_in(self.left) | depths_in(self.right)

    @property
    def computes(self) -> bool:
        """True if a side is computed from values, of which ids are not enough."""
        return isinstance(self.left, tuple) or isinstance(self.right, tuple)

    def solved(self) -> "Compared":
        """Return an equation solved for the variable that is bound last, if that is possible, so that it bounds the variable to
        one value. Addition wraps around, so its inverse is exact."""
        last = max(self.depths)
        side, other = (self.left, self.right) if last in depths_in(self.left) else (self.right, self.left)
        if self.op != "=" or last in depths_in(other):
            return self
        while isinstance(side, tuple):
            op, left, right = side
            if op == "*" or depths_in(left) & depths_in(right) & {last}:
                return self  # a product has no inverse, and a variable on both sides cannot be moved
            if last in depths_in(left):
                side, other = left, ("-" if op == "+" else "+", other, right)
            else:
                side, other = right, ("-", other, left) if op == "+" else ("-", left, other)
        return Compared("=", side, other)


def depths_in(side: Side) -> set[int]:
    """Return the depths of the variables in a side of a comparison."""
    if isinstance(side, tuple):
        return depths_in(side[1]) | depths_in(side[2])
    return {side} if side >= 0 else set()


@dataclass
class Shape:
    """A query under a variable order. `literals` are the constants of comparisons.

    Atoms with the same trie share a slot. levels: for each atom the number of leading variables that atoms with a shared slot
    must have in common, because a box has slices of a trie, each below one beginning.

    slots: the number of each slot, by its trie and beginning, which is () without `levels`. depth: of each variable.
    members, comparisons: the atoms, and the comparisons, in terms of depths and slots.
    """

    query: ConjunctiveQuery
    order: tuple[str, ...]
    levels: tuple[int, ...] | None = None
    slots: dict[tuple[TrieKey, tuple[int, ...]], int] = field(default_factory=dict)
    literals: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.depth = {name: depth for depth, name in enumerate(self.order)}
        self.members = [self._member(atom, number) for number, atom in enumerate(self.query.atoms)]
        self.comparisons = [Compared(c.op, self._side(c.left), self._side(c.right)).solved() for c in self.query.comparisons]

    @property
    def computes(self) -> bool:
        """True if a comparison computes with values."""
        return any(comparison.computes for comparison in self.comparisons)

    @property
    def tries(self) -> list[TrieKey]:
        """The tries, by slot."""
        return [key for key, _ in self.slots]

    def _member(self, atom: QueryAtom, number: int) -> Member:
        """Return an atom's path and the slot of its trie, which atoms with the same trie and beginning share."""
        column_of: dict[str, int] = {}  # the first column of each variable
        equal = []  # (first column, further column) of a variable that occurs several times
        for column, name in enumerate(atom.terms):
            if column_of.setdefault(name, column) != column:
                equal.append((column_of[name], column))
        names = sorted(column_of, key=self.depth.__getitem__)
        path = tuple(self.depth[name] for name in names)
        key = TrieKey(atom.relation, tuple(column_of[name] for name in names), tuple(equal))
        beginning = path[: self.levels[number]] if self.levels else ()
        slot = self.slots.setdefault((key, beginning), len(self.slots))
        return Member(slot, path, atom.negated)

    def _side(self, side: Expression) -> Side:
        """Return a side of a comparison as in `Compared`."""
        if isinstance(side, tuple):
            return side[0], self._side(side[1]), self._side(side[2])
        if isinstance(side, str):
            return self.depth[side]
        if side.value not in self.literals:
            self.literals.append(side.value)
        return ~self.literals.index(side.value)

    def roots(self, depth: int) -> list[Member]:
        """Return the positive atoms whose trie begins with a variable."""
        return [m for m in self.members if not m.negated and m.path[:1] == (depth,)]

    def values(self, depth: int) -> Values:
        """Return the set of a variable's values: the nodes of the positive atoms that have it after other terms. A trie that
        begins with the variable is looked up by its directory instead."""
        containing = [member for member in self.members if not member.negated and depth in member.path[1:]]
        return frozenset(member.node(member.path.index(depth)) for member in containing)

    def negations(self, depth: int) -> list[Member]:
        """Return the negated atoms that can be tested once a variable is bound."""
        return [m for m in self.members if m.negated and m.path[-1] == depth]

    def chain(self, depth: int) -> list[Values]:
        """Return the restrictions of a variable's set: for each depth at which nodes become known, all known nodes."""
        values = self.values(depth)
        steps = sorted({node.known_depth for node in values})
        return [frozenset(node for node in values if node.known_depth <= step) for step in steps]

    def nodes(self) -> list[TrieNode]:
        """Return all nodes below the first level, parents first, also of negated atoms."""
        distinct = {m.node(level): None for m in self.members for level in range(1, len(m.path))}
        return sorted(distinct, key=lambda node: node.level)

    def positive(self, node: TrieNode) -> bool:
        """True if a positive atom has the node."""
        return any(not m.negated and m.slot == node.slot and m.path[: node.level] == node.path for m in self.members)

    def components(self, depths: Sequence[int]) -> list[list[int]]:
        """Group variables such that no atom or comparison connects two groups once all other variables are bound."""
        links = [set(member.path) for member in self.members]
        links += [comparison.depths for comparison in self.comparisons]
        groups: list[list[int]] = []
        for depth in depths:
            connected = [group for group in groups if any(depth in link and link & set(group) for link in links)]
            groups = [group for group in groups if group not in connected] + [sorted(sum(connected, [depth]))]
        return sorted(groups)
