"""The graphs of Table 1: real ones from a folder that is given, otherwise generated ones and the one that is bundled. The
paper's own are in the SuiteSparse Matrix Collection, as lhr34.mtx, nemeth13.mtx, sgpf5y6.mtx, rim.mtx and TSC_OPF_300.mtx."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from semi_naive import graphs


@dataclass(frozen=True)
class Dataset:
    """A graph by name: a file of the folder, or what a generator makes in each size."""

    name: str
    file: str | None = None
    make: dict | None = None  # by size, of functions without arguments

    def edges(self, folder: Path | None, size: str) -> np.ndarray:
        """(n, 2) int64. ValueError when the file is not in the folder, or is not a graph."""
        return self.make[size]() if self.file is None else graphs.as_edges(self.path(folder)).pairs

    def path(self, folder: Path | None) -> Path:
        """Of the file. ValueError when it is not there."""
        path = graphs.bundled(self.name) if folder is None else folder / self.file
        if not path.is_file():
            files = ", ".join(real.file for real in REAL if real.file)
            raise ValueError(f"{path} is not there: expected {files} in the folder given as --data")
        return path


def made(name: str, generator, toy: tuple, quick: tuple, full: tuple, **facts) -> Dataset:
    sizes = {"toy": toy, "quick": quick, "full": full}
    return Dataset(name, make={size: partial(generator, *given, **facts) for size, given in sizes.items()})


GNUTELLA = Dataset("p2p-gnutella09", "p2p-gnutella09.tsv.gz")
RMAT = made("RMAT", graphs.rmat, (8, 300, 2), (13, 10_000, 2), (16, 60_000, 2))
LARGE = {  # files that only the full size takes, and what stands in for them
    "gnp10k.csv.gz": made("G(n, p)", graphs.gnp, (60, 0.03), (2_000, 0.001), (10_000, 0.001)),
    "grid150.csv.gz": made("grid", graphs.grid, (6,), (51,), (151,)),
}
REAL = [
    Dataset("ol-cedge", "ol-cedge.tsv.gz"), Dataset("tg-cedge", "tg-cedge.tsv.gz"), Dataset("cal-cedge", "cal-cedge.tsv.gz"),
    GNUTELLA, Dataset("gnp10k", "gnp10k.csv.gz"), Dataset("grid150", "grid150.csv.gz"), Dataset("tree11", "tree11.csv.gz"),
    RMAT,
]  # fmt: skip
GENERATED = [
    made("tree up", graphs.tree, (6,), (15,), (18,), direction="up"),
    made("tree down", graphs.tree, (6,), (15,), (18,), direction="down"),
    made("bow tie", graphs.bowtie, (30, 10), (1_000, 10), (5_000, 10)),
    made("Zipf", graphs.zipf, (100, 200), (20_000, 20_000), (200_000, 100_000)),
    GNUTELLA, *LARGE.values(), RMAT,
]  # fmt: skip


def chosen(folder: Path | None, size: str) -> list[Dataset]:
    """Eight of them, or two toys. Without a folder, of the files only the bundled one. Of a folder that has matrices (.mtx,
    .mtx.gz), all of these. ValueError when a folder without matrices lacks a file."""
    if folder is None:
        return [GENERATED[0], RMAT] if size == "toy" else GENERATED
    if matrices := sorted(folder.glob("*.mtx*")):
        return [Dataset(path.name.partition(".")[0], path.name) for path in matrices]
    found = [dataset if size == "full" else LARGE.get(dataset.file, dataset) for dataset in REAL]
    for dataset in found:
        if dataset.file:
            dataset.path(folder)
    return found
