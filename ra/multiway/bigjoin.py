"""BiGJoin: any full conjunctive query, variable by variable, in batches of B' proposals.

    triangle = BigJoin(query, {"edge": edges}, jobs)
    triangle.count(), triangle.collect(), triangle.trace

Never more than a stated number of prefixes and candidates is in flight, whatever the data, and the work is worst-case
optimal: at each stage there are no more proposals than the AGM bound of the query (Lemma 3.1).
*Distributed Evaluation of Subgraph Queries Using Worst-case Optimal Low-Memory Dataflows*, PVLDB 2018.
"""

import numpy as np

from semi_naive.ra.multiway.partitions.driver import Partitions
from semi_naive.ra.multiway.partitions.indexed import Shuffled, indexed
from semi_naive.ra.multiway.prefixes.indexed import Indexed
from semi_naive.ra.multiway.prefixes.stages import holds, planned
from semi_naive.ra.multiway.prefixes.worker import OneWorker
from semi_naive.ra.multiway.query import Query, QueryError
from semi_naive.ra.multiway.tries import orders
from semi_naive.ra.multiway.tries.trie import Tries

BATCH = 1 << 24  # proposals in flight on each partition, as slices of indexes; 128 MB once written out


class BigJoin:
    """One query over relations {name: columns}, indexed once; answers may be asked for again. `close` when done.

    relations   or what `indexed` made of them, which keeps its indexes for other queries; then nothing but `batch` is given
    jobs      the partitions (`ra.spark.jobs.PartitionedJobs`); None: this process
    skew        on partitions: BiGJoin-S. Each partition has the same work, and a variable takes seven shuffles, the
                first one two
    batch       B', of all partitions together; by default 2^24 for each
    store       where files are; by default a new one, removed by `close`

    The order of variables is the query's, or else is chosen, which reads the relations once more. QueryError when the query
    cannot be evaluated.
    """

    def __init__(self, query: Query, relations, jobs=None, *, skew=False, batch=None, store=None):
        if batch is not None and batch < 1:
            raise QueryError(f"a batch of {batch} proposals: expected one at least")
        self.lent = isinstance(relations, Indexed)
        known = relations.relations if self.lent else relations
        query.check(known)
        self.plan, self.trace = planned(query, query.order or orders.choose(query, Tries.of(known))), None
        self.empty = not all(holds(guard, known) for guard in self.plan.guards)
        self.indexed = relations if self.lent else indexed(relations, jobs, skew, store)
        self.indexed.want(self.plan.indexes)
        place = Partitions if isinstance(self.indexed, Shuffled) else OneWorker
        self.place = place(self.plan, self.indexed, batch or BATCH * self.indexed.partitions)

    def count(self) -> int:
        """How many bindings there are; none is written out."""
        return self._run("count", None)

    def each(self, consumer) -> int:
        """Give the answer to `consumer` batch by batch, (n, variables) int64, at most B' tuples at a time."""
        return self._run("rows", lambda bindings: consumer(self.plan.arranged(bindings)))

    def collect(self) -> np.ndarray:
        """The answer, (n, variables) int64, in the query's order of variables, in the driver."""
        found = [np.empty((0, len(self.plan.output)), np.int64)]
        self.each(found.append)
        return np.concatenate(found)

    def runs(self) -> list:
        """The answer as runs on the hosts that made it: tuples row by row, of a word a variable, in no order. They are
        there until `close`."""
        found = []
        self._run("runs", found.append)
        return found

    def _run(self, output: str, consumer) -> int:
        if self.empty or not self.plan.stages:
            return self._without_stages(output, consumer)
        self.trace = self.place.run(output, consumer)
        return self.trace["result"]["tuples"]

    def _without_stages(self, output: str, consumer) -> int:
        """A query without variables is true or not; one whose constant atoms do not hold is empty."""
        count = 0 if self.empty else 1
        if count and output == "rows":
            consumer(np.empty((0, 1), np.int64))
        self.trace = self.place.nothing(count)
        return count

    def close(self) -> None:
        """Remove the indexes and runs, unless they are someone else's."""
        if not self.lent:
            self.indexed.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
