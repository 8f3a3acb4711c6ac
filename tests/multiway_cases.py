"""What tests of conjunctive queries share: relations as arrays, and kernels that are not compiled."""

import numpy as np

from bench.fuzz.random_queries import ARITIES


def arrays(relations: dict) -> dict:
    """Sets of tuples as (n, k) arrays, each tuple twice: duplicates are no matter."""
    return {name: np.array(sorted(rows) * 2, np.int64).reshape(-1, ARITIES[name]) for name, rows in relations.items()}


def rows_of(array) -> list:
    return sorted(map(tuple, array.tolist()))


def interpreted(source: str):
    """The function of a generated source, not compiled: an example costs milliseconds, whatever shape it has."""
    lines = [line for line in source.splitlines() if not line.startswith("@njit")]
    namespace: dict = {}
    exec("\n".join(lines), namespace)
    return np.errstate(over="ignore")(namespace["kernel"])
