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
from semi_naive.language.trees import walk, walk_all
from semi_naive.language.types.signatures import INFIX, OVERLOADS, Overload, overload_preference
from semi_naive.language.types.types import CONSTANT, TypeEnvironment
from semi_naive.ra.ir import Kind

ANY = None  # the set of all types
Types = frozenset[str] | None  # the possible types of an expression, by name; or ANY
Key = str | int  # see `key`
NarrowsTypes = Callable[[], bool]  # a constraint: narrows sets of types, and returns True if it did
NUMERIC = (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT)
# The kinds of functors that aggregate in heads; min and max are also plain functors.
_OF_HEADS = {"count": NUMERIC[:2], "sum": NUMERIC, "mean": NUMERIC[2:]}


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
    """Return a head with wildcards for aggregates among its arguments: their variables are not those of the clause."""
    args = (
        syntax.Underscore(span=arg.span) if any(isinstance(node, syntax.Aggregate) for node in walk(arg)) else arg
        for arg in head.args
    )
    return replace(head, args=tuple(args))


class Typing:
    """The inferred types of one clause."""

    def __init__(
        self, single: Single, environment: TypeEnvironment, relations: syntax.Relations, beside: Sequence[syntax.Negation] = ()
    ):
        """beside: further heads, negated, that constrain its variables."""
        self.single, self.env, self.relations = single, environment, relations
        self.nodes = single.nodes
        self.negated = {id(node.body) for node in (*single.of(syntax.Negation), *beside)}  # ids of atoms, heads included
        # The names of the possible types of an expression, by its `key`: ANY if it is missing, none for a clash.
        self.possible: dict[Key, Types] = {}
        self.overloads: dict[int, Overload] = {}  # the chosen overload of each functor, by id
        self.numbers: dict[int, Kind] = {}  # the chosen kind of each numeric constant, by id
        self._functors: list[syntax.Functor] = []  # those with overloads
        self._numbers: list[syntax.Number] = []  # these and the strings are filled by the restrictions below
        self._strings: list[syntax.String] = []
        constraints: list[NarrowsTypes] = []
        for node in (*self.nodes, *walk_all(beside)):
            if (restrict := _RESTRICT.get(node.__class__)) is not None:  # most nodes are variables
                for constraint in restrict(self, node) or ():
                    constraint()
                    constraints.append(constraint)
        while True:
            while any([constraint() for constraint in constraints]):  # a list, so that each of them is applied in each round
                pass
            if not (added := self._choose_some()):
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
        kinds = self.env.kinds(self.types(node) or frozenset())
        return next(iter(kinds)) if len(kinds) == 1 else None

    def is_kind(self, node: syntax.Node, kind: Kind) -> bool:
        """True if all possible types of an expression have this kind."""
        return self.env.kinds(self.types(node) or frozenset()) == {kind}

    def attributes(self, atom: syntax.Atom) -> list[tuple[syntax.Node, str, str]]:
        """Return (argument, attribute name, type name) for each attribute of a declared type; [] if the atom's relation or its
        number of arguments is wrong."""
        relation = self.relations.get(atom.relation)
        if relation is None or len(relation.attributes) != len(atom.args):
            return []
        pairs = zip(atom.args, relation.attributes, strict=True)
        return [(arg, name, type_name) for arg, (name, type_name) in pairs if type_name in self.env]

    # -- restrictions: each restricts the types of a node and its parts, and returns the constraints that relate them

    def _comparison(self, node: syntax.Constraint) -> list[NarrowsTypes]:
        """Return the constraints that the two sides have related types."""
        return self._related(*node.args) if node.args else []

    def _record(self, node: syntax.RecordInit) -> list[NarrowsTypes]:
        """Return the constraint of each field of a record."""
        return [partial(self._has_field_type, key(arg), key(node), place) for place, arg in enumerate(node.args)]

    def _string(self, node: syntax.String) -> None:
        """Restrict a string to the types whose constants are strings."""
        self._strings.append(node)
        self._narrow(key(node), self.env.of_strings)

    def _number(self, node: syntax.Number) -> None:
        """Restrict a numeric constant to the kinds that its text allows."""
        self._numbers.append(node)
        self._restrict_to_kinds(node, literal_kinds(node))

    def _cast(self, node: syntax.As) -> None:
        """Restrict a cast to its type, and the constant that it casts, unless that is a text to be converted."""
        is_constant = isinstance(node.value, (syntax.Number, syntax.String, syntax.Nil)) and not encoded_cast(node, self.env)
        for part in (node, node.value) if is_constant else (node,):
            self._restrict_if_declared(part, node.type)

    def _aggregate(self, node: syntax.Aggregate) -> list[NarrowsTypes]:
        """Restrict the result of an aggregate, and return the constraints that relate it to the target."""
        if node.init is not None:
            self._user_aggregate(node)
            return []
        self._restrict_to_kinds(node, {"count": NUMERIC[:1], "mean": NUMERIC[2:]}.get(node.op, NUMERIC))
        return self._related(node.target, node) if node.target is not None else []

    def _atom(self, atom: syntax.Atom) -> None:
        """Restrict the arguments of an atom to the types of the attributes. An argument of a head or a negated atom has only
        the kind of the attribute, or its record type, and no restriction if that has branches."""
        negated = id(atom) in self.negated
        for arg, _, name in self.attributes(atom):
            if not negated:
                self._restrict(arg, name)
            elif not self.env.branches(name):
                self._restrict(arg, name if isinstance(arg, syntax.String) else self._widest(name))

    def _branch(self, node: syntax.BranchInit) -> None:
        """Restrict a branch to the type that declares its name, and its arguments to the types of its fields."""
        if (declared := self.env.branch(node.name)) is None:
            return
        name, branch = declared
        self._restrict(node, name)
        for arg, (_, type_name) in zip(node.args, branch.fields, strict=False) if len(node.args) == len(branch.fields) else ():
            self._restrict_if_declared(arg, type_name)

    def _widest(self, name: str) -> str:
        """Return the type that all types of a kind are subtypes of; a record type itself."""
        kind = self.env.kind(name)
        return name if kind == Kind.RECORD else CONSTANT[kind]

    def _functor(self, node: syntax.Functor) -> list[NarrowsTypes]:
        """Restrict a functor to its declared types or kinds, and return the constraints that relate it to its arguments."""
        if node.name.startswith("@"):
            self._user_functor(node)
        if node.name in _OF_HEADS:
            self._restrict_to_kinds(node, _OF_HEADS[node.name])
            # a count does not depend on the type of the value that it counts
            return self._related(node.args[0], node) if node.name != "count" else []
        if node.name not in OVERLOADS:
            return []
        self._functors.append(node)
        infix = [partial(self._same_base, key(arg), key(node)) for arg in node.args if node.name in INFIX]
        return [partial(self._overload, node), *infix]

    def _user_functor(self, node: syntax.Functor) -> None:
        """Restrict the result and the arguments of a user-defined functor to the declared types."""
        declared = self.env.functors.get(node.name[1:])
        if declared is not None and len(declared.parameters) == len(node.args):
            self._restrict_if_declared(node, declared.result)
            for arg, (_, type_name) in zip(node.args, declared.parameters, strict=True):
                self._restrict_if_declared(arg, type_name)

    def _user_aggregate(self, node: syntax.Aggregate) -> None:
        """Restrict the result and the initial value of a user-defined aggregate to the functor's type, and its target to that
        of the second parameter."""
        declared = self.env.functors.get(node.op[2:])
        if declared is not None and len(declared.parameters) == 2:
            of_target = declared.parameters[1][1]
            for part, name in ((node, declared.result), (node.init, declared.result), (node.target, of_target)):
                if part is not None:
                    self._restrict_if_declared(part, name)

    def _restrict_if_declared(self, node: syntax.Node, name: str) -> None:
        """Restrict an expression to subtypes of a type, if that is declared."""
        if name in self.env:
            self._restrict(node, name)

    def _related(self, left: syntax.Node, right: syntax.Node) -> list[NarrowsTypes]:
        """Return the constraints that each of two expressions has a subtype of the other's type."""
        return [partial(self._narrow_to, key(left), key(right)), partial(self._narrow_to, key(right), key(left))]

    # -- narrow the possible types of expressions, given by their keys; True if the types changed

    def _restrict(self, node: syntax.Node, name: str) -> bool:
        """Restrict an expression to subtypes of a type."""
        return self._narrow(key(node), self.env.only(name))

    def _restrict_to_kinds(self, node: syntax.Node, kinds: Iterable[Kind]) -> bool:
        """Restrict an expression to types of some kinds."""
        if self.types(node) is ANY:
            return self._set(key(node), frozenset(CONSTANT[kind] for kind in kinds))
        return self._restrict_known(key(node), frozenset(kinds))

    def _set(self, at: Key, types: Types) -> bool:
        """Replace the possible types of an expression."""
        changed = self.possible.get(at, ANY) != types
        self.possible[at] = types
        return changed

    def _narrow(self, at: Key, names: Types) -> bool:
        """Restrict an expression to subtypes of some types."""
        types = self.possible.get(at, ANY)
        return types != names and self._set(at, self._meet(types, names))

    def _narrow_to(self, at: Key, other: Key) -> bool:
        """Restrict an expression to subtypes of the types of another one, if these are known."""
        types = self.possible.get(other, ANY)
        return types is not ANY and self._narrow(at, types)

    def _meet(self, types: Types, others: Types) -> Types:
        """Return the greatest types that are subtypes of a type in each of two sets."""
        if types is ANY or others is ANY:
            return others if types is ANY else types
        return frozenset(chain.from_iterable(self.env.meet(type_, other_type) for type_ in types for other_type in others))

    def _restrict_known(self, at: Key, kinds: frozenset[Kind]) -> bool:
        """Restrict an expression, if its possible types are known, to those of some kinds."""
        types = self.possible.get(at, ANY)
        if types is ANY or self.env.kinds(types) <= kinds:
            return False
        return self._set(at, frozenset(name for name in types if self.env.kind(name) in kinds))

    def _same_base(self, operand: Key, result: Key) -> bool:
        """Restrict an operand and the result of arithmetic: they may have different subtypes of one predefined type."""
        operand_types, result_types = self.possible.get(operand, ANY), self.possible.get(result, ANY)
        if operand_types is ANY or result_types is ANY:
            unknown, known_types = (operand, result_types) if operand_types is ANY else (result, operand_types)
            return known_types is not ANY and self._set(unknown, frozenset(CONSTANT[kind] for kind in self._kinds(known_types)))
        common = self._kinds(operand_types) & self._kinds(result_types)
        return self._restrict_known(operand, common) | self._restrict_known(result, common)

    def _kinds(self, types: frozenset[str]) -> frozenset[Kind]:
        """Return the kinds of some types but RECORD."""
        return self.env.kinds(types) - {Kind.RECORD}

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
                changed |= self._restrict_to_kind(arg, overload.param(place))
        return self._restrict_to_kind(node, overload.result) | changed

    def _restrict_to_kind(self, node: syntax.Node, kind: Kind) -> bool:
        """Restrict an expression, if its possible types are known, to those of one kind."""
        return self._restrict_known(key(node), frozenset([kind]))

    def _fitting(self, node: syntax.Functor) -> list[Overload]:
        """Return the overloads of a functor that fit the possible types of its arguments and result."""
        fitting = [overload for overload in OVERLOADS[node.name] if overload.takes(len(node.args))]
        for place, part in enumerate([*node.args, node]):
            if (types := self.types(part)) is not ANY:
                kinds = self.env.kinds(types)
                fitting = [fit for fit in fitting if (fit.result if part is node else fit.param(place)) in kinds]
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

    def _choose_some(self) -> list[NarrowsTypes]:
        """Choose overloads, or kinds of constants, for some undetermined nodes, and return the resulting constraints. Functors
        come first, as they may determine a constant."""
        undetermined = [node for node in self._functors if id(node) not in self.overloads]
        informed = [node for node in undetermined if not any(self.types(arg) is ANY for arg in node.args)]
        for functors in (informed, undetermined):
            if constraints := [constraint for node in functors for constraint in self._choose_overload(node)]:
                return constraints
        numbers = [node for node in self._numbers if id(node) not in self.numbers]
        if constraints := [constraint for node in numbers for constraint in self._choose_number(node)]:
            return constraints
        symbol = self.env.only(CONSTANT[Kind.SYMBOL])
        open_strings = ((key(node), types) for node in self._strings if len(types := self.types(node) or frozenset()) > 1)
        return [partial(self._narrow, at, symbol) for at, types in open_strings if symbol <= types]

    def _choose_overload(self, node: syntax.Functor) -> Iterator[NarrowsTypes]:
        """Fix a functor to its preferred overload that fits, if any, and yield the constraints that follow. An operator only
        restricts its result, as its operands may have different subtypes; `ord` takes an argument of any type."""
        for overload in sorted(self._fitting(node), key=overload_preference)[:1]:  # none if none fits
            self.overloads[id(node)] = overload
            if node.name not in INFIX:
                yield partial(self._restrict, node, CONSTANT[overload.result])
                for place, arg in enumerate(node.args if node.name != "ord" else ()):
                    yield partial(self._restrict, arg, CONSTANT[overload.param(place)])
            else:
                yield partial(self._restrict_to_kind, node, overload.result)

    def _choose_number(self, node: syntax.Number) -> Iterator[NarrowsTypes]:
        """Choose the first possible kind of a numeric constant, and yield the resulting constraint."""
        kinds = self.env.kinds(self.types(node) or frozenset())
        for kind in [kind for kind in NUMERIC if kind in kinds][:1]:  # none if there is a clash
            self.numbers[id(node)] = kind
            yield partial(self._restrict_to_kinds, node, [kind])


_RESTRICT: dict[type, Callable[..., list[NarrowsTypes] | None]] = {
    syntax.Atom: Typing._atom,
    syntax.Constraint: Typing._comparison,
    syntax.Functor: Typing._functor,
    syntax.RecordInit: Typing._record,
    syntax.BranchInit: Typing._branch,
    syntax.Aggregate: Typing._aggregate,
    syntax.String: Typing._string,
    syntax.Number: Typing._number,
    syntax.As: Typing._cast,
}


def encoded_cast(node: syntax.As, environment: TypeEnvironment) -> tuple[syntax.String, Kind] | None:
    """Return (text, kind) of as("2026-01-31", date), which converts a text; None for a cast that keeps the bits."""
    kind = environment.encoded_as(node.type)
    return (node.value, kind) if kind and isinstance(node.value, syntax.String) else None


def literal_kinds(node: syntax.Number) -> tuple[Kind, ...]:
    """Return the possible kinds of a numeric literal: any number for 1; one kind for 1u, 1f and 1.5."""
    if node.suffix:
        return (Kind.UNSIGNED,) if node.suffix == "u" else (Kind.FLOAT,)
    return (Kind.FLOAT,) if isinstance(node.value, float) else NUMERIC
