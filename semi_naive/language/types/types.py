"""Declared types: their definitions, and the subtype relation.

The lattice is Soufflé's. Above each predefined type is the type of its constants: `1` is a __number, of which `number` is a
subtype, and all types declared `<: number` are subtypes of `number`. So a constant is allowed at any place of its kind, while a
variable of one subtype is not allowed in an attribute of another.

Four subtypes of number are predefined: bool, date, timestamp and duration (`ra.values.encoded`). A program may declare other
types with these names. A string is a constant of each of them."""

from collections.abc import Callable
from functools import cache

from semi_naive.language import syntax
from semi_naive.language.errors import Problem, Span
from semi_naive.planning.rewrite import reachable
from semi_naive.ra.ir import ENCODED, Constructor, Kind, Type

PREDEFINED = {"number": Kind.NUMBER, "unsigned": Kind.UNSIGNED, "float": Kind.FLOAT, "symbol": Kind.SYMBOL}
CONSTANT = {kind: f"__{name}" for name, kind in PREDEFINED.items()}  # the type of the constants of each kind
KIND = {constant: kind for kind, constant in CONSTANT.items()}
MAX_DEFINITION_DEPTH = 100  # type definitions in a chain, at most
SHORTER = f"define it by a type that is nearer: {MAX_DEFINITION_DEPTH} are the most"


class TypeEnvironment:
    """The types of a program, by name. problems: the errors of declarations; queries know only the types without errors."""

    def __init__(self, source: syntax.SourceProgram):
        self.problems: list[Problem] = []
        self._declared: dict[str, syntax.TypeDecl] = {}
        # Each rule asks these for the same few types. kinds: those of some types; only: the set of a type, without aliases.
        self.subtype: Callable[[str, str], bool] = cache(self._subtype)
        self.meet: Callable[[str, str], frozenset[str]] = cache(self._meet)
        self.kind: Callable[[str], Kind] = cache(self._kind)
        self.kinds: Callable[[frozenset[str]], frozenset[Kind]] = cache(lambda names: frozenset(map(self.kind, names)))
        self.encoded_as: Callable[[str], Kind | None] = cache(self._encoded_as)
        self.only: Callable[[str], frozenset[str]] = cache(lambda name: frozenset([self.skip_aliases(name)]))
        self._sorted_branches: dict[str, tuple[Constructor, ...]] = {}  # by type
        self._tags: dict[str, int] = {}  # the place of each branch among those of its type
        self._branches: dict[str, tuple[str, syntax.BranchDecl]] = {}  # the type of each branch, by the branch's name
        for declaration in source.of(*syntax.TYPES):
            self._declare(declaration)
        named = {name for statement in source.statements for name, _ in syntax.named_types(statement)}
        self._encoded = frozenset(kind.value for kind in ENCODED if kind.value not in self._declared)
        self._declared |= {name: syntax.SubtypeDecl(name, Kind.NUMBER.value) for name in sorted(self._encoded)}
        # The types whose constants are strings. Without them in declarations, a string is a symbol.
        self.of_strings = self._encoded & named | {CONSTANT[Kind.SYMBOL]}
        self._known = dict.fromkeys([*CONSTANT.values(), *PREDEFINED])  # an ordered set: types without errors in definitions
        parts = {name: _component_types(declaration) for name, declaration in self._declared.items()}
        self._known.update(dict.fromkeys(self._sound(parts)))
        for declaration in self._declared.values():
            self._check(declaration, parts)
        self._check_branch_names()
        self.functors = {node.name: node for node in source.of(syntax.FunctorDecl)}

    def _declare(self, declaration: syntax.TypeDecl):
        """Register a type declaration, unless its name is taken."""
        name = declaration.name
        if name in PREDEFINED:
            self._problem("Redefinition of the predefined type", declaration, f"give it another name than {name}")
        elif name in self._declared:
            previous = [("Previous definition", self._declared[name].span)]
            self.problems.append(Problem(f"Redefinition of type {name}", declaration.span, notes=previous))
        else:
            self._declared[name] = declaration
            if isinstance(declaration, syntax.SumDecl):
                branches = sorted(declaration.branches, key=lambda branch: branch.name)
                self._sorted_branches[name] = tuple(Constructor(branch.name, branch.fields) for branch in branches)
                self._tags |= {branch.name: tag for tag, branch in enumerate(branches)}

    def _problem(self, message: str, declaration: syntax.Node, hint: str = ""):
        self.problems.append(Problem(message, declaration.span, hint))

    def _sound(self, parts_of: dict[str, tuple[str, ...]]) -> list[str]:
        """Return the types whose definitions lead to predefined types and records, through at most `MAX_DEFINITION_DEPTH`
        definitions, without undefined types and cycles. Report the types that are one definition further."""
        missing_parts = {name: set(parts) - set(PREDEFINED) for name, parts in parts_of.items()}
        users: dict[str, list[str]] = {}  # the types in whose definitions a type is
        for name, parts in missing_parts.items():
            for part in parts:
                users.setdefault(part, []).append(name)
        sound, level = [], [name for name, parts in missing_parts.items() if not parts]
        for _ in range(MAX_DEFINITION_DEPTH):
            sound += level
            reached_users: dict[str, None] = {}  # an ordered set: the types that a type of this level is a part of
            for name in level:
                for user in users.get(name, ()):
                    missing_parts[user].discard(name)
                    reached_users[user] = None
            level = [user for user in reached_users if not missing_parts[user]]
        for name in level:
            message = f"Type {name} is {MAX_DEFINITION_DEPTH + 1} definitions away from a predefined type"
            self._problem(message, self._declared[name], SHORTER)
        return sound

    # -- checks of declarations

    def _check(self, declaration: syntax.TypeDecl, parts: dict[str, tuple[str, ...]]):
        """Report the errors of one declaration. parts: by type, the types by which it is defined."""
        if isinstance(declaration, syntax.RecordDecl):
            self._check_record(declaration)
        elif isinstance(declaration, syntax.SumDecl):
            self._check_sum(declaration)
        elif declaration.name not in self._known and declaration.name in reachable(_component_types(declaration), parts):
            self._problem(f"Infinite descent in the definition of type {declaration.name}", declaration)
        elif isinstance(declaration, syntax.SubtypeDecl):
            self._check_subtype(declaration)
        elif len(declaration.members) == 1:
            if (name := declaration.members[0]) not in self._known:
                self._problem(f"Undefined alias type {name} in definition of type {declaration.name}", declaration)
        else:
            self._check_union(declaration)

    def _check_record(self, declaration: syntax.RecordDecl):
        """Report undefined types and repeated names of a record's fields."""
        names = set()
        for (name, _), (type_name, span) in zip(declaration.fields, syntax.named_types(declaration), strict=True):
            if type_name not in self._known:
                self.problems.append(Problem(f"Undefined type {type_name} in definition of field {name}", span))
            if name in names:
                message = f"Doubly defined field name {name} in definition of type {declaration.name}"
                self.problems.append(Problem(message, span))
            names.add(name)

    def _check_sum(self, declaration: syntax.SumDecl):
        """Report undefined types in the branches of an algebraic data type."""
        for branch in declaration.branches:
            for type_name, span in syntax.named_types(branch):
                if type_name not in self._known:
                    message = f"Undefined type {type_name} in definition of branch {branch.name}"
                    self.problems.append(Problem(message, span))

    def _check_branch_names(self):
        """Report branch names that several types declare, as `$name(…)` gives no type."""
        branches_of: dict[str, list[syntax.BranchDecl]] = {}
        for declaration in self._declared.values():
            for branch in declaration.branches if isinstance(declaration, syntax.SumDecl) else ():
                branches_of.setdefault(branch.name, []).append(branch)
                self._branches.setdefault(branch.name, (declaration.name, branch))
        for name, (first, *others) in branches_of.items():
            if others:
                notes = [(f"Branch {name} defined", other.span) for other in others]
                hint = "give each branch of the program a name of its own"
                self.problems.append(Problem(f"Branch {name} is defined multiple times", first.span, hint, notes=notes))

    def _check_subtype(self, declaration: syntax.SubtypeDecl):
        """Report an undefined or unsuitable base type."""
        if declaration.base not in self._known:
            self._problem(f"Undefined base type {declaration.base} in definition of type {declaration.name}", declaration)
            return
        root = self._declared.get(self.skip_aliases(declaration.base))
        if isinstance(root, syntax.UnionDecl):
            self._problem(f"Subset type {declaration.name} can't be derived from union {root.name}", declaration)
        elif isinstance(root, syntax.RecordDecl):
            self._problem(f"Subset type {declaration.name} can't be derived from record type {root.name}", declaration)

    def _check_union(self, declaration: syntax.UnionDecl):
        """Report members of a union that are undefined, not primitive, or of different kinds."""
        for member in sorted(declaration.members):
            if member not in PREDEFINED and member not in self._declared:
                self._problem(f"Undefined type {member} in definition of union type {declaration.name}", declaration)
            elif isinstance(self._declared.get(member), (syntax.RecordDecl, syntax.SumDecl)):
                self._problem(f"Union type {declaration.name} contains the non-primitive type {member}", declaration)
        kinds = sorted({self.kind(member) for member in declaration.members if member in self._known} - {Kind.RECORD})
        if len(kinds) > 1:
            message = f"Union type {declaration.name} is defined over {{{', '.join(kinds)}}}"
            self._problem(f"{message} (multiple primitive types in union)", declaration)

    # -- queries

    def __contains__(self, name: str) -> bool:
        return name in self._known and name not in KIND

    def span(self, name: str) -> Span | None:
        """Return the place of a type's declaration; None if it has none."""
        return self._declared[name].span if name in self._declared else None

    @property
    def declared(self) -> list[str]:
        """The names of the types that the program declares."""
        return [name for name in self._declared if name not in self._encoded]

    def skip_aliases(self, name: str) -> str:
        """Return the type that a chain of aliases ends in."""
        while (members := self._members(name)) and len(members) == 1:
            name = members[0]
        return name

    def declared_as(self, name: str) -> str:
        """Return the first declared name of a type, unless it is that of a predefined type."""
        first = self.skip_aliases(name)
        return name if first in PREDEFINED else first

    def _members(self, name: str) -> tuple[str, ...]:
        """Return the members of a union or an alias; none for other types."""
        declaration = self._declared.get(name)
        return declaration.members if isinstance(declaration, syntax.UnionDecl) else ()

    def base(self, name: str) -> str:
        """Return the root of a type: a type of constants, a record, a union, or an algebraic data type.

        >>> TypeEnvironment(syntax.SourceProgram([syntax.SubtypeDecl("T", "number")])).base("T")
        '__number'
        """
        name = self.skip_aliases(name)
        if name in PREDEFINED:
            return CONSTANT[PREDEFINED[name]]
        declaration = self._declared.get(name)
        return self.base(declaration.base) if isinstance(declaration, syntax.SubtypeDecl) else name

    def fields(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return the fields of a record type; an algebraic data type has none itself."""
        declaration = self._declared[self.base(name)]
        return declaration.fields if isinstance(declaration, syntax.RecordDecl) else ()

    def branch(self, name: str) -> tuple[str, syntax.BranchDecl] | None:
        """Return (name of the algebraic data type, branch) for the name of a branch; None if no type has it."""
        return self._branches.get(name)

    @property
    def branch_names(self) -> list[str]:
        return list(self._branches)

    def branches(self, name: str) -> tuple[Constructor, ...]:
        """Return the branches of an algebraic data type, sorted by name; none for other types."""
        return self._sorted_branches.get(self.base(name), ())

    def tag(self, branch: str) -> int:
        """Return the place of a declared branch among the branches of its type, sorted by name."""
        return self._tags[branch]

    def _kind(self, name: str) -> Kind:
        """Return the kind of a type's values: that of its root, or of the members of a union."""
        base = self.base(name)
        members = self._members(base)
        return KIND.get(base) or (self.kind(members[0]) if members else Kind.RECORD)

    def _encoded_as(self, name: str) -> Kind | None:
        """Return the kind of dates or times that a type's values are written as, if any."""
        name = self.skip_aliases(name)
        if name in self._encoded:
            return Kind(name)
        declaration = self._declared.get(name)
        return self.encoded_as(declaration.base) if isinstance(declaration, syntax.SubtypeDecl) else None

    @property
    def encoded_types(self) -> frozenset[str]:
        """The names of the types whose values are written otherwise than numbers."""
        return self._encoded

    def is_union(self, name: str) -> bool:
        return len(self._members(name)) > 1

    def is_record(self, name: str) -> bool:
        return isinstance(self._declared.get(name), syntax.RecordDecl)

    def _subtype(self, a: str, b: str) -> bool:
        """True if every value of type a is one of type b."""
        a, b = self.skip_aliases(a), self.skip_aliases(b)
        if a == b:
            return True
        if self.is_union(a):
            return all(self.subtype(member, b) for member in self._members(a))
        if self.is_union(b):
            return any(self.subtype(a, member) for member in self._members(b))
        if a in PREDEFINED:
            return b == CONSTANT[PREDEFINED[a]]
        declaration = self._declared.get(a)
        return isinstance(declaration, syntax.SubtypeDecl) and self.subtype(declaration.base, b)

    def _meet(self, a: str, b: str) -> frozenset[str]:
        """Return the greatest types that are subtypes of both types."""
        a, b = self.skip_aliases(a), self.skip_aliases(b)
        if self.subtype(a, b):
            return frozenset([a])
        if self.subtype(b, a):
            return frozenset([b])
        if self.is_union(a) and self.is_union(b):
            return frozenset().union(*(self._common(member, b) for member in self._members(a)))
        return frozenset()

    def _common(self, a: str, b: str) -> frozenset[str]:
        """Return the members of type a, members of members included, that are subtypes of b."""
        a = self.skip_aliases(a)
        if self.subtype(a, b):
            return frozenset([a])
        return frozenset().union(*(self._common(member, b) for member in self._members(a)))

    def resolved(self, name: str) -> Type:
        """Return a type in the form that the evaluator uses."""
        kind = self.kind(name)
        if encoded := self.encoded_as(name):
            return Type(name, encoded)
        return Type(name, kind, *((self.fields(name), self.branches(name)) if kind == Kind.RECORD else ()))


def _component_types(declaration: syntax.Node) -> tuple[str, ...]:
    """Return the types by which a subtype or union is defined; none for others: a record may have fields of its own type."""
    if isinstance(declaration, syntax.SubtypeDecl):
        return (declaration.base,)
    return declaration.members if isinstance(declaration, syntax.UnionDecl) else ()
