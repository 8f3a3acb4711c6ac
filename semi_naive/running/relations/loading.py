"""Load facts into a run: into the driver's memory while they are few, otherwise to the partitions by Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from semi_naive.host.threads import in_threads
from semi_naive.io.errors import BadInput
from semi_naive.ra.values.values import Values

if TYPE_CHECKING:
    from semi_naive.io.unread import Source

    MakePieces = Callable[[Values], Iterable[np.ndarray]]  # columns (arity, n) of some facts at a time


@dataclass
class FactLoader:
    """The loading of the facts of one run, a `RunState`."""

    run: Any

    def add_all(self, sources: Iterable[tuple[str, Source]]) -> None:
        """Add the facts of (relation, source) pairs in their order. The driver reads several files at a time, on all cores."""
        pushed = self.run.compiled.pushdown
        sources = ((name, source.with_pushdown(pushed[name]) if name in pushed else source) for name, source in sources)
        for name, source, pieces in in_threads(self._prepare, self._readable_parts(sources)):
            self._add(name, source, pieces)

    def _readable_parts(self, sources: Iterable[tuple[str, Source]]) -> Iterator[tuple[str, Source, bool]]:
        """Yield (relation, source, True if tasks read it). A source for the driver is split into its files."""
        for name, source in sources:
            for_tasks = self._is_for_tasks(name, source)
            for part in [source] if for_tasks else source.members():
                yield name, part, for_tasks or part is not source and self._is_for_tasks(name, part)  # one file may be large

    @staticmethod
    def _prepare(part: tuple[str, Source, bool]) -> tuple[str, Source, MakePieces | None]:
        """Return (relation, source, a function that makes its columns in pieces; None if tasks read it)."""
        name, source, for_tasks = part
        return name, source, None if for_tasks else source.prepared()

    def _add(self, name: str, source: Source, make_pieces: MakePieces | None) -> None:
        """Add the facts of a source to a relation. make_pieces: see `_prepare`; one piece is in memory at a time.

        If tasks read the source, no row passes through the driver; only distinct symbols do, as Arrow, to be numbered.
        """
        if make_pieces is not None:
            pieces = (source.needed(columns, self.run.values) for columns in make_pieces(self.run.values))
            if self.run.database.partitioned(name) is None:
                self.run.database.tables[name].insert_pieces(pieces)
            else:
                for columns in pieces:
                    self.add_columns(name, columns)
        else:
            from semi_naive.running.relations.loading_by_tasks import TaskLoader

            TaskLoader(self.run, self.add_columns).add_source(name, source)

    def add_columns(self, name: str, columns: np.ndarray) -> None:
        """Add facts that this process has as columns (arity, n)."""
        relation = self.run.database.partitioned(name)
        if relation is None:
            self.run.database.load(name, columns)
            return
        from semi_naive.ra.blocks.block import Block
        from semi_naive.running.relations.dealing import deal_block

        deal_block(self.run.cluster, name, relation, Block.of(list(columns), columns.shape[1]))

    def _is_for_tasks(self, name: str, source: Source) -> bool:
        """True if tasks read a source: a DataFrame, or files from 64 MB, with more than `Config.local_tuples` tuples, of a
        relation that need not be in the driver."""
        relation = self.run.program.relations[name]
        must_be_in_driver = not relation.plain or f"{name}@known" in self.run.program.relations
        try:
            if must_be_in_driver or not (source.can_spread and source.large):
                return False
            return name in self.run.database.on_partitions or (source.rows() or np.inf) > (self.run.config.local_tuples or 0)
        except BadInput:  # raised again when the source is read, in the order of the sources
            return False
