"""Detect strata of pairs that follow the edges of a relation, for which there are faster methods than running their rules.

    path(x, y) :- edge(x, y).                       or any other base
    path(x, z) :- path(x, y), edge(y, z).           or edge(x, y), path(y, z); of a closure also path(x, y), path(y, z)

If the edges are its base, the relation is a transitive closure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from semi_naive.planning.detect_walk import has_pairs_only, step_of
from semi_naive.planning.strata import Stratum
from semi_naive.ra.ir import Atom, Rule

if TYPE_CHECKING:
    from semi_naive.config import Config
    from semi_naive.running.relations.database import Database

MIN_JOB_EDGES = 4096  # edges of a closure from which a job is started immediately; with fewer the driver tries first
SPARSE_FANOUT = 0.5  # edges that follow an edge: with fewer, the closure is likely to have at most two pairs for each edge


@dataclass
class ReachabilityShape:
    """A stratum whose pairs (`relation`) follow `edges`, by the rule of that name in `semi_naive.config.RULES`. closure: the
    edges are also its base."""

    relation: str
    edges: str
    rule: str
    closure: bool

    @property
    def column(self) -> int:
        """The column that is carried."""
        return int(self.rule == "edge-path")

    @property
    def reason(self) -> str:
        """The reason for the decomposed plan, as text."""
        rule = "path-edge" if self.column == 0 else "edge-path"  # a closure by path-path is evaluated as path-edge
        shape = "a transitive closure" if self.closure else f"it follows {self.edges}"
        return f"{shape}; {rule} carries {'xz'[self.column]} unchanged and the edges fit every host: no shuffle is needed"

    def large(self, database: "Database", config: "Config") -> bool:
        """True if the closure is worth a job before the driver has tried: with many edges, and many more expected pairs."""
        if not self.closure or config.local_tuples == 0:  # with 0 the driver never tries
            return self.closure
        if database.count(self.edges) <= MIN_JOB_EDGES:
            return False
        return database.join_fanout(self.edges, (1,), self.edges, (0,)) >= SPARSE_FANOUT


def reachability_shape(stratum: Stratum, database: "Database", config: "Config") -> ReachabilityShape | None:
    """Return the shape of a stratum whose pairs follow the edges of a relation; None for a stratum of another form."""
    if len(stratum.relations) != 1 or not stratum.recursive:
        return None
    (name,) = stratum.relations
    relation = database.program.relations[name]
    bases = [rule for rule in stratum.rules if all(atom.relation != name for atom in rule.body if isinstance(atom, Atom))]
    steps = [rule for rule in stratum.rules if rule not in bases]
    if relation.arity != 2 or not relation.plain or len(steps) != 1:
        return None
    if (form := form_of(steps[0], name)) is None:
        return None
    form_name, edges = form
    # pairs that are given as facts need not be paths
    copied, facts = copied_by(bases), name in database.on_partitions or database.tables[name].count
    closure = bool(copied) and not facts and edges in (copied, name)  # path-path follows the relation itself
    # With max_iterations, path-path would be evaluated as another rule, whose iterations reach less far.
    if form_name == "path-path" and (not closure or config.max_iterations):
        return None
    return ReachabilityShape(name, copied if closure else edges, form_name, closure)


def copied_by(bases: list[Rule]) -> str:
    """Return the relation that the only rule without recursion copies; "" if there is no such rule."""
    if len(bases) != 1 or len(bases[0].body) != 1 or not has_pairs_only(bases[0]):
        return ""
    (atom,) = bases[0].body
    head, body = ([term.name for term in side.args] for side in (bases[0].head, atom))
    return atom.relation if head == body and head[0] != head[1] else ""


def form_of(rule: Rule, name: str) -> tuple[str, str] | None:
    """Return (name of the form, see `semi_naive.config.RULES`; relation that the rule follows) of a recursive rule for the
    relation `name`, with its atoms in any order; None for a rule of another form."""
    if step := step_of(rule, {name}):
        carried, edges, backwards = step
        # the other walks follow the inverse of the edges
        return (("path-edge", "edge-path")[carried], edges) if backwards == bool(carried) else None
    if len(rule.body) != 2 or not has_pairs_only(rule) or {atom.relation for atom in rule.body} != {name}:
        return None
    head, *body = ([term.name for term in atom.args] for atom in (rule.head, *rule.body))
    chains = ((a, b, d) for (a, b), (c, d) in (body, body[::-1]) if b == c and [a, d] == head)
    return ("path-path", name) if any(len(set(chain)) == 3 for chain in chains) else None
