"""Cliques and similar patterns: variables that all range over one set and restrict one another, joined as bits of a small
adjacency matrix.

    clique(w, x, y, z) :- edge(w, x), edge(w, y), edge(w, z), edge(x, y), edge(x, z), edge(y, z).

Below w all variables range over the children of w. Row x of the matrix has a bit for each of them that edge(x, _) has, too. y
takes the bits of row x, and z those of row x & row y: 64 candidates an instruction. Scanning edge(y, _) again for each x and y
took forty times as long for 5-cliques.
"""

from typing import NamedTuple

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.bits import count_bits
from semi_naive.ra.multiway.tries.seeks import below, i32, integer
from semi_naive.ra.multiway.tries.shape import Member, Shape, Values
from semi_naive.ra.words import JIT, u64

LIMIT = 2048  # values of the set, at most: the matrix then takes half a megabyte and fits in the cache


class SetVariables(NamedTuple):
    """A group of variables over one set: the set, and for each variable the earlier ones that restrict it."""

    values: Values
    refined: dict[int, dict[int, int]]  # depth of a variable -> {depth of one before it: slot of the trie that has both}

    @property
    def slots(self) -> list[int]:
        return sorted({slot for by in self.refined.values() for slot in by.values()})


NO_VARIABLES = SetVariables(frozenset(), {})


def set_variables(shape: Shape, group: list[int], bounded: frozenset[int]) -> SetVariables | None:
    """Return a group as variables over one set of values, if all of them are; else None. Also None if a comparison or a box
    restricts one of them, or if none is restricted by two earlier ones: then bits are not worth while."""
    values = shape.values(group[0])
    compared = set().union(*(comparison.depths for comparison in shape.comparisons))
    if not values or (bounded | compared) & set(group):
        return None
    members = [member for member in shape.members if set(member.path) & set(group)]
    if not all(_is_within_group(member, values, group) for member in members):
        return None
    refined = {depth: slots for depth in group if (slots := _restricting_slots(shape, depth, values)) is not None}
    if len(refined) < len(group) or max(map(len, refined.values())) < 2:
        return None
    return SetVariables(values, refined)


def _is_within_group(member: Member, values: Values, group: list[int]) -> bool:
    """True if an atom puts a variable into the set, or joins two variables of the group."""
    if member.negated:
        return False
    return member.node(len(member.path) - 1) in values or (len(member.path) == 2 and set(member.path) <= set(group))


def _restricting_slots(shape: Shape, depth: int, values: Values) -> dict[int, int] | None:
    """Return for each earlier variable that restricts a variable beyond the set `values` the slot of the trie that has both;
    None if the variable is not in the set, or two atoms join it to the same earlier one."""
    further = shape.values(depth) - values
    slots = {node.path[0]: node.slot for node in further}
    return slots if values <= shape.values(depth) and len(slots) == len(further) else None


@njit(types.void(i32, integer, integer, i32, integer, i32, i32, integer, u64), **JIT)
def fill_adjacency(values, low, high, places, base, directory, children, words, bits):
    """Set row i of a bit matrix, of `words` words, to the values of values[low:high] that are among the children of the i-th of
    them. base, directory, children: a trie (`TrieArray`) and its second level; places: an array with an entry for every id, -1
    on entry and on return."""
    for i in range(low, high):
        places[values[i]] = i - low
    bits[: (high - low) * words] = 0
    for i in range(low, high):
        begin, end = below(directory, values[i] - base)
        row = (i - low) * words
        for j in range(begin, end):
            place = places[children[j]]
            if place >= 0:
                bits[row + (place >> 6)] |= np.uint64(1) << np.uint64(place & 63)
    for i in range(low, high):
        places[values[i]] = -1


@njit(types.boolean(u64, integer, u64, integer, integer, u64), **JIT)
def both(a, a_row, b, b_row, words, out):
    """Write the bits that two rows have in common to `out`; return True if there are any. a, b: matrices as arrays of words;
    a_row, b_row: the positions of the rows; words: the length of a row."""
    union = np.uint64(0)
    for k in range(words):
        out[k] = a[a_row + k] & b[b_row + k]
        union |= out[k]
    return union != 0


@njit(integer(u64, integer, u64, integer, integer), **JIT)
def count_both(a, a_row, b, b_row, words):
    """Return the number of bits that two rows have in common."""
    total = np.uint64(0)
    for k in range(words):
        total += count_bits(a[a_row + k] & b[b_row + k])
    return np.int64(total)


@njit(integer(u64, integer, integer), **JIT)
def count_row(a, row, words):
    """Return the number of bits that are 1 in the row of a bit matrix, a[row : row + words]."""
    total = np.uint64(0)
    for k in range(words):
        total += count_bits(a[row + k])
    return np.int64(total)
