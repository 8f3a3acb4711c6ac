"""The part of the kernel generator that joins several variables over one set, by the bits of a small adjacency matrix (see
`tries.local`).
"""

from typing import Any

from semi_naive.ra.multiway.loops.conditions import fold_call
from semi_naive.ra.multiway.tries.local import NO_VARIABLES, SetVariables


class BitLoops:
    """Writes the loops of a generator over the variables of a `SetVariables`, which all range over one set: bit i of a row of
    the matrix stands for the i-th value of the set.
    """

    def __init__(self, loops: Any):
        self.loops = loops  # the `codegen.Generator`, which makes this object
        self.variables = NO_VARIABLES  # those whose loops are being written

    def write_both_versions(self, variables: SetVariables, group: list[int], total: str) -> None:
        """Write the loops over the variables of a set in two versions: by bits, for a set of up to LIMIT values, and as for any
        variables. group: the depths of the variables whose loops are written, outermost first; total: the name of the counter,
        as source."""
        array, low, high = self.loops.names.place(variables.values)
        self.loops.declare_array("places = np.full(size, np.int32(-1), np.int32)")  # see `fill_adjacency`
        with self.loops.block(f"if {high} - {low} <= LIMIT:"):
            self.loops.write(f"words = ({high} - {low} + 63) >> 6")
            bounded = [depth for depth in group if depth in self.loops.bounded]
            for depth in bounded:
                for name, end in ((f"first{depth}", 2 * depth), (f"last{depth}", 2 * depth + 1)):
                    self.loops.write(f"{name} = bisect({array}, {low}, {high}, box[{end}]) - {low}")
            with self.loops.guarded([f"first{depth} < last{depth}" for depth in bounded]):
                self._fill_matrices(variables)
                self.variables = variables  # while it is set, the generator calls `loop` for each of them
                self.loops.write_variable(group, total)
                self.variables = NO_VARIABLES
        with self.loops.block("else:"):
            self.loops.write_loop(group[0], group[1:], total)

    def _fill_matrices(self, variables: SetVariables) -> None:
        """Write the code that fills the matrix of each trie: the rows of the values of variables that select a row of it."""
        array, low, high = self.loops.names.place(variables.values)
        for slot in variables.slots:
            self.loops.declare_array(f"bits{slot} = np.empty(LIMIT * LIMIT // 64, np.uint64)")
            users = sorted({depth for by in variables.refined.values() for depth, of_row in by.items() if of_row == slot})
            ends = zip(*(self._places(depth, variables) for depth in users), strict=True)
            first, last = (fold_call(which, list(own)) for which, own in zip(("min", "max"), ends, strict=True))
            rows = f"{first}, {last}, places, base{slot}, dir{slot}, v{slot}_1"
            self.loops.write(f"fill_adjacency({array}, {low}, {high}, {rows}, words, bits{slot})")

    def _places(self, depth: int, variables: SetVariables) -> tuple[str, str]:
        """Return (first, end) as source: the places of the values of the set that a variable may take."""
        if depth in self.loops.bounded:
            return f"first{depth}", f"last{depth}"
        _, low, high = self.loops.names.place(variables.values)
        return "0", f"{high} - {low}"

    def _only_counts(self, depth: int) -> bool:
        """True if only the number of a variable's values is needed, and all bits count."""
        return self.loops.only_counts(depth) and depth not in self.loops.bounded

    def loop(self, depth: int, rest: list[int], total: str) -> None:
        """Write the loop over one variable: over the bits of the rows that restrict it, or over the whole set. rest: the
        deeper variables; total: the name of the counter, as source."""
        restricting_rows = tuple(sorted(self.variables.refined[depth].items()))
        first, last = self._places(depth, self.variables)
        if self._only_counts(depth):
            count = self._count_of_bits(depth, restricting_rows) if restricting_rows else last
            return self.loops.write(f"{total} += {count}")
        if not restricting_rows:
            with self.loops.block(f"for i{depth} in range({first}, {last}):"):
                return self._bound_by_bits(depth, rest, total)
        source, row = self._row_of(restricting_rows)
        is_bounded = depth in self.loops.bounded
        with self.loops.block(f"for k{depth} in range({f'{first} >> 6, ({last} + 63) >> 6' if is_bounded else 'words'}):"):
            self.loops.write(f"w{depth} = {source}[{row} + k{depth}]")
            with self.loops.block(f"while w{depth} != 0:"):
                self.loops.write(f"i{depth} = (k{depth} << 6) + np.int64(lowest_bit(w{depth}))")
                self.loops.write(f"w{depth} &= w{depth} - np.uint64(1)")
                with self.loops.guarded([f"{first} <= i{depth} < {last}"] if is_bounded else []):
                    self._bound_by_bits(depth, rest, total)

    def _bound_by_bits(self, depth: int, rest: list[int], total: str) -> None:
        """Write the code below a variable that is bound to bit i<depth>: the intersections of rows that are known now, except
        those that deeper variables only count, and the deeper variables. rest, total: see `loop`."""
        array, low, _ = self.loops.names.place(self.variables.values)
        if depth < self.loops.keep:
            self.loops.write(f"x{depth} = np.int64({array}[{low} + i{depth}])")
        needed = []
        for shared_rows in self._known_by_bits(depth):
            name, number = self._row_of(shared_rows)[0], self.loops.names.number(shared_rows)
            self.loops.declare_array(f"{name} = np.empty(LIMIT // 64, np.uint64)")
            self.loops.write(f"any{number} = both({self._rows(shared_rows)}, words, {name})")
            needed.append(f"any{number}")
        with self.loops.guarded(needed):
            self.loops.write_deeper(depth, rest, total)

    def _known_by_bits(self, depth: int) -> list[tuple]:
        """Return the sets of rows, (depth, slot) pairs, that are known below a variable and used more than once there."""
        sets: dict[tuple, None] = {}
        for user, refined in self.variables.refined.items():
            rows = tuple(sorted(refined.items()))
            for length in range(2, len(rows) + 1):  # a single row is read in its matrix
                only_counted = length == len(rows) and self._only_counts(user) and self.loops.parents[user] == depth
                if rows[length - 1][0] == depth and not only_counted:
                    sets[rows[:length]] = None
        return sorted(sets, key=len)

    def _row_of(self, rows: tuple) -> tuple[str, str]:
        """Return (array, position), as source, of the row of bits that some rows have in common. rows: (depth of the variable
        that selects the row, slot of the trie) of each row."""
        if len(rows) > 1:
            return f"s{self.loops.names.number(rows)}", "0"
        ((depth, slot),) = rows
        return f"bits{slot}", f"i{depth} * words"

    def _rows(self, rows: tuple) -> str:
        """Return the arguments, as source, of a kernel that intersects the last of some rows with the others."""
        return ", ".join((*self._row_of(rows[:-1]), *self._row_of(rows[-1:])))

    def _count_of_bits(self, depth: int, rows: tuple) -> str:
        """Return the source of the number of bits that some rows have in common."""
        if len(rows) == 1 or self.loops.parents[depth] != rows[-1][0]:
            return f"count_row({', '.join(self._row_of(rows))}, words)"
        return f"count_both({self._rows(rows)}, words)"
