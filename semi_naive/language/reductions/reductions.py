"""Relations with a reduction (`ra.reduce`) keep only some of the tuples that rules derive. Each relation may have one kind of
reduction."""

from collections.abc import Iterator
from itertools import combinations

from semi_naive.language import syntax
from semi_naive.language.errors import Problem, Span
from semi_naive.language.reductions.heads import Ops, is_aggregate, op_names
from semi_naive.language.single import Single

# Pairs of reductions that may be combined.
TOGETHER = {("a choice-domain", "subsumptive rules"), ("the qualifier eqrel", "subsumptive rules")}
INLINED = "the qualifier inline"
# Reductions of relations that must not be inlined; other combinations with `inline` have checks of their own.
NEVER_INLINED = ("an attribute of a lattice", "in its heads")


def reduction_problems(relations: syntax.Relations, found: list[Single], heads: dict[str, Ops]) -> Iterator[Problem]:
    """Report relations with two kinds of reduction. found: the clauses; heads: the aggregates of heads, by relation."""
    dominated = {single.head.relation for single in found if single.dominates}
    first = {single.head.relation: single.head.span for single in reversed(found) if any(map(is_aggregate, single.head.args))}
    for name, node in relations.items():
        ways = list(_ways(node, name in dominated))
        if name in heads and name in first:
            ways.append((f"{op_names(heads[name])} in its heads", first[name]))
        for (one, _), (other, span) in combinations(ways, 2):
            if one == INLINED and not other.endswith(NEVER_INLINED) or (one, other) in TOGETHER:
                continue
            hint = "a relation keeps tuples in one way: leave out one of the two"
            yield Problem(f"Relation {name} has {one} and {other}", span, hint)


def _ways(node: syntax.RelationDecl, dominated: bool) -> Iterator[tuple[str, Span]]:
    """Yield (description, place) for each kind of reduction that a declaration requests."""
    if "eqrel" in node.qualifiers:
        yield "the qualifier eqrel", node.span
    if "inline" in node.qualifiers:
        yield INLINED, node.span
    if node.lattices:
        yield "an attribute of a lattice", node.span
    if node.choice.keys:
        yield "a choice-domain", node.choice.span
    if dominated:
        yield "subsumptive rules", node.span
