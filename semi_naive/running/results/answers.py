"""The results of a run: its relations, in this process or on the partitions, and the record of the run."""

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from semi_naive.host.numbers import quantity
from semi_naive.host.similar import UnknownName, unknown
from semi_naive.host.threads import in_threads
from semi_naive.io.directives import EXTENSIONS, STDOUT, Options, format_of, path_of
from semi_naive.io.results.sorted_rows import Blocks, RelationRows
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.planning.strata import is_fact
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.blocks.unpacking import columns_of_parts, neighbouring_parts
from semi_naive.ra.ir import Kind, Type
from semi_naive.ra.spark.spark_context import active_connect_session
from semi_naive.ra.text.symbols import keep
from semi_naive.ra.values.kinds import DTYPES
from semi_naive.running.results import lent
from semi_naive.tuples import CLOSED, Evaluated, Relations, Tuples

if TYPE_CHECKING:
    from semi_naive.provenance.proofs import Proof, WhyNot
    from semi_naive.provenance.why import Why
    from semi_naive.ra.values.values import Values
    from semi_naive.running.relations.cluster import Cluster
    from semi_naive.running.relations.on_partitions import ReadableRelation
    from semi_naive.running.results.frames import ToArrow

_pinned: set["Result"] = set()  # results that a DataFrame may still read


class Answer(Tuples):
    """One relation of a result. Conversions are computed on demand."""

    def __init__(self, result: "Result", name: str):
        self._result, self.name = result, name
        self.relation = result.relations[name]

    def renamed(self, columns) -> "Answer":
        """Return the relation with other names for its columns."""
        answer = Answer(self._result, self.name)
        types = (type_ for _, type_ in self.relation.attributes)
        answer.relation = replace(self.relation, attributes=tuple(zip(columns, types, strict=True)))
        return answer

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(attribute for attribute, _ in self.relation.attributes)

    @property
    def trace(self) -> dict:
        return self._result.trace

    @property
    def types(self) -> dict[str, Type]:
        """The types that the program declares, by name."""
        return self._result.types

    @property
    def values(self) -> "Values":
        """The dictionaries of symbols and records."""
        return self._result.values

    @property
    def on_partitions(self) -> bool:
        """True if the tuples are on Spark's partitions, and not in this process."""
        return self.stored is not None

    @property
    def cluster(self) -> "Cluster":
        """The partitions of the run."""
        return self._result.cluster

    @property
    def stored(self) -> "ReadableRelation | None":
        """The `ReadableRelation` of tuples on the partitions; None if they are in this process."""
        return self._result.database.on_partitions.get(self.name)

    def count(self) -> int:
        return self._result.database.count(self.name)

    def encoded(self) -> np.ndarray:
        """Return the tuples as int64 columns (arity, n), collected here: numbers as they are, other kinds as 64 bits or ids."""
        self._result.check_open()
        return self._result.database.columns(self.name)

    def rows(self) -> Blocks:
        """Return the tuples as a source of rows in order; tuples in this process are not copied."""
        self._result.check_open()
        return self._result.database.source(self.name)

    def arrow_schema(self):
        """The declared names and types, as pyarrow has them."""
        return self._converter().schema()

    def to_arrow(self, dictionaries: bool = False):
        """Return a pyarrow Table with the declared names and types, collected to this process. dictionaries: columns of strings
        are dictionary-encoded."""
        if self.relation.arity and (self.on_partitions or {Kind.SYMBOL, Kind.RECORD} & set(self.relation.kinds)):
            return super().to_arrow(dictionaries)
        from semi_naive.io.formats.arrow import arrow_table

        return arrow_table(self.relation, self.types, self.encoded(), self.values)

    def to_batches(self, dictionaries: bool = False):
        """Return an iterator of pyarrow RecordBatches of about a million tuples, in no order. Threads prepare some batches in
        advance; for a relation on the partitions of a cluster, some partitions are collected at a time. The relation must
        have attributes. dictionaries: columns of strings are dictionary-encoded."""
        if not self.relation.arity:
            raise ValueError(f"{self.name} has no attributes, so it has no batches: see count()")
        self._result.check_open()
        stored = self.stored
        make = replace(self._converter(for_tasks=stored is not None and not self.cluster.local), dictionaries=dictionaries)
        if stored is not None:
            return stored.map_columns(make, streaming=True)
        return in_threads(
            lambda parts: make(columns_of_parts(parts)), neighbouring_parts(self._result.database.parts(self.name))
        )

    def to_numpy(self) -> np.ndarray:
        """Return an array (n, arity) collected to this process: int64, uint64 or float64 if all columns are, else objects."""
        kinds = {type_.kind for _, type_ in self.relation.attributes}
        if len(kinds) != 1 or not kinds <= DTYPES.keys():
            return super().to_numpy()
        (kind,) = kinds
        self._result.check_open()
        plain, stored = self._converter().plain, self.stored
        rows = plain(self._result.database.rows(self.name)) if stored is None else stored.rows(plain)
        return rows.view(DTYPES[kind])

    def first(self, count: int) -> list[tuple]:
        """Return up to `count` tuples in the form of `to_list`, if this process reads them without a job; otherwise none. About
        a million are read."""
        if not self.relation.arity:
            return super().first(count)
        self._result.check_open()
        tables = self._result.database
        parts = self.stored.local_columns() if self.stored else (part.columns() for part in tables.parts(self.name))
        tuples: list[tuple] = []
        for columns in parts:
            tuples += self._tuples(self._converter().plain(columns[:, : count - len(tuples)]))
            if len(tuples) == count:
                break
        return tuples

    def to_list(self) -> list[tuple]:
        """Collect the tuples to this process, with Python values: records are tuples too, branches are `Branch`."""
        return self._tuples(self.encoded()) if self.relation.arity else super().to_list()

    def _tuples(self, columns: np.ndarray) -> list[tuple]:
        """Return columns (arity, n) of 64-bit values as tuples of Python values."""
        from semi_naive.running.results.python_values import nested_values

        values, types = self._converter().values, BUILT_IN | self.types
        attributes = zip(columns, self.relation.attributes, strict=True)
        return list(zip(*(nested_values(column, type_, types, values) for column, (_, type_) in attributes), strict=True))

    def _converter(self, for_spark: bool = False, for_tasks: bool = False) -> "ToArrow":
        """Return the function that turns columns (arity, n) into record batches. for_spark: with types that Spark has;
        for_tasks: it can be sent to tasks."""
        from semi_naive.running.results.frames import ToArrow

        values = self.cluster.share_values(self.values) if for_tasks else self.values
        return ToArrow(self.relation, self.types, values, for_spark=for_spark)

    def to_df(self):
        """Return a Spark DataFrame with the declared names.

        Spark reads a relation on the partitions from its runs, and nothing is collected; the runs are kept until the result is
        closed, even if it is unreferenced. With an active session of Spark Connect, the tuples are collected into a DataFrame
        of that session. If this process has many tuples and Spark is on this host, Spark reads them from a file, which is kept
        until the result is closed.
        """
        if self.on_partitions:
            self._result.pin()
        return self.frame()

    def frame(self):
        """Return the DataFrame of `to_df`; it is valid only as long as the result is referenced."""
        from semi_naive.running.results.frames import with_spark_types

        self._result.check_open()
        if (connect := active_connect_session()) is not None:
            return connect.createDataFrame(with_spark_types(self.to_arrow()))
        self.cluster.start()
        from pyspark.sql import SparkSession
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = self._converter(for_spark=True).schema()
        if self.stored is not None:
            return self.stored.frame(self._converter(for_spark=True, for_tasks=True), from_arrow_schema(schema))
        if self.cluster.local and self.relation.arity and self.count() > lent.MIN_LENT_TUPLES:
            return self._result.lent.frame(schema, map(with_spark_types, self.to_batches()))
        return SparkSession.builder.getOrCreate().createDataFrame(with_spark_types(self.to_arrow()))

    def write(self, path) -> None:
        """Write to a file, by its name: .parquet, or rows of text: .csv with commas, .tsv .facts .txt with tabs; also .gz."""
        from semi_naive.running.results.files import write_answer

        with self._result._charged_to("write"):
            write_answer(self, path)

    def facts(self):
        """Return the tuples as facts for other runs: a table of this process, or a DataFrame if they are on other hosts."""
        from semi_naive.io.relations import columns_table, fact_table

        if self.on_partitions and not self.cluster.local:
            return self.frame()
        symbols = Kind.SYMBOL in self.relation.kinds
        if symbols and not self.values.common:  # ids of symbols have no meaning in another run
            return fact_table(self.relation, self.to_arrow())
        table = columns_table(self.encoded()) if self.on_partitions else self._result.database.tables[self.name]
        if symbols and self.values.common:
            keep(self.values.common, table)
        return table

    def explain(self) -> str:
        """Describe the run that made the relation: see `Result.explain`."""
        return self._result.explain()

    def close(self) -> None:
        """Close the result that contains the relation."""
        self._result.close()

    def __repr__(self) -> str:
        attributes = ", ".join(f"{name}: {type_.name}" for name, type_ in self.relation.attributes)
        return f"<{self.name}({attributes}): {quantity(self.count(), 'tuple')}>"


class Result(Evaluated, Relations):
    """The relations of a run, by name. trace: the record of the run; its `profile` has the cost of each rule."""

    trace: dict = {}

    def __init__(self, run):
        """Take over the relations of a `ProgramRun` that has ended: those of the user's program that planning has kept, unless
        only a part of their facts was read. Names with @ are of relations that planning has added. Runs on the partitions are
        removed when the result is not referenced any more."""
        self._run, self.database, self.values, self.cluster = run, run.database, run.values, run.cluster
        self.types, self.directives = run.program.types, run.program.directives
        written, planned = run.asked.relations, run.program.relations
        sizes = {name: self.database.count(name) for name in written if name in planned and "@" not in name}
        self.relations = {name: written[name] for name in sizes if name not in run.compiled.pushdown}
        self.name, self.closed = run.asked.name, False
        self.sandbox = run.asked.sandbox  # the folders to which `write` may write
        self.lent = lent.Lent(self.cluster.config.local_dir)  # files that DataFrames made of the result still read
        counts = {name: sizes[name] for name in self.relations}
        self.trace = run.record(sizes) | {"result": {"relations": counts, "tuples": sum(counts.values())}}
        self._finalizer = weakref.finalize(self, _release, self.cluster, list(self.database.on_partitions.values()))

    def __getitem__(self, name: str) -> Answer:
        """Return a relation. Raises KeyError for an unknown name."""
        if name not in self.relations:
            raise UnknownName(unknown("relation", name, self.relations))
        return Answer(self, name)

    def write(self, folder, format: str = "souffle") -> list[str]:
        """Write every .output into a folder, or to standard output if it is "-", and print every .printsize. Return the files.

        The files appear together at the end, each whole; if one cannot be written, none is replaced. format: the format of
        standard output: "souffle", "table", "tsv", "csv", "json" or "markdown". With any but "souffle", sizes are printed to
        standard error, and a folder is a ValueError.
        """
        from semi_naive.io.files import atomic_files

        self.check_open()
        directives = [out for out in self.directives if out.kind in ("output", "printsize") and out.relation in self.relations]
        if format != "souffle":
            with self._charged_to("write"):
                return self._print(folder, directives, format)
        with self._charged_to("write"), atomic_files():
            written = [self._write(directive, str(folder)) for directive in directives]
        return [path for path in written if path]

    def _print(self, folder, directives: list, format: str) -> list[str]:
        """Print the .output relations in a format, and the .printsize counts to standard error. directives: the directives."""
        from semi_naive.io.results.printing import FORMATS, print_relations

        if format not in FORMATS or str(folder) != STDOUT:
            expected = f"expected one of {', '.join(FORMATS)}, and all but the first for standard output, '-'"
            raise ValueError(f"format {format!r} for {str(folder)!r}: {expected}")
        names = list(dict.fromkeys(out.relation for out in directives if out.kind == "output"))
        relations = [RelationRows(self.relations[name], self.types, self.database.source(name), self.values) for name in names]
        print_relations(relations, format, SimpleNamespace(write=Options().print_bytes))
        for name in dict.fromkeys(out.relation for out in directives if out.kind == "printsize"):
            print(f"{name}\t{self.database.count(name)}", file=sys.stderr)
        return []

    def _write(self, directive, folder: str) -> str | None:
        """Write one .output or .printsize. Return the path of the file; None for standard output."""
        from semi_naive.io.results.writing import print_size, write
        from semi_naive.running.results.files import write_relation

        relation = self.relations[directive.relation]
        form = format_of(directive, relation, to_stdout=folder == STDOUT)
        if form.io in EXTENSIONS:
            path = path_of(directive, form, folder, self.sandbox)
            write_relation(self[relation.name], path, form)
            return path
        options = Options(sandbox=self.sandbox)
        if directive.kind == "printsize":
            print_size(form, self.database.count(relation.name), options)
            return None
        return write(directive, relation, self.types, self.database.source(relation.name), folder, self.values, options)

    @contextmanager
    def _charged_to(self, part: str) -> Iterator[None]:
        """Charge the time of the block to a part of the run's account, and update the trace."""
        try:
            with self._run.account.open(part):
                yield
        finally:
            paid = self._run.account.paid()
            self.trace |= paid
            self.trace["profile"] |= paid

    def explain(self) -> str:
        """Describe the run in the form of `Program.explain`: plans, join orders, indexes, time and tuples of each rule."""
        from semi_naive.planning.explain.done import explain_run

        return explain_run(self._run, self.trace)

    def why(self, relation: str, row) -> "Proof":
        """Return a proof of least height for a tuple, found backwards from the relations of the run. Raises ValueError if the
        tuple does not exist. Relations on the partitions are read from their runs, or collected once if they are on other
        hosts. See `semi_naive.provenance`."""
        return self.proofs.why(relation, row)

    def why_not(self, relation: str, row) -> "WhyNot":
        """Return, for each rule of a relation, the first part that no tuple matches. Raises ValueError if the row exists."""
        return self.proofs.why_not(relation, row)

    @cached_property
    def proofs(self) -> "Why":
        """The `Why` object that `why` and `why_not` use."""
        from semi_naive.provenance.why import Why

        self.check_open()
        if pushed := self._run.compiled.pushdown:
            read = "; ".join(f"{name}: {pushdown.text()}" for name, pushdown in pushed.items())
            raise ValueError(f"no proofs: only what the outputs need of the facts was read ({read}); run without only_outputs")
        spread = self.database.on_partitions
        tables = {name: table for name, table in self.database.tables.items() if name not in spread}
        derived = {rule.head.relation for rule in self._run.program.rules if not is_fact(rule)}
        with_facts = self._run.given_from_outside & self.relations.keys()
        # The facts of a relation with rules are known only if they are remembered; else none of its tuples counts as a fact.
        facts = {name: Table(self.relations[name].arity) for name in with_facts & derived}
        facts |= {name: tables[name] for name in with_facts - derived if name in tables}
        return Why(self._run.asked.checked, tables, self.values, facts | self._run.remembered_facts, dict(spread))

    def check_open(self) -> None:
        if self.closed:
            raise ValueError(CLOSED)

    def pin(self) -> None:
        """Keep the result alive until `close`, even when it is unreferenced."""
        _pinned.add(self)

    def close(self) -> None:
        """Close the result: remove its runs and files from the disks of all hosts."""
        self.closed = True
        self.lent.close()
        _pinned.discard(self)
        self._finalizer()

    def __repr__(self) -> str:
        lines = [f"<Result of {self.name}: {quantity(len(self), 'relation')}, {self.trace['seconds']:.2f} s>"]
        return "\n".join(lines + [f"  {self[name]!r}" for name in self.relations])


def _release(cluster, spread) -> None:
    """Release a result's relations on the partitions, and its cluster."""
    for relation in spread:
        relation.close()
    cluster.release()
