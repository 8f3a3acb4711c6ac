"""Detect strata that walk along edges: each partition can run many iterations of them independently, in one job.

path(x, z) :- path(x, y), edge(y, z).        carries x; or edge(x, y), path(y, z), which carries z"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from semi_naive.ra.ir import Atom, Rule, Var

if TYPE_CHECKING:
    from semi_naive.config import Config
    from semi_naive.running.driver.local import Local


@dataclass(frozen=True)
class LinearWalk:
    """The form of all recursive rules of a stratum: path(x, y) and edge(y, z) derive path(x, z). carried: the place of x;
    edges: the edge relation of each rule, and True if it is walked backwards."""

    relation: str
    carried: int
    edges: tuple[tuple[str, bool], ...]

    @property
    def order(self) -> tuple[int, int]:
        """The order of the home index: the carried column first."""
        return self.carried, 1 - self.carried


def walk_of(local: "Local", config: "Config") -> LinearWalk | None:
    """Return the walk of a stratum of one relation; None if its recursive rules do not all have that form, carry different
    columns, or may not run ahead by the settings. local: the evaluation of the stratum in the driver."""
    if not local.recursive or len(local.stratum.relations) != 1 or local.limits:
        return None
    if not config.run_ahead or config.policy == "paper":  # the paper does not run ahead
        return None
    (name,) = local.stratum.relations
    steps_of_rules = [step_of(rule, {name}) for rule in local.recursive_rules]
    steps = {step for step in steps_of_rules if step}
    carries_one_column = None not in steps_of_rules and len({carried for carried, _, _ in steps}) == 1
    if not carries_one_column or not local.database.program.relations[name].plain:
        return None
    carried, _, _ = next(iter(steps))
    return LinearWalk(name, carried, tuple(sorted((edges, backwards) for _, edges, backwards in steps)))


def has_pairs_only(rule: Rule) -> bool:
    """True if all literals of the rule are atoms of two variables."""
    parts = [rule.head, *rule.body]
    return all(isinstance(part, Atom) and len(part.args) == 2 and all(isinstance(t, Var) for t in part.args) for part in parts)


def step_of(rule: Rule, relations: set[str]) -> tuple[int, str, bool] | None:
    """Return (place of the carried column, edge relation, True if edges are walked backwards) of a rule with one atom of the
    stratum and one atom of edges; None for a rule of another form. relations: those of the stratum."""
    if len(rule.body) != 2 or not has_pairs_only(rule) or sum(atom.relation in relations for atom in rule.body) != 1:
        return None
    path, edge = sorted(rule.body, key=lambda atom: atom.relation not in relations)
    head_names, path_names, edge_names = ([term.name for term in part.args] for part in (rule.head, path, edge))
    for carried in (0, 1):
        x, y, z = path_names[carried], path_names[1 - carried], head_names[1 - carried]
        if head_names[carried] == x and len({x, y, z}) == 3 and sorted(edge_names) == sorted((y, z)):
            return carried, edge.relation, edge_names[0] == z
    return None
