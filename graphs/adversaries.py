"""Hard inputs for joins: relations r, s, t of the triangles r(x, y), s(y, z), t(x, z) that put all work in one place.

*Distributed Evaluation of Subgraph Queries Using Worst-case Optimal Low-Memory Dataflows*, PVLDB 2018, section 3.4.
"""

import numpy as np


def through_one_vertex(vertices: int = 4000, others: int = 8000, seed: int = 1) -> dict[str, np.ndarray]:
    """Return the edges of one graph three times: vertex 0 has edges to all others, and nearly all triangles contain it."""
    drawn = np.random.default_rng(seed).integers(1, vertices, (others, 2))
    edges = np.concatenate((every((0, np.arange(1, vertices))), drawn))
    return {"r": edges, "s": edges, "t": edges}


def one_heavy_list(vertices: int = 4000, others: int = 20000, seed: int = 1) -> dict[str, np.ndarray]:
    """Return relations in which half of all prefixes (x, y) have y = 0, whose list of 50 values is requested repeatedly."""
    x, ends = np.arange(1, vertices), np.arange(50)
    drawn = np.random.default_rng(seed).integers(0, [vertices, 50], (others, 2)) + [0, vertices]
    return {"r": every((x, x * 0), (x, x)), "s": every((0, vertices + ends), (x, vertices + x % 50)), "t": drawn}


def one_heavy_proposer(extensions: int = 2000) -> dict[str, np.ndarray]:
    """Return relations in which one list of s, of so many values, makes all proposals, to 20 prefixes."""
    x = np.arange(20)
    lists = [(i, np.arange(0, 3 * extensions, 1 + i % 3)) for i in range(20)]
    return {"r": every((x, x * 0)), "s": every((0, np.arange(extensions))), "t": every(*lists)}


def every(*pairs) -> np.ndarray:
    """Return edges from each value of one array to each of the other, or pairwise.

    >>> every((0, np.arange(1, 3)), (np.arange(2), np.arange(2))).tolist()
    [[0, 1], [0, 2], [0, 0], [1, 1]]
    """
    return np.concatenate([np.stack(np.broadcast_arrays(*pair), axis=1).reshape(-1, 2) for pair in pairs]).astype(np.int64)
