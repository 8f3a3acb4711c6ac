"""The syntax tree of a program's text, before resolution. Names are as written.

The parser makes it, `components` flattens it (no `Component`, `Init` or `Override` is left, names are qualified with dots),
and `lower` turns it into the rules of `ra.ir`.
"""

from dataclasses import dataclass, field

from semi_naive.language.errors import NOWHERE, Span


@dataclass(frozen=True)
class Node:
    span: Span = field(default=NOWHERE, kw_only=True, compare=False, repr=False)


# -- expressions


@dataclass(frozen=True)
class Variable(Node):
    name: str


@dataclass(frozen=True)
class Underscore(Node):
    pass


@dataclass(frozen=True)
class Number(Node):
    """A numeric literal; `suffix` is "" (number, but possibly unsigned or float), "u" or "f"."""

    value: int | float
    suffix: str = ""


@dataclass(frozen=True)
class String(Node):
    """A string literal, escapes resolved."""

    value: str


@dataclass(frozen=True)
class Nil(Node):
    pass


@dataclass(frozen=True)
class RecordInit(Node):
    args: tuple


@dataclass(frozen=True)
class BranchInit(Node):
    """$name(argument, …), of an algebraic data type; the name may be qualified with dots."""

    name: str
    args: tuple


@dataclass(frozen=True)
class Functor(Node):
    """An operator or an intrinsic functor, by its written name: + - * / % ^ band … cat ord range autoinc; unary minus is "neg",
    unary bnot and lnot keep their names. `min` and `max` with one argument aggregate in a head. The name of a user-defined
    functor begins with @."""

    name: str
    args: tuple


@dataclass(frozen=True)
class As(Node):
    """as(expression, type)."""

    value: Node
    type: str


@dataclass(frozen=True)
class Aggregate(Node):
    """op target : { body }; count has no target. The name of a user-defined aggregate begins with @@, and its initial value
    `init` comes before the body."""

    op: str
    target: Node | None
    body: Node
    init: Node | None = None


# -- bodies


@dataclass(frozen=True)
class Atom(Node):
    relation: str  # qualified names with dots
    args: tuple


@dataclass(frozen=True)
class Constraint(Node):
    """op: = != < <= > >= match contains (two arguments), or true, false (none)."""

    op: str
    args: tuple = ()


@dataclass(frozen=True)
class Negation(Node):
    """Negation of anything: an atom, a constraint, a parenthesised body."""

    body: Node


@dataclass(frozen=True)
class And(Node):
    items: tuple


@dataclass(frozen=True)
class Or(Node):
    items: tuple


# -- statements


@dataclass(frozen=True)
class Clause(Node):
    """head, head :- body. A fact has no body. `plan`: {version number: order of the atoms, from 1}; `plan_spans`: of each;
    `join`: "multiway", "binary", or "". `dominating`: of head <= dominating :- body, where the dominating tuple removes the
    head. `beside`: the other heads that the clause was written with."""

    heads: tuple
    body: Node | None = None
    plan: dict | None = field(default=None, compare=False)
    plan_spans: dict = field(default_factory=dict, compare=False, repr=False)
    join: str = field(default="", compare=False)
    dominating: Atom | None = None
    beside: tuple = field(default=(), compare=False, repr=False)

    @property
    def parts(self) -> tuple:
        """All parts in the order of the text."""
        return tuple(part for part in (*self.heads, self.dominating, self.body) if part is not None)


@dataclass(frozen=True)
class SubtypeDecl(Node):
    """.type name <: base, and the old .number_type and .symbol_type."""

    name: str
    base: str


@dataclass(frozen=True)
class UnionDecl(Node):
    """.type name = member | member; with one member, an alias. `spans`: of each member."""

    name: str
    members: tuple[str, ...]
    spans: tuple = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class RecordDecl(Node):
    """.type name = [field: type, …]. `spans`: of each field's type."""

    name: str
    fields: tuple[tuple[str, str], ...]
    spans: tuple = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class BranchDecl(Node):
    """name {field: type, …}, of an algebraic data type. `spans`: of each field's type."""

    name: str
    fields: tuple[tuple[str, str], ...]
    spans: tuple = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class SumDecl(Node):
    """.type name = branch | branch: an algebraic data type."""

    name: str
    branches: tuple[BranchDecl, ...]


TYPES = SubtypeDecl, UnionDecl, RecordDecl, SumDecl


@dataclass(frozen=True)
class ChoiceDomain(Node):
    """choice-domain key, …: each key is a tuple of attribute names. `spans`: of each key."""

    keys: tuple[tuple[str, ...], ...] = ()
    spans: tuple = field(default=(), compare=False, repr=False)


NO_CHOICE = ChoiceDomain()


@dataclass(frozen=True)
class RelationDecl(Node):
    """.decl name(attribute: type, …) qualifiers; one node for each of several names. Old qualifiers such as `output` are
    directives. `span` is the name's, `spans` are those of the attributes' types; `lattices`: positions of attributes whose
    types are written with <>; `born_of`: the relation of .decl name = debug_delta(relation)."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    qualifiers: frozenset[str] = frozenset()
    choice: ChoiceDomain = NO_CHOICE
    lattices: tuple[int, ...] = ()
    born_of: str = ""
    spans: tuple = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class FunctorDecl(Node):
    """.functor name(parameter: type, …): result. Names of parameters are optional. `spans`: of the parameters, then of the
    result's type."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    result: str
    stateful: bool = False
    spans: tuple = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Lattice(Node):
    """.lattice name<> { Bottom -> …, Lub -> @f(_, _), … }: the lattice of a type's values. bounds: (word, expression)."""

    name: str
    bounds: tuple[tuple[str, Node], ...]


@dataclass(frozen=True)
class Directive(Node):
    """.input .output .printsize .limitsize of one relation, with its parameters."""

    kind: str
    relation: str
    parameters: dict = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Pragma(Node):
    key: str
    value: str = ""


@dataclass(frozen=True)
class Component(Node):
    """.comp name<parameters> : base<arguments>, … { statements }."""

    name: str
    parameters: tuple[str, ...]
    bases: tuple[tuple[str, tuple[str, ...]], ...]
    statements: tuple


@dataclass(frozen=True)
class Init(Node):
    """.init name = component<arguments>."""

    name: str
    component: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Override(Node):
    """.override relation, in a component."""

    relation: str


@dataclass
class SourceProgram:
    """A whole program. `texts`: the text of each file, by name, for error messages. `warnings`: of obsolete syntax; `legacy`:
    obsolete syntax is allowed, and so are arguments whose type is no subtype of the declared one."""

    statements: list
    texts: dict[str, str] = field(default_factory=dict)
    warnings: list = field(default_factory=list)
    legacy: bool = False
