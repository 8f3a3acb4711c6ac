"""The steps of a rule: each as a variable and a whole number to be added, as the rule's equations say."""

from semi_naive.language import syntax
from semi_naive.language.single import Single

Step = tuple[str | None, int]  # a variable, or None for a constant, and what is added to it


def as_step(term) -> Step | None:
    """Return a term as a variable and a number, or as a number alone; None if it is anything else.

    >>> k, one = syntax.Variable("k"), syntax.Number(1)
    >>> as_step(k), as_step(syntax.Functor("+", (k, one))), as_step(syntax.Functor("-", (k, one))), as_step(one)
    (('k', 0), ('k', 1), ('k', -1), (None, 1))
    """
    if isinstance(term, syntax.Variable):
        return term.name, 0
    if isinstance(term, syntax.Number):
        return (None, term.value) if isinstance(term.value, int) and term.suffix != "f" else None
    if not isinstance(term, syntax.Functor) or term.name not in ("+", "-") or len(term.args) != 2:
        return None
    left, right = map(as_step, term.args)
    if left is None or right is None or right[0] is not None and (left[0] is not None or term.name == "-"):
        return None
    return left[0] or right[0], left[1] + right[1] * (1 if term.name == "+" else -1)


class Offsets:
    """The variables of a rule that differ by constants, as its equations say: k = j + 1.

    >>> k, j = syntax.Variable("k"), syntax.Variable("j")
    >>> equal = syntax.Constraint("=", (k, syntax.Functor("+", (j, syntax.Number(1)))))
    >>> offsets = Offsets(Single(syntax.Atom("a", (k,)), (equal,), None))
    >>> offsets.between(k, j)
    1
    """

    def __init__(self, single: Single):
        self._above: dict[str, Step] = {}
        for literal in single.body:
            if isinstance(literal, syntax.Constraint) and literal.op == "=":
                sides = [self.of(side) for side in literal.args]
                if None not in sides:
                    self._join(*sides)

    def _join(self, one: Step, other: Step) -> None:
        if one[0] is None:
            one, other = other, one
        if one[0] is not None and one[0] != other[0]:
            self._above[one[0]] = other[0], other[1] - one[1]

    def of(self, term) -> Step | None:
        """Return a term as the first of its variables and a number."""
        found = as_step(term)
        while found is not None and found[0] in self._above:
            name, more = self._above[found[0]]
            found = name, found[1] + more
        return found

    def between(self, later, earlier) -> int | None:
        """How many steps one term is after another; None if that is unknown."""
        one, other = self.of(later), self.of(earlier)
        return one[1] - other[1] if one is not None and other is not None and one[0] == other[0] else None

    def says(self, literal, root: str) -> bool:
        """True if a literal only says what is known of variables that differ from one by constants."""
        if not isinstance(literal, syntax.Constraint) or literal.op != "=":
            return False
        left, right = map(self.of, literal.args)
        return left is not None and left == right and left[0] == root

    def names(self, root: str | None) -> set[str]:
        """Return the variables that differ from one by constants."""
        found = {name for name in self._above if (step := self.of(syntax.Variable(name))) and step[0] == root}
        return found | ({root} if root is not None else set())
