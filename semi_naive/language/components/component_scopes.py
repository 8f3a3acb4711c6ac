"""Resolve the names of components and of component parameters by scope."""

from collections.abc import Iterable

from semi_naive.language.syntax import Component

Binding = dict[str, str]  # the argument of each type parameter


def bind_parameters(binding: Binding, parameters: Iterable[str], arguments: Iterable[str]) -> Binding:
    """Return the binding of a component's parameters to arguments, which are resolved in the enclosing binding.

    >>> bind_parameters({"N": "city"}, ("A", "B"), ("N", "number"))
    {'A': 'city', 'B': 'number'}
    """
    return {parameter: binding.get(argument, argument) for parameter, argument in zip(parameters, arguments, strict=False)}


def parts(component: Component, kind: type | tuple[type, ...]) -> list:
    """Return the statements of a kind in a component, as written."""
    return [statement for statement in component.statements if isinstance(statement, kind)]


class Scopes:
    """Looks names up from the inside out: in a component, in its bases, then in the enclosing component."""

    def __init__(self, statements: Iterable):
        self.outermost = [statement for statement in statements if isinstance(statement, Component)]
        self._around: dict[int, Component | None] = {}  # by identity, as two components may have equal text
        for component in self.outermost:
            self._enter(component, None)

    def _enter(self, component: Component, around: Component | None):
        """Record the enclosing component of a component and of those inside it."""
        self._around[id(component)] = around
        for inner in parts(component, Component):
            self._enter(inner, component)

    def around(self, component: Component) -> Component | None:
        return self._around[id(component)]

    def find(self, name: str, scope: Component | None, binding: Binding) -> Component | None:
        """Return the component that a name refers to inside of `scope` (None: outside of all)."""
        return self._find(binding.get(name, name), scope, binding, set())

    def _find(self, name: str, scope: Component | None, binding: Binding, searched: set[int]) -> Component | None:
        """Return the component that a name denotes in a scope, or None. searched: ids of the scopes that are being searched."""
        while scope is not None:
            if id(scope) in searched:  # components that inherit from each other, an error by itself
                return None
            searched.add(id(scope))
            found = _component_named(parts(scope, Component), name)
            for base, _ in scope.bases if found is None else ():  # with copies of `searched`: what one base searches, all may
                inherited = self._find(binding.get(base, base), self.around(scope), binding, set(searched))
                if inherited is not None and id(inherited) not in searched:
                    found = self._find(name, inherited, binding, set(searched))
                if found is not None:
                    break
            if found is not None:
                return found
            scope = self.around(scope)
        return _component_named(self.outermost, name)

    def ancestors(self, component: Component, scope: Component | None, binding: Binding) -> list[Component]:
        """Return all bases of a component; includes itself if inheritance is cyclic."""
        bases: list[Component] = []
        queue = [component]
        while queue:
            for base, _ in queue.pop().bases:
                inherited = self.find(base, scope, binding)
                if inherited is not None and all(inherited is not other for other in bases):
                    bases.append(inherited)
                    queue.append(inherited)
        return bases


def _component_named(components: list[Component], name: str) -> Component | None:
    return next((component for component in components if component.name == name), None)
