"""Relations with a reduction (`ra.reduce`) keep only some of the tuples that rules derive. A relation may have one kind."""

from collections.abc import Iterator
from itertools import combinations

from semi_naive.language import syntax
from semi_naive.language.errors import Problem, Span
from semi_naive.language.reductions.heads import Ops, is_aggregate, op_names
from semi_naive.language.single import Single

COMBINABLE = {("a choice-domain", "subsumptive rules"), ("the qualifier eqrel", "subsumptive rules")}
INLINED = "the qualifier inline"
# Reductions of relations that must not be inlined; other combinations with `inline` have checks of their own.
NEVER_INLINED = ("an attribute of a lattice", "in its heads")


def reduction_problems(relations: syntax.Relations, singles: list[Single], heads: dict[str, Ops]) -> Iterator[Problem]:
    """Report relations with two kinds of reduction. singles: the clauses; heads: the aggregates of heads, by relation."""
    dominated = {single.head.relation for single in singles if single.dominates}
    heads_backwards = [single.head for single in reversed(singles)]  # so that the span is that of the first aggregate
    aggregated = {head.relation: head.span for head in heads_backwards if any(map(is_aggregate, head.args))}
    for name, node in relations.items():
        reductions = list(_requested_reductions(node, name in dominated))
        if name in heads and name in aggregated:
            reductions.append((f"{op_names(heads[name])} in its heads", aggregated[name]))
        for (reduction, _), (other, span) in combinations(reductions, 2):
            if reduction == INLINED and not other.endswith(NEVER_INLINED) or (reduction, other) in COMBINABLE:
                continue
            hint = "a relation keeps tuples in one way: leave out one of the two"
            yield Problem(f"Relation {name} has {reduction} and {other}", span, hint)


def _requested_reductions(node: syntax.RelationDecl, dominated: bool) -> Iterator[tuple[str, Span]]:
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
