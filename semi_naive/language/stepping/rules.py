"""The rules of a component in steps, over relations that each hold one step:

    share@this(v, sum(p / d)) :- rank@last(u, p), degree(u, d), edge(u, v), rank@step(step), k = step - 1, k < 20.
    rank@this(v, 0.15 / n + 0.85 * s) :- share@this(v, s), size(n).

`rank@this` is the step that is being evaluated, `rank@last` the one before, `rank@older2` the one before that. The step is not
in their tuples: `rank@step` holds it, for rules that need it. These rules are stratified. A loop (`ir.Loop`) evaluates their
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

STEP = "step."  # a variable that nobody can write


def held(name: str, before: int) -> str:
    """Return the relation that holds a relation's tuples of a number of steps before."""
    return f"{name}@{('this', 'last')[before] if before < 2 else f'older{before}'}"


def step_of(component: StepComponent) -> str:
    return f"{component.name}@step"


def begin_of(component: StepComponent) -> str:
    return f"{component.name}@begin"


def given_of(name: str) -> str:
    """Return the relation of the facts in the program's text, with their steps."""
    return f"{name}@given"


def declarations(component: StepComponent, relations) -> dict[str, syntax.RelationDecl]:
    """Return the declarations of the relations that hold steps."""
    found, first = {}, relations[component.name]
    step = first.attributes[component.columns[component.name]]
    for name, at in component.columns.items():
        node, bare = relations[name], dict(qualifiers=frozenset(), choice=syntax.NO_CHOICE)
        left = (*node.attributes[:at], *node.attributes[at + 1 :])
        keys = tuple(tuple(each for each in key if each != node.attributes[at][0]) for key in node.choice.keys)
        one = replace(node, attributes=left, spans=(), qualifiers=frozenset())
        found[held(name, 0)] = replace(one, name=held(name, 0), choice=replace(node.choice, keys=keys))
        for before in range(1, component.oldest + 1):
            found[held(name, before)] = replace(one, name=held(name, before), choice=syntax.NO_CHOICE)
        if any(rule.single.fact for rule in component.rules if rule.single.head.relation == name):
            found[given_of(name)] = replace(node, name=given_of(name), **bare)
    for name in (step_of(component), begin_of(component)):
        found[name] = syntax.RelationDecl(name, (step,), span=first.span)
    return found


def clauses(component: StepComponent, relations) -> Iterator[Single]:
    """Yield the clauses of a component over relations that hold steps, and those that say at which steps they may begin."""
    given = {}
    for rule in component.rules:
        head = rule.single.head
        if rule.single.fact:
            given.setdefault(head.relation, rule)
            yield _single(rule, replace(head, relation=given_of(head.relation)), ())
        else:
            yield _within(component, rule)
            if rule.starts:
                yield _beginning(component, rule)
    for name, rule in given.items():
        yield from _reading_facts(component, name, rule)


def _single(rule: StepRule, head: syntax.Atom, body: Iterable) -> Single:
    clause = rule.single.clause
    return Single(head, tuple(body), replace(clause, heads=(head,), beside=()))


def _within(component: StepComponent, rule: StepRule) -> Single:
    """Return a clause over the relations of its step and of those before."""

    def change(node):
        if isinstance(node, syntax.Atom) and node.relation in component.columns:
            name = held(node.relation, component.before(rule, node) or 0)
            at = component.columns[node.relation]
            return replace(
                node, relation=name, args=tuple(rebuilt(each, change) for place, each in enumerate(node.args) if place != at)
            )
        return None

    root, _ = rule.offsets.of(component.step(rule.single.head))  # type: ignore[misc]  # of a component without violations
    literals = [each for each in rule.single.body if root is None or not rule.offsets.says(each, root)]
    head, *body = (rebuilt(part, change) for part in (rule.single.head, *literals))
    return _single(rule, head, (*body, *_step_literals(component, rule, [head, *body])))


def _step_literals(component: StepComponent, rule: StepRule, parts: list) -> list:
    """Return the literals that give a clause the number of its step and of those before: none, if it does not need them."""
    term = component.step(rule.single.head)
    root, more = rule.offsets.of(term)  # type: ignore[misc]
    span, name = term.span, step_of(component)
    if root is None:
        return [syntax.Atom(name, (syntax.Number(more, span=span),), span=span)]
    used = sorted(set().union(*map(variable_names, parts)) & rule.offsets.names(root))
    before = {each: rule.offsets.between(term, syntax.Variable(each)) or 0 for each in used}
    step = syntax.Variable(next((each for each in used if before[each] == 0), STEP), span=span)
    found: list = [syntax.Atom(name, (step,), span=span)] * bool(used)
    for each in used:
        if each != step.name:
            moved = syntax.Functor(
                "-" if before[each] > 0 else "+", (step, syntax.Number(abs(before[each]), span=span)), span=span
            )
            found.append(syntax.Constraint("=", (syntax.Variable(each, span=span), moved), span=span))
    return found


def _beginning(component: StepComponent, rule: StepRule) -> Single:
    """Return the clause of the steps at which a clause without an atom of the component may make tuples."""
    step = component.step(rule.single.head)
    root, more = rule.offsets.of(step)  # type: ignore[misc]
    name, span = begin_of(component), step.span
    if root is None:
        return _single(rule, syntax.Atom(name, (syntax.Number(more, span=span),), span=span), ())
    return _single(
        rule, syntax.Atom(name, (step,), span=span), _needed(outside(rule, component.columns), {*variable_names(step)})
    )


def _needed(literals: list, names: set[str]) -> list:
    """Return the literals that bind some variables, directly or by equations, and the comparisons of what these bind."""
    atoms = [each for each in literals if isinstance(each, syntax.Atom)]
    equal = [each for each in literals if isinstance(each, syntax.Constraint) and each.op == "="]
    grows = True
    while grows:
        more = set().union(*(variable_names(each) for each in equal if variable_names(each) & names)) - names
        names, grows = names | more, bool(more)
    found = [each for each in atoms if variable_names(each) & names]
    known = names.union(*map(variable_names, found))
    return found + [each for each in literals if each not in atoms and variable_names(each) <= known]


def _reading_facts(component: StepComponent, name: str, rule: StepRule) -> Iterator[Single]:
    """Yield the clauses that read the facts of a relation, at their steps."""
    head, at = rule.single.head, component.columns[name]
    args = [syntax.Variable(f"x{place}.", span=head.span) for place in range(len(head.args))]
    args[at] = syntax.Variable(STEP, span=head.span)
    read = syntax.Atom(given_of(name), tuple(args), span=head.span)
    step = syntax.Atom(step_of(component), (args[at],), span=head.span)
    left = (*args[:at], *args[at + 1 :])
    yield _single(rule, syntax.Atom(held(name, 0), left, span=head.span), (read, step))
    wild = (arg if place == at else syntax.Underscore(span=head.span) for place, arg in enumerate(args))
    yield _single(rule, syntax.Atom(begin_of(component), (args[at],), span=head.span), (replace(read, args=tuple(wild)),))


def said(problems: Iterable[Problem], components: list[StepComponent]) -> list[Problem]:
    """Problems with relations named as they were declared."""
    made = [held(name, before) for each in components for name in each.columns for before in range(each.oldest + 1)]

    def written(text: str) -> str:
        for name in made:
            text = text.replace(name, name.partition("@")[0])
        return text

    return [
        replace(each, message=written(each.message), hint=written(each.hint), notes=[(written(t), s) for t, s in each.notes])
        for each in problems
    ]


# -- after lowering


def with_loops(program: ir.Program, components: list[StepComponent]) -> ir.Program:
    """Return the program with the loop of each component, and the rules that collect its steps."""
    relations, rules = dict(program.relations), list(program.rules)
    for component in components:
        for name, at in component.columns.items():
            relations[name] = replace(relations[name], summed=True, choice=())
            args = [ir.Var(attribute, type_.kind) for attribute, type_ in relations[name].attributes]
            body = ir.Atom(step_of(component), (args[at],)), ir.Atom(held(name, 0), (*args[:at], *args[at + 1 :]))
            text = f"{name}: the tuples of each step"
            rules.append(ir.Rule(ir.Atom(name, tuple(args)), body, span=relations[name].span, text=text))
    loops = tuple(map(_loop, components))
    return replace(program, relations=relations, rules=rules, loops=(*program.loops, *loops))


def _loop(component: StepComponent) -> ir.Loop:
    pairs = [(held(name, before), held(name, before - 1))
             for before in range(component.oldest, 0, -1) for name in component.columns]  # fmt: skip
    steps = ir.Steps(step_of(component), begin_of(component), tuple(component.columns.items()), component.oldest)
    return ir.Loop(tuple(pairs), steps=steps)
