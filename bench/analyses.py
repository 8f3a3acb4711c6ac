"""Made-up programs to analyse: assignments between variables, as skewed and as local as those of real ones.

Most variables are used in one place and a few everywhere: the end of an edge is drawn from the block of its beginning, the
first of a block more often than the last, and one edge in fifty goes anywhere. There are fewer assignments than variables, or
everything would flow everywhere: in the programs that Graspan and RecStep analysed it does not either.
"""

import numpy as np

BLOCK = 64  # variables of one procedure, say
ANYWHERE = 0.02  # of the edges leave their block


def local_edges(nodes: int, edges: int, rng: np.random.Generator) -> np.ndarray:
    """Edges between different nodes, mostly of one block; duplicates are dropped.

    >>> found = local_edges(200, 100, np.random.default_rng(1))
    >>> found.shape[1], bool((found < 200).all()), bool((found[:, 0] != found[:, 1]).all())
    (2, True, True)
    """
    source = rng.integers(nodes, size=edges)
    within = (BLOCK * rng.random(edges) ** 2).astype(np.int64)
    anywhere = rng.random(edges) < ANYWHERE
    target = np.where(anywhere, (nodes * rng.random(edges) ** 3).astype(np.int64), source // BLOCK * BLOCK + within)
    target = np.minimum(target, nodes - 1)
    return np.unique(np.stack([source, target], axis=1)[source != target], axis=0)


def andersen(size: int, seed: int = 0) -> dict[str, np.ndarray]:
    """The four kinds of statement of a program with `size` variables; objects are variables too."""
    rng = np.random.default_rng(seed)
    shares = {"address_of": 0.4, "copy": 0.5, "load": 0.1, "store": 0.1}
    return {name: local_edges(size, int(share * size), rng) for name, share in shares.items()}


def cspa(size: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Assignments and dereferences among `size` expressions."""
    rng = np.random.default_rng(seed)
    return {"assign": local_edges(size, int(0.5 * size), rng), "dereference": local_edges(size, int(0.3 * size), rng)}
