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
from contextlib import contextmanager
from functools import cache
from types import ModuleType

from semi_naive.host.private import digest
from semi_naive.ra.multiway.loops.by_bits import BitLoops
from semi_naive.ra.multiway.loops.conditions import Conditions
from semi_naive.ra.multiway.tries.local import set_variables
from semi_naive.ra.multiway.tries.shape import TOP, Member, Shape, TrieNode, Values, fixed


class Generator:
    """Writes the source of one kernel.

    keep: the number of variables, from the first, that are listed; the others are counted.
    bounded: the depths of variables that a box restricts.
    smallest: chooses, among several tries that begin with a variable, the slot to loop over.
    """

    def __init__(self, shape: Shape, keep: int, bounded: frozenset[int] = frozenset(), smallest=min):
        self.shape, self.bounded, self.keep, self.smallest = shape, bounded, keep, smallest
        self.terms, self.bits = Conditions(shape, bounded), BitLoops(self)
        self.depths = range(len(shape.order))
        self.lines: list[str] = []
        self.indent = 1
        self.buffers: list[Values] = []
        self.matrices: dict[str, None] = {}  # the lines that allocate the arrays of bits, each once
        self.parents: dict[int, int] = {}
        self.below: dict[int, int] = {}
        self._grow(TOP, list(self.depths))
        self._survey()

    def _survey(self) -> None:
        """Determine the sets that are stored, marked or restricted further, before any line is written."""
        self.users: dict[Values, list[int]] = {}
        self.before: dict[Values, Values] = {}
        for depth in sorted(self.shape.joined):
            chain = self.shape.chain(depth)
            for earlier, later in zip(chain, chain[1:], strict=False):
                self.terms.marked[earlier], self.before[later] = None, earlier
            for values in chain:
                self.users.setdefault(values, []).append(depth)
        for member in self.shape.members:
            if member.negated and len(member.path) > 1 and self._reused(member):
                self.terms.marked[frozenset([member.node(len(member.path) - 1)])] = None

    def _reused(self, member: Member) -> bool:
        """True if a variable is bound between the last two of a negated atom, so that one range of the atom is searched many
        times."""
        return member.path[-1] >= 0 and member.path[-1] > max(TOP, *member.path[:-1]) + 1

    def write(self, line: str) -> None:
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
        """Return the source of `kernel(box, ids, literals, names, base, size, rooms, base0, dir0, v0_0, …) -> (count,
        rows)`."""
        self.write("count, made = 0, 0")
        width = self.width
        self.write(f"out = np.empty({'box[-1]' if width else '0'}, np.int64)")
        start = len(self.lines)
        self.body(TOP, list(self.depths), "count")
        self.write("return count, out[:made].copy()")
        head = [f"    b{self.terms.number(values)} = np.empty(rooms[{k}], np.int32)" for k, values in enumerate(self.buffers)]
        head += [f"    {self.terms.mark(values)} = np.zeros(size, np.uint8)" for values in self.terms.marked]
        head += [f"    {line}" for line in self.matrices]
        self.lines[start:start] = head
        return "\n".join([*self.head(), *self.lines, ""])

    @property
    def width(self) -> int:
        """The number of columns of the output: the listed variables and, if others are counted, their count."""
        return self.keep + (0 < self.keep < len(self.depths))

    @property
    def first(self) -> list[int] | None:
        """The slots of the tries that begin with the first variable, if its values can be divided among tasks; else None."""
        if not self.depths or 0 not in self.shape.joined or (not self.keep and len(self.shape.components(self.depths)) > 1):
            return None
        return sorted({member.slot for member in self.shape.roots(0) if not member.negated})

    def head(self) -> list[str]:
        """Return the imports, the signature and the first line of the kernel."""
        arguments, kinds = (
            ["box", "ids", "literals", "names", "base", "size", "rooms"],
            ["i64"] * 4 + ["types.int64"] * 2 + ["i64"],
        )
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
            *(["from semi_naive.ra.multiway.tries.local import *"] if self.matrices else []),
            "from semi_naive.ra.multiway.tries.seeks import *",
            "",
            "",
            f"@njit(types.Tuple((types.int64, i64))({', '.join(kinds)}), **JOIN)",
            f"def kernel({', '.join(arguments)}):",
        ]

    def body(self, depth: int, deeper: list[int], total: str) -> None:
        """Write the code below the binding of a variable: filters, the ranges and sets that it determines, then the other
        variables."""
        conditions = self.terms.filters(depth) + (self._tests_of_atoms(depth) if depth != TOP else [])
        with self.guarded(conditions), self._ranges(depth), self._sets(depth):
            marks = [values for values in self.terms.marked if fixed(values) == depth]
            for values in marks:
                self.write(f"set_marks({self.terms.mark(values)}, {', '.join(self.terms.place(values))}, 1)")
            self.after(depth, deeper, total)
            for values in marks:
                self.write(f"set_marks({self.terms.mark(values)}, {', '.join(self.terms.place(values))}, 0)")

    def _tests_of_atoms(self, depth: int) -> list[str]:
        """Return conditions: negated atoms whose last variable this is, and unary atoms that the variable does not loop over.
        At the TOP, atoms of constants."""
        denied = [f"not {self.terms.present(member)}" for member in self.shape.negations(depth)]
        ended = [m for m in self.shape.members if not m.negated and max((TOP, *m.path)) == depth]
        unary = [m for m in ended if len(m.path) == 1 and self._loops_over(depth) != m.node(0)]
        return [self.terms.present(member) for member in (ended if depth == TOP else unary)] + denied

    @contextmanager
    def _ranges(self, depth: int):
        """Write the sibling ranges that become known with a variable; those of positive atoms must not be empty."""
        nodes = [node for node in self.shape.nodes() if node.fixed == depth]
        needed = []
        for node in nodes:
            self._descend(node, depth)
            if self.shape.positive(node):
                needed.append(f"{self.terms.low(node)} < {self.terms.high(node)}")
        if depth == TOP:
            needed += self._tests_of_atoms(TOP)
        with self.guarded(needed):
            yield

    def _descend(self, node: TrieNode, depth: int) -> None:
        """Write the range of a node, found in its parent's range: by a loop's position, the directory, or a search."""
        parent, term, low, high = node.parent, node.path[-1], self.terms.low(node), self.terms.high(node)
        index = f"i{node.slot}_{parent.level}"
        if term >= 0 and self._loops_over(term) == parent:
            self.write(f"{low}, {high} = {index}[j{term}], {index}[j{term} + 1]")
        elif parent.level == 0:
            self.write(f"{low}, {high} = below(dir{node.slot}, {self.terms.id(term)} - base{node.slot})")
        else:
            begin = self._cursor(node) if self._in_step(node) else self.terms.low(parent)
            how = "seek" if self._in_step(node) else "bisect"
            self.write(f"p = {how}({self.terms.levels(parent)}, {begin}, {self.terms.high(parent)}, {self.terms.id(term)})")
            if self._in_step(node):
                self.write(f"{begin} = p")
            found = f"p < {self.terms.high(parent)} and {self.terms.levels(parent)}[p] == {self.terms.id(term)}"
            self.write(f"{low}, {high} = ({index}[p], {index}[p + 1]) if {found} else (0, 0)")

    def _in_step(self, node: TrieNode) -> bool:
        """True if the searched ids ascend in a loop, so that each search continues from the position of the last."""
        return node.path[-1] in self.shape.joined

    def _cursor(self, node: TrieNode) -> str:
        return f"k{self.terms.number(node)}"

    @contextmanager
    def _sets(self, depth: int):
        """Write the intersections that become known with a variable and are stored; they must not be empty."""
        stored = [
            values for values in self.users if len(values) > 1 and fixed(values) == depth and not self._only_counted(values)
        ]
        needed = []
        for values in sorted(stored, key=len):
            self._keep(values)
            needed.append(f"c{self.terms.number(values)} > 0")
        with self.guarded(needed):
            yield

    def _only_counted(self, values: Values) -> bool:
        """True if a set is used by one variable only, whose values are counted where the set becomes known."""
        (user, *others) = self.users[values]
        return not others and values not in self.terms.marked and self.only_counts(user) and fixed(values) == self.parents[user]

    def only_counts(self, depth: int) -> bool:
        """True if only the number of a variable's values is needed."""
        return (
            depth >= self.keep and not self.below[depth] and not self.terms.filters(depth) and not self._tests_of_atoms(depth)
        )

    def _keep(self, values: Values) -> None:
        """Write the intersection of a set's ranges into its buffer: first of the ranges that become known together, then with
        the set that was marked earlier."""
        buffer, count = f"b{self.terms.number(values)}", f"c{self.terms.number(values)}"
        if values not in self.buffers:
            self.buffers.append(values)
        before = self.before.get(values)
        nodes = sorted(values - before if before else values)
        source = self.terms.place(frozenset(nodes[:1]))
        for node in nodes[1:]:
            other = self.terms.place(frozenset([node]))
            self.write(f"{count} = keep_common({', '.join(source)}, {', '.join(other)}, {buffer})")
            source = (buffer, "0", count)
        if before:
            marked = ", ".join((self.terms.mark(before), *self.terms.place(before)))
            self.write(f"{count} = keep_marked({marked}, {', '.join(source)}, {buffer})")

    def after(self, depth: int, deeper: list[int], total: str) -> None:
        """Write the deeper variables: listed, if they are among the first `keep`, else counted."""
        if depth + 1 == self.keep and self.keep and depth != TOP:
            self._row(deeper)
        elif not deeper:
            self.write(f"{total} += 1")
        elif deeper[0] < self.keep:
            self.variable(deeper, total)
        else:
            self._product(deeper, total)

    def _row(self, deeper: list[int]) -> None:
        """Write the output of a row: the listed variables, and the count of the others unless that is 0."""
        counted = f"n{deeper[0]}" if deeper else None
        if counted:
            self.write(f"{counted} = 0")
            self._product(deeper, counted)
        with self.guarded([f"{counted} != 0"] if counted else []):
            with self.block(f"if made + {self.width} > out.size:"):
                with self.block("if made >= box[-2]:"):
                    self.write("return -1, out[:0].copy()")
                self.write("out = longer_array(out, 64)")
            for column in range(self.keep):
                name = f"x{column}" if column in self.shape.joined else f"r{column}"
                self.write(f"out[made + {column}] = {name}")
            if counted:
                self.write(f"out[made + {self.keep}] = {counted}")
            self.write(f"made += {self.width}")
            self.write(f"count += {counted or 1}")

    def _product(self, deeper: list[int], total: str) -> None:
        """Write the counts of the deeper variables; groups that are not connected are counted separately and multiplied."""
        groups = self.shape.components(deeper)
        if len(groups) == 1:
            return self.variable(deeper, total)
        factors = [f"f{group[0]}" for group in groups]
        indent = self.indent
        for factor, group in zip(factors, groups, strict=True):
            self.write(f"{factor} = 0")
            self.variable(group, factor)
            self.write(f"if {factor} != 0:")
            self.indent += 1
        self.write(f"{total} += {' * '.join(factors)}")
        self.indent = indent

    def declare(self, line: str) -> None:
        """Add a line that allocates an array of bits to the beginning of the kernel, once."""
        self.matrices[line] = None

    def variable(self, group: list[int], total: str) -> None:
        """Emit the first variable of a connected group: assigned, as bits of a matrix, or looped over. group: its depths;
        total: the name of the counter, as source."""
        depth, rest = group[0], group[1:]
        if depth not in self.shape.joined:
            return self._assign(depth, rest, total)
        if self.bits.variables:
            return self.bits.loop(depth, rest, total)
        variables = set_variables(self.shape, group, self.bounded)
        if variables and fixed(variables.values) == self.parents[depth]:
            return self.bits.write_both_versions(variables, group, total)
        self.looped(depth, rest, total)

    def looped(self, depth: int, deeper: list[int], total: str) -> None:
        """Emit the loop over a variable's values, or only their count if that suffices. deeper: the deeper variables; total:
        the name of the counter, as source."""
        array, low, high = self._domain(depth)
        if self.only_counts(depth):
            return self._count(depth, total)
        low, high = self._bounded(depth, array, low, high)
        for node in self.shape.nodes():
            if node.path[-1] == depth and node.level > 1 and self._loops_over(depth) != node.parent:
                self.write(f"{self._cursor(node)} = {self.terms.low(node.parent)}")
        with self.block(f"for j{depth} in range({low}, {high}):"):
            self.write(f"x{depth} = np.int64({array}[j{depth}])")
            if self.terms.needs_raw(depth):
                self.write(f"r{depth} = names[x{depth}] if names.size else x{depth} + base")
            self.body(depth, deeper, total)

    def _assign(self, depth: int, deeper: list[int], total: str) -> None:
        """Write the value of a variable that an equation assigns. deeper: the deeper variables; total: the name of the counter,
        as source."""
        self.write(f"r{depth} = {self.terms.raw(self.shape.assigned[depth])}")
        if any(depth in member.path for member in self.shape.members):
            self.write(f"x{depth} = id_of(names, base, size, r{depth})")
        self.body(depth, deeper, total)

    def _domain(self, depth: int) -> tuple[str, str, str]:
        """Return the source of (array, low, high), the values that the variable at a depth loops over."""
        values = self.shape.values(depth)
        if values:
            return self.terms.place(values)
        node = self._loops_over(depth)
        return self.terms.levels(node), "0", f"{self.terms.levels(node)}.size"

    def _loops_over(self, depth: int) -> TrieNode | None:
        """Return the range of a trie over which a variable loops directly, so that positions in it are known; None if it loops
        over a buffer."""
        values = self.shape.values(depth)
        if values:
            return next(iter(values)) if len(values) == 1 else None
        if depth not in self.shape.joined:
            return None
        return TrieNode(self.smallest(member.slot for member in self.shape.roots(depth)), ())

    def _bounded(self, depth: int, array: str, low: str, high: str) -> tuple[str, str]:
        """Write the bounds of a variable, and return the (low, high) of the part of its set within them, as source."""
        lows, highs = self.terms.bounds(depth)
        if lows:
            self.write(f"low{depth} = seek({array}, {low}, {high}, {_fold_call('max', lows)})")
            low = f"low{depth}"
        if highs:
            self.write(f"high{depth} = bisect({array}, {low}, {high}, {_fold_call('min', highs)})")
            high = f"high{depth}"
        return low, high

    def _grow(self, parent: int, deeper: list[int]) -> None:
        """Determine the tree of variables that `_product` writes: for each, the variable below which it is bound, and the
        number of variables below it."""
        groups = [deeper] if deeper and deeper[0] < self.keep else self.shape.components(deeper)
        for group in groups:
            self.parents[group[0]], self.below[group[0]] = parent, len(group) - 1
            self._grow(group[0], group[1:])

    def _count(self, depth: int, total: str) -> None:
        """Write the count of the last variable: the number of values of its set within its bounds."""
        values = self.shape.values(depth)
        before = self.before.get(values)
        if len(values) < 2 or not before or not self._only_counted(values):
            if len(values) > 1 and self._only_counted(values):
                self._keep(values)
            low, high = self._bounded(depth, *self._domain(depth))
            self.write(f"{total} += max({high} - {low}, 0)")
            return
        added = values - before
        if len(added) > 1:
            self._keep(added)
        array, low, high = self.terms.place(added)
        low, high = self._bounded(depth, array, low, high)
        marked = ", ".join((self.terms.mark(before), *self.terms.place(before)))
        self.write(f"{total} += count_marked({marked}, {array}, {low}, {high})")


def _fold_call(function: str, terms: list[str]) -> str:
    """Return the source of a function call with some terms, or the term if there is only one."""
    return terms[0] if len(terms) == 1 else f"{function}({', '.join(terms)})"


@cache
def compile_kernel(source: str):
    """Return the compiled function `kernel` of a source. Takes 1 to 3 s the first time on a machine, a few milliseconds in
    later processes."""
    name = f"semi_naive.ra.multiway.kernel_{digest(source)}"
    module = sys.modules[name] = ModuleType(name)  # cached machine code imports its module by name
    exec(compile(source, f"<{name}>", "exec"), vars(module))
    return module.kernel
