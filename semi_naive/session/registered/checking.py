"""Check rules that are registered while a session runs, and make attributes of their parameters.

    near(y) :- reach($src, y).      becomes      near(src, y) :- near.parameters(src), reach(src, y).

A parameter, `$src`, becomes the first attribute of the relation, and a relation contains the values that are asked for. So all
subscribers share one dataflow, and subscribers to the same value share tuples (Göbel 2019, "Optimising Distributed Dataflows in
Interactive Environments", on queries of many tenants). Every relation of the rules that depends on a parameter has the
attribute. The others are computed on demand, as far as their demand is known (`planning.rewriting.magic`).
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

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
from semi_naive.ra import ir
from semi_naive.sandbox import NoFiles
from semi_naive.session.registered.rules import (
    Readable,
    ReadableByName,
    Registered,
    declarations_of,
    declarations_read,
    defining_statements,
    is_inlined,
)
from semi_naive.session.registered.shapes import CheckedShape, Shapes

MAGIC = syntax.Pragma("magic-transform", "*")
# The pragmas of registered rules: those by which no file is read.
ALLOWED_PRAGMAS = ("inline-exclude", "legacy", "magic-transform", "magic-transform-exclude", "semantics")


def registered(name: str, text: str, readable: ReadableByName, program: ir.Program, shapes: Shapes) -> Registered:
    """Check rules for a relation against a session: the relations that they may read, and the types of the session's program.
    Raises ProgramError with all errors, at their places in `<name>`. If a text of the same shape was valid, the rules are
    parsed later, when they are needed."""
    shape = shapes.of(name, text, readable)
    valid = shapes.get(shape, readable) if shape else None
    if valid is None and shape and shape.sample:
        with contextlib.suppress(ProgramError):  # then the text itself is checked, for the places of its errors
            valid, _ = _check_rules(RulesText(name, shape.sample, readable, program), readable, program)
            shapes.keep(shape, valid)
    checked: ir.Program | None = None
    types: dict[str, ir.Type] = {}  # a text that has a shape declares none
    if valid is None:
        valid, checked = _check_rules(RulesText(name, text, readable, program), readable, program)
        if shape:
            shapes.keep(shape, valid)
        types = {type_name: type_ for type_name, type_ in checked.types.items() if type_name not in program.types}
    reads = {read: readable[read] for read in valid.reads}
    inlines = frozenset(read for read, relation in reads.items() if is_inlined(relation))
    if valid.inline:
        checked = None  # it was checked as an inlined relation

    def check() -> ir.Program:
        if checked:
            return checked
        _, program_of_rules = _check_rules(RulesText(name, text, reads, program, evaluate_inline=True), reads, program)
        return program_of_rules

    def inline_statements(reader: str) -> list:
        return RulesText(name, text, reads, program).statements(f"{reader}.")

    return Registered(
        name, text, valid.parameters, frozenset(reads) - inlines, inlines, check, types,
        inline_statements if valid.inline else None,
    )  # fmt: skip


def _check_rules(rules: "RulesText", readable: ReadableByName, program: ir.Program) -> tuple[CheckedShape, ir.Program]:
    """Check rules together with the relations that they read, and return the result of the check and the checked rules.
    readable: the relations that rules may read; program: the session's."""
    reads, statements, texts = _relations_read(rules, readable), list(program.typed), rules.source.texts
    for relation in reads.values():
        statements += defining_statements(relation, rules.name)
    try:
        source = syntax.SourceProgram([*statements, *rules.statements()], texts)
        checked = check_source(source, parameters=True, functors=program.functors)
    except ProgramError as error:  # it also has warnings about the session's own statements
        own = [problem for problem in error.problems if problem.span.file == f"<{rules.name}>"]
        # There may be none: a #line directive may give the text another file.
        raise ProgramError(own or error.problems, {**program.texts, **texts}) from None
    problems = [*_directive_problems(checked.directives), *_missing_value_problems(rules, reads), *_loop_problems(checked)]
    if problems:
        raise ProgramError(problems, texts)
    return CheckedShape(reads, frozenset(rules.declared) - {rules.name}, tuple(rules.parameters), rules.inline), checked


def _relations_read(rules: "RulesText", readable: ReadableByName) -> dict[str, Readable]:
    """Return the readable relations that rules read, and those that inlined ones among them read, by name."""
    read_relations: dict[str, Readable] = {}
    unvisited = {node.relation for node in rules.nodes if isinstance(node, syntax.Atom)} - rules.declared.keys()
    while unvisited:
        name = min(unvisited)
        unvisited.remove(name)
        if name not in readable or name in read_relations:
            continue
        read_relations[name] = readable[name]
        if is_inlined(readable[name]):
            for statement in defining_statements(readable[name], rules.name):
                if isinstance(statement, syntax.Clause):
                    unvisited |= {node.relation for node in walk_all(statement.parts) if isinstance(node, syntax.Atom)}
    return dict(sorted(read_relations.items()))


def parameters_as_variables(rules: Registered, readable: ReadableByName, program: ir.Program) -> ir.Program:
    """Return the checked rules with parameters replaced by variables, which `rules.parameter_relation` binds. Unlike in
    `rules.checked`, no relation gets attributes for the parameters."""
    readable = {name: readable[name] for name in rules.reads | rules.inlines}
    text = RulesText(rules.name, rules.text, readable, program)
    text.dependent = set()  # so that no relation gets attributes for the parameters
    _, checked = _check_rules(text, readable, program)
    return checked


def _check_allowed(name: str, source: syntax.SourceProgram, declared: dict, readable: ReadableByName) -> None:
    """Raise ProgramError for statements that are not allowed, a missing declaration, and names that the session has already.
    declared: the declarations in the text, by relation; readable: the relations of the session."""
    problems = []
    if name not in declared:
        place = next((statement.span for statement in source.statements), syntax.NOWHERE)
        hint = f"write .decl {name}(attribute: type, …) first"
        problems.append(Problem(f"These rules declare no relation {name}", place, hint))
    for other in declared.keys() & readable.keys():
        problems.append(Problem(f"The session has a relation {other} already", declared[other].span, "give it another name"))
    for statement in source.statements:
        if isinstance(statement, syntax.FunctorDecl):
            hint = "they call the functors that the session's program declares: declare it there"
            problems.append(Problem("Registered rules declare no functors", statement.span, hint))
        if isinstance(statement, syntax.Pragma) and statement.key not in ALLOWED_PRAGMAS:
            hint = f"the pragmas of registered rules are {', '.join(ALLOWED_PRAGMAS)}: take it out"
            problems.append(Problem(f"Registered rules have no .pragma {statement.key}", statement.span, hint))
    clauses = [statement for statement in source.statements if isinstance(statement, syntax.Clause)]
    for node in (node for clause in clauses for node in walk_all(clause.parts)):
        if isinstance(node, syntax.Functor) and node.name == "autoinc":
            message = "autoinc() gives other numbers each time, so registered rules have no answer"
            problems.append(Problem(message, node.span, "use a record as the identity of a tuple"))
    if problems:
        raise ProgramError(problems, source.texts)


def _directive_problems(directives: list[ir.FileDirective]) -> Iterator[Problem]:
    """Yield a problem for each directive of rules. Directives in components are known only after the check."""
    for directive in directives:
        hint = "facts come by transactions, and changes go to subscribers: take it out"
        yield Problem(f"Registered rules have no .{directive.kind}", directive.span or syntax.NOWHERE, hint)


def _missing_value_problems(rules: "RulesText", reads: Mapping[str, Readable]) -> Iterator[Problem]:
    """Yield a problem for each atom that reads rules with parameters and gives no value for one of them."""
    for node in (node for node in rules.nodes if isinstance(node, syntax.Atom)):
        read = reads.get(node.relation)
        for parameter, arg in zip(read.parameters if isinstance(read, Registered) else (), node.args, strict=False):
            if not _is_parameter(arg) and not isinstance(arg, syntax.Number | syntax.String):
                hint = f"its parameters come first: write a constant or a parameter of {rules.name}, as ${parameter}"
                yield Problem(f"{node.relation} gets no value for its parameter ${parameter}", node.span, hint)


def _loop_problems(checked: ir.Program) -> Iterator[Problem]:
    """Yield a problem for each recursion that is evaluated in rounds, as subscriptions follow single strata."""
    for loop in checked.loops:
        name = min(loop.collected or {name for _, name in loop.pairs})
        message = f"Registered rules for {name} recur in steps, through sums or through negation"
        hint = "write these rules into the program of the session, and register rules that read their result"
        yield Problem(message, checked.relations[name].span or syntax.NOWHERE, hint)


class RulesText:
    """The parsed statements of a text of rules. They are rewritten so that parameters become attributes, and the names of other
    relations of the text get the name of the relation as a prefix."""

    def __init__(self, name: str, text: str, readable: ReadableByName, program: ir.Program, evaluate_inline: bool = False):
        """Parse a text. Raises ProgramError for statements that are not allowed. readable: the relations of the session;
        program: the session's. evaluate_inline: define the relation even if it is qualified `inline`, as for a query of it."""
        source = parse(text, f"<{name}>", sandbox=NoFiles())
        declarations = [node for node in source.statements if isinstance(node, syntax.RelationDecl)]
        # Of declared parameters, which are attributes with a $ before their names.
        self.declared_types = {attribute[1:]: type_ for node in declarations for attribute, type_ in node.attributes
                               if attribute.startswith("$")}  # fmt: skip
        self.source = source = replace(source, statements=list(map(_without_parameters, source.statements)))
        self.declared = {node.name: node for node in source.statements if isinstance(node, syntax.RelationDecl)}
        _check_allowed(name, source, self.declared, readable)
        self.name, self.readable, self.program = name, readable, program
        self.prefix = ""  # that of the names of the text's other relations: see `statements`
        self.clauses = [node for node in source.statements if isinstance(node, syntax.Clause)]
        self.nodes = [node for clause in self.clauses for node in walk_all(clause.parts)]
        used_parameters = (node.name.removeprefix("$") for node in self.nodes if _is_parameter(node))
        self.parameters = list(dict.fromkeys([*self.declared_types, *used_parameters]))
        self.dependent = self._find_dependent()
        # A relation with parameters is evaluated for the values that its readers give, so it is never inlined.
        self.inline = not evaluate_inline and not self.parameters and "inline" in self.declared[name].qualifiers
        self.parameter_variables = tuple(syntax.Variable(f"${parameter}") for parameter in self.parameters)
        self.parameter_attributes = self._infer_parameter_attributes() if self.parameters else []

    def _find_dependent(self) -> set[str]:
        """Return the relations of the text that depend on a parameter."""
        dependent: set[str] = {self.name} if self.parameters else set()
        while True:
            found = set()
            for clause in self.clauses:
                nodes = list(walk_all(clause.parts))
                read = {node.relation for node in nodes if isinstance(node, syntax.Atom)}
                if read & dependent or any(map(_is_parameter, nodes)):
                    found |= {head.relation for head in clause.heads} & self.declared.keys()
            if found <= dependent:
                return dependent
            dependent |= found

    def _infer_parameter_attributes(self) -> list[tuple[str, str]]:
        """Return the (attribute, type) of each parameter. Its type is declared, or that of the attribute in whose place it
        occurs in an atom; if it occurs in none, the type is inferred from comparisons and functors."""
        types = dict(self.declared_types)
        declared = self.program.types
        unvisited = [(node.args, self._attribute_types(node.relation)) for node in self.nodes if isinstance(node, syntax.Atom)]
        while unvisited:
            for term, type_ in zip(*unvisited.pop(), strict=False):  # a wrong number of arguments is reported later
                if _is_parameter(term):
                    types.setdefault(term.name.removeprefix("$"), type_)
                if isinstance(term, syntax.RecordInit) and type_ in declared:
                    unvisited.append((term.args, [field for _, field in declared[type_].fields]))
                if isinstance(term, syntax.BranchInit) and type_ in declared:
                    branches = [branch for branch in declared[type_].branches if branch.name == term.name]
                    unvisited += [(term.args, [field for _, field in branch.fields]) for branch in branches]
        if missing := [f"${parameter}" for parameter in self.parameters if parameter not in types]:
            declarations = declarations_read(self.nodes, self.readable, self.name)
            inferred = inferred_types(missing, [*self.program.typed, *declarations, *self.source.statements])
            types |= {name.removeprefix("$"): type_ for name, type_ in inferred.items()}
        for name in self.parameters:
            if name not in types:
                span = next(node.span for node in self.nodes if isinstance(node, syntax.Variable) and node.name == f"${name}")
                hint = f"declare it: .decl {self.name}(${name}: type, …)"
                problem = Problem(f"The type of ${name} is not known", span, hint, undefined=self._undefined_relation(name))
                raise ProgramError([problem], self.source.texts)
        taken = {attribute for declaration in self.declared.values() for attribute, _ in declaration.attributes}
        return [(_unused_name(name, taken), types[name]) for name in self.parameters]

    def _undefined_relation(self, parameter: str) -> str:
        """Return an unknown relation with a parameter in one of its atoms: once it is registered, its attribute gives the
        parameter's type. "" if there is none."""
        atoms = (node for node in self.nodes if isinstance(node, syntax.Atom))
        named = (atom.relation for atom in atoms for arg in atom.args if _is_parameter(arg) and arg.name == f"${parameter}")
        return next((name for name in named if name not in self.declared and name not in self.readable), "")

    def _attribute_types(self, relation: str) -> list[str]:
        """Return the types of the attributes of a relation; empty if it is unknown."""
        if relation in self.declared:
            return [type_ for _, type_ in self.declared[relation].attributes]
        if relation not in self.readable:
            return []
        declarations = declarations_of(self.readable[relation], self.name)
        return [type_ for node in declarations if node.name == relation for _, type_ in node.attributes]

    def statements(self, prefix: str = "") -> list:
        """Return the rewritten statements. prefix: precedes the names of the text's other relations; for an inlined relation,
        the name of its reader, as each reader gets relations of its own."""
        self.prefix = prefix
        statements = [self._rewrite_statement(statement) for statement in self.source.statements]
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
        body, dominating = (None if literals is None else rebuilt(literals, self._rewrite_atom) for literals in bodies)
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
    places = [place for place, (name, _) in enumerate(statement.attributes) if not name.startswith("$")]
    return replace(
        statement,
        attributes=tuple(statement.attributes[place] for place in places),
        spans=tuple(statement.spans[place] for place in places),
        lattices=tuple(new for new, place in enumerate(places) if place in statement.lattices),
    )


def _is_parameter(node) -> bool:
    return isinstance(node, syntax.Variable) and node.name.startswith("$")


def inferred_types(names: list[str], statements: list) -> dict[str, str]:
    """Infer the types of variables from declarations and clauses. Return the determined ones, by variable."""
    source = syntax.SourceProgram(statements, {})
    environment = TypeEnvironment(source)
    relations = declared_relations(source, environment, [])
    types_by_name: dict[str, str] = {}
    for single in single_clauses(source, []):
        typing = Typing(resolve_scopes(single).single, environment, relations)
        for name in names:
            types = sorted(typing.types(syntax.Variable(name)) or ())
            if len(types) == 1:
                types_by_name.setdefault(name, types[0].removeprefix("__"))  # which the types of constants begin with
            elif kind := typing.kind(syntax.Variable(name)):
                types_by_name.setdefault(name, kind.value)
    return types_by_name


def _unused_name(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, by appending underscores."""
    while name in taken:
        name += "_"
    return name
