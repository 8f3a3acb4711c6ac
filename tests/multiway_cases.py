"""What tests of conjunctive queries share: relations as arrays, and kernels that are not compiled."""

import numpy as np

from bench.fuzz.random_queries import ARITIES


def arrays(relations: dict) -> dict:
    """Sets of tuples as (n, k) arrays, each tuple twice: duplicates are no matter."""
    return {name: np.array(sorted(rows) * 2, np.int64).reshape(-1, ARITIES[name]) for name, rows in relations.items()}


def rows_of(array) -> list:
    return sorted(map(tuple, array.tolist()))


def tuples_of(trie) -> list[tuple]:
    """The tuples of a trie array, in order: each value is repeated for each leaf below it."""
    columns = [trie.values[-1]]
    for level in range(len(trie.values) - 2, -1, -1):
        offsets = trie.index[level]
        for below in trie.index[level + 1 :]:
            offsets = below[offsets]
        columns.insert(0, np.repeat(trie.values[level], np.diff(offsets)))
    return list(zip(*(column.tolist() for column in columns), strict=True))


def interpreted(source: str):
    """The function of a generated source, not compiled: an example costs milliseconds, whatever shape it has."""
    lines = [line for line in source.splitlines() if not line.startswith("@njit")]
    namespace: dict = {}
    exec("\n".join(lines), namespace)
    return np.errstate(over="ignore")(namespace["kernel"])
