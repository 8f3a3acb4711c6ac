"""Format a checked program as text for `semi-naive run --show`: its rules, types and dependencies."""

from collections import defaultdict

from semi_naive.planning.rewrite import variables_of, walk
from semi_naive.ra import ir


def datalog(program: ir.Program) -> str:
    """Return the program as Datalog: types, declarations, directives, and the rules in the form that is evaluated.

    Every rule has one head, no disjunction is left, and aggregates and ranges stand on their own.
    """
    lines = [_type(each) for each in program.types.values() if each.fields or each.branches]
    lines += [_declaration(relation) for relation in program.relations.values()]
    lines += [_directive(directive) for directive in program.directives]
    return "\n".join(lines + [str(rule) for rule in program.rules])


def _type(type_: ir.Type) -> str:
    branches = " | ".join(f"{each.name} {{{_fields(each.fields)}}}" for each in type_.branches)
    return f".type {type_.name} = {branches or f'[{_fields(type_.fields)}]'}"


def _fields(fields: tuple) -> str:
    return ", ".join(f"{name}: {of}" for name, of in fields)


def _declaration(relation: ir.Relation) -> str:
    attributes = ", ".join(f"{name}: {type_.name}" for name, type_ in relation.attributes)
    qualifiers = "".join(f" {word}" for word in sorted(relation.qualifiers))
    return f".decl {relation.name}({attributes}){qualifiers}"


def _directive(directive: ir.FileDirective) -> str:
    given = ", ".join(f'{name}="{value}"' for name, value in directive.parameters.items())
    return f".{directive.kind} {directive.relation}" + (f"({given})" if given else "")


def type_analysis(program: ir.Program) -> str:
    """Return the variables of each rule with their types, as text."""
    lines = []
    for rule in program.rules:
        known = [f"    {name}: {' & '.join(types)}" for name, types in types_of(rule, program).items()]
        lines += [" ".join((rule.text or str(rule)).split()), *known] if known else []
    return "\n".join(lines)


def types_of(rule: ir.Rule, program: ir.Program) -> dict[str, list[str]]:
    """Return the types of each variable of a rule: the types of its attributes in atoms, else the kind of its value."""
    found: dict[str, dict[str, None]] = {}
    for node in walk(rule):
        if isinstance(node, ir.Atom):
            for term, (_, type_) in zip(node.args, program.relations[node.relation].attributes, strict=True):
                if isinstance(term, ir.Var):
                    found.setdefault(term.name, {})[type_.name] = None
    kinds = {name: {variable.kind.value: None} for name, variable in variables_of(rule).items()}
    return {name: list(types) for name, types in (kinds | found).items()}


def precedence_graph(program: ir.Program) -> str:
    """Return a line for each relation, with the relations that its rules read. A `!` marks a relation that is negated or
    aggregated, and so must be complete first."""
    reads = defaultdict(set)
    for rule in program.rules:
        for literal in rule.body:
            reads[rule.head.relation] |= _relations_read(literal)
    return "\n".join(f"{name}: {' '.join(sorted(reads[name]))}".rstrip() for name in program.relations)


def precedence_dot(program: ir.Program) -> str:
    """Return the precedence graph in graphviz's language; an edge leads from the relation read to the one that reads it."""
    read = (line.partition(":") for line in precedence_graph(program).split("\n"))  # "reader: relations that it reads"
    pairs = dict.fromkeys((name.removeprefix("!"), by) for by, _, names in read for name in names.split())
    nodes = [f'"{name}" [label = "{name}"];' for name in program.relations]
    return _dot([*nodes, *(f'"{name}" -> "{by}";' for name, by in pairs)])


def _relations_read(literal) -> set[str]:
    """Return the relations that a literal reads; a `!` marks those that are negated or aggregated."""
    if isinstance(literal, ir.Atom):
        return {literal.relation}
    if isinstance(literal, ir.Not):
        return {f"!{literal.atom.relation}"}
    if isinstance(literal, ir.Aggregate):
        return {f"!{name.removeprefix('!')}" for each in literal.body for name in _relations_read(each)}
    return set()


def scc_graph(strata: list) -> str:
    """Return a line for each stratum, in the order of evaluation, with the strata that it reads."""
    lines = []
    for number, (stratum, before) in enumerate(zip(strata, _strata_read(strata), strict=True), 1):
        after = f" after {', '.join(map(str, before))}" if before else ""
        lines.append(f"{number}: {{{', '.join(stratum.relations)}}}{' recursive' * stratum.recursive}{after}")
    return "\n".join(lines)


def scc_dot(strata: list) -> str:
    """Return the graph of strata in graphviz's language; the first stratum is _0."""
    nodes = [f'_{place}[label = "{", ".join(stratum.relations)}"];' for place, stratum in enumerate(strata)]
    return _dot(
        [*nodes, *(f"_{read - 1} -> _{place};" for place, before in enumerate(_strata_read(strata)) for read in before)]
    )


def _strata_read(strata: list) -> list[list[int]]:
    """Return the numbers, from 1, of the strata that each stratum reads."""
    number_of = {name: number for number, stratum in enumerate(strata, 1) for name in stratum.relations}
    found = []
    for number, stratum in enumerate(strata, 1):
        names = {name.removeprefix("!") for rule in stratum.rules for literal in rule.body for name in _relations_read(literal)}
        found.append(sorted({number_of[name] for name in names} - {number}))
    return found


def _dot(lines: list[str]) -> str:
    return "\n".join(["digraph {", *(f"\t{line}" for line in lines), "}"])
