"""Decide whether a recursive best value may be improved by its own consequences.

    close(y, min(d + w)) :- close(x, d), edge(x, y, w).

If no w is negative, no value is better than the value from which it is derived. So the best value of a key is never derived
from a value that it has superseded. With a negative w, or with `max(d, 1)` in a `max`, it may be. If the superseded value then
loses its last derivation, overdeletion misses the better value that was derived from it, as superseded values are not stored.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Atom, Call, Compare, Const, Kind, Rule, Term, Var
from semi_naive.session.maintenance.spread import AllChanges, AnyChange, ColumnBounds, FactChanges, column_blocks

MAX_DEPTH = 20  # equalities of variables that are followed from a term


def may_improve(stratum: Stratum, better: dict[str, str], blocks: Callable[[str], Iterable[Block | ColumnBounds]]) -> bool:
    """True if a rule of a stratum may derive a better value than one that it reads from the stratum.
    better: "min" or "max", of relations with the best value of each key; blocks: returns the blocks of a relation's current and
    lost tuples in its own order. Bounds of blocks are computed once: 2 ns a value.

    >>> import numpy as np
    >>> x, y, d, w = (Var(name, Kind.NUMBER) for name in "xydw")
    >>> def asked(value, weight, best="min"):
    ...     rule = Rule(Atom("p", (y, value)), (Atom("p", (x, d)), Atom("e", (x, y, w))))
    ...     edge = Block.of([np.array([value]) for value in (1, 2, weight)], 1)
    ...     return may_improve(Stratum(("p",), [rule], True), {"p": best}, lambda name: [edge])
    >>> longer = Call("+", (d, w), Kind.NUMBER)
    >>> asked(longer, 0), asked(longer, -1), asked(d, -1), asked(longer, 1, "max"), asked(w, 5)
    (False, True, False, True, True)
    """
    return any(not _never_improves(rule, stratum.relations, better, blocks) for rule in stratum.rules)


def may_lose_best(stratum: Stratum, rules: Any, fact_changes: FactChanges, changes: AllChanges) -> bool:
    """True if a recursion of best values may lose a tuple, and may improve a value by its own consequences. Then overdeletion
    cannot find all suspects. rules: those that maintain the stratum; fact_changes, changes: the changes of explicit facts of
    the stratum, and of relations."""
    all_changes: list[tuple[str, AnyChange]] = [*changes.items(), *fact_changes.items()]
    changed = [(name, change) for name, change in all_changes if name in fact_changes or name in stratum.reads]
    if not any(change.lost_count or name in rules.flipped for name, change in changed):
        return False

    def blocks(name: str) -> Iterator[Block | ColumnBounds]:
        current = rules.relations.contents(name)
        lost = [change.lost for change in (changes.get(name), fact_changes.get(name)) if change and change.lost_count]
        return chain.from_iterable(map(column_blocks, [current if isinstance(current, Table) else current.relation, *lost]))

    return may_improve(stratum, rules.better, blocks)


def _never_improves(rule: Rule, relations: tuple[str, ...], better: dict[str, str], blocks: Callable) -> bool:
    """True if a rule derives no value that is better than one that it reads from the stratum, whose relations are given."""
    read = [atom for atom in rule.body if isinstance(atom, Atom) and atom.relation in relations]
    reductions = {better.get(name) for name in (rule.head.relation, *(atom.relation for atom in read))}
    if not read:
        return True
    if len(reductions) > 1 or None in reductions:  # values of different reductions are not compared
        return False
    order = _TermOrder(rule, 1 if reductions == {"min"} else -1, blocks)
    return all(order.no_better(rule.head.args[-1], atom.args[-1]) for atom in read)


@dataclass
class _TermOrder:
    """Decides whether terms of a rule are never better than others, and their signs. sign: 1 if less is better, -1 if more is
    better. blocks: see `may_improve`."""

    rule: Rule
    sign: int
    blocks: Callable[[str], Iterable[Block | ColumnBounds]]

    def __post_init__(self):
        self.comparisons = [way for literal in self.rule.body if isinstance(literal, Compare) for way in literal.both_ways()]

    def no_better(self, term: Term, bound: Term, depth: int = 0) -> bool:
        """True if a term is never better than `bound`, a variable or a constant. depth: the equalities followed so far."""
        if term == bound and isinstance(term, Var):
            return True
        if isinstance(term, Const) and isinstance(bound, Const):
            return _is_number(term) and _is_number(bound) and self.sign * (_value(term) - _value(bound)) >= 0
        if isinstance(term, Var):
            return depth < MAX_DEPTH and any(self.no_better(equal, bound, depth + 1) for equal in self._equal(term))
        if not isinstance(term, Call):
            return False
        if self.sign < 0 and term.kind == Kind.FLOAT and term.op not in ("min", "max"):
            return False  # NaN is the greatest float, and arithmetic on infinities may make one
        first, *others = term.args
        if term.op == "+":
            pairs = (first, others[0]), (others[0], first)
            return any(self.no_better(term, bound, depth) and self.has_sign(rest, self.sign, depth) for term, rest in pairs)
        if term.op == "-" and others:
            return self.no_better(first, bound, depth) and self.has_sign(others[0], -self.sign, depth)
        if term.op not in ("min", "max"):
            return False
        # The operator that picks the worst operand is no better if any operand is; the other one, if all are.
        enough = any if term.op == ("max" if self.sign > 0 else "min") else all
        return enough(self.no_better(operand, bound, depth) for operand in term.args)

    def has_sign(self, term: Term, sign: int, depth: int = 0) -> bool:
        """True if a term is never negative (`sign` 1), or never positive (-1)."""
        if isinstance(term, Const):
            return _is_number(term) and sign * _value(term) >= 0
        if getattr(term, "kind", None) == Kind.UNSIGNED:
            return sign > 0
        if isinstance(term, Var):
            return self._has_bounded_sign(term, sign) or (
                depth < MAX_DEPTH and any(self.has_sign(equal, sign, depth + 1) for equal in self._equal(term))
            )
        if not isinstance(term, Call):
            return False
        signs = [self.has_sign(operand, sign, depth) for operand in term.args]
        if term.op in ("min", "max"):
            return any(signs) if (term.op == "max") == (sign > 0) else all(signs)
        if term.op == "%":
            return signs[0]  # the sign of the dividend
        # A sum has the sign of its terms; a product or quotient is known for terms that are never negative.
        return all(signs) and (term.op == "+" or sign > 0 and term.op in ("*", "/"))

    def _equal(self, variable: Var) -> Iterable[Term]:
        """Yield the terms that the body equates with a variable."""
        return (right for op, left, right in self.comparisons if op == "=" and left == variable and right != variable)

    def _has_bounded_sign(self, variable: Var, sign: int) -> bool:
        """True if a comparison with a constant, or all values of a column that a variable is in, have the sign."""
        ops = (">", ">=") if sign > 0 else ("<", "<=")
        if any(op in ops and left == variable and isinstance(right, Const) and self.has_sign(right, sign)
               for op, left, right in self.comparisons):  # fmt: skip
            return True
        columns = [(atom, place) for atom in self.rule.body if isinstance(atom, Atom)
                   for place, term in enumerate(atom.args) if term == variable]  # fmt: skip
        return any(all(_column_has_sign(block, place, sign) for block in self.blocks(atom.relation)) for atom, place in columns)


def _column_has_sign(block: Block | ColumnBounds, place: int, sign: int) -> bool:
    """True if no value of the column at `place` has the opposite sign, 1 or -1. A NaN is positive."""
    nearest = 0 if sign > 0 else 1  # the least value decides about +1, the greatest about -1
    bounds_suffice = sign * block.packing.bounds[place][nearest] >= 0  # of the packing: no value is read for them
    return bounds_suffice or sign * block.bounds[place][nearest] >= 0


def _is_number(term: Const) -> bool:
    return isinstance(term.value, int | float)


def _value(term: Const) -> float:
    return cast(float, term.value)
