"""Groundedness: determine the variables of a clause that are bound, and report the others.

A positive atom grounds its arguments. An equality propagates groundedness in both directions, a record or a branch from all of
its arguments and to each of them, a functor only from its arguments to its result. An aggregate's result is grounded once its
outer variables are."""

from collections.abc import Sequence

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.single import Single
from semi_naive.language.trees import children, own_children, variable_names, walk_all, written_name
from semi_naive.language.types.inference import Key, key

PLAIN = frozenset([syntax.Variable, syntax.Underscore])  # most nodes, which imply nothing themselves


def grounded(literals, given=(), enters=lambda aggregate: False, needs=lambda aggregate: ()) -> set:
    """Return the keys (see `inference.key`) of all grounded expressions of a conjunction of literals.

    given: names grounded from outside; enters: returns True for an aggregate whose body's atoms count, too; needs: returns the
    names that must be grounded before an aggregate is, or None if it never is."""
    ground, rules = set(given), list[tuple[set, Key]]()
    for literal in literals:
        _collect(literal, ground, rules, enters, needs)
    before = -1
    while len(ground) > before:
        before = len(ground)
        ground.update(conclusion for premises, conclusion in rules if conclusion not in ground and premises <= ground)
    return ground


def _collect(node, ground, rules, enters, needs, negated=False):
    """Collect the implications of a node and its descendants: add grounded keys to `ground`, and implications (set of keys,
    key) to `rules`. negated: the node is negated; enters, needs: see `grounded`."""
    own_key, below = key(node), children(node)
    if isinstance(node, syntax.Atom) and not negated:
        ground.update(map(key, below))
    elif isinstance(node, syntax.Constraint) and node.op == "=":
        left, right = map(key, node.args)
        rules += [({left}, right), ({right}, left)]
    elif isinstance(node, (syntax.RecordInit, syntax.BranchInit)):
        rules += [({own_key}, key(arg)) for arg in below]
        rules.append((set(map(key, below)), own_key))
    elif isinstance(node, (syntax.Functor, syntax.As)):
        rules.append((set(map(key, below)), own_key))
    elif isinstance(node, (syntax.Number, syntax.String, syntax.Nil)):
        ground.add(own_key)
    elif isinstance(node, syntax.Aggregate):
        if (needed := needs(node)) is not None:
            rules.append((set(needed), own_key))
        below = node.literals if enters(node) else ()
    for child in below:
        if child.__class__ not in PLAIN:
            _collect(child, ground, rules, enters, needs, negated=isinstance(node, syntax.Negation))


def grounded_problems(single: Single, inline: set[str], injected: dict[int, set[str]], excused: set[str]) -> list[Problem]:
    """Report ungrounded variables and records, at their first occurrence.

    inline: inlined relations; injected: by the id of an aggregate, the names that it takes from outside; excused: names that
    were reported already."""
    if single.fact:
        return []
    # After inlining, the arguments of an inlined relation get their values from the clause that uses it.
    given: set[str] = variable_names(single.head) if single.head.relation in inline else set()
    mutual = _mutual_problems(single.body, injected) if injected else []
    return [*_scope_problems(single.literals, given | excused, injected), *mutual]


def _mutual_problems(literals: Sequence[syntax.Node], injected: dict[int, set[str]]) -> list[Problem]:
    """Report two aggregates that inject variables into each other. They could be evaluated, but Soufflé rejects them."""
    aggregates = [node for node in _own_nodes(literals) if isinstance(node, syntax.Aggregate)]
    if len(aggregates) < 2:
        return []
    bound = {id(node): injected[id(node)] & grounded(node.literals, enters=lambda _: True) for node in aggregates}
    hint = "each binds a variable that the other takes from outside: make one of them a relation of its own"

    def depends(aggregate, other) -> bool:
        """True if an aggregate takes a variable from outside that only another one binds."""
        return bool((injected[id(aggregate)] - bound[id(aggregate)]) & bound[id(other)])

    return [
        Problem("Mutually dependent aggregate", aggregate.span, hint)
        for aggregate in aggregates
        if any(depends(aggregate, other) and depends(other, aggregate) for other in aggregates)
    ]


def _scope_problems(literals: Sequence[syntax.Node], given: set[str], injected: dict[int, set[str]]) -> list[Problem]:
    """Report the ungrounded expressions of a clause's body or an aggregate's. given: the variables that are grounded outside;
    injected: by the id of an aggregate, the names that it takes from outside."""
    ground = with_aggregates = grounded(literals, given, needs=lambda aggregate: injected[id(aggregate)])
    nodes = _own_nodes(literals)
    if injected and any(isinstance(node, syntax.Aggregate) for node in nodes):
        with_aggregates = grounded(literals, given)  # as if every aggregate were grounded
    problems, reported = [], set()
    for node in nodes:
        if isinstance(node, syntax.Variable):
            if node.name not in with_aggregates and node.name not in reported:
                reported.add(node.name)
                hint = f"{written_name(node.name)} must occur in a positive atom, or be equal to something that is bound"
                problems.append(Problem(f"Ungrounded variable {written_name(node.name)}", node.span, hint))
        elif isinstance(node, syntax.Aggregate):
            if not injected[id(node)] <= ground:
                if injected[id(node)] <= with_aggregates:
                    hint = "each takes a variable from the other: bind one of them by an atom"
                    problems.append(Problem("Mutually dependent aggregate", node.span, hint))
                continue
            body = (*node.literals, *([_use(node.target)] if node.target is not None else []))
            problems += _scope_problems(body, ground & injected[id(node)], injected)
        elif isinstance(node, syntax.RecordInit) and id(node) not in with_aggregates:
            problems.append(Problem("Ungrounded record", node.span))
        elif isinstance(node, syntax.BranchInit) and id(node) not in with_aggregates:
            problems.append(Problem("Ungrounded ADT branch", node.span, "it has `_`, or a variable that nothing binds"))
    return problems


def _use(term: syntax.Node) -> syntax.Constraint:
    """Return `term != nil`, a literal that reads a term without binding its variables. Only groundedness is examined in it, so
    the type of the term does not matter."""
    return syntax.Constraint("!=", (term, syntax.Nil()), span=term.span)


def _own_nodes(literals: Sequence[syntax.Node]) -> list[syntax.Node]:
    """Return all nodes of a scope; for an aggregate the node itself and its initial value, without its body."""
    return walk_all(literals, own_children)


def ungrounded_names(literals: Sequence[syntax.Node], ground: set) -> set[str]:
    """Return the variables outside of aggregates that are not in `ground`."""
    return {node.name for node in _own_nodes(literals) if isinstance(node, syntax.Variable)} - ground
