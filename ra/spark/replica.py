"""Arrays and runs that every host needs completely: memory-mapped from one file on each host, which all its workers share."""

from dataclasses import dataclass, replace

import numpy as np

from semi_naive.ra.spark.masters import on_this_host
from semi_naive.ra.storage.runs import Run, Store, write_run


def shared_run(run: Run, sc) -> Run:
    """Return a run that the driver has written as one that every host can read: the first worker of another host that opens it
    writes it from a broadcast. Takes one broadcast if `sc` is the context of a cluster."""
    return run if sc is None or on_this_host(sc.master) else replace(run, broadcast=sc.broadcast(run.mapped()))


@dataclass
class Replica:
    """An array in a run that every host can read."""

    run: Run
    dtype: str

    @classmethod
    def share(cls, sc, store: Store, name: str, array: np.ndarray) -> "Replica":
        """Write an array (n,) of 8-byte elements for all hosts (see `shared_run`)."""
        array = np.ascontiguousarray(array)
        return cls(shared_run(write_run(store.path(name), array.view(np.uint64)), sc), array.dtype.str)

    def open(self) -> np.ndarray:
        """Return the array, mapped into memory."""
        return self.run.open().view(self.dtype)
