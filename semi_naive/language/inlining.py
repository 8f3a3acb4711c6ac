"""Inlined relations: determine them, and check restrictions on them and on clauses after inlining."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from semi_naive.host import limits
from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.grounded import grounded_problems
from semi_naive.language.scopes import resolve_scopes
from semi_naive.language.single import Single
from semi_naive.language.trees import own_children, rebuilt, variable_names, walk, walk_all
from semi_naive.planning.strata import Edge, recursive_relations, strong_components

# Atoms of a clause after inlining. In a chain of relations that each read the previous one twice, they double.
MAX_INLINED_ATOMS = 10_000


def inline_relations(relations: syntax.Relations) -> set[str]:
    """Return the names of the relations qualified `inline`."""
    return {name for name, declaration in relations.items() if "inline" in declaration.qualifiers}


def without_excluded(source: syntax.SourceProgram, relations: syntax.Relations) -> syntax.Relations:
    """Return the declarations, without `inline` where `no_inline`, `.pragma "inline-exclude" "a,b"` or subsumptive clauses
    revoke it."""
    pragmas = [node.value for node in source.of(syntax.Pragma) if node.key == "inline-exclude"]
    excluded = {name.strip() for value in pragmas for name in value.split(",")}
    excluded |= {name for name, declaration in relations.items() if "no_inline" in declaration.qualifiers}
    excluded |= {clause.heads[0].relation for clause in source.subsumptions}
    return {
        name: replace(declaration, qualifiers=declaration.qualifiers - {"inline"}) if name in excluded else declaration
        for name, declaration in relations.items()
    }


def inline_problems(source: syntax.SourceProgram, relations: syntax.Relations, singles: list[Single], edges: list[Edge]):
    """Report the problems of inlined relations. edges: the dependencies of relations."""
    inline = inline_relations(relations)
    if not inline:
        return
    yield from _io_problems(source, relations, inline)
    yield from _cycle_problems(relations, inline, edges)
    # Variables that only the body has are existential: in a negation they would be ungrounded.
    inlined = [(single, set().union(*map(variable_names, single.body))) for single in singles if single.head.relation in inline]
    existential = {single.head.relation for single, names in inlined if not names <= variable_names(single.head)}
    for single in singles:
        yield from _counter_problems(single, inline)
        for node in walk_all((*single.head.args, *single.body)):
            if isinstance(node, syntax.Negation) and isinstance(node.body, syntax.Atom) and node.body.relation in inline:
                yield from _negation_problems(node, node.body, existential)
            elif isinstance(node, syntax.Aggregate):
                atoms = [below for below in walk(node) if isinstance(below, syntax.Atom) and below.relation in inline]
                yield from (Problem("Cannot inline relations that appear in aggregator", atom.span) for atom in atoms)


def _io_problems(source: syntax.SourceProgram, relations: syntax.Relations, inline: set[str]) -> Iterator[Problem]:
    """Yield a problem for each inlined relation with a directive."""
    used = {node.relation for node in source.of(syntax.Directive)}
    for name in relations:
        if name in inline and name in used:
            yield Problem(f"IO relation {name} cannot be inlined", relations[name].span, "drop inline or the directive")


def _cycle_problems(relations: syntax.Relations, inline: set[str], edges: list[Edge]) -> Iterator[Problem]:
    """Yield a problem for each recursion of inlined relations."""
    among = [edge for edge in edges if edge.head in inline and edge.body in inline]
    groups = strong_components([name for name in relations if name in inline], among)
    cyclic = recursive_relations(groups, among)
    for group in groups:
        if group[0] in cyclic:
            message = f"Cannot inline cyclically dependent relations {{{', '.join(group)}}}"
            yield Problem(message, relations[group[0]].span, "one of them must be an ordinary relation")


def _counter_problems(single: Single, inline: set[str]) -> Iterator[Problem]:
    """Yield the problems of counters (autoinc) in inlined clauses and atoms."""
    counters = [node for node in single.of(syntax.Functor) if node.name == "autoinc"]
    inlined = {id(below) for atom in single.of(syntax.Atom) if atom.relation in inline for below in walk(atom)}
    for node in counters:
        if id(node) in inlined:
            yield Problem("Cannot inline literal containing a counter argument '$'", node.span)
        if single.head.relation in inline:
            yield Problem("Cannot inline clause containing a counter argument '$'", node.span)


def _negation_problems(node: syntax.Negation, atom: syntax.Atom, existential: set[str]) -> Iterator[Problem]:
    """Yield the problems of a negated inlined atom. existential: inlined relations whose rules have existential variables."""
    if atom.relation in existential:
        yield Problem("Cannot inline negated relation which may introduce new variables", node.span)
    for below in walk_all([atom], own_children):
        if isinstance(below, syntax.Underscore):
            message = "Cannot inline negated atom containing an unnamed variable unless the variable is within an aggregator"
            yield Problem(message, below.span)


# -- groundedness


class Expansions:
    """Expands inlined relations in clauses, to check that variables are grounded."""

    def __init__(self, singles: list[Single], inline: set[str]):
        """singles: all clauses; inline: the inlined relations."""
        self.inline = inline
        self.definitions: dict[str, list[Single]] = {}  # the clauses of each inlined relation
        for single in singles:
            if single.head.relation in inline:
                self.definitions.setdefault(single.head.relation, []).append(single)
        self._numbers = count(1)  # of the expansions, for the names of their variables

    def problems(self, single: Single) -> Iterator[Problem]:
        """Report the ungrounded variables of a clause after inlining, unless its own relation is inlined. Every definition of
        an inlined relation is tried once."""
        if not any(atom.relation in self.definitions for atom in single.of(syntax.Atom)) or single.head.relation in self.inline:
            return
        for turn in range(max(map(len, self.definitions.values()))):
            self._expanded_atoms = 0
            body = self._expanded(single.body, turn)
            if self._expanded_atoms > MAX_INLINED_ATOMS:
                message = f"Inlining makes more than {MAX_INLINED_ATOMS:,} atoms of this clause"
                yield Problem(message, single.clause.span, "drop inline of a relation that reads others several times")
                return
            scoped = resolve_scopes(Single(single.head, body, single.clause))
            yield from grounded_problems(scoped.single, set(), scoped.injected, scoped.refused)

    def _expanded(self, body: Iterable[syntax.Node], turn: int) -> tuple:
        """Return a body with inlined relations expanded, each atom once; stop at too many atoms. turn: see `_literals`."""
        return tuple(literal for part in dict.fromkeys(body) for literal in self._literals(part, turn))

    def _literals(self, literal: syntax.Node, turn: int) -> tuple:
        """Return the literals that replace a literal: for an atom s(a, b) and the definition s(x, y) :- body, x = a, y = b,
        body with fresh variables. turn: the number of the definition to use."""
        if not isinstance(literal, syntax.Atom) or literal.relation not in self.definitions:
            return (rebuilt(literal, lambda _: None),)  # a copy: the nodes of a clause are told apart by identity
        limits.check_limits()
        self._expanded_atoms += 1
        if self._expanded_atoms > MAX_INLINED_ATOMS:
            return ()
        definitions = self.definitions[literal.relation]
        definition, number = definitions[min(turn, len(definitions) - 1)], next(self._numbers)

        def rename_apart(node):
            return replace(node, name=f"{node.name}@{number}") if isinstance(node, syntax.Variable) else None

        head, *body = (rebuilt(part, rename_apart) for part in (definition.head, *definition.body))
        pairs = [pair for pair in zip(head.args, literal.args, strict=False) if not isinstance(pair[1], syntax.Underscore)]
        equations = (syntax.Constraint("=", pair, span=literal.span) for pair in pairs)
        return *(rebuilt(equation, lambda _: None) for equation in equations), *self._expanded(body, turn)
