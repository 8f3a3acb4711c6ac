"""Boxes: divide the variables' values into ranges, so that the slices of the tries that a box needs fit a memory budget.

After Zinn, "General-Purpose Join Algorithms for Listing Triangles in Large Graphs" (2015), §3, for any query:

1. A variable is a *dimension* if tries begin with it. Its range is the longest whose sub-tries fit the dimension's share of the
   budget, found by probing the tries. Atoms over one relation share slices.
2. Each dimension but the last may use a multiple of the budget of the last, between 1 and 32, that is expected to cost least.
   The slices of the last are copied most often, so the ranges of the others should be few; but small slices make many boxes.
3. If the sub-trie of a single value is too large, it *spills*: the range is that one value, and the atom is sliced by its next
   variable, which becomes a dimension.
4. A box is skipped as soon as a comparison x < y, or the values that the slices have for a later variable, make it empty.
5. If all tries fit, they are one box.
"""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from semi_naive.host.numbers import quantity
from semi_naive.ra.multiway.query import ConjunctiveQuery
from semi_naive.ra.multiway.tries.paged import PagedTrie
from semi_naive.ra.multiway.tries.shape import Shape, TrieKey
from semi_naive.ra.multiway.tries.slices import Siblings, bytes_of, least_bytes, siblings, span

RATIOS = (1, 2, 4, 8, 16, 32)  # of the bytes that a dimension may use to those of the last dimension
BOX_BYTES = 1 << 21  # bytes that are copied in the time that it takes to choose a box and to begin its loops: 0.7 ms
MAX_CACHED_SPANS = 1 << 12


class BudgetTooSmall(ValueError):
    """Raised if not even one tuple of each atom fits; the message says which budget does."""


class Slice(NamedTuple):
    """A slice of a trie: below a path, the ids in [low, high)."""

    trie: TrieKey
    path: tuple[int, ...]
    low: int
    high: int


@dataclass(frozen=True)
class Box:
    """One box.

    ranges: the range of ids of each variable, in the variable order.
    levels: for each atom the level at which its trie is sliced; None for whole tries.
    slices: the slice of each slot.
    """

    ranges: tuple[tuple[int, int], ...]
    levels: tuple[int, ...] | None
    slices: tuple[Slice, ...]
    bytes: int


class Group(NamedTuple):
    """Atoms that share a slice: they have the same trie, and the same variables up to that by which it is sliced. path: the
    depths of these variables."""

    trie: TrieKey
    path: tuple[int, ...]
    atoms: tuple[int, ...]


@dataclass(frozen=True)
class PartialBox:
    """A box under construction.

    ranges: the ranges of all variables, narrowed so far.
    levels: for each atom the level at which it is sliced.
    bytes_left: the remaining bytes of the budget.
    slices: the slices chosen so far.
    """

    ranges: tuple[tuple[int, int], ...]
    levels: tuple[int, ...]
    bytes_left: int
    slices: dict[Group, Slice] = field(default_factory=dict)

    def with_slice(self, group: Group, piece: Slice, size: int) -> "PartialBox":
        return replace(self, bytes_left=self.bytes_left - size, slices={**self.slices, group: piece})

    def with_deeper_level(self, group: Group) -> "PartialBox":
        """Return the box in which the atoms of a group are sliced by their next variable."""
        levels = (level + 1 if atom in group.atoms else level for atom, level in enumerate(self.levels))
        return replace(self, levels=tuple(levels))

    def with_range(self, depth: int, low: int, high: int) -> "PartialBox":
        return replace(self, ranges=(*self.ranges[:depth], (low, high), *self.ranges[depth + 1 :]))


def cost(state: PartialBox, group: Group, sibling_range: Siblings, low: int, high: int) -> tuple[Slice, int]:
    """Return (slice of a group for a range of ids, bytes that it takes). A slice that the box `state` has and that covers the
    range is reused: it takes 0 bytes."""
    for piece in state.slices.values():
        if (piece.trie, piece.path) == (group.trie, sibling_range.path) and piece.low <= low and high <= piece.high:
            return piece, 0
    return Slice(group.trie, sibling_range.path, low, high), bytes_of(sibling_range, low, high)


@dataclass
class Boxes:
    """An iterable of the boxes of a query over tries in files; probing reads a few pages of them.

    most: the fraction of the first dimension's bytes that a box may have, so that there are boxes for many tasks.
    """

    query: ConjunctiveQuery
    order: tuple[str, ...]
    tries: dict[TrieKey, PagedTrie]
    size: int  # the size of the domain
    budget: int
    most: float = 1.0

    def __post_init__(self):
        self.shape = Shape(self.query, self.order)
        self.keys = [self.shape.tries[member.slot] for member in self.shape.members]  # the trie of each atom
        self.slots: dict[tuple[int, ...], tuple] = {}  # the slots of boxes, by their levels
        self.spans: dict[Slice, tuple[int, int]] = {}  # the results of `_span`
        self.spills = 0  # the values whose sub-tries were too large, so far
        self.seconds = 0.0  # the time of choosing boxes, so far
        sizes = [sum(self.tries[key].bytes for key in keys) for keys in dimensions_of(self.shape)]
        self.ratio = min(RATIOS, key=lambda ratio: boxing_cost(sizes, self.budget, ratio))  # of the least expected cost

    def __iter__(self) -> Iterator[Box]:
        """Yield the boxes. Raises BudgetTooSmall if one tuple of each atom does not fit into a box."""
        boxes = self._chosen()
        while True:
            begun = time.perf_counter()
            box = next(boxes, None)
            self.seconds += time.perf_counter() - begun
            if box is None:
                return
            yield box

    def _chosen(self) -> Iterator[Box]:
        """Yield the boxes, without their times."""
        least = sum(least_bytes(len(key.order)) for key in self.keys)
        if self.budget < least:
            raise BudgetTooSmall(
                f"a budget of {quantity(self.budget, 'byte')} does not hold one tuple of each atom; "
                f"the least that works is {least:,}"
            )
        levels = (1,) * len(self.keys)  # unless it spills, an atom is sliced by its first variable
        start = self.narrowed(PartialBox(((0, self.size),) * len(self.order), levels, self.budget))
        if start and self.most == 1 and (box := self._whole_tries_box(start)).bytes <= self.budget:
            yield box
        elif start:
            yield from self._boxes_within(start, 0)

    def _whole_tries_box(self, state: PartialBox) -> Box:
        """Return the only box if all tries fit: it has whole tries."""
        pieces = tuple(Slice(trie, (), 0, self.size) for trie in self.shape.tries)
        sizes = (bytes_of(siblings(self.tries[trie], ()), 0, self.size) for trie in self.shape.tries)
        return Box(state.ranges, None, pieces, sum(sizes))

    def _boxes_within(self, state: PartialBox, depth: int) -> Iterator[Box]:
        """Yield the boxes within a partial box in which the variables before `depth` have their ranges."""
        if depth == len(self.order):
            yield self._box(state)
            return
        groups = self._groups_to_slice(state, depth)
        if not groups:
            yield from self._boxes_within(state, depth + 1)
            return
        below = {group: self._siblings(group, state) for group in groups}
        low, last = state.ranges[depth]
        positive = [within for group, within in below.items() if self._positive_atoms(group)]
        while (low := self._next_common_id(positive, low)) < last:
            high, sliced = self._longest_range(state, below, depth, low, last)
            inner = self.narrowed(sliced.with_range(depth, low, high))
            if inner:
                yield from self._boxes_within(inner, depth + 1)
            low = high

    def _longest_range(
        self, state: PartialBox, below: dict[Group, Siblings], depth: int, low: int, last: int
    ) -> tuple[int, PartialBox]:
        """Return (end, state): the end of the longest range [low, end) of a variable whose slices fit, and the box with these
        slices. If a single value does not fit, it spills. below: the groups of atoms that are sliced by this variable, with
        their ranges in the tries; depth: of the variable; last: the end of its ids."""
        allowed = self._room(state, below, depth)

        def size(high: int) -> int:
            return sum(cost(state, group, within, low, high)[1] for group, within in below.items())

        if size(low + 1) > allowed:
            self.spills += 1
            return low + 1, self._spilled(state, below, low, allowed)
        end = longest_end(size, allowed, low + 1, last)
        for group, within in below.items():
            state = state.with_slice(group, *cost(state, group, within, low, end))
        return end, state

    def _room(self, state: PartialBox, below: dict[Group, Siblings], depth: int) -> int:
        """Return the bytes that this dimension may use. The least bytes that later dimensions need are reserved. The arguments
        are those of `_longest_range`."""
        known = {atom for group in [*below, *state.slices] for atom in group.atoms}
        later = [atom for atom in range(len(self.keys)) if atom not in known]
        dimensions = len({self.shape.members[atom].path[state.levels[atom] - 1] for atom in later})
        least = sum(least_bytes(len(self.keys[atom].order)) for atom in later)
        allowed = state.bytes_left
        if later:  # this dimension has `ratio` shares, like all later ones but the last, which has one
            allowed = min(allowed * self.ratio // (self.ratio * dimensions + 1), allowed - least)
        if depth == 0 and self.most < 1:  # only the first dimension is cut for tasks
            whole = sum(bytes_of(within, 0, self.size) for within in below.values() if not within.level)
            allowed = min(allowed, max(int(whole * self.most), 1))
        return allowed

    def _spilled(self, state: PartialBox, below: dict[Group, Siblings], low: int, room: int) -> PartialBox:
        """Choose the slices of a single value that fit, smallest first. The other atoms will be sliced by their next variable.
        below: the groups of atoms, with their ranges in the tries; low: the value; room: the bytes that slices may have."""
        pieces = [(group, *cost(state, group, within, low, low + 1)) for group, within in below.items()]
        done = {atom for group in state.slices for atom in group.atoms}
        # the least bytes that the atoms without a slice will need
        reserved = sum(least_bytes(len(key.order)) for atom, key in enumerate(self.keys) if atom not in done)
        for group, piece, size in sorted(pieces, key=lambda piece: piece[2]):
            deeper = len(group.path) < len(group.trie.order)
            reserved -= len(group.atoms) * least_bytes(len(group.trie.order))
            if deeper and (size > room or state.bytes_left - size < reserved):
                state = state.with_deeper_level(group)
                reserved += len(group.atoms) * least_bytes(len(group.trie.order))
                continue
            state = state.with_slice(group, piece, size)
            room -= size
        return state

    def _groups_to_slice(self, state: PartialBox, depth: int) -> list[Group]:
        """Return the groups of atoms without a slice that are sliced by a variable."""
        done = {atom for group in state.slices for atom in group.atoms}
        by_trie_and_path: dict[tuple, list[int]] = {}
        for atom, (member, level) in enumerate(zip(self.shape.members, state.levels, strict=True)):
            if atom not in done and member.path[level - 1] == depth:
                by_trie_and_path.setdefault((self.keys[atom], member.path[:level]), []).append(atom)
        return [Group(trie, path, tuple(atoms)) for (trie, path), atoms in by_trie_and_path.items()]

    def _positive_atoms(self, group: Group) -> list[int]:
        """Return the atoms of a group that are not negated; without one, the group's ids do not restrict a variable."""
        return [atom for atom in group.atoms if not self.shape.members[atom].negated]

    def _siblings(self, group: Group, state: PartialBox) -> Siblings:
        """Return the range of its trie that a group slices. Its path has spilled variables, of one value each."""
        return siblings(self.tries[group.trie], [state.ranges[depth][0] for depth in group.path[:-1]])

    def _next_common_id(self, ranges: Collection[Siblings], low: int) -> int:
        """Return the first id from `low` on that all ranges have; the domain's size if there is none."""
        candidate = -1
        while candidate < low:  # until no range has moved `low`
            candidate = low
            for within in ranges:
                position = within.position(low)
                if position >= within.end:
                    return self.size
                low = within.values[position]
        return low

    def narrowed(self, state: PartialBox) -> PartialBox | None:
        """Narrow the ranges of a box by comparisons x < y and by the children of its slices. Return None if a range is empty.
        Kernels test all comparisons."""
        ranges = list(state.ranges)
        for group, piece in state.slices.items():
            if len(group.path) < len(group.trie.order):
                for atom in self._positive_atoms(group):
                    _narrow_range(ranges, self.shape.members[atom].path[len(group.path)], *self._span(piece))
        less = [(c.left, c.right) for c in self.shape.comparisons if c.op == "<" and len(c.depths) == 2]
        ordered = [(below, above) for below, above in less if isinstance(below, int) and isinstance(above, int)]
        for below, above in ordered * 2:  # again, as a comparison may narrow a range that an earlier one has read
            least, end = ranges[below][0] + 1, ranges[above][1] - 1
            _narrow_range(ranges, below, 0, end)
            _narrow_range(ranges, above, least, self.size)
        return replace(state, ranges=tuple(ranges)) if all(low < high for low, high in ranges) else None

    def _span(self, piece: Slice) -> tuple[int, int]:
        """Return the bounds of the children of a slice's first level; cached for the boxes that share the slice."""
        if piece not in self.spans:
            if len(self.spans) >= MAX_CACHED_SPANS:
                self.spans.clear()
            self.spans[piece] = span(siblings(self.tries[piece.trie], piece.path), piece.low, piece.high)
        return self.spans[piece]

    def _box(self, state: PartialBox) -> Box:
        """Return the finished box, with its slices in the order of the slots."""
        if state.levels not in self.slots:
            self.slots[state.levels] = tuple(Shape(self.query, self.order, state.levels).slots)
        by_slot = {(group.trie, group.path): piece for group, piece in state.slices.items()}
        pieces = tuple(by_slot[slot] for slot in self.slots[state.levels])
        return Box(state.ranges, state.levels, pieces, self.budget - state.bytes_left)


def dimensions_of(shape: Shape) -> list[set[TrieKey]]:
    """Return the tries that are sliced by each dimension, in the order of the variables."""
    tries_by_depth: dict[int, set[TrieKey]] = {}
    for member in shape.members:
        tries_by_depth.setdefault(member.path[0], set()).add(shape.tries[member.slot])
    return [tries_by_depth[depth] for depth in sorted(tries_by_depth)]


def longest_end(size: Callable[[int], int], allowed: int, fits: int, last: int) -> int:
    """Return the greatest end up to `last` whose size(end) is allowed, given an end that fits. Sizes grow about evenly, so the
    search alternates between interpolation and bisection: it takes 6 to 10 sizes in place of 20.

    >>> asked = []
    >>> longest_end(lambda end: asked.append(end) or 3 * end, 1000, 1, 1 << 20), len(asked) < 8
    (333, True)
    """
    if (whole := size(last)) <= allowed:
        return last
    exceeds, below, above, interpolate = last, size(fits), whole, True
    while exceeds - fits > 1:
        middle = (fits + exceeds) >> 1
        if interpolate:
            share = (allowed - below) / (above - below)
            middle = min(max(fits + int(share * (exceeds - fits)), fits + 1), exceeds - 1)
        interpolate = not interpolate
        if (size_at_middle := size(middle)) <= allowed:
            fits, below = middle, size_at_middle
        else:
            exceeds, above = middle, size_at_middle
    return fits


def boxing_cost(sizes: list[int], budget: int, ratio: int) -> float:
    """Return the expected cost of boxes, in bytes copied. All slices of a dimension are copied for each combination of slices
    of those before. sizes: the bytes of the tries of each dimension; ratio: of the shares of the budget of the others to that
    of the last."""
    if sum(sizes) <= budget or not sizes:
        return float(sum(sizes))
    part = max(budget / (ratio * (len(sizes) - 1) + 1), 1)
    boxes = copied = 1.0
    for number, size in enumerate(sizes):
        copied += boxes * size
        boxes *= max(size / (part * (1 if number + 1 == len(sizes) else ratio)), 1)
    return copied + boxes * BOX_BYTES


def _narrow_range(ranges: list, depth: int, low: int, high: int) -> None:
    """Narrow the range of a variable."""
    ranges[depth] = (max(ranges[depth][0], low), min(ranges[depth][1], high))
