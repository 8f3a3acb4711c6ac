"""Aggregates before joins: a part of an aggregated body that hangs on few variables is counted or summed by these first.

    s(a, sum(c)) :- e(a, b), f(b, c).

makes a binding for each path of two. As

    early@1(b, n) :- f(b, c), n = sum c : { f(b, c) }.        s(a, sum(n)) :- e(a, b), early@1(b, n).

it makes one for each edge. A variable that no other part of the rule reads is summed out with all literals that have it, if
they share at most one variable with the rest: so a body in the form of a tree is never enumerated (Yannakakis 1981, *Algorithms
for acyclic database schemes*; Abo Khamis, Ngo, Rudra 2016, *FAQ: questions asked frequently*). Two parts that differ in one
variable are counted once, and multiplied:

    n = count : { e(a, b), e(b, d), e(a, c), e(c, d), b < c }

becomes, with the paths of two by their ends,

    early@1(a, d, k) :- e(a, b), e(b, d), k = count : { e(a, b), e(b, d) }, k > 1.
    n = sum k * (k - 1) / 2 : { early@1(a, d, k) }

A rule for a partial aggregate begins with the atoms that its keys are joined with later: its guards, `e(_, b)` above. The
planner leaves them out if the whole part is expected to have few bindings."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations

from semi_naive.planning import rewrite
from semi_naive.planning.rewrite import variables_of
from semi_naive.planning.rewriting.whole_bodies import PARTIAL, FoldedBody, fold_of, is_partial
from semi_naive.planning.strata import recursion_groups
from semi_naive.ra import ir
from semi_naive.ra.ir import Aggregate, Atom, Call, Compare, Const, Kind, Literal, Not, Program, Rule, Term, Var, Wild

MAX_LITERALS = 16  # of a body; longer ones are left as they are
SAFE = {"+", "-", "*", "neg", "min", "max"}  # operators of numbers that have a value for all of them
WHOLE = Kind.NUMBER, Kind.UNSIGNED
WHOLE_OR_FLOAT = *WHOLE, Kind.FLOAT
COUNTED = *WHOLE, Kind.SYMBOL  # kinds of which two values are equal, or one is less


def aggregate_early(program: Program) -> Program:
    """Return the program with partial aggregates. A program that evaluates strata in rounds is not changed.

    >>> from semi_naive.ra.ir import Relation, Type
    >>> a, b, c, n = (Var(name, Kind.NUMBER) for name in "abcn")
    >>> column = ("a", Type("number", Kind.NUMBER))
    >>> relations = {name: Relation(name, (column, column)) for name in ("e", "f", "s")}
    >>> e, f, s = (lambda *args, name=name: Atom(name, args) for name in relations)
    >>> fold = FoldedBody((), (e(a, b), f(b, c)), ("a",), (Aggregate(n, "sum", c, ()),))
    >>> print(*aggregate_early(Program({}, relations, [Rule(s(a, n), fold.literals())])).rules, sep="\\n")
    early@1(b, sum.1) :- e(_, b), f(b, c), sum.1 = sum c.1 : { f(b, c.1) }.
    s(a, n) :- e(a, b), early@1(b, sum.1), n = sum sum.2 : { e(a, b.1), early@1(b.1, sum.2) }.
    """
    if program.loops or not any(isinstance(literal, Aggregate) for rule in program.rules for literal in rule.body):
        return program
    partial = _PartialAggregates(program, PARTIAL)
    for rule in program.rules:
        partial.rules.append(rule if rule.plan or rule.join or rewrite.has_autoinc(rule) else partial.rewritten(rule))
    return partial.program()


class _PartialAggregates(rewrite.Extracted):
    """The relations of partial aggregates."""

    def __init__(self, program: Program, prefix: str):
        super().__init__(program, prefix)
        self.group = recursion_groups(program)

    def rewritten(self, rule: Rule) -> Rule:
        """Return the rule with partial aggregates in its aggregates; the same object if there are none."""
        taken = set(variables_of(rule))
        if fold := fold_of(rule):
            body = _Body(self, rule, fold.body, set(fold.keys), fold.aggregates, (), taken)
            if not body.reduce():
                return rule
            reduced = replace(fold, body=tuple(body.literals), aggregates=tuple(body.reduced_aggregates()))
            return replace(rule, body=reduced.literals())
        return rewrite.with_body(rule, (self._reduced(rule, literal, taken) for literal in rule.body))

    def _reduced(self, rule: Rule, literal: Literal, taken: set[str]) -> Literal:
        """Return a literal of a rule: an aggregate over partial aggregates, if that pays; others unchanged. taken: names of
        variables."""
        if not isinstance(literal, Aggregate) or literal.init is not None:
            return literal
        others = [other for other in rule.body if other is not literal]
        outside = variables_of([rule.head, *others])
        inner = variables_of([*literal.body, literal.target])
        recursive = self.group[rule.head.relation]
        atoms = [other for other in others if isinstance(other, Atom) and _is_simple(other)]
        around = tuple(atom for atom in atoms if self.group[atom.relation] != recursive)
        body = _Body(self, rule, literal.body, set(inner.keys() & outside.keys()), (literal,), around, taken)
        if not body.reduce():
            return literal
        (reduced,) = body.reduced_aggregates()
        return replace(reduced, body=tuple(body.literals))


@dataclass
class _Body:
    """An aggregated body while parts are taken out of it.

    keys: the variables that the rest of the rule reads; around: atoms of the rest that may restrict the keys; taken: all names
    of variables in use; literals: the body so far; factors: for each aggregate, the terms whose product it sums, none for a
    count, or None for a minimum or maximum; targets: for each aggregate, the term that it folds, or None for a count."""

    partial: _PartialAggregates
    rule: Rule
    body: tuple[Literal, ...]
    keys: set[str]
    aggregates: tuple[Aggregate, ...]
    around: tuple[Atom, ...]
    taken: set[str]

    def __post_init__(self):
        self.literals = [self._without_wildcards(literal) for literal in self.body]
        self.factors = [_factors(added) if added.op in ("count", "sum") else None for added in self.aggregates]
        self.targets = [aggregate.target for aggregate in self.aggregates]

    def _without_wildcards(self, literal: Literal) -> Literal:
        """Return an atom with a new variable for each `_`; another literal unchanged."""
        if not isinstance(literal, Atom):
            return literal
        kinds = self.partial.relations[literal.relation].kinds
        args = (
            Var(rewrite.fresh("_", self.taken), kind) if isinstance(arg, Wild) else arg
            for arg, kind in zip(literal.args, kinds, strict=True)
        )
        return replace(literal, args=tuple(args))

    def reduce(self) -> bool:
        """Replace parts by partial aggregates until no part can be; True if one was."""
        if not self._is_reducible():
            return False
        before = list(self.literals)
        while self._multiply_pair() or self._sum_out():
            pass
        return self.literals != before

    def _is_reducible(self) -> bool:
        """True if the body has a form that this pass knows: not too long, of simple literals, all variables bound by atoms."""
        bound = variables_of([literal for literal in self.literals if isinstance(literal, Atom)]).keys()
        return (
            1 < len(self.literals) <= MAX_LITERALS
            and all(isinstance(literal, Compare | ir.Test) or _is_simple(literal) for literal in self.literals)
            and all(aggregate.op in ("count", "sum", "min", "max") for aggregate in self.aggregates)
            and variables_of([*self.literals, *self.targets]).keys() <= bound | self.keys
        )

    def reduced_aggregates(self) -> list[Aggregate]:
        """Return the aggregates over the reduced body, without bodies."""
        reduced = []
        for aggregate, factors, target in zip(self.aggregates, self.factors, self.targets, strict=True):
            if factors:
                total = _product_of(factors, aggregate.result.kind)
                reduced.append(replace(aggregate, op="sum", target=total, body=()))
            else:
                reduced.append(replace(aggregate, target=target, body=()))
        return reduced

    # -- a variable that is summed out

    def _sum_out(self) -> bool:
        """Replace the part of one variable by a partial aggregate: the smallest part that shares at most one variable with the
        rest. Return False if there is none."""
        names = sorted(variables_of(self.literals).keys() - self.keys)
        parts = [part for name in names if (part := self._part_of(name))]
        if not parts:
            return False
        literals, shared = min(parts, key=lambda part: (len(part[0]), len(part[1])))
        own = variables_of(literals).keys() - {var.name for var in shared}
        columns: dict[str, Aggregate] = {}
        for number, (aggregate, factors, target) in enumerate(zip(self.aggregates, self.factors, self.targets, strict=True)):
            kind = aggregate.result.kind
            if factors is None:  # a minimum or maximum
                if own & variables_of([target]).keys():
                    self.targets[number] = self._column(columns, aggregate.op, target, kind)
                continue
            inside = [factor for factor in factors if own & variables_of([factor]).keys()]
            if inside:
                result = self._column(columns, "sum", _product_of(inside, kind), kind)
            else:
                result = self._column(columns, "count", None, Kind.NUMBER)
            self.factors[number] = [factor for factor in factors if factor not in inside] + [result]
        if not columns:  # the aggregates are minima or maxima of other terms, so it only matters whether the part has a binding
            self._column(columns, "count", None, Kind.NUMBER)
        self._replace(literals, shared, tuple(columns.values()))
        return True

    def _column(self, columns: dict[str, Aggregate], op: str, target: Term | None, kind: Kind) -> Var:
        """Return the result of an aggregate of a part, and add the aggregate to `columns` if it is new."""
        text = f"{op} {target}"
        if text not in columns:
            columns[text] = Aggregate(Var(rewrite.fresh(op, self.taken), kind), op, target, ())
        return columns[text].result

    def _part_of(self, name: str) -> tuple[list[Literal], tuple[Var, ...]] | None:
        """Return (the literals with a variable, the variables that they share with others); None if they cannot be summed out,
        or if that does not pay."""
        part = [literal for literal in self.literals if name in variables_of(literal)]
        rest = [literal for literal in self.literals if literal not in part]
        atoms = [literal for literal in part if isinstance(literal, Atom)]
        variables, elsewhere = variables_of(part), variables_of(rest).keys() | self.keys
        shared = tuple(var for other, var in variables.items() if other in elsewhere)
        if len(shared) > 1 or not variables.keys() <= variables_of(atoms).keys():  # atoms must bind all of its variables
            return None
        if not any(isinstance(literal, Atom) for literal in rest):  # it would be joined with nothing
            return None
        by_aggregate = zip(self.targets, self.factors, strict=True)
        terms = [term for target, factors in by_aggregate for term in ([target] if factors is None else factors)]
        used = [term for term in terms if variables_of([term]).keys() & (variables.keys() - elsewhere)]
        is_safe = all(_is_safe(node) for node in rewrite.walk([*part, *used]) if isinstance(node, Call))
        if not is_safe or not variables_of(used).keys() <= variables.keys():  # a term also reads another part
            return None
        if len(part) == 1 and (not used or is_partial(atoms[0].relation)):
            return None  # the join counts its partners without listing them; or it has one row for each key
        return part, shared

    # -- two parts that differ in one variable

    def _multiply_pair(self) -> bool:
        """Replace two parts that differ in one variable by a count, if there are two; then True."""
        names = sorted(variables_of(self.literals).keys() - self.keys)
        if any(factors is None for factors in self.factors):
            return False
        return any(self._multiplied(name, other) for name, other in combinations(names, 2))

    def _multiplied(self, name: str, other_name: str) -> bool:
        """Replace the literals of two variables by the number of values that one of them has, if the literals are equal except
        for that variable. Return False if they are not."""
        variables = variables_of(self.literals)
        one, other = variables[name], variables[other_name]
        names_in = [(literal, variables_of(literal).keys()) for literal in self.literals]
        part = [literal for literal, names in names_in if name in names and other_name not in names]
        other_part = [literal for literal, names in names_in if other_name in names and name not in names]
        across = [literal for literal, names in names_in if {name, other_name} <= names]
        op = across[0].op if across and isinstance(across[0], Compare) else ""
        terms = [factor for factors in self.factors if factors for factor in factors]
        if one.kind != other.kind or not part or len(across) > 1 or variables_of(terms).keys() & {name, other_name}:
            return False
        renamed = {str(rewrite.substitute(literal, {name: other})) for literal in part}
        if renamed != {str(literal) for literal in other_part} or not all(isinstance(literal, Atom) for literal in part):
            return False
        shared = tuple(var for var in variables_of(part).values() if var.name != name)
        # else the part is summed out, or is one atom, which a join counts
        if not (_compares(across[0], one, other) if across else len(part) > 1 and len(shared) > 1):
            return False
        result = Var(rewrite.fresh("count", self.taken), Kind.NUMBER)
        # Two different values exist only if there is more than one.
        after = (Compare(">", result, Const(1, Kind.NUMBER), Kind.NUMBER),) if op in ("<", ">", "!=") else ()
        self._replace([*part, *other_part, *across], shared, (Aggregate(result, "count", None, ()),), part, after)
        self.factors = [[*factors, _pairs(op, result)] for factors in self.factors if factors is not None]
        return True

    # -- the relation of a part

    def _replace(self, replaced, shared, columns: tuple[Aggregate, ...], part=None, after=()) -> None:
        """Replace some literals by the atom of a partial aggregate. shared: its keys; columns: its results; part: the literals
        that it aggregates, by default all that are replaced; after: conditions on its results."""
        part = tuple(replaced if part is None else part)
        self.literals = [literal for literal in self.literals if literal not in replaced]
        keys = tuple(var.name for var in shared)
        fold = FoldedBody(self._guards(shared), part, keys, columns, after)
        variables = (*shared, *(aggregate.result for aggregate in columns))
        self.literals.append(self.partial.atom(fold.literals(), variables, self.rule))

    def _guards(self, shared: tuple[Var, ...]) -> tuple[Literal, ...]:
        """Return the remaining literals that restrict the shared variables, with wildcards for variables that occur once."""
        atoms = [*(literal for literal in self.literals if isinstance(literal, Atom)), *self.around]
        guards = rewrite.connected_with(shared, atoms)
        if guards:
            bound, others = variables_of(guards).keys(), [literal for literal in self.literals if not isinstance(literal, Atom)]
            guards += [literal for literal in others if variables_of(literal).keys() <= bound]
        occurrences = Counter(node.name for node in rewrite.walk(guards) if isinstance(node, Var))
        wildcards = {name: Wild() for name, number in occurrences.items() if number == 1 and name not in variables_of(shared)}
        return tuple(rewrite.substitute(guard, wildcards) if isinstance(guard, Atom) else guard for guard in guards)


def _is_simple(literal: Literal) -> bool:
    """True for an atom, or a negated one, of variables, constants and wildcards."""
    atom = literal.atom if isinstance(literal, Not) else literal
    return isinstance(atom, Atom) and rewrite.has_simple_arguments(atom)


def _is_safe(call: Call) -> bool:
    """True if a functor raises no error: a part may have bindings that the body has not."""
    divides_floats = call.op == "/" and call.kind == Kind.FLOAT
    converts = call.op == "to_float" and call.args[0].kind in WHOLE
    return divides_floats or converts or call.op in SAFE and call.kind in WHOLE_OR_FLOAT


def _compares(literal: Literal, one: Var, other: Var) -> bool:
    """True if a literal is an inequality of two variables that are equal or ordered by value."""
    sides = {literal.left, literal.right} if isinstance(literal, Compare) and literal.op != "=" else set()
    return sides == {one, other} and one.kind in COUNTED


def _factors(aggregate: Aggregate) -> list[Term]:
    """Return the terms whose product a sum adds; none for a count."""
    unexpanded, factors = [] if aggregate.target is None else [aggregate.target], []
    while unexpanded:
        term = unexpanded.pop()
        if isinstance(term, Call) and term.op == "*":
            unexpanded += term.args[::-1]
        else:
            factors.append(term)
    return factors


def _product_of(factors: list[Term], kind: Kind) -> Term:
    """Return the product of terms in a kind, to which a count is converted."""
    converted = [
        term if isinstance(term, Wild) or term.kind == kind else Call(f"to_{kind.value}", (term,), kind) for term in factors
    ]
    return reduce(lambda product, factor: Call("*", (product, factor), kind), converted)


def _pairs(op: str, count: Var) -> Term:
    """Return the number of pairs of n values, less than 2^31, that a comparison lets through: n² without an operator, n (n - 1)
    for !=, n (n - 1) / 2 for < and >, n (n + 1) / 2 for <= and >=. count: the variable n."""
    if not op:
        return Call("*", (count, count), Kind.NUMBER)
    other = Call("+" if op in ("<=", ">=") else "-", (count, Const(1, Kind.NUMBER)), Kind.NUMBER)
    ordered = Call("*", (count, other), Kind.NUMBER)
    return ordered if op == "!=" else Call("/", (ordered, Const(2, Kind.NUMBER)), Kind.NUMBER)
