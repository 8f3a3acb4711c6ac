"""Proofs of pairs of a transitive closure: a shortest path along its edges, by breadth-first search.

    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).           or edge(x, y), path(y, z), or path(x, y), path(y, z)

So no tuple of the closure is read. The proof of a pair n edges apart has the height n by the linear rules, and by the last one
the least k for which 2^(k - 1) is at least n.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.planning.detect_closure import copied_by, form_of
from semi_naive.provenance.instances import Instance, InstanceRule, Instances, Node
from semi_naive.ra.blocks import kernels
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Relation


@dataclass(eq=False)
class Paths:
    """A relation that is the closure of a relation of facts. base, step: its rules; form: the form of `step`, one of
    `semi_naive.config.RULES`; edges: a settled table.
    """

    relation: str
    base: InstanceRule
    step: InstanceRule
    form: str
    edges: Any

    def proven(self, node: Node) -> dict[Node, Instance | None] | None:
        """Return the tuples of a proof of least height, as `Search.proven` does; None if the pair is not derived."""
        vertices = self._path(*node[1])
        return None if vertices is None else self._tuples(vertices)

    def pairs_with(self, column: int, values: np.ndarray) -> Table:
        """Return the pairs of the closure that have one of some values in a column (0 or 1)."""
        pairs = Table(2)
        for value in values:
            ends = [vertices for vertices, _ in self._levels(int(value), column)]
            others = np.concatenate([np.empty(0, np.int64), *ends])
            given = np.full(others.size, value)
            pairs.insert([given, others] if column == 0 else [others, given], others.size)
        pairs.settle()
        return pairs

    def _path(self, first: int, last: int) -> list[int] | None:
        """Return the vertices of a shortest path of at least one edge, None if there is none. Time and memory are proportional
        to the edges reachable from the first vertex."""
        levels = []
        for vertices, begins in self._levels(first):
            levels.append((vertices, begins))
            if np.searchsorted(vertices, last, "right") > np.searchsorted(vertices, last):
                return _trace_back(levels, last)
        return None

    def _levels(self, first: int, column: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (vertices, predecessors) for each distance: the vertices first reached at this distance from a vertex (for
        column 1: that reach it), ascending."""
        front, seen = np.array([first]), np.empty(0, np.int64)
        while front.size:
            ends, begins = self._next_edges(front, column)
            places = np.minimum(np.searchsorted(seen, ends), max(0, seen.size - 1))  # the last for ends beyond all
            unseen = seen[places] != ends if seen.size else True
            is_first = np.diff(ends, prepend=ends[:1] - 1) != 0  # `ends` is ascending, with duplicates
            new = unseen & is_first
            front = ends[new]
            seen = np.sort(np.concatenate([seen, front]), kind="stable")
            yield front, begins[new]

    def _next_edges(self, front: np.ndarray, column: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges from some vertices as (ends, begins), by ascending end; for column 1 the edges to them, reversed."""
        ends, begins = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for block in self.edges.blocks("all", (column, 1 - column)):
            lows, highs = block.ranges([front], front.size)
            rows, positions, _, _ = kernels.expand_some(lows, highs, 0, 0, int((highs - lows).sum()))  # all pairs
            ends.append(block.column(1, positions))
            begins.append(front[rows])
        order = np.argsort(np.concatenate(ends), kind="stable")
        return np.concatenate(ends)[order], np.concatenate(begins)[order]

    def _tuples(self, vertices: list[int]) -> dict[Node, Instance | None]:
        """Return the tuples of a proof along a path, each with its instance, None for a fact."""
        proof: dict[Node, Instance | None] = {}
        unproven = [(0, len(vertices) - 1)]
        while unproven:
            low, high = unproven.pop()
            first, last = vertices[low], vertices[high]
            node = self.relation, (first, last)
            if high == low + 1:
                proof[node] = instance = _instance(self.base, first, last)
                proof |= dict.fromkeys(instance.premises)
                continue
            # path-path: halves, for the least height
            middle = {"path-edge": high - 1, "edge-path": low + 1}.get(self.form, (low + high) // 2)
            proof[node] = instance = _instance(self.step, first, last, vertices[middle])
            if self.form != "path-edge":
                unproven.append((middle, high))
            if self.form != "edge-path":
                unproven.append((low, middle))
            proof |= {premise: None for premise in instance.premises if premise[0] != self.relation}
        return proof


def paths_of(relation: Relation, instances: Instances, given) -> Paths | None:
    """Return the `Paths` of a relation; None unless it is the closure of a relation of facts and has no facts itself. given:
    the names of relations with rules that have explicit facts."""
    rules = instances.rules.get(relation.name, [])
    restricted = relation.lattice or relation.eqrel or relation.choice
    if len(rules) != 2 or relation.arity != 2 or restricted or relation.name in given:
        return None
    steps = [rule for rule in rules if form_of(rule.written, relation.name)]
    bases = [rule for rule in rules if rule not in steps]
    edges = copied_by([rule.written for rule in bases])
    has_facts = any(name == relation.name for name, _ in instances.facts)
    if not edges or edges in instances.rules or has_facts:
        return None
    form, followed = form_of(steps[0].written, relation.name) or ("", "")
    if followed not in (edges, relation.name):
        return None
    return Paths(relation.name, bases[0], steps[0], form, instances.database.tables[edges])


def _trace_back(levels: list[tuple[np.ndarray, np.ndarray]], last: int) -> list[int]:
    """Return the path that ends in a vertex of the last level. levels: as `Paths._levels` yields them."""
    path = [last]
    for vertices, predecessors in reversed(levels):
        path.append(int(predecessors[np.searchsorted(vertices, path[-1])]))
    return path[::-1]


def _instance(rule: InstanceRule, first: int, last: int, middle: int = 0) -> Instance:
    """Return the instance of a closure's rule that derives (first, last). middle: the value of the step's third variable."""
    head_values = {term.name: value for term, value in zip(rule.written.head.args, (first, last), strict=True)}

    def values(terms) -> tuple[int, ...]:
        return tuple(head_values.get(term.name, middle) for term in terms)

    premises = tuple((atom.relation, values(atom.args)) for atom in rule.atoms)
    return Instance(rule, values(rule.variables), premises)
