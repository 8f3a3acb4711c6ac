"""The syntax tree of a program's text, before resolution. Names are as written.

The parser makes it; `components` flattens it (then there is no `Component`, `Init` or `Override`, and names are qualified with
dots); and `lower` translates it into the rules of `ra.ir`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from semi_naive.language.errors import NOWHERE, Span
from semi_naive.ra.nodes import node


@node
class Node:
    """A part of the text, with its place."""

    span: Span = field(default=NOWHERE, kw_only=True, compare=False, repr=False)


# -- expressions


@node
class Variable(Node):
    """A variable, by its name."""

    name: str


@node
class Underscore(Node):
    """Any value: _"""


@node
class Number(Node):
    """A numeric literal. suffix: "" (number, but possibly unsigned or float), "u" or "f"."""

    value: int | float
    suffix: str = ""


@node
class String(Node):
    """A string literal, escapes resolved."""

    value: str


@node
class Nil(Node):
    """nil: the record of no fields."""


@node
class RecordInit(Node):
    """[argument, …]: a record."""

    args: tuple[Node, ...] = ()


@node
class BranchInit(Node):
    """$name(argument, …), of an algebraic data type; the name may be qualified with dots."""

    name: str
    args: tuple[Node, ...] = ()


@node
class Functor(Node):
    """An operator or an intrinsic functor, by its written name: + - * / % ^ band … cat ord range autoinc; unary minus is "neg",
    unary bnot and lnot keep their names. `min` and `max` with one argument aggregate in a head. The name of a user-defined
    functor begins with @."""

    name: str
    args: tuple[Node, ...] = ()


@node
class As(Node):
    """as(expression, type)."""

    value: Node
    type: str


@node
class Aggregate(Node):
    """op target : { body }; count has no target. The name of a user-defined aggregate begins with @@, and its initial value
    `init` comes before the body. In a `Single`, the body is a tuple of literals."""

    op: str
    target: Node | None
    body: Node | tuple[Node, ...]
    init: Node | None = None

    @property
    def literals(self) -> tuple[Node, ...]:
        """The literals of the body; before it is normalised, the one body."""
        return self.body if isinstance(self.body, tuple) else (self.body,)


# -- bodies


@node
class Atom(Node):
    """relation(argument, …); the name may be qualified with dots. args: expressions."""

    relation: str
    args: tuple = ()


@node
class Constraint(Node):
    """op: = != < <= > >= match contains (two arguments), or true, false (none)."""

    op: str
    args: tuple[Node, ...] = ()


@node
class Negation(Node):
    """Negation of anything: an atom, a constraint, a parenthesised body."""

    body: Node


@node
class And(Node):
    """Literals that all hold: literal, literal, …"""

    items: tuple[Node, ...]


@node
class Or(Node):
    """Bodies of which one holds: body; body; …"""

    items: tuple[Node, ...]


# -- statements


@node
class Clause(Node):
    """head, or head :- body. A fact has no body.

    plan: {version number: order of the atoms, from 1}; plan_spans: the place of each.
    join: "multiway", "binary", or "".
    dominating: in head <= dominating :- body, the tuple that removes the head.
    beside: the other heads that the clause was written with."""

    heads: tuple[Atom, ...]
    body: Node | None = None
    plan: dict[int, tuple[int, ...]] | None = field(default=None, compare=False)
    plan_spans: dict[int, Span] = field(default_factory=dict, compare=False, repr=False)
    join: str = field(default="", compare=False)
    dominating: Atom | None = None
    beside: tuple[Atom, ...] = field(default=(), compare=False, repr=False)

    @property
    def parts(self) -> tuple[Node, ...]:
        """All parts in the order of the text."""
        return tuple(part for part in (*self.heads, self.dominating, self.body) if part is not None)

    @property
    def compared(self) -> tuple[Atom, Atom]:
        """The dominated and the dominating atom of a subsumptive clause."""
        assert self.dominating is not None
        return self.heads[0], self.dominating


@node
class SubtypeDecl(Node):
    """.type name <: base, and the obsolete .number_type and .symbol_type."""

    name: str
    base: str


@node
class UnionDecl(Node):
    """.type name = member | member; with one member, an alias. spans: the places of the members."""

    name: str
    members: tuple[str, ...]
    spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)


@node
class RecordDecl(Node):
    """.type name = [field: type, …]. spans: the places of the fields' types."""

    name: str
    fields: tuple[tuple[str, str], ...]
    spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)


@node
class BranchDecl(Node):
    """name {field: type, …}, of an algebraic data type. spans: the places of the fields' types."""

    name: str
    fields: tuple[tuple[str, str], ...]
    spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)


@node
class SumDecl(Node):
    """.type name = branch | branch: an algebraic data type."""

    name: str
    branches: tuple[BranchDecl, ...]


TypeDecl = SubtypeDecl | UnionDecl | RecordDecl | SumDecl
TYPES = SubtypeDecl, UnionDecl, RecordDecl, SumDecl


@node
class ChoiceDomain(Node):
    """choice-domain key, …: each key is a tuple of attribute names. spans: the places of the keys."""

    keys: tuple[tuple[str, ...], ...] = ()
    spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)


NO_CHOICE = ChoiceDomain()


@node
class RelationDecl(Node):
    """.decl name(attribute: type, …) qualifiers; one node for each name. Obsolete ones such as `output` become directives.

    span: the place of the name; spans: of the attributes' types.
    lattices: positions of attributes whose types are written with <>.
    born_of: the recorded relation, in .decl name = debug_delta(relation)."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    qualifiers: frozenset[str] = frozenset()
    choice: ChoiceDomain = NO_CHOICE
    lattices: tuple[int, ...] = ()
    born_of: str = ""
    spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)


Relations = dict[str, RelationDecl]  # declarations, by the name of the relation


@node
class FunctorDecl(Node):
    """.functor name(parameter: type, …): result. Parameters may have no names. spans: of the parameters, then the result."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    result: str
    stateful: bool = False
    spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)


def named_types(declaration: Node) -> Iterator[tuple[str, Span]]:
    """Yield the types that a declaration names, in the order of the text, each with the place that it is written at; of a base
    type and in generated declarations, this is the place of the declaration."""
    names: Sequence[str] = ()
    match declaration:
        case SumDecl(branches=branches):
            for branch in branches:
                yield from named_types(branch)
        case SubtypeDecl(base=base):
            names = [base]
        case UnionDecl(members=members):
            names = members
        case RelationDecl(attributes=pairs) | RecordDecl(fields=pairs) | BranchDecl(fields=pairs):
            names = [name for _, name in pairs]
        case FunctorDecl(parameters=pairs, result=result):
            names = [*(name for _, name in pairs), result]
    spans = getattr(declaration, "spans", ()) or [declaration.span] * len(names)
    yield from zip(names, spans, strict=False)


@node
class Lattice(Node):
    """.lattice name<> { Bottom -> …, Lub -> @f(_, _), … }: the lattice of a type's values. bounds: (word, expression)."""

    name: str
    bounds: tuple[tuple[str, Node], ...]


@node
class Directive(Node):
    """.input .output .printsize .limitsize of one relation, with its parameters."""

    kind: str
    relation: str
    parameters: dict = field(default_factory=dict, compare=False)


@node
class Pragma(Node):
    """A .pragma with its key and its value."""

    key: str
    value: str = ""


@node
class Component(Node):
    """.comp name<parameters> : base<arguments>, … { statements }."""

    name: str
    parameters: tuple[str, ...]
    bases: tuple[tuple[str, tuple[str, ...]], ...]
    statements: tuple[Node, ...]


@node
class Init(Node):
    """.init name = component<arguments>."""

    name: str
    component: str
    arguments: tuple[str, ...] = ()


@node
class Override(Node):
    """.override relation, in a component."""

    relation: str


@dataclass
class SourceProgram:
    """A whole program.

    statements: nodes, in the order of the text.
    texts: the text of each file, by name, for error messages.
    warnings: about obsolete syntax.
    legacy: obsolete syntax is allowed, and so are arguments whose type is not a subtype of the declared one."""

    statements: list
    texts: dict[str, str] = field(default_factory=dict)
    warnings: list = field(default_factory=list)
    legacy: bool = False

    def of(self, *kinds: type) -> list[Any]:
        """Return the statements of some classes."""
        return [node for node in self.statements if isinstance(node, kinds)]

    @property
    def inputs(self) -> list[Directive]:
        return [node for node in self.of(Directive) if node.kind == "input"]

    @property
    def subsumptions(self) -> list[Clause]:
        """The subsumptive clauses, head <= dominating :- body."""
        return [node for node in self.of(Clause) if node.dominating is not None]
