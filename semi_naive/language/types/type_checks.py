"""Report the type errors of a clause, after inference."""

from collections.abc import Callable, Iterator

from semi_naive.host.numbers import quantity
from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.trees import written_name
from semi_naive.language.types.inference import ANY, Typing, encoded_cast, literal_kinds
from semi_naive.language.types.signatures import OVERLOADS, Overload
from semi_naive.language.types.types import KIND
from semi_naive.language.types.units import argument_problem, functor_problems
from semi_naive.ra.ir import Kind
from semi_naive.ra.values.encoded import EXPECTED, bits_of_encoded_text

BOUNDS = {Kind.NUMBER: (-(2**63), 2**63 - 1), Kind.UNSIGNED: (0, 2**64 - 1)}
NO_SUBTYPE = "Atom's argument type is not a subtype of its declared type"
_ORDERED = ("<", "<=", ">", ">=")
_TEXT = ("match", "contains")
_OPERAND_KINDS = {
    **dict.fromkeys(_TEXT, (Kind.SYMBOL,)),
    **dict.fromkeys(_ORDERED, (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL)),
}


def type_problems(typing: Typing, legacy: bool = False) -> list[Problem]:
    """Report each type clash of a clause, at the expression that shows it. legacy: an argument's type need not be a subtype of
    the declared one, only of its kind."""
    problems: list[Problem] = []
    reported, clashes = set(), typing.clashes
    for node in typing.nodes:
        if check := _CHECKS.get(node.__class__):
            problems += check(typing, node)
        elif clashes and isinstance(node, syntax.Variable) and node.name not in reported:
            if typing.types(node) == frozenset():
                reported.add(node.name)
                problems.append(_clash(typing, node))
    return [problem for problem in problems if problem.message != NO_SUBTYPE] if legacy else problems


def _clash(typing: Typing, variable: syntax.Variable) -> Problem:
    """Return the problem of a variable without a possible type."""
    notes = []
    for node in typing.nodes:
        if isinstance(node, syntax.Atom) and id(node) not in typing.negated:  # elsewhere a type of the same kind suffices
            for arg, _, type_name in typing.attributes(node):
                if arg == variable:
                    notes.append((f"{written_name(variable.name)} should be a subtype of {type_name}", node.span))
    hint = "all that a variable stands for must have one type; see to_number, to_string, as" if len(notes) < 2 else ""
    return Problem(f"Unable to deduce type for variable {written_name(variable.name)}", variable.span, hint, notes=notes)


def _atom(typing: Typing, atom: syntax.Atom) -> Iterator[Problem]:
    """Yield the problems of an atom's arguments."""
    negated = id(atom) in typing.negated and atom is not typing.single.head  # the head is among the negated literals
    for arg, name, type_name in typing.attributes(atom):
        if problem := argument_problem(typing, arg, type_name):
            yield problem
        types = typing.types(arg)
        if not types or types == typing.env.only(type_name) or _is_compatible(typing, types, type_name, negated):
            continue
        declared = typing.relations[atom.relation]
        notes = [(f"The argument's declared type is {type_name} (attribute {name})", declared.span)]
        message = "The kind of atom's argument doesn't match the declared type kind" if negated else NO_SUBTYPE
        inferred = " or ".join(sorted(inferred.removeprefix("__") for inferred in types))
        hint = f"it is of type {inferred}; as(…, {type_name}) converts it"
        yield Problem(message, arg.span, hint, notes=notes)


def _is_compatible(typing: Typing, types: frozenset[str], type_name: str, negated: bool) -> bool:
    """True if an argument with some possible types is allowed in an attribute of a type. In a negated atom, they must have the
    same kind, or record type. In other atoms, each possible type must be a subtype, or a type of constants or records above."""
    env = typing.env
    if negated:
        any_of_kind = env.base(type_name) in KIND or env.is_union(type_name)
        return all(
            (env.subtype(name, type_name) and env.subtype(type_name, name))
            or any_of_kind
            and env.kind(name) == env.kind(type_name)
            for name in types
        )
    return all(
        env.subtype(name, type_name) or env.subtype(type_name, name) and (name in KIND or env.is_record(env.skip_aliases(name)))
        for name in types
    )


def _string(typing: Typing, node: syntax.String) -> Iterator[Problem]:
    """Yield the problem of a string where another kind is required, or which is no date, say, where one is required."""
    types = typing.types(node) or frozenset()
    if len(types) == 1 and (encoded := typing.env.encoded_as(*types)):
        yield from _encoded_string(node, encoded)
    elif not typing.is_kind(node, Kind.SYMBOL):
        yield Problem("Symbol constant (type mismatch)", node.span, _expected_type(typing, node))


def _encoded_string(node: syntax.String, kind: Kind) -> Iterator[Problem]:
    """Yield the problem of a string that is no date, say, where one is required."""
    if bits_of_encoded_text(node.value, kind) is None:
        yield Problem(f'"{node.value}" is no {kind}', node.span, f"expected {EXPECTED[kind]}")


def _number(typing: Typing, node: syntax.Number) -> Iterator[Problem]:
    """Yield the problems of a numeric constant: a wrong kind, or a value out of range."""
    kind = typing.numbers.get(id(node))
    named = {Kind.UNSIGNED: "Unsigned", Kind.FLOAT: "Float"}
    if kind is None or not typing.is_kind(node, kind):
        possible = literal_kinds(node)
        name = named.get(possible[0], "Number") if len(possible) == 1 else "Number"
        yield Problem(f"{name} constant (type mismatch)", node.span, _expected_type(typing, node))
    elif kind in BOUNDS and not BOUNDS[kind][0] <= node.value <= BOUNDS[kind][1]:
        low, high = BOUNDS[kind]
        hint = f"{'an' if kind == Kind.UNSIGNED else 'a'} {kind} is between {low} and {high}"
        yield Problem(f"{named.get(kind, 'Number')} constant (type mismatch)", node.span, hint)


def _expected_type(typing: Typing, node: syntax.Node) -> str:
    """Return the type that an atom requires at the place of a constant."""
    for atom in typing.nodes:
        if isinstance(atom, syntax.Atom):
            for arg, name, type_name in typing.attributes(atom):
                if arg is node:
                    return f"attribute {name} of {atom.relation} is a {typing.env.kind(type_name)}"
    return ""


def _nil(typing: Typing, node: syntax.Nil) -> Iterator[Problem]:
    """Yield the problem of a nil where no record is required."""
    if not typing.is_kind(node, Kind.RECORD) or any(map(typing.env.branches, typing.types(node) or ())):
        yield Problem("Nil constant used as a non-record", node.span)


def _record(typing: Typing, node: syntax.RecordInit) -> Iterator[Problem]:
    """Yield the problems of a record: an unknown type, or a wrong number of fields."""
    types = typing.types(node)
    if types is ANY or len(types) != 1 or not typing.is_kind(node, Kind.RECORD) or any(map(typing.env.branches, types)):
        hint = "it has the type of an attribute: write it in an atom, or = a variable of one; as(…) gives none"
        yield Problem("Ambiguous record", node.span, hint)
        return
    (name,) = types
    width = len(typing.env.fields(name))
    if width != len(node.args):
        message = "Wrong number of arguments given to record"
        yield Problem(message, node.span, f"{name} has {width} fields, here are {len(node.args)}")


def _branch(typing: Typing, node: syntax.BranchInit) -> Iterator[Problem]:
    """Yield the problems of a branch: an unknown name or type, or a wrong number of fields."""
    if (type_and_branch := typing.env.branch(node.name)) is None:
        yield Problem("Undeclared branch", node.span, _unknown_branch_hint(node.name, typing.env.branch_names))
        return
    name, branch = type_and_branch
    types = typing.types(node)
    if types is ANY or len(types) != 1 or not any(map(typing.env.branches, types)):
        yield Problem("Ambiguous branch", node.span, f"{node.name} is a branch of {name}")
    if (width := len(branch.fields)) != len(node.args):
        message = f"Invalid arity, the declared arity of {node.name} is {width}"
        fields = ", ".join(f"{field}: {type_name}" for field, type_name in branch.fields)
        hint = f"it is declared as {node.name} {{{fields}}}, here: {quantity(len(node.args), 'argument')}"
        yield Problem(message, node.span, hint)


def _unknown_branch_hint(name: str, names: list[str]) -> str:
    """Return a hint for an unknown branch: a branch with a similar name, or how to declare it."""
    last = name.split(".")[-1].lower()
    near = [other for other in names if other.split(".")[-1].lower() == last]
    return f"did you mean ${near[0]}?" if near else f"declare it in a type: .type T = {name.split('.')[-1]} {{…}}"


def _cast(typing: Typing, node: syntax.As) -> Iterator[Problem]:
    """Yield the problems of a cast."""
    if node.type not in typing.env:
        yield Problem(f'Type cast to the undeclared type "{node.type}"', node.span)
    elif encoded := encoded_cast(node, typing.env):
        yield from _encoded_string(*encoded)
    elif len(typing.types(node) or ()) != 1:
        yield Problem("Unable to deduce type of the argument (cast)", node.span)


def _functor(typing: Typing, node: syntax.Functor) -> Iterator[Problem]:
    """Yield the problems of a functor: an unknown name, a wrong number of arguments, or no fitting overload."""
    if node.name.startswith("@"):
        yield from _user_functor(typing, node)
    elif node.name in OVERLOADS and id(node) not in typing.overloads:
        overloads = OVERLOADS[node.name]
        takes = " or ".join(dict.fromkeys(_signature(node.name, overload) for overload in overloads))
        if not any(overload.takes(len(node.args)) for overload in overloads):
            yield Problem("invalid overload (arity mismatch)", node.span, f"there is {takes}")
        else:
            yield Problem("no valid overloads", node.span, f"there is {takes}")
    elif node.name == "count" and not typing.types(node):
        hint = f"{_expected_type(typing, node)}; count into a number, and convert it in another rule"
        yield Problem("count in a head is a number or an unsigned", node.span, hint)
    elif node.name in OVERLOADS:
        yield from functor_problems(typing, node)
    elif node.name not in ("sum", "count", "mean"):  # which aggregate in heads
        yield Problem(f"Undefined functor {node.name}", node.span, "functors are: " + ", ".join(sorted(OVERLOADS)))


def _user_functor(typing: Typing, node: syntax.Functor) -> Iterator[Problem]:
    """Yield the problems of a user-defined functor."""
    env, name = typing.env, node.name[1:]
    if (declared := env.functors.get(name)) is None:
        yield Problem(f"Undefined user-defined functor {name}", node.span, f"declare it: .functor {name}(…): …")
        return
    if not all(type_ in env for type_ in (declared.result, *(type_ for _, type_ in declared.parameters))):
        return
    if not (types := typing.types(node)) or len(types) != 1:
        yield Problem(f"Invalid use of functor returning {declared.result}", node.span)
    elif not env.subtype(declared.result, *types):
        yield Problem(f"Invalid conversion of return type {declared.result} to {next(iter(types))}", node.span)
    if (count := len(declared.parameters)) != len(node.args):
        yield Problem(f"Functor arity mismatch: Got {len(node.args)} arguments, expecting {count}", node.span)
    for number, (arg, (parameter, type_)) in enumerate(zip(node.args, declared.parameters, strict=False)):
        place = f"positional parameter {number}" + (f" ('{parameter}')" if parameter else "")
        if not (types := typing.types(arg)) or len(types) != 1:
            yield Problem(f"Unable to determine type for {place}", arg.span)
        elif not env.subtype(inferred := next(iter(types)), type_):
            inferred = inferred.removeprefix("__")
            yield Problem(f"Invalid conversion of value of type {inferred} to {place} with type {type_}", arg.span)


def _signature(name: str, overload: Overload) -> str:
    """Return an overload as text: max(number, …): number."""
    params = ", ".join(overload.params) + ", …" * overload.variadic
    return f"{name}({params}): {overload.result}"


def _constraint(typing: Typing, node: syntax.Constraint) -> Iterator[Problem]:
    """Yield the problems of a comparison or a test: operands of different types, or of an unsuitable kind."""
    if not node.args:
        return
    left, right = (typing.types(side) for side in node.args)
    if not left or not right or len(left) != 1 or len(right) != 1:
        return
    (left_type,), (right_type,) = left, right
    is_same = typing.env.subtype(left_type, right_type) and typing.env.subtype(right_type, left_type)
    if node.op in _ORDERED and not is_same:
        yield Problem("Cannot compare different types", node.span)
        return
    kinds = _OPERAND_KINDS.get(node.op, ())
    for side in node.args:
        if kinds and not any(typing.is_kind(side, kind) for kind in kinds):
            listed = " or ".join(f"`{kind}`" for kind in kinds)
            yield Problem(f"Constraint requires an operand of type {listed}", side.span)


def _user_aggregate(typing: Typing, node: syntax.Aggregate) -> Iterator[Problem]:
    """Yield the problems of a user-defined aggregate."""
    name = node.op[2:]
    if (declared := typing.env.functors.get(name)) is None:
        yield Problem(f"Undefined user-defined functor {name}", node.span, f"declare it: .functor {name}(…): …")
        return
    types = [type_ for _, type_ in declared.parameters]
    if len(types) != 2 or types[0] != declared.result:
        hint = f".functor {name}(so_far: T, value: U): T takes the value aggregated so far, and the next value"
        yield Problem(f"Functor {name} cannot aggregate", node.span, hint)
        return
    for part, role in ((node, "result"), (node.init, "initial value"), (node.target, "target")):
        if part is not None and len(typing.types(part) or ()) != 1:
            required = types[1] if part is node.target else types[0]
            yield Problem(f"Couldn't assign types to the aggregator: its {role} is a {required}", part.span)


def _aggregate(typing: Typing, node: syntax.Aggregate) -> Iterator[Problem]:
    """Yield the problems of an aggregate."""
    if node.init is not None:
        yield from _user_aggregate(typing, node)
        return
    types = typing.types(node)
    if not types or len({typing.env.kind(name) for name in types}) != 1 and node.target is None:
        yield Problem("Couldn't assign types to the aggregator", node.span, _AGGREGATE_HINTS.get(node.op, ""))


_AGGREGATE_HINTS = {
    "mean": "mean is of floats: use to_float",
    **dict.fromkeys(("sum", "min", "max"), "it is of numbers, unsigned or floats"),
}
_CHECKS: dict[type, Callable[..., Iterator[Problem]]] = {
    syntax.Atom: _atom,
    syntax.String: _string,
    syntax.Number: _number,
    syntax.Nil: _nil,
    syntax.RecordInit: _record,
    syntax.BranchInit: _branch,
    syntax.As: _cast,
    syntax.Functor: _functor,
    syntax.Constraint: _constraint,
    syntax.Aggregate: _aggregate,
}
