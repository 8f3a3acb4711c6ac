"""Check relations, directives and clauses, apart from types and groundedness."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from semi_naive.host.similar import similar
from semi_naive.language import syntax
from semi_naive.language.errors import WARNING, Problem
from semi_naive.language.iterations import NUMBER
from semi_naive.language.single import Single
from semi_naive.language.trees import children, own_children, variable_names, walk, walk_all
from semi_naive.language.types.types import TypeEnvironment

# The names of other languages for our types.
NAMES_ELSEWHERE = (
    dict.fromkeys(("int", "integer", "int64", "long", "bigint", "i64"), "number")
    | dict.fromkeys(("string", "str", "text", "varchar"), "symbol")
    | dict.fromkeys(("double", "real", "float64", "f64"), "float")
    | dict.fromkeys(("uint", "uint64", "u64"), "unsigned")
)
COUNTING = ("autoinc", NUMBER)
MAX_EXPRESSION_DEPTH = 250  # levels of an expression, each of which takes several frames of Python's stack in every pass


def declared_relations(source: syntax.SourceProgram, env: TypeEnvironment, problems: list[Problem]) -> syntax.Relations:
    """Return the declarations of relations by name; append their problems to `problems`."""
    relations: syntax.Relations = {}
    for declaration in source.of(syntax.RelationDecl):
        name = declaration.name
        if name in relations:
            notes = [("Previous definition", relations[name].span)]
            problems.append(Problem(f"Redefinition of relation {name}", declaration.span, notes=notes))
            continue
        if place := env.span(name):
            notes = [("the type", place)]
            problems.append(Problem(f"Name clash on relation {name}", declaration.span, notes=notes))
        relations[name] = declaration
        problems += _declaration_problems(declaration, env)
    return relations


def _declaration_problems(declaration: syntax.RelationDecl, env: TypeEnvironment) -> Iterator[Problem]:
    """Yield the problems of a relation's declaration: attributes, types and keys."""
    names = set()
    for (name, _), (type_name, span) in zip(declaration.attributes, syntax.named_types(declaration), strict=False):
        if type_name not in env and env.span(type_name) is None:
            hint = f"declare it: .type {type_name} <: symbol; or use number, unsigned, float or symbol"
            if usual := NAMES_ELSEWHERE.get(type_name.lower()):
                hint = f"it is called {usual} here"
            yield Problem(f"Undefined type in attribute {name}:{type_name}", span, hint)
        if name in names:
            yield Problem(f"Doubly defined attribute name {name}:{type_name}", span)
        names.add(name)
    if "eqrel" in declaration.qualifiers:
        if len(declaration.attributes) != 2:
            yield Problem(f"Equivalence relation {declaration.name} is not binary", declaration.span)
        elif len({type_name for _, type_name in declaration.attributes}) > 1:
            yield Problem(f"Domains of equivalence relation {declaration.name} are different", declaration.span)
    for key, span in zip(declaration.choice.keys, declaration.choice.spans, strict=True):
        if missing := [name for name in key if name not in names]:
            hint = f"a key is made of attributes: {', '.join(name for name, _ in declaration.attributes) or 'there is none'}"
            yield Problem(f"Attribute {missing[0]} not found in relation definition", span, hint)


def directive_problems(source: syntax.SourceProgram, relations: syntax.Relations) -> Iterator[Problem]:
    """Yield a problem for each directive of an undefined relation."""
    for node in source.of(syntax.Directive):
        if node.relation not in relations:
            yield Problem(f"Undefined relation {node.relation}", node.span, _similar(node.relation, relations))


def empty_warnings(source: syntax.SourceProgram, relations: syntax.Relations, singles: list[Single]) -> Iterator[Problem]:
    """Warn of relations without rules, facts and inputs."""
    filled = {single.head.relation for single in singles} | {node.relation for node in source.inputs}
    for name, declaration in relations.items():
        if name not in filled and not declaration.born_of:
            message = f"No rules/facts defined for relation {name}"
            yield Problem(message, declaration.span, severity=WARNING, flag="no-rules-nor-facts")


def _similar(name: str, relations: syntax.Relations) -> str:
    """Return a hint for an undefined relation: one with a similar name, or how to declare it."""
    last = name.split(".")[-1].lower()
    near = next((other for other in relations if other.split(".")[-1].lower() == last), None) or similar(name, relations)
    return f"did you mean {near}?" if near else f"declare it: .decl {name}(…)"


# -- clauses


def parameter_problems(source: syntax.SourceProgram, nodes: Iterable[syntax.Node]) -> Iterator[Problem]:
    """Report parameters, which only rules registered with a session may have. nodes: of all clauses."""
    hint = "write a variable, or register the rule with a session: session.register(name, rules)"
    for declaration in source.of(syntax.RelationDecl):
        for (name, _), span in zip(declaration.attributes, declaration.spans, strict=False):
            if name.startswith("$"):
                yield Problem(f"A program has no parameter {name}", span, hint)
    for node in nodes:
        if isinstance(node, syntax.Variable) and node.name.startswith("$"):
            yield Problem(f"A program has no parameter {node.name}", node.span, hint)


def depth_problems(source: syntax.SourceProgram) -> Iterator[Problem]:
    """Report expressions nested too deeply for recursive passes."""
    for clause in source.of(syntax.Clause):
        level, depth = list(clause.parts), 0
        while level and depth < MAX_EXPRESSION_DEPTH:
            level, depth = [child for node in level for child in children(node)], depth + 1
        if level:
            hint = "give a part of it a name: x = …, or make it a relation of its own"
            yield Problem(f"Expression nested more than {MAX_EXPRESSION_DEPTH} levels deep", clause.span, hint)


def clause_problems(single: Single, relations: syntax.Relations, recursive: bool) -> Iterator[Problem]:
    """Report problems of one clause: relations and arities, underscores, facts, counters."""
    for atom in single.of(syntax.Atom):
        yield from _atom_problems(atom, relations)
    for constraint in single.of(syntax.Constraint):
        yield from _constraint_underscores(constraint)
    for functor in single.of(syntax.Functor) if recursive else ():
        if functor.name == "autoinc":
            yield Problem("Auto-increment functor in a recursive rule", functor.span)
    for node in walk_all([single.head], own_children) if single.of(syntax.Underscore) else ():
        if isinstance(node, syntax.Underscore):
            yield Problem("Underscore in head of rule", node.span, "a head says the value of every attribute")
    if single.fact:
        for arg in single.head.args:
            if not _is_constant(arg):
                hint = "a fact has no body that could bind it; write text in double quotes"
                yield Problem("Argument in fact is not constant", arg.span, hint)


def _atom_problems(atom: syntax.Atom, relations: syntax.Relations) -> Iterator[Problem]:
    """Yield the problems of an atom: an undefined relation, or a wrong number of arguments."""
    declaration = relations.get(atom.relation)
    if declaration is None:
        name = atom.relation
        yield Problem(f"Undefined relation {name}", atom.span, _similar(name, relations), undefined=name)
    elif len(declaration.attributes) != len(atom.args):
        expected, got = len(declaration.attributes), len(atom.args)
        message = f"Mismatching arity of relation {atom.relation} (expected {expected}, got {got})"
        yield Problem(message, atom.span, notes=[("declared here", declaration.span)])


def _constraint_underscores(constraint: syntax.Constraint) -> Iterator[Problem]:
    """Report `_` in a comparison outside of a record or a branch. In an atom `_` matches any value."""
    if any(isinstance(side, syntax.Aggregate) for side in constraint.args):
        return

    def below(node) -> tuple:
        """Return the nodes inside a node, without the `_` that are allowed there."""
        allowed = isinstance(node, (syntax.RecordInit, syntax.BranchInit))
        return tuple(inner for inner in own_children(node) if not (allowed and isinstance(inner, syntax.Underscore)))

    for node in walk_all(constraint.args, below):
        if isinstance(node, syntax.Underscore):
            yield Problem("Underscore in binary relation", node.span)


def _is_constant(arg: syntax.Node) -> bool:
    """True if an argument has neither variables nor functors that count."""
    return not any(
        isinstance(node, (syntax.Variable, syntax.Underscore)) or isinstance(node, syntax.Functor) and node.name in COUNTING
        for node in walk(arg)
    )


def occurrence_warnings(nodes: Sequence[syntax.Node]) -> Iterator[Problem]:
    """Warn of variables that occur once in a clause, which is often a slip, and of variables with the name of a singleton, such
    as _x, that occur more often. nodes: of the clause."""
    variables = [node for node in nodes if isinstance(node, syntax.Variable)]
    times = Counter(variable.name for variable in variables)
    if not any((number == 1) != name.startswith("_") for name, number in times.items()):
        return
    last = {variable.name: variable for variable in sorted(variables, key=lambda variable: variable.span)}
    aggregates = [node for node in nodes if isinstance(node, syntax.Aggregate)]
    # In an aggregate, `_` may count less than a variable: see `lower._aggregates_set`.
    aggregated = set().union(*map(variable_names, aggregates))
    for name, variable in last.items():
        if times[name] == 1 and not name.startswith("_"):
            message, hint = f"Variable {name} only occurs once", f"write _{name}" + " or _" * (name not in aggregated)
            yield Problem(message, variable.span, hint, WARNING, flag="var-appears-once")
        elif times[name] > 1 and name.startswith("_"):
            message = f"Variable {name} marked as singleton but occurs more than once"
            yield Problem(message, variable.span, severity=WARNING, flag="var-appears-once")


def plan_problems(single: Single, group: frozenset[str]) -> Iterator[Problem]:
    """Report the errors of `.plan` in a recursive clause. A plan is an order of all atoms for one delta version. group: the
    relations that are recursive with the head."""
    plan = single.clause.plan or {}
    atoms = [literal for literal in single.body if isinstance(literal, syntax.Atom)]
    versions = sum(atom.relation in group for atom in atoms)
    for version, order in plan.items():
        span = single.clause.plan_spans.get(version, single.clause.span)
        if sorted(order) != list(range(1, len(atoms) + 1)):
            hint = f"it must name each of the {len(atoms)} atoms once, by their numbers from 1"
            yield Problem("Invalid execution order in plan", span, hint)
        if version >= versions:
            hint = f"only versions 0..{versions - 1} permitted: one for each recursive atom"
            yield Problem(f"execution plan for version {version}", span, hint)
