"""The shape of a query: the part of it that determines the machine code. Names and values do not matter, only how atoms share
variables.

Under a variable order every atom has a *path*: its constants, then the depths of its variables, ascending. That is the column
order of its trie. A *node* (a trie and a beginning of a path) is one sibling range, known once that beginning is bound; atoms
over one relation with the same beginning share it. A variable's values are in the intersection of the ranges of several nodes,
its *set*.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from semi_naive.ra.multiway.query import Comparison, ConjunctiveQuery, Constant, Expression, QueryAtom

TOP = -1  # the depth before any variable is bound


class TrieKey(NamedTuple):
    """The identity of a trie: a relation's columns in an order, restricted to tuples whose columns in `equal` agree in
    pairs.
    """

    relation: str
    order: tuple[int, ...]
    equal: tuple[tuple[int, int], ...] = ()


class TrieNode(NamedTuple):
    """A sibling range of a trie: the slot of the trie, and the path to it: depths of variables, or ~k for the k-th constant."""

    slot: int
    path: tuple[int, ...]

    @property
    def level(self) -> int:
        return len(self.path)

    @property
    def parent(self) -> "TrieNode":
        return TrieNode(self.slot, self.path[:-1])

    @property
    def fixed(self) -> int:
        """The depth at which the range is known."""
        return max((TOP, *self.path))


Values = frozenset[TrieNode]  # a set: the intersection of the ranges of some nodes


def fixed(values: Values) -> int:
    return max(node.fixed for node in values)


class Member(NamedTuple):
    """An atom in terms of its trie: the trie's slot, and the atom's path."""

    slot: int
    path: tuple[int, ...]
    negated: bool

    def node(self, level: int) -> TrieNode:
        return TrieNode(self.slot, self.path[:level])

    def level_of(self, depth: int) -> int:
        return self.path.index(depth)


@dataclass
class Shape:
    """A query under a variable order. `constants` are those of atoms, `literals` those of comparisons.

    Atoms with the same trie share a slot. levels: for each atom the number of leading terms that atoms with a shared slot must
    have in common, because a box has slices of a trie, each below one beginning.
    """

    query: ConjunctiveQuery
    order: tuple[str, ...]
    levels: tuple[int, ...] | None = None
    slots: dict[tuple[TrieKey, tuple[int, ...]], int] = field(default_factory=dict)
    constants: list[int] = field(default_factory=list)
    literals: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.depth = {name: depth for depth, name in enumerate(self.order)}
        self.members = [self._member(atom, number) for number, atom in enumerate(self.query.atoms)]
        given = {
            name: self.query.assigned(name, self.order[:d]) for name, d in self.depth.items() if name not in self.query.joined
        }
        self.assigned = {self.depth[name]: self._expression(expression) for name, expression in given.items()}
        self.comparisons = [
            c._replace(left=self._expression(c.left), right=self._expression(c.right)) for c in self._without_assignments(given)
        ]

    @property
    def tries(self) -> list[TrieKey]:
        """The tries, by slot."""
        return [key for key, _ in self.slots]

    def _member(self, atom: QueryAtom, number: int) -> Member:
        """Return an atom's path and the slot of its trie, which atoms with the same trie and beginning share."""
        first_columns: dict = {}
        for column, term in enumerate(atom.terms):
            first_columns.setdefault(column if isinstance(term, Constant) else term, column)
        equal = tuple(
            (first_columns[term], c) for c, term in enumerate(atom.terms) if isinstance(term, str) and first_columns[term] != c
        )
        constant_columns = [column for column in first_columns.values() if isinstance(atom.terms[column], Constant)]
        variable_columns = sorted(
            (c for c in first_columns.values() if isinstance(atom.terms[c], str)), key=lambda c: self.depth[atom.terms[c]]
        )
        path = (
            *(self._constant(atom.terms[column].value) for column in constant_columns),
            *(self.depth[atom.terms[column]] for column in variable_columns),
        )
        key = TrieKey(atom.relation, (*constant_columns, *variable_columns), equal)
        beginning = path[: self.levels[number]] if self.levels else ()
        slot = self.slots.setdefault((key, beginning), len(self.slots))
        return Member(slot, path, atom.negated)

    def _constant(self, value: int) -> int:
        """Return ~k for the k-th constant, which is added if it is new."""
        if value not in self.constants:
            self.constants.append(value)
        return ~self.constants.index(value)

    def _expression(self, expression: Expression):
        """Return an expression with depths for variables and ("literal", k) for the k-th literal."""
        if isinstance(expression, str):
            return self.depth[expression]
        if isinstance(expression, Constant):
            if expression.value not in self.literals:
                self.literals.append(int(expression.value))
            return ("literal", self.literals.index(expression.value))
        op, left, right = expression
        return (op, self._expression(left), self._expression(right))

    def _without_assignments(self, given: dict[str, Expression]) -> Iterable[Comparison]:
        """Yield the comparisons without the equations that assign a variable its value."""
        for comparison in self.query.comparisons:
            sides = (comparison.left, comparison.right)
            if comparison.op != "=" or not any(isinstance(s, str) and given.get(s) == o for s, o in (sides, sides[::-1])):
                yield comparison

    @cached_property
    def joined(self) -> frozenset[int]:
        """The depths of the variables in positive atoms. They are joined as ids; the others are values."""
        return frozenset(self.depth[name] for name in self.query.joined)

    def roots(self, depth: int) -> list[Member]:
        """Return the positive atoms whose trie begins with a variable."""
        return [m for m in self.members if not m.negated and m.path[:1] == (depth,)]

    def values(self, depth: int) -> Values:
        """Return the set that contains a variable's values, of nodes that earlier variables determine. Tries that begin with
        the variable are looked up instead."""
        containing = [m for m in self.members if not m.negated and depth in m.path]
        return frozenset(m.node(m.level_of(depth)) for m in containing if m.level_of(depth))

    def negations(self, depth: int) -> list[Member]:
        """Return the negated atoms that can be tested once a variable is bound (TOP: before any is bound)."""
        return [m for m in self.members if m.negated and max((TOP, *m.path)) == depth]

    def chain(self, depth: int) -> list[Values]:
        """Return the successive restrictions of a variable's values: for each depth at which one is known, the trie nodes whose
        children are intersected by then."""
        values = self.values(depth)
        steps = sorted({node.fixed for node in values})
        return [frozenset(node for node in values if node.fixed <= step) for step in steps]

    def nodes(self) -> list[TrieNode]:
        """Return all nodes below the first level, parents first, also of negated atoms."""
        found = {m.node(level): None for m in self.members for level in range(1, len(m.path))}
        return sorted(found, key=lambda node: node.level)

    def positive(self, node: TrieNode) -> bool:
        """True if a positive atom has the node."""
        return any(not m.negated and m.slot == node.slot and m.path[: node.level] == node.path for m in self.members)

    def components(self, depths: Sequence[int]) -> list[list[int]]:
        """Group variables such that no atom or comparison connects two groups once all other variables are bound."""
        links = [set(m.path) for m in self.members] + [
            set(depths_in(c.left)) | set(depths_in(c.right)) for c in self.comparisons
        ]
        links += [{given, *depths_in(expression)} for given, expression in self.assigned.items()]
        groups: list[list[int]] = []
        for depth in depths:
            connected = [group for group in groups if any(depth in link and link & set(group) for link in links)]
            groups = [group for group in groups if group not in connected] + [sorted(sum(connected, [depth]))]
        return sorted(groups)


def depths_in(expression) -> Iterable[int]:
    """Yield the depths of the variables in an expression of `Shape.comparisons`."""
    if isinstance(expression, int):
        yield expression
    elif expression[0] != "literal":
        for side in expression[1:]:
            yield from depths_in(side)
