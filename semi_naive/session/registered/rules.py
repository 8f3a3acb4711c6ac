"""Rules registered while a session runs: checked on registration, and evaluated as long as they have subscribers.

    near(y) :- reach($src, y).      becomes      near(src, y) :- near.parameters(src), reach(src, y).

A parameter, `$src`, becomes the first attribute of the relation, and a relation contains the values that are asked for. So all
subscribers share one dataflow, and subscribers to the same value share tuples (Göbel 2019, "Optimising Distributed Dataflows in
Interactive Environments", on queries of many tenants). Every relation of the rules that depends on a parameter has the
attribute. The others are computed on demand, as far as their demand is known (`planning.rewriting.magic`).
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from semi_naive.language import syntax
from semi_naive.language.checking import check_source
from semi_naive.language.checks import declared_relations
from semi_naive.language.errors import Problem, ProgramError
from semi_naive.language.parsing.parse import parse
from semi_naive.language.scopes import resolve_scopes
from semi_naive.language.single import single_clauses
from semi_naive.language.trees import rebuilt, walk_all
from semi_naive.language.types.inference import Typing
from semi_naive.language.types.types import TypeEnvironment
from semi_naive.planning import rewrite
from semi_naive.planning.maintaining import Maintained
from semi_naive.planning.maintaining.names import changes_only
from semi_naive.planning.rewriting.passes import Compiled, apply_passes
from semi_naive.planning.strata import strata
from semi_naive.ra import ir
from semi_naive.sandbox import NoFiles
from semi_naive.session.registered.shapes import CheckedShape, Shapes

MAGIC = syntax.Pragma("magic-transform", "*")
# The pragmas of registered rules: those by which no file is read.
ALLOWED_PRAGMAS = ("inline-exclude", "legacy", "magic-transform", "magic-transform-exclude", "semantics")


@dataclass(frozen=True, eq=False)
class Inlined:
    """A relation of the session's program that is inlined: its declaration and clauses, which replace it in its readers."""

    statements: list


@dataclass(frozen=True)
class Synthesis:
    """The form in which rules are evaluated.
    compiled: the rules after all passes.
    uses: the relations that they read, each with the values of its parameters: constants, or places among the reader's own."""

    compiled: Compiled
    uses: tuple[tuple[str, tuple[ir.Const | int, ...]], ...]


@dataclass(eq=False)
class Registered:
    """A relation defined by registered rules.
    text: the rules as registered; empty for a system relation, which has none.
    parameters: the names of the first attributes.
    reads: the relations of the session that the rules read, without inlined ones; inlines: the inlined ones.
    check: parses and checks the text when that is first needed; types: the types that it declares.
    inline_statements: set for a relation qualified `inline`; returns the statements that replace it in the rules of the reader
    of the given name. The relation itself is evaluated only for its own subscriptions and queries.
    users: the number of subscriptions, queries and evaluated rules that use the relation.
    strata: the numbers of its strata while it has users.
    share: True if readers read the whole relation, False if they read the parts that they ask for; None lets `Demand` choose.
    synthesis: the form in which they are evaluated, chosen when the relation gets its first user."""

    name: str
    text: str
    parameters: tuple[str, ...]
    reads: frozenset[str]
    inlines: frozenset[str]
    check: Callable[[], ir.Program]
    types: Mapping[str, ir.Type] = field(default_factory=dict)
    inline_statements: Callable[[str], list] | None = None
    users: int = 0
    strata: list[int] = field(default_factory=list)
    share: bool | None = None
    synthesis: Synthesis | None = None

    @cached_property
    def checked(self) -> ir.Program:
        """The checked rules, before any pass."""
        return self.check()

    @property
    def relation(self) -> ir.Relation:
        """The relation, with the parameters as its first attributes."""
        return self.checked.relations[self.name]

    @property
    def parameter_relation(self) -> str:
        """The name of the relation of the parameter values that are in use."""
        return f"{self.name}.parameters"

    @property
    def form(self) -> Synthesis:
        """The form in which the rules are evaluated now."""
        assert self.synthesis is not None
        return self.synthesis

    @property
    def inputs(self) -> list[str]:
        """The relations whose facts the session changes: the relation of the parameters, or a system relation itself."""
        if self.parameters:
            return [self.parameter_relation]
        return [] if self.text else [self.name]

    def compiled(self) -> Compiled:
        """Return the rules after all passes. Relations that the passes add get unique names, with the relation's as prefix."""
        inputs = {*self.reads, *self.inputs} & self.checked.relations.keys()
        program = apply_passes(self.checked, {self.name}, inputs).program
        unique = f"{self.name}.", f"{self.name}@"
        names = {name: f"{self.name}.{name}" for name in program.relations
                 if name not in inputs and name != self.name and not name.startswith(unique)}  # fmt: skip

        def rename(node):
            return replace(node, relation=names[node.relation]) if getattr(node, "relation", None) in names else node

        relations = {}
        for name, relation in program.relations.items():
            new_name = names.get(name, name)
            relations[new_name] = replace(relation, name=new_name)
        program = replace(program, relations=relations, rules=[rewrite.transform(rule, rename) for rule in program.rules])
        return Compiled(program, strata(program))


def rules_of_changes(rules: Registered) -> Registered:
    """Return rules under another name, for subscribers to changes alone: the tuples of their relation are not kept. Raises
    ValueError if the changes depend on the tuples."""
    name = changes_only(rules.name)

    def renamed(node):
        own = getattr(node, "relation", None) or ""
        is_own = own == rules.name or own.startswith(f"{rules.name}.")
        return replace(node, relation=name + own[len(rules.name) :]) if is_own else node

    program, relations = rules.checked, {}
    for each in program.relations.values():
        relation = replace(each, name=renamed(ir.Atom(each.name, ())).relation)
        relations[relation.name] = relation
    changed = replace(program, relations=relations, rules=[rewrite.transform(rule, renamed) for rule in program.rules])
    stratum = next(each for each in strata(changed) if name in each.relations)
    if len(stratum.relations) > 1 or not relations[name].plain or name not in Maintained(stratum, set()).single:
        advice = "one rule without recursion and aggregates, whose head has all variables of the body, where no `_` stands"
        raise ValueError(f"the changes of {rules.name} cannot be told without its tuples: keep=False takes {advice}")
    return replace(rules, name=name, check=lambda: changed, users=0, strata=[], synthesis=None, inline_statements=None)


def system_rules(relation: ir.Relation) -> Registered:
    """Return a system relation as a registered relation without rules, so that it is maintained while it has users."""
    program = ir.Program({}, {relation.name: relation}, [])
    return Registered(relation.name, "", (), frozenset(), frozenset(), lambda: program)


Readable = ir.Relation | Registered | Inlined  # relations that registered rules may read
ReadableByName = Mapping[str, Readable]


def is_inlined(relation: Readable) -> bool:
    """True if the statements of a relation replace it in the rules that read it."""
    return isinstance(relation, Inlined) or isinstance(relation, Registered) and relation.inline_statements is not None


def defining_statements(relation: Readable, reader: str) -> list:
    """Return the statements that define a relation for the rules of another one, `reader`: its declaration and, if inlined, its
    clauses."""
    if isinstance(relation, Inlined):
        return relation.statements
    if isinstance(relation, Registered) and relation.inline_statements is not None:
        return relation.inline_statements(reader)
    return [_declaration(relation.relation if isinstance(relation, Registered) else relation)]


def declarations_of(relation: Readable, reader: str) -> list[syntax.RelationDecl]:
    """Return the declarations among the statements that define a relation for a reader's rules: see `defining_statements`."""
    return [each for each in defining_statements(relation, reader) if isinstance(each, syntax.RelationDecl)]


def declarations_read(nodes: Iterable, readable: ReadableByName, reader: str) -> list[syntax.RelationDecl]:
    """Return the declarations of the readable relations that the atoms among `nodes`, nodes of the reader's rules, read."""
    read = {node.relation for node in nodes if isinstance(node, syntax.Atom)} & readable.keys()
    return [each for name in sorted(read) for each in declarations_of(readable[name], reader)]


def registered(name: str, text: str, readable: ReadableByName, program: ir.Program, shapes: Shapes) -> Registered:
    """Check rules for a relation against a session: the relations that they may read, and the types of the session's program.
    Raises ProgramError with all errors, at their places in `<name>`. If a text of the same shape was valid, the rules are
    parsed later, when they are needed."""
    shape = shapes.of(name, text, readable)
    valid = shapes.get(shape, readable) if shape else None
    if valid is None and shape and shape.sample:
        with contextlib.suppress(ProgramError):  # then the text itself is checked, for the places of its errors
            valid, _ = _check_rules(_RulesText(name, shape.sample, readable, program), readable, program)
            shapes.keep(shape, valid)
    checked: ir.Program | None = None
    types: dict[str, ir.Type] = {}  # a text that has a shape declares none
    if valid is None:
        valid, checked = _check_rules(_RulesText(name, text, readable, program), readable, program)
        if shape:
            shapes.keep(shape, valid)
        types = {each: type_ for each, type_ in checked.types.items() if each not in program.types}
    reads = {each: readable[each] for each in valid.reads}
    inlines = frozenset(each for each, relation in reads.items() if is_inlined(relation))
    if valid.inline:
        checked = None  # it was checked as an inlined relation

    def check() -> ir.Program:
        if checked:
            return checked
        _, program_of_rules = _check_rules(_RulesText(name, text, reads, program, evaluate_inline=True), reads, program)
        return program_of_rules

    def inline_statements(reader: str) -> list:
        return _RulesText(name, text, reads, program).statements(f"{reader}.")

    return Registered(
        name, text, valid.parameters, frozenset(reads) - inlines, inlines, check, types,
        inline_statements if valid.inline else None,
    )  # fmt: skip


def _check_rules(rules: "_RulesText", readable: ReadableByName, program: ir.Program) -> tuple[CheckedShape, ir.Program]:
    """Check rules together with the relations that they read, and return the result of the check and the checked rules.
    readable: the relations that rules may read; program: the session's."""
    reads, statements, texts = _relations_read(rules, readable), list(program.typed), rules.source.texts
    for relation in reads.values():
        statements += defining_statements(relation, rules.name)
    try:
        source = syntax.SourceProgram([*statements, *rules.statements()], texts)
        checked = check_source(source, parameters=True, functors=program.functors)
    except ProgramError as error:  # with warnings about the session's own statements
        own = [each for each in error.problems if each.span.file == f"<{rules.name}>"]
        raise ProgramError(own or error.problems, {**program.texts, **texts}) from None  # a #line may give them another file
    problems = [*_directives(checked.directives), *_missing_values(rules, reads), *_loops(checked)]
    if problems:
        raise ProgramError(problems, texts)
    return CheckedShape(reads, frozenset(rules.declared) - {rules.name}, tuple(rules.parameters), rules.inline), checked


def _relations_read(rules: "_RulesText", readable: ReadableByName) -> dict[str, Readable]:
    """Return the readable relations that rules read, and those that inlined ones among them read, by name."""
    found: dict[str, Readable] = {}
    waiting = {node.relation for node in rules.nodes if isinstance(node, syntax.Atom)} - rules.declared.keys()
    while waiting:
        name = min(waiting)
        waiting.remove(name)
        if name not in readable or name in found:
            continue
        found[name] = readable[name]
        if is_inlined(readable[name]):
            for statement in defining_statements(readable[name], rules.name):
                if isinstance(statement, syntax.Clause):
                    waiting |= {node.relation for node in walk_all(statement.parts) if isinstance(node, syntax.Atom)}
    return dict(sorted(found.items()))


def parameters_as_variables(rules: Registered, readable: ReadableByName, program: ir.Program) -> ir.Program:
    """Return the checked rules with parameters replaced by variables, which `rules.parameter_relation` binds. Unlike in
    `rules.checked`, no relation gets attributes for the parameters."""
    readable = {name: readable[name] for name in rules.reads | rules.inlines}
    text = _RulesText(rules.name, rules.text, readable, program)
    text.dependent = set()  # so that no relation gets attributes for the parameters
    _, checked = _check_rules(text, readable, program)
    return checked


def _check_allowed(name: str, source: syntax.SourceProgram, declared: dict, readable: ReadableByName) -> None:
    """Raise ProgramError for statements that are not allowed, a missing declaration, and names that the session has already.
    declared: the declarations in the text, by relation; readable: the relations of the session."""
    problems = []
    if name not in declared:
        place = next((each.span for each in source.statements), syntax.NOWHERE)
        hint = f"write .decl {name}(attribute: type, …) first"
        problems.append(Problem(f"These rules declare no relation {name}", place, hint))
    for each in declared.keys() & readable.keys():
        problems.append(Problem(f"The session has a relation {each} already", declared[each].span, "give it another name"))
    for each in source.statements:
        if isinstance(each, syntax.FunctorDecl):
            hint = "they call the functors that the session's program declares: declare it there"
            problems.append(Problem("Registered rules declare no functors", each.span, hint))
        if isinstance(each, syntax.Pragma) and each.key not in ALLOWED_PRAGMAS:
            hint = f"the pragmas of registered rules are {', '.join(ALLOWED_PRAGMAS)}: take it out"
            problems.append(Problem(f"Registered rules have no .pragma {each.key}", each.span, hint))
    clauses = [each for each in source.statements if isinstance(each, syntax.Clause)]
    for node in (node for clause in clauses for node in walk_all(clause.parts)):
        if isinstance(node, syntax.Functor) and node.name == "autoinc":
            message = "autoinc() gives other numbers each time, so registered rules have no answer"
            problems.append(Problem(message, node.span, "use a record as the identity of a tuple"))
    if problems:
        raise ProgramError(problems, source.texts)


def _directives(directives: list[ir.FileDirective]) -> Iterator[Problem]:
    """Yield the problems of rules with directives; those in components are found after the check only."""
    for each in directives:
        hint = "facts come by transactions, and changes go to subscribers: take it out"
        yield Problem(f"Registered rules have no .{each.kind}", each.span or syntax.NOWHERE, hint)


def _missing_values(rules: "_RulesText", reads: Mapping[str, Readable]) -> Iterator[Problem]:
    """Yield the problems of atoms of rules with parameters that give no values for these."""
    for node in (node for node in rules.nodes if isinstance(node, syntax.Atom)):
        read = reads.get(node.relation)
        for parameter, arg in zip(read.parameters if isinstance(read, Registered) else (), node.args, strict=False):
            if not _is_parameter(arg) and not isinstance(arg, syntax.Number | syntax.String):
                hint = f"its parameters come first: write a constant or a parameter of {rules.name}, as ${parameter}"
                yield Problem(f"{node.relation} gets no value for its parameter ${parameter}", node.span, hint)


def _loops(checked: ir.Program) -> Iterator[Problem]:
    """Yield the problems of recursion that is evaluated in rounds: subscriptions follow strata one by one."""
    for loop in checked.loops:
        name = min(loop.collected or {name for _, name in loop.pairs})
        message = f"Registered rules for {name} recur in steps, through sums or through negation"
        hint = "write these rules into the program of the session, and register rules that read their result"
        yield Problem(message, checked.relations[name].span or syntax.NOWHERE, hint)


def _declaration(relation: ir.Relation) -> syntax.RelationDecl:
    """Return the syntax node that declares a relation."""
    attributes = tuple((name, type_.name) for name, type_ in relation.attributes)
    lattices = tuple(range(relation.arity - len(relation.joins), relation.arity))
    return syntax.RelationDecl(relation.name, attributes, lattices=lattices)


class _RulesText:
    """The parsed statements of a text of rules. They are rewritten so that parameters become attributes, and the names of other
    relations of the text get the name of the relation as a prefix."""

    def __init__(self, name: str, text: str, readable: ReadableByName, program: ir.Program, evaluate_inline: bool = False):
        """Parse a text. Raises ProgramError for statements that are not allowed. readable: the relations of the session;
        program: the session's. evaluate_inline: define the relation even if it is qualified `inline`, as for a query of it."""
        source = parse(text, f"<{name}>", sandbox=NoFiles())
        declarations = [each for each in source.statements if isinstance(each, syntax.RelationDecl)]
        self.declared_types = {attribute[1:]: type_ for each in declarations for attribute, type_ in each.attributes
                               if attribute.startswith("$")}  # fmt: skip
        self.source = source = replace(source, statements=list(map(_without_parameters, source.statements)))
        self.declared = {each.name: each for each in source.statements if isinstance(each, syntax.RelationDecl)}
        _check_allowed(name, source, self.declared, readable)
        self.name, self.readable, self.program = name, readable, program
        self.prefix = ""  # that of the names of the text's other relations: see `statements`
        self.clauses = [each for each in source.statements if isinstance(each, syntax.Clause)]
        self.nodes = [node for clause in self.clauses for node in walk_all(clause.parts)]
        found = (node.name.removeprefix("$") for node in self.nodes if _is_parameter(node))
        self.parameters = list(dict.fromkeys([*self.declared_types, *found]))
        self.dependent = self._find_dependent()
        # A relation with parameters is evaluated for the values that its readers give, so it is never inlined.
        self.inline = not evaluate_inline and not self.parameters and "inline" in self.declared[name].qualifiers
        self.parameter_variables = tuple(syntax.Variable(f"${each}") for each in self.parameters)
        self.parameter_attributes = self._infer_parameter_attributes() if self.parameters else []

    def _find_dependent(self) -> set[str]:
        """Return the relations of the text that depend on a parameter."""
        dependent: set[str] = {self.name} if self.parameters else set()
        while True:
            more = set()
            for clause in self.clauses:
                nodes = list(walk_all(clause.parts))
                read = {node.relation for node in nodes if isinstance(node, syntax.Atom)}
                if read & dependent or any(map(_is_parameter, nodes)):
                    more |= {head.relation for head in clause.heads} & self.declared.keys()
            if more <= dependent:
                return dependent
            dependent |= more

    def _infer_parameter_attributes(self) -> list[tuple[str, str]]:
        """Return the (attribute, type) of each parameter. Its type is declared, or that of the attribute in whose place it
        occurs in an atom; if it occurs in none, the type is inferred from comparisons and functors."""
        types = dict(self.declared_types)
        declared = self.program.types
        waiting = [(node.args, self._attribute_types(node.relation)) for node in self.nodes if isinstance(node, syntax.Atom)]
        while waiting:
            for term, type_ in zip(*waiting.pop(), strict=False):  # a wrong number of arguments is reported later
                if _is_parameter(term):
                    types.setdefault(term.name.removeprefix("$"), type_)
                if isinstance(term, syntax.RecordInit) and type_ in declared:
                    waiting.append((term.args, [field for _, field in declared[type_].fields]))
                if isinstance(term, syntax.BranchInit) and type_ in declared:
                    branches = [each for each in declared[type_].branches if each.name == term.name]
                    waiting += [(term.args, [field for _, field in branch.fields]) for branch in branches]
        if missing := [f"${each}" for each in self.parameters if each not in types]:
            declarations = declarations_read(self.nodes, self.readable, self.name)
            inferred = inferred_types(missing, [*self.program.typed, *declarations, *self.source.statements])
            types |= {name.removeprefix("$"): type_ for name, type_ in inferred.items()}
        for each in self.parameters:
            if each not in types:
                span = next(node.span for node in self.nodes if isinstance(node, syntax.Variable) and node.name == f"${each}")
                hint = f"declare it: .decl {self.name}(${each}: type, …)"
                problem = Problem(f"The type of ${each} is not known", span, hint, undefined=self._undefined_relation(each))
                raise ProgramError([problem], self.source.texts)
        taken = {attribute for each in self.declared.values() for attribute, _ in each.attributes}
        return [(_unused_name(each, taken), types[each]) for each in self.parameters]

    def _undefined_relation(self, parameter: str) -> str:
        """Return a relation that is not there yet and has a parameter in an atom, which may tell its type; "" if there is
        none."""
        atoms = (node for node in self.nodes if isinstance(node, syntax.Atom))
        named = (atom.relation for atom in atoms for arg in atom.args if _is_parameter(arg) and arg.name == f"${parameter}")
        return next((each for each in named if each not in self.declared and each not in self.readable), "")

    def _attribute_types(self, relation: str) -> list[str]:
        """Return the types of the attributes of a relation; empty if it is unknown."""
        if relation in self.declared:
            return [type_ for _, type_ in self.declared[relation].attributes]
        if relation not in self.readable:
            return []
        declarations = declarations_of(self.readable[relation], self.name)
        return [type_ for each in declarations if each.name == relation for _, type_ in each.attributes]

    def statements(self, prefix: str = "") -> list:
        """Return the rewritten statements. prefix: precedes the names of the text's other relations; for an inlined relation,
        the name of its reader, as each reader gets relations of its own."""
        self.prefix = prefix
        statements = [self._rewrite_statement(each) for each in self.source.statements]
        if not self.parameters:
            return statements
        return [MAGIC, syntax.RelationDecl(f"{self.name}.parameters", tuple(self.parameter_attributes)), *statements]

    def _rewrite_statement(self, statement):
        """Return a statement with the relations of the text renamed, and the parameters added."""
        if isinstance(statement, syntax.RelationDecl):
            return self._rewrite_declaration(statement)
        if not isinstance(statement, syntax.Clause):
            return statement
        nodes = walk_all(statement.parts)
        needs_parameters = any(head.relation in self.dependent for head in statement.heads) or any(map(_is_parameter, nodes))
        bodies = (statement.body, statement.dominating)
        body, dominating = (None if each is None else rebuilt(each, self._rewrite_atom) for each in bodies)
        heads = tuple(rebuilt(head, self._rewrite_atom) for head in statement.heads)
        statement = replace(statement, heads=heads, body=body, dominating=dominating)
        if not needs_parameters:
            return statement
        parameters = syntax.Atom(f"{self.name}.parameters", self.parameter_variables, span=statement.span)
        return replace(statement, body=syntax.And((parameters, body)) if body else parameters, plan=None)

    def _rewrite_declaration(self, declaration: syntax.RelationDecl) -> syntax.RelationDecl:
        """Rename a relation of the text, and add the parameters to its attributes and to the keys of its choices."""
        added = tuple(self.parameter_attributes) if declaration.name in self.dependent else ()
        added_names = tuple(name for name, _ in added)
        qualifiers = declaration.qualifiers
        if declaration.name == self.name and not self.inline:
            qualifiers = qualifiers - {"inline"}
        return replace(
            declaration,
            name=self._qualified(declaration.name),
            attributes=added + declaration.attributes,
            spans=(declaration.span,) * len(added) + declaration.spans,
            qualifiers=qualifiers,
            choice=replace(declaration.choice, keys=tuple(added_names + key for key in declaration.choice.keys)),
            lattices=tuple(len(added) + place for place in declaration.lattices),
        )

    def _rewrite_atom(self, node):
        """Rename a relation of the text in an atom, and add the parameters; None for all other nodes."""
        if not isinstance(node, syntax.Atom) or node.relation not in self.declared:
            return None
        added = self.parameter_variables if node.relation in self.dependent else ()
        args = tuple(rebuilt(arg, self._rewrite_atom) for arg in node.args)
        copies = tuple(map(replace, added))  # as syntax nodes may be told apart by their identity
        return replace(node, relation=self._qualified(node.relation), args=copies + args)

    def _qualified(self, relation: str) -> str:
        """Return the name that a relation of the text gets in the rewritten statements."""
        return relation if relation == self.name else f"{self.prefix}{self.name}.{relation}"


def _without_parameters(statement):
    """Return the declaration of a relation without the parameters among its attributes. Other statements are not changed."""
    if not isinstance(statement, syntax.RelationDecl):
        return statement
    kept = [place for place, (name, _) in enumerate(statement.attributes) if not name.startswith("$")]
    return replace(
        statement,
        attributes=tuple(statement.attributes[place] for place in kept),
        spans=tuple(statement.spans[place] for place in kept),
        lattices=tuple(new for new, place in enumerate(kept) if place in statement.lattices),
    )


def _is_parameter(node) -> bool:
    return isinstance(node, syntax.Variable) and node.name.startswith("$")


def inferred_types(names: list[str], statements: list) -> dict[str, str]:
    """Infer the types of variables from declarations and clauses. Return the determined ones, by variable."""
    source = syntax.SourceProgram(statements, {})
    environment = TypeEnvironment(source)
    relations = declared_relations(source, environment, [])
    found: dict[str, str] = {}
    for single in single_clauses(source, []):
        typing = Typing(resolve_scopes(single).single, environment, relations)
        for name in names:
            types = sorted(typing.types(syntax.Variable(name)) or ())
            if len(types) == 1:
                found.setdefault(name, types[0].removeprefix("__"))  # which the types of constants begin with
            elif kind := typing.kind(syntax.Variable(name)):
                found.setdefault(name, kind.value)
    return found


def _unused_name(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, by appending underscores."""
    while name in taken:
        name += "_"
    return name
