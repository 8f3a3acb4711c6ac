"""The rules of a component in steps, over relations that each hold one step:

    share@this(v, sum(p / d)) :- rank@last(u, p), degree(u, d), edge(u, v), rank@step(step), k = step - 1, k < 20.
    rank@this(v, 0.15 / n + 0.85 * s) :- share@this(v, s), size(n).

`rank@this` is the step that is being evaluated, `rank@last` the one before, `rank@older2` the one before that. The step is not
in their tuples: `rank@step` holds it, for rules that need it. These rules are stratified. A `ra.loops.Loop` evaluates their
strata once for each step, from the first of `rank@begin` on: the steps at which rules without an atom of the component may make
tuples. The relation as it was declared collects the steps:

    rank(step, v, p) :- rank@step(step), rank@this(v, p).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.single import Single
from semi_naive.language.stepping.components import StepComponent, StepRule
from semi_naive.language.stepping.violations import outside
from semi_naive.language.trees import rebuilt, variable_names
from semi_naive.ra import ir
from semi_naive.ra.loops import Loop, Steps

STEP = "step."  # the name of a variable that a program cannot have


def one_step_of(name: str, before: int) -> str:
    """Return the relation with one step of a relation: the step that is a number of steps before the evaluated one."""
    return f"{name}@{('this', 'last')[before] if before < 2 else f'older{before}'}"


def step_of(component: StepComponent) -> str:
    """Return the relation of one tuple that holds the step being evaluated."""
    return f"{component.name}@step"


def begin_of(component: StepComponent) -> str:
    """Return the relation of the steps at which the component may begin."""
    return f"{component.name}@begin"


def given_of(name: str) -> str:
    """Return the relation of the facts in the program's text, with their steps."""
    return f"{name}@given"


def in_steps(
    singles: list[Single], relations: syntax.Relations, components: list[StepComponent]
) -> tuple[list[Single], syntax.Relations]:
    """Return the clauses and the declarations of a program, with relations that hold one step each."""
    stepped = {name for component in components for name in component.columns}
    rest = [single for single in singles if single.head.relation not in stepped]
    for component in components:
        rest += _clauses(component)
        relations = relations | _declarations(component, relations)
    return rest, relations


def _declarations(component: StepComponent, relations: syntax.Relations) -> syntax.Relations:
    """Return the declarations of the relations that hold steps."""
    declared, first = {}, relations[component.name]
    step = first.attributes[component.columns[component.name]]
    for name, column in component.columns.items():
        node = replace(relations[name], qualifiers=frozenset(), choice=syntax.NO_CHOICE)
        attribute, _ = node.attributes[column]
        without_step = replace(node, attributes=_without(node.attributes, column), spans=())
        for before in range(component.oldest + 1):
            declared[one_step_of(name, before)] = replace(without_step, name=one_step_of(name, before))
        choice = relations[name].choice  # of the evaluated step alone: earlier steps have been chosen from
        keys = tuple(tuple(part for part in key if part != attribute) for key in choice.keys)
        declared[one_step_of(name, 0)] = replace(declared[one_step_of(name, 0)], choice=replace(choice, keys=keys))
        if any(rule.single.fact for rule in component.rules if rule.single.head.relation == name):
            declared[given_of(name)] = replace(node, name=given_of(name))
    for name in (step_of(component), begin_of(component)):
        declared[name] = syntax.RelationDecl(name, (step,), span=first.span)
    return declared


def _without(items: tuple, place: int) -> tuple:
    """Return the items without the one in a place."""
    return (*items[:place], *items[place + 1 :])


def _clauses(component: StepComponent) -> Iterator[Single]:
    """Yield the clauses of a component over relations that hold steps, and those of the steps at which it may begin."""
    given: dict[str, StepRule] = {}
    for rule in component.rules:
        head = rule.single.head
        if rule.single.fact:
            given.setdefault(head.relation, rule)
            yield _clause_of(rule, replace(head, relation=given_of(head.relation)), ())
        else:
            yield _one_step_clause(component, rule)
            if rule.starts:
                yield _begin_clause(component, rule)
    for name, rule in given.items():
        yield from _fact_clauses(component, name, rule)


def _clause_of(rule: StepRule, head: syntax.Atom, body: Iterable) -> Single:
    """Return a clause that is made from a rule."""
    clause = rule.single.clause
    return Single(head, tuple(body), replace(clause, heads=(head,), beside=()))


def _one_step_clause(component: StepComponent, rule: StepRule) -> Single:
    """Return the clause of a rule that is no fact, over the relations that hold one step each."""

    def change(node):
        if isinstance(node, syntax.Atom) and node.relation in component.columns:
            name = one_step_of(node.relation, component.before(rule, node) or 0)
            args = _without(node.args, component.columns[node.relation])
            return replace(node, relation=name, args=tuple(rebuilt(arg, change) for arg in args))
        return None

    _, (root, _) = component.step_of_head(rule)
    literals = [literal for literal in rule.single.body if root is None or not rule.offsets.is_redundant(literal, root)]
    head, *body = (rebuilt(part, change) for part in (rule.single.head, *literals))
    return _clause_of(rule, head, (*body, *_step_literals(component, rule, [head, *body])))


def _step_literals(component: StepComponent, rule: StepRule, parts: list) -> list:
    """Return the literals that bind the variables of a clause that are numbers of steps; none, if it has no such variables.
    parts: the head and the body of the clause."""
    term, (root, number) = component.step_of_head(rule)
    span, relation = term.span, step_of(component)
    if root is None:  # the head is of one step only, a number
        return [syntax.Atom(relation, (syntax.Number(number, span=span),), span=span)]
    used = sorted(set().union(*map(variable_names, parts)) & rule.offsets.names(root))
    before = {name: rule.offsets.between(term, syntax.Variable(name)) or 0 for name in used}
    step = syntax.Variable(next((name for name in used if before[name] == 0), STEP), span=span)
    literals: list = [syntax.Atom(relation, (step,), span=span)] if used else []
    for name in used:
        if name != step.name:
            difference = syntax.Number(abs(before[name]), span=span)
            value = syntax.Functor("-" if before[name] > 0 else "+", (step, difference), span=span)
            literals.append(syntax.Constraint("=", (syntax.Variable(name, span=span), value), span=span))
    return literals


def _begin_clause(component: StepComponent, rule: StepRule) -> Single:
    """Return the clause of the steps at which a clause without an atom of the component may make tuples."""
    step, (root, number) = component.step_of_head(rule)
    relation, span = begin_of(component), step.span
    if root is None:
        return _clause_of(rule, syntax.Atom(relation, (syntax.Number(number, span=span),), span=span), ())
    body = _connected_literals(outside(rule, component.columns), variable_names(step))
    return _clause_of(rule, syntax.Atom(relation, (step,), span=span), body)


def _connected_literals(literals: list[syntax.Node], names: set[str]) -> list:
    """Return the atoms that have some variables, or variables that equations connect with these, and the constraints of the
    variables that are bound so."""
    atoms = [literal for literal in literals if isinstance(literal, syntax.Atom)]
    constraints = [literal for literal in literals if isinstance(literal, syntax.Constraint)]
    equations = [variable_names(literal) for literal in constraints if literal.op == "="]
    while new := set().union(*(equated for equated in equations if equated & names)) - names:
        names = names | new
    kept = [atom for atom in atoms if variable_names(atom) & names]
    bound = names.union(*map(variable_names, kept))
    return [*kept, *(literal for literal in constraints if variable_names(literal) <= bound)]


def _fact_clauses(component: StepComponent, name: str, rule: StepRule) -> Iterator[Single]:
    """Yield the clauses that take the facts of a relation into its steps: for the facts of `rank`, with the step first,

        rank@this(x1, x2) :- rank@given(step, x1, x2), rank@step(step).
        rank@begin(step) :- rank@given(step, _, _).

    rule: one of the facts, which gives the clauses their arity and their place in the program's text.
    """
    column, arity, span = component.columns[name], len(rule.single.head.args), rule.single.head.span
    step = syntax.Variable(STEP, span=span)
    args = [syntax.Variable(f"x{place}.", span=span) for place in range(arity)]
    args[column] = step
    given = syntax.Atom(given_of(name), tuple(args), span=span)
    head = syntax.Atom(one_step_of(name, 0), _without(given.args, column), span=span)
    yield _clause_of(rule, head, (given, syntax.Atom(step_of(component), (step,), span=span)))
    only_step = (step if place == column else syntax.Underscore(span=span) for place in range(arity))
    yield _clause_of(rule, syntax.Atom(begin_of(component), (step,), span=span), (replace(given, args=tuple(only_step)),))


def with_declared_names(problems: Iterable[Problem], components: list[StepComponent]) -> list[Problem]:
    """Replace the names of relations that hold steps by the declared names, in the texts of problems."""
    ages = [(name, range(component.oldest + 1)) for component in components for name in component.columns]
    names = [one_step_of(name, before) for name, befores in ages for before in befores]

    def declared(text: str) -> str:
        for name in names:
            text = text.replace(name, name.partition("@")[0])
        return text

    def with_declared(problem: Problem) -> Problem:
        notes = [(declared(text), span) for text, span in problem.notes]
        return replace(problem, message=declared(problem.message), hint=declared(problem.hint), notes=notes)

    return list(map(with_declared, problems))


# -- after lowering


def with_loops(program: ir.Program, components: list[StepComponent]) -> ir.Program:
    """Return the program with the loop of each component, and the rules that collect its steps."""
    relations, rules = dict(program.relations), list(program.rules)
    for component in components:
        for name, column in component.columns.items():
            relations[name] = replace(relations[name], summed=True, choice=())
            args = tuple(ir.Var(attribute, type_.kind) for attribute, type_ in relations[name].attributes)
            body = ir.Atom(step_of(component), (args[column],)), ir.Atom(one_step_of(name, 0), _without(args, column))
            text = f"{name}: the tuples of each step"
            rules.append(ir.Rule(ir.Atom(name, args), body, span=relations[name].span, text=text))
    loops = tuple(map(_loop, components))
    return replace(program, relations=relations, rules=rules, loops=(*program.loops, *loops))


def _loop(component: StepComponent) -> Loop:
    """Return the loop of a component: after a step, each relation of one step becomes that of a step earlier, oldest first."""
    pairs = [
        (one_step_of(name, before), one_step_of(name, before - 1))
        for before in range(component.oldest, 0, -1)
        for name in component.columns
    ]
    steps = Steps(step_of(component), begin_of(component), tuple(component.columns.items()), component.oldest)
    return Loop(tuple(pairs), steps=steps)
