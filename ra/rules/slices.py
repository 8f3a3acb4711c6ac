"""One rule on several cores of this process: what its first atom has is cut into slices, and each runs the other steps.

Slices meet where their heads are inserted. Each thread sorts its own, and drops what was known before the iteration; only what
is left waits for the others (`Table.insert`). The kernels let go of the interpreter meanwhile.
"""

from collections.abc import Iterator

from semi_naive.ra.ir import Autoinc, Call, Const, Kind, Order, Pack, Range, Term, Test
from semi_naive.ra.rules.batch import Batch, unit
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.steps import AntiJoin, Bind, Context, Join, run_steps

LEAST = 1 << 11  # bindings of a slice: fewer are done before another thread has them
EACH = 1  # slices for each core: all of them look at some of the same tuples


def derivation_slices(derivation: Derivation, context: Context, cores: int, least: int = LEAST) -> Iterator[Batch]:
    """What comes out of a rule's first step, in slices of at least so many bindings; all at once where slices could not be told
    from each other afterwards: symbols and records are numbered as they come."""
    for batch in run_steps(derivation.steps[:1], unit(), context):
        count = min(EACH * cores, batch.size // least)
        if count < 2 or not is_sliceable(derivation):
            yield batch
            continue
        join = uniting(derivation, batch, context)
        if join is None:
            for number in range(count):
                yield batch.slice(number * batch.size // count, (number + 1) * batch.size // count)
        elif join.by_row(batch):
            yield from join.turned(batch).rows(count)
        else:
            turned = join.turned(batch)
            for number in range(count):
                yield Batch(turned.size, pair=(*turned.names, turned.block), share=(number, count))


def uniting(derivation: Derivation, batch: Batch, context: Context) -> Join | None:
    """The next join, if it is one that makes unions: a slice has heads of its own, if it is one of rows, or of new values."""
    join = derivation.steps[1] if len(derivation.steps) > 1 else None
    if not isinstance(join, Join) or join.composed is None or not context.unions:
        return None
    blocks = context.blocks(join.relation, join.part, join.order)
    return join if all(join.unites(batch, block) for block in blocks if block.size) else None


def searched_parts(steps) -> Iterator[tuple[str, str, Order]]:
    """The (relation, part, order) that steps search, or read."""
    for step in steps:
        if isinstance(step, Join | AntiJoin):
            yield step.relation, step.part, step.order
        if hasattr(step, "joins"):  # an Extend
            yield from searched_parts((*step.joins, *step.steps))


def is_sliceable(derivation: Derivation) -> bool:
    """Whether slices of what the first step makes can go on by themselves: `sliceable` steps keep nothing that another slice
    could change."""
    terms = [*derivation.head]
    for step in derivation.steps:
        terms += _terms(step)
    threadable = all(getattr(step, "sliceable", False) and not _may_take_long(step) for step in derivation.steps)
    return threadable and not any(map(_makes, terms))


def _may_take_long(step) -> bool:
    """Whether a step matches a pattern that only the main thread can give up (see `patterns.linear`)."""
    literal = getattr(step, "literal", None)
    if not isinstance(literal, Test) or literal.op != "match":
        return False
    from semi_naive.ra.expressions.patterns import BadRegularExpression, linear

    try:
        return not isinstance(literal.args[0], Const) or not linear(literal.args[0].value)
    except BadRegularExpression:  # who matches it says so
        return False


def _terms(step) -> list[Term]:
    if isinstance(step, Join | AntiJoin):
        return list(step.keys)
    if isinstance(step, Bind):
        return [step.term]
    literal = getattr(step, "literal", None)
    if isinstance(literal, Range):
        return [term for term in (literal.start, literal.stop, literal.step) if term is not None]
    return [getattr(literal, side) for side in ("left", "right") if hasattr(literal, side)] + [*getattr(literal, "args", ())]


def _makes(term: Term) -> bool:
    """Whether a term makes symbols or records, is another each time, or calls a user's function."""
    if isinstance(term, Call):
        return term.op.startswith("@") or term.kind in (Kind.SYMBOL, Kind.RECORD) or any(map(_makes, term.args))
    return isinstance(term, Pack | Autoinc)
