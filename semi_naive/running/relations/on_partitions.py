"""A relation of a run on the partitions: its runs, or the groups from which its tuples are computed again."""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from semi_naive.host.threads import in_threads
from semi_naive.io.results.sorted_rows import Blocks
from semi_naive.ra.partitions.partitioned import PartitionedRelation, Parts
from semi_naive.ra.partitions.reaching import YIELDED_TUPLES, Reachability
from semi_naive.ra.partitions.reading import ReadPieces, chunks_of, read_columns
from semi_naive.ra.partitions.subtracting import Signed
from semi_naive.ra.spark.frames import dataframe, dataframe_of_pieces, streamed
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.ra.spark.replica import Replica
from semi_naive.ra.storage.missing import RunMissing
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.spread import Spread


def unless_lost(records: Iterator) -> Iterator:
    """Yield records that this process reads from runs. Raises RunsLost in place of RunMissing, as tasks do."""
    try:
        yield from records
    except RunMissing as missing:
        raise RunsLost(str(missing)) from None


class ReadableRelation(Spread):
    """A relation that is read by Spark's tasks in `pieces`, or in chunks by threads if all tasks run on this host."""

    relation: Any
    cluster: Cluster

    @property
    def count(self) -> int:
        raise NotImplementedError

    @property
    def pieces(self) -> int:
        raise NotImplementedError

    @property
    def _thread_pieces(self) -> tuple[Any, int]:
        """(relation, number of pieces): the relation in pieces that are small enough for the threads of this process."""
        return self.relation, self.pieces

    def map_columns(self, make: Callable, streaming: bool = False) -> Iterator:
        """Yield the results of `make` for columns (arity, n) of about a million tuples at a time, in no order.

        On a cluster `make` is pickled, and its results are collected from all hosts at once; if `streaming`, from some
        partitions at a time, so that this process never holds many.
        """
        if self.cluster.local:
            relation, pieces = self._thread_pieces
            chunks = (chunk for piece in range(pieces) for chunk in chunks_of(relation, piece))
            results = in_threads(lambda chunk: [make(columns) for columns in read_columns(relation, chunk)], chunks)
            return unless_lost(chain.from_iterable(results))
        return iter(self._of_tasks(ReadPieces(self.relation, make), streaming))

    def _of_tasks(self, task: ReadPieces, streaming: bool) -> Iterable:
        """Return the results of a task on all pieces; if `streaming`, an iterator that collects some pieces at a time."""
        raise NotImplementedError

    def frame(self, make: Callable, schema):
        """Return a Spark DataFrame of the Arrow record batches that `make` returns; Spark reads them when needed."""
        raise NotImplementedError

    def distinct(self, column: int) -> float:
        """Estimate the distinct values of a column as count ** (1 / arity). The tuples are not sampled."""
        return max(1.0, float(self.count) ** (1 / max(1, self.relation.arity)))

    def columns(self) -> np.ndarray:
        """Collect the tuples as columns (arity, n), 8 bytes a value."""
        columns = np.empty((self.relation.arity, self.count), np.int64)

        def put(columns_read: np.ndarray, begin: int) -> None:
            columns[:, begin : begin + columns_read.shape[1]] = columns_read

        self._collect_into(put)
        return columns

    def source(self) -> Blocks:
        """Return all tuples, to be read in order: the runs if this process can read them, else columns collected to it."""
        return Blocks.of(self.columns())

    def local_columns(self) -> Iterator[np.ndarray]:
        """Yield columns (arity, n) of some tuples at a time, read as they are needed; nothing if tasks run on other hosts."""
        relation, pieces = self._thread_pieces
        pieces = pieces if self.cluster.local else 0
        chunks = (chunk for piece in range(pieces) for chunk in chunks_of(relation, piece))
        return unless_lost(columns for chunk in chunks for columns in read_columns(relation, chunk))

    def rows(self, convert: Callable[[np.ndarray], np.ndarray] = np.asarray) -> np.ndarray:
        """Collect the tuples as rows (n, arity). convert: applied to columns (arity, n) first."""
        rows = np.empty((self.count, self.relation.arity), np.int64)

        def put(columns_read: np.ndarray, begin: int) -> None:
            rows[begin : begin + columns_read.shape[1]] = convert(columns_read).T

        self._collect_into(put)
        return rows

    def _collect_into(self, put: Callable[[np.ndarray, int], None]) -> None:
        """Call `put(columns, begin)` for parts of all tuples, where `begin` is the number of tuples in earlier parts. If all
        tasks run on this host, it is called by the threads that read the tuples."""
        end, lock = 0, threading.Lock()

        def place(columns: np.ndarray) -> None:
            nonlocal end
            with lock:
                begin, end = end, end + columns.shape[1]
            put(columns, begin)

        for columns in self.map_columns(place if self.cluster.local else np.asarray):
            if columns is not None:
                place(columns)


class InRuns(ReadableRelation):
    """A relation whose tuples are in runs. blocks: the stored blocks of each partition."""

    @property
    def blocks(self) -> Parts:
        raise NotImplementedError

    @property
    def pieces(self) -> int:
        """The number of pieces to read, one for each partition."""
        return len(self.blocks)

    @property
    def paths(self) -> set[str]:
        """The paths of the runs of all indexes."""
        return {stored.run.path for blocks in self.blocks_of_all_indexes for stored in blocks}

    @property
    def blocks_of_all_indexes(self) -> Parts:
        """The blocks of all indexes, by partition."""
        return self.blocks

    @property
    def _runs(self) -> list:
        return [[stored.run for stored in blocks] for blocks in self.blocks]

    def _of_tasks(self, task, streaming):
        return streamed(self.cluster.jobs, self._runs, task) if streaming else self.cluster.jobs.job(task)

    def frame(self, make, schema):
        return dataframe(self.cluster.jobs, self._runs, ReadPieces(self.relation, make), schema)


class OnPartitions(InRuns):
    """A relation on the partitions between the evaluations of strata."""

    def __init__(self, relation: PartitionedRelation, cluster: Cluster):
        self.relation = self.partitioned = relation
        self.cluster = cluster

    @property
    def blocks(self) -> Parts:
        return self.relation.home.full

    @property
    def blocks_of_all_indexes(self) -> Parts:
        return [[stored for index in self.relation.indexes for stored in index.full[p]] for p in range(self.pieces)]

    @property
    def count(self) -> int:
        return self.relation.count

    def source(self) -> Blocks:
        if not self.cluster.local:
            return super().source()
        home = self.relation.home
        return Blocks(list(unless_lost(stored.open() for runs in home.full for stored in runs)), home.order)

    def in_row_order(self, kinds) -> bool:
        """True if the runs are on this host, and sorted in the order of the rows. kinds: of the columns."""
        return self.cluster.local and self.source().in_row_order(kinds)


class SignedInRuns(InRuns):
    """The changes of a relation: its tuples with one more column, 1 for new and -1 for lost ones."""

    def __init__(self, relation: Signed, cluster: Cluster):
        self.relation, self.cluster = relation, cluster

    @property
    def count(self) -> int:
        return self.relation.count("born") + self.relation.count("lost")

    @property
    def blocks(self) -> Parts:
        return [born + lost for born, lost in zip(self.relation.born, self.relation.lost, strict=True)]


@dataclass
class Remade(ReadableRelation):
    """A relation whose tuples are computed again whenever they are read. tuples: their number; shared: arrays on every host."""

    relation: Reachability
    cluster: Cluster
    tuples: int
    shared: list[Replica]

    @property
    def count(self) -> int:
        return self.tuples

    @property
    def pieces(self) -> int:
        return self.relation.pieces

    @property
    def _thread_pieces(self):
        pieces = max(self.pieces, self.count // YIELDED_TUPLES)  # a thread keeps the tuples of a piece until it is done
        return replace(self.relation, pieces=pieces), pieces

    def _of_tasks(self, task, streaming):
        """Return the results of a task, a function of (number of the piece, records), on all pieces in their order. streaming:
        fetch one piece at a time instead of all in one job."""
        numbers = self.cluster.sc.parallelize(range(self.pieces), self.pieces)  # piece n is partition n
        if streaming:
            return numbers.mapPartitionsWithIndex(task).toLocalIterator(prefetchPartitions=True)
        return self.cluster.jobs.job(task, source=numbers)

    def frame(self, make, schema):
        return dataframe_of_pieces(self.pieces, ReadPieces(self.relation, make), schema)

    def close(self) -> None:
        for replica in self.shared:
            replica.run.remove()
