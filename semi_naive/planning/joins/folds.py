"""Rules whose head aggregates their whole body, as steps: the body is evaluated once, and folded by the key
(`ra.rules.folding`)."""

from semi_naive.planning.joins.body import Compiler, names_of_variables
from semi_naive.planning.rewriting.whole_bodies import FoldedBody
from semi_naive.ra.ir import Compare, Const, Rule
from semi_naive.ra.rules.folding import Folded


def fold_steps(rule: Rule, fold: FoldedBody, compiler: Compiler, after: Compiler) -> list:
    """Return the steps of a rule whose head aggregates its whole body, and set up the two new compilers: one for the body, and
    one for the literals that read the results."""
    compiler.every = compiler.first_joined = compiler.weighs = True
    steps = compiler.compile(fold.body, outside=fold.outside)
    names = {*fold.keys, *(aggregate.result.name for aggregate in fold.aggregates)}
    rest = after.compile(fold.after, start=names, outside=names_of_variables(rule.head))
    return [Folded(fold.keys, fold.aggregates, steps, _least_count(fold)), *rest]


def _least_count(fold: FoldedBody) -> int:
    """Return the least result of the only aggregate that the comparisons `result > constant` let through; 1 without any."""
    least = 1
    for literal in fold.after:
        if isinstance(literal, Compare) and len(fold.aggregates) == 1 and literal.left == fold.aggregates[0].result:
            if literal.op == ">" and isinstance(literal.right, Const) and isinstance(literal.right.value, int):
                least = max(least, literal.right.value + 1)
    return least
