"""The names of a program: their declarations and occurrences.

A name is looked up as `language.components` does it: in the component where it stands, in what that inherits from, then in what
is around it; `a.b.r` is the relation r of the instance b in the instance a. A variable is a name of its clause. A name that a
macro has made is written nowhere.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from semi_naive.language import syntax
from semi_naive.language.component_scopes import Scopes
from semi_naive.language.errors import Span
from semi_naive.language.syntax import Component, SourceProgram
from semi_naive.language.trees import walk
from semi_naive.language.wellfounded import COMPANIONS

WHOLE = "(?<![\\w?.]){}(?![\\w?])"  # a name, and no part of another one


@dataclass(frozen=True, eq=False)
class Declaration:
    """kind: relation, type, branch, functor, component, instance, parameter or variable. span: of the name; node: the declaring
    node, for a variable its clause; within: the enclosing component, or None."""

    kind: str
    name: str
    span: Span
    node: syntax.Node
    within: Component | None = None


class Names:
    """All names of a program. An occurrence is a span and the declaration that it refers to; declarations are occurrences
    too."""

    def __init__(self, source: SourceProgram):
        self.texts = {file: _TextLines(text) for file, text in source.texts.items()}
        self.scopes = Scopes(source.statements)
        self.declarations: list[Declaration] = []
        self.occurrences: dict[Span, Declaration] = {}
        self._own: dict[tuple, Declaration] = {}  # by component (its identity, or None), kind and name
        self._declare(source.statements, None)
        self._use(source.statements, None)

    def at(self, file: str, line: int, column: int) -> tuple[Span, Declaration] | None:
        """The occurrence at a position, or that ends there."""
        for span, declaration in self.occurrences.items():
            if (span.file, span.line) == (file, line) and span.column <= column <= span.end_column:
                return span, declaration
        return None

    def of(self, declaration: Declaration) -> list[Span]:
        """The occurrences of a declaration, in the order of the text."""
        return sorted(span for span, meant in self.occurrences.items() if meant is declaration)

    def inside(self, component: Component | None) -> list[Declaration]:
        """The declarations of a component, or those outside of all, in the order of the text."""
        return [each for each in self.declarations if each.within is component and each.kind != "parameter"]

    def rivals(self, declaration: Declaration, name: str) -> bool:
        """True if a new name would already be declared in the declaration's scope."""
        if declaration.kind == "variable":
            return name in {node.name for node in _nodes(declaration.node) if isinstance(node, syntax.Variable)}
        kinds = ("type", "parameter") if declaration.kind in ("type", "parameter") else (declaration.kind,)
        return any(self._looked_up(kind, name, declaration.within) is not None for kind in kinds)

    # -- what is declared

    def _declare(self, statements, scope: Component | None):
        for node in statements:
            if isinstance(node, syntax.RelationDecl):
                self._declared("relation", node.name, node, scope, node.span)
            elif isinstance(node, syntax.TYPES):
                self._declared("type", node.name, node, scope)
                for branch in node.branches if isinstance(node, syntax.SumDecl) else ():
                    self._declared("branch", branch.name, branch, scope)
            elif isinstance(node, syntax.FunctorDecl):
                self._declared("functor", node.name, node, scope)
            elif isinstance(node, syntax.Init):
                self._declared("instance", node.name, node, scope)
            elif isinstance(node, Component):
                self._declared("component", node.name, node, scope)
                for parameter in node.parameters:
                    self._declared("parameter", parameter, node, node)
                self._declare(node.statements, node)

    def _declared(self, kind: str, name: str, node, scope: Component | None, span: Span | None = None):
        place = self._in(span or node.span, name)
        key = (id(scope), kind, name)
        if place is not None and key not in self._own:
            declaration = Declaration(kind, name, place, node, scope)
            self._own[key] = self.occurrences[place] = declaration
            self.declarations.append(declaration)

    # -- what is used

    def _use(self, statements, scope: Component | None):
        for node in statements:
            if isinstance(node, syntax.Clause):
                self._use_clause(node, scope)
            elif isinstance(node, Component):
                self._use_header(node, scope)
                self._use(node.statements, node)
            elif isinstance(node, syntax.Init):
                self._use_sequence(
                    node, [("component", node.component), *(("type", name) for name in node.arguments)], scope, "="
                )
            elif isinstance(node, syntax.Directive):
                self._used("relation", node.relation, node.span, scope)
            elif isinstance(node, syntax.Override):
                self._used("relation", node.relation, self._in(node.span, node.relation), scope)
            else:
                self._use_types(node, scope)

    def _use_types(self, node, scope):
        if isinstance(node, syntax.SubtypeDecl):
            self._used("type", node.base, self._in(node.span, node.base, last=True), scope)
        elif isinstance(node, syntax.UnionDecl):
            self._use_each(zip(node.members, node.spans, strict=False), scope)
        elif isinstance(node, syntax.RelationDecl) and node.born_of:
            self._used("relation", node.born_of, self._behind(node.span, "debug_delta", node.born_of), scope)
        elif isinstance(node, syntax.RelationDecl):
            self._use_each(zip((type_ for _, type_ in node.attributes), node.spans, strict=False), scope)
        elif isinstance(node, (syntax.RecordDecl, syntax.BranchDecl)):
            self._use_each(zip((type_ for _, type_ in node.fields), node.spans, strict=False), scope)
        elif isinstance(node, syntax.SumDecl):
            for branch in node.branches:
                self._use_types(branch, scope)
        elif isinstance(node, syntax.FunctorDecl):
            types = [type_ for _, type_ in node.parameters] + [node.result]
            self._use_each(
                [(type_, self._in(span, type_, last=True)) for type_, span in zip(types, node.spans, strict=False)], scope
            )
        elif isinstance(node, syntax.Lattice):
            self._used("type", node.name, self._in(node.span, node.name), scope)
            for _, value in node.bounds:
                for below in walk(value):
                    self._use_node(below, scope)

    def _use_each(self, pairs, scope):
        for name, span in pairs:
            self._used("type", name, span, scope)

    def _use_header(self, node: Component, scope):
        bases = [
            each for name, arguments in node.bases for each in [("component", name), *(("type", one) for one in arguments)]
        ]
        self._use_sequence(node, bases, scope, ":", node)

    def _use_sequence(self, node, names, scope, after: str, inner: Component | None = None):
        """Note the names that follow each other in a statement, after a mark. inner: the scope of types, if not `scope`."""
        lines = self.texts.get(node.span.file)
        at = lines and lines.found(node.span, re.escape(after))
        for kind, name in names if at else ():
            at = lines.found(
                Span(node.span.file, at.end_line, at.end_column, node.span.end_line, node.span.end_column), _whole(name)
            )
            if at is None:
                return
            self._used(kind, name, at, inner if inner is not None and kind == "type" else scope)

    def _use_clause(self, clause: syntax.Clause, scope):
        variables: dict[str, Declaration] = {}
        for node in _nodes(clause):
            if isinstance(node, syntax.Variable):
                if self._written(node.span, node.name):
                    declaration = variables.setdefault(node.name, Declaration("variable", node.name, node.span, clause, scope))
                    self.occurrences[node.span] = declaration
            else:
                self._use_node(node, scope)

    def _use_node(self, node, scope):
        if isinstance(node, syntax.Atom):
            self._used("relation", node.relation, node.span, scope)
        elif isinstance(node, syntax.BranchInit):
            self._used("branch", node.name, self._in(node.span, node.name, "[$]\\s*"), scope)
        elif isinstance(node, syntax.As):
            self._used("type", node.type, self._in(node.span, node.type, last=True), scope)
        elif isinstance(node, (syntax.Functor, syntax.Aggregate)):
            name = node.name if isinstance(node, syntax.Functor) else node.op
            if name.startswith("@"):
                self._used("functor", name.lstrip("@"), self._in(node.span, name.lstrip("@"), "@\\s*"), scope)

    def _used(self, kind: str, name: str, span: Span | None, scope):
        """Note the referent of each part of a qualified name that begins at a span."""
        lines = self.texts.get(span.file) if span is not None else None
        if lines is None or not lines.begins(span, name):
            return
        inside, parts = False, name.split(".")
        if kind == "relation" and parts[-1] in COMPANIONS and self._looked_up("instance", parts[0], scope) is None:
            parts.pop()
        column = span.column
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            found = self._meant(kind if last else "instance", part, scope, inside)
            if found is None:
                return
            place = Span(span.file, span.line, column, span.line, column + len(part))
            self.occurrences.setdefault(place, found)
            column += len(part) + 1
            if not last:
                scope, inside = self.scopes.find(found.node.component, found.within, {}), True
                if scope is None:
                    return

    # -- what a name means

    def _meant(self, kind: str, name: str, scope, inside: bool) -> Declaration | None:
        """The declaration that a name refers to. inside: look only in the component itself, and in its bases."""
        if inside:
            return self._in_component(kind, name, scope, set())
        kinds = (kind, "parameter") if kind in ("type", "component") else (kind,)
        return next((found for each in kinds if (found := self._looked_up(each, name, scope)) is not None), None)

    def _looked_up(self, kind: str, name: str, scope: Component | None) -> Declaration | None:
        while scope is not None:
            if (found := self._in_component(kind, name, scope, set())) is not None:
                return found
            scope = self.scopes.around(scope)
        return self._own.get((id(None), kind, name))

    def _in_component(self, kind: str, name: str, component: Component, seen: set[int]) -> Declaration | None:
        if id(component) in seen:  # they inherit from each other, an error by itself
            return None
        seen.add(id(component))
        if (found := self._own.get((id(component), kind, name))) is not None:
            return found
        for base, _ in component.bases:
            inherited = self.scopes.find(base, self.scopes.around(component), {})
            if inherited is not None and (found := self._in_component(kind, name, inherited, seen)) is not None:
                return found
        return None

    # -- where it is written

    def _in(self, span: Span, name: str, before: str = "", last: bool = False) -> Span | None:
        """The span of a name inside of a span: its first occurrence after the pattern `before`, or its last one."""
        lines = self.texts.get(span.file)
        return lines.found(span, before + f"(?P<it>{_whole(name)})" if before else _whole(name), last) if lines else None

    def _behind(self, span: Span, word: str, name: str) -> Span | None:
        """The span of a name in brackets after the word that follows a span."""
        lines = self.texts.get(span.file)
        end = lines and lines.place(len(lines.text))
        return end and self._in(Span(span.file, span.line, span.column, *end), name, rf"{word}\s*[(]\s*")

    def _written(self, span: Span, name: str) -> bool:
        return span.file in self.texts and self.texts[span.file].begins(span, name)


def _whole(name: str) -> str:
    return WHOLE.format(re.escape(name))


def _nodes(clause: syntax.Clause) -> Iterator[syntax.Node]:
    for part in clause.parts:
        yield from walk(part)


class _TextLines:
    """A text addressed by lines and columns."""

    def __init__(self, text: str):
        self.text = text
        self.starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]

    def offset(self, line: int, column: int) -> int:
        return self.starts[min(line, len(self.starts)) - 1] + column - 1

    def place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def begins(self, span: Span, name: str) -> bool:
        """True if this name is written at the beginning of the span."""
        return re.compile(_whole(name)).match(self.text, self.offset(span.line, span.column)) is not None

    def found(self, span: Span, pattern: str, last: bool = False) -> Span | None:
        begin, end = self.offset(span.line, span.column), self.offset(span.end_line, span.end_column)
        matches = list(re.compile(pattern).finditer(self.text, begin, end))
        if not matches:
            return None
        match = matches[-1 if last else 0]
        group = "it" if "it" in match.re.groupindex else 0
        (line, column), (end_line, end_column) = self.place(match.start(group)), self.place(match.end(group))
        return Span(span.file, line, column, end_line, end_column)
