"""Infer the types of a clause's expressions, by Soufflé's analysis.

Every variable (by its name) and every other expression starts as any type at all. Constraints narrow the sets of possible
types until nothing changes; then overloaded functors and numeric constants settle for one kind, which may narrow further.
A functor with narrowed arguments is settled before one without: in `to_string(n), n = range(0, 4)` the range is first, and
becomes one of numbers. An empty set is a clash.

The heads of one clause are typed together: in `a(to_string(n)), b(n) :- n = range(0, 4)` both heads have the n that b requires.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
Types = frozenset[str] | None  # the possible types of an expression, by name; or ANY
Key = str | int  # see `key`
NarrowsTypes = Callable[[], bool]  # a constraint: narrows sets of types, and returns True if it did
NUMERIC = (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT)
_OF_HEADS = {
    "count": NUMERIC[:2],
    "sum": NUMERIC,
    "mean": NUMERIC[2:],
}  # functors that aggregate in heads; min and max are also plain functors


def key(node: syntax.Node) -> Key:
    """Return the key of an expression in sets of facts about a clause: the name of a variable, the identity of another node."""
    return node.name if isinstance(node, syntax.Variable) else id(node)


def typed(single: Single, environment: TypeEnvironment, relations: syntax.Relations) -> "Typing":
    """Infer the types of a clause, together with the other heads of the clause as written; separately if they clash."""
    heads = single.clause.beside or single.clause.heads
    if len(heads) > 1:
        # As negations, whose arguments need only have the kinds of the attributes: see `Typing._atom`.
        others = [syntax.Negation(_without_aggregates(head), span=head.span) for head in heads]
        together = Typing(single, environment, relations, others)
        if not together.clashes:
            return together
    return Typing(single, environment, relations)


def _without_aggregates(head: syntax.Atom) -> syntax.Atom:
    """Replace aggregates among a head's arguments by wildcards: their variables are not those of the clause."""
    args = (
        syntax.Underscore(span=arg.span) if any(isinstance(node, syntax.Aggregate) for node in walk(arg)) else arg
        for arg in head.args
    )
    return replace(head, args=tuple(args))


class Typing:
    """The inferred types of one clause. beside: further literals that constrain its variables.

    possible: the names of the possible types of an expression, by its `key`; ANY if it is missing; empty for a clash."""

    def __init__(
        self, single: Single, environment: TypeEnvironment, relations: syntax.Relations, beside: Sequence[syntax.Node] = ()
    ):
        self.single, self.env, self.relations = single, environment, relations
        self.nodes = [node for literal in single.literals for node in walk(literal)]
        self._all = self.nodes + [node for literal in beside for node in walk(literal)]  # those that constrain types
        self.negated = {id(node.body) for node in self._all if isinstance(node, syntax.Negation)}
        self.possible: dict[Key, Types] = {}
        self.overloads: dict[int, Overload] = {}  # the chosen overload of each functor, by id
        self.numbers: dict[int, Kind] = {}  # the chosen kind of each numeric constant, by id
        # Skip variables, which are most nodes and constrain nothing by themselves.
        nodes = (node for node in self._all if node.__class__ is not syntax.Variable)
        constraints = [constraint for node in nodes for constraint in self._constraints(node)]
        while constraints:
            while any([constraint() for constraint in constraints]):  # a list, so that each of them is applied in each round
                pass
            if not (added := self._choose()):
                break
            constraints += added

    # -- results

    @property
    def clashes(self) -> bool:
        """True if an expression has no possible type."""
        return frozenset() in self.possible.values()

    def types(self, node: syntax.Node) -> Types:
        """Return the names of an expression's possible types; ANY if they are undetermined."""
        return self.possible.get(key(node), ANY)

    def kind(self, node: syntax.Node) -> Kind | None:
        """Return the kind of an expression; None if it is undetermined."""
        if isinstance(node, syntax.Functor) and id(node) in self.overloads:
            return self.overloads[id(node)].result
        if isinstance(node, syntax.Number):
            return self.numbers.get(id(node))
        types = self.types(node)
        kinds = {self.env.kind(name) for name in types} if types else set()
        return kinds.pop() if len(kinds) == 1 else None

    def is_kind(self, node: syntax.Node, kind: Kind) -> bool:
        """True if all possible types of an expression have this kind."""
        types = self.types(node)
        return bool(types) and all(self.env.kind(name) == kind for name in types)

    def attributes(self, atom: syntax.Atom) -> list[tuple[syntax.Node, str, str]]:
        """Return (argument, attribute name, type name) for each attribute of a declared type; [] if the atom's relation or its
        number of arguments is wrong."""
        relation = self.relations.get(atom.relation)
        if relation is None or len(relation.attributes) != len(atom.args):
            return []
        pairs = zip(atom.args, relation.attributes, strict=True)
        return [(arg, name, type_name) for arg, (name, type_name) in pairs if type_name in self.env]

    # -- constraints

    def _constraints(self, node: syntax.Node) -> Iterable[NarrowsTypes]:
        """Return the constraints that a node implies."""
        if isinstance(node, syntax.Atom):
            return self._atom(node)
        if isinstance(node, syntax.Constraint) and node.args:
            return self._alike(*node.args)
        if isinstance(node, syntax.Functor):
            return self._functor(node)
        if isinstance(node, syntax.RecordInit):
            return [partial(self._has_field_type, key(arg), key(node), place) for place, arg in enumerate(node.args)]
        if isinstance(node, syntax.BranchInit):
            return self._branch(node)
        if isinstance(node, syntax.Aggregate) and node.init is not None:
            return self._user_aggregate(node)
        if isinstance(node, syntax.Aggregate):
            kinds = {"count": NUMERIC[:1], "mean": NUMERIC[2:]}.get(node.op, NUMERIC)
            return [self._of_kinds(node, kinds), *(self._alike(node.target, node) if node.target is not None else [])]
        return self._leaf(node)

    def _leaf(self, node: syntax.Node) -> list[NarrowsTypes]:
        """Return the constraints of a constant or a cast."""
        if isinstance(node, syntax.String):
            return [partial(self._narrow, key(node), self.env.of_strings)]
        if isinstance(node, syntax.Number):
            return [self._of_kinds(node, literal_kinds(node))]
        if isinstance(node, syntax.As) and node.type in self.env:
            is_constant = isinstance(node.value, (syntax.Number, syntax.String, syntax.Nil))
            is_constant &= not encoded_cast(node, self.env)
            return [self._is(part, node.type) for part in ((node, node.value) if is_constant else (node,))]
        return []

    def _atom(self, atom: syntax.Atom) -> list[NarrowsTypes]:
        """Return the constraints of an atom: its arguments have the types of the attributes. An argument of a head or a negated
        atom has only the kind of the attribute, or its record type, and no constraint if that has branches."""
        attributes = [(arg, type_name) for arg, _, type_name in self.attributes(atom)]
        if id(atom) in self.negated:
            attributes = [
                (arg, name if isinstance(arg, syntax.String) else self._widest(name))
                for arg, name in attributes
                if not self.env.branches(name)
            ]
        return [self._is(arg, type_name) for arg, type_name in attributes]

    def _branch(self, node: syntax.BranchInit) -> list[NarrowsTypes]:
        """Return the constraints of a branch: it has the type that declares its name; its arguments have the types of its
        fields."""
        if (declared := self.env.branch(node.name)) is None:
            return []
        name, branch = declared
        pairs = zip(node.args, branch.fields, strict=False) if len(node.args) == len(branch.fields) else ()
        return [self._is(node, name), *(self._is(arg, type_name) for arg, (_, type_name) in pairs if type_name in self.env)]

    def _widest(self, name: str) -> str:
        """Return the type that all types of a kind are subtypes of; a record type itself."""
        kind = self.env.kind(name)
        return name if kind == Kind.RECORD else CONSTANT[kind]

    def _functor(self, node: syntax.Functor) -> list[NarrowsTypes]:
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

    def _user_functor(self, node: syntax.Functor) -> list[NarrowsTypes]:
        """Return the constraints of a user-defined functor: its result and arguments have the declared types."""
        declared = self.env.functors.get(node.name[1:])
        if declared is None or len(declared.parameters) != len(node.args):
            return []
        pairs = [(node, declared.result), *zip(node.args, (type_ for _, type_ in declared.parameters), strict=True)]
        return [self._is(part, type_) for part, type_ in pairs if type_ in self.env]

    def _user_aggregate(self, node: syntax.Aggregate) -> list[NarrowsTypes]:
        """Return the constraints of a user-defined aggregate: its result and initial value have the functor's type, and its
        target that of the second parameter."""
        declared = self.env.functors.get(node.op[2:])
        if declared is None or len(declared.parameters) != 2:
            return []
        pairs = [(node, declared.result), (node.init, declared.result), (node.target, declared.parameters[1][1])]
        return [self._is(part, type_) for part, type_ in pairs if type_ in self.env]

    def _is(self, node: syntax.Node, name: str) -> NarrowsTypes:
        """Return the constraint that an expression has a subtype of a type."""
        return partial(self._narrow, key(node), frozenset([self.env.skip_aliases(name)]))

    def _alike(self, one: syntax.Node, other: syntax.Node) -> list[NarrowsTypes]:
        """Return the constraints that each of two expressions has a subtype of the other's type."""
        return [partial(self._below, key(one), key(other)), partial(self._below, key(other), key(one))]

    def _of_kinds(self, node: syntax.Node, kinds: Iterable[Kind]) -> NarrowsTypes:
        return partial(self._one_of, key(node), frozenset(kinds), frozenset(CONSTANT[kind] for kind in kinds))

    # -- narrow the possible types of expressions, given by their keys; True if the types changed

    def _set(self, at: Key, types: Types) -> bool:
        """Replace the possible types of an expression."""
        changed = self.possible.get(at, ANY) != types
        self.possible[at] = types
        return changed

    def _narrow(self, at: Key, names: Types) -> bool:
        """Restrict an expression to subtypes of some types."""
        types = self.possible.get(at, ANY)
        return types != names and self._set(at, self._meet(types, names))

    def _below(self, at: Key, other: Key) -> bool:
        """Restrict an expression to subtypes of the types of another one, if these are known."""
        types = self.possible.get(other, ANY)
        return types is not ANY and self._narrow(at, types)

    def _meet(self, types: Types, others: Types) -> Types:
        """Return the greatest types that are subtypes of a type in each of two sets."""
        if types is ANY or others is ANY:
            return others if types is ANY else types
        return frozenset(chain.from_iterable(self.env.meet(one, other) for one in types for other in others))

    def _one_of(self, at: Key, kinds: frozenset[Kind], names: frozenset[str]) -> bool:
        """Restrict an expression to types of some kinds. names: all these types."""
        types = self.possible.get(at, ANY)
        if types is ANY:
            return self._set(at, names)
        return self._set(at, frozenset(name for name in types if self.env.kind(name) in kinds))

    def _same_base(self, operand: Key, result: Key) -> bool:
        """Restrict an operand and the result of arithmetic: they may have different subtypes of one predefined type."""
        operand_types, result_types = self.possible.get(operand, ANY), self.possible.get(result, ANY)
        if operand_types is ANY or result_types is ANY:
            at, known = (operand, result_types) if operand_types is ANY else (result, operand_types)
            return known is not ANY and self._set(at, frozenset(CONSTANT[kind] for kind in self._kinds(known)))
        common = self._kinds(operand_types) & self._kinds(result_types)
        changed = False
        for at, types in ((operand, operand_types), (result, result_types)):
            changed |= self._set(at, frozenset(name for name in types if self.env.kind(name) in common))
        return changed

    def _kinds(self, types: Iterable[str]) -> set[Kind]:
        return {self.env.kind(name) for name in types} - {Kind.RECORD}

    def _overload(self, node: syntax.Functor) -> bool:
        """Apply the overloads that still fit. A single one restricts the arguments and the result of a functor; several, if
        they agree, only the result."""
        fitting = self._fitting(node)
        if not fitting:
            return self._set(key(node), frozenset())
        overload, *others = fitting
        changed = False
        if node.name not in INFIX and self.types(node) is ANY and all(other.result == overload.result for other in others):
            changed = self._set(key(node), frozenset([CONSTANT[overload.result]]))
        if others:
            return changed
        if node.name != "ord":
            for place, arg in enumerate(node.args):
                changed |= self._only(arg, overload.param(place))
        return self._only(node, overload.result) | changed

    def _only(self, node: syntax.Node, kind: Kind) -> bool:
        """Restrict the possible types of an expression, if they are known, to types of a kind."""
        types = self.types(node)
        return types is not ANY and self._set(key(node), frozenset(name for name in types if self.env.kind(name) == kind))

    def _fitting(self, node: syntax.Functor) -> list[Overload]:
        """Return the overloads of a functor that fit the possible types of its arguments and result."""
        fitting = [overload for overload in OVERLOADS[node.name] if overload.takes(len(node.args))]
        for place, part in enumerate([*node.args, node]):
            if (types := self.types(part)) is not ANY:
                kinds = {self.env.kind(name) for name in types}
                fitting = [each for each in fitting if (each.result if part is node else each.param(place)) in kinds]
        return fitting

    def _has_field_type(self, element: Key, record: Key, place: int) -> bool:
        """Restrict an element of a record to the types of the field at its place, and the record to types that have one."""
        types = self.possible.get(record, ANY)
        if types is ANY:
            return False
        records = [name for name in types if self.env.kind(name) == Kind.RECORD and len(self.env.fields(name)) > place]
        field_types = (type_name for name in records for _, type_name in self.env.fields(name)[place : place + 1])
        fields = frozenset(self.env.skip_aliases(name) for name in field_types if name in self.env)
        return self._set(record, frozenset(records)) | self._set(element, self._meet(self.possible.get(element, ANY), fields))

    # -- choices

    def _choose(self) -> list[NarrowsTypes]:
        """Choose overloads, or kinds of constants, for some undetermined nodes, and return the resulting constraints. Functors
        come first, as they may determine a constant."""
        undetermined = [node for node in self._all if isinstance(node, syntax.Functor) and node.name in OVERLOADS]
        undetermined = [node for node in undetermined if id(node) not in self.overloads]
        informed = [node for node in undetermined if not any(self.types(arg) is ANY for arg in node.args)]
        for functors in (informed, undetermined):
            if found := [constraint for node in functors for constraint in self._choose_overload(node)]:
                return found
        numbers = [node for node in self._all if isinstance(node, syntax.Number) and id(node) not in self.numbers]
        if found := [constraint for node in numbers for constraint in self._choose_number(node)]:
            return found
        symbol = CONSTANT[Kind.SYMBOL]
        strings = [node for node in self._all if isinstance(node, syntax.String) and self.types(node) != frozenset([symbol])]
        return [self._is(node, symbol) for node in strings if symbol in (self.types(node) or ())]

    def _choose_overload(self, node: syntax.Functor) -> Iterator[NarrowsTypes]:
        """Fix a functor to its preferred overload that fits, if any, and yield the constraints that follow. An operator only
        restricts its result, as its operands may have different subtypes; `ord` takes an argument of any type."""
        for overload in sorted(self._fitting(node), key=overload_preference)[:1]:  # none if none fits
            self.overloads[id(node)] = overload
            if node.name not in INFIX:
                yield self._is(node, CONSTANT[overload.result])
                for place, arg in enumerate(node.args if node.name != "ord" else ()):
                    yield self._is(arg, CONSTANT[overload.param(place)])
            else:
                yield partial(self._only, node, overload.result)

    def _choose_number(self, node: syntax.Number) -> Iterator[NarrowsTypes]:
        """Choose the first possible kind of a numeric constant, and yield the resulting constraint."""
        kinds = {self.env.kind(name) for name in self.types(node) or ()}
        for kind in [kind for kind in NUMERIC if kind in kinds][:1]:  # none if there is a clash
            self.numbers[id(node)] = kind
            yield self._of_kinds(node, [kind])


def encoded_cast(node: syntax.As, environment: TypeEnvironment) -> Kind | None:
    """Return the kind of as("2026-01-31", date), which converts a text; None for a cast that keeps the bits."""
    return environment.encoded_as(node.type) if isinstance(node.value, syntax.String) else None


def literal_kinds(node: syntax.Number) -> tuple[Kind, ...]:
    """Return the possible kinds of a numeric literal: any number for 1; one kind for 1u, 1f and 1.5."""
    if node.suffix:
        return (Kind.UNSIGNED,) if node.suffix == "u" else (Kind.FLOAT,)
    return (Kind.FLOAT,) if isinstance(node.value, float) else NUMERIC
