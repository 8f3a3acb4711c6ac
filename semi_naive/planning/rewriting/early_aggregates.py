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
planner leaves them out if the whole part is expected to have few bindings.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations

from semi_naive.planning import rewrite
from semi_naive.planning.rewrite import variables_of
from semi_naive.planning.rewriting.whole_bodies import PARTIAL, FoldedBody, fold_of, is_partial
from semi_naive.planning.strata import recursion_groups
from semi_naive.ra import ir
from semi_naive.ra.ir import (
    Aggregate,
    Atom,
    Call,
    Compare,
    Const,
    Kind,
    Literal,
    Not,
    Program,
    Rule,
    Term,
    Var,
    Wild,
)

MAX_LITERALS = 16  # of a body; longer ones are left as they are
SAFE = {"+", "-", "*", "neg", "min", "max"}  # operators of numbers that have a value for all of them
WHOLE = Kind.NUMBER, Kind.UNSIGNED
WHOLE_OR_FLOAT = *WHOLE, Kind.FLOAT
COUNTED = *WHOLE, Kind.SYMBOL  # kinds of which two values are equal, or one is less


def aggregate_early(program: Program) -> Program:
    """The program with partial aggregates. Programs that evaluate strata in rounds stay as they are.

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
    if program.loops or not any(isinstance(one, Aggregate) for rule in program.rules for one in rule.body):
        return program
    partial = _Partial(program)
    rules: list[Rule] = []
    for rule in program.rules:
        changed = rule if rule.plan or rule.join or rewrite.has_autoinc(rule) else partial.rewritten(rule)
        rules += [*partial.rules, changed]
        partial.rules = []
    return replace(program, rules=rules, relations=partial.relations) if partial.made else program


@dataclass
class _Partial:
    """The relations of partial aggregates. made: their names, by what they hold; rules: those not in the program yet."""

    program: Program
    made: dict[str, str] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)

    def __post_init__(self):
        self.relations, self.group = dict(self.program.relations), recursion_groups(self.program)

    def rewritten(self, rule: Rule) -> Rule:
        """The rule with partial aggregates in its aggregates; the same object if there are none."""
        taken = set(variables_of(rule))
        if fold := fold_of(rule):
            body = _Body(self, rule, fold.body, set(fold.keys), fold.aggregates, (), taken)
            if not body.reduce():
                return rule
            whole = replace(fold, body=tuple(body.literals), aggregates=tuple(body.aggregates()))
            return replace(rule, body=whole.literals())
        return rewrite.with_literals(rule, tuple(self._in_body(rule, one, taken) for one in rule.body))

    def _in_body(self, rule: Rule, literal: Literal, taken: set[str]) -> Literal:
        if not isinstance(literal, Aggregate) or literal.init is not None:
            return literal
        others = [one for one in rule.body if one is not literal]
        outside = variables_of([rule.head, *others])
        inner = variables_of([*literal.body, *([literal.target] if literal.target is not None else [])])
        around = tuple(
            one for one in others
            if isinstance(one, Atom) and _is_simple(one) and self.group[one.relation] != self.group[rule.head.relation]
        )  # fmt: skip
        body = _Body(self, rule, literal.body, set(inner.keys() & outside.keys()), (literal,), around, taken)
        return replace(body.aggregates()[0], body=tuple(body.literals)) if body.reduce() else literal

    def relation(self, rule: Rule, fold: FoldedBody, keys: tuple[Var, ...]) -> str:
        """The name of the relation of a partial aggregate, with a rule for it if there is none yet."""
        results = tuple(one.result for one in fold.aggregates)
        made = Rule(Atom("", (*keys, *results)), fold.literals(), span=rule.span)
        text = rewrite.canonical(made)
        if text not in self.made:
            self.made[text] = name = f"{PARTIAL}{len(self.made) + 1}"
            self.relations[name], made = rewrite.relation_of(name, (*keys, *results), made.body, rule)
            self.rules.append(made)
        return self.made[text]


@dataclass
class _Body:
    """An aggregated body while parts are taken out of it. keys: the variables that the rest of the rule reads; around: atoms of
    the rest that may tell which keys are needed; taken: the names of variables of the rule, and of those made for it. factors:
    of each sum, what is multiplied; None for a minimum or maximum."""

    partial: _Partial
    rule: Rule
    given: tuple[Literal, ...]
    keys: set[str]
    wanted: tuple[Aggregate, ...]
    around: tuple[Atom, ...]
    taken: set[str]

    def __post_init__(self):
        self.literals = [self._without_wildcards(literal) for literal in self.given]
        self.factors = [_factors(one) if one.op in ("count", "sum") else None for one in self.wanted]
        self.targets = [one.target for one in self.wanted]

    def _without_wildcards(self, literal: Literal) -> Literal:
        """Each `_` of an atom counts as a variable of its own."""
        if not isinstance(literal, Atom):
            return literal
        kinds = self.partial.relations[literal.relation].kinds
        args = (
            Var(rewrite.fresh("_", self.taken), kind) if isinstance(arg, Wild) else arg
            for arg, kind in zip(literal.args, kinds, strict=True)
        )
        return replace(literal, args=tuple(args))

    def reduce(self) -> bool:
        """Take out all parts that can be; True if there is one."""
        if not self._possible():
            return False
        before = list(self.literals)
        while self._multiply_pair() or self._sum_out():
            pass
        return self.literals != before

    def _possible(self) -> bool:
        bound = variables_of([one for one in self.literals if isinstance(one, Atom)]).keys()
        simple = all(isinstance(one, Compare | ir.Test) or _is_simple(one) for one in self.literals)
        ops = all(one.op in ("count", "sum", "min", "max") for one in self.wanted)
        targets = variables_of([target for target in self.targets if target is not None]).keys()
        return (
            simple and ops and 1 < len(self.literals) <= MAX_LITERALS
            and variables_of(self.literals).keys() | targets <= bound | self.keys
        )  # fmt: skip

    def aggregates(self) -> list[Aggregate]:
        """The aggregates over what is left."""
        made = []
        for one, factors, target in zip(self.wanted, self.factors, self.targets, strict=True):
            if factors is None:
                made.append(replace(one, target=target, body=()))
            elif not factors:
                made.append(replace(one, body=()))
            else:
                kind = one.result.kind
                made.append(replace(one, op="sum", target=_product([_as(kind, factor) for factor in factors], kind), body=()))
        return made

    # -- a variable that is summed out

    def _sum_out(self) -> bool:
        """Take out the part of one variable: the smallest that shares at most one variable with the rest."""
        found = (part for name in sorted(variables_of(self.literals).keys() - self.keys) if (part := self._part_of(name)))
        part = min(found, key=lambda one: (len(one[0]), len(one[1])), default=None)
        if part is None:
            return False
        literals, shared = part
        own = variables_of(literals).keys() - {var.name for var in shared}
        columns: dict[str, Aggregate] = {}
        for number, (one, factors, target) in enumerate(zip(self.wanted, self.factors, self.targets, strict=True)):
            if factors is None:
                if own & variables_of([target]).keys():
                    self.targets[number] = self._column(columns, one.op, target, one.result.kind)
                continue
            mine = [factor for factor in factors if own & variables_of([factor]).keys()]
            made = _product([_as(one.result.kind, factor) for factor in mine], one.result.kind) if mine else None
            result = self._column(columns, "sum" if mine else "count", made, one.result.kind if mine else Kind.NUMBER)
            self.factors[number] = [factor for factor in factors if factor not in mine] + [result]
        if not columns:
            self._column(columns, "count", None, Kind.NUMBER)
        self._replace(literals, shared, tuple(columns.values()))
        return True

    def _column(self, columns: dict[str, Aggregate], op: str, target: Term | None, kind: Kind) -> Var:
        """The result of an aggregate of a part, which several aggregates of the rule may need."""
        text = f"{op} {target}"
        if text not in columns:
            columns[text] = Aggregate(Var(rewrite.fresh(op, self.taken), kind), op, target, ())
        return columns[text].result

    def _part_of(self, name: str) -> tuple[list[Literal], tuple[Var, ...]] | None:
        """The literals with a variable, and the variables that they share with others; None if they cannot be summed out, or it
        would gain nothing."""
        part = [one for one in self.literals if name in variables_of(one)]
        rest = [one for one in self.literals if one not in part]
        atoms = [one for one in part if isinstance(one, Atom)]
        elsewhere = variables_of(rest).keys() | self.keys
        shared = tuple(var for other, var in variables_of(part).items() if other in elsewhere)
        own = variables_of(part).keys() - elsewhere
        others = [one for one in rest if isinstance(one, Atom)]
        if len(shared) > 1 or not others or not variables_of(part).keys() <= variables_of(atoms).keys():
            return None
        every = zip(self.targets, self.factors, strict=True)
        terms = [term for target, factors in every for term in ([target] if factors is None else factors)]
        used = [term for term in terms if own & variables_of([term]).keys()]
        safe = all(_is_safe(node) for node in rewrite.walk([*part, *used]) if isinstance(node, Call))
        if not safe or any(not variables_of([term]).keys() <= variables_of(part).keys() for term in used):
            return None
        if len(part) == 1 and (not used or is_partial(atoms[0].relation)):
            return None  # the join counts its partners without listing them; or it has one row for each key
        return part, shared

    # -- two parts that differ in one variable

    def _multiply_pair(self) -> bool:
        names = sorted(variables_of(self.literals).keys() - self.keys)
        if any(factors is None for factors in self.factors):
            return False
        return any(self._multiplied(one, other) for one, other in combinations(names, 2))

    def _multiplied(self, name: str, other: str) -> bool:
        """Replace the literals of two variables by the number of values that one of them has, if they are the same but for that
        variable."""
        variables = variables_of(self.literals)
        one, two = variables[name], variables[other]
        parts = [[each for each in self.literals if own in variables_of(each) and not_own not in variables_of(each)]
                 for own, not_own in ((name, other), (other, name))]  # fmt: skip
        across = [each for each in self.literals if {name, other} <= variables_of(each).keys()]
        op = across[0].op if across and isinstance(across[0], Compare) else ""
        terms = [factor for factors in self.factors if factors for factor in factors]
        if one.kind != two.kind or not parts[0] or len(across) > 1 or variables_of(terms).keys() & {name, other}:
            return False
        same = {str(rewrite.substitute(each, {name: two})) for each in parts[0]} == {str(each) for each in parts[1]}
        shared = tuple(var for n, var in variables_of(parts[0]).items() if n != name)
        if not same or not all(isinstance(each, Atom) for each in parts[0]):
            return False
        if not (_compares(across[0], one, two) if across else len(parts[0]) > 1 and len(shared) > 1):
            return False
        result = Var(rewrite.fresh("count", self.taken), Kind.NUMBER)
        after = (Compare(">", result, Const(1, Kind.NUMBER), Kind.NUMBER),) if op in ("<", ">", "!=") else ()
        self._replace([*parts[0], *parts[1], *across], shared, (Aggregate(result, "count", None, ()),), parts[0], after)
        self.factors = [[*factors, _pairs(op, result)] for factors in self.factors if factors is not None]
        return True

    # -- the relation of a part

    def _replace(self, gone, shared, columns: tuple[Aggregate, ...], part=None, after=()) -> None:
        """Put the atom of a partial aggregate in place of some literals."""
        part = tuple(gone if part is None else part)
        self.literals = [one for one in self.literals if one not in gone]
        guards = self._guards({var.name for var in shared})
        name = self.partial.relation(
            self.rule, FoldedBody(guards, part, tuple(var.name for var in shared), columns, after), shared
        )
        self.literals.append(Atom(name, (*shared, *(one.result for one in columns))))

    def _guards(self, shared: set[str]) -> tuple[Literal, ...]:
        """The literals left that tell which values of the shared variables are needed, with wildcards for variables that are
        used once."""
        found: list[Literal] = []
        names, left = set(shared), [*(one for one in self.literals if isinstance(one, Atom)), *self.around]
        while more := [one for one in left if names & variables_of(one).keys()]:
            found += more
            left = [one for one in left if one not in more]
            names |= variables_of(more).keys()
        bound = variables_of(found).keys()
        if found:
            found += [one for one in self.literals if not isinstance(one, Atom) and variables_of(one).keys() <= bound]
        times = Counter(node.name for node in rewrite.walk(found) if isinstance(node, Var))
        once = {name: Wild() for name, number in times.items() if number == 1 and name not in shared}
        return tuple(rewrite.substitute(one, once) if isinstance(one, Atom) else one for one in found)


def _is_simple(literal: Literal) -> bool:
    """True of an atom, or a negated one, of variables, constants and wildcards."""
    atom = literal.atom if isinstance(literal, Not) else literal
    return isinstance(atom, Atom) and rewrite.has_simple_arguments(atom)


def _is_safe(call: Call) -> bool:
    """True if a functor raises no error: a part may have bindings that the body has not."""
    of_floats = call.op == "/" and call.kind == Kind.FLOAT
    return call.op in SAFE and call.kind in WHOLE_OR_FLOAT or of_floats or call.op == "to_float" and call.args[0].kind in WHOLE


def _compares(literal: Literal, one: Var, other: Var) -> bool:
    sides = {literal.left, literal.right} if isinstance(literal, Compare) and literal.op != "=" else set()
    return sides == {one, other} and one.kind in COUNTED


def _factors(one: Aggregate) -> list[Term]:
    """The terms whose product a sum adds; a count adds none."""
    waiting, found = [] if one.target is None else [one.target], []
    while waiting:
        term = waiting.pop()
        if isinstance(term, Call) and term.op == "*":
            waiting += term.args[::-1]
        else:
            found.append(term)
    return found


def _product(terms: list[Term], kind: Kind) -> Term:
    return reduce(lambda one, other: Call("*", (one, other), kind), terms)


def _as(kind: Kind, term: Term) -> Term:
    """A count as a factor of a sum of another kind."""
    return term if isinstance(term, Wild) or term.kind == kind else Call(f"to_{kind.value}", (term,), kind)


def _pairs(op: str, count: Var) -> Term:
    """The number of pairs of values of which the one and the other compare so. There are less than 2^31 values."""
    if not op:
        return Call("*", (count, count), Kind.NUMBER)
    other = Call("+" if op in ("<=", ">=") else "-", (count, Const(1, Kind.NUMBER)), Kind.NUMBER)
    ordered = Call("*", (count, other), Kind.NUMBER)
    return ordered if op == "!=" else Call("/", (ordered, Const(2, Kind.NUMBER)), Kind.NUMBER)
