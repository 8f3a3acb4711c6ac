"""One evaluation of a closure: from edges to dense ids, through a plan, to a result; and what is left of it on disk."""

import contextlib
import functools
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from semi_naive import decomposed
from semi_naive.balance.hashing import mix
from semi_naive.balance.trace import Trace
from semi_naive.config import Config
from semi_naive.decomposed import Groups
from semi_naive.io.edges import Edges
from semi_naive.ra.exchange import Fabric, RunsLost
from semi_naive.ra.graph import Dense, adjacency, intern, relabel
from semi_naive.ra.interning import DenseBlocks, intern_blocks
from semi_naive.ra.placed import Placed
from semi_naive.ra.replica import Replica
from semi_naive.ra.runs import Keep, Store
from semi_naive.ra.session import cores
from semi_naive.ra.words import merge_all
from semi_naive.result import Closure, Reader, Stored

RESTARTS = 3  # after lost runs


@dataclass
class Evaluation:
    """One call of `transitive_closure`, once its arguments are known to be good."""

    sc: object
    config: Config
    progress: object
    plan: str
    reason: str
    watch: object = None  # see `transitive_closure`

    def __post_init__(self):
        self.store = Store.create(self.config.local_dir)
        self.fabric = None
        self.shared: list[Replica] = []

    @property
    def local(self) -> bool:
        """Whether all tasks run on the driver's host."""
        return self.sc.master.startswith("local[")

    def run(self, source) -> Closure:
        try:
            graph = self._dense(source)
            self.trace = Trace(
                plan=self.plan, reason=self.reason, rule=self.config.rule, config=self.config.to_json(),
                input={"nodes": graph.values.size},
            )  # fmt: skip
            if self.watch:
                self.watch(self.trace.so_far)
            names = graph.names
            if not graph.values.size:
                return self._closure(None, 0, names)
            self.fabric = Fabric(self.sc, self.config.partitions or cores(self.sc))
            evaluate = self._decomposed if self.plan == "decomposed" else self._balanced
            source, size = evaluate(graph)
            values = self._share("values", graph.values)
            shared_names = None if names is None else self.sc.broadcast(names)
            swap = isinstance(source, Groups) and self.config.rule == "edge-path"
            return self._closure(Reader(source, values, shared_names, swap), size, names)
        except BaseException:
            self.release()
            raise
        finally:
            if hasattr(source, "release"):
                source.release()

    def _dense(self, source) -> Dense | DenseBlocks:
        if not isinstance(source, Edges):
            return intern_blocks(self.sc, self.store, source)
        dense = relabel(intern(source.pairs))
        return dense if source.names is None else replace(dense, names=source.names)

    def _share(self, name: str, array: np.ndarray) -> Replica:
        replica = Replica.share(self.sc, self.store, name, array)
        self.shared.append(replica)
        return replica

    def _adjacency(self, graph) -> tuple[Replica, Replica]:
        """What carried groups walk along: the edges, or for edge-path the reversed ones."""
        if isinstance(graph, DenseBlocks):
            graph = Dense(merge_all(graph.rdd.collect()), graph.values)
        indptr, targets = adjacency(graph.reversed() if self.config.rule == "edge-path" else graph)
        return self._share("indptr", indptr), self._share("targets", targets)

    def _decomposed(self, graph) -> tuple[Groups, int]:
        indptr, targets = self._adjacency(graph)
        steps = min(self.config.max_iterations or graph.domain + 1, graph.domain + 1)
        pieces = decomposed.pieces_for(graph.domain, targets.run.words, self.fabric.partitions)
        groups = Groups(indptr, targets, pieces, steps)
        return groups, decomposed.run(self.fabric, groups, self.trace, self.progress)

    def _balanced(self, graph) -> tuple[Stored, int]:
        edges = graph.rdd if isinstance(graph, DenseBlocks) else self._share("edges", graph.words)
        checkpoints = self._checkpoints(graph)
        for restart in range(RESTARTS + 1):
            try:
                state = self._fixpoint(edges, graph, checkpoints)
                break
            except RunsLost as lost:
                if restart == RESTARTS:
                    raise
                self.trace.event("runs lost", 0, reason=str(lost))
                self.fabric.close()
                self.fabric = Fabric(self.sc, self.fabric.partitions)
        if checkpoints:
            checkpoints.remove()
        self._keep_only(state.path)
        return Stored(state.path.known(), state.path.shift, key_first=self.config.rule == "edge-path"), state.path.total

    def _fixpoint(self, edges, graph, checkpoints):
        """From the last checkpoint if there is one, otherwise from the edges, to the end."""
        from semi_naive.balanced import Balanced  # only here: its kernels take 5 s to compile, the first time ever

        balanced = Balanced(self.fabric, self.store, edges, self._once(graph), graph.domain, self.config, self.trace)
        manifest = checkpoints and checkpoints.manifest()
        state = None
        if manifest:
            if manifest["path"]["map"]["partitions"] != self.fabric.partitions:
                self.fabric.close()
                self.fabric = balanced.fabric = Fabric(self.sc, manifest["path"]["map"]["partitions"])
                balanced.__post_init__()
            state = checkpoints.restore(manifest, self.fabric, balanced.root)
            self.trace.take_up(manifest["iterations"], manifest["events"])
            self.trace.event("restore", state.iteration, tuples=state.path.total)
        else:
            self.trace.take_up([], [])

        def tell(state):
            if self.progress:
                self.progress(state.iteration, state.path.count("delta"), state.path.total)
            if checkpoints and checkpoints.due(state.iteration):
                copied = checkpoints.save(state, self.fabric, self.trace.record)
                self.trace.event("checkpoint", state.iteration, bytes=copied)

        balanced.tell = tell
        return balanced.run(state)

    def _once(self, graph):
        return functools.cache(lambda: self._adjacency(graph))

    def _keep_only(self, path: Placed) -> None:
        """Remove what the fixpoint needed and its result does not: inner relation, replicas, runs that were merged."""
        while self.shared:
            self.shared.pop().close()
        keep = Keep(self.store.path("runs"), path.known())
        if self.local:
            for partition in range(self.fabric.partitions):
                keep(partition, [])
        else:
            self.fabric.job(keep)

    def _checkpoints(self, graph):
        if not self.config.checkpoint_dir:
            return None
        from semi_naive.checkpoint import Checkpoints

        digest = hashlib.sha256(f"{self.config.rule} {self.config.max_iterations}".encode())
        digest.update(graph.values.tobytes())
        parts = [fingerprint(graph.words)] if isinstance(graph, Dense) else graph.rdd.map(fingerprint).collect()
        digest.update(str(sum(parts)).encode())
        return Checkpoints(Path(self.config.checkpoint_dir).absolute(), digest.hexdigest(), self.config.checkpoint_interval)

    def _closure(self, reader: Reader | None, size: int, names) -> Closure:
        iterations = sum(entry["steps"] for entry in self.trace.record["iterations"] if entry["born"])
        self.trace.finish(tuples=size, iterations=iterations, disk_bytes=self.store.bytes())
        fabric = self.fabric if reader and isinstance(reader.source, Stored) and not self.local else None
        return Closure(self.sc, reader, size, self.trace.record, names is not None, self.release, fabric)

    def release(self) -> None:
        """Forget what Spark holds for this evaluation, and remove its directory from every host."""
        with contextlib.suppress(Exception):  # Spark may have been stopped, or be the reason we are here
            for replica in self.shared:
                replica.close()
        if self.fabric:
            self.fabric.remove(self.store)
            self.fabric.close()
        self.store.remove()


def fingerprint(words: np.ndarray) -> int:
    """A number of a set of words that does not depend on their order."""
    return int(mix(words).sum() & np.uint64(0xFFFFFFFF)) + words.size
