"""Load facts into a run: into the driver's memory while they are few, otherwise to the partitions by Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from semi_naive.config import Config
from semi_naive.host.threads import in_threads
from semi_naive.io.errors import BadInput
from semi_naive.ra.ir import Program
from semi_naive.ra.pushdown import Pushdown
from semi_naive.ra.values.values import Values
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.database import Database

if TYPE_CHECKING:
    from semi_naive.io.unread import Source


@dataclass
class FactLoader:
    """The loading of the facts of one run."""

    program: Program
    database: Database
    cluster: Cluster
    values: Values
    config: Config
    pushdown: Mapping[str, Pushdown]

    def add_all(self, sources: Iterable[tuple[str, Source]]) -> None:
        """Add the facts of sources to their relations, in this order; files are read on all cores meanwhile."""
        pushed = self.pushdown
        sources = ((name, source.with_pushdown(pushed[name]) if name in pushed else source) for name, source in sources)
        for name, source, pieces in in_threads(self._prepared, self._each(sources)):
            self._add(name, source, pieces)

    def _each(self, sources: Iterable[tuple[str, Source]]) -> Iterator[tuple[str, Source, bool]]:
        """Yield each source, and True if tasks read it. A source that they do not read as a whole is split into its files."""
        for name, source in sources:
            spread = self._may_spread(name, source)
            parts = (source,) if spread else source.members()
            yield from ((name, one, spread or self._may_spread(name, one)) for one in parts)

    @staticmethod
    def _prepared(given: tuple[str, Source, bool]) -> tuple:
        """Return the relation's name, the source, and a function that makes its columns in pieces; None if tasks read it."""
        name, source, spread = given
        return name, source, None if spread else source.prepared()

    def _add(self, name: str, source: Source, pieces) -> None:
        """Add the facts of a source to a relation. `pieces`: the function that makes its columns, if the driver reads it; one
        piece is in memory at a time.

        If it is None, Spark's tasks read, type and deal the facts: a DataFrame, or files from 64 MB with more than
        `Config.local_tuples` tuples. Then no row passes through the driver; only distinct symbols do, as Arrow, to be numbered.
        """
        if pieces is not None:
            for columns in pieces(self.values):
                self.add_columns(name, source.needed(columns, self.values))
        else:
            from semi_naive.running.relations.loading_by_tasks import TaskLoader

            TaskLoader(self).add(name, source)

    def add_columns(self, name: str, columns: np.ndarray) -> None:
        """Add facts that this process has as columns (arity, n)."""
        relation = self.database.partitioned(name)
        if relation is None:
            self.database.load(name, columns)
            return
        from semi_naive.running.relations.dealing import deal_columns

        deal_columns(self.cluster, name, relation, columns)

    def _may_spread(self, name: str, source: Source) -> bool:
        """True if tasks read a source: it is large, and its relation need not be in the driver."""
        relation = self.program.relations[name]
        here = not relation.plain or f"{name}@known" in self.program.relations
        try:
            if here or not (source.can_spread and source.large):
                return False
            return name in self.database.on_partitions or (source.rows() or np.inf) > (self.config.local_tuples or 0)
        except BadInput:  # which reading it says, when it is its turn
            return False
