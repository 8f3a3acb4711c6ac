"""Facts on their way into a run: into the driver's memory while they are few, otherwise to the partitions by Spark's tasks."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from semi_naive.config import Config
from semi_naive.host.threads import in_threads
from semi_naive.io.errors import BadInput
from semi_naive.io.parallel import ReadSpan, check_reports, frame_parts
from semi_naive.io.sources import File, Source, SparkFrame
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Kind, Program
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.spark.reports import Report
from semi_naive.ra.values.values import Values
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.database import Database
from semi_naive.running.relations.dealing import bring_home, deal_tuples


@dataclass
class FactLoader:
    """The facts of one run."""

    program: Program
    database: Database
    cluster: Cluster
    values: Values
    config: Config

    def add_all(self, sources: Iterable[tuple[str, Source]]) -> None:
        """Add the facts of sources to their relations, in this order; files are read on all cores meanwhile."""
        for name, source, columns in in_threads(self._begun, self._each(sources)):
            self._add(name, source, columns)

    def _each(self, sources: Iterable[tuple[str, Source]]) -> Iterator[tuple[str, Source, bool]]:
        """Each with whether tasks are to read it. Of several files each by itself, if they do not read all of them."""
        for name, source in sources:
            spread = self._may_spread(name, source)
            parts = (source,) if spread else source.each()
            yield from ((name, one, spread or self._may_spread(name, one)) for one in parts)

    @staticmethod
    def _begun(given: tuple[str, Source, bool]) -> tuple:
        """A relation's name, its source, and, if the driver is to read it, what gives the columns."""
        name, source, spread = given
        return name, source, None if spread else source.prepared()

    def _add(self, name: str, source: Source, columns) -> None:
        """The facts of a source join whatever the relation has. `columns`: what gives them, if the driver is to read it.

        Spark's tasks read, type and deal them where `Config.local_tuples` is less than they are: of a DataFrame always, of a
        file from 64 MB. Then no row passes through the driver; distinct symbols do, as Arrow, to be numbered.
        """
        if columns is not None:
            self.add_columns(name, columns(self.values))
        elif isinstance(source, SparkFrame):
            self._add_frame(name, source)
        elif isinstance(source, File):
            self._add_file(name, source)

    def add_columns(self, name: str, columns: np.ndarray) -> None:
        """The same for columns (arity, n) that this process has."""
        relation = self.database.partitioned(name)
        if relation is None:
            self.database.load(name, columns)
            return
        block = Block.of(list(columns), columns.shape[1])
        deal_tuples(self.cluster, {name: relation}, {name: (self.cluster.share(name, block), tuple(range(len(columns))))})
        relation.settle()

    def _may_spread(self, name: str, source: Source) -> bool:
        relation = self.program.relations[name]
        here = not relation.plain or f"{name}@known" in self.program.relations
        try:
            if here or not (source.can_spread and source.large):
                return False
            return name in self.database.on_partitions or (source.rows() or np.inf) > (self.config.local_tuples or 0)
        except BadInput:  # which reading it says, when it is its turn
            return False

    def _add_file(self, name: str, source: File) -> None:
        spans = source.spans()
        records = self.cluster.sc.parallelize(spans, max(1, len(spans)))
        try:
            self._deal(name, source, records, ReadSpan(source))
        except BadInput as fault:
            if self.cluster.local or fault.message != "no such file" or not os.path.exists(fault.file):
                raise
            self.add_columns(name, source.columns(self.values))  # it is on this host only

    def _add_frame(self, name: str, source: SparkFrame) -> None:
        """A DataFrame is evaluated once, unless its rows are dealt as they come, because they are all numbers."""
        records = frame_parts(source)
        if not self.config.local_tuples and not self._symbols(name):
            return self._deal(name, source, records, None)
        from pyspark import StorageLevel

        records = records.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            rows = check_reports(source, records.map(lambda part: (part.rows, part.fault)).collect())
            if rows > (self.config.local_tuples or 0) or name in self.database.on_partitions:
                return self._deal(name, source, records, None)
            for part in records.collect():
                self.add_columns(name, part.numbered(self._symbols(name), self.values))
        finally:
            records.unpersist()

    def _symbols(self, name: str) -> list[int]:
        return [at for at, kind in enumerate(self.program.relations[name].kinds) if kind == Kind.SYMBOL]

    def _deal(self, name: str, source: Source, records, read) -> None:
        """Have the tasks read `records`, an RDD, and deal the tuples to the relation's buckets: one job, two with symbols."""
        from semi_naive.io.sending import SendParts

        symbols, values = self._symbols(name), None
        if symbols:
            self._survey(source, records, read)
            values = self.cluster.share_values(self.values, more=True)
        relation = self._placed(name)
        results = bring_home(self.cluster, {name: relation}, SendParts(relation, read, symbols, values), records)
        relation.settle()
        self._check(source, results)
        for report in (r for r in results if isinstance(r, Report) and r.phase == "values"):
            self.values.learn(report.facts["made"])
        self.database.place(name, relation, self.cluster)

    def _survey(self, source: Source, records, read) -> None:
        """Number the strings of a source. Each of them passes through the driver once, as Arrow."""
        from semi_naive.io.sending import SendSymbols, UniteSymbols

        found = self.cluster.jobs.job(SendSymbols(read, self.cluster.jobs.partitions), UniteSymbols(), source=records)
        self._check(source, found)
        for strings in (each for each in found if not isinstance(each, Report)):
            self.values.intern(strings)

    @staticmethod
    def _check(source: Source, results) -> None:
        read = [r for r in results if isinstance(r, Report) and r.phase == "read"]
        check_reports(source, [(report.received, report.facts["fault"]) for report in read])

    def _placed(self, name: str) -> PartitionedRelation:
        """The relation on the partitions, in buckets of its first column."""
        if known := self.database.partitioned(name):
            return known
        arity = self.program.relations[name].arity
        relation = PartitionedRelation(name, arity, [PartitionedIndex(tuple(range(arity)), 1, self.cluster.bucket_map())])
        table = self.database.tables[name]
        if isinstance(table, Table) and (table.count or table.new):
            self.database.place(name, relation, self.cluster)
            self.add_columns(name, np.array(table.columns(), np.int64))
        return relation
