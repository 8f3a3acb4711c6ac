"""The naive oracle: what the closure is, in Python's own sets."""

from collections import defaultdict


def closure(edges, length=None):
    """All pairs joined by a path of 1 to `length` edges."""
    follow = defaultdict(set)
    for x, y in edges:
        follow[x].add(y)
    delta = full = set(edges)
    steps = 1
    while delta and (length is None or steps < length):
        delta = {(x, z) for x, y in delta for z in follow[y]} - full
        full = full | delta
        steps += 1
    return full


def steps(edges):
    """How many steps the linear fixpoint takes: the length of the longest shortest path."""
    length = 0
    while closure(edges, length + 1) != closure(edges, length or 1) or (length == 0 and edges):
        length += 1
    return length


def pairs(result):
    return set(map(tuple, result.to_numpy().tolist()))


def differences(found, expected):
    """For an assertion's message: what is missing and what is too much."""
    return f"missing {sorted(expected - found)[:5]}, too much {sorted(found - expected)[:5]}"
