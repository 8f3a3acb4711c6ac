"""The intermediate representation of rules: typed, with one head, without disjunction, each aggregate and generator a literal
of its own.

`semi_naive.language.lower` makes it from a program, the planner rewrites it, and the evaluator and the tests' oracle read it. A
variable is identified by its name: two variables of a rule with the same name are the same, also inside an aggregate. Variables
that only occur inside an aggregate have names that are unique in the rule.

Values are 64-bit: number int64, unsigned uint64, float float64, a symbol or record the id that `ra.values.values` gave it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from semi_naive.ra.cached import cached
from semi_naive.ra.loops import Loop
from semi_naive.ra.nodes import node

if TYPE_CHECKING:
    from semi_naive.language.errors import Span

Order = tuple[int, ...]  # for each place of an index, the number of the relation's column stored there


class Kind(StrEnum):
    """The meaning of a value's 64 bits."""

    NUMBER = "number"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    SYMBOL = "symbol"
    RECORD = "record"
    # Written otherwise than numbers (`ra.values.encoded`), and numbers to the engine: see `stored`.
    BOOL = "bool"
    DATE = "date"
    TIMESTAMP = "timestamp"
    DURATION = "duration"

    @property
    def stored(self) -> "Kind":
        """The kind as which the engine computes values: NUMBER for truth values, dates, timestamps and durations."""
        return Kind.NUMBER if self in ENCODED else self


ENCODED = frozenset({Kind.BOOL, Kind.DATE, Kind.TIMESTAMP, Kind.DURATION})


@node
class Constructor:
    """A branch of an algebraic data type, as declared: the (name, type name) of its fields."""

    name: str
    fields: tuple[tuple[str, str], ...] = ()


@node
class Type:
    """A declared type: its kind, and for a record the (name, type name) of its fields. An algebraic data type has `branches`,
    in the order of their names, and its values are records (see `ra.values.branches`).
    """

    name: str
    kind: Kind
    fields: tuple[tuple[str, str], ...] = ()
    branches: tuple[Constructor, ...] = ()

    @property
    def field_types(self) -> tuple[str, ...]:
        """The names of the types of all fields, including those of branches."""
        fields = [*self.fields, *(field for branch in self.branches for field in branch.fields)]
        return tuple(type_name for _, type_name in fields)


# -- terms

WORDS = {"band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor"}  # operators that are words
PREFIXES = {"neg": "-", "bnot": "bnot ", "lnot": "lnot "}


@node
class Var:
    """A variable, identified by its name."""

    name: str
    kind: Kind

    def __str__(self):
        return self.name


@node
class Wild:
    """`_` in an atom: matches any value, and binds nothing."""

    def __str__(self):
        return "_"


@node
class Const:
    """A constant. value: an int in the range of the kind, a float, or a str; nil is Const(None, Kind.RECORD). written: the text
    of a date, say, whose value is a number."""

    value: int | float | str | None
    kind: Kind
    written: str = field(default="", compare=False, repr=False)

    def __str__(self):
        """As written in a program."""
        if self.value is None:
            return "nil"
        if self.written:
            return f'"{self.written}"'
        return f'"{self.value}"' if self.kind == Kind.SYMBOL else str(self.value)


@node
class Call:
    """A functor with one result: + - * / % ^ neg band bor bxor bnot bshl bshr bshru land lor lxor lnot min max (all arguments
    have the kind of the call; min and max of symbols are by the order of their strings), cat (any number of symbols), ord,
    strlen, substr (symbol, number, number), to_number to_string to_float to_unsigned (which convert from the argument's
    kind), and "as", which keeps the 64 bits and changes their kind. "@f" is a user-defined functor: `function` computes its
    column (`semi_naive.functors.UserFunctor`).
    """

    op: str
    args: tuple  # terms
    kind: Kind
    function: Callable | None = field(default=None, compare=False, repr=False)

    def __str__(self):
        """As written in a program."""
        # an operator stands between its arguments if it is a sign or one of WORDS; other functors, as max or @f, are calls
        if len(self.args) == 2 and (self.op in WORDS or not (self.op.isalpha() or self.op[0] == "@")):
            return f"({self.args[0]} {self.op} {self.args[1]})"
        if self.op in PREFIXES:
            return f"({PREFIXES[self.op]}{self.args[0]})"
        return f"{self.op}({', '.join(map(str, self.args))})"


@node
class Pack:
    """[a, b, …]: a record, or $branch(a, b, …), with the number `tag` in its type. In a positive body atom, or in an equality
    with a bound term, its fields are matched and may bind variables.
    """

    args: tuple
    type: str
    branch: str = ""
    tag: int = 0

    @property
    def kind(self) -> Kind:
        return Kind.RECORD

    def __str__(self):
        inside = ", ".join(map(str, self.args))
        return f"${self.branch}({inside})" if self.branch else f"[{inside}]"


@node
class Autoinc:
    """autoinc(): a new number each time. Only in rules that are evaluated once."""

    kind: Kind = Kind.NUMBER

    def __str__(self):
        return "autoinc()"


Term = Var | Wild | Const | Call | Pack | Autoinc


# -- literals


@node
class Atom:
    """An atom: matches the tuples of a relation that agree with some terms, one for each attribute (`args`)."""

    relation: str
    args: tuple

    def __str__(self):
        return f"{self.relation}({', '.join(map(str, self.args))})"


@node
class Not:
    """A negated atom: true if no tuple agrees with it."""

    atom: Atom

    def __str__(self):
        return f"!{self.atom}"


MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}  # a comparison with its sides exchanged


@node
class Compare:
    """A comparison; op: = != < <= > >=. "=" binds a side that is an unbound variable, or a record of variables."""

    op: str
    left: Term
    right: Term
    kind: Kind

    def __str__(self):
        return f"{self.left} {self.op} {self.right}"

    def both_ways(self) -> tuple[tuple[str, Term, Term], tuple[str, Term, Term]]:
        """Return (op, left, right) as written, and with its sides exchanged."""
        return (self.op, self.left, self.right), (MIRRORED[self.op], self.right, self.left)


@node
class Test:
    """A test of two symbols (`args`, terms), pattern first, perhaps negated. op: match or contains."""

    op: str
    args: tuple
    negated: bool = False

    def __str__(self):
        return f"{'!' * self.negated}{self.op}({', '.join(map(str, self.args))})"


@node
class Truth:
    """true or false."""

    value: bool

    def __str__(self):
        return str(self.value).lower()


@node
class Range:
    """result = range(start, stop[, step]): binds the result to each number from start on, without the stop. The default step is
    1, or -1 if the stop is below the start."""

    result: Var
    start: Term
    stop: Term
    step: Term | None = None

    def __str__(self):
        parts = [self.start, self.stop] + [self.step] * (self.step is not None)
        return f"{self.result} = range({', '.join(map(str, parts))})"


@node
class Aggregate:
    """result = op target : { body }, once for each binding of the variables it shares with the rest of the rule.

    op: count sum min max mean; sum, min and max have the target's kind, mean is a float. For an empty body count and sum are 0,
    the others have no result. count has no target. "@@f" is user-defined: `function.folded` folds the values, starting from
    `init`, which is the result for an empty body (see `ra.expressions.aggregates`).
    """

    result: Var
    op: str
    target: Term | None
    body: tuple  # literals
    init: Term | None = None
    function: Any = field(default=None, compare=False, repr=False)

    def __str__(self):
        """As written in a program."""
        target = f" {self.target}" if self.target is not None else ""
        init = f"{self.init}, " if self.init is not None else ""
        return f"{self.result} = {self.op}{target} : {init}{{ {', '.join(map(str, self.body))} }}"


Literal = Atom | Not | Compare | Test | Truth | Range | Aggregate


# -- rules, relations, programs


@node
class Rule:
    """A rule head :- body. The body is a tuple of literals; that of a fact is empty.

    plan: the order of the positive atoms for each delta version, both numbered from 0, from the directive .plan.
    join: "multiway", "boxed" or "binary", from the directive .join; "" without one.
    span, text: the place in the source, and the source text.
    """

    head: Atom
    body: tuple = ()
    plan: dict | None = field(default=None, compare=False)
    span: "Span | None" = field(default=None, compare=False, repr=False)
    text: str = field(default="", compare=False, repr=False)
    join: str = field(default="", compare=False)

    def __str__(self):
        return f"{self.head}{' :- ' * bool(self.body)}{', '.join(map(str, self.body))}."

    @property
    def description(self) -> str:
        """The rule with its place in the source, for messages."""
        where = f" at {self.span.file}:{self.span.line}:{self.span.column}" if self.span is not None else ""
        return f"the rule{where}, {' '.join((self.text or str(self)).split())}"


NULL_IS_ERROR, NULL_IS_SKIPPED = "error", "skip"  # values of `Relation.null`


@node
class Relation:
    """A declared relation: name(attribute: type, …).

    qualifiers: the words after the attributes in the declaration, such as eqrel; span: the place of the declaration.
    lattice: the aggregate of the last attribute in recursion, for relations whose heads have min(…) or max(…) there; the other
    attributes are the key, and each key has one tuple.
    joins: the least upper bounds of the last attributes, if these are of user-defined lattices (see `ra.reduce.upper_bounds`).
    choice: the keys of a choice-domain, as places of attributes; no two derived tuples agree in one of them.
    summed: the heads aggregate, so no fact can be added.
    dominated: the rules of the relation named `removal` delete tuples; they compare tuples of `worse` with tuples of `better`.
    watched: rules read the numbers of the iterations in which its tuples are born.
    follows: for a relation without rules, the relations whose iterations it records (`running.driver.iterations`).
    rounded: the last attribute is a sum or a mean of floats, and the only aggregate (`ra.reduce.of_relation.rounded`).
    null: how missing values of facts are read (`io.values.missing`).
    """

    name: str
    attributes: tuple[tuple[str, Type], ...]
    qualifiers: frozenset[str] = frozenset()
    lattice: str | None = None
    choice: tuple[tuple[int, ...], ...] = ()
    span: "Span | None" = field(default=None, compare=False, repr=False)
    summed: bool = False
    dominated: bool = False
    joins: tuple = field(default=(), compare=False, repr=False)
    watched: bool = False
    follows: tuple[str, ...] = ()
    rounded: bool = False
    null: str = NULL_IS_ERROR

    @property
    def arity(self) -> int:
        return len(self.attributes)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of each attribute's values to the engine."""
        return tuple(type_.kind.stored for _, type_ in self.attributes)

    @property
    def eqrel(self) -> bool:
        """True if the tuples are closed under reflexivity, symmetry and transitivity."""
        return "eqrel" in self.qualifiers

    @property
    def by_class(self) -> bool:
        """True if the relation maps each value to its equivalence class, instead of listing the pairs of the equivalence: see
        `planning.rewriting.classes`."""
        return "classes" in self.qualifiers

    @property
    def stepwise(self) -> bool:
        """True if the content of the relation depends on the tuples that each iteration makes."""
        return bool(self.choice or self.joins or self.follows) or self.dominated or self.watched

    @property
    def is_iteration(self) -> bool:
        """True if the relation holds the number of the running iteration."""
        return self.name.endswith("@iteration")

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        """The keys, as places of attributes: no two derived tuples agree in all attributes of a key."""
        value_count = len(self.joins) or int(bool(self.lattice))  # the last attributes are values, all others are the key
        return (tuple(range(self.arity - value_count)),) if value_count else self.choice

    @property
    def removal(self) -> str:
        """The name of the relation of tuples that subsumption rules delete."""
        return f"{self.name}@dominated"

    @property
    def worse(self) -> str:
        return f"{self.name}@worse"

    @property
    def better(self) -> str:
        return f"{self.name}@better"

    @property
    def plain(self) -> bool:
        """True if the relation holds exactly the tuples that rules make: no lattice, no equivalence, no stepwise content."""
        return not (self.lattice or self.eqrel or self.stepwise)


@node
class FileDirective:
    """A directive of a relation. kind: input, output, printsize or limitsize; parameters: their texts by name."""

    kind: str
    relation: str
    parameters: dict = field(default_factory=dict)
    span: "Span | None" = field(default=None, compare=False, repr=False)


@dataclass
class Program:
    """A checked program.

    relations: in the order of their declarations.
    directives, pragmas: .input, .output and their like; the values of .pragma by key.
    texts: the texts of the source files, for messages.
    typed: the statements that declare types and functors.
    functors: the Python functions of the declared functors.
    sums: for each relation whose heads aggregate, (the aggregate of each column, the heads as
    `language.reductions.heads.Head`).
    loops: the components that are evaluated in rounds.
    inlined: the statements of relations qualified `inline`.
    """

    types: dict[str, Type]
    relations: dict[str, Relation]
    rules: list[Rule]
    directives: list[FileDirective] = field(default_factory=list)
    pragmas: dict[str, str] = field(default_factory=dict)
    warnings: list = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    typed: list = field(default_factory=list)
    functors: Mapping | None = None
    loops: tuple[Loop, ...] = ()
    sums: dict[str, tuple] = field(default_factory=dict)
    inlined: dict[str, list] = field(default_factory=dict)

    @cached
    def limit_sizes(self) -> dict[str, int]:
        """The .limitsize of each relation that has one."""
        limits = (each for each in self.directives if each.kind == "limitsize" and "n" in each.parameters)
        return {directive.relation: int(directive.parameters["n"]) for directive in limits}

    def lattice(self, name: str) -> str | None:
        """Return "min" or "max" if a relation keeps the best value of each key, else None. The program need not declare it: a
        run has tables of its own."""
        return self.relations[name].lattice if name in self.relations else None
