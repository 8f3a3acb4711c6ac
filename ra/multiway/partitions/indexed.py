"""Indexes spread over the partitions by hash. `want` makes what is missing."""

import numpy as np

from semi_naive.ra.multiway.partitions import loading, spreading
from semi_naive.ra.multiway.partitions.loading import Shared
from semi_naive.ra.multiway.prefixes.indexed import Indexed
from semi_naive.ra.multiway.prefixes.indexes import IndexKey
from semi_naive.ra.multiway.query import QueryError, columns_of
from semi_naive.ra.spark.replica import Replica
from semi_naive.ra.storage.runs import Store


class Shuffled(Indexed):
    """Each index spread over the partitions: by its key, or, for BiGJoin-S, in tables by all that is looked up. `store`: where
    its files are on the hosts; by default a new one, which `close` removes."""

    def __init__(self, relations, jobs, store: Store | None = None, skew: bool = False):
        super().__init__(relations)
        self.jobs, self.partitions = jobs, jobs.partitions
        self.own, self.store, self.labels = store is None, store or Store.create(), 0
        self.skew, self.known = skew, set()
        self.handles: list[dict] = [{} for _ in range(jobs.partitions)]
        self.sizes: dict[IndexKey, int] = {}  # of those without a key, over all partitions

    def job(self) -> int:
        """The number of the next job, for the names of its files."""
        self.labels += 1
        return self.labels

    def close(self) -> None:
        """One job on a cluster."""
        if self.own:
            self.jobs.remove(self.store)

    def want(self, keys) -> None:
        """One job: of one shuffle, or of four for the tables of BiGJoin-S."""
        missing = tuple(key for key in dict.fromkeys(keys) if key not in self.known)
        if not missing:
            return
        files = self._shared(missing)
        try:
            load = spreading.load if self.skew else loading.load
            handles, sizes = load(self.jobs, files, missing, self.store.root, len(self.known))
        finally:
            for relation in files.values():
                relation.file.close()
        for mine, new in zip(self.handles, handles, strict=True):
            mine |= new
        self.sizes |= sizes
        self.known |= set(missing)

    def _shared(self, keys) -> dict[str, Shared]:
        """The relations that indexes are to be made of, on every host: one file each, 8 bytes a value. No two have the same
        name, as other hosts keep theirs."""
        found = {}
        for number, name in enumerate(dict.fromkeys(key.relation for key in keys)):
            columns = columns_of(self.relations[name])
            file = Replica.share(self.jobs.sc, self.store, f"relation-{len(self.known)}-{number}", np.concatenate(columns))
            found[name] = Shared(file, len(columns))
        return found


def indexed(relations, jobs=None, skew: bool = False, store: Store | None = None) -> Indexed:
    """Relations, ready to be indexed for a BiGJoin (see `BigJoin`)."""
    if skew and jobs is None:
        raise QueryError("BiGJoin-S evens out what travels: it needs partitions (`jobs=`)")
    return Indexed(relations) if jobs is None else Shuffled(relations, jobs, store, skew)
