"""Check a program's components before any is instantiated, as Soufflé does."""

from semi_naive.language.components.component_scopes import Binding, Scopes, parts
from semi_naive.language.errors import Problem, Span
from semi_naive.language.syntax import TYPES, Component, Init, Node, Override, RelationDecl


def component_problems(statements: list[Node], scopes: Scopes) -> list[Problem]:
    """Report undefined components, wrong numbers of parameters, inheritance cycles, invalid overrides and name clashes."""
    check = _Check(scopes)
    for component in scopes.outermost:
        check.component(component, None, {})
    for statement in statements:
        if isinstance(statement, Init):
            check.reference(statement.component, statement.arguments, statement.span, None, {})
        elif isinstance(statement, Override):
            hint = "a component overrides a relation of one that it inherits from"
            check.problem(".override outside of a component", statement.span, hint)
    check.names(statements)
    return check.problems


def arity_problem(component: Component, name: str, arguments: tuple[str, ...], span: Span) -> Problem:
    """Return the problem of a component with a wrong number of type parameters."""
    takes = f" ({', '.join(component.parameters)})" if component.parameters else ""
    hint = f"it takes {len(component.parameters)}{takes} and got {len(arguments)}"
    return Problem(f"Invalid number of type parameters for component {name}", span, hint)


class _Check:
    """Collects the problems of components."""

    def __init__(self, scopes: Scopes):
        self.scopes = scopes
        self.problems: list[Problem] = []

    def problem(self, message: str, span: Span, hint: str = "", before: Span | None = None):
        """Add a problem. before: the place of the definition that it contradicts, if any."""
        self.problems.append(Problem(message, span, hint, notes=[("Previous definition", before)] if before else []))

    def component(self, component: Component, scope: Component | None, binding: Binding):
        """Check a component. `binding` has the parameters of the enclosing components, whose values are not known yet."""
        inner = binding | {parameter: "" for parameter in component.parameters}
        for name, arguments in component.bases:
            self.reference(name, arguments, component.span, scope, inner)
        ancestors = self.scopes.ancestors(component, scope, binding)
        if any(component is ancestor for ancestor in ancestors):
            hint = "leave out one of the components it inherits from"
            self.problem(f"Invalid cycle in inheritance for component {component.name}", component.span, hint)
        self.overrides(component, ancestors)
        for nested in parts(component, Component):
            self.component(nested, component, inner)
        for init in parts(component, Init):
            self.reference(init.component, init.arguments, init.span, component, inner)

    def reference(self, name: str, arguments: tuple[str, ...], span: Span, scope: Component | None, binding: Binding):
        """Report a reference to an undefined component, or with a wrong number of parameters."""
        if name in binding:  # a parameter: its component is known, and checked, only in an instance
            return
        component = self.scopes.find(name, scope, binding)
        if component is None:
            self.problem(f"Referencing undefined component {name}", span, f"declare it: .comp {name} {{ … }}")
        elif len(component.parameters) != len(arguments):
            self.problems.append(arity_problem(component, name, arguments, span))

    def overrides(self, component: Component, ancestors: list[Component]):
        """Report overrides of relations that are not inherited or not overridable."""
        overridden = {override.relation: override.span for override in parts(component, Override)}
        where = f"in component {component.name}"
        for relation in parts(component, RelationDecl):
            if relation.name in overridden:
                hint = "a component need not override its own declarations"
                self.problem(f"Override of non-inherited relation {relation.name} {where}", component.span, hint)
        for relation in [relation for ancestor in ancestors for relation in parts(ancestor, RelationDecl)]:
            if relation.name in overridden and "overridable" not in relation.qualifiers:
                message = f"Override of non-overridable relation {relation.name} {where}"
                hint = f"declare it so: .decl {relation.name}(…) overridable"
                self.problem(message, component.span, hint, before=relation.span)

    def names(self, statements: list[Node]):
        """Report components and instances whose name is taken."""
        taken: dict[str, Span] = {}
        for statement in statements:
            if isinstance(statement, (*TYPES, RelationDecl)):
                taken.setdefault(statement.name, statement.span)
        for kind, word in ((Component, "component"), (Init, "instantiation")):
            for statement in statements:
                if isinstance(statement, kind):
                    if statement.name in taken:
                        before = taken[statement.name]
                        self.problem(f"Name clash on {word} {statement.name}", statement.span, "rename it", before)
                    taken.setdefault(statement.name, statement.span)
