"""A checked program as text, for `semi-naive run --show`: its rules, and what depends on what."""

from collections import defaultdict

from semi_naive.planning.rewrite import variables_of, walk
from semi_naive.ra.rules import ir


def datalog(program: ir.Program) -> str:
    """The program as Datalog: types, declarations, directives, and the rules as they are evaluated.

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


def _directive(directive: ir.Directive) -> str:
    given = ", ".join(f'{name}="{value}"' for name, value in directive.parameters.items())
    return f".{directive.kind} {directive.relation}" + (f"({given})" if given else "")


def type_analysis(program: ir.Program) -> str:
    """Of each rule its variables, with the types of the attributes that have their values, or else what they compute to."""
    lines = []
    for rule in program.rules:
        found: dict[str, dict[str, None]] = {}
        for node in walk(rule):
            if isinstance(node, ir.Atom):
                for term, (_, type_) in zip(node.args, program.relations[node.relation].attributes, strict=True):
                    if isinstance(term, ir.Var):
                        found.setdefault(term.name, {})[type_.name] = None
        kinds = {name: {variable.kind.value: None} for name, variable in variables_of(rule).items()}
        known = [f"    {name}: {' & '.join(types)}" for name, types in (kinds | found).items()]
        lines += [" ".join((rule.text or str(rule)).split()), *known] if known else []
    return "\n".join(lines)


def precedence_graph(program: ir.Program) -> str:
    """Of each relation, the relations its rules read; `!` before those that must be complete first: negated ones, and
    those in aggregates."""
    reads = defaultdict(set)
    for rule in program.rules:
        for literal in rule.body:
            reads[rule.head.relation] |= _reads(literal)
    return "\n".join(f"{name}: {' '.join(sorted(reads[name]))}".rstrip() for name in program.relations)


def _reads(literal) -> set[str]:
    if isinstance(literal, ir.Atom):
        return {literal.relation}
    if isinstance(literal, ir.Not):
        return {f"!{literal.atom.relation}"}
    if isinstance(literal, ir.Aggregate):
        return {f"!{name.removeprefix('!')}" for each in literal.body for name in _reads(each)}
    return set()


def scc_graph(strata: list) -> str:
    """The strata in the order they are evaluated, with the strata they read."""
    number = {name: at for at, stratum in enumerate(strata, 1) for name in stratum.relations}
    lines = []
    for at, stratum in enumerate(strata, 1):
        names = {name.removeprefix("!") for rule in stratum.rules for literal in rule.body for name in _reads(literal)}
        before = sorted({number[name] for name in names} - {at})
        after = f" after {', '.join(map(str, before))}" if before else ""
        lines.append(f"{at}: {{{', '.join(stratum.relations)}}}{' recursive' * stratum.recursive}{after}")
    return "\n".join(lines)
