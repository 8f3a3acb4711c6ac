"""The steps of a rule: each as a variable and a whole number to be added, as the rule's equations say."""

from semi_naive.language import syntax
from semi_naive.language.single import Single

Step = tuple[str | None, int]  # the sum of a variable and a number; of a constant, None and its value


def as_step(term: syntax.Node) -> Step | None:
    """Return a term in the form (variable, number to be added), or (None, number); None if it has another form.

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
    if left is None or right is None:
        return None
    (left_name, left_number), (right_name, right_number) = left, right
    if right_name is not None and (left_name is not None or term.name == "-"):
        return None
    return left_name or right_name, left_number + right_number * (1 if term.name == "+" else -1)


class Offsets:
    """The variables of a rule that differ by constants, as its equations say: k = j + 1.

    >>> k, j = syntax.Variable("k"), syntax.Variable("j")
    >>> equal = syntax.Constraint("=", (k, syntax.Functor("+", (j, syntax.Number(1)))))
    >>> offsets = Offsets(Single(syntax.Atom("a", (k,)), (equal,), None))
    >>> offsets.between(k, j)
    1
    """

    def __init__(self, single: Single):
        self._parents: dict[str, Step] = {}  # for a variable, another one from which it differs by a constant
        for literal in single.body:
            if isinstance(literal, syntax.Constraint) and literal.op == "=":
                left, right = map(self.of, literal.args)
                if left is not None and right is not None:
                    (name, number), (parent, parent_number) = (left, right) if left[0] is not None else (right, left)
                    if name is not None and name != parent:
                        self._parents[name] = parent, parent_number - number

    def of(self, term: syntax.Node) -> Step | None:
        """Return a term as the sum of a number and the root of its variable: one variable, or None, for all that differ by
        constants. None for a term of another form."""
        step = as_step(term)
        while step is not None and step[0] in self._parents:
            parent, difference = self._parents[step[0]]
            step = parent, step[1] + difference
        return step

    def between(self, later: syntax.Node, earlier: syntax.Node) -> int | None:
        """Return the number of steps that one term is after another; None if that is unknown."""
        after, before = self.of(later), self.of(earlier)
        if after is None or before is None:
            return None
        return after[1] - before[1] if after[0] == before[0] else None

    def is_redundant(self, literal: syntax.Node, root: str) -> bool:
        """True if a literal is an equation of variables with this root: it is among the offsets."""
        if not isinstance(literal, syntax.Constraint) or literal.op != "=":
            return False
        left, right = map(self.of, literal.args)
        return left is not None and left == right and left[0] == root

    def names(self, root: str | None) -> set[str]:
        """Return the variables with this root, which differ by constants."""
        names = {name for name in self._parents if (step := self.of(syntax.Variable(name))) and step[0] == root}
        return names | ({root} if root is not None else set())
