"""The operators of relational algebra: each is a node of an expression, with a method for the rules that it adds (see
`semi_naive.algebra`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from semi_naive.algebra import ANSWER, Conjunction, Rules
from semi_naive.ra import ir
from semi_naive.ra.ir import Atom, Call, Compare, Const, Kind, Not, Truth, Var
from semi_naive.schema import Schema

if TYPE_CHECKING:
    from semi_naive.running.results.answers import Result

HALF, LOW = 32, (1 << 32) - 1  # bits of half a word, and the mask of the lower ones


@dataclass(eq=False)
class Operator:
    """A node of an expression: an operator, or facts.

    schema: the names of the columns, for users; operators refer to columns by position.
    held: the tuples if they are known: a `Table` of this process, a Spark DataFrame, or an `Answer` on the partitions.
    result: the `Result` of the program that computed them; closed: they are released, and cannot be read any more.
    """

    schema: Schema
    inputs: tuple["Operator", ...] = ()
    held: object = None
    result: "Result | None" = None
    closed: bool = False

    @property
    def in_process(self) -> bool:
        """True if the tuples are in this process."""
        return not (hasattr(self.held, "toArrow") or getattr(self.held, "on_partitions", False))

    def facts(self):
        """Return the known tuples, in a form that `Program.run` accepts."""
        from semi_naive.running.results.answers import Answer  # imported late, as it loads the evaluator

        if isinstance(self.held, Answer):
            self.held = self.held.facts()
        return self.held

    def hold(self, result: "Result") -> None:
        """Keep the tuples of a result, and drop the inputs."""
        if self.held is None:
            self.held, self.inputs = result[ANSWER], ()
        self.result = result

    def check_open(self) -> None:
        """Raise ValueError if the relation has been closed."""
        if self.closed:
            raise ValueError(f"the relation {self.schema} has been closed: read or write its tuples before that")

    def close(self) -> None:
        if self.result is not None:
            self.result.close()
        self.closed, self.held, self.inputs = True, None, ()

    def body(self, rules: Rules) -> Conjunction:
        """Return the body that derives the tuples, for use in another rule."""
        return rules.atom(rules.named(self), self.schema)

    def define(self, rules: Rules, name: str) -> None:
        """Add the rules of the relation `name` with these tuples."""
        rules.add(name, self.body(rules))


@dataclass(eq=False)
class Select(Operator):
    """The tuples in which some pairs of columns are equal, and some columns have given constants; the constant None matches no
    tuple.
    """

    equal: tuple[tuple[int, int], ...] = ()
    constants: tuple[tuple[int, Const | None], ...] = ()

    def body(self, rules: Rules) -> Conjunction:
        body = rules.body(self.inputs[0])
        for left, right in self.equal:
            body.equate(left, right)
        for column, constant in self.constants:
            if constant is None:
                body.literals.append(Truth(False))
            else:
                body.unify(body.terms[column], constant)
        return body


@dataclass(eq=False)
class Project(Operator):
    """The input's tuples reduced to some columns."""

    columns: tuple[int, ...] = ()

    def body(self, rules: Rules) -> Conjunction:
        body = rules.body(self.inputs[0])
        return Conjunction(body.literals, [body.terms[column] for column in self.columns])


@dataclass(eq=False)
class NaturalJoin(Operator):
    """The combinations of tuples of both inputs that agree in pairs of columns, projected to some columns of both."""

    pairs: tuple[tuple[int, int], ...] = ()
    columns: tuple[int, ...] = ()

    def body(self, rules: Rules) -> Conjunction:
        left, right = map(rules.body, self.inputs)
        body, first = Conjunction(left.literals + right.literals, left.terms + right.terms), len(left.terms)
        for left_column, right_column in self.pairs:
            body.equate(left_column, first + right_column)
        return Conjunction(body.literals, [body.terms[column] for column in self.columns])


@dataclass(eq=False)
class Difference(Operator):
    """The tuples of the first input that are not in the second. order: for each column of the first input, its position in the
    second.
    """

    order: tuple[int, ...] = ()

    def body(self, rules: Rules) -> Conjunction:
        body, other = rules.body(self.inputs[0]), self.inputs[1]
        args = [None] * len(self.order)
        for position, other_position in enumerate(self.order):
            args[other_position] = body.terms[position]
        return Conjunction([*body.literals, Not(Atom(rules.named(other), tuple(args)))], body.terms)


@dataclass(eq=False)
class Union(Operator):
    """The tuples of all inputs. orders: for each input, the position of each column in it."""

    orders: tuple[tuple[int, ...], ...] = ()

    def define(self, rules: Rules, name: str) -> None:
        for node, order in zip(self.inputs, self.orders, strict=True):
            body = rules.body(node)
            rules.add(name, Conjunction(body.literals, [body.terms[column] for column in order]))


@dataclass(eq=False)
class GroupBy(Operator):
    """One tuple for each group of tuples with equal `by` columns: these columns, and the result of each (op, column or None) in
    `wanted`.

        degree(x, n) :- edge(x, _), n = count : { edge(x, _) }.
    """

    by: tuple[int, ...] = ()
    wanted: tuple[tuple[str, int | None], ...] = ()

    def define(self, rules: Rules, name: str) -> None:
        source = rules.named(self.inputs[0])
        body = rules.atom(source, self.inputs[0].schema)
        # the group of no columns exists without a tuple
        groups = Conjunction(body.literals if self.by else [], [body.terms[column] for column in self.by])
        # columns that may overflow
        sums = [n for n, (op, _) in enumerate(self.wanted, len(self.by)) if op == "sum" and self.schema.kinds[n] != Kind.FLOAT]
        if sums:
            return self._with_sums(rules, name, groups, sums)
        for n, (op, column) in enumerate(self.wanted, len(self.by)):
            self._add_aggregate(rules, groups, self.schema.columns[n], op, column)
        rules.add(name, groups)

    def _add_aggregate(
        self, rules: Rules, groups: Conjunction, label: str, op: str, column: int | None, half: str = ""
    ) -> None:
        """Add a literal and a column to `groups`: the aggregate `op` of a group's tuples. half: "bshr" or "band" to aggregate
        the high or low halves of the values."""
        source = rules.named(self.inputs[0])
        args = rules.atom(source, self.inputs[0].schema).terms
        for n, place in enumerate(self.by):
            args[place] = groups.terms[n]
        target = None if column is None else args[column]
        kind = Kind.NUMBER if target is None else target.kind
        if half:
            target = Call(half, (target, Const(HALF if half == "bshr" else LOW, kind)), kind)
        result = rules.variable(label, kind)
        groups.literals = [*groups.literals, ir.Aggregate(result, op, target, (Atom(source, tuple(args)),))]
        groups.terms = [*groups.terms, result]

    def _with_sums(self, rules: Rules, name: str, groups: Conjunction, sums: list[int]) -> None:
        """Compute sums of integers from sums of the high and low halves, which do not overflow. Groups whose sum exceeds 64
        bits go to a relation in `rules.beyond`."""
        width = len(self.by)
        columns, kinds = list(self.schema.columns[:width]), list(self.schema.kinds[:width])
        for n, (op, column) in enumerate(self.wanted, width):
            label = self.schema.columns[n]
            # only sums are split
            for part, half in [(f"{label}.high", "bshr"), (f"{label}.low", "band")] if n in sums else [(label, "")]:
                columns.append(part)
                kinds.append(self.schema.kinds[n])
                self._add_aggregate(rules, groups, label, op, column, half)
        # with the halves as columns of a relation of their own, each is aggregated once for all rules below
        halves = Schema(tuple(columns), tuple(kinds))
        source = rules.declared("halves", halves)
        rules.add(source, groups)
        body = rules.atom(source, halves)
        key, parts, results = body.terms[:width], iter(body.terms[width:]), []
        for n in range(width, self.schema.arity):
            kind, result = self.schema.kinds[n], next(parts)
            if n in sums:
                high, low = result, next(parts)
                self._add_overflow_rule(rules, Conjunction(body.literals, key), high, low, n)
                result = Call("+", (Call("bshl", (high, Const(HALF, kind)), kind), low), kind)
            results.append(result)
        rules.add(name, Conjunction(body.literals, [*key, *results]))

    def _add_overflow_rule(self, rules: Rules, groups: Conjunction, high: Var, low: Var, n: int) -> None:
        """Add the rules for groups with a sum beyond 64 bits: they test the high half plus the carry of the low half. n: the
        column of the sum."""
        kind, by = self.schema.kinds[n], self.schema.pick(range(len(self.by)))
        name = rules.declared("beyond", by)
        rules.beyond[name] = self.schema.columns[n], by
        whole = Call("+", (high, Call("bshru", (low, Const(HALF, kind)), kind)), kind)
        limits = [(">=", 1 << 32)] if kind == Kind.UNSIGNED else [(">=", 1 << 31), ("<", -(1 << 31))]
        for op, limit in limits:
            rules.add(name, Conjunction([*groups.literals, Compare(op, whole, Const(limit, kind), kind)], groups.terms))
