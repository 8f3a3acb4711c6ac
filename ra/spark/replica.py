"""Arrays that every host needs completely: memory-mapped from one file on each host, which all its workers share."""

import contextlib
import io
import os
from dataclasses import dataclass

import numpy as np

from semi_naive.ra.spark.masters import on_this_host
from semi_naive.ra.storage.runs import Run, Store, write_run


@dataclass
class Replica:
    """An array written once by the driver; on another host, the first worker that opens it writes it from a broadcast."""

    run: Run
    dtype: str
    broadcast: object = None  # None where every task runs on the driver's host

    @classmethod
    def share(cls, sc, store: Store, name: str, array: np.ndarray) -> "Replica":
        """Write an array (n,) of 8-byte elements for all hosts. Takes one write, and one broadcast if `sc` is the context of a
        cluster."""
        array = np.ascontiguousarray(array)
        return cls.of(write_run(store.path(name), array.view(np.uint64)), sc, array.dtype.str)

    @classmethod
    def of(cls, run: Run, sc, dtype: str = "<u8") -> "Replica":
        """Share a run that the driver has written. Takes one broadcast if `sc` is the context of a cluster."""
        return cls(run, dtype, None if sc is None or on_this_host(sc.master) else sc.broadcast(run.mapped()))

    def _local_run(self) -> Run:
        """Return the run. If this host has no file, it is written from the broadcast first."""
        if self.broadcast is not None and not os.path.exists(self.run.path):
            write_run(self.run.path, self.broadcast.value)
        return self.run

    def open(self) -> np.ndarray:
        """Return the array, mapped into memory."""
        return self._local_run().open().view(self.dtype)

    def readable(self) -> io.FileIO:
        """Open the file, to be read in parts: see `Run.readable`."""
        return self._local_run().readable()

    def close(self) -> None:
        """Delete the file and the broadcast. No task may read it afterwards."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.run.path)
        if self.broadcast is not None:
            self.broadcast.destroy()
