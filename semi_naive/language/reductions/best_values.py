"""Best values in recursion: relations whose heads have min(…) or max(…) as the last attribute.

    path(y, min(d + w)) :- path(x, d), edge(x, y, w).

A relation has one tuple of each key, with the best value so far; a better value replaces it. So every use in recursion has to
be monotone: a better value in a body never makes a worse one in a head, and never removes a tuple."""

from collections.abc import Iterator, Set

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.reductions.heads import Ops, is_aggregate, is_lattice
from semi_naive.language.single import Single
from semi_naive.language.trees import variable_names, walk, written_name
from semi_naive.language.types.inference import Typing

_BETTER = {"min": -1, "max": 1}  # the direction in which a value improves
_TOWARDS = {"<": 1, "<=": 1, ">": -1, ">=": -1}  # the sign of (right - left) if the comparison is true
_FREE, _MIXED = 0, None  # signs: does not depend on the value; depends on it in no certain direction


def lattices(heads: dict[str, Ops], singles: list[Single]) -> dict[str, str]:
    """Return min or max for each relation that keeps the best value of its last attribute."""
    arities = {single.head.relation: len(single.head.args) for single in singles}
    return {name: next(iter(ops.values())) for name, ops in heads.items() if is_lattice(ops, arities[name])}


def lattice_problems(typing: Typing, ops: dict[str, str], group: Set[str]) -> Iterator[Problem]:
    """Report the uses of best values in one clause that are not monotone. ops: min or max of each lattice; group: the strongly
    connected component of the head's relation."""
    single = typing.single
    head, op = single.head, ops.get(single.head.relation)
    body_atoms = (atom for atom in single.of(syntax.Atom) if atom is not head)
    if op and not is_aggregate(head.args[-1]) and any(atom.relation in group for atom in body_atoms):
        message = f"{head.relation} is aggregated by {op}, and so must be every recursive rule for it"
        yield Problem(message, head.args[-1].span, f"write {op}(…) here")
    if op and not _numeric(typing, head.args[-1]):
        yield Problem(f"{op} in a head is of numbers, unsigned or floats", head.args[-1].span)
    if not group.isdisjoint(ops):
        yield from BestValueUses(typing, ops, group).problems()


def _numeric(typing, arg: syntax.Node) -> bool:
    return typing.kind(arg) in ("number", "unsigned", "float")


class BestValueUses:
    """The uses of the recursion's best values in the body and the head of one clause."""

    def __init__(self, typing: Typing, ops: dict[str, str], group: Set[str]):
        """ops, group: see `lattice_problems`."""
        self.single, self.typing = typing.single, typing
        self.ops = {name: op for name, op in ops.items() if name in group}
        atoms = [literal for literal in self.single.body if isinstance(literal, syntax.Atom)]
        self.atoms = [atom for atom in atoms if atom.relation in self.ops and atom.args]  # those with best values
        # The atom of each variable that is a best value.
        self.values = {atom.args[-1].name: atom for atom in self.atoms if isinstance(atom.args[-1], syntax.Variable)}
        # 1 for a variable that improves by growing, -1 by shrinking, None if neither; others do not depend on best values.
        self.signs: dict[str, int | None] = {n: _BETTER[self.ops[atom.relation]] for n, atom in self.values.items()}
        self.definitions: set[int] = set()  # ids of the equalities that define variables by best values

    def problems(self) -> Iterator[Problem]:
        """Yield the problem of each use that is not monotone."""
        for atom in self.atoms:
            if not isinstance(atom.args[-1], (syntax.Variable, syntax.Underscore)):
                yield self._problem(atom.args[-1], "it is compared with something")
        if not self.signs:
            return
        self._find_signs()
        for literal in self.single.body:
            yield from self._literal(literal)
        yield from self._head()

    def _problem(self, node: syntax.Node, why: str) -> Problem:
        """Return the problem of a use."""
        used = sorted(written_name(name) for name in variable_names(node) if name in self.signs)
        hint = f"a better {', '.join(used) or 'value'} may still be found, and would take the result back"
        return Problem(f"Not monotone: {why}", node.span, hint)

    def _find_signs(self):
        """Find the signs of variables that equalities define by best values: `e = d + w`."""
        constraints = [literal for literal in self.single.body if isinstance(literal, syntax.Constraint)]
        equalities = [constraint for constraint in constraints if constraint.op == "="]
        changed = True
        while changed:
            changed = False
            for equality in equalities:
                for side, other in (equality.args, equality.args[::-1]):
                    if isinstance(side, syntax.Variable) and self._defines(side, other):
                        self.signs[side.name] = self._sign(other)
                        self.definitions.add(id(equality))
                        changed = True

    def _defines(self, side: syntax.Variable, other: syntax.Node) -> bool:
        """True if a side of an equality is a variable without a sign that only the other side binds, by best values."""
        if side.name in self.signs or not variable_names(other) & self.signs.keys():
            return False
        atoms = [literal for literal in self.single.body if isinstance(literal, syntax.Atom)]
        return not any(side.name in variable_names(atom) for atom in atoms)

    def _literal(self, literal: syntax.Node) -> Iterator[Problem]:
        """Yield the problems of a literal."""
        used = variable_names(literal) & self.signs.keys()
        if not used:
            return
        if isinstance(literal, syntax.Atom):
            yield from self._atom(literal)
        elif isinstance(literal, syntax.Constraint) and not any(isinstance(n, syntax.Aggregate) for n in walk(literal)):
            if not self._monotone(literal):
                yield self._problem(literal, "a value that is still being aggregated is compared")
        else:
            use = "negated" if isinstance(literal, syntax.Negation) else "used in an aggregate"
            yield self._problem(literal, f"a value that is still being aggregated is {use}")

    def _atom(self, atom: syntax.Atom) -> Iterator[Problem]:
        """Yield the problems of an atom: the only best value may be that of the atom itself, in its last column."""
        *keys, last = atom.args
        is_own = isinstance(last, syntax.Variable) and self.values.get(last.name) is atom
        for arg in keys if is_own else atom.args:
            if variable_names(arg) & self.signs.keys():
                yield self._problem(arg, "a value that is still being aggregated is joined with another")

    def _monotone(self, literal: syntax.Constraint) -> bool:
        """True if a constraint remains true when best values improve."""
        if literal.op == "=":
            return id(literal) in self.definitions
        if literal.op not in _TOWARDS:
            return False
        left, right = (self._sign(side) for side in literal.args)
        increase = _TOWARDS[literal.op]  # the sign of the change of right - left that keeps the constraint true
        return left in (_FREE, -increase) and right in (_FREE, increase)

    def _head(self) -> Iterator[Problem]:
        """Yield the problems of the head: no key may depend on a best value, and a better value must give a better result."""
        head, op = self.single.head, self.ops.get(self.single.head.relation)
        for arg in head.args[:-1] if op else head.args:
            if variable_names(arg) & self.signs.keys():
                yield self._problem(arg, f"{head.relation} would keep values that have been replaced since")
        if op and self._sign(head.args[-1]) not in (_FREE, _BETTER[op]):
            yield self._problem(head.args[-1], f"a better value in the body does not make a better {op} in the head")

    # -- signs of expressions

    def _sign(self, node: syntax.Node) -> int | None:
        """Return the direction in which an expression moves as the values in it improve."""
        if isinstance(node, syntax.Variable):
            return self.signs.get(node.name, _FREE)
        if not variable_names(node) & self.signs.keys():
            return _FREE
        if not isinstance(node, syntax.Functor):
            return _MIXED
        signs = [sign for arg in node.args if (sign := self._sign(arg)) is not _MIXED]
        return self._functor_sign(node, signs) if len(signs) == len(node.args) else _MIXED

    def _functor_sign(self, node: syntax.Functor, signs: list[int]) -> int | None:
        """Return the direction in which a functor's result changes when best values improve. signs: those of its arguments."""
        is_conversion = node.name in ("to_float", "to_number") and _numeric(self.typing, node.args[0])
        if node.name in ("+", "min", "max") or is_conversion:
            return _common_sign(signs)
        if node.name == "-" and len(signs) == 2 and self.typing.kind(node) != "unsigned":
            return _common_sign([signs[0], -signs[1]])
        if node.name == "neg":
            return -signs[0]
        if node.name in ("*", "/"):
            return self._scaled(node, signs)
        return _MIXED

    def _scaled(self, node: syntax.Functor, signs: list[int]) -> int | None:
        """Return the direction of a product or quotient: that of one operand, if the other is a nonnegative constant."""
        for operand, factor in ((0, 1), (1, 0)):
            constant = node.args[factor]
            is_scale = isinstance(constant, syntax.Number) and constant.value >= 0
            if signs[factor] == _FREE and is_scale and (node.name == "*" or factor == 1):  # of a quotient, the divisor only
                return signs[operand]
        return _MIXED


def _common_sign(signs: list[int]) -> int | None:
    """Return the sign of a function that increases in all arguments, given their signs."""
    moving = {sign for sign in signs if sign != _FREE}
    if len(moving) > 1:
        return _MIXED
    return moving.pop() if moving else _FREE
