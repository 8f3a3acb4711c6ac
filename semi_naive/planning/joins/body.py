"""A planned body: the steps of a rule or delta version, the order of its joins, and the sizes for which it was chosen."""

from dataclasses import dataclass, field

from semi_naive.planning.joins.fanout import Sizes
from semi_naive.planning.rewrite import variables_of, walk
from semi_naive.ra import ir
from semi_naive.ra.cached import cached
from semi_naive.ra.ir import Atom, Literal, Pack, Rule, Term, Var, Wild
from semi_naive.ra.rules.derive import Derivation

REPLAN_RATIO = 8  # change of a size since the last planning, larger or smaller, at which a body is planned again
MIN_TUPLES = 64  # tuples of a relation up to which its size does not affect the order
MIN_TUPLES_OF_FIRST = 4096  # the same for the relation with which a body begins


@dataclass
class ChosenAtom:
    """One atom of the join order, for `explain`. expected: bindings after the join, estimated; reason: why it was chosen."""

    atom: Atom
    expected: float
    reason: str = ""


@dataclass
class PlannedBody:
    """A compiled rule or delta version: its derivation, and its join order."""

    rule: Rule
    derivation: Derivation
    atoms: list[ChosenAtom] = field(default_factory=list)
    sizes: dict[str, float] = field(default_factory=dict)  # the sizes of the relations when it was planned
    note: str = ""  # the reason why a cyclic body is joined atom by atom
    first: str = ""  # the relation of the delta, if no other atom reads it: every order begins with it

    @cached
    def has_alternatives(self) -> bool:
        """True if there may be a better order: two atoms have only one worth trying."""
        return sum(isinstance(literal, ir.Atom) for literal in self.rule.body) > 2

    def outgrown(self, sizes: Sizes) -> bool:
        """True if a relation has grown or shrunk so much since planning that another order may be better."""
        if not self.has_alternatives:
            return False
        for name, planned in self.sizes.items():
            least = MIN_TUPLES_OF_FIRST if name == self.first else MIN_TUPLES
            now, then = max(sizes.size(name), least), max(planned, least)
            if now > REPLAN_RATIO * then or then > REPLAN_RATIO * now:
                return True
        return False

    @cached
    def searched(self) -> set[tuple[str, ir.Order]]:
        """The indexes that the steps search: (relation, order)."""
        return searched_indexes(self.derivation.steps)


def searched_indexes(body_steps: list) -> set[tuple[str, ir.Order]]:
    """Return the indexes that the steps of a body search, including those inside aggregates, as (relation, order)."""
    searched: set[tuple[str, ir.Order]] = set()
    for step in body_steps:
        searched |= getattr(step, "searched", set())
        searched |= searched_indexes(getattr(step, "steps", []))
    return searched


def names_of_variables(node) -> set[str]:
    """Return the names of the variables of a term, a literal, or an iterable of them."""
    if isinstance(node, Var):  # a fast path: planning spends most of its time in this function
        return {node.name}
    if isinstance(node, Atom) and all(isinstance(term, Var) for term in node.args):
        return {term.name for term in node.args}
    return set(variables_of(node))


def makes_content(term: Term) -> bool:
    """True if a term makes a symbol or a record."""
    return isinstance(term, ir.Call | Pack) and term.kind in (ir.Kind.SYMBOL, ir.Kind.RECORD)


def has_wild(term: Term | Literal) -> bool:
    """True if a term or literal contains `_`."""
    return not isinstance(term, Var) and any(isinstance(node, Wild) for node in walk(term))
