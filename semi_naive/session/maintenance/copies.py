"""Copies in this process of relations on the partitions, by which small changes are maintained without a job for each step.

A job of Spark takes 0.1 s whatever it does, and maintenance takes one for each iteration. So if few tuples have changed of a
stratum of moderate size, its relations and those that it reads are copied to this process, when that first happens. The rules
of `delete_rederive` maintain the copies. At the end one job applies the changes of all strata to the runs.

A copy belongs to one state of a relation, and follows its changes. It takes 8 bytes or so a tuple and column order.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from semi_naive.planning.spoken import spoken_name
from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.changes import Change, difference, grown, table_without
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.partitions.partitioned import PartitionedRelation
from semi_naive.running.choose_plan import why_in_one_place
from semi_naive.running.relations.on_partitions import OnPartitions
from semi_naive.session.maintenance.materialized import MaterializedRelations
from semi_naive.session.maintenance.spread import AllChanges, ChangedRuns, FactChanges, change_runs, index_of

MAX_CHANGED_TUPLES = 10_000  # changed tuples up to which copies are maintained
MAX_COPIED_TUPLES = 1 << 24  # tuples on the partitions, of a stratum and its inputs, up to which they are copied: 130 MB


class Copies:
    """The copies of a session."""

    def __init__(self, relations: MaterializedRelations):
        self.relations, self.run = relations, relations.run
        # For each copied relation the runs that were copied, and the table of their tuples.
        self.known: dict[str, tuple[OnPartitions, Table]] = {}
        self.pending: dict[str, ChangedRuns] = {}  # changes of this transaction that are not yet applied to runs

    def suit(self, stratum: Stratum, fact_changes: FactChanges, changes: AllChanges) -> bool:
        """True if copies maintain a stratum. fact_changes: changes of its explicit facts; changes: those of relations."""
        names = stratum.reads | set(stratum.relations)
        changed = [change for name, change in (*fact_changes.items(), *changes.items()) if name in names]
        is_small = all(isinstance(change, Change) for change in changed)
        return (
            is_small
            and sum(change.size for change in changed) <= MAX_CHANGED_TUPLES
            and sum(map(self.run.database.count, names & self.relations.spread.keys())) <= MAX_COPIED_TUPLES
        )

    def described(self, stratum: Stratum) -> list[str]:
        """Return lines for `explain` about the relations of a stratum, or that it reads, on the partitions; [] if there are
        none."""
        spread = self.relations.spread
        counts = {name: spread[name].count for name in (*stratum.relations, *sorted(stratum.reads)) if name in spread}
        if not counts:
            return []
        how = f"up to {MAX_CHANGED_TUPLES:,} changed tuples by copies in this process, more by jobs"
        return [
            "  on the partitions: " + ", ".join(f"{spoken_name(name)}, {count:,} tuples" for name, count in counts.items()),
            "  maintained " + (how if sum(counts.values()) <= MAX_COPIED_TUPLES else "by jobs"),
        ]

    @contextmanager
    def in_place(self, number: int, stratum: Stratum, changes: Mapping[str, Change]) -> Iterator[dict[str, Change]]:
        """Replace the relations that a stratum has and reads by copies while the block runs. The block stores the changes of
        the stratum's relations in the yielded dictionary, if it has maintained the copies; they are then applied to the runs.
        changes: those of relations below."""
        relations, made = self.relations, dict[str, Change]()
        tables, spread = relations.tables, relations.spread
        names = (stratum.reads | set(stratum.relations)) & spread.keys()
        copied = {name: self._copy(name, changes.get(name)) for name in names}
        relations.use(tables | copied, {name: contents for name, contents in spread.items() if name not in copied})
        yield made
        results = relations.tables
        relations.use(results | {name: tables[name] for name in copied}, spread)
        for name in copied:
            self.known[name] = spread[name], results[name]
        self._apply(number, stratum, made, results)
        for name in copied:
            relations.merged.pop(name, None)  # of a recomputation: these are tables of this process

    def change_runs(self, name: str, old: PartitionedRelation, change: Change) -> None:
        """Replace the runs of a relation on the partitions by changed ones, which exist after the next `flush`."""
        self.pending[name] = changed = ChangedRuns.of(old, change)
        contents = OnPartitions(changed.new, self.run.cluster)
        self.relations.set_contents(name, contents)
        self.relations.readers.add(contents)

    def flush(self) -> None:
        """Change the runs of all relations that have changed since the last time: by one job."""
        if self.pending:
            change_runs(self.run.cluster, self.pending)
            self.pending = {}

    def settle(self) -> None:
        """End a transaction: forget the copies of relations that have changed otherwise."""
        self.known = {name: copy for name, copy in self.known.items() if self.relations.spread.get(name) is copy[0]}
        for _, table in self.known.values():
            table.settle()

    def _copy(self, name: str, change: Change | None) -> Table:
        """Return the copy of a relation, with the new tuples of its change in this transaction, if any, as its delta."""
        contents = self.relations.spread[name]
        copied, table = self.known.get(name, (None, None))
        if table is None or copied is not contents:
            # The copy is that of the state before this transaction, so the change makes it the current one.
            if change and table is not None and copied is self.relations.before_transaction.spread.get(name):
                table = grown(table_without(table, change.lost), change.born)
            else:
                table = _with_delta(self.relations.table(name), change)
            self.known[name] = contents, table
        return table

    def _apply(self, number: int, stratum: Stratum, changes: dict[str, Change], results: dict[str, Table]) -> None:
        """Apply the changes of a stratum's relations to their runs. results: the tables of this process after the changes, of
        which those with few tuples stay here."""
        relations, cluster = self.relations, self.run.cluster
        stays = why_in_one_place(stratum, self.run.program.relations)
        for name, change in changes.items():
            if not change.size:
                continue
            table = results[name]
            if name in relations.merged:
                table = _with_delta(relations.merged.pop(name), change)
            old = relations.spread.get(name)
            if stays or not relations.is_large(number, table.arity, table.count):
                relations.set_contents(name, table)
                continue
            if old:
                self.change_runs(name, old.relation, change)
            else:
                keys = table.arity - 1 if self.run.program.relations[name].lattice else 1  # see `AcrossPartitions._partitioned`
                empty = PartitionedRelation(name, table.arity, [index_of(cluster, table.arity, keys)])
                self.change_runs(name, empty, difference(Table(table.arity), table))
            self.known[name] = relations.spread[name], table


def _with_delta(table: Table, change: Change | None) -> Table:
    """Return a settled table with the new tuples of a change as its delta."""
    return grown(table_without(table, change.born), change.born) if change and change.born.size else table
