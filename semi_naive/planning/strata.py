"""Strata: groups of relations that are evaluated together, in an order in which each depends only on earlier ones."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from semi_naive.language.errors import NOWHERE, Problem, ProgramError, Span
from semi_naive.planning.rewrite import has_autoinc
from semi_naive.ra import ir
from semi_naive.ra.cached import cached

RECORD = "debug_delta"  # the qualifier of a relation that records the tuples of each iteration of another one


@dataclass
class Stratum:
    """A relation, or mutually recursive relations, and the rules that derive them, in the order of the program."""

    relations: tuple[str, ...]
    rules: list[ir.Rule]
    recursive: bool

    @cached
    def reads(self) -> frozenset[str]:
        """The relations in the bodies of its rules."""
        return frozenset(names_read(self.rules))

    @cached
    def makes_numbers(self) -> bool:
        """True if a rule uses autoinc()."""
        return any(map(has_autoinc, self.rules))


@dataclass(frozen=True)
class Edge:
    """A dependency of relation `head` on relation `body`. via: "" (a positive atom), "negation", "aggregation" or `RECORD`."""

    head: str
    body: str
    via: str = ""
    span: Span = NOWHERE


def strata(program: ir.Program) -> list[Stratum]:
    """Return the strata of a program in an order of evaluation; every relation is in one. Raises ProgramError for a cycle
    through a negation or an aggregation."""
    read = [edge for rule in program.rules for edge in rule_edges(rule)]
    # these are complete before a loop selects the keys or the step of its first round
    read += [Edge(now, before) for loop in program.loops for now in loop.agenda for before in loop.prerequisites]
    edges = read + joint_edges(program)
    groups = strong_components(program.relations, edges)
    problems = unstratified(groups, edges, {name: relation.span for name, relation in program.relations.items()})
    if problems:
        raise ProgramError(problems, program.texts)
    rules = defaultdict(list)
    for rule in program.rules:
        rules[rule.head.relation].append(rule)
    recursive = recursive_relations(groups, read)  # relations that are only evaluated together are not recursive
    return [Stratum(group, [r for name in group for r in rules[name]], not recursive.isdisjoint(group)) for group in groups]


def edges_of(program: ir.Program) -> list[Edge]:
    """Return the dependencies of relations: by the rules, and between relations that are evaluated together."""
    return [edge for rule in program.rules for edge in rule_edges(rule)] + joint_edges(program)


def joint_edges(program: ir.Program) -> list[Edge]:
    """Return edges in both directions between a relation and that of the tuples to remove from it, and between a relation and
    those that record its iterations: they are evaluated together."""
    relations = program.relations.values()
    pairs = [(relation.name, relation.removal) for relation in relations if relation.dominated]
    pairs += [(relation.name, name) for relation in relations for name in relation.follows if name in program.relations]
    return [edge for relation, other in pairs for edge in (Edge(relation, other), Edge(other, relation))]


def rule_edges(rule: ir.Rule) -> list[Edge]:
    """Return the dependencies of a rule's head on the relations in its body."""
    return [Edge(rule.head.relation, name, via, rule.span or NOWHERE) for name, via in _relations_with_kind(rule.body, "")]


def is_fact(rule: ir.Rule) -> bool:
    """True if a rule has no body, and only constants and records of constants in its head."""
    return not rule.body and all(map(_is_constant, rule.head.args))


def _is_constant(term: ir.Term) -> bool:
    return isinstance(term, ir.Const) or isinstance(term, ir.Pack) and all(map(_is_constant, term.args))


def names_read(rules: list[ir.Rule]) -> set[str]:
    """Return the relations in the bodies of some rules."""
    return {name for rule in rules for name, _ in _relations_with_kind(rule.body, "")}


def readers(strata: list[Stratum]) -> dict[str, set[int]]:
    """Return the numbers of the strata that read each relation."""
    by_name: dict[str, set[int]] = {}
    for number, stratum in enumerate(strata):
        for name in stratum.reads:
            by_name.setdefault(name, set()).add(number)
    return by_name


def _relations_with_kind(body: Iterable[ir.Literal], via: str) -> Iterator[tuple[str, str]]:
    """Yield the relations that a body reads, each with "negation", "aggregation" or `via`."""
    for literal in body:
        if isinstance(literal, ir.Atom):
            yield literal.relation, via
        elif isinstance(literal, ir.Not):
            yield literal.atom.relation, via or "negation"
        elif isinstance(literal, ir.Aggregate):
            yield from _relations_with_kind(literal.body, "aggregation")


def orderless(program: ir.Program) -> dict[str, frozenset[str]]:
    """Return {relation: the relations of its stratum}. Strata whose tuples depend on the order of iterations are left out, as
    their rules cannot be split. The relations of a stratum share one set."""
    cycles: dict[str, frozenset[str]] = {}
    for stratum in strata(program):
        if not any(program.relations[name].lattice or program.relations[name].stepwise for name in stratum.relations):
            cycles |= dict.fromkeys(stratum.relations, frozenset(stratum.relations))
    return cycles


def recursion_groups(program: ir.Program) -> dict[str, int]:
    """Number the strongly connected components: {relation: number of its component}."""
    groups = strong_components(program.relations, edges_of(program))
    return {name: number for number, group in enumerate(groups) for name in group}


def strong_components(names: Iterable[str], edges: Iterable[Edge]) -> list[tuple[str, ...]]:
    """Return the strongly connected components of some relations. A component comes before those that depend on it; its members
    are in the order of `names`.

    Tarjan's algorithm with an explicit stack, as a program may have a chain of thousands of relations."""
    reads: dict[str, dict[str, bool]] = defaultdict(dict)
    for edge in edges:
        reads[edge.head][edge.body] = True
    place = {name: number for number, name in enumerate(names)}
    index: dict[str, int] = {}  # the order in which relations are entered
    low: dict[str, int] = {}  # the least index on the stack that a relation reaches
    on_stack: set[str] = set()
    stack: list[str] = []
    components: list[tuple[str, ...]] = []

    def enter(name):
        """Put a relation on the stack: return it, and the relations that it reads."""
        index[name] = low[name] = len(index)
        stack.append(name)
        on_stack.add(name)
        return name, iter([body for body in reads[name] if body in place])

    for root in place:
        calls = [enter(root)] if root not in index else []
        while calls:
            name, unvisited = calls[-1]
            body = next(unvisited, None)
            if body is None:
                calls.pop()
                if calls:
                    caller, _ = calls[-1]
                    low[caller] = min(low[caller], low[name])
                if low[name] == index[name]:
                    group: list[str] = []
                    while not group or group[-1] != name:
                        group.append(stack.pop())
                    on_stack.difference_update(group)
                    components.append(tuple(sorted(group, key=place.__getitem__)))
            elif body not in index:
                calls.append(enter(body))
            elif body in on_stack:
                low[name] = min(low[name], index[body])
    return components


def recursive_relations(groups: list[tuple[str, ...]], edges: list[Edge]) -> set[str]:
    """Return the relations that depend on themselves, directly or indirectly."""
    return {edge.head for edge, _ in _edges_inside(groups, edges)}


def _edges_inside(groups: list[tuple[str, ...]], edges: list[Edge]) -> list[tuple[Edge, tuple[str, ...]]]:
    """Return the edges within a component, each with the component."""
    group_of = {name: group for group in groups for name in group}
    return [
        (edge, group_of[edge.head])
        for edge in edges
        if edge.head in group_of and group_of[edge.head] is group_of.get(edge.body)
    ]


def unstratified(groups: list[tuple[str, ...]], edges: list[Edge], spans: Mapping[str, Span | None]) -> list[Problem]:
    """Return a problem for each component that contains a negation or an aggregation, as no order of evaluation exists."""
    inside = _edges_inside(groups, edges)
    problems, reported = [], set()
    for edge, group in inside:
        if edge.via and group not in reported:
            reported.add(group)
            problems.append(_cycle_problem(edge, group, [cyclic for cyclic, _ in inside], spans))
    return problems


def _cycle_problem(edge: Edge, group: tuple[str, ...], inside: list[Edge], spans: Mapping[str, Span | None]) -> Problem:
    """Return the error for a negation or an aggregation in a cycle, with the cycle's edges as notes. inside: the edges within
    the component; spans: of the declarations."""
    cycle = [edge, *_path(edge.body, edge.head, inside)]
    marks = {"": "", "negation": "!", "aggregation": "aggregate of ", RECORD: "debug_delta of "}
    participle = {"negation": "negated", "aggregation": "aggregated", RECORD: "recorded"}[edge.via]
    steps = " → ".join([edge.head, *(marks[step.via] + step.body for step in cycle)])
    message = f"Unable to stratify relation(s) {{{', '.join(sorted(group))}}}: the cycle {steps} has a cyclic {edge.via}"
    hint = f"a relation must be complete before it is {participle}: break the cycle"
    hint += ", or write .semantics wellfounded: what cannot be decided is undefined then" * (edge.via == "negation")
    declared = spans.get(edge.head)
    notes = [(f"Relation {edge.head}", declared)] if declared else []
    notes += [(f"{step.head} reads {marks[step.via]}{step.body}", step.span) for step in cycle[1:]]
    return Problem(message, edge.span, hint, notes=notes)


def _path(start: str, end: str, edges: list[Edge]) -> list[Edge]:
    """Return a shortest chain of edges from start to end; [] if they are equal."""
    reads = defaultdict(list)
    for edge in edges:
        reads[edge.head].append(edge)
    reached_by: dict[str, Edge | None] = {start: None}
    queue = deque([start])
    while queue and end not in reached_by:
        for edge in reads[queue.popleft()]:
            if edge.body not in reached_by:
                reached_by[edge.body] = edge
                queue.append(edge.body)
    path: list[Edge] = []
    while (last := reached_by.get(end)) is not None:
        path.append(last)
        end = last.head
    return path[::-1]
