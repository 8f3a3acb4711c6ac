"""Negation in recursion with `.semantics wellfounded`: a tuple is true, false or undefined.

    win(x) :- move(x, y), !win(y).

A position is won if some move leads to a lost one, and lost if all moves lead to won ones; a position from which play can go
round in circles for ever is neither. In the well-founded model (Van Gelder, Ross, Schlipf 1991) `win` has the true tuples, and
`win.undefined` those that are neither true nor false.

It is the limit of an alternating fixpoint (Van Gelder 1989). Every relation that depends on such a negation becomes two: the
true tuples, and the possible ones, that is, those not false.

    win@possible(x) :- move(x, y), !win@known(y).          what is not known to be won may be lost
    win(x)          :- move(x, y), !win@possible(y).       what cannot be won is lost

where win@known has the tuples that were true in the previous round: no rule derives it, so these rules are stratified. Each
round adds true tuples and removes possible ones; when a round changes nothing, the tuples that are possible and not true are
undefined (`running.loops`)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from semi_naive.language import syntax
from semi_naive.language.errors import NOWHERE, Problem, ProgramError
from semi_naive.language.single import Single
from semi_naive.language.trees import walk_all
from semi_naive.planning import rewrite
from semi_naive.planning.strata import Edge, edges_of, rule_edges, strong_components
from semi_naive.ra import ir
from semi_naive.ra.loops import Loop

COMPANIONS = ("certain", "undefined")  # win.certain and win.undefined are relations of their own, for later strata


def is_wellfounded(source: syntax.SourceProgram) -> bool:
    """True if a program has `.semantics wellfounded`, which the parser makes a pragma."""
    return any(node.key == "semantics" and node.value == "wellfounded" for node in source.of(syntax.Pragma))


def with_companions(source: syntax.SourceProgram) -> syntax.SourceProgram:
    """Return the program with a declaration of each `r.certain` and `r.undefined` that it mentions."""
    declared = {node.name: node for node in source.of(syntax.RelationDecl)}
    parts = (part for clause in source.of(syntax.Clause) for part in walk_all(clause.parts))
    atoms = (part for part in parts if isinstance(part, syntax.Atom))
    used = dict.fromkeys(node.relation for node in (*source.of(syntax.Directive), *atoms))
    mentioned = [name for name in used if name not in declared and _base(name) in declared]
    unqualified = dict(qualifiers=frozenset(), choice=syntax.NO_CHOICE, lattices=())
    added = [replace(declared[_base(name)], name=name, **unqualified) for name in mentioned]
    return replace(source, statements=[*source.statements, *added]) if added else source


def _base(name: str) -> str:
    """Return the base name of a companion: win for win.undefined; empty for other names."""
    base, _, last = name.rpartition(".")
    return base if last in COMPANIONS else ""


def companions(relations: Mapping) -> list[str]:
    """Return the declared relations that are companions of another one."""
    return [name for name in relations if _base(name) in relations]


def companion_edges(relations: syntax.Relations) -> list[Edge]:
    """Return the dependencies of companions on their relations, which may not depend on the companions."""
    return [Edge(name, _base(name), "negation", relations[name].span) for name in companions(relations)]


def companion_problems(source: syntax.SourceProgram, singles: list[Single], relations: syntax.Relations) -> Iterator[Problem]:
    """Report the facts, rules and inputs of companion relations."""
    names = set(companions(relations))
    nodes: list[syntax.Atom | syntax.Directive] = [*(single.head for single in singles), *source.inputs]
    for node in nodes:
        if node.relation in names:
            hint = f"it has those of {_base(node.relation)} that are {node.relation.rpartition('.')[2]}"
            yield Problem(f"{node.relation} cannot have tuples of its own", node.span, hint)


# -- the rules


def three_valued(program: ir.Program) -> ir.Program:
    """Return the program with a loop for each component that recurs through negation. Raises ProgramError for constructs that
    have no meaning with undefined tuples."""
    companion_names = companions(program.relations)
    edges = edges_of(program)
    groups = [set(group) for group in strong_components(program.relations, edges)]
    cyclic = [group for group in groups if any({edge.head, edge.body} <= group and edge.via == "negation" for edge in edges)]
    unknown = _with_dependents(set().union(*cyclic), edges)
    if problems := list(_problems(program, unknown)):
        raise ProgramError(problems, program.texts)
    group_of = {name: group for group in cyclic for name in group}
    rules: list[ir.Rule] = []
    for rule in program.rules:
        rules += _true_and_possible(rule, unknown, group_of.get(rule.head.relation, set()))
    relations = dict(program.relations)
    for name in sorted(unknown):
        relation = relations[name]
        for suffix in ("possible", "known") if name in group_of else ("possible",):
            qualifiers = relation.qualifiers & {"eqrel"}
            relations[f"{name}@{suffix}"] = replace(relation, name=f"{name}@{suffix}", qualifiers=qualifiers)
        if name in group_of:
            relations[name] = replace(relation, qualifiers=relation.qualifiers - {"inline"})
            if (undefined := f"{name}.undefined") not in relations:
                companion_names.append(undefined)
                relations[undefined] = replace(relation, name=undefined, qualifiers=frozenset())
        rules.append(_copy_rule(f"{name}@possible", f"{name}@known" if name in group_of else name, relations))
    for name in companion_names:
        rules += _companion_rule(name, _base(name) in unknown, relations)
    loops = tuple(Loop(tuple((f"{name}@known", name) for name in sorted(group))) for group in cyclic)
    return replace(program, relations=relations, rules=rules, loops=(*program.loops, *loops))


def _with_dependents(names: set[str], edges: list[Edge]) -> set[str]:
    """Return some relations, and all relations that depend on them."""
    readers: dict[str, set[str]] = {}
    for edge in edges:
        readers.setdefault(edge.body, set()).add(edge.head)
    return rewrite.reachable(names, readers)


def _true_and_possible(rule: ir.Rule, unknown: set[str], group: set[str]) -> Iterator[ir.Rule]:
    """Yield the rules for the true and the possible tuples of a rule's head: a negation in the first reads the possible tuples
    of a relation, in the second the true ones. unknown: the relations that may have undefined tuples; group: those of the
    component of the head, which read the true tuples of the last round."""
    if rule.head.relation not in unknown:
        yield rule
        return
    true, possible = [], []
    for literal in rule.body:
        if isinstance(literal, ir.Not) and literal.atom.relation in unknown:
            name = literal.atom.relation
            true.append(ir.Not(replace(literal.atom, relation=f"{name}@possible")))
            possible.append(ir.Not(replace(literal.atom, relation=f"{name}@known" if name in group else name)))
        else:
            true.append(literal)
            may_be_undefined = isinstance(literal, ir.Atom) and literal.relation in unknown
            possible.append(replace(literal, relation=f"{literal.relation}@possible") if may_be_undefined else literal)
    yield replace(rule, body=tuple(true))
    if rule.body:  # facts are copied from the true tuples, as all of these are possible
        yield replace(rule, head=replace(rule.head, relation=f"{rule.head.relation}@possible"), body=tuple(possible))


def _copy_rule(name: str, source: str, relations: dict[str, ir.Relation], *conditions: ir.Literal) -> ir.Rule:
    """Return a rule for `name` that copies the tuples of `source` that fulfil some literals."""
    args = _variables(relations[name])
    rule = ir.Rule(ir.Atom(name, args), (ir.Atom(source, args), *conditions), span=relations[name].span)
    return replace(rule, text=str(rule))


def _variables(relation: ir.Relation) -> tuple[ir.Var, ...]:
    """Return a variable for each column of a relation."""
    return tuple(ir.Var(f"x{column}", kind) for column, kind in enumerate(relation.kinds))


def _companion_rule(name: str, may_be_undefined: bool, relations: dict[str, ir.Relation]) -> Iterator[ir.Rule]:
    """Yield the rule of r.certain or r.undefined; none for r.undefined if r can have no undefined tuples."""
    base = _base(name)
    if name.endswith("certain"):
        yield _copy_rule(name, base, relations)
    elif may_be_undefined:
        yield _copy_rule(name, f"{base}@possible", relations, ir.Not(ir.Atom(base, _variables(relations[name]))))


def _problems(program: ir.Program, unknown: set[str]) -> Iterator[Problem]:
    """Report constructs that have no meaning with undefined tuples."""
    limited = {directive.relation for directive in program.directives if directive.kind == "limitsize"}
    for name in sorted(unknown):
        relation = program.relations[name]
        if relation.lattice or relation.stepwise or name in limited:
            kinds = (
                ("a choice", relation.choice),
                ("subsumptive rules", relation.dominated),
                ("attributes of a lattice", relation.joins),
                ("a number of the iteration that makes it", relation.watched or relation.follows),
                ("a .limitsize", True),
            )
            construct = f"a head with {relation.lattice}" if relation.lattice else next(text for text, has in kinds if has)
            hint = f"aggregate, choose or limit {name.partition('@')[0]}.certain in a relation of its own"
            yield Problem(f"{name} may have undefined tuples, and so cannot have {construct}", relation.span or NOWHERE, hint)
    for rule in program.rules:
        if rule.head.relation in unknown and rewrite.has_autoinc(rule):
            message = f"{rule.head.relation} may have undefined tuples, and so cannot be counted by autoinc()"
            yield Problem(message, rule.span or NOWHERE, "count in a relation that no negation in recursion reaches")
        for edge in rule_edges(rule):
            if edge.via == "aggregation" and edge.body in unknown:
                base = edge.body.partition("@")[0]
                hint = f"aggregate {base}.certain, what is certainly there, or {base}.undefined"
                yield Problem(f"{base} may have undefined tuples, and so cannot be aggregated", edge.span, hint)
