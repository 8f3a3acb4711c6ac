"""Reachability and components in Pathway, followed while edges come and go: what `bench.streams` compares with.

It runs in a process of its own, under an interpreter that has Pathway and need not have this package:

    PYTHON bench/pathway_peer.py reachability|components FACTS.npz

FACTS.npz has `edges` (n, 2), and for transaction i of `transactions` the edges (m, 2) that go, `delete_i`, or come, `insert_i`.
Row i of `marks` is one more edge that comes then and changes the answer, so that Pathway tells when it is through. Prints JSON:
seconds until the first answer, seconds of each transaction, tuples of the answer at the end.
"""

import json
import sys
import threading
import time

import numpy as np
import pathway as pw

SOURCES = 10  # vertices 0 to 9 are where reachability begins


class Edge(pw.Schema):
    """A row is known by both columns, so that it can be taken out again."""

    u: int = pw.column_definition(primary_key=True)
    v: int = pw.column_definition(primary_key=True)


class Vertex(pw.Schema):
    v: int


class Edges(pw.io.python.ConnectorSubject):
    """Hands Pathway a transaction, waits until its answer is there, and then the next one."""

    def __init__(self, facts):
        super().__init__()
        self.facts, self.answered, self.seconds = facts, threading.Event(), []
        self.awaited, self.met = None, False  # the vertex that is to be in the answer, None for any; whether it is

    def run(self):
        self._transaction(self.facts["edges"], True)
        for number in range(int(self.facts["transactions"])):
            come = f"insert_{number}" in self.facts
            self._transaction(self.facts[f"{'insert' if come else 'delete'}_{number}"], come, self.facts["marks"][number])

    def changed(self, vertex: int) -> None:
        self.met |= self.awaited in (None, vertex)

    def through(self) -> None:
        if self.met:
            self.met = False
            self.answered.set()

    def _transaction(self, rows, come: bool, mark=None) -> None:
        begun = time.perf_counter()
        self.awaited = None if mark is None else int(mark[1])
        for u, v in rows.tolist():
            if come:
                self.next(u=u, v=v)
            else:
                self._remove_inner(None, {"u": u, "v": v})
        if mark is not None:
            self.next(u=int(mark[0]), v=int(mark[1]))
        self.commit()
        self.answered.wait()
        self.answered.clear()
        self.seconds.append(time.perf_counter() - begun)


def reachability(edges):
    first = pw.debug.table_from_rows(Vertex, [(number,) for number in range(SOURCES)])

    def step(reached, edges, first):
        new = reached.join(edges, reached.v == edges.u).select(v=edges.v)
        return {"reached": pw.Table.concat_reindex(first, new).groupby(pw.this.v).reduce(pw.this.v)}

    return pw.iterate(step, reached=pw.iterate_universe(first), edges=edges, first=first).reached


def components(edges):
    both = pw.Table.concat_reindex(edges, edges.select(u=edges.v, v=edges.u))
    first = both.groupby(pw.this.u).reduce(pw.this.u, label=pw.reducers.min(pw.this.v))

    def step(labels, both, first):
        new = both.join(labels, both.v == labels.u).select(u=both.u, label=labels.label)
        every = pw.Table.concat_reindex(first, new)
        return {"labels": every.groupby(pw.this.u).reduce(pw.this.u, label=pw.reducers.min(pw.this.label))}

    return pw.iterate(step, labels=pw.iterate_universe(first), both=both, first=first).labels


def main(program: str, path: str) -> None:
    subject, count = Edges(np.load(path)), [0]
    edges = pw.io.python.read(subject, schema=Edge, autocommit_duration_ms=None)

    def changed(key, row, time, is_addition):
        count[0] += 1 if is_addition else -1
        if is_addition:
            subject.changed(next(iter(row.values())))

    answer = {"reachability": reachability, "components": components}[program](edges)
    pw.io.subscribe(answer, on_change=changed, on_time_end=lambda time: subject.through())
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    print(json.dumps({"first": subject.seconds[0], "seconds": subject.seconds[1:], "count": count[0]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
