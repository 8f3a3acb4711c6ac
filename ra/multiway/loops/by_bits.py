"""The part of a kernel that joins variables over one set by the bits of a small matrix; see `local` for when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from semi_naive.ra.multiway.tries.local import SetVariables

if TYPE_CHECKING:
    from semi_naive.ra.multiway.loops.codegen import Generator


class BitLoops:
    """Writes the loops of a generator over a run's variables. The i-th value of the set is bit i of a row."""

    def __init__(self, loops: Generator):
        self.loops = loops
        self.run: SetVariables | None = None  # whose loops are being written

    def begin(self, run: SetVariables, group: list[int], total: str) -> None:
        """Both ways: by bits if the set is short enough, else as any variables."""
        array, low, high = self.loops.terms.place(run.values)
        self.loops.matrices["places = np.full(size, np.int32(-1), np.int32)"] = None
        with self.loops.block(f"if {high} - {low} <= LIMIT:"):
            self.loops.write(f"words = ({high} - {low} + 63) >> 6")
            for slot in run.slots:
                self.loops.matrices[f"bits{slot} = np.empty(LIMIT * LIMIT // 64, np.uint64)"] = None
                rows = f"base{slot}, dir{slot}, v{slot}_1"
                self.loops.write(f"fill_adjacency({array}, {low}, {high}, places, {rows}, words, bits{slot})")
            self.run = run
            self.loops.variable(group, total)
            self.run = None
        with self.loops.block("else:"):
            self.loops.looped(group[0], group[1:], total)

    def loop(self, depth: int, rest: list[int], total: str) -> None:
        """A variable of a run: the bits of the rows that refine it, or all of the set."""
        by = tuple(sorted(self.run.refined[depth].items()))
        _, low, high = self.loops.terms.place(self.run.values)
        if self.loops.only_counts(depth):
            return self.loops.write(f"{total} += {self._bits_counted(depth, by) if by else f'{high} - {low}'}")
        if not by:
            with self.loops.block(f"for i{depth} in range({high} - {low}):"):
                return self._bound_by_bits(depth, rest, total)
        source, row = self._row_of(by)
        with self.loops.block(f"for k{depth} in range(words):"):
            self.loops.write(f"w{depth} = {source}[{row} + k{depth}]")
            with self.loops.block(f"while w{depth} != 0:"):
                self.loops.write(f"i{depth} = (k{depth} << 6) + first_bit(w{depth})")
                self.loops.write(f"w{depth} &= w{depth} - np.uint64(1)")
                self._bound_by_bits(depth, rest, total)

    def _bound_by_bits(self, depth: int, rest: list[int], total: str) -> None:
        """Intersect the rows that are known together from here on, as far as deeper variables are not merely counted."""
        array, low, _ = self.loops.terms.place(self.run.values)
        if depth < self.loops.keep:
            self.loops.write(f"x{depth} = np.int64({array}[{low} + i{depth}])")
        needed = []
        for by in self._known_by_bits(depth):
            name, number = self._row_of(by)[0], self.loops.terms.number(by)
            self.loops.matrices[f"{name} = np.empty(LIMIT // 64, np.uint64)"] = None
            self.loops.write(f"any{number} = both({self._rows(by)}, words, {name})")
            needed.append(f"any{number}")
        with self.loops.guarded(needed):
            self.loops.after(depth, rest, total)

    def _known_by_bits(self, depth: int) -> list[tuple]:
        """The beginnings of deeper variables' rows that end at this variable, and are more than counted once."""
        found: dict[tuple, None] = {}
        for user, refined in self.run.refined.items():
            by = tuple(sorted(refined.items()))
            for length in range(2, len(by) + 1):
                inline = length == len(by) and self.loops.only_counts(user) and self.loops.parents[user] == depth
                if by[length - 1][0] == depth and not inline:
                    found[by[:length]] = None
        return sorted(found, key=len)

    def _row_of(self, by: tuple) -> tuple[str, str]:
        """(array, position) of the row of bits that some rows have in common."""
        if len(by) > 1:
            return f"s{self.loops.terms.number(by)}", "0"
        ((depth, slot),) = by
        return f"bits{slot}", f"i{depth} * words"

    def _rows(self, by: tuple) -> str:
        return ", ".join((*self._row_of(by[:-1]), *self._row_of(by[-1:])))

    def _bits_counted(self, depth: int, by: tuple) -> str:
        if len(by) == 1 or self.loops.parents[depth] != by[-1][0]:
            return f"count_row({', '.join(self._row_of(by))}, words)"
        return f"count_both({self._rows(by)}, words)"
