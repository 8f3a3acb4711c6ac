"""Names and conditions in the source of a generated kernel: comparisons, negated atoms and bounds, as filters and as ranges of
ids.

Values are joined as dense *ids* in the same order (`tries.domain`). Variables are bound in a fixed order; a variable's *depth*
is its place in it. A *node* is a sibling range of a trie (`tries.shape`).
"""

from semi_naive.ra.ir import MIRRORED
from semi_naive.ra.multiway.tries.shape import Compared, Member, Shape, Side, TrieNode, Values, depths_in


class Conditions:
    """The names and conditions in the kernel of one query shape.

    The variable at depth d is x<d> as an id and, if a comparison computes with it, r<d> as a value. The range of node n is l<n>
    to h<n> in the values of its level. The stored intersection of a set of nodes with number n is b<n>[:c<n>], and its mark is
    m<n>. bounded: the depths of variables that are restricted to a box. marked: the sets that have marks, in the order of their
    discovery.
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

    def raw(self, side: Side) -> str:
        """Return the source of the value of a side of a comparison that is computed."""
        if isinstance(side, tuple):
            return f"({self.raw(side[1])} {side[0]} {self.raw(side[2])})"
        return f"r{side}" if side >= 0 else f"literals[{~side}]"

    def needs_raw(self, depth: int) -> bool:
        """True if a comparison computes with a variable's value, or compares it with a computed one outside of `bounds`."""
        for comparison in self.shape.comparisons:
            bound = self._as_bound(comparison)  # then the variable that is bounded stays an id: only the other side is computed
            sides = [bound[1]] if bound else [comparison.left, comparison.right]
            if comparison.computes and any(depth in depths_in(side) for side in sides):
                return True
        return False

    def _as_bound(self, comparison: Compared) -> tuple[str, Side] | None:
        """Return (op, other side) if a comparison bounds the last of its variables to a range of ids; None for a filter."""
        last = max(comparison.depths)
        op, left, right = comparison
        if op == "!=":
            return None
        for mirrored, side, other in ((op, left, right), (MIRRORED[op], right, left)):
            if side == last and last not in depths_in(other):
                return mirrored, other
        return None

    def bounds(self, depth: int) -> tuple[list[str], list[str]]:
        """Return (lows, highs): the inclusive lower and exclusive upper bounds of a variable's ids, as source."""
        lows, highs = [], []
        for comparison in self.shape.comparisons:
            if max(comparison.depths) == depth and (bound := self._as_bound(comparison)):
                op, other = bound
                if op in (">", ">=", "="):
                    lows.append(self._rank(other, after=op == ">"))
                if op in ("<", "<=", "="):
                    highs.append(self._rank(other, after=op != "<"))
        if depth == 0 or depth in self.bounded:  # the first variable is always divided, among tasks
            lows.append(f"box[{2 * depth}]")
            highs.append(f"box[{2 * depth + 1}]")
        return lows, highs

    def _rank(self, side: Side, after: bool) -> str:
        """Return the source of the first id whose value is not below a side's value or, if `after`, is above it."""
        if isinstance(side, tuple):
            return f"rank(names, base, size, {self.raw(side)}, {after})"
        if side < 0:
            return f"ranks[{2 * ~side + after}]"
        return f"x{side} + 1" if after else f"x{side}"

    def filters(self, depth: int) -> list[str]:
        """Return the conditions on a binding of the variables up to `depth` that are not expressed as ranges."""
        conditions = []
        for comparison in self.shape.comparisons:
            if max(comparison.depths) == depth and self._as_bound(comparison) is None:
                op, left, right = "==" if comparison.op == "=" else comparison.op, comparison.left, comparison.right
                if isinstance(left, tuple) or isinstance(right, tuple):
                    conditions.append(f"{self.raw(left)} {op} {self.raw(right)}")
                elif (literal := min(left, right)) < 0:  # a constant (`shape.Side`), and !=: the others are bounds
                    first, end = self._rank(literal, after=False), self._rank(literal, after=True)
                    conditions.append(f"not {first} <= x{depth} < {end}")
                else:
                    conditions.append(f"x{left} {op} x{right}")
        return conditions

    def present(self, member: Member) -> str:
        """Return the condition that an atom holds, once all of its variables are bound: the last one is in its range."""
        last, node = f"x{member.path[-1]}", member.node(len(member.path) - 1)
        if node.level == 0:
            return f"has_first_id(dir{member.slot}, {last} - base{member.slot})"
        if frozenset([node]) in self.marked:
            return f"{self.mark(frozenset([node]))}[{last}] == 1"
        return f"contains({self.levels(node)}, {self.low(node)}, {self.high(node)}, {last})"


def fold_call(function: str, terms: list[str]) -> str:
    """Return the source of a function call with some terms, or the only term."""
    return terms[0] if len(terms) == 1 else f"{function}({', '.join(terms)})"
