"""Graphs to run on: seeded generators and one bundled real graph. `semi_naive.io` reads users' graphs.

Importing it costs numpy; pyarrow, pandas, networkx and pyspark are imported by what needs them.
"""

from pathlib import Path

from semi_naive.graphs.generators import bowtie, chain, gnp, grid, rmat, star, tree, zipf
from semi_naive.io.edges import Edges, as_edges
from semi_naive.io.errors import BadInput

__all__ = [
    "BadInput",
    "Edges",
    "bowtie",
    "bundled",
    "chain",
    "gnp",
    "grid",
    "as_edges",
    "rmat",
    "star",
    "tree",
    "zipf",
]


def bundled(name):
    """Return the path of a bundled graph: "p2p-gnutella09", 26,013 directed edges (SNAP).

    >>> len(as_edges(bundled("p2p-gnutella09")))
    26013
    """
    path = Path(__file__).parent / f"{name}.tsv.gz"
    if not path.is_file():
        known = sorted(found.name.removesuffix(".tsv.gz") for found in path.parent.glob("*.tsv.gz"))
        raise ValueError(f"no bundled graph {name!r}; there is {', '.join(known)}")
    return path
