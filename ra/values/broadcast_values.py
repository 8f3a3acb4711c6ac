"""The symbols and records on hosts other than the driver's: their snapshot is broadcast by Spark."""

import os
from typing import TYPE_CHECKING

from semi_naive.host import private
from semi_naive.ra.values.dictionary import Dictionary
from semi_naive.ra.values.values import SharedValues, Snapshot

if TYPE_CHECKING:
    from pyspark import Broadcast


class BroadcastValues(SharedValues):
    """A snapshot whose files each host writes when it first needs one. files: broadcasts of the files' bytes, by path."""

    def __init__(self, symbols: Snapshot, records: dict[int, Snapshot], files: dict[str, "Broadcast"]):
        super().__init__(symbols, records)
        self.files = files

    def __reduce__(self):
        return BroadcastValues, (*self.snapshots, self.files)

    @property
    def _symbols(self) -> Dictionary:
        self._write_missing_files()
        return super()._symbols

    def _lexicon(self, arity: int) -> Dictionary:
        self._write_missing_files()
        return super()._lexicon(arity)

    def _write_missing_files(self) -> None:
        """Write the files that this host lacks, each completely or not at all."""
        for path, broadcast in self.files.items():
            if not os.path.exists(path):
                with private.open_replacing(path) as file:
                    file.write(broadcast.value)
