"""The types of a clause's expressions, by Soufflé's analysis.

Every variable (by its name) and every other expression starts as any type at all. Constraints narrow the sets of possible
types until nothing changes; then overloaded functors and numeric constants settle for one kind, which may narrow further.
An empty set is a clash.
"""

from functools import partial
from itertools import chain

from ra.rules.ir import Kind
from semi_naive.language import syntax
from semi_naive.language.functors import INFIX, OVERLOADS, preference
from semi_naive.language.single import Single
from semi_naive.language.trees import walk
from semi_naive.language.types import CONSTANT, KIND, TypeEnvironment

ANY = None  # the set of all types
NUMERIC = (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT)
_ROUNDS = 20  # far more than any clause needs: each round settles at least one functor or constant


def key(node):
    return node.name if isinstance(node, syntax.Variable) else id(node)


class Typing:
    """What is known of the types in one clause."""

    def __init__(self, single: Single, environment: TypeEnvironment, relations: dict[str, syntax.RelationDecl]):
        self.single, self.env, self.relations = single, environment, relations
        self.nodes = [node for literal in single.literals for node in walk(literal)]
        self.negated = {id(node.body) for node in self.nodes if isinstance(node, syntax.Not)}
        self.sets: dict = {}
        self.overloads: dict = {}  # of a functor, by id: the one chosen
        self.numbers: dict = {}  # of a numeric constant, by id: its kind
        for _ in range(_ROUNDS):
            self.sets = {}
            _settle([constraint for node in self.nodes for constraint in self._constraints(node)])
            if not self._choose():
                break

    # -- results

    def types(self, node):
        return self.sets.get(key(node), ANY)

    def kind(self, node) -> Kind | None:
        """The kind of an expression, None if nothing says it."""
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
        """(argument, attribute name, type name) of an atom whose relation, arity and types are in order."""
        relation = self.relations.get(atom.relation)
        if relation is None or len(relation.attributes) != len(atom.args):
            return []
        pairs = zip(atom.args, relation.attributes, strict=True)
        return [(arg, name, type_name) for arg, (name, type_name) in pairs if type_name in self.env]

    # -- constraints: functions without arguments that say whether they changed anything

    def _constraints(self, node):
        if isinstance(node, syntax.Atom):
            return self._atom(node)
        if isinstance(node, syntax.Constraint) and node.args:
            left, right = node.args
            return [partial(self._below, left, right), partial(self._below, right, left)]
        if isinstance(node, syntax.Functor):
            return self._functor(node)
        if isinstance(node, syntax.Record):
            return [partial(self._field, arg, node, at) for at, arg in enumerate(node.args)]
        if isinstance(node, syntax.Aggregate):
            return self._aggregate(node)
        return self._leaf(node)

    def _leaf(self, node):
        if isinstance(node, syntax.String):
            return [partial(self._narrow, node, CONSTANT[Kind.SYMBOL])]
        if isinstance(node, syntax.Number):
            kinds = [self.numbers[id(node)]] if id(node) in self.numbers else literal_kinds(node)
            return [partial(self._one_of, node, [CONSTANT[kind] for kind in kinds])]
        if isinstance(node, syntax.As) and node.type in self.env:
            constant = isinstance(node.value, (syntax.Number, syntax.String, syntax.Nil))
            return [partial(self._narrow, part, node.type) for part in (node, node.value)[: 1 + constant]]
        return []

    def _atom(self, atom):
        if id(atom) not in self.negated:
            return [partial(self._narrow, arg, type_name) for arg, _, type_name in self.attributes(atom)]
        return [
            partial(self._narrow, arg, type_name if base not in KIND and not self.env.is_union(base) else CONSTANT[kind])
            for arg, _, type_name in self.attributes(atom)
            for base, kind in [(self.env.base(type_name), self.env.kind(type_name))]
        ]

    def _functor(self, node):
        chosen, found = self.overloads.get(id(node)), []
        if node.name not in OVERLOADS:
            return []
        if chosen is None:
            found.append(partial(self._overload, node))
        if node.name in INFIX:
            found += [partial(self._same_base, arg, node) for arg in node.args]
        elif chosen is not None:
            found.append(partial(self._narrow, node, CONSTANT[chosen.result]))
            if node.name != "ord":
                found += [partial(self._narrow, arg, CONSTANT[chosen.param(at)]) for at, arg in enumerate(node.args)]
        return found

    def _aggregate(self, node):
        kinds = {"count": NUMERIC[:1], "mean": NUMERIC[2:]}.get(node.op, NUMERIC)
        found = [partial(self._one_of, node, [CONSTANT[kind] for kind in kinds])]
        if node.target is not None:
            found += [partial(self._below, node.target, node), partial(self._below, node, node.target)]
        return found

    # -- how they narrow

    def _set(self, node, types) -> bool:
        changed = self.sets.get(key(node), ANY) != types
        self.sets[key(node)] = types
        return changed

    def _narrow(self, node, name) -> bool:
        """node <: name."""
        return self._set(node, self._meet(self.types(node), frozenset([self.env.skip_aliases(name)])))

    def _below(self, a, b) -> bool:
        """a <: b, where both are expressions."""
        return self._set(a, self._meet(self.types(a), self.types(b)))

    def _meet(self, a, b):
        if a is ANY or b is ANY:
            return b if a is ANY else a
        if not a or not b:
            return frozenset()
        return frozenset(chain.from_iterable(self.env.meet(x, y) for x in a for y in b))

    def _one_of(self, node, names) -> bool:
        types = self.types(node)
        if types is ANY:
            return self._set(node, frozenset(names))
        return self._set(node, frozenset(t for t in types if any(self.env.subtype(t, name) for name in names)))

    def _same_base(self, a, b) -> bool:
        """Arithmetic mixes the subtypes of one predefined type."""
        left, right = self.types(a), self.types(b)
        if left is ANY and right is ANY:
            return False
        if left is ANY or right is ANY:
            node, known = (a, right) if left is ANY else (b, left)
            return self._set(node, self._bases(known))
        common = self._bases(left) & self._bases(right)
        keep = [frozenset(t for t in types if any(self.env.subtype(t, base) for base in common)) for types in (left, right)]
        return self._set(a, keep[0]) | self._set(b, keep[1])

    def _bases(self, types) -> frozenset[str]:
        return frozenset(CONSTANT[self.env.kind(t)] for t in types if self.env.kind(t) != Kind.RECORD)

    def _overload(self, node) -> bool:
        """Once only one overload is possible, its kinds are those of the functor."""
        fitting = self._fitting(node)
        if not fitting:
            return self._set(node, frozenset())
        if len(fitting) > 1:
            return False
        changed, overload = False, fitting[0]
        if node.name != "ord":
            for at, arg in enumerate(node.args):
                changed |= self._only(arg, overload.param(at))
        if node.name not in INFIX and self.types(node) is ANY:
            return self._set(node, frozenset([CONSTANT[overload.result]]))
        return self._only(node, overload.result) | changed

    def _only(self, node, kind) -> bool:
        types = self.types(node)
        return types is not ANY and self._set(node, frozenset(t for t in types if self.env.kind(t) == kind))

    def _fitting(self, node):
        def possible(kind, part):
            types = self.types(part)
            return types is ANY or any(self.env.kind(name) == kind for name in types)

        return [
            overload
            for overload in OVERLOADS[node.name]
            if overload.takes(len(node.args))
            and all(possible(overload.param(at), arg) for at, arg in enumerate(node.args))
            and possible(overload.result, node)
        ]

    def _field(self, element, record, at) -> bool:
        """The element at a position of a record has the type of that field."""
        types = self.types(record)
        if types is ANY:
            return False
        wide = [t for t in types if self.env.kind(t) == Kind.RECORD and len(self.env.fields(t)) > at]
        fields = frozenset(self.env.skip_aliases(f) for t in wide if (f := self.env.fields(t)[at][1]) in self.env)
        return self._set(record, frozenset(wide)) | self._set(element, self._meet(self.types(element), fields))

    # -- choices

    def _choose(self) -> bool:
        """Settle what is still open: functors first, for they may leave a constant only one kind."""
        return self._choose_overloads() or self._choose_numbers()

    def _choose_overloads(self) -> bool:
        before = len(self.overloads)
        for node in self.nodes:
            if isinstance(node, syntax.Functor) and node.name in OVERLOADS and id(node) not in self.overloads:
                if fitting := sorted(self._fitting(node), key=preference):
                    self.overloads[id(node)] = fitting[0]
        return len(self.overloads) > before

    def _choose_numbers(self) -> bool:
        before = len(self.numbers)
        for node in self.nodes:
            if isinstance(node, syntax.Number) and id(node) not in self.numbers:
                kinds = {self.env.kind(name) for name in self.types(node) or ()}
                if chosen := [kind for kind in NUMERIC if kind in kinds]:
                    self.numbers[id(node)] = chosen[0]
        return len(self.numbers) > before


def _settle(constraints):
    changed = True
    while changed:
        changed = False
        for constraint in constraints:
            changed |= constraint()


def literal_kinds(node: syntax.Number) -> tuple[Kind, ...]:
    """What a numeric literal may stand for: 1 for any number, 1u, 1f and 1.5 for one kind."""
    if node.suffix:
        return (Kind.UNSIGNED,) if node.suffix == "u" else (Kind.FLOAT,)
    return (Kind.FLOAT,) if isinstance(node.value, float) else NUMERIC
