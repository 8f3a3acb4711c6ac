"""Instantiate components: every instance becomes relations, types, rules and directives with its name in front.

    .comp Graph<N> { .decl edge(a: N, b: N)  edge(x, y) :- edge(y, x). }    →    .decl g.edge(a: city, b: city)
    .init g = Graph<city>                                                        g.edge(x, y) :- g.edge(y, x).

A name inside of a component refers to the component's own declaration, else to that of the enclosing one, and so on outwards.
Prefixing implements that: an instance prefixes the names that it declares, leaves other names unchanged, and then the enclosing
instance does the same with the result."""

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from semi_naive.language import syntax
from semi_naive.language.components.component_checks import arity_problem, component_problems
from semi_naive.language.components.component_scopes import Binding, Scopes, bind_parameters, parts
from semi_naive.language.errors import Problem, ProgramError

Names = dict[str, str]  # new names, by the old ones
Attributes = tuple[tuple[str, str], ...]  # (name, name of the type)
MAX_INSTANCES = 10_000  # instances of components, at most


def expand_components(source: syntax.SourceProgram) -> syntax.SourceProgram:
    """Return the program without components: each `.init` is replaced by the content of its instance."""
    if not any(isinstance(statement, (syntax.Component, syntax.Init, syntax.Override)) for statement in source.statements):
        return source
    scopes = Scopes(source.statements)
    problems = component_problems(source.statements, scopes)
    if problems:
        raise ProgramError(problems, source.texts)
    statements: list = []
    instances = _Instances(scopes, problems)
    for statement in source.statements:
        if isinstance(statement, syntax.Init):
            statements += instances.instance(statement, None, {}).statements()
        elif not isinstance(statement, syntax.Component):
            statements.append(statement)
    if problems:
        distinct = {(problem.message, problem.span): problem for problem in problems}  # several instances have the same ones
        raise ProgramError(list(distinct.values()), source.texts)
    # Several instances may define the same lattice of a type.
    kept = {(node.name, node.span) if isinstance(node, syntax.Lattice) else id(node): node for node in statements}
    return syntax.SourceProgram(list(kept.values()), source.texts, source.warnings, source.legacy)


@dataclass
class Content:
    """The statements of an instance. orphans: clauses for relations that the instance does not declare; an enclosing instance
    may declare them."""

    types: list = field(default_factory=list)
    relations: list[syntax.RelationDecl] = field(default_factory=list)
    directives: list[syntax.Directive] = field(default_factory=list)
    clauses: list[syntax.Clause] = field(default_factory=list)
    orphans: list[syntax.Clause] = field(default_factory=list)
    lattices: list[syntax.Lattice] = field(default_factory=list)

    def statements(self) -> list:
        return [*self.types, *self.lattices, *self.relations, *self.directives, *self.clauses, *self.orphans]


class _Instances:
    """Creates the instance of an `.init`, and the instances inside it."""

    def __init__(self, scopes: Scopes, problems: list[Problem]):
        self.scopes, self.problems = scopes, problems
        self.count = 0  # the number of instances so far
        self.unfinished: list[tuple[int, Binding]] = []  # the components being instantiated, with their parameters

    def instance(self, init: syntax.Init, scope: syntax.Component | None, binding: Binding) -> Content:
        """Return the content of an instance, under its qualified names; nothing, and a problem, if it cannot be created. scope:
        the component that contains the `.init`, or None; binding: the arguments of the scope's parameters."""
        content = Content()
        component = self.scopes.find(init.component, scope, binding)
        if component is None:
            hint = f"{init.component} is {binding[init.component]} here" if init.component in binding else ""
            self.problems.append(Problem(f"Component {init.component} not found", init.span, hint))
            return content
        if len(component.parameters) != len(init.arguments):  # if the component is a parameter, this is the only check
            self.problems.append(arity_problem(component, init.component, init.arguments, init.span))
            return content
        inner = bind_parameters(binding, component.parameters, init.arguments)
        if (id(component), inner) in self.unfinished:
            message = f"Component instantiation limit reached: an instance of {component.name} has one inside, without end"
            self.problems.append(Problem(message, init.span, "instances cannot be recursive; relations can"))
            return content
        self.count += 1
        if self.count > MAX_INSTANCES:
            if self.count == MAX_INSTANCES + 1:
                message = f"Component instantiation limit reached: {MAX_INSTANCES:,} instances are the most"
                self.problems.append(Problem(message, init.span, "instances of instances multiply: leave some out"))
            return content
        self.unfinished.append((id(component), inner))
        self._collect(component, inner, frozenset(), content)
        self.unfinished.pop()
        return _qualified(content, init.name)

    def _collect(self, component: syntax.Component, binding: Binding, overridden: frozenset[str], content: Content):
        """Add the statements of a component to a content, after those of its instances and bases. Clauses for `overridden`
        relations are left out, as a derived component replaces them."""
        for init in parts(component, syntax.Init):
            self._add(self.instance(init, component, binding), content)
        overridden_in_bases = overridden | {override.relation for override in parts(component, syntax.Override)}
        for name, arguments in component.bases:
            base = self.scopes.find(name, self.scopes.around(component), binding)
            if base is None:
                hint = f"{component.name} is to inherit from it"
                self.problems.append(Problem(f"Component {name} not found", component.span, hint))
                continue
            self._collect(base, bind_parameters(binding, base.parameters, arguments), overridden_in_bases, content)
        self._add(_own(component, binding, overridden), content)

    def _add(self, added: Content, content: Content):
        """Add statements to a content. A clause that is an orphan in one of them may not be in both together."""
        self._check_names(added.types, content.types, "type")
        self._check_names(added.relations, content.relations, "relation")
        content.types += added.types
        content.relations += added.relations
        for directive in added.directives:
            self._check_directive(directive, content.directives)
            content.directives.append(directive)
        content.lattices += added.lattices
        content.clauses += added.clauses
        orphans, content.orphans = content.orphans + added.orphans, []
        declared = {relation.name for relation in content.relations}
        for clause in orphans:
            (content.clauses if clause.heads[0].relation in declared else content.orphans).append(clause)

    def _check_names(self, declarations: list, known: list, word: str):
        """Report declarations whose name is already declared. word: the kind of declaration, for errors."""
        before = {declaration.name: declaration for declaration in known}
        for declaration in declarations:
            if declaration.name in before:
                notes = [("Previous definition", before[declaration.name].span)]
                hint = "an instance includes the declarations that its component inherits"
                message = f"Redefinition of {word} {declaration.name}"
                self.problems.append(Problem(message, declaration.span, hint, notes=notes))
            before.setdefault(declaration.name, declaration)

    def _check_directive(self, directive: syntax.Directive, known: list[syntax.Directive]):
        """Report a second input or limit directive of a relation."""
        before = next((other for other in known if other.relation == directive.relation), None)
        if before is not None and before.kind == directive.kind != "output":
            notes = [("Previous definition", before.span)]
            message = f"Redefinition I/O operation {directive.relation}"
            self.problems.append(Problem(message, directive.span, f"leave out one .{directive.kind}", notes=notes))


def _own(component: syntax.Component, binding: Binding, overridden: frozenset[str]) -> Content:
    """Return the declarations and clauses of a component itself. A clause with several heads becomes several, as its heads may
    move to different instances."""
    own = Content(
        types=[_renamed(type_, {}, binding, binding) for type_ in parts(component, syntax.TYPES)],
        relations=[_renamed(relation, {}, binding) for relation in parts(component, syntax.RelationDecl)],
        directives=parts(component, syntax.Directive),
        lattices=[_renamed(lattice, {}, binding) for lattice in parts(component, syntax.Lattice)],
    )
    for clause in parts(component, syntax.Clause):
        clause = _renamed(clause, {}, binding)
        kept = [head for head in clause.heads if head.relation.split(".")[0] not in overridden]
        own.orphans += [replace(clause, heads=(head,), beside=clause.heads) for head in kept]
    return own


def _qualified(content: Content, instance: str) -> Content:
    """Return the content with the instance's name in front of all names that it declares."""
    types = {type_.name: f"{instance}.{type_.name}" for type_ in content.types}
    branches = [branch.name for type_ in content.types if isinstance(type_, syntax.SumDecl) for branch in type_.branches]
    types |= {f"${name}": f"{instance}.{name}" for name in branches}  # no type has a name with $
    relations = {relation.name: f"{instance}.{relation.name}" for relation in content.relations}
    return Content(
        [_renamed(type_, relations, types, types) for type_ in content.types],
        [_renamed(relation, relations, types) for relation in content.relations],
        [_renamed(directive, relations, types) for directive in content.directives],
        [_renamed(clause, relations, types) for clause in content.clauses],
        [_renamed(clause, relations, types) for clause in content.orphans],
        [_renamed(lattice, relations, types) for lattice in content.lattices],
    )


def _renamed(node: syntax.Node, relations: Names, types: Names, declared: Names | None = None) -> syntax.Node:
    """Return a statement with relations, types and branches renamed. types: new names of types, and of branches by `$name`;
    declared: the same for the type that the statement declares, and its branches."""
    match node:
        case syntax.SubtypeDecl():
            return replace(node, name=_new_name(node.name, declared), base=_new_name(node.base, types))
        case syntax.UnionDecl():
            members = tuple(_new_name(member, types) for member in node.members)
            return replace(node, name=_new_name(node.name, declared), members=members)
        case syntax.RecordDecl():
            return replace(node, name=_new_name(node.name, declared), fields=_typed(node.fields, types))
        case syntax.SumDecl():
            branches = tuple(
                replace(branch, name=_new_branch_name(branch.name, declared), fields=_typed(branch.fields, types))
                for branch in node.branches
            )
            return replace(node, name=_new_name(node.name, declared), branches=branches)
        case syntax.RelationDecl():
            name, born_of = _new_name(node.name, relations), _new_name(node.born_of, relations)
            return replace(node, name=name, born_of=born_of, attributes=_typed(node.attributes, types))
        case syntax.Lattice():
            bounds = tuple((word, _rename_clause(value, relations, types)) for word, value in node.bounds)
            return replace(node, name=_new_name(node.name, types), bounds=bounds)
        case syntax.Directive():
            return replace(node, relation=_new_name(node.relation, relations))
    return _rename_clause(node, relations, types)


def _new_name(name: str, names: Names | None) -> str:
    return names.get(name, name) if names else name


def _new_branch_name(name: str, types: Names | None) -> str:
    """Return the new name of a branch. `types` has it under `$name`, as a branch may be called as a type is."""
    return types.get(f"${name}", name) if types else name


def _typed(attributes: Attributes, types: Names) -> Attributes:
    return tuple((name, types.get(type_, type_)) for name, type_ in attributes)


def _rename_clause(node: Any, relations: Names, types: Names) -> Any:
    """Return a clause, or a part of one, with relations in all its atoms and types in all its casts renamed."""
    if node.__class__ is tuple:  # a span, which is a tuple of another class, stays
        return tuple(_rename_clause(item, relations, types) for item in node)
    if not isinstance(node, syntax.Node) or not is_dataclass(node):
        return node
    changes = {
        part.name: _rename_clause(value, relations, types)
        for part in fields(node)
        if isinstance(value := getattr(node, part.name), (tuple, syntax.Node))
    }
    if isinstance(node, syntax.Atom):
        changes["relation"] = relations.get(node.relation, node.relation)
    elif isinstance(node, syntax.As):
        changes["type"] = types.get(node.type, node.type)
    elif isinstance(node, syntax.BranchInit):
        changes["name"] = _new_branch_name(node.name, types)
    return replace(node, **changes) if changes else node
