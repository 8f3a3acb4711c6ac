"""Strata of a shape for which there is something better than running their rules: a transitive closure.

    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).       or edge(x, y), path(y, z), or path(x, y), path(y, z)

is what `transitive_closure` evaluates, with its plans: decomposed where the edges fit every host, otherwise balanced.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.closure import choose
from semi_naive.io.edges import Edges
from semi_naive.ra.rules.ir import Atom, Rule, Var

SMALL = 4096  # edges from which it is worth a job at once; fewer are tried in the driver first


@dataclass
class ClosureShape:
    """`relation` is the transitive closure of `edges`, written by the rule of that name in `semi_naive.config.RULES`."""

    relation: str
    edges: str
    rule: str

    def large(self, database, config) -> bool:
        return config.local_tuples == 0 or database.count(self.edges) > SMALL

    def plan(self, database, config) -> tuple[str, str]:
        """The plan of the closure, and the reason for it."""
        return choose("auto", self._config(config), round(database.count(self.edges)))

    def _config(self, config):
        return config.with_options({"rule": "path-edge" if self.rule == "path-path" else self.rule})

    def run(self, database, cluster, config, tell, watch=None) -> dict:
        """Evaluate; the relation is on the partitions then. Returns the trace."""
        from semi_naive.evaluation import Evaluation

        plan, reason = self.plan(database, config)
        columns, config = database.columns(self.edges), self._config(config)
        progress = tell and (lambda iteration, delta, tuples, **_: tell(iteration, delta, tuples))
        edges = Edges(np.ascontiguousarray(columns.T), None)
        closure = Evaluation(cluster.sc, config, progress, plan, reason, watch).run(edges)
        database.spread[self.relation] = ClosureAnswer(closure)
        return closure.trace


class ClosureAnswer:
    """A closure among a run's relations."""

    def __init__(self, closure):
        self.closure = closure

    @property
    def count(self) -> int:
        return self.closure.count()

    def columns(self) -> np.ndarray:
        """To this process: 16 bytes a pair."""
        return np.ascontiguousarray(self.closure.to_numpy().T)

    def close(self) -> None:
        self.closure.close()


def closure_of(stratum, rules: list[Rule], database, read_by: set[int]) -> ClosureShape | None:
    """What the stratum is the closure of, if it is one that nothing else in the program reads."""
    if len(stratum.relations) != 1 or len(rules) != 2 or not stratum.recursive or read_by:
        return None
    (name,) = stratum.relations
    relation = database.program.relations[name]
    if relation.arity != 2 or relation.lattice or database.tables[name].count or database.tables[name].new:
        return None
    bases = [rule for rule in rules if _atoms(rule) and all(atom.relation != name for atom in rule.body)]
    steps = [rule for rule in rules if _atoms(rule) and any(atom.relation == name for atom in rule.body)]
    if len(bases) != 1 or len(steps) != 1 or len(bases[0].body) != 1 or len(steps[0].body) != 2:
        return None
    edges = bases[0].body[0].relation
    if edges in database.spread or not _same(bases[0].head.args, bases[0].body[0].args):
        return None
    rule = _form(steps[0], name, edges)
    return ClosureShape(name, edges, rule) if rule else None


def _atoms(rule: Rule) -> bool:
    """Whether the body is atoms of two variables each, and nothing else."""
    parts = [rule.head, *rule.body]
    return all(isinstance(part, Atom) and len(part.args) == 2 and all(isinstance(t, Var) for t in part.args) for part in parts)


def _same(head, body) -> bool:
    return [term.name for term in head] == [term.name for term in body] and head[0].name != head[1].name


def _form(rule: Rule, name: str, edges: str) -> str | None:
    """The name of the recursive rule's form, whichever atom is written first."""
    (x, z), forms = [term.name for term in rule.head.args], {(name, edges): "path-edge", (edges, name): "edge-path"}
    forms[name, name] = "path-path"
    for first, second in (rule.body, rule.body[::-1]):
        (a, b), (c, d) = ([term.name for term in atom.args] for atom in (first, second))
        if (a, d) == (x, z) and b == c and len({a, b, d}) == 3 and (first.relation, second.relation) in forms:
            return forms[first.relation, second.relation]
    return None
