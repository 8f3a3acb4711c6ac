"""The relations of one run: in the driver's memory while they are small, otherwise on the partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semi_naive.host.threads import in_threads
from semi_naive.io.results.sorted_rows import Blocks, column_keys
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.io.values.record_text import TableStyle
from semi_naive.planning.joins.fanout import uniform_fanout
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.blocks.unpacking import Part, disjoint_blocks, parts_of
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Const, Order, Program
from semi_naive.ra.reduce.of_relation import reduction_of
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.steps import MAX_BATCH_BINDINGS
from semi_naive.ra.values.values import Values
from semi_naive.running.relations.sampling import (
    FANOUT_SAMPLE_TUPLES,
    average_partners,
    distinct_share,
    distinct_values,
    draw_columns,
    draw_tuples,
    estimate_matching,
    fewest_partners,
)

if TYPE_CHECKING:
    from semi_naive.ra.partitions.partitioned import PartitionedRelation
    from semi_naive.running.relations.on_partitions import OnPartitions, Remade

MIN_INDEXED_TUPLES = 1 << 12  # tuples of a relation from which an index is made that only one rule searches
MIN_REPAYING_BINDINGS = 2  # bindings saved for each tuple, at least: indexing a tuple takes 20 ns, a binding 10 ns
MAX_PROJECTED_SHARE = 0.5  # the fraction of tuples that are distinct in some columns up to which only these are indexed


class Database:
    """The tables of a run, by relation; also the `Sizes` for the planner, and the `Context` of rules in the driver."""

    def __init__(self, program: Program, values: Values, memory: int | None = None, local_dir: str | None = None):
        self.program, self.values = program, values
        self.memory, self.local_dir = memory, local_dir  # of Config: see `Context`
        self.tables = {name: self.empty_table(name) for name in program.relations}
        self.on_partitions: dict[str, OnPartitions | Remade] = {}  # relations on the partitions
        self._estimates: dict[str, dict[tuple, tuple[list[int], Any]]] = {}  # by relation, see `_estimated`
        self.cache: dict = {}  # a cache for tries and filters built by steps
        self.position = 0, 1  # this, batch_size, exact and unions: see `Context`
        self.streams: dict[str, Derivation] = {}  # of relations whose only reader folds their tuples as they are made
        self.cores = 1  # of this host, that a step may use
        self.batch_size, self.exact, self.unions = MAX_BATCH_BINDINGS, False, True
        # True: sums of floats on the partitions are reduced to one for each key (`ra.reduce.of_relation`). False in sessions,
        # whose delta rules need every tuple.
        self.rounding = True

    def empty_table(self, name: str) -> Table:
        """Make a table of a relation that has no tuples."""
        relation = self.program.relations[name]
        return Table(relation.arity, reduction=reduction_of(relation, self.values, partial(self._value_order, name)))

    def _value_order(self, name: str, columns: list[np.ndarray]) -> np.ndarray:
        """Return the order (n,) that sorts tuples, given as columns, by value: symbols and records by their text, as their ids
        depend on the order of reading."""
        attributes = zip(columns, self.program.relations[name].attributes, strict=True)
        types, style = BUILT_IN | self.program.types, TableStyle(readable=True)
        keys = [column_keys([column], type_, types, self.values, style).of(column) for column, (_, type_) in attributes]
        return np.lexsort(keys[::-1])

    def load(self, relation: str, columns: np.ndarray) -> int:
        """Insert facts, given as columns (arity, n). Return the number of new ones."""
        return self.tables[relation].insert(list(columns), columns.shape[1])

    def blocks(self, relation: str, part: str, order: Order) -> list[Block]:
        """Return the blocks of a part ("full", "delta", "all") of a relation in a column order (`Table.blocks`)."""
        return self.tables[relation].blocks(part, order)

    def repays_index(self, relation: str, bindings: float) -> bool:
        """True if an index that only one rule searches is worth building. bindings:
        the bindings that the join would otherwise make."""
        table = self.tables[relation]
        if relation in self.on_partitions or not isinstance(table, Table) or table.reduction:
            return False
        return table.count >= MIN_INDEXED_TUPLES and bindings >= MIN_REPAYING_BINDINGS * table.count

    def projected_share(self, relation: str, columns: Order, bindings: float) -> float:
        """Return the fraction of a relation's tuples that are distinct in some columns if an index of only these is worth
        building, else 1. bindings: see `repays_index`."""
        if not self.repays_index(relation, bindings):
            return 1.0
        share = self._estimated(("share", columns), lambda table: distinct_share(table, columns), relation)
        return share if share <= MAX_PROJECTED_SHARE else 1.0

    def total(self, relation: str, part: str, order: Order) -> int:
        return sum(block.size for block in self.blocks(relation, part, order))

    def counts_of_buckets(self, relation: str, order: Order, keys: list[np.ndarray], counts: np.ndarray) -> tuple:
        """See `Context`: tables in the driver have no buckets."""
        return counts, counts > 0

    def host_cache_dir(self, read: set[tuple[str, Order]]) -> None:
        """Return None: no other process reads these tables."""
        return None

    def count(self, relation: str) -> int:
        return self.on_partitions[relation].count if relation in self.on_partitions else self.tables[relation].count

    def bytes(self, relation: str) -> int:
        """Return the bytes of one index of a relation."""
        if found := self.partitioned(relation):
            return found.bytes
        if relation in self.on_partitions:
            return 8 * self.count(relation)
        table = self.tables[relation]
        return sum(8 * block.packing.lanes * block.size for block in table.blocks("all", table.home))

    def orders(self) -> dict[str, set[Order]]:
        """Return the orders that each table in this process is sorted in."""
        return {name: table.orders for name, table in self.tables.items() if isinstance(table, Table)}

    def held(self) -> dict[str, int]:
        """Return the bytes of every table in this process, with all of its indexes. Any thread may call it."""
        return {name: table.nbytes for name, table in list(self.tables.items()) if name not in self.on_partitions}

    def columns(self, relation: str) -> np.ndarray:
        """Return all tuples as columns (arity, n), in this process."""
        if relation in self.on_partitions:
            return self.on_partitions[relation].columns()
        parts = self.parts(relation)
        columns = np.empty((self.program.relations[relation].arity, sum(part.size for part in parts)), np.int64)
        _for_each_part(parts, lambda part, begin: part.into_columns(columns, begin))
        return columns

    def rows(self, relation: str) -> np.ndarray:
        """Return all tuples as rows (n, arity), in this process."""
        if relation in self.on_partitions:
            return self.on_partitions[relation].rows()
        parts = self.parts(relation)
        rows = np.empty((sum(part.size for part in parts), self.program.relations[relation].arity), np.int64)
        _for_each_part(parts, lambda part, begin: part.into_rows(rows, begin))
        return rows

    def parts(self, relation: str) -> list[Part]:
        """Return all tuples of a table in parts of about a million, without a copy."""
        return parts_of(*disjoint_blocks(self.tables[relation]))

    def source(self, relation: str) -> Blocks:
        """Return a source of all tuples to be read in order: the runs themselves, if this process can map them."""
        if relation in self.on_partitions:
            return self.on_partitions[relation].source()
        return Blocks(*disjoint_blocks(self.tables[relation]))

    def collect(self, relations: Iterable[str], begun: Iterable[str] = ()) -> None:
        """Bring relations on the partitions back into this process.

        begun: relations whose rules are about to run, so that their facts are new.
        """
        for name in {*relations, *begun} & self.on_partitions.keys():
            columns = self.on_partitions.pop(name).columns()
            self.tables[name] = self.empty_table(name)
            self.load(name, columns)
            if name not in begun:
                self.tables[name].settle()

    def place(self, name: str, relation, cluster) -> None:
        """Make `relation`, on the partitions, the contents of the relation of a name; its table is then empty."""
        from semi_naive.running.relations.on_partitions import OnPartitions

        self.on_partitions[name] = OnPartitions(relation, cluster)
        self.tables[name] = self.empty_table(name)

    def partitioned(self, name: str) -> PartitionedRelation | None:
        """Return the indexes of a relation on the partitions; None if it has none."""
        spread = self.on_partitions.get(name)
        return spread.partitioned if spread else None

    def clear(self, name: str) -> None:
        """Replace a relation by an empty table, and release what it has on the partitions."""
        if spread := self.on_partitions.pop(name, None):
            spread.close()
        self.tables[name] = self.empty_table(name)
        self.forget_sizes(name)

    def forget_sizes(self, relation: str) -> None:
        """Drop estimates that were made before the relation had its tuples."""
        self._estimates.pop(relation, None)

    # -- estimates for join orders

    def _estimated(self, key: tuple, estimate: Callable[..., Any], *relations: str) -> Any:
        """Return an estimate from the tables of some relations, which is cached until a size doubles or halves. key: its name
        and other arguments."""
        counts = [self.count(name) for name in relations]
        cached = self._estimates.setdefault(relations[0], {})
        key = *key, *relations
        if key not in cached or not all(old / 2 <= new <= 2 * old for old, new in zip(cached[key][0], counts, strict=True)):
            cached[key] = counts, estimate(*(self.tables[name] for name in relations))
        return cached[key][1]

    def size(self, relation: str, part: str = "all") -> float:
        """Return the number of tuples in a relation, or in its delta."""
        if relation in self.on_partitions:
            return self.on_partitions[relation].count
        table = self.tables[relation]
        return table.delta_size if part == "delta" else table.count

    def join_fanout(self, relation: str, columns: tuple[int, ...], other: str, places: tuple[int, ...]) -> float:
        """Estimate how many tuples of `other` a tuple of `relation` joins with. With skew that is more than the average over
        all values. columns, places: the joined columns of `relation` and of `other`."""
        if {relation, other} & self.on_partitions.keys():
            return uniform_fanout(self, other, places)
        estimate = lambda table, other_table: average_partners(table, columns, other_table, places)  # noqa: E731
        return self._estimated(("fanout", columns, places), estimate, relation, other)

    def fewest_fanout(self, relation: str, sides) -> float | None:
        """Estimate the least number of tuples that a tuple joins with in any of several relations. sides: (column, other
        relation, its column). None if one is on the partitions."""
        if {relation, *(other for _, other, _ in sides)} & self.on_partitions.keys():
            return None
        return fewest_partners(self.tables[relation], [(column, self.tables[other], at) for column, other, at in sides])

    def matching(self, relation: str, constants: tuple[tuple[int, Const], ...]) -> float | None:
        """Estimate the tuples that have given values in given columns, from a sample. None for a relation on the partitions."""
        if relation in self.on_partitions:
            return None
        columns = tuple(column for column, _ in constants)
        sample = self._estimated(
            ("sample", columns), lambda table: draw_columns(table, columns, 0, FANOUT_SAMPLE_TUPLES), relation
        )
        wanted_values = [int(evaluate(value, {}, 1, self.values)[0]) for _, value in constants]
        return estimate_matching(sample, wanted_values, self.count(relation))

    def sample(self, relation: str, draw: int) -> tuple[list[np.ndarray], float]:
        """Return (columns of a sample of a relation's tuples, fraction of the tuples in it); ([], 0.0) for a relation on the
        partitions. draw: the seed."""
        return ([], 0.0) if relation in self.on_partitions else draw_tuples(self.tables[relation], draw)

    def distinct(self, relation: str, column: int) -> float:
        """Estimate the number of distinct values of a column, from a sample if there are many tuples."""
        if relation in self.on_partitions:
            return self.on_partitions[relation].distinct(column)
        return self._estimated(("distinct", column), lambda table: distinct_values(table, column), relation)


def _for_each_part(parts: list[Part], put: Callable[[Part, int], None]) -> None:
    """Call `put(part, begin)` for every part, with the number of tuples in earlier parts; in threads for several."""
    begins = np.cumsum([0] + [part.size for part in parts]).tolist()

    def fill(number: int) -> None:
        put(parts[number], begins[number])

    for _ in (in_threads if len(parts) > 1 else map)(fill, range(len(parts))):
        pass
