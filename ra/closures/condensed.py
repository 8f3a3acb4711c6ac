"""Maintenance of a closure by components and bit rows, when edges change, without a list of all its pairs.

The nodes of a strongly connected component reach the same nodes. So there is one row of bits for each component: the union of
those that its edges lead to (Purdom 1970, *A transitive closure algorithm*; Nuutila 1995, *Efficient transitive closure
computation in large digraphs*, for the order of Tarjan's search). Rows of the graph before and after are compared by word.

A graph of both moments: moments[j] of edge j has bit BEFORE if it was there, AFTER if it is there.
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.bits import count_bits, lowest_bit
from semi_naive.ra.words import JIT, JOIN, i64, u64

BEFORE, AFTER = 1, 2

rows_of = types.Array(types.uint64, 2, "C")


@njit(types.Tuple((i64, types.int64))(i64, i64, i64, types.int64), **JIT)
def components_at_moment(indptr, targets, moments, moment):
    """(component of each node, how many): the strongly connected components at a moment, numbered so that an edge leads to a
    component of a lower number, or to its own. Tarjan's search, with a stack of its own.

    >>> components_at_moment(np.array([0, 1, 2, 3, 3]), np.array([1, 0, 3]), np.array([3, 3, 1]), 1)
    (array([0, 0, 2, 1]), 3)
    """
    nodes = indptr.size - 1
    component, met = np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64)
    lowest, at = np.empty(nodes, np.int64), indptr[:-1].copy()
    open_nodes, path = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    clock = count = held = 0
    for root in range(nodes):
        deep = 0
        if met[root] < 0:
            path[0] = root
            deep = 1
        while deep:
            x = path[deep - 1]
            if met[x] < 0:
                met[x] = lowest[x] = clock
                clock += 1
                open_nodes[held] = x
                held += 1
            if at[x] < indptr[x + 1]:
                j = at[x]
                at[x] += 1
                y = targets[j]
                if moments[j] & moment and component[y] < 0:
                    if met[y] < 0:
                        path[deep] = y
                        deep += 1
                    else:
                        lowest[x] = min(lowest[x], met[y])
                continue
            deep -= 1
            if deep:
                lowest[path[deep - 1]] = min(lowest[path[deep - 1]], lowest[x])
            if lowest[x] == met[x]:
                while component[x] < 0:
                    held -= 1
                    component[open_nodes[held]] = count
                count += 1
    return component, count


@njit(u64(i64, i64, i64, types.int64, i64, types.int64, i64, types.int64), **JOIN)
def mark_reached(indptr, targets, moments, moment, component, count, bits, width):
    """Mark the nodes that each component reaches by an edge or more: bit b of the words from c * width on is set if component c
    reaches the node with bits[node] = b. A node whose bit is outside of [0, 64 * width) has none. One pass over the edges:
    `width` words for each that leads to another component."""
    firsts = np.zeros(count + 2, np.int64)
    for c in component:
        firsts[c + 2] += 1
    for c in range(count):
        firsts[c + 2] += firsts[c + 1]
    members = np.empty(component.size, np.int64)
    for x in range(component.size):
        members[firsts[component[x] + 1]] = x
        firsts[component[x] + 1] += 1
    rows, last = np.zeros(count * width, np.uint64), np.full(count, -1, np.int64)
    for c in range(count):
        row = c * width
        for x in members[firsts[c] : firsts[c + 1]]:
            for j in range(indptr[x], indptr[x + 1]):
                if moments[j] & moment:
                    bit, d = bits[targets[j]], component[targets[j]]
                    if bit >= 0 and bit < 64 * width:
                        rows[row + (bit >> 6)] |= np.uint64(1) << np.uint64(bit & 63)
                    if d != c and last[d] != c:
                        last[d] = c
                        for word in range(width):
                            rows[row + word] |= rows[d * width + word]
    return rows


@njit(types.Tuple((i64, i64, i64))(i64, i64), **JIT)
def turned(indptr, targets):
    """(indptr, sources, places): the same edges by their targets, and which edge each one was.

    >>> turned(np.array([0, 2, 3, 3]), np.array([1, 2, 1]))
    (array([0, 0, 2, 3]), array([0, 1, 0]), array([0, 2, 1]))
    """
    firsts = np.zeros(indptr.size + 1, np.int64)
    for y in targets:
        firsts[y + 2] += 1
    for y in range(2, firsts.size):
        firsts[y] += firsts[y - 1]
    sources, places = np.empty(targets.size, np.int64), np.empty(targets.size, np.int64)
    for x in range(indptr.size - 1):
        for j in range(indptr[x], indptr[x + 1]):
            at = firsts[targets[j] + 1]
            sources[at], places[at] = x, j
            firsts[targets[j] + 1] = at + 1
    return firsts[: indptr.size].copy(), sources, places


@njit(types.int64(i64, u64, i64, u64, types.int64, types.int64, types.int64), **JOIN)
def surplus_size(component, rows, other_component, other_rows, width, begin, end):
    """Count the bits that the rows of nodes [begin, end) have and their other rows lack. 2 ns a word."""
    size = 0
    for x in range(begin, end):
        row, other = component[x] * width, other_component[x] * width
        for word in range(width):
            size += np.int64(count_bits(rows[row + word] & ~other_rows[other + word]))
    return size


@njit(types.int64(i64, u64, i64, u64, types.int64, types.int64, types.int64, rows_of, rows_of, rows_of, types.int64), **JOIN)
def surplus(component, rows, other_component, other_rows, width, begin, end, of_node, of_bit, words, at):
    """Write the pairs (node, node of a bit) of all these bits, in the order of nodes and bits, as words (lanes, n) from `at`
    on: of_node[:, node] | of_bit[:, bit]. Returns their end. 2 ns a word that is compared, 5 ns a pair."""
    for x in range(begin, end):
        row, other = component[x] * width, other_component[x] * width
        for word in range(width):
            left = rows[row + word] & ~other_rows[other + word]
            while left:
                bit = 64 * word + np.int64(lowest_bit(left))
                for lane in range(words.shape[0]):
                    words[lane, at] = of_node[lane, x] | of_bit[lane, bit]
                at += 1
                left &= left - np.uint64(1)
    return at
