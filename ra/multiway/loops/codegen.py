"""Generate the kernel of a leapfrog triejoin for one query shape: nested loops over the variables, each over an intersection of
sibling ranges.

    for x in edge:                       triangle(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).
        mark edge(x, _)
        for y in edge(x, _):
            count += the marked values of edge(y, _)
        clear the marks

An intersection is stored at the depth where it becomes known, and is marked in a byte map there if deeper variables restrict it
further. The last variable is only counted, unless it is listed. Variables that are not connected are counted separately and
multiplied.
"""

import sys
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from types import ModuleType

from semi_naive.host.private import digest
from semi_naive.ra.multiway.loops.by_bits import BitLoops
from semi_naive.ra.multiway.loops.conditions import Conditions, fold_call
from semi_naive.ra.multiway.tries.local import set_variables
from semi_naive.ra.multiway.tries.shape import TOP, Member, Shape, TrieNode, Values, known_depth

IMPORTS_FOR_BITS = ["from semi_naive.ra.bits import lowest_bit", "from semi_naive.ra.multiway.tries.local import *"]


class Generator:
    """Writes the source of one kernel. A *set* (`Values`) is the intersection of the ranges of some trie nodes.

    keep: the number of variables, from the first, that are listed; the others are counted.
    bounded: the depths of variables that a box restricts.
    smallest: chooses, among several tries that begin with a variable, the slot to loop over.
    """

    def __init__(self, shape: Shape, keep: int, bounded: frozenset[int] = frozenset(), smallest: Callable = min):
        self.shape, self.bounded, self.keep, self.smallest = shape, bounded, keep, smallest
        self.names, self.bits = Conditions(shape, bounded), BitLoops(self)
        self.depths = range(len(shape.order))
        self.lines: list[str] = []
        self.indent = 1
        self.buffers: list[Values] = []  # the sets that are stored
        self.matrices: dict[str, None] = {}  # the lines that allocate the arrays of bits, each once
        self.parents: dict[int, int] = {}  # for each variable, the one below which it is bound
        self.deeper_counts: dict[int, int] = {}  # for each variable, the number of variables below it
        self.depths_using: dict[Values, list[int]] = {}  # for each set, the variables whose values it restricts
        self.marked_before: dict[Values, Values] = {}  # for each set, the set known earlier that it restricts further
        self._build_tree(TOP, list(self.depths))
        self._find_shared_sets()

    def _find_shared_sets(self) -> None:
        """Determine the sets that are stored, marked or restricted further, before any line is written."""
        for depth in self.depths:
            chain = self.shape.chain(depth)
            for earlier, later in pairwise(chain):
                self.names.marked[earlier], self.marked_before[later] = None, earlier
            for values in chain:
                self.depths_using.setdefault(values, []).append(depth)
        for member in self.shape.members:
            if member.negated and len(member.path) > 1 and self._is_searched_often(member):
                self.names.marked[frozenset([member.node(len(member.path) - 1)])] = None

    def _is_searched_often(self, member: Member) -> bool:
        """True if a variable is bound between the last two of a negated atom, which then searches a range many times."""
        return member.path[-1] > member.path[-2] + 1

    def write(self, line: str) -> None:
        """Add a line of the kernel's body at the current indentation."""
        self.lines.append("    " * self.indent + line)

    @contextmanager
    def block(self, head: str):
        """Write a line and indent the lines written inside."""
        self.write(head)
        self.indent += 1
        yield
        self.indent -= 1

    @contextmanager
    def guarded(self, conditions: list[str]):
        """Indent the lines written inside under an `if` of the conditions; without conditions, write no `if`."""
        if not conditions:
            yield
            return
        with self.block(f"if {' and '.join(conditions)}:"):
            yield

    # the nest of loops

    def kernel(self) -> str:
        """Return the source of `kernel(box, ranks, size, rooms, base0, dir0, v0_0, …) -> count, rows`.

        box: the bounds of the ids of each variable, then the numbers that the rows may have, and those that they have room for
        at first. ranks: for each literal of comparisons, the number of values of the domain below it, and not above it. size:
        of the domain. rooms: the sizes of the buffers. If comparisons compute with values: the values of literals, and the
        names and the least value of the domain. For each slot: the parts of a `TrieArray`. count: -1 if the rows would have too
        many numbers.
        """
        self.write("count, made = 0, 0")
        width = self.width
        self.write(f"out = np.empty({'box[-1]' if width else '0'}, np.int64)")
        start = len(self.lines)
        self._write_body(TOP, list(self.depths), "count")
        self.write("return count, out[:made].copy()")
        head = [f"    b{self.names.number(values)} = np.empty(rooms[{k}], np.int32)" for k, values in enumerate(self.buffers)]
        head += [f"    {self.names.mark(values)} = np.zeros(size, np.uint8)" for values in self.names.marked]
        head += [f"    {line}" for line in self.matrices]
        self.lines[start:start] = head
        return "\n".join([*self._header(), *self.lines, ""])

    @property
    def width(self) -> int:
        """The number of columns of the output: the listed variables and, if others are counted, their count."""
        return self.keep + (0 < self.keep < len(self.depths))

    @property
    def divisible_slots(self) -> list[int] | None:
        """The slots of the tries that begin with the first variable; None if its values cannot be divided among tasks."""
        if not self.keep and len(self.shape.components(self.depths)) > 1:
            return None  # the count is a product, of which each task would count the other factors again
        return sorted({member.slot for member in self.shape.roots(0) if not member.negated})

    def _header(self) -> list[str]:
        """Return the lines before the kernel's body: the imports and the signature."""
        arguments, kinds = ["box", "ranks", "size", "rooms"], ["i64", "i64", "types.int64", "i64"]
        if self.shape.computes:
            arguments, kinds = [*arguments, "literals", "names", "base"], [*kinds, "i64", "i64", "types.int64"]
        for slot, key in enumerate(self.shape.tries):
            arguments += [f"base{slot}", f"dir{slot}"]
            kinds += ["types.int64", "i32"]
            for level in range(len(key.order)):
                arguments.append(f"v{slot}_{level}")
                kinds.append("i32")
                if level + 1 < len(key.order):
                    arguments.append(f"i{slot}_{level}")
                    kinds.append("i64")
        return [
            "import numpy as np",
            "from semi_naive.host.jit import njit, types",
            "from semi_naive.ra.words import JOIN",
            *(IMPORTS_FOR_BITS if self.matrices else []),
            "from semi_naive.ra.multiway.tries.seeks import *",
            "",
            "",
            f"@njit(types.Tuple((types.int64, i64))({', '.join(kinds)}), **JOIN)",
            f"def kernel({', '.join(arguments)}):",
        ]

    def _write_body(self, depth: int, deeper: list[int], total: str) -> None:
        """Write the code below the binding of a variable: filters, the ranges and sets that it determines, then the deeper
        variables. total: the name of the counter, as source."""
        conditions = [] if depth == TOP else self._conditions(depth)
        with self.guarded(conditions), self._known_ranges(depth), self._stored_intersections(depth):
            marks = [values for values in self.names.marked if known_depth(values) == depth]
            for values in marks:
                self.write(f"set_marks({self.names.mark(values)}, {', '.join(self.names.place(values))}, 1)")
            self.write_deeper(depth, deeper, total)
            for values in marks:
                self.write(f"set_marks({self.names.mark(values)}, {', '.join(self.names.place(values))}, 0)")

    def _conditions(self, depth: int) -> list[str]:
        """Return the conditions on a variable that its loop does not ensure: comparisons, unary atoms that it does not loop
        over, and negated atoms. An atom of several terms holds if the loop over its last one finds a value."""
        unary = [member for member in self.shape.roots(depth) if len(member.path) == 1]
        tested = [member for member in unary if self._loops_over(depth) != member.node(0)]
        denied = [f"not {self.names.present(member)}" for member in self.shape.negations(depth)]
        return self.names.filters(depth) + [self.names.present(member) for member in tested] + denied

    @contextmanager
    def _known_ranges(self, depth: int):
        """Write the sibling ranges that become known with a variable; those of positive atoms must not be empty."""
        known = [node for node in self.shape.nodes() if node.known_depth == depth]
        for node in known:
            self._write_range(node)
        needed = [f"{self.names.low(node)} < {self.names.high(node)}" for node in known if self.shape.positive(node)]
        with self.guarded(needed):
            yield

    def _write_range(self, node: TrieNode) -> None:
        """Write the range of a node, found in its parent's range: by a loop's position, the directory, or a search."""
        parent, depth, low, high = node.parent, node.path[-1], self.names.low(node), self.names.high(node)
        index, values, end = f"i{node.slot}_{parent.level}", self.names.levels(parent), self.names.high(parent)
        if self._loops_over(depth) == parent:
            self.write(f"{low}, {high} = {index}[j{depth}], {index}[j{depth} + 1]")
        elif parent.level == 0:
            self.write(f"{low}, {high} = below(dir{node.slot}, x{depth} - base{node.slot})")
        else:  # the searched ids ascend in a loop: continue from the last position
            position = self._cursor(node)
            self.write(f"{position} = p = seek({values}, {position}, {end}, x{depth})")
            self.write(f"{low}, {high} = ({index}[p], {index}[p + 1]) if p < {end} and {values}[p] == x{depth} else (0, 0)")

    def _cursor(self, node: TrieNode) -> str:
        """Return the name of the position at which the last search for a node ended."""
        return f"k{self.names.number(node)}"

    @contextmanager
    def _stored_intersections(self, depth: int):
        """Write the code that computes and stores each intersection that becomes known with the variable at a depth, unless its
        values are only counted. The code that is written in the block runs if none of them is empty."""
        known = [values for values in self.depths_using if len(values) > 1 and known_depth(values) == depth]
        needed = []
        for values in sorted((values for values in known if not self._only_counted(values)), key=len):
            self._write_intersection(values)
            needed.append(f"c{self.names.number(values)} > 0")
        with self.guarded(needed):
            yield

    def _only_counted(self, values: Values) -> bool:
        """True if an intersection need not be stored: one variable alone uses it, and only counts it where it becomes known."""
        if len(self.depths_using[values]) > 1 or values in self.names.marked:
            return False
        (user,) = self.depths_using[values]
        return self.only_counts(user) and known_depth(values) == self.parents[user]

    def only_counts(self, depth: int) -> bool:
        """True if only the number of a variable's values is needed."""
        is_last = depth >= self.keep and not self.deeper_counts[depth]
        return is_last and not self._conditions(depth)

    def _write_intersection(self, values: Values) -> None:
        """Write the code that stores the intersection of a set's ranges in its buffer: of the ranges that become known
        together, then with the set that was marked earlier, if any."""
        buffer, count = f"b{self.names.number(values)}", f"c{self.names.number(values)}"
        if values not in self.buffers:
            self.buffers.append(values)
        before = self.marked_before.get(values)
        nodes = sorted(values - before if before else values)
        source = self.names.place(frozenset(nodes[:1]))
        for node in nodes[1:]:
            other = self.names.place(frozenset([node]))
            self.write(f"{count} = keep_common({', '.join(source)}, {', '.join(other)}, {buffer})")
            source = (buffer, "0", count)
        if before:
            marked = ", ".join((self.names.mark(before), *self.names.place(before)))
            self.write(f"{count} = keep_marked({marked}, {', '.join(source)}, {buffer})")

    def write_deeper(self, depth: int, deeper: list[int], total: str) -> None:
        """Write the code for the variables below `depth`: listed, if they are among the first `keep`, else counted."""
        if depth + 1 == self.keep and self.keep and depth != TOP:  # the last listed variable is bound
            self._write_row(deeper)
        elif not deeper:
            self.write(f"{total} += 1")
        elif deeper[0] < self.keep:
            self.write_variable(deeper, total)
        else:
            self._write_product(deeper, total)

    def _write_row(self, deeper: list[int]) -> None:
        """Write the code that outputs a row: the listed variables and, if others are counted, their count unless that is 0."""
        counted = f"n{deeper[0]}" if deeper else None
        if counted:
            self.write(f"{counted} = 0")
            self._write_product(deeper, counted)
        with self.guarded([f"{counted} != 0"] if counted else []):
            with self.block(f"if made + {self.width} > out.size:"):  # `out` is full: give up (count -1), or lengthen it
                with self.block("if made >= box[-2]:"):
                    self.write("return -1, out[:0].copy()")
                self.write("out = longer_array(out, 64)")
            for column in range(self.keep):
                self.write(f"out[made + {column}] = x{column}")
            if counted:
                self.write(f"out[made + {self.keep}] = {counted}")
            self.write(f"made += {self.width}")
            self.write(f"count += {counted or 1}")

    def _write_product(self, deeper: list[int], total: str) -> None:
        """Write the counting of the deeper variables. Groups that are not connected are counted separately and multiplied."""
        groups = self.shape.components(deeper)
        if len(groups) == 1:
            return self.write_variable(deeper, total)
        factors = [f"f{group[0]}" for group in groups]
        indent = self.indent
        for factor, group in zip(factors, groups, strict=True):
            self.write(f"{factor} = 0")
            self.write_variable(group, factor)
            self.write(f"if {factor} != 0:")
            self.indent += 1  # the next group is counted within this `if`
        self.write(f"{total} += {' * '.join(factors)}")
        self.indent = indent

    def declare_array(self, line: str) -> None:
        """Add a line that allocates an array of bits to the beginning of the kernel, once."""
        self.matrices[line] = None

    def write_variable(self, group: list[int], total: str) -> None:
        """Write the first variable of a connected group, and those below: as bits of a matrix, or looped over. group: the
        depths; total: the name of the counter, as source."""
        depth, *rest = group
        if self.bits.variables.values:
            return self.bits.loop(depth, rest, total)
        variables = set_variables(self.shape, group)
        if variables and known_depth(variables.values) == self.parents[depth]:
            return self.bits.write_both_versions(variables, group, total)
        self.write_loop(depth, rest, total)

    def write_loop(self, depth: int, deeper: list[int], total: str) -> None:
        """Write the loop over a variable's values, or only their count if that suffices. deeper: the variables below it; total:
        the name of the counter, as source."""
        array, low, high = self._domain(depth)
        if self.only_counts(depth):
            return self._write_count(depth, total)
        low, high = self._write_bounds(depth, array, low, high)
        for node in self.shape.nodes():  # start the cursors of the searches in this loop (`_write_range`)
            if node.path[-1] == depth and node.level > 1 and self._loops_over(depth) != node.parent:
                self.write(f"{self._cursor(node)} = {self.names.low(node.parent)}")
        with self.block(f"for j{depth} in range({low}, {high}):"):
            self.write(f"x{depth} = np.int64({array}[j{depth}])")
            if self.names.needs_raw(depth):
                self.write(f"r{depth} = names[x{depth}] if names.size else x{depth} + base")
            self._write_body(depth, deeper, total)

    def _domain(self, depth: int) -> tuple[str, str, str]:
        """Return the source of (array, low, high), the values that the variable at a depth loops over."""
        values, node = self.shape.values(depth), self._loops_over(depth)
        if values or node is None:
            return self.names.place(values)
        # the first level of a trie, as no atom has the variable after other terms
        return self.names.levels(node), "0", f"{self.names.levels(node)}.size"

    def _loops_over(self, depth: int) -> TrieNode | None:
        """Return the range of a trie over which a variable loops, so that positions in it are known; None for a buffer."""
        values = self.shape.values(depth)
        if values:
            return next(iter(values)) if len(values) == 1 else None
        return TrieNode(self.smallest(member.slot for member in self.shape.roots(depth)), ())

    def _write_bounds(self, depth: int, array: str, low: str, high: str) -> tuple[str, str]:
        """Write the searches for a variable's bounds in its set, array[low:high]. Return the source (low, high) of its part."""
        lows, highs = self.names.bounds(depth)
        if lows:
            self.write(f"low{depth} = seek({array}, {low}, {high}, {fold_call('max', lows)})")
            low = f"low{depth}"
        if highs:
            self.write(f"high{depth} = bisect({array}, {low}, {high}, {fold_call('min', highs)})")
            high = f"high{depth}"
        return low, high

    def _build_tree(self, parent: int, deeper: list[int]) -> None:
        """Determine the nesting of the variables (`parents`, `deeper_counts`) that `_write_product` will write below one of
        them."""
        groups = [deeper] if deeper and deeper[0] < self.keep else self.shape.components(deeper)
        for group in groups:
            self.parents[group[0]], self.deeper_counts[group[0]] = parent, len(group) - 1
            self._build_tree(group[0], group[1:])

    def _write_count(self, depth: int, total: str) -> None:
        """Write the count of the last variable: the number of values of its set within its bounds. If the set is not stored for
        other uses, and restricts a set that was marked earlier, only the marked values of the added ranges are counted."""
        values = self.shape.values(depth)
        before = self.marked_before.get(values)
        is_not_stored = len(values) > 1 and self._only_counted(values)
        if not before or not is_not_stored:
            if is_not_stored:
                self._write_intersection(values)
            low, high = self._write_bounds(depth, *self._domain(depth))
            self.write(f"{total} += max({high} - {low}, 0)")  # bounds may exclude one another
            return
        added = values - before
        if len(added) > 1:
            self._write_intersection(added)
        array, low, high = self.names.place(added)
        low, high = self._write_bounds(depth, array, low, high)
        marked = ", ".join((self.names.mark(before), *self.names.place(before)))
        self.write(f"{total} += count_marked({marked}, {array}, {low}, {high})")


@cache
def compile_kernel(source: str):
    """Return the compiled function `kernel` of a source. Takes 1 to 3 s the first time on a machine, then milliseconds."""
    name = f"semi_naive.ra.multiway.kernel_{digest(source)}"
    module = sys.modules[name] = ModuleType(name)  # cached machine code imports its module by name
    exec(compile(source, f"<{name}>", "exec"), vars(module))
    return module.kernel
