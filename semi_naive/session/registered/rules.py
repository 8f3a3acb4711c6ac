"""Rules registered while a session runs: checked on registration, and evaluated as long as they have subscribers.

    near(y) :- reach($src, y).      becomes      near(src, y) :- near.parameters(src), reach(src, y).

A parameter, `$src`, becomes the first attribute of the relation, and a relation contains the values that are asked for. So all
subscribers share one dataflow, and subscribers to the same value share tuples (Göbel 2019, "Optimising Distributed Dataflows in
Interactive Environments", on queries of many tenants). Every relation of the rules that depends on a parameter has the
attribute. The others are computed on demand, as far as their demand is known (`planning.rewriting.magic`).
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from semi_naive.language import syntax
from semi_naive.language.checking import check_source
from semi_naive.language.checks import declared_relations
from semi_naive.language.errors import Problem, ProgramError
from semi_naive.language.parsing.parse import parse
from semi_naive.language.scopes import resolve_scopes
from semi_naive.language.single import single_clauses
from semi_naive.language.trees import rebuilt, walk
from semi_naive.language.types.inference import Typing
from semi_naive.language.types.types import TypeEnvironment
from semi_naive.planning import rewrite
from semi_naive.planning.rewriting.passes import Compiled, apply_passes
from semi_naive.planning.strata import strata
from semi_naive.ra import ir
from semi_naive.sandbox import NoFiles
from semi_naive.session.registered.shapes import CheckedShape, Shapes

MAGIC = syntax.Pragma("magic-transform", "*")
# The pragmas allowed in registered rules, which read no files.
OF_RULES = ("inline-exclude", "legacy", "magic-transform", "magic-transform-exclude", "semantics")


@dataclass(frozen=True, eq=False)
class Inlined:
    """A relation of the session's program that is inlined: its declaration and clauses, which replace it in rules that read
    it.
    """

    statements: list


@dataclass(eq=False)
class Registered:
    """A relation defined by registered rules.

    text: the rules as registered; empty for a system relation, which has none.
    make: parses and checks the text when that is first needed; types: the types that it declares.
    parameters: the names of the first attributes.
    reads: the relations of the session that the rules read, without inlined ones; inlines: the inlined ones.
    define: for a relation qualified `inline`, returns the statements that replace it in the rules of a reader; the relation
    itself is evaluated only for its own subscriptions and queries.
    users: the number of subscriptions, queries and evaluated rules that use the relation; strata: the numbers of its strata
    while it has users.
    prepared: the rules after all passes, if they were compiled for a look at them.
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    reads: frozenset[str]
    inlines: frozenset[str]
    make: Callable[[], ir.Program]
    types: Mapping[str, ir.Type] = field(default_factory=dict)
    define: Callable[[str], list] | None = None
    users: int = 0
    strata: list[int] = field(default_factory=list)
    prepared: Compiled | None = None

    @cached_property
    def checked(self) -> ir.Program:
        return self.make()

    @property
    def relation(self) -> ir.Relation:
        return self.checked.relations[self.name]

    @property
    def asked(self) -> str:
        """The name of the relation that has the requested values of the parameters."""
        return f"{self.name}.parameters"

    @property
    def inputs(self) -> list[str]:
        """The relations whose facts the session changes: the relation of the parameters; a system relation itself."""
        return [self.asked] if self.parameters else [] if self.text else [self.name]

    def compiled(self) -> Compiled:
        """The rules after all passes. Relations that the passes add get unique names, which begin with the relation's."""
        if self.prepared:
            return self.prepared
        given = {*self.reads, *self.inputs} & self.checked.relations.keys()
        made = apply_passes(self.checked, {self.name}, given)
        own = f"{self.name}.", f"{self.name}@"
        names = {name: f"{self.name}.{name}" for name in made.program.relations
                 if name not in given and name != self.name and not name.startswith(own)}  # fmt: skip

        def renamed(node):
            return replace(node, relation=names[node.relation]) if getattr(node, "relation", None) in names else node

        relations = {
            names.get(name, name): replace(each, name=names.get(name, name)) for name, each in made.program.relations.items()
        }
        rules = [rewrite.transform(rule, renamed) for rule in made.program.rules]
        program = replace(made.program, relations=relations, rules=rules)
        return Compiled(program, strata(program))


def system_rules(relation: ir.Relation) -> Registered:
    """A system relation in the form of a registered one without rules, so that it is kept while it has users."""
    program = ir.Program({}, {relation.name: relation}, [])
    return Registered(relation.name, "", (), frozenset(), frozenset(), lambda: program)


Readable = ir.Relation | Registered | Inlined  # relations that registered rules may read
Known = Mapping[str, Readable]


def is_inlined(known: Readable) -> bool:
    """True if the statements of a relation replace it in the rules that read it."""
    return isinstance(known, Inlined) or isinstance(known, Registered) and known.define is not None


def standing_for(known: Readable, reader: str) -> list:
    """The statements that define a relation for a reader's rules: its declaration, and if it is inlined its clauses. known: the
    relation; reader: the relation of the rules that read it."""
    if isinstance(known, Inlined):
        return known.statements
    if isinstance(known, Registered) and known.define is not None:
        return known.define(reader)
    return [_declaration(known.relation if isinstance(known, Registered) else known)]


def declarations_of(known: Readable, reader: str) -> list[syntax.RelationDecl]:
    """The declarations among the statements that define a relation for a reader's rules: see `standing_for`."""
    return [each for each in standing_for(known, reader) if isinstance(each, syntax.RelationDecl)]


def declarations_read(nodes: Iterable, known: Known, reader: str) -> list[syntax.RelationDecl]:
    """The declarations of the known relations that atoms among some nodes of a reader's rules read."""
    read = {node.relation for node in nodes if isinstance(node, syntax.Atom)} & known.keys()
    return [each for name in sorted(read) for each in declarations_of(known[name], reader)]


def registered(name: str, text: str, known: Known, program: ir.Program, shapes: Shapes) -> Registered:
    """Check rules for a relation against a session: its `known` relations, and the types of its program. Raises ProgramError
    with all errors, at their places in `<name>`. Rules of a shape that is known to be valid are parsed later, when needed."""
    shape = shapes.of(name, text, known)
    right = shapes.get(shape, known) if shape else None
    if right is None and shape and shape.sample:
        with contextlib.suppress(ProgramError):  # then the text itself is checked, for the places of its errors
            right, _ = _check_rules(_Rules.of(name, shape.sample, known, program), known, program)
            shapes.keep(shape, right)
    made, types = None, {}
    if right is None:
        right, made = _check_rules(_Rules.of(name, text, known, program), known, program)
        if shape:
            shapes.keep(shape, right)
        types = {each: type_ for each, type_ in made.types.items() if each not in program.types}
    reads = {each: known[each] for each in right.reads}
    inlines = frozenset(each for each, one in reads.items() if is_inlined(one))
    evaluated = frozenset(reads) - inlines

    def make() -> ir.Program:
        return made or _check_rules(_Rules.of(name, text, reads, program, whole=True), reads, program)[1]

    def define(reader: str) -> list:
        return _Rules.of(name, text, reads, program).statements(f"{reader}.")

    inline = right.inline
    made = None if inline else made  # it was checked as an inlined relation
    return Registered(name, text, right.parameters, evaluated, inlines, make, types, define if inline else None)


def _check_rules(rules: "_Rules", known: Known, program: ir.Program) -> tuple[CheckedShape, ir.Program]:
    """Check rules together with the relations that they read, and return the result of the check and the program. known: the
    relations that rules may read; program: the session's."""
    reads, statements, texts = _relations_read(rules, known), list(program.typed), rules.source.texts
    for each in reads.values():
        statements += standing_for(each, rules.name)
    try:
        checked = check_source(syntax.SourceProgram([*statements, *rules.statements()], texts), True, program.functors)
    except ProgramError as error:  # with warnings about the session's own statements
        own = [each for each in error.problems if each.span.file == f"<{rules.name}>"]
        raise ProgramError(own or error.problems, {**program.texts, **texts}) from None  # a #line may give them another file
    _check_directives(checked.directives, texts)
    _check_loops(checked, texts)
    return CheckedShape(reads, frozenset(rules.own) - {rules.name}, tuple(rules.parameters), rules.inline), checked


def _relations_read(rules: "_Rules", known: Known) -> dict[str, Readable]:
    """The relations of a session that rules read, and the relations that inlined ones among them read, by name. known: the
    relations that rules may read."""
    found: dict[str, Readable] = {}
    waiting = {node.relation for node in rules.nodes if isinstance(node, syntax.Atom)} - rules.own.keys()
    while waiting:
        name = min(waiting)
        waiting.remove(name)
        if name not in known or name in found:
            continue
        found[name] = known[name]
        statements = standing_for(known[name], rules.name) if is_inlined(known[name]) else []
        clauses = [each for each in statements if isinstance(each, syntax.Clause)]
        waiting |= {node.relation for clause in clauses for node in _nodes(clause) if isinstance(node, syntax.Atom)}
    return dict(sorted(found.items()))


def parameters_as_variables(rules: Registered, known: Known, program: ir.Program) -> ir.Program:
    """Return a program with the parameters of rules replaced by variables, whose values are the one tuple of `rules.asked`."""
    written = _Rules.of(rules.name, rules.text, known, program)
    written.depend = set()
    return _check_rules(written, known, program)[1]


def _rebuild_clause(clause: syntax.Clause, change: Callable) -> syntax.Clause:
    """Rebuild the heads and the body of a clause (`rebuilt`)."""
    body, dominating = (None if part is None else rebuilt(part, change) for part in (clause.body, clause.dominating))
    heads = tuple(rebuilt(head, change) for head in clause.heads)
    return replace(clause, heads=heads, body=body, dominating=dominating)


def _check(name: str, source: syntax.SourceProgram, own: dict, known: Known) -> None:
    """Raise ProgramError for statements that are not allowed, a missing declaration, and names that the session has already.
    own: the declarations in the text, by relation; known: the relations of the session."""
    problems = []
    if name not in own:
        place = next((each.span for each in source.statements), syntax.NOWHERE)
        problems.append(
            Problem(f"These rules declare no relation {name}", place, f"write .decl {name}(attribute: type, …) first")
        )
    for each in own.keys() & known.keys():
        problems.append(Problem(f"The session has a relation {each} already", own[each].span, "give it another name"))
    for each in source.statements:
        if isinstance(each, syntax.FunctorDecl):
            hint = "they call the functors that the session's program declares: declare it there"
            problems.append(Problem("Registered rules declare no functors", each.span, hint))
        if isinstance(each, syntax.Pragma) and each.key not in OF_RULES:
            hint = f"the pragmas of registered rules are {', '.join(OF_RULES)}: take it out"
            problems.append(Problem(f"Registered rules have no .pragma {each.key}", each.span, hint))
    nodes = (node for each in source.statements if isinstance(each, syntax.Clause) for node in _nodes(each))
    for node in nodes:
        if isinstance(node, syntax.Functor) and node.name == "autoinc":
            message = "autoinc() gives other numbers each time, so registered rules have no answer"
            problems.append(Problem(message, node.span, "use a record as the identity of a tuple"))
    if problems:
        raise ProgramError(problems, source.texts)


def _check_directives(directives: list[ir.FileDirective], texts: dict[str, str]) -> None:
    """Raise ProgramError if there are directives, including those in components."""
    hint = "facts come by transactions, and changes go to subscribers: take it out"
    found = [(f"Registered rules have no .{each.kind}", each.span or syntax.NOWHERE) for each in directives]
    if found:
        raise ProgramError([Problem(message, span, hint) for message, span in found], texts)


def _check_loops(checked: ir.Program, texts: dict[str, str]) -> None:
    """Raise ProgramError for recursion that is evaluated in rounds: subscriptions follow strata one by one."""
    hint = "write these rules into the program of the session, and register rules that read their result"
    names = [min(loop.collected or {name for _, name in loop.pairs}) for loop in checked.loops]
    found = [Problem(f"Registered rules for {name} recur in steps, through sums or through negation",
                     checked.relations[name].span or syntax.NOWHERE, hint) for name in names]  # fmt: skip
    if found:
        raise ProgramError(found, texts)


def _declaration(relation: ir.Relation) -> syntax.RelationDecl:
    """Return the syntax node that declares a relation."""
    attributes = tuple((name, type_.name) for name, type_ in relation.attributes)
    lattices = tuple(range(relation.arity - len(relation.joins), relation.arity))
    return syntax.RelationDecl(relation.name, attributes, lattices=lattices)


class _Rules:
    """The statements in a text of rules: parameters become attributes, and the names of further relations get the prefix
    `name`.
    """

    @classmethod
    def of(cls, name: str, text: str, known: Known, program: ir.Program, whole: bool = False) -> "_Rules":
        """Parse a text. Raises ProgramError for statements that are not allowed. whole: evaluate an inline relation too. known:
        the relations of the session, by name."""
        source = parse(text, f"<{name}>", sandbox=NoFiles())
        own = {each.name: each for each in source.statements if isinstance(each, syntax.RelationDecl)}
        _check(name, source, own, known)
        return cls(name, source, own, known, program, whole)

    def __init__(self, name: str, source: syntax.SourceProgram, own: dict, known: Known, program: ir.Program, whole: bool):
        """own: the relations that the text declares; known: those of the session, by name; program: the session's; whole:
        relations qualified `inline` are evaluated as well."""
        self.name, self.source, self.own, self.known, self.program, self.within = name, source, own, known, program, ""
        self.clauses = [each for each in source.statements if isinstance(each, syntax.Clause)]
        self.nodes = [node for clause in self.clauses for node in _nodes(clause)]
        found = (node.name for node in self.nodes if isinstance(node, syntax.Variable) and node.name.startswith("$"))
        self.parameters = [each.removeprefix("$") for each in dict.fromkeys(found)]
        self.depend = self._depend()
        self.inline = not whole and not self.parameters and "inline" in own[name].qualifiers  # else it has no readers
        self.leading = tuple(syntax.Variable(f"${each}") for each in self.parameters)
        self.typed = self._types() if self.parameters else []

    def _depend(self) -> set[str]:
        """The relations of the text that depend on a parameter."""
        depend: set[str] = {self.name} if self.parameters else set()
        while True:
            more = {head.relation for clause in self.clauses for head in clause.heads
                    if head.relation in self.own and any(self._asks(node, depend) for node in _nodes(clause))}  # fmt: skip
            if more <= depend:
                return depend
            depend |= more

    def _asks(self, node, depend: set[str]) -> bool:
        """True if a node is a parameter, or an atom of a relation that depends on parameters (`depend`)."""
        if isinstance(node, syntax.Variable):
            return node.name.startswith("$")
        return isinstance(node, syntax.Atom) and node.relation in depend

    def _types(self) -> list[tuple[str, str]]:
        """Return the (attribute, type) of each parameter: the type is that of the atom's attribute in whose place the parameter
        occurs, else what it is compared with, or its functor, says."""
        types: dict[str, str] = {}
        declared = self.program.types
        waiting = [(node.args, self._attributes(node.relation)) for node in self.nodes if isinstance(node, syntax.Atom)]
        while waiting:
            for term, type_ in zip(*waiting.pop(), strict=False):  # a wrong number of arguments is reported later
                if isinstance(term, syntax.Variable) and term.name.startswith("$"):
                    types.setdefault(term.name[1:], type_)
                if isinstance(term, syntax.RecordInit) and type_ in declared:
                    waiting.append((term.args, [field for _, field in declared[type_].fields]))
                if isinstance(term, syntax.BranchInit) and type_ in declared:
                    found = [each.fields for each in declared[type_].branches if each.name == term.name]
                    waiting += [(term.args, [field for _, field in fields]) for fields in found]
        if missing := [f"${each}" for each in self.parameters if each not in types]:
            known = declarations_read(self.nodes, self.known, self.name)
            inferred = inferred_types(missing, [*self.program.typed, *known, *self.source.statements])
            types |= {name[1:]: type_ for name, type_ in inferred.items()}
        for each in self.parameters:
            if each not in types:
                span = next(node.span for node in self.nodes if isinstance(node, syntax.Variable) and node.name == f"${each}")
                hint = f"compare ${each} with a variable, or let it stand in an atom, as an attribute of the type that it has"
                raise ProgramError([Problem(f"The type of ${each} is not known", span, hint)], self.source.texts)
        taken = {attribute for each in self.own.values() for attribute, _ in each.attributes}
        return [(_unused_name(each, taken), types[each]) for each in self.parameters]

    def _attributes(self, relation: str) -> list[str]:
        """The types of the attributes of a relation; empty if it is unknown."""
        if relation in self.own:
            return [type_ for _, type_ in self.own[relation].attributes]
        if relation not in self.known:
            return []
        declared = declarations_of(self.known[relation], self.name)
        return [type_ for each in declared if each.name == relation for _, type_ in each.attributes]

    def statements(self, within: str = "") -> list:
        """The statements of the text, rewritten. within: a prefix for the names of its further relations."""
        self.within = within
        made = [self._statement(each) for each in self.source.statements]
        if not self.parameters:
            return made
        return [MAGIC, syntax.RelationDecl(f"{self.name}.parameters", tuple(self.typed)), *made]

    def _statement(self, statement):
        """Return a statement with the relations of the text renamed, and the parameters added."""
        if isinstance(statement, syntax.RelationDecl):
            more, spans = (
                (tuple(self.typed), (statement.span,) * len(self.typed)) if statement.name in self.depend else ((), ())
            )
            asked = tuple(name for name, _ in more)
            choice = replace(
                statement.choice, keys=tuple(asked + key for key in statement.choice.keys)
            )  # one for each parameter
            attributes, spans = more + statement.attributes, spans + statement.spans
            lattices = tuple(len(more) + at for at in statement.lattices)
            named = replace(statement, name=self._named(statement.name), lattices=lattices)
            if statement.name == self.name and not self.inline:
                named = replace(named, qualifiers=named.qualifiers - {"inline"})
            return replace(named, attributes=attributes, choice=choice, spans=spans)
        if not isinstance(statement, syntax.Clause):
            return statement
        asks = any(head.relation in self.depend for head in statement.heads) or any(
            self._asks(node, set()) for node in _nodes(statement)
        )
        statement = _rebuild_clause(statement, self._atom)
        if not asks:
            return statement
        first = syntax.Atom(f"{self.name}.parameters", self.leading, span=statement.span)
        return replace(statement, body=syntax.And((first, statement.body)) if statement.body else first, plan=None)

    def _atom(self, node):
        """Rename a relation of the text in an atom, and add the parameters; None for all other nodes."""
        if not isinstance(node, syntax.Atom) or node.relation not in self.own:
            return None
        more = self.leading if node.relation in self.depend else ()
        args = tuple(rebuilt(arg, self._atom) for arg in node.args)
        return replace(node, relation=self._named(node.relation), args=tuple(map(replace, more)) + args)

    def _named(self, relation: str) -> str:
        return relation if relation == self.name else f"{self.within}{self.name}.{relation}"


def inferred_types(names: list[str], statements: list) -> dict[str, str]:
    """Infer the types of variables, by name, from declarations and clauses; those that are not determined are left out."""
    source = syntax.SourceProgram(statements, {})
    environment = TypeEnvironment(source)
    relations = declared_relations(source, environment, [])
    found: dict[str, str] = {}
    for single in single_clauses(source, []):
        typing = Typing(resolve_scopes(single).single, environment, relations)
        for name in names:
            types = sorted(typing.types(syntax.Variable(name)) or ())
            if len(types) == 1:
                found.setdefault(name, types[0].removeprefix("__"))
            elif kind := typing.kind(syntax.Variable(name)):
                found.setdefault(name, kind.value)
    return found


def _nodes(clause: syntax.Clause) -> Iterable:
    for each in clause.parts:
        yield from walk(each)


def _unused_name(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, by appending underscores."""
    while name in taken:
        name += "_"
    return name
