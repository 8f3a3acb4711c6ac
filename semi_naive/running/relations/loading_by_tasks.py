"""Load facts by Spark's tasks: they read large files and DataFrames, convert values, and send each tuple to its partition."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.parallel import ReadSpan, check_reports, frame_parts
from semi_naive.io.sending import SendParts, SendSymbols, UniteSymbols
from semi_naive.io.unread import Source, SparkFrame
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Kind
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.spark.reports import Report
from semi_naive.running.relations.dealing import bring_home


@dataclass
class TaskLoader:
    """The part of a run's `FactLoader` that uses Spark's tasks. run: a `RunState`; add_columns: the loader's function for facts
    that this process has."""

    run: Any
    add_columns: Callable[[str, np.ndarray], None]

    def add_source(self, name: str, source: Source) -> None:
        """Add the facts of a source that tasks are to read."""
        if isinstance(source, SparkFrame):
            self._add_frame(name, source)
        else:
            self._add_file(name, source)

    def _add_file(self, name: str, source: Source) -> None:
        """Load files by tasks, each reading a span of it; a file that other hosts lack is read by the driver."""
        spans = source.spans()
        records = self.run.cluster.sc.parallelize(spans, max(1, len(spans)))
        try:
            self._deal(name, source, records, ReadSpan(source))
        except BadInput as fault:
            if self.run.cluster.local or fault.message != "no such file" or not os.path.exists(fault.file):
                raise
            self.add_columns(name, source.columns(self.run.values))

    def _add_frame(self, name: str, source: SparkFrame) -> None:
        """Load a DataFrame. It is evaluated once and cached, unless it has only numbers and can be sent immediately."""
        records = frame_parts(source)
        if not self.run.config.local_tuples and not self._symbol_columns(name):
            return self._deal(name, source, records, read=None)
        from pyspark import StorageLevel

        records = records.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            rows = check_reports(source, records.map(lambda part: (part.rows, part.fault)).collect())
            if rows > (self.run.config.local_tuples or 0) or name in self.run.database.on_partitions:
                return self._deal(name, source, records, read=None)
            for part in records.collect():
                self.add_columns(name, part.numbered(self._symbol_columns(name), self.run.values))
        finally:
            records.unpersist()

    def _symbol_columns(self, name: str) -> list[int]:
        """Return the columns of a relation that are symbols."""
        return [column for column, kind in enumerate(self.run.program.relations[name].kinds) if kind == Kind.SYMBOL]

    def _deal(self, name: str, source: Source, records, read) -> None:
        """Read a source by tasks, which send the tuples to the relation's buckets: one job, or two if it has symbols. records:
        an RDD of the parts of the source; read: a function that reads a part, or None if the records are tuples already."""
        symbols, values = self._symbol_columns(name), None
        if symbols:
            self._number_strings(source, records, read)
            values = self.run.cluster.share_values(self.run.values, more=True)
        relation = self._relation_on_partitions(name)
        results = bring_home(self.run.cluster, {name: relation}, SendParts(relation, read, symbols, values), records)
        relation.settle()
        self._check(source, results)
        for report in (result for result in results if isinstance(result, Report) and result.phase == "values"):
            self.run.values.learn(report.facts["added"])
        self.run.database.place(name, relation, self.run.cluster)

    def _number_strings(self, source: Source, records, read) -> None:
        """Number the strings of a source, which pass through the driver once, as Arrow. records, read: see `_deal`."""
        results = self.run.cluster.jobs.job(SendSymbols(read, self.run.cluster.jobs.partitions), UniteSymbols(), source=records)
        self._check(source, results)
        for strings in (result for result in results if not isinstance(result, Report)):
            self.run.values.intern(strings)

    @staticmethod
    def _check(source: Source, results) -> None:
        """Raise BadInput for the first fault that tasks have found in a source."""
        read = [result for result in results if isinstance(result, Report) and result.phase == "read"]
        check_reports(source, [(report.received, report.facts["fault"]) for report in read])

    def _relation_on_partitions(self, name: str) -> PartitionedRelation:
        """Return a relation on the partitions; one of the driver is moved there, into buckets of its first column."""
        if existing := self.run.database.partitioned(name):
            return existing
        arity = self.run.program.relations[name].arity
        relation = PartitionedRelation(name, arity, [PartitionedIndex(tuple(range(arity)), 1, self.run.cluster.bucket_map())])
        table = self.run.database.tables[name]
        if isinstance(table, Table) and (table.count or table.new):
            self.run.database.place(name, relation, self.run.cluster)
            self.add_columns(name, np.array(table.columns(), np.int64))
        return relation
