"""Write a stream of Spark Structured Streaming to a session: `stream.writeStream.foreachBatch(session.sink("edge",
op="_change_type"))`.

Spark delivers a batch again if it does not know whether it was committed. A session stores the number of the last batch of each
stream; with a directory, the log record of the batch's transaction contains it. So each batch is committed exactly once.
"""

from collections.abc import Iterable
from typing import Any

from semi_naive.io.errors import BadInput
from semi_naive.io.formats.delimited import read_delimited
from semi_naive.io.formats.layouts import Format
from semi_naive.io.unread import Given

# The values by which change feeds mark inserted and deleted rows: Delta Lake, Flink, Debezium, `diff`.
INSERTS = {"insert", "update_postimage", "+I", "+U", "c", "r", "u", "1"}
DELETES = {"delete", "update_preimage", "-D", "-U", "d", "-1"}
QUERY = "sql.streaming.queryId"  # the local property of Spark that has the id of the query while a batch runs


class StreamSink:
    """A function for `foreachBatch` that commits each batch as a transaction on one relation. See `Session.sink`."""

    def __init__(self, session: Any, relation: str, op: str | None, key, query: str | None, lines: str | None):
        """op: the column that distinguishes inserts and deletes; key: the attributes by which rows replace others; query: the
        name of the stream, by default Spark's id; lines: the column whose values are lines of text, each a row."""
        session.changeable_facts(relation)
        if key is not None:
            session.key_places(relation, key)
        self.session, self.relation, self.op, self.key, self.query = session, relation, op, key, query
        self.lines = lines

    def __repr__(self) -> str:
        return f"<StreamSink of {self.relation}>"

    def __call__(self, frame, batch: int) -> None:
        """Commit a data frame of Spark, unless this batch or a later one has been committed. Deletes come before inserts."""
        query = self.query or frame.sparkSession.sparkContext.getLocalProperty(QUERY)
        if not query:
            raise ValueError("the query of this batch has no name that stays: session.sink(…, query=name)")
        with self.session.transaction() as transaction:
            if batch <= self.session.batches.get(query, -1):
                transaction.abort()
                return
            transaction.batch = query, batch
            deleted, inserted = self._split(frame.toArrow())
            if deleted is not None and deleted.num_rows:
                transaction.delete(self.relation, self._rows(deleted))
            if inserted.num_rows and self.key is not None:
                transaction.upsert(self.relation, self._rows(inserted), self.key)
            elif inserted.num_rows:
                transaction.insert(self.relation, self._rows(inserted))

    def _rows(self, table) -> Any:
        """Return the rows of a batch, an Arrow table: itself, or the lines of text in its only column."""
        if self.lines is None:
            return table
        import pyarrow as pa

        program = self.session.upkeep.program
        relation, form = program.relations[self.relation], Format("file", self.relation, "\t")
        text = b"".join(line + b"\n" for line in table.column(0).cast(pa.binary()).to_pylist())
        read = lambda values: read_delimited(text, form, relation, program.types, values, f"a batch for {self.relation}")  # noqa: E731
        return Given(relation, program.types, read)

    def _split(self, table) -> tuple:
        """Split a batch, an Arrow table, into tables of (deleted rows, inserted rows) with the relation's columns: by their
        names, or, if some names are missing, all columns except for `op`. Without `op`, the first table is None."""
        import pyarrow as pa
        import pyarrow.compute as pc

        attributes = [name for name, _ in self.session.relations[self.relation].attributes]
        if self.lines is not None:
            attributes = [self.lines]
            if self.lines not in table.column_names:
                hint = f"it has {', '.join(table.column_names)}"
                raise BadInput(f"a batch has no column {self.lines}", self.relation, hint=hint)
        has_names = set(attributes) <= set(table.column_names)
        if self.op is None:
            return None, table.select(attributes) if has_names else table
        if self.op not in table.column_names:
            raise BadInput(f"a batch has no column {self.op}", self.relation, hint=f"it has {', '.join(table.column_names)}")
        ops = table.column(self.op).cast(pa.string())
        rows = table.select(attributes) if has_names else table.drop_columns([self.op])
        check_operations(pc.unique(ops).to_pylist(), INSERTS | DELETES, self.op, self.relation)
        return tuple(rows.filter(pc.is_in(ops, pa.array(sorted(values)))) for values in (DELETES, INSERTS))


def check_operations(values_in_batch: Iterable[str], allowed: set[str], op: str, place: str) -> None:
    """Raise BadInput for an unknown value in the column of operations. op: its name; place: the relation or the source."""
    for value in values_in_batch:
        if value not in allowed:
            hint = f"expected one of {', '.join(sorted(allowed))}"
            raise BadInput(f"a row of a batch has {op} = {value!r}", place, hint=hint)
