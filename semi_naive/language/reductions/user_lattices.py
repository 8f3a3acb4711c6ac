"""User-defined lattices: check them, and translate rules that read their attributes.

    .lattice Sign<> { Bottom -> $Bottom(), Lub -> @lub(_, _), Glb -> @glb(_, _) }
    .decl value(x: symbol, s: Sign<>)

A relation has one tuple of each key, with the least upper bound (`ra.reduce.upper_bounds`). A tuple states its value and all
lower values. So in a body

    r(x, s) :- value(x, s), other(x, s).        is  r(x, s) :- value(x, a), other(x, b), s = @glb(a, b), s != $Bottom().
    r(x) :- value(x, $Zero()).                  is  r(x) :- value(x, a), @glb(a, $Zero()) = $Zero().
    r(x) :- name(x), !value(x, $Zero()).        is  r(x) :- name(x), !value(x, _).
                                                and r(x) :- name(x), value(x, a), @glb(a, $Zero()) = $Bottom().

as in Soufflé. A variable that is bound elsewhere is a given value, like $Zero(). In the body of an aggregate, and without
`Bottom` or `Glb`, values are compared for equality."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import count

from semi_naive.language import syntax
from semi_naive.language.errors import WARNING, Problem, Span
from semi_naive.language.grounded import grounded
from semi_naive.language.single import Single, fold_sign
from semi_naive.language.trees import children, rebuilt, variable_names, walk_all
from semi_naive.language.types.inference import Typing
from semi_naive.language.types.type_checks import type_problems
from semi_naive.language.types.types import PREDEFINED, TypeEnvironment

MEETING = ("Bottom", "Glb")  # without both of these, values are compared for equality
FUNCTORS = ("Lub", "Glb", "Leq")
WORDS = ("Bottom", "Top", *FUNCTORS)
_COMPUTED = (syntax.Variable, syntax.Underscore, syntax.Aggregate, syntax.Functor)
Bounds = dict[str, dict[str, syntax.Node]]  # the expression of each word of `WORDS`, by the type of the lattice
FORM = ".lattice {0}<> {{ Bottom -> …, Lub -> @lub(_, _), Glb -> @glb(_, _) }}"


def used_lubs(relations: syntax.Relations, bounds: Bounds) -> set[str]:
    """Return the functors, without the @, that compute the least upper bounds of values in relations."""
    nodes = relations.values()
    types = {type_ for node in nodes for place, (_, type_) in enumerate(node.attributes) if place in node.lattices}
    lubs = [bounds[name]["Lub"] for name in types & bounds.keys()]
    return {functor.name[1:] for functor in lubs if isinstance(functor, syntax.Functor)}


def lattice_bounds(source: syntax.SourceProgram, env: TypeEnvironment, problems: list[Problem]) -> Bounds:
    """Return the bounds of each lattice without problems. Append the problems of the others to `problems`."""
    bounds: dict[str, dict] = {}
    first_named: dict[str, syntax.Lattice] = {}
    for node in source.of(syntax.Lattice):
        node = replace(node, bounds=tuple((word, rebuilt(value, fold_sign)) for word, value in node.bounds))
        own_problems = list(_lattice_problems(node, env))
        if node.name in first_named:
            notes = [("Previous definition", first_named[node.name].span)]
            own_problems.append(Problem(f"Redefinition of lattice {node.name}<>", node.span, notes=notes))
        first_named.setdefault(node.name, node)
        problems += own_problems
        if not own_problems:
            bounds[node.name] = dict(node.bounds)
    return bounds


def _lattice_problems(node: syntax.Lattice, env: TypeEnvironment) -> Iterator[Problem]:
    """Yield the problems of a lattice's declaration: its type, and its bounds."""
    if node.name not in env or node.name in PREDEFINED:
        if env.span(node.name) is None:
            hint = f"a lattice is of a type that the program declares: .type {node.name.capitalize()} = …"
            yield Problem(f"Undefined type {node.name}", node.span, hint)
        return
    words = [word for word, _ in node.bounds]
    for word in dict.fromkeys(words):
        if word not in WORDS:
            yield Problem(f"{word} is no bound of a lattice", node.span, f"they are {', '.join(WORDS)}")
        elif words.count(word) > 1:
            yield Problem(f"Lattice {node.name}<> defines {word} more than once", node.span, "leave out all but one")
    if "Lub" not in words:
        yield Problem(f"Lattice {node.name}<> does not define Lub", node.span, "write " + FORM.format(node.name))
    for word, value in node.bounds:
        if word in FUNCTORS:
            yield from _functor_problems(node.name, word, value, env)
        elif word in WORDS:
            yield from _value_problems(node.name, word, value, env)


def _functor_problems(name: str, word: str, value: syntax.Node, env: TypeEnvironment) -> Iterator[Problem]:
    """Report a bound that is not written as @f(_, _), with f declared as f(a: T, b: T): T, or f(a: T, b: T): number for Leq."""
    functor = value.name[1:] if isinstance(value, syntax.Functor) and value.name.startswith("@") else ""
    if not functor or [*map(type, children(value))] != [syntax.Underscore] * 2:
        yield Problem(f"{word} of lattice {name}<> is no functor", value.span, f"write {word} -> @{word.lower()}(_, _)")
        return
    result = "number" if word == "Leq" else name
    form = f".functor {functor}(a: {name}, b: {name}): {result}"
    if (declared := env.functors.get(functor)) is None:
        yield Problem(f"Undefined user-defined functor {functor}", value.span, f"declare it: {form}")
        return
    types = [*(type_ for _, type_ in declared.parameters), declared.result]
    if list(map(env.declared_as, types)) != list(map(env.declared_as, [name, name, result])):
        notes = [("declared here", declared.span)]
        message = f"Functor {functor} cannot be {word} of lattice {name}<>"
        yield Problem(message, value.span, f"declare it as {form}", notes=notes)


def _value_problems(name: str, word: str, value: syntax.Node, env: TypeEnvironment) -> Iterator[Problem]:
    """Report a bound that is not a constant of the type."""
    if any(isinstance(node, _COMPUTED) for node in walk_all([value])):
        yield Problem(f"{word} of lattice {name}<> is not constant", value.span, f"write one value of type {name}")
        return
    # Its type is checked as that of a fact of a relation with one attribute.
    relation = syntax.RelationDecl("lattice", ((word, name),), span=value.span)
    head = syntax.Atom("lattice", (value,), span=value.span)
    yield from type_problems(Typing(Single(head, (), syntax.Clause((head,), span=value.span)), env, {"lattice": relation}))


def attribute_problems(source: syntax.SourceProgram, relations: syntax.Relations) -> Iterator[Problem]:
    """Report attributes of lattices that are not declared, and other attributes after one of a lattice."""
    declared = {node.name for node in source.of(syntax.Lattice)}
    for node in (node for node in relations.values() if node.lattices):
        for column, (type_, span) in enumerate(syntax.named_types(node)):
            if column in node.lattices and type_ not in declared:
                yield Problem(f"There is no lattice {type_}<>", span, "write " + FORM.format(type_))
            elif column not in node.lattices and column > node.lattices[0]:
                attribute, _ = node.attributes[column]
                yield Problem(f"Attribute {attribute} comes after one of a lattice", span, "attributes of lattices come last")


def with_bounds(single: Single, relations: syntax.Relations, bounds: Bounds, problems: list[Problem]) -> list[Single]:
    """Translate a clause that reads attributes of lattices into one clause or several. bounds: see `lattice_bounds`; problems:
    the problems of the clause are appended."""
    if not bounds or single.dominates or not any(_lattice_places(literal, relations, bounds) for literal in single.body):
        return [single]
    return list(_Translation(single, relations, bounds, problems).clauses())


def lattice_warnings(source: syntax.SourceProgram) -> Iterator[Problem]:
    """Warn of lattices without greatest lower bounds."""
    for node in source.of(syntax.Lattice):
        for word in MEETING:
            if word not in dict(node.bounds):
                hint = f"a value in a body is compared as it is, without {' and '.join(MEETING)}"
                yield Problem(f"Lattice {node.name}<> does not define {word}", node.span, hint, WARNING)


def _lattice_places(literal: syntax.Node, relations: syntax.Relations, bounds: Bounds) -> dict[int, str]:
    """Return the type of each argument of an atom or a negated atom that is a value of a lattice with `MEETING`, by place.
    Wildcards are left out."""
    atom = literal.body if isinstance(literal, syntax.Negation) else literal
    node = relations.get(atom.relation) if isinstance(atom, syntax.Atom) else None
    if node is None or not isinstance(atom, syntax.Atom) or len(node.attributes) != len(atom.args):
        return {}
    types = {}
    for place, (arg, (_, type_)) in enumerate(zip(atom.args, node.attributes, strict=True)):
        if place in node.lattices and not isinstance(arg, syntax.Underscore) and bounds.get(type_, {}).keys() >= {*MEETING}:
            types[place] = type_
    return types


@dataclass
class _Translation:
    """The translation of one clause. meets: for each variable that several values of lattices bind, (type, these values): it is
    their greatest lower bound."""

    single: Single
    relations: syntax.Relations
    bounds: Bounds
    problems: list[Problem]
    meets: dict[str, tuple[str, list]] = field(default_factory=dict)

    def __post_init__(self):
        """Find the variables that other literals ground, and count the occurrences of each variable in places of lattices."""
        self._numbers = count(1)
        atoms = [literal for literal in self.single.body if isinstance(literal, syntax.Atom)]
        args = [atom.args[place] for atom in atoms for place in _lattice_places(atom, self.relations, self.bounds)]
        self.occurrences = Counter(arg.name for arg in args if isinstance(arg, syntax.Variable))
        self.ground = grounded([self._without_values(literal) for literal in self.single.body])

    def clauses(self) -> Iterator[Single]:
        """Yield the clauses that the clause becomes."""
        bodies: list[list] = [[]]
        for literal in self.single.body:
            alternatives = self._translated(literal)
            bodies = [[*body, *alternative] for body in bodies for alternative in alternatives]
        shared = [part for name, (type_, values) in self.meets.items() for part in self._meeting(name, type_, values)]
        for literals in bodies:
            body = tuple(rebuilt(part, lambda _: None) for part in (*literals, *shared))  # clauses share no nodes
            yield replace(self.single, head=rebuilt(self.single.head, lambda _: None), body=body)

    def _without_values(self, literal: syntax.Node) -> syntax.Node:
        """Return a literal in which wildcards replace the values of lattices, if it is a positive atom."""
        places = _lattice_places(literal, self.relations, self.bounds)
        if not places or not isinstance(literal, syntax.Atom):
            return literal
        return self._with_args(literal, {place: syntax.Underscore(span=literal.args[place].span) for place in places})

    def _with_args(self, atom: syntax.Atom, args: Mapping[int, syntax.Node]) -> syntax.Atom:
        """Return an atom with other arguments in some places."""
        return replace(atom, args=tuple(args.get(place, arg) for place, arg in enumerate(atom.args)))

    def _fresh(self, span: Span) -> syntax.Variable:
        """Return a new variable: with a dot, as no written one has."""
        return syntax.Variable(f"lattice.@{next(self._numbers)}", span=span)

    def _glb(self, type_: str, left: syntax.Node, right: syntax.Node) -> syntax.Functor:
        """Return the greatest lower bound of two values."""
        functor = self.bounds[type_]["Glb"]
        assert isinstance(functor, syntax.Functor)  # see `_functor_problems`
        return replace(functor, args=(left, right), span=right.span)

    def _translated(self, literal: syntax.Node) -> list[list]:
        """Return the conjunctions whose disjunction replaces a literal."""
        places = _lattice_places(literal, self.relations, self.bounds)
        if places and isinstance(literal, syntax.Negation):
            return self._absent(literal, places)
        if not places or not isinstance(literal, syntax.Atom):
            return [[literal]]
        args, tests = {}, []
        for place, type_ in places.items():
            arg = literal.args[place]
            if not isinstance(arg, syntax.Variable) or arg.name in self.ground:
                self._check_grounded(arg)
                args[place] = self._fresh(arg.span)
                tests.append(syntax.Constraint("=", (self._glb(type_, args[place], arg), arg), span=arg.span))
            elif self.occurrences[arg.name] > 1:  # a variable that occurs once is bound to the value itself
                args[place] = self._fresh(arg.span)
                _, values = self.meets.setdefault(arg.name, (type_, []))
                values.append(args[place])
        return [[self._with_args(literal, args), *tests]]

    def _check_grounded(self, arg: syntax.Node) -> None:
        """Report an argument of a lattice that is neither a variable nor grounded."""
        missing = variable_names(arg) - self.ground
        if missing or any(isinstance(node, syntax.Underscore) for node in walk_all([arg])):
            hint = "write a variable, and take it apart in an equality of its own"
            self.problems.append(Problem("Lattice argument is not grounded", arg.span, hint))

    def _absent(self, literal: syntax.Negation, places: dict[int, str]) -> list[list]:
        """Return the conjunctions for a negation: no tuple has the key, or its value meets the given one in Bottom."""
        atom = literal.body
        assert isinstance(atom, syntax.Atom)  # as it has places
        wildcards = {place: syntax.Underscore(span=atom.args[place].span) for place in places}
        alternatives: list[list] = [[replace(literal, body=self._with_args(atom, wildcards))]]
        for place, type_ in places.items():
            value = self._fresh(atom.args[place].span)
            meet = self._glb(type_, value, atom.args[place])
            test = syntax.Constraint("=", (meet, self.bounds[type_]["Bottom"]), span=literal.span)
            alternatives.append([self._with_args(atom, wildcards | {place: value}), test])
        return alternatives

    def _meeting(self, name: str, type_: str, values: list) -> Iterator[syntax.Constraint]:
        """Yield the literals that bind a variable to the meet of its values, and require that it is not Bottom."""
        span = values[0].span
        meet = reduce(partial(self._glb, type_), values)
        variable = syntax.Variable(name, span=span)
        yield syntax.Constraint("=", (variable, meet), span=span)
        yield syntax.Constraint("!=", (variable, self.bounds[type_]["Bottom"]), span=span)
