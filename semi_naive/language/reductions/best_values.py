"""Best values in recursion: relations whose heads have min(…) or max(…) as the last attribute.

    path(y, min(d + w)) :- path(x, d), edge(x, y, w).

A relation has one tuple of each key, with the best value so far; a better value replaces it. So every use in recursion has to
be monotone: a better value in a body never makes a worse one in a head, and never removes a tuple.
"""

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.reductions.heads import Ops, is_aggregate, is_lattice
from semi_naive.language.single import Single
from semi_naive.language.trees import variable_names, walk, walk_all, written_name
from semi_naive.language.types.inference import Typing

_BETTER = {"min": -1, "max": 1}  # the direction in which a value improves
_TOWARDS = {"<": 1, "<=": 1, ">": -1, ">=": -1}  # the sign of (right - left) if the comparison is true
_FREE, _MIXED = 0, None  # signs: does not depend on the value; depends on it in no certain direction


def lattices(heads: dict[str, Ops], singles: list[Single]) -> dict[str, str]:
    """Return min or max for each relation that keeps the best value of its last attribute."""
    arities = {single.head.relation: len(single.head.args) for single in singles}
    return {name: next(iter(ops.values())) for name, ops in heads.items() if is_lattice(ops, arities[name])}


def lattice_problems(typing: Typing, ops: dict[str, str], group: set[str]):
    """Yield the uses in one clause that are not monotone. group: its head's relation, and those in recursion with it."""
    single = typing.single
    head, op = single.head, ops.get(single.head.relation)
    recursive = any(isinstance(node, syntax.Atom) and node.relation in group for node in walk_all(single.body))
    if op and not is_aggregate(head.args[-1]) and recursive:
        message = f"{head.relation} is aggregated by {op}, and so must be every recursive rule for it"
        yield Problem(message, head.args[-1].span, f"write {op}(…) here")
    if op and not _numeric(typing, head.args[-1]):
        yield Problem(f"{op} in a head is of numbers, unsigned or floats", head.args[-1].span)
    yield from uses(typing, ops, group)


def _numeric(typing, arg) -> bool:
    return typing.kind(arg) in ("number", "unsigned", "float")


def uses(typing: Typing, ops: dict[str, str], group: set[str]):
    """Report the uses of best values in one clause that are not monotone; `group` as in `lattice_problems`."""
    yield from _Uses(typing, ops, group).problems()


class _Uses:
    """The uses of the recursion's best values in one clause.

    signs: 1 for a variable that improves by growing, -1 for one that improves by shrinking. Other variables do not depend on
    such values.
    """

    def __init__(self, typing: Typing, ops, group):
        self.single, self.ops, self.typing = typing.single, {n: op for n, op in ops.items() if n in group}, typing
        self.atoms = [a for a in self.single.body if isinstance(a, syntax.Atom) and a.relation in self.ops and a.args]
        self.values = {a.args[-1].name: a for a in self.atoms if isinstance(a.args[-1], syntax.Variable)}
        self.signs: dict[str, int | None] = {n: _BETTER[self.ops[atom.relation]] for n, atom in self.values.items()}
        self.definitions: set[int] = set()  # ids of the equalities that give variables such a value

    def problems(self):
        """Yield the problem of each use that is not monotone."""
        for atom in self.atoms:
            if not isinstance(atom.args[-1], (syntax.Variable, syntax.Underscore)):
                yield self._problem(atom.args[-1], "it is compared with something")
        if not self.signs:
            return
        self._follow()
        for literal in self.single.body:
            yield from self._literal(literal)
        yield from self._head()

    def _problem(self, node, why) -> Problem:
        """Return the problem of a use."""
        used = sorted(written_name(name) for name in variable_names(node) if name in self.signs)
        better = f"a better {', '.join(used) or 'value'} may still be found, and would take the result back"
        return Problem(f"Not monotone: {why}", node.span, better)

    def _follow(self):
        """Find the signs of variables that equalities define by such values: `e = d + w`."""
        changed = True
        while changed:
            changed = False
            for literal in self.single.body:
                if isinstance(literal, syntax.Constraint) and literal.op == "=":
                    for one, other in (literal.args, literal.args[::-1]):
                        if self._defines(one, other):
                            self.signs[one.name] = self._sign(other)
                            self.definitions.add(id(literal))
                            changed = True

    def _defines(self, one, other) -> bool:
        """True if an equality determines a new variable, `one`, from a best value."""
        if not isinstance(one, syntax.Variable) or one.name in self.signs or not variable_names(other) & self.signs.keys():
            return False
        atoms = [literal for literal in self.single.body if isinstance(literal, syntax.Atom)]
        return not any(one.name in variable_names(atom) for atom in atoms)

    def _literal(self, literal):
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
            what = "negated" if isinstance(literal, syntax.Negation) else "used in an aggregate"
            yield self._problem(literal, f"a value that is still being aggregated is {what}")

    def _atom(self, atom):
        """Yield the problems of an atom: best values may only be in its own value column."""
        for at, arg in enumerate(atom.args):
            own = self.values.get(arg.name) is atom and at == len(atom.args) - 1 if isinstance(arg, syntax.Variable) else False
            if not own and variable_names(arg) & self.signs.keys():
                yield self._problem(arg, "a value that is still being aggregated is joined with another")

    def _monotone(self, literal) -> bool:
        """True if a constraint remains true when values improve."""
        if literal.op == "=":
            return id(literal) in self.definitions
        if literal.op not in _TOWARDS:
            return False
        signs = [self._sign(side) for side in literal.args]
        if _MIXED in signs:
            return False
        wanted = _TOWARDS[literal.op]  # better values must move right - left that way
        return signs[0] in (_FREE, -wanted) and signs[1] in (_FREE, wanted)

    def _head(self):
        """Yield the problems of the head: no key may depend on a best value, and a better value must give a better result."""
        head, op = self.single.head, self.ops.get(self.single.head.relation)
        keys, value = (head.args[:-1], head.args[-1]) if op else (head.args, None)
        for arg in keys:
            if variable_names(arg) & self.signs.keys():
                yield self._problem(arg, f"{head.relation} would keep values that have been replaced since")
        if value is not None and self._sign(value) not in (_FREE, _BETTER[op]):
            yield self._problem(value, f"a better value in the body does not make a better {op} in the head")

    # -- signs of expressions

    def _sign(self, node) -> int | None:
        """Return the direction in which an expression moves as the values in it improve."""
        if isinstance(node, syntax.Variable):
            return self.signs.get(node.name, _FREE)
        if not variable_names(node) & self.signs.keys():
            return _FREE
        if not isinstance(node, syntax.Functor):
            return _MIXED
        signs = [self._sign(arg) for arg in node.args]
        return _MIXED if _MIXED in signs else self._functor_sign(node, signs)

    def _functor_sign(self, node, signs):
        """Return the direction in which a functor's result changes when best values improve. signs: the directions of its
        arguments."""
        if node.name in ("+", "min", "max") or node.name in ("to_float", "to_number") and self._from_number(node):
            return _common_sign(signs)
        if node.name == "-" and len(signs) == 2 and self.typing.kind(node) != "unsigned":
            return _common_sign([signs[0], -signs[1]])
        if node.name == "neg":
            return -signs[0]
        if node.name in ("*", "/"):
            return self._scaled(node, signs)
        return _MIXED

    def _from_number(self, node) -> bool:
        return _numeric(self.typing, node.args[0])

    def _scaled(self, node, signs):
        """Return the direction of a product or quotient: that of one operand, if the other is a nonnegative constant."""
        for at, other in ((0, 1), (1, 0)):
            factor = node.args[other]
            constant = isinstance(factor, syntax.Number) and factor.value >= 0
            if signs[other] == _FREE and constant and (node.name == "*" or other == 1):
                return signs[at]
        return _MIXED


def _common_sign(signs) -> int | None:
    moving = {sign for sign in signs if sign != _FREE}
    return _FREE if not moving else moving.pop() if len(moving) == 1 else _MIXED
