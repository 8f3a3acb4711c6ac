"""Names and conditions in the source of a generated kernel: comparisons, negated atoms and bounds, as filters and as ranges of
ids.

Values are joined as dense *ids* in the same order (`tries.domain`). Variables are bound in a fixed order; a variable's *depth*
is its place in it. A *node* is a sibling range of a trie (`tries.shape`).
"""

from semi_naive.ra.multiway.query import Comparison
from semi_naive.ra.multiway.tries.shape import TOP, Member, Shape, TrieNode, Values, depths_in

SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
PYTHON = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class Conditions:
    """The names and conditions in the kernel of one query shape.

    The variable at depth d is x<d> as an id and r<d> as a value. The range of node n is l<n> to h<n> in the values of its
    level. The stored intersection of a set of nodes with number n is b<n>[:c<n>], and its mark is m<n>. bounded: the depths of
    variables that are restricted to a box. marked: the sets that have marks, in the order of their discovery.
    """

    def __init__(self, shape: Shape, bounded: frozenset[int]):
        self.shape, self.bounded = shape, bounded
        self.numbers: dict = {}
        self.marked: dict[Values, None] = {}

    def number(self, thing: TrieNode | Values | tuple[tuple[int, int], ...]) -> int:
        """Return the number of a node, a set of nodes, or rows of bits: the n in its names."""
        return self.numbers.setdefault(thing, len(self.numbers))

    def levels(self, node: TrieNode) -> str:
        return f"v{node.slot}_{node.level}"

    def low(self, node: TrieNode) -> str:
        return f"l{self.number(node)}"

    def high(self, node: TrieNode) -> str:
        return f"h{self.number(node)}"

    def place(self, values: Values) -> tuple[str, str, str]:
        """Return (array, low, high), as source, of a set that is known: a range of a trie, or a buffer."""
        if len(values) == 1:
            (node,) = values
            return self.levels(node), self.low(node), self.high(node)
        return f"b{self.number(values)}", "0", f"c{self.number(values)}"

    def mark(self, values: Values) -> str:
        return f"m{self.number(values)}"

    def raw(self, expression) -> str:
        """Return the source of the value, in 64 bits, of an expression of `Shape.comparisons`: a depth, ("literal", k), or (op,
        left, right)."""
        if isinstance(expression, int):
            return f"r{expression}"
        if expression[0] == "literal":
            return f"literals[{expression[1]}]"
        return f"({self.raw(expression[1])} {expression[0]} {self.raw(expression[2])})"

    def needs_raw(self, depth: int) -> bool:
        """True if a joined variable is read as a value, not only as an id."""
        sides = [side for c in self.shape.comparisons for side in self._sides_by_value(c)]
        sides += [*self.shape.assigned.values()]
        return any(depth in depths_in(side) for side in sides)

    def _sides_by_value(self, comparison: Comparison) -> tuple:
        """Return the sides of a comparison that are read as values, not as ids."""
        sides = (comparison.left, comparison.right)
        if all(self._is_joined_variable(side) for side in sides):
            return ()
        bound = self._as_bound(comparison)  # (op, other side)
        return sides if bound is None else (bound[1],)

    def _is_joined_variable(self, side) -> bool:
        """True if a side of a comparison is a joined variable, which is compared by its id."""
        return isinstance(side, int) and side in self.shape.joined

    def _depth_of_last_variable(self, comparison: Comparison) -> int:
        """Return the greatest depth of the variables in a comparison."""
        return max((TOP, *depths_in(comparison.left), *depths_in(comparison.right)))

    def _as_bound(self, comparison: Comparison) -> tuple | None:
        """Return (op, other side) if a comparison bounds the last of its variables to a range of ids; None for a filter."""
        last = self._depth_of_last_variable(comparison)
        if comparison.op == "!=" or last not in self.shape.joined:
            return None
        for op, side, other in (
            (comparison.op, comparison.left, comparison.right),
            (SWAPPED[comparison.op], comparison.right, comparison.left),
        ):
            if side == last and last not in depths_in(other):
                return op, other
        return None

    def bounds(self, depth: int) -> tuple[list[str], list[str]]:
        """Return (lows, highs): the inclusive lower and exclusive upper bounds of a variable's ids, as source."""
        lows, highs = [], []
        for comparison in self.shape.comparisons:
            if self._depth_of_last_variable(comparison) == depth and (bound := self._as_bound(comparison)):
                op, other = bound
                if op in (">", ">=", "="):
                    lows.append(self._rank(other, after=op == ">"))
                if op in ("<", "<=", "="):
                    highs.append(self._rank(other, after=op != "<"))
        if depth == 0 or depth in self.bounded:  # the first variable is always divided, among tasks
            lows.append(f"box[{2 * depth}]")
            highs.append(f"box[{2 * depth + 1}]")
        return lows, highs

    def _rank(self, side, after: bool) -> str:
        """Return the source of the first id whose value is not below a side's value or, if `after`, is above it."""
        if self._is_joined_variable(side):
            return f"x{side} + 1" if after else f"x{side}"
        return f"rank(names, base, size, {self.raw(side)}, {after})"

    def filters(self, depth: int) -> list[str]:
        """Return the conditions on a binding of the variables up to `depth` that are not expressed as ranges."""
        conditions = []
        if depth in self.bounded and depth not in self.shape.joined:  # a value that has no id belongs to the first box
            low, high = f"box[{2 * depth}]", f"box[{2 * depth + 1}]"
            conditions.append(f"({low} <= x{depth} < {high} or (x{depth} < 0 and {low} == 0))")
        for comparison in self.shape.comparisons:
            if self._depth_of_last_variable(comparison) == depth and self._as_bound(comparison) is None:
                sides = (comparison.left, comparison.right)
                left, right = (f"x{s}" if all(map(self._is_joined_variable, sides)) else self.raw(s) for s in sides)
                conditions.append(f"{left} {PYTHON[comparison.op]} {right}")
        return conditions

    def present(self, member: Member) -> str:
        """Return the condition that an atom holds, once all of its terms are bound: the last term is in its range."""
        last = member.path[-1]
        node = member.node(len(member.path) - 1)
        if node.level == 0:
            return f"has_first_id(dir{member.slot}, {self.id(last)} - base{member.slot})"
        if frozenset([node]) in self.marked:
            lookup = f"{self.mark(frozenset([node]))}[{self.id(last)}] == 1"
            return lookup if last in self.shape.joined else f"({self.id(last)} >= 0 and {lookup})"
        return f"contains({self.levels(node)}, {self.low(node)}, {self.high(node)}, {self.id(last)})"

    def id(self, term: int) -> str:
        """Return the source of a term's id. term: the depth of a variable, or ~k for the k-th constant."""
        return f"ids[{~term}]" if term < 0 else f"x{term}"
