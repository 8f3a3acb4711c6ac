"""Infer missing declarations from facts and rules, for programs given on the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from semi_naive.host.numbers import quantity
from semi_naive.language import syntax
from semi_naive.language.errors import Problem, ProgramError
from semi_naive.language.scopes import resolve_scopes
from semi_naive.language.single import Single, single_clauses
from semi_naive.language.trees import walk, walk_all
from semi_naive.language.types.inference import Typing, typed
from semi_naive.language.types.types import CONSTANT, TypeEnvironment
from semi_naive.ra.ir import Kind

UNKNOWN = ":"  # placeholder for an unknown type; no type has this name
USUAL = Kind.NUMBER.value  # the default for types that nothing determines


def with_declarations(source: syntax.SourceProgram, columns: Mapping[str, list[tuple[str, str]]]) -> syntax.SourceProgram:
    """Return the program with a .decl for every undeclared relation, and an .output if it has none.

    columns: the (name, type) of the columns of relations that get facts. The types of other relations are inferred from their
    rules, starting with rules over known relations; the default is number. The outputs are the relations with rules that no
    other relation's rules read; if all are read, the relation of the last rule. Raises ProgramError for a relation with neither
    rules nor facts."""
    uses = _undeclared_atoms(source)
    _check(source, uses, columns)
    inferred = {name: _declaration(atom, columns.get(name, ())) for name, atom in uses.items()}
    _infer_types(source, inferred)
    directives = (node.kind for node in source.of(syntax.Directive))
    outputs = _outputs(source) if {"output", "printsize"}.isdisjoint(directives) else []
    return replace(source, statements=[*inferred.values(), *source.statements, *outputs])


def undeclared(source: syntax.SourceProgram) -> dict[str, bool]:
    """Return {name: True if it has rules} for the relations that a program uses without a declaration."""
    heads = _heads(source)
    return {name: name in heads for name in _undeclared_atoms(source)}


def _undeclared_atoms(source: syntax.SourceProgram) -> dict[str, syntax.Atom]:
    """Return the most informative atom of each undeclared relation: its first head, else its first occurrence."""
    declared = {node.name for node in source.of(syntax.RelationDecl)}
    atoms = [node for clause in source.of(syntax.Clause) for node in walk_all(clause.parts) if isinstance(node, syntax.Atom)]
    # A dotted name is that of a relation in an instance of a component.
    names = {atom.relation: None for atom in atoms if atom.relation not in declared and "." not in atom.relation}
    first_atoms, heads = {atom.relation: atom for atom in reversed(atoms)}, _heads(source)
    return {name: heads.get(name) or first_atoms[name] for name in names}


def _heads(source: syntax.SourceProgram) -> dict[str, syntax.Atom]:
    """Return the first head of each relation with rules."""
    return {head.relation: head for clause in reversed(source.of(syntax.Clause)) for head in reversed(clause.heads)}


def _check(source: syntax.SourceProgram, uses: dict[str, syntax.Atom], columns: Mapping) -> None:
    """Raise ProgramError for relations without rules or facts, and for files with another number of columns."""
    problems, heads = [], _heads(source)
    for name, atom in uses.items():
        given, arity = columns.get(name), len(atom.args)
        if given is None and name not in heads:
            hint = f"name a file with its facts, -F {name}=FILE, or declare it"
            problems.append(Problem(f"Relation {name} has neither rules nor facts", atom.span, hint))
        if given is not None and len(given) != arity:
            names = ", ".join(column or f"column {number}" for number, (column, _) in enumerate(given, 1))
            message = f"{name} has {quantity(arity, 'attribute')} here, and its file {quantity(len(given), 'column')}: {names}"
            problems.append(Problem(message, atom.span, f"declare those that you want: .decl {name}(…), by their names"))
    if problems:
        raise ProgramError(problems, source.texts)


def _declaration(atom: syntax.Atom, columns: Sequence[tuple[str, str]]) -> syntax.RelationDecl:
    """Return a declaration with the names of the file's columns, else those of an atom's variables and functors. Column names
    are not changed, as the file is read by them."""
    names_in_atom = [node.name if isinstance(node, syntax.Variable | syntax.Functor) else "" for node in atom.args]
    names: list[str] = []
    columns = columns or [("", UNKNOWN)] * len(names_in_atom)
    for number, ((column, _), candidate) in enumerate(zip(columns, names_in_atom, strict=True), 1):
        usable = candidate.isidentifier() and candidate not in names and not candidate.startswith("_")
        names.append(column or (candidate if usable else f"column{number}"))
    attributes = tuple((name, type_) for name, (_, type_) in zip(names, columns, strict=True))
    return syntax.RelationDecl(atom.relation, attributes, span=atom.span)


def _infer_types(source: syntax.SourceProgram, inferred: syntax.Relations) -> None:
    """Replace unknown types in inferred declarations by those that rules require. Rules whose types are known come first."""
    env = TypeEnvironment(source)
    relations = {node.name: node for node in source.of(syntax.RelationDecl)} | inferred
    rules = [resolve_scopes(single).single for single in single_clauses(source, [])]
    while any(type_ == UNKNOWN for name in inferred for _, type_ in relations[name].attributes):
        ordered = sorted(rules, key=lambda rule: _reads_unknown(rule, relations))
        if not any(_infer_head_types(rule, env, relations) for rule in ordered):
            for name in inferred:
                _fill_unknown_types(relations, name, [USUAL] * len(inferred[name].attributes))
    inferred.update((name, relations[name]) for name in inferred)


def _reads_unknown(rule: Single, relations: syntax.Relations) -> bool:
    """True if a rule reads an attribute of an unknown type."""
    read = [node.relation for literal in rule.body for node in walk(literal) if isinstance(node, syntax.Atom)]
    return any(type_ == UNKNOWN for name in read if name in relations for _, type_ in relations[name].attributes)


def _infer_head_types(rule: Single, env: TypeEnvironment, relations: syntax.Relations) -> bool:
    """Infer types of a rule's head, and store them in `relations`; True if an unknown one was found."""
    head = relations.get(rule.head.relation)
    if head is None or all(type_ != UNKNOWN for _, type_ in head.attributes) or len(head.attributes) != len(rule.head.args):
        return False
    typing = typed(rule, env, relations)
    return _fill_unknown_types(relations, head.name, [_type_name(typing, arg) for arg in rule.head.args])


def _type_name(typing: Typing, node: syntax.Node) -> str:
    """Return the declared type of an expression; the predefined type of its kind for a constant; UNKNOWN if there is none."""
    types, kind = typing.types(node) or (), typing.kind(node)
    named = [name for name in types if name not in CONSTANT.values()]
    if len(named) == 1:
        return named[0]
    return UNKNOWN if kind in (None, Kind.RECORD) else kind.value


def _fill_unknown_types(relations: syntax.Relations, name: str, types: list[str]) -> bool:
    """Replace the unknown types of a relation's attributes; True if one was replaced."""
    node = relations[name]
    pairs = zip(node.attributes, types, strict=True)
    attributes = tuple((attribute, inferred if type_ == UNKNOWN else type_) for (attribute, type_), inferred in pairs)
    relations[name] = replace(node, attributes=attributes)
    return attributes != node.attributes


def _outputs(source: syntax.SourceProgram) -> list[syntax.Directive]:
    """Return an .output for each relation that a program without .output writes: see `with_declarations`."""
    clauses = source.of(syntax.Clause)
    heads = list(dict.fromkeys(head.relation for clause in clauses for head in clause.heads))
    read = {
        node.relation
        for clause in clauses
        for node in walk_all(clause.parts[len(clause.heads) :])  # the parts after the heads
        if isinstance(node, syntax.Atom) and node.relation not in {head.relation for head in clause.heads}
    }
    outputs = [name for name in heads if name not in read] or heads[-1:]
    return [syntax.Directive("output", name, span=clauses[-1].span) for name in outputs]
