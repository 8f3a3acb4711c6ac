"""The closure, wherever its tuples are: counted, read as a DataFrame, Arrow, pandas or numpy, written to files."""

import contextlib
import gzip
import os
import shutil
import uuid
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from semi_naive.ra.frames import dataframe
from semi_naive.ra.replica import Replica
from semi_naive.ra.rules.partitioned import PartitionedRelation
from semi_naive.ra.rules.reaching import Reachability
from semi_naive.ra.rules.reading import pieces_of
from semi_naive.ra.runs import Run
from semi_naive.ra.session import cpus, map_in_arrow
from semi_naive.tuples import Tuples

DELIMITERS = {".tsv": "\t", ".facts": "\t", ".txt": "\t", ".csv": ","}
ROWS = 1 << 20  # of one Arrow batch, about


@dataclass
class Pairs:
    """A relation of two columns of ids on the partitions, in so many pieces."""

    relation: PartitionedRelation | Reachability
    pieces: int

    @property
    def runs(self) -> list[list[Run]]:
        """Of each partition, where they are on one host only."""
        assert isinstance(self.relation, PartitionedRelation)
        return [[stored.run for stored in blocks] for blocks in self.relation.home.full]

    def pairs(self, piece: int):
        yield from pieces_of(self.relation, piece)


@dataclass
class Names:
    """The names of vertices by their place in a pyarrow array, which is broadcast."""

    broadcast: Any

    def arrow(self, places: np.ndarray):
        import pyarrow as pa

        return self.broadcast.value.take(pa.array(places))


@dataclass
class Reader:
    """Turns pairs of ids back into the user's values; picklable."""

    source: Pairs
    values: Replica | None = None  # of each id its value, if it is not that itself
    names: Any = None  # whose `arrow` gives the names that have these values, if vertices are strings

    def schema(self):
        import pyarrow as pa

        kind = pa.int64() if self.names is None else pa.string()
        return pa.schema([("x", kind), ("y", kind)])

    def batches(self, piece: int):
        """Yield the tuples of one piece as Arrow record batches of about ROWS rows."""
        import pyarrow as pa

        values, schema = None if self.values is None else self.values.open(), self.schema()
        for pair in _gathered(self.source.pairs(piece)):
            columns = pair if values is None else [values[ids] for ids in pair]
            yield pa.record_batch([self.names.arrow(ids) if self.names else pa.array(ids) for ids in columns], schema=schema)

    def __call__(self, batches):
        """As `DataFrame.mapInArrow` calls it: one row for each piece in, its tuples out."""
        for batch in batches:
            for piece in batch.column(0).to_pylist():
                yield from self.batches(piece)


def _gathered(pairs):
    """Join small neighbours, so that a batch is worth its overhead."""
    waiting, rows = [], 0
    for pair in pairs:
        waiting.append(pair)
        rows += pair[0].size
        if rows >= ROWS:
            yield tuple(np.concatenate(columns) for columns in zip(*waiting, strict=True))
            waiting, rows = [], 0
    if rows:
        yield tuple(np.concatenate(columns) for columns in zip(*waiting, strict=True))


def output_format(path) -> tuple[str, bool]:
    """The kind of file by its name, and whether it is to be gzipped. ValueError for one we do not write.

    >>> output_format("out/paths.tsv.gz")
    ('.tsv', True)
    """
    suffixes = Path(str(path)).suffixes
    zipped = suffixes[-1:] == [".gz"]
    kind = "".join(suffixes[-2:-1] if zipped else suffixes[-1:])
    if kind in DELIMITERS or (kind == ".parquet" and not zipped):
        return kind, zipped
    expected = ", ".join([*DELIMITERS, ".parquet"])
    raise ValueError(f"{path}: cannot tell the format: expected a name that ends in {expected}; all but the last also .gz")


@dataclass
class _WriteText:
    """A task that writes each of its pieces as a text file of its own."""

    reader: Reader
    folder: str
    delimiter: str
    zipped: bool

    def __call__(self, partition, pieces):
        import pyarrow.csv as csv

        quoting = "needed" if self.delimiter == "," else "none"
        options = csv.WriteOptions(include_header=False, delimiter=self.delimiter, quoting_style=quoting)
        for piece in pieces:
            with (gzip.open if self.zipped else open)(os.path.join(self.folder, f"{piece:06d}"), "wb") as file:
                with csv.CSVWriter(file, self.reader.schema(), write_options=options) as writer:
                    for batch in self.reader.batches(piece):
                        writer.write_batch(batch)
            yield piece


_pinned: set["Closure"] = set()  # those a DataFrame may still read


class Closure(Tuples):
    """The transitive closure of a graph: its pairs (x, y), y reachable from x over at least one edge.

    Reading is lazy and repeatable; `close`, or leaving a `with` block, or the end of the program removes the runs, and so
    does forgetting the object unless `to_df` was called.
    """

    columns = ("x", "y")
    trace: dict = {}

    def __init__(self, sc, reader: Reader, size: int, trace: dict, release, jobs=None):
        self._jobs = jobs  # where the runs are, if not all of them are on every host
        self._sc, self._reader, self._size = sc, reader, size
        self.trace = trace
        self._finalizer = weakref.finalize(self, release)

    def count(self) -> int:
        """How many pairs; known without reading any."""
        return self._size

    @property
    def plan(self) -> str:
        return self.trace["plan"]

    @property
    def reason(self) -> str:
        """Why that plan."""
        return self.trace["reason"]

    @property
    def iterations(self) -> int:
        """Steps of the fixpoint: the length of the longest shortest path, for the linear rules."""
        return self.trace["result"]["iterations"]

    def to_df(self):
        """A Spark DataFrame with columns x and y; nothing runs until Spark needs it. No shuffle.

        It, and what is derived from it, reads the runs whenever Spark comes to it: from here on they stay until `close`
        or the end of the program, even if this object is forgotten.
        """
        frame = self._frame()
        _pinned.add(self)
        return frame

    def _frame(self):
        from pyspark.sql import SparkSession

        session = SparkSession.builder.getOrCreate()
        reader = self._alive()
        kind, pieces = "string" if reader.names else "bigint", reader.source.pieces
        if self._jobs:
            return dataframe(self._jobs, reader.source.runs, reader.batches, f"x {kind}, y {kind}")
        return map_in_arrow(session.range(0, pieces, 1, pieces), reader, f"x {kind}, y {kind}")

    def to_arrow(self):
        """A pyarrow Table, collected to this process: 16 bytes a pair, more for strings. Threads of this process read the runs
        where they are on its host; from other hosts Spark brings them."""
        import pyarrow as pa

        reader = self._alive()
        if not self._sc.master.startswith("local["):
            return self._frame().toArrow()
        with ThreadPoolExecutor(cpus()) as threads:
            pieces = threads.map(lambda piece: list(reader.batches(piece)), range(reader.source.pieces))
            return pa.Table.from_batches(chain.from_iterable(pieces), reader.schema())

    def explain(self) -> str:
        """The plan of the evaluation, why it was chosen, and what it made."""
        made = f"{self._size:,} pairs in {self.iterations:,} iterations, {self.trace['seconds']:.3f} s"
        return f"plan {self.plan}: {self.reason}\nmade: {made}\n"

    def plot(self, path=None):
        """The evaluation in one figure of matplotlib's; also saved to `path`, as what its ending says."""
        from semi_naive.plots.figures import overview
        from semi_naive.plots.style import save

        figure = overview(self.trace)
        if path is not None:
            save(figure, path)
        return figure

    def write(self, path) -> None:
        """Write the pairs, whole or not at all, replacing what is there: .parquet (a directory that Spark writes in
        parallel, at any URI it knows), .csv, .tsv, .facts, .txt, also .gz (one file)."""
        kind, zipped = output_format(path)
        if kind == ".parquet":
            return write_parquet(self._frame(), str(path))
        self._write_text(Path(path).absolute(), DELIMITERS[kind], zipped)

    def _write_text(self, path: Path, delimiter: str, zipped: bool) -> None:
        folder = _beside(path)
        folder.mkdir(parents=True)
        try:
            reader = self._alive()
            pieces = reader.source.pieces
            task = _WriteText(reader, str(folder), delimiter, zipped)
            self._sc.parallelize(range(pieces), pieces).mapPartitionsWithIndex(task).collect()
            with open(folder / "whole", "wb") as whole:
                for part in sorted(folder.glob("[0-9]*")):
                    with open(part, "rb") as file:
                        shutil.copyfileobj(file, whole, 1 << 22)
                    part.unlink()
            os.replace(folder / "whole", path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _alive(self) -> Reader:
        if not self._finalizer.alive:
            raise ValueError("this closure has been closed")
        return self._reader

    def close(self) -> None:
        """Remove the runs from every host's disk."""
        _pinned.discard(self)
        self._finalizer()

    def __repr__(self) -> str:
        seconds = self.trace["seconds"]
        return f"<Closure: {self._size:,} pairs, {self.plan} plan, {self.iterations} iterations, {seconds:.2f} s>"


def _beside(path: Path) -> Path:
    """A name for something unfinished, in the directory where it will end up, so that renaming is enough."""
    return path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.partial"


def write_parquet(frame, path: str) -> None:
    """A Spark DataFrame as a directory of parquet files, which replaces what is there once it is whole."""
    if "://" in path:
        return frame.write.mode("overwrite").parquet(path)
    target = Path(path).absolute()
    partial = _beside(target)
    try:
        frame.write.parquet(partial.as_uri())
        with contextlib.suppress(FileNotFoundError):
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink()
        os.replace(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
