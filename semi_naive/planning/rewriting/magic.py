"""Magic sets: compute only the demanded tuples of a relation.

If a rule reads `path(1, y)`, or `path(x, y)` with x known from earlier literals, the relation is adorned by its known columns,
b for bound and f for free, and computed for the demanded values of these:

    path(x, z) :- edge(x, z).                     path@bf(x, z) :- path@bf.demand(x), edge(x, z).
    path(x, z) :- path(x, y), edge(y, z).   is    path@bf(x, z) :- path@bf.demand(x), path@bf(x, y), edge(y, z).
    from1(y) :- path(1, y).                       path@bf.demand(1).      from1(y) :- path@bf(1, y).

Demand reaches rules in the order their bodies are written: an atom knows constants, the demanded values of its rule's head,
the variables of earlier positive atoms, and variables equal to these. Computed values are not known: a demand for x + 1 from
every demand for x would not terminate.

A relation is computed whole if it is negated, read by an aggregate, has a lattice, a choice or an autoinc, or if such a
relation depends on it: demand might make it depend on rules that depend on it. So all new cycles are of positive atoms, and a
stratified program stays stratified."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from semi_naive.planning import rewrite
from semi_naive.planning.rewriting.simplify import without_repetition
from semi_naive.ra import ir


def magic(program: ir.Program, keep: Iterable[str] = ()) -> ir.Program:
    """Return the program in which relations qualified `magic`, or chosen by a pragma, are computed on demand. keep: relations
    whose tuples are all required, besides those with a directive.

    >>> kind = ir.Kind.NUMBER
    >>> x, y, z = (ir.Var(name, kind) for name in "xyz")
    >>> column = ("x", ir.Type("number", kind))
    >>> relations = {name: ir.Relation(name, (column, column)) for name in ("edge", "path")}
    >>> relations["from1"] = ir.Relation("from1", (column,))
    >>> edge, path = (lambda *args, name=name: ir.Atom(name, args) for name in ("edge", "path"))
    >>> rules = [
    ...     ir.Rule(path(x, z), (edge(x, z),)),
    ...     ir.Rule(path(x, z), (path(x, y), edge(y, z))),
    ...     ir.Rule(ir.Atom("from1", (y,)), (path(ir.Const(1, kind), y),)),
    ... ]
    >>> output, pragmas = [ir.FileDirective("output", "from1")], {"magic-transform": "*"}
    >>> print(*magic(ir.Program({}, relations, rules, output, pragmas)).rules, sep="\\n")
    path@bf.demand(1).
    from1(y) :- path@bf(1, y).
    path@bf(x, z) :- path@bf.demand(x), edge(x, z).
    path@bf(x, z) :- path@bf.demand(x), path@bf(x, y), edge(y, z).
    """
    chosen = _chosen(program) - set(keep)
    chosen = chosen and chosen - _computed_whole(program)
    while chosen:
        demands = _Demands(program, chosen)
        demands.propagate()
        if not demands.whole:
            return demands.program()
        chosen = chosen - demands.whole  # a relation that is computed whole for one reader serves all
    return program


def is_adorned(name: str, relation: str) -> bool:
    """True for the name of a relation that is computed on demand."""
    whole, mark, adornment = name.rpartition("@")
    return bool(mark) and whole == relation and set(adornment) <= set("bf")


def _chosen(program: ir.Program) -> set[str]:
    """Return the relations for which computation on demand is requested."""
    pragmas = [program.pragmas.get(key, "") for key in ("magic-transform", "magic-transform-exclude")]
    named, excluded = ({name.strip() for name in value.split(",")} for value in pragmas)
    requested = {
        name for name, relation in program.relations.items() if "*" in named or name in named or "magic" in relation.qualifiers
    }
    return {name for name in requested - excluded if "no_magic" not in program.relations[name].qualifiers}


def _computed_whole(program: ir.Program) -> set[str]:
    """Return the relations for which demand is impossible or useless: the first with all relations on which they depend."""
    with_dependencies = {name for name, relation in program.relations.items() if relation.lattice or relation.stepwise}
    with_dependencies |= {rule.head.relation for rule in program.rules if rewrite.has_autoinc(rule)}
    with_dependencies |= {directive.relation for directive in program.directives if directive.kind == "limitsize"}
    for node in rewrite.walk(program.rules):
        if isinstance(node, ir.Not):
            with_dependencies.add(node.atom.relation)
        elif isinstance(node, ir.Aggregate):
            with_dependencies |= rewrite.relations_in(node.body)
    alone = {directive.relation for directive in program.directives}
    alone |= {name for name, relation in program.relations.items() if relation.eqrel}
    alone |= program.relations.keys() - {rule.head.relation for rule in program.rules if rule.body}
    return rewrite.reachable(with_dependencies, rewrite.dependencies(program)) | alone


@dataclass
class _Demands:
    """Propagates demand from the rules of other relations to those of the chosen relations.

    whole: chosen relations that a rule reads without a bound column; relations, rules: those of the new program; unadorned: the
    (relation, adornment) pairs whose rules are not adorned yet."""

    before: ir.Program
    chosen: set[str]
    whole: set[str] = field(default_factory=set)
    relations: dict[str, ir.Relation] = field(default_factory=dict)
    rules: list[ir.Rule] = field(default_factory=list)
    unadorned: list[tuple[str, str]] = field(default_factory=list)

    def propagate(self) -> None:
        """Adorn the rules of all other relations, then those of demanded relations, until no adornment is new."""
        for rule in self.before.rules:
            if rule.head.relation not in self.chosen:
                self.rules.append(self._adorned(rule))
        by_head = rewrite.rules_by_head(self.before)
        while self.unadorned and not self.whole:
            name, adornment = self.unadorned.pop(0)
            for rule in self._rules_of(name, by_head[name]):
                self.rules.append(self._adorned(_guarded(rule, adornment), f"{name}@{adornment}"))

    def program(self) -> ir.Program:
        """Return the new program: the chosen relations are replaced by adorned ones."""
        relations = {name: relation for name, relation in self.before.relations.items() if name not in self.chosen}
        return replace(self.before, relations=relations | self.relations, rules=without_repetition(self.rules))

    def _rules_of(self, name: str, rules: list[ir.Rule]) -> list[ir.Rule]:
        """Return a relation's rules, with its facts replaced by one rule that reads them from a relation that all adornments
        share. Add that relation if it is new."""
        if all(rule.body for rule in rules):
            return rules
        relation, facts = self.before.relations[name], f"{name}@facts"
        if facts not in self.relations:
            self.relations[facts] = replace(relation, name=facts, qualifiers=frozenset())
            given = [rule for rule in rules if not rule.body]
            self.rules += [replace(rule, head=replace(rule.head, relation=facts)) for rule in given]
        columns = enumerate(zip(relation.attributes, relation.kinds, strict=True))
        args = tuple(ir.Var(f"{attribute}.{number}", kind) for number, ((attribute, _), kind) in columns)
        copy = ir.Rule(ir.Atom(name, args), (ir.Atom(facts, args),), text=f"the facts of {name}")
        return [rule for rule in rules if rule.body] + [copy]

    def _adorned(self, rule: ir.Rule, head: str | None = None) -> ir.Rule:
        """Return the rule with adorned atoms in its body, and add the rules of their demand. head: the head's relation."""
        body = list(rule.body)
        known = _add_implied(set(), body)
        for index, literal in enumerate(body):
            if not isinstance(literal, ir.Atom):
                continue
            if literal.relation in self.chosen:
                body[index] = self._demanded(literal, known, rule, body[:index])
            known = _add_implied(known.union(*map(rewrite.variables_bound_by, literal.args)), body)
        adorned_head = replace(rule.head, relation=head or rule.head.relation)
        return rewrite.with_body(replace(rule, head=adorned_head), body)

    def _demanded(self, atom: ir.Atom, known: set[str], rule: ir.Rule, earlier: list) -> ir.Atom:
        """Return the atom adorned by its known arguments, and add the rule for its demand. If none is known, the relation is to
        be computed whole. known: variables with values; rule: that of the atom; earlier: the literals before it."""
        bound = [_is_known(arg, known) for arg in atom.args]
        if not any(bound):
            self.whole.add(atom.relation)
            return atom
        adornment = "".join("fb"[is_bound] for is_bound in bound)
        name = f"{atom.relation}@{adornment}"
        if name not in self.relations:
            self._declare(self.before.relations[atom.relation], adornment)
        demand = ir.Atom(f"{name}.demand", tuple(arg for arg, is_bound in zip(atom.args, bound, strict=True) if is_bound))
        # what is left out of the demand's body makes demand larger: more tuples are computed, and the same are found
        tests = [literal for literal in rule.body if isinstance(literal, (ir.Compare, ir.Test)) and not _computes(literal)]
        tests = [literal for literal in tests if rewrite.variables_of(literal).keys() <= known]
        atoms = [_without_computed(part) for part in earlier if isinstance(part, ir.Atom)]
        body = rewrite.connected_with(demand, atoms + tests)
        text = f"demand of {atom} in: {rule.text or rule}"
        self.rules.append(ir.Rule(demand, tuple(body), span=rule.span, text=text))
        return replace(atom, relation=name)

    def _declare(self, relation: ir.Relation, adornment: str) -> None:
        """Declare an adorned relation and its demand, and let its rules wait to be adorned."""
        name = f"{relation.name}@{adornment}"
        bound = tuple(column for column, mark in zip(relation.attributes, adornment, strict=True) if mark == "b")
        self.relations[name] = replace(relation, name=name, qualifiers=relation.qualifiers - {"magic"})
        self.relations[f"{name}.demand"] = ir.Relation(f"{name}.demand", bound, span=relation.span)
        self.unadorned.append((relation.name, adornment))


def _guarded(rule: ir.Rule, adornment: str) -> ir.Rule:
    """Return the rule restricted to demanded tuples: its body begins with the demand for the bound columns of its head. The
    demand cannot bind a computed argument: it binds a new variable, which is compared with the argument."""
    taken, tests = set(rewrite.variables_of(rule)), []
    args: list[ir.Term] = []
    for arg, mark in zip(rule.head.args, adornment, strict=True):
        if mark == "b" and _computes(arg):
            args.append(ir.Var(rewrite.fresh("asked", taken), arg.kind))
            tests.append(ir.Compare("=", args[-1], arg, arg.kind))
        elif mark == "b":
            args.append(arg)
    guard = ir.Atom(f"{rule.head.relation}@{adornment}.demand", tuple(args))
    return rewrite.with_body(rule, (guard, *rule.body, *tests))


def _computes(node) -> bool:
    """True if a term or literal contains a computed term."""
    return any(isinstance(part, ir.Call) for part in rewrite.walk(node))


def _without_computed(atom: ir.Atom) -> ir.Atom:
    """Return the atom with computed arguments replaced by wildcards."""
    return replace(atom, args=tuple(ir.Wild() if _computes(arg) else arg for arg in atom.args))


def _is_known(term: ir.Term, known: set[str]) -> bool:
    """True for a constant, and for a variable in `known`."""
    return isinstance(term, ir.Const) or isinstance(term, ir.Var) and term.name in known


def _add_implied(known: set[str], body: Iterable) -> set[str]:
    """Return the known variables together with those whose values follow from equalities."""
    equations = [part for part in body if isinstance(part, ir.Compare) and part.op == "="]
    known = set(known)
    before = -1
    while len(known) > before:
        before = len(known)
        for equation in equations:
            for term, other in ((equation.left, equation.right), (equation.right, equation.left)):
                if isinstance(term, (ir.Var, ir.Pack)) and _is_known(other, known):
                    known |= rewrite.variables_bound_by(term)
    return known
