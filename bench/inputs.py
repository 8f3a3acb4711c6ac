"""The graphs of the benchmark, in the files that every engine reads them from."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semi_naive import graphs


@dataclass
class Row:
    """A graph, its file, and how many pairs its closure is known to have (None: the engines need only agree)."""

    name: str
    path: str
    pairs: int | None


NAMES = ("gnp", "rmat", "grid", "gnutella", "tree", "chain")


def rows(names, folder: Path, data: Path | None = None, toy: bool = False) -> list[Row]:
    """The rows asked for, their graphs written to `folder` where no file has them yet."""
    for name in names:
        if name not in NAMES:
            raise ValueError(f"there is no graph {name!r}: expected some of {', '.join(NAMES)}")
    return [_row(name, folder, data, toy) for name in names]


def _row(name: str, folder: Path, data: Path | None, toy: bool) -> Row:
    if not toy and name == "gnutella":
        return Row(name, str(graphs.bundled("p2p-gnutella09")), 21_402_960)
    if not toy and name == "grid" and data:
        return Row(name, str(data / "grid150.csv.gz"), 131_675_775)
    edges, pairs = (_toy if toy else _whole)(name)
    return Row(name, write(edges, folder / f"{name}.tsv"), pairs)


def _whole(name: str):
    return {
        "gnp": lambda: (graphs.gnp(5000, 0.001, seed=1), None),
        "rmat": lambda: (graphs.rmat(16, 60_000, seed=2), 180_351_671),
        "grid": lambda: (graphs.grid(151), 131_675_775),
        "tree": lambda: (graphs.tree(18), 8_912_898),
        "chain": lambda: (graphs.chain(2000), 1_999_000),
    }[name]()


def _toy(name: str):
    return {
        "gnp": lambda: (graphs.gnp(30, 0.1, seed=1), None),
        "rmat": lambda: (graphs.rmat(6, 100, seed=2), None),
        "grid": lambda: (graphs.grid(4), 84),
        "gnutella": lambda: (_beginning(200), None),
        "tree": lambda: (graphs.tree(4), 98),
        "chain": lambda: (graphs.chain(8), 28),
    }[name]()


def _beginning(edges: int) -> np.ndarray:
    """The first edges of the bundled graph."""
    return graphs.as_edges(graphs.bundled("p2p-gnutella09")).pairs[:edges]


def write(edges: np.ndarray, path: Path) -> str:
    """A tab-separated file of the edges."""
    path.write_text("".join(f"{x}\t{y}\n" for x, y in edges.tolist()))
    return str(path)
