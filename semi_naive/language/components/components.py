"""Instantiate components: every instance becomes relations, types, rules and directives with its name in front.

    .comp Graph<N> { .decl edge(a: N, b: N)  edge(x, y) :- edge(y, x). }    →    .decl g.edge(a: city, b: city)
    .init g = Graph<city>                                                        g.edge(x, y) :- g.edge(y, x).

A name inside of a component refers to the component's own declaration, else to that of the enclosing one, and so on outwards.
Prefixing implements that: an instance prefixes the names that it declares, and then the enclosing instance does the same."""

from dataclasses import replace

from semi_naive.language import syntax
from semi_naive.language.components.component_checks import arity_problem, component_problems
from semi_naive.language.components.component_scopes import Binding, Scopes, bind_parameters, parts
from semi_naive.language.errors import Problem, ProgramError
from semi_naive.language.trees import rebuilt

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
            statements += instances.instance(statement, None, {})
        elif not isinstance(statement, syntax.Component):
            statements.append(statement)
    if problems:
        raise ProgramError(problems, source.texts)
    # Several instances may define the same lattice of a type.
    kept = {(node.name, node.span) if isinstance(node, syntax.Lattice) else id(node): node for node in statements}
    return syntax.SourceProgram(list(kept.values()), source.texts, source.warnings, source.legacy)


class _Instances:
    """Creates the instance of an `.init`, and the instances inside it, as lists of statements."""

    def __init__(self, scopes: Scopes, problems: list[Problem]):
        self.scopes, self.problems = scopes, problems
        self.count = 0  # the number of instances so far
        self.unfinished: list[tuple[int, Binding]] = []  # the components being instantiated, with their parameters

    def instance(self, init: syntax.Init, scope: syntax.Component | None, binding: Binding) -> list:
        """Return the statements of an instance, under its qualified names; none, and a problem, if it cannot be created. scope:
        the component that contains the `.init`, or None; binding: the arguments of the scope's parameters."""
        component = self.scopes.find(init.component, scope, binding)
        if component is None:
            hint = f"{init.component} is {binding[init.component]} here" if init.component in binding else ""
            self.problems.append(Problem(f"Component {init.component} not found", init.span, hint))
            return []
        if len(component.parameters) != len(init.arguments):  # if the component is a parameter, this is the only check
            self.problems.append(arity_problem(component, init.component, init.arguments, init.span))
            return []
        inner = bind_parameters(binding, component.parameters, init.arguments)
        if (id(component), inner) in self.unfinished:
            message = f"Component instantiation limit reached: an instance of {component.name} has one inside, without end"
            self.problems.append(Problem(message, init.span, "instances cannot be recursive; relations can"))
            return []
        self.count += 1
        if self.count > MAX_INSTANCES:
            if self.count == MAX_INSTANCES + 1:
                message = f"Component instantiation limit reached: {MAX_INSTANCES:,} instances are the most"
                self.problems.append(Problem(message, init.span, "instances of instances multiply: leave some out"))
            return []
        self.unfinished.append((id(component), inner))
        content: list = []
        self._collect(component, inner, frozenset(), content)
        self.unfinished.pop()
        return _qualified(content, init.name)

    def _collect(self, component: syntax.Component, binding: Binding, overridden: frozenset[str], content: list):
        """Add the statements of a component to `content`, after those of its instances and bases. Clauses for `overridden`
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

    def _add(self, added: list, content: list):
        """Add statements to `content`. Report types and relations that it declares, and second inputs or limits."""
        hint = "an instance includes the declarations that its component inherits"
        for kinds, word in ((syntax.TYPES, "type"), (syntax.RelationDecl, "relation")):
            before = {node.name: node for node in reversed(content) if isinstance(node, kinds)}
            for node in (node for node in added if isinstance(node, kinds)):
                if (first := before.setdefault(node.name, node)) is not node:
                    self._redefinition(f"Redefinition of {word} {node.name}", node, hint, first)
        directives = {node.relation: node for node in reversed(content) if isinstance(node, syntax.Directive)}
        for new in (node for node in added if isinstance(node, syntax.Directive)):
            old = directives.setdefault(new.relation, new)
            if old is not new and old.kind == new.kind != "output":
                self._redefinition(f"Redefinition I/O operation {new.relation}", new, f"leave out one .{new.kind}", old)
        content += added

    def _redefinition(self, message: str, node: syntax.Node, hint: str, first: syntax.Node):
        self.problems.append(Problem(message, node.span, hint, notes=[("Previous definition", first.span)]))


def _own(component: syntax.Component, binding: Binding, overridden: frozenset[str]) -> list:
    """Return the declarations and clauses of a component itself. A clause with several heads becomes several, as its heads may
    move to different instances."""
    kinds = (*syntax.TYPES, syntax.RelationDecl, syntax.Directive, syntax.Lattice)
    own = [_renamed(node, {}, binding) for node in parts(component, kinds)]
    for clause in parts(component, syntax.Clause):
        clause = _renamed(clause, {}, binding)
        assert isinstance(clause, syntax.Clause)
        kept = [head for head in clause.heads if head.relation.split(".")[0] not in overridden]
        own += [replace(clause, heads=(head,), beside=clause.heads) for head in kept]
    return own


def _qualified(content: list, instance: str) -> list:
    """Return statements with the instance's name in front of all names that they declare. A clause of a relation that none of
    them declares keeps its name: an enclosing instance may declare it."""
    declared = [node.name for node in content if isinstance(node, syntax.TYPES)]
    branches = [branch.name for node in content if isinstance(node, syntax.SumDecl) for branch in node.branches]
    types = {name: f"{instance}.{name}" for name in declared}
    types |= {f"${name}": f"{instance}.{name}" for name in branches}  # no type has a name with $
    relations = {node.name: f"{instance}.{node.name}" for node in content if isinstance(node, syntax.RelationDecl)}
    return [_renamed(node, relations, types) for node in content]


def _renamed(node: syntax.Node, relations: Names, types: Names) -> syntax.Node:
    """Return a statement with relations, types and branches renamed. types: new names of types, and of branches by `$name`, as
    a branch may be called as a type is."""

    def typed(attributes: Attributes) -> Attributes:
        return tuple((name, types.get(type_, type_)) for name, type_ in attributes)

    def change(part):
        """Return a part of a clause with its own name renamed, and those in it; see `trees.rebuilt`."""
        match part:
            case syntax.Atom():
                name = relations.get(part.relation, part.relation)
                return replace(part, relation=name, args=rebuilt(part.args, change))
            case syntax.BranchInit():
                return replace(part, name=types.get(f"${part.name}", part.name), args=rebuilt(part.args, change))
            case syntax.As():
                return replace(part, type=types.get(part.type, part.type), value=rebuilt(part.value, change))
        return None

    match node:
        case syntax.SubtypeDecl():
            return replace(node, name=types.get(node.name, node.name), base=types.get(node.base, node.base))
        case syntax.UnionDecl():
            members = tuple(types.get(member, member) for member in node.members)
            return replace(node, name=types.get(node.name, node.name), members=members)
        case syntax.RecordDecl():
            return replace(node, name=types.get(node.name, node.name), fields=typed(node.fields))
        case syntax.SumDecl():
            branches = tuple(
                replace(branch, name=types.get(f"${branch.name}", branch.name), fields=typed(branch.fields))
                for branch in node.branches
            )
            return replace(node, name=types.get(node.name, node.name), branches=branches)
        case syntax.RelationDecl():
            name, born_of = (relations.get(old, old) for old in (node.name, node.born_of))
            return replace(node, name=name, born_of=born_of, attributes=typed(node.attributes))
        case syntax.Lattice():
            bounds = tuple((word, rebuilt(value, change)) for word, value in node.bounds)
            return replace(node, name=types.get(node.name, node.name), bounds=bounds)
        case syntax.Directive():
            return replace(node, relation=relations.get(node.relation, node.relation))
    names = ("heads", "body", "dominating", "beside")
    return replace(node, **{name: rebuilt(getattr(node, name), change) for name in names})
