"""Infer the types of a clause's expressions, by Soufflé's analysis.

Every variable (by its name) and every other expression starts as any type at all. Constraints narrow the sets of possible
types until nothing changes; then overloaded functors and numeric constants settle for one kind, which may narrow further.
A functor with narrowed arguments is settled before one without: in `to_string(n), n = range(0, 4)` the range is first, and
becomes one of numbers. An empty set is a clash.

The heads of one clause are typed together: in `a(to_string(n)), b(n) :- n = range(0, 4)` both heads have the n that b requires.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from semi_naive.language import syntax
from semi_naive.language.single import Single
from semi_naive.language.trees import walk
from semi_naive.language.types.signatures import INFIX, OVERLOADS, Overload, overload_preference
from semi_naive.language.types.types import CONSTANT, TypeEnvironment
from semi_naive.ra.ir import Kind

ANY = None  # the set of all types
NUMERIC = (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT)
_OF_HEADS = {
    "count": NUMERIC[:2],
    "sum": NUMERIC,
    "mean": NUMERIC[2:],
}  # functors that aggregate in heads; min and max are also plain functors


def key(node):
    return node.name if isinstance(node, syntax.Variable) else id(node)


def typed(single: Single, environment: TypeEnvironment, relations: dict[str, syntax.RelationDecl]) -> "Typing":
    """Return the types of a clause, inferred together with the other heads that it was written with; separately if they
    disagree."""
    heads = single.clause.beside or single.clause.heads
    if len(heads) > 1:
        together = Typing(
            single, environment, relations, [syntax.Negation(_without_aggregates(head), span=head.span) for head in heads]
        )
        if not together.clashes:
            return together
    return Typing(single, environment, relations)


def _without_aggregates(head: syntax.Atom) -> syntax.Atom:
    """Return the head without aggregated arguments, whose variables are not the clause's."""
    plain = (syntax.Underscore(span=arg.span) if any(isinstance(n, syntax.Aggregate) for n in walk(arg)) else arg
             for arg in head.args)  # fmt: skip
    return replace(head, args=tuple(plain))


class Typing:
    """The inferred types of one clause. beside: further literals that constrain its variables."""

    def __init__(
        self, single: Single, environment: TypeEnvironment, relations: dict[str, syntax.RelationDecl], beside: Sequence = ()
    ):
        self.single, self.env, self.relations = single, environment, relations
        self.nodes = [node for literal in single.literals for node in walk(literal)]
        self._all = self.nodes + [node for literal in beside for node in walk(literal)]
        self.negated = {id(node.body) for node in self._all if isinstance(node, syntax.Negation)}
        self.sets: dict = {}  # for each expression's key, the possible types by name; ANY if it is missing
        self.overloads: dict[int, Overload] = {}  # the chosen overload of each functor, by id
        self.numbers: dict[int, Kind] = {}  # the chosen kind of each numeric constant, by id
        constraining = [
            node for node in self._all if node.__class__ is not syntax.Variable
        ]  # these nodes constrain nothing by themselves
        constraints = [constraint for node in constraining for constraint in self._constraints(node)]
        while constraints:
            self._settle(constraints)
            if not (added := self._choose()):
                break
            constraints += added

    # -- results

    @property
    def clashes(self) -> bool:
        """True if an expression has no possible type."""
        return frozenset() in self.sets.values()

    def types(self, node):
        return self.sets.get(key(node), ANY)

    def kind(self, node) -> Kind | None:
        """Return the kind of an expression; None if it is undetermined."""
        if isinstance(node, syntax.Functor) and id(node) in self.overloads:
            return self.overloads[id(node)].result
        if isinstance(node, syntax.Number):
            return self.numbers.get(id(node))
        types = self.types(node)
        kinds = {self.env.kind(name) for name in types} if types else set()
        return kinds.pop() if len(kinds) == 1 else None

    def is_kind(self, node, kind: Kind) -> bool:
        types = self.types(node)
        return bool(types) and all(self.env.kind(name) == kind for name in types)

    def attributes(self, atom: syntax.Atom):
        """Return (argument, attribute name, type name) for an atom whose relation, arity and types are valid."""
        relation = self.relations.get(atom.relation)
        if relation is None or len(relation.attributes) != len(atom.args):
            return []
        pairs = zip(atom.args, relation.attributes, strict=True)
        return [(arg, name, type_name) for arg, (name, type_name) in pairs if type_name in self.env]

    # -- constraints: functions without arguments that say whether they changed anything

    def _settle(self, constraints):
        """Apply constraints until no set of types changes."""
        changed = True
        while changed:
            changed = False
            for constraint in constraints:
                changed |= constraint()

    def _constraints(self, node):
        """Return the constraints that a node implies: functions that narrow sets of types, and return True if they did."""
        if isinstance(node, syntax.Atom):
            return self._atom(node)
        if isinstance(node, syntax.Constraint) and node.args:
            return self._alike(*node.args)
        if isinstance(node, syntax.Functor):
            return self._functor(node)
        if isinstance(node, syntax.RecordInit):
            return [partial(self._field, key(arg), key(node), at) for at, arg in enumerate(node.args)]
        if isinstance(node, syntax.BranchInit):
            return self._branch(node)
        if isinstance(node, syntax.Aggregate) and node.init is not None:
            return self._user_aggregate(node)
        if isinstance(node, syntax.Aggregate):
            kinds = {"count": NUMERIC[:1], "mean": NUMERIC[2:]}.get(node.op, NUMERIC)
            return [self._of_kinds(node, kinds), *(self._alike(node.target, node) if node.target is not None else [])]
        return self._leaf(node)

    def _leaf(self, node):
        """Return the constraints of a constant or a cast."""
        if isinstance(node, syntax.String):
            return [self._is(node, CONSTANT[Kind.SYMBOL])]
        if isinstance(node, syntax.Number):
            return [self._of_kinds(node, literal_kinds(node))]
        if isinstance(node, syntax.As) and node.type in self.env:
            constant = isinstance(node.value, (syntax.Number, syntax.String, syntax.Nil))
            return [self._is(part, node.type) for part in (node, node.value)[: 1 + constant]]
        return []

    def _atom(self, atom):
        """Return the constraints of an atom: its arguments have the types of the attributes; loosely, if it is negated."""
        if id(atom) not in self.negated:
            return [self._is(arg, type_name) for arg, _, type_name in self.attributes(atom)]
        found = [(arg, type_name) for arg, _, type_name in self.attributes(atom) if not self.env.branches(type_name)]
        return [self._is(arg, self._loosely(type_name)) for arg, type_name in found]

    def _branch(self, node):
        """Return the constraints of a branch: it has the type that declares its name; its arguments have the types of its
        fields."""
        if (found := self.env.branch(node.name)) is None:
            return []
        name, branch = found
        pairs = zip(node.args, branch.fields, strict=False) if len(node.args) == len(branch.fields) else ()
        return [self._is(node, name), *(self._is(arg, of) for arg, (_, of) in pairs if of in self.env)]

    def _loosely(self, name) -> str:
        """Constrain an argument of a head or a negated atom to the kind or the record type. A branch is not constrained."""
        kind = self.env.kind(name)
        return name if kind == Kind.RECORD else CONSTANT[kind]

    def _functor(self, node):
        """Return the constraints of a functor."""
        if node.name.startswith("@"):
            return self._user_functor(node)
        if node.name in _OF_HEADS:
            return [
                self._of_kinds(node, _OF_HEADS[node.name]),
                *(self._alike(*node.args, node) if node.name != "count" else []),
            ]
        if node.name not in OVERLOADS:
            return []
        infix = [partial(self._same_base, key(arg), key(node)) for arg in node.args if node.name in INFIX]
        return [partial(self._overload, node), *infix]

    def _user_functor(self, node):
        """Return the constraints of a user-defined functor: its result and arguments have the declared types."""
        declared = self.env.functors.get(node.name[1:])
        if declared is None or len(declared.parameters) != len(node.args):
            return []
        pairs = [(node, declared.result), *zip(node.args, (type_ for _, type_ in declared.parameters), strict=True)]
        return [self._is(part, type_) for part, type_ in pairs if type_ in self.env]

    def _user_aggregate(self, node):
        """Return the constraints of a user-defined aggregate: its result and initial value have the functor's type, and its
        target that of the second parameter."""
        declared = self.env.functors.get(node.op[2:])
        if declared is None or len(declared.parameters) != 2:
            return []
        pairs = [(node, declared.result), (node.init, declared.result), (node.target, declared.parameters[1][1])]
        return [self._is(part, type_) for part, type_ in pairs if type_ in self.env]

    def _is(self, node, name):
        """node <: name."""
        return partial(self._narrow, key(node), frozenset([self.env.skip_aliases(name)]))

    def _alike(self, a, b):
        """a <: b and b <: a."""
        return [partial(self._below, key(a), key(b)), partial(self._below, key(b), key(a))]

    def _of_kinds(self, node, kinds):
        return partial(self._one_of, key(node), frozenset(kinds), frozenset(CONSTANT[kind] for kind in kinds))

    # -- how they narrow the set under a key

    def _set(self, at, types) -> bool:
        """Set the possible types of an expression, given by its key; True if they changed."""
        changed = self.sets.get(at, ANY) != types
        self.sets[at] = types
        return changed

    def _narrow(self, at, names) -> bool:
        types = self.sets.get(at, ANY)
        return types != names and self._set(at, self._meet(types, names))

    def _below(self, a, b) -> bool:
        types = self.sets.get(b, ANY)
        return types is not ANY and self._narrow(a, types)

    def _meet(self, a, b):
        """Return the possible types of an expression that must be in two sets of types."""
        if a is ANY or b is ANY:
            return b if a is ANY else a
        return frozenset(chain.from_iterable(self.env.meet(x, y) for x in a for y in b))

    def _one_of(self, at, kinds, names) -> bool:
        """Restrict an expression to types of some kinds; True if its types changed. names: all these types."""
        types = self.sets.get(at, ANY)
        if types is ANY:
            return self._set(at, names)
        return self._set(at, frozenset(name for name in types if self.env.kind(name) in kinds))

    def _same_base(self, a, b) -> bool:
        """Constrain an operand and the result of arithmetic: they may have different subtypes of one predefined type. a, b:
        their keys; True if a type changed."""
        left, right = self.sets.get(a, ANY), self.sets.get(b, ANY)
        if left is ANY or right is ANY:
            at, known = (a, right) if left is ANY else (b, left)
            return known is not ANY and self._set(at, frozenset(CONSTANT[kind] for kind in self._kinds(known)))
        common = self._kinds(left) & self._kinds(right)
        keep = [frozenset(name for name in types if self.env.kind(name) in common) for types in (left, right)]
        return self._set(a, keep[0]) | self._set(b, keep[1])

    def _kinds(self, types) -> set[Kind]:
        return {self.env.kind(name) for name in types} - {Kind.RECORD}

    def _overload(self, node) -> bool:
        """Apply the overloads that still fit: the last one determines the types of a functor and its arguments; its result may
        be determined earlier. True if a type changed."""
        fitting = self._fitting(node)
        if not fitting:
            return self._set(key(node), frozenset())
        changed = False
        if node.name not in INFIX and self.types(node) is ANY and len({overload.result for overload in fitting}) == 1:
            changed = self._set(key(node), frozenset([CONSTANT[fitting[0].result]]))
        if len(fitting) > 1:
            return changed
        if node.name != "ord":
            for at, arg in enumerate(node.args):
                changed |= self._only(arg, fitting[0].param(at))
        return self._only(node, fitting[0].result) | changed

    def _only(self, node, kind) -> bool:
        types = self.types(node)
        return types is not ANY and self._set(key(node), frozenset(name for name in types if self.env.kind(name) == kind))

    def _fitting(self, node) -> list[Overload]:
        """Return the overloads of a functor that fit the possible types of its arguments and result."""
        candidates = [overload for overload in OVERLOADS[node.name] if overload.takes(len(node.args))]
        for at, part in enumerate([*node.args, node]):
            if (types := self.types(part)) is not ANY:
                kinds = {self.env.kind(name) for name in types}
                candidates = [c for c in candidates if (c.result if part is node else c.param(at)) in kinds]
        return candidates

    def _field(self, element, record, at) -> bool:
        """The element at a position of a record has the type of that field."""
        types = self.sets.get(record, ANY)
        if types is ANY:
            return False
        wide = [t for t in types if self.env.kind(t) == Kind.RECORD and len(self.env.fields(t)) > at]
        fields = frozenset(self.env.skip_aliases(f) for t in wide if (f := self.env.fields(t)[at][1]) in self.env)
        return self._set(record, frozenset(wide)) | self._set(element, self._meet(self.sets.get(element, ANY), fields))

    # -- choices

    def _choose(self) -> list:
        """Choose overloads, or kinds of constants, for some undetermined nodes, and return the resulting constraints. Functors
        come first, as they may determine a constant."""
        undetermined = [node for node in self._all if isinstance(node, syntax.Functor) and node.name in OVERLOADS]
        undetermined = [node for node in undetermined if id(node) not in self.overloads]
        informed = [node for node in undetermined if not any(self.types(arg) is ANY for arg in node.args)]
        for functors in (informed, undetermined):
            if found := [constraint for node in functors for constraint in self._choose_overload(node)]:
                return found
        numbers = [node for node in self._all if isinstance(node, syntax.Number) and id(node) not in self.numbers]
        return [constraint for node in numbers for constraint in self._choose_number(node)]

    def _choose_overload(self, node):
        """Fix a functor to its preferred overload that fits, if any, and yield the constraints that follow. An operator only
        restricts its result, as its operands may have different subtypes; `ord` takes an argument of any type."""
        for overload in sorted(self._fitting(node), key=overload_preference)[:1]:
            self.overloads[id(node)] = overload
            if node.name not in INFIX:
                yield self._is(node, CONSTANT[overload.result])
                for at, arg in enumerate(node.args if node.name != "ord" else ()):
                    yield self._is(arg, CONSTANT[overload.param(at)])
            else:
                yield partial(self._only, node, overload.result)

    def _choose_number(self, node):
        """Choose the first possible kind of a numeric constant, and yield the resulting constraint."""
        kinds = {self.env.kind(name) for name in self.types(node) or ()}
        for kind in [kind for kind in NUMERIC if kind in kinds][:1]:
            self.numbers[id(node)] = kind
            yield self._of_kinds(node, [kind])


def literal_kinds(node: syntax.Number) -> tuple[Kind, ...]:
    """Return the possible kinds of a numeric literal: any number for 1; one kind for 1u, 1f and 1.5."""
    if node.suffix:
        return (Kind.UNSIGNED,) if node.suffix == "u" else (Kind.FLOAT,)
    return (Kind.FLOAT,) if isinstance(node.value, float) else NUMERIC
