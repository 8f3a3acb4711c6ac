"""The result of a transitive closure: its pairs, with the graph's own vertices."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from semi_naive.host.account import as_sum
from semi_naive.host.numbers import quantity
from semi_naive.io.values.bits import NAME
from semi_naive.ra.text.arrow_arrays import arrow_of
from semi_naive.running.results.answers import Answer
from semi_naive.running.results.files import written_by_spark
from semi_naive.running.results.frames import ToArrow
from semi_naive.tuples import Tuples

if TYPE_CHECKING:
    from semi_naive.provenance.proofs import Proof


@dataclass
class VertexNames:
    """The names of vertices by number: `array` is a pyarrow array, or in tasks a broadcast of it."""

    array: Any

    def arrow(self, numbers: np.ndarray):
        return getattr(self.array, "value", self.array).take(arrow_of(numbers))


class Closure(Answer):
    """The transitive closure of a graph: its pairs (x, y), y reachable from x over at least one edge.

    Reading is lazy and repeatable. The pairs are removed by `close`, at the end of a `with` block, and at the end of the
    program; also when the object is no longer referenced, unless `to_df` was called.

    vertices: the graph's vertex of each number in the pairs, if they were renumbered.
    names: the names of vertices in a pyarrow array, if vertices are names; the numbers are positions in it.
    columns: the names of its columns.
    """

    def __init__(self, result, trace: dict, vertices: np.ndarray | None = None, names=None, columns=("x", "y")):
        super().__init__(result, "path")
        self._trace, self._vertices, self._names = trace, vertices, names
        types = [type_ if names is None else NAME for _, type_ in self.relation.attributes]
        self.relation = replace(self.relation, attributes=tuple(zip(columns, types, strict=True)))

    @property
    def trace(self) -> dict:
        self._trace |= {name: self._result.trace[name] for name in ("seconds", "account")}
        return self._trace

    @property
    def plan(self) -> str:
        return self.trace["plan"]

    @property
    def reason(self) -> str:
        """The reason for the plan."""
        return self.trace["reason"]

    @property
    def iterations(self) -> int:
        """The number of iterations: for the linear rules the length of the longest shortest path."""
        return self.trace["result"]["iterations"]

    def encoded(self) -> np.ndarray:
        """Return the pairs (2, n) as numbers: of vertices, or of their positions in the names."""
        return self._converter().plain(super().encoded())

    def _converter(self, for_spark: bool = False, for_tasks: bool = False) -> ToArrow:
        """Return the converter of tuples to Arrow, which replaces numbers by the graph's vertices."""
        vertices, names = self._shared if for_tasks else (self._vertices, self._names)
        converter = replace(super()._converter(for_spark, for_tasks), vertices=vertices)
        # named vertices are symbols to the converter, and their numbers the ids of these
        return converter if names is None else replace(converter, values=VertexNames(names))

    @cached_property
    def _shared(self) -> tuple[Any, Any]:
        """(vertices, names) for tasks: a file on each host, and a broadcast; each None if the graph has none."""
        vertices = None if self._vertices is None else self.cluster.share_array("vertices", self._vertices)
        return vertices, None if self._names is None else self.cluster.sc.broadcast(self._names)

    def why(self, x, y) -> "Proof":
        """Return a shortest path from x to y, as a proof of the pair by the rules of the closure. Raises ValueError if y is
        unreachable. It follows the edges from x, without reading the pairs."""
        try:
            proof = self._result.why(self.name, (self._number_of_vertex(x), self._number_of_vertex(y)))
        except ValueError as error:
            raise ValueError(f"{y!r} cannot be reached from {x!r}") from error
        return proof.renamed(lambda pair: tuple(map(self._vertex, pair)))

    def _number_of_vertex(self, vertex) -> int:
        """Return the number of a vertex in the pairs; if it has none, a number that is not in them."""
        if self._names is not None:
            import pyarrow.compute as pc

            vertex = pc.index(self._names, vertex).as_py()  # -1 for none
        if self._vertices is not None:
            found = np.flatnonzero(self._vertices == vertex)
            vertex = int(found[0]) if found.size else -1
        return vertex

    def _vertex(self, number: int) -> int | str:
        """Return the graph's vertex of a number in the pairs."""
        vertex = number if self._vertices is None else int(self._vertices[number])
        return vertex if self._names is None else self._names[vertex].as_py()

    def explain(self) -> str:
        """Return the plan of the evaluation, the reason for it, and the result's size, as text."""
        made = f"{quantity(self.count(), 'pair')} in {quantity(self.iterations, 'iteration')}, {as_sum(self.trace)}"
        return f"plan {self.plan}: {self.reason}\nmade: {made}\n"

    def write(self, path) -> None:
        """Write the pairs, unordered, to one file: .parquet, .csv, .tsv, .facts or .txt; all but .parquet also .gz. The file
        replaces an old one when it is complete. From a cluster, or to a URI, .parquet is a directory that Spark writes in
        parallel."""
        with self._result._charged_to("write"):
            if not written_by_spark(self, path):
                Tuples.write(self, path)

    def _repr_html_(self) -> str:
        from semi_naive.notebooks.html import run_shown, tuples_shown

        return tuples_shown(self, run_shown("", self.trace))

    def __repr__(self) -> str:
        made = f"{quantity(self.count(), 'pair')}, {self.plan} plan, {quantity(self.iterations, 'iteration')}"
        return f"<Closure: {made}, {self.trace['seconds']:.2f} s>"
