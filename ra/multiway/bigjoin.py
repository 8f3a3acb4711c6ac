"""BiGJoin."""

import numpy as np

from ra.multiway.frontier import Worker
from ra.multiway.indexes import built
from ra.multiway.query import Query
from ra.multiway.stages import holds, planned


class BigJoin:
    def __init__(self, query: Query, relations, *, batch: int = 1 << 22):
        query.check(relations)
        self.plan = planned(query, query.order or query.variables)
        self.relations, self.batch = relations, batch
        self.indexes = built(self.plan.indexes, relations)

    def _run(self, listing):
        if not all(holds(g, self.relations) for g in self.plan.guards):
            self.total = 0
            self.trace = {"peak": 0, "bound": 0}
            return
        if not self.plan.stages:
            self.total = 1
            self.trace = {"peak": 0, "bound": 0}
            yield np.empty((0, 1), np.int64)
            return
        w = Worker(self.plan, self.indexes, self.batch, listing)
        w.start()
        yield from w.run()
        self.total = w.count
        self.trace = {"peak": w.peak, "bound": self.batch * len(self.plan.stages)}

    def collect(self):
        none = np.empty((len(self.plan.stages), 0), np.int64)
        return self.plan.arranged(np.concatenate([none, *self._run(True)], axis=1))

    def count(self):
        list(self._run(False))
        return self.total
