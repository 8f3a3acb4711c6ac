"""Format a checked program as text for `semi-naive run --show`: its rules, types and dependencies."""

from collections import defaultdict
from collections.abc import Mapping

import click

from semi_naive.cli.program import Origin
from semi_naive.io.errors import BadInput
from semi_naive.language.errors import ProgramError
from semi_naive.planning.rewrite import variables_of, walk
from semi_naive.planning.strata import rule_edges
from semi_naive.ra import ir

PARSE_ERRORS = "parse-errors"
ALIASES = {"initial-ast": "initial-datalog", "transformed-ast": "transformed-datalog"}


def show_modes(texts) -> list[str]:
    """Return the distinct modes that --show names; commas separate several. Raises BadInput for an unknown one."""
    modes = [ALIASES.get(mode, mode) for text in texts for mode in text.split(",")]
    for mode in modes:
        if mode.endswith("-ram"):
            raise BadInput(f"--show={mode}: there is no RAM, as rules are planned while they run", hint="--explain tells how")
        if mode not in MODES:
            known = ", ".join(f"{name} ({what})" for name, (what, _) in MODES.items())
            raise BadInput(f"--show={mode}: there is nothing of this name", hint=f"known are {known}")
    return list(dict.fromkeys(modes))


def show_program(origin: Origin, modes: list[str], reading: dict, pragmas: Mapping[str, str]) -> int:
    """Print the output of the modes of --show; return the exit status, for parse-errors their number."""
    if PARSE_ERRORS in modes:
        return _show_errors(origin, reading)
    checked = origin.checked(reading, pragmas)
    for mode in modes:
        _, text_of = MODES[mode]
        assert text_of is not None  # only parse-errors has none, which is handled above
        click.echo(text_of(checked))
    return 0


def _show_errors(origin: Origin, reading: dict) -> int:
    """Print the syntax errors on standard output; return their number."""
    try:
        origin.source({name: value for name, value in reading.items() if name != "functors"})  # `parse` takes no functors
    except ProgramError as wrong:
        click.echo(wrong)
        return min(len(wrong.problems), 125)  # the largest status that differs from a shell's own
    click.echo("0 errors generated")
    return 0


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
    for edge in (edge for rule in program.rules for edge in rule_edges(rule)):
        reads[edge.head].add("!" * bool(edge.via) + edge.body)
    return "\n".join(f"{name}: {' '.join(sorted(reads[name]))}".rstrip() for name in program.relations)


def precedence_dot(program: ir.Program) -> str:
    """Return the precedence graph in graphviz's language; an edge leads from the relation read to the one that reads it."""
    read = (line.partition(":") for line in precedence_graph(program).split("\n"))  # "reader: relations that it reads"
    pairs = dict.fromkeys((name.removeprefix("!"), by) for by, _, names in read for name in names.split())
    nodes = [f'"{name}" [label = "{name}"];' for name in program.relations]
    return _dot([*nodes, *(f'"{name}" -> "{by}";' for name, by in pairs)])


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
    reads = [{number_of[name] for name in stratum.reads} for stratum in strata]
    return [sorted(numbers - {number}) for number, numbers in enumerate(reads, 1)]


def _dot(lines: list[str]) -> str:
    return "\n".join(["digraph {", *(f"\t{line}" for line in lines), "}"])


def _evaluated(program):
    return program.compile(only_outputs=True)


# What each mode of --show prints, and the function from a checked `Program` to it.
MODES = {
    PARSE_ERRORS: ("errors of the syntax, and nothing else", None),
    "initial-datalog": ("the program as it was understood", lambda program: datalog(program.checked)),
    "transformed-datalog": ("the program as it will be evaluated", lambda program: datalog(_evaluated(program).program)),
    "precedence-graph": ("which relations each relation reads", lambda program: precedence_graph(program.checked)),
    "precedence-graph-text": (
        "the same for graphviz, as Soufflé prints it",
        lambda program: precedence_dot(program.checked),
    ),
    "scc-graph": ("the strata in their order", lambda program: scc_graph(_evaluated(program).strata)),
    "scc-graph-text": ("the same for graphviz", lambda program: scc_dot(_evaluated(program).strata)),
    "type-analysis": ("the types of each rule's variables", lambda program: type_analysis(program.checked)),
}
