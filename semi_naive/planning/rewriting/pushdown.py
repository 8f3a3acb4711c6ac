"""Projection and selection pushdown to the readers of facts.

    cheap(c) :- sale(_, c, a, d), d >= 3640, a < 10.

reads neither the first column of sale nor the rows before day 3640, nor those with an amount of 10 or more. So sale has three
attributes in such a program, and readers leave rows out: the row groups of a parquet file have the ranges of their values."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain

from semi_naive.planning import rewrite
from semi_naive.planning.rewriting.whole_bodies import fold_of
from semi_naive.planning.strata import is_fact
from semi_naive.ra import ir
from semi_naive.ra.pushdown import Condition, Pushdown

Bounds = dict[str, list[tuple[str, ir.Const]]]  # (operator, constant) of the comparisons of each variable
MAX_ALTERNATIVES = 16  # alternatives of a filter; with more of them all rows are read
COMPARED = {  # the operators that a range of values answers: NaN is in no range, and the order of symbols is that of their ids
    ir.Kind.NUMBER: {"=", "!=", "<", "<=", ">", ">="},
    ir.Kind.UNSIGNED: {"=", "!=", "<", "<=", ">", ">="},
    ir.Kind.FLOAT: {"<", "<="},
    ir.Kind.SYMBOL: {"=", "!="},
}


def push_down(programs: list[ir.Program], keep: set[str], given: Iterable[str]) -> tuple[list[ir.Program], dict[str, Pushdown]]:
    """Return (the programs without the attributes of facts that no rule reads, the pushdown of each relation of facts that has
    one). programs: the forms of one program that a run may evaluate; keep: relations that are wanted whole; given: those that
    get facts. Programs with loops, which read relations by other means than rules, are not changed."""
    if any(program.loops for program in programs):
        return programs, {}
    pushed = _pushed_down(programs, keep, given)
    narrow = {name: pushdown for name, pushdown in pushed.items() if len(pushdown.read) < pushdown.relation.arity}
    return [_narrowed(program, narrow) for program in programs] if narrow else programs, pushed


def _narrowed(program: ir.Program, pushed: dict[str, Pushdown]) -> ir.Program:
    """Drop the attributes of the relations in `pushed` that are not read."""

    def change(node):
        if not isinstance(node, ir.Atom) or node.relation not in pushed:
            return node
        return replace(node, args=tuple(node.args[place] for place in pushed[node.relation].read))

    def changed(rule: ir.Rule) -> ir.Rule:
        if rule.head.relation not in pushed and pushed.keys().isdisjoint(rewrite.relations_in(rule.body)):
            return rule
        return replace(rule, head=change(rule.head), body=tuple(rewrite.transform(literal, change) for literal in rule.body))

    relations = program.relations | {name: pushed[name].narrowed for name in pushed if name in program.relations}
    return replace(program, relations=relations, rules=[changed(rule) for rule in program.rules])


def _pushed_down(programs: list[ir.Program], keep: set[str], given: Iterable[str]) -> dict[str, Pushdown]:
    """Return the pushdown of each relation of facts that has one."""
    heads = {rule.head.relation for program in programs for rule in program.rules if not is_fact(rule)}
    directives = chain.from_iterable(program.directives for program in programs)
    whole = {directive.relation for directive in directives if directive.kind != "input"} | heads | keep
    relations = {name: relation for name, relation in programs[0].relations.items() if relation.plain and relation.arity}
    # where missing values are no error, all columns count
    relations = {name: relation for name, relation in relations.items() if relation.null == ir.NULL_IS_ERROR}
    readings = {name: _Reading() for name in given if name in relations and name not in whole}
    partial = dict(readings)  # those of which a further rule may read more
    for rule in chain.from_iterable(program.rules for program in programs):
        nodes = list(rewrite.walk(rule)) if partial else []
        if read := {node.relation for node in nodes if isinstance(node, ir.Atom)} & partial.keys():
            uses = Counter(node.name for node in nodes if isinstance(node, ir.Var))
            counted = any(isinstance(node, ir.Autoinc) for node in nodes) or fold_of(rule) is not None
            _read_body(rule.body, partial, uses, counted, {})
            for name in read:
                if partial[name].is_whole(relations[name]):
                    del partial[name]
    pushed = {name: reading.pushdown(relations[name]) for name, reading in readings.items()}
    return {name: part for name, part in pushed.items() if part.rows or len(part.read) < part.relation.arity}


@dataclass
class _Reading:
    """The parts of a relation that atoms read. columns: the columns; filters: conjunctions of conditions, one of which each row
    meets that is read; None if all rows are read."""

    columns: set[int] = field(default_factory=set)
    filters: set[tuple[Condition, ...]] | None = field(default_factory=set)

    def add(self, columns: Iterable[int], conditions: list[Condition]) -> None:
        """Add the columns and the conjunction of conditions that an atom reads. Without conditions, or with more than
        MAX_ALTERNATIVES filters, all rows are read."""
        self.columns.update(columns)
        if self.filters is not None:
            self.filters.add(tuple(conditions))
            if not conditions or len(self.filters) > MAX_ALTERNATIVES:
                self.filters = None

    def is_whole(self, relation: ir.Relation) -> bool:
        """True if all columns of all rows are read."""
        return self.filters is None and len(self.columns) == relation.arity

    def pushdown(self, relation: ir.Relation) -> Pushdown:
        """Return the pushdown of the relation, which reads at least one attribute."""
        # no filters: all rows
        return Pushdown(relation, tuple(sorted(self.columns or {0})), tuple(sorted(self.filters or (), key=str)))


def _read_body(body: Iterable[ir.Literal], readings: dict[str, _Reading], uses: Counter, counted: bool, bounds: Bounds) -> None:
    """Add the parts of relations that the atoms of a body read to `readings`. uses: the number of occurrences of each variable
    in the rule; counted: all columns are read, as equal bindings count; bounds: of comparisons outside the body."""
    bounds = {name: list(conditions) for name, conditions in bounds.items()}
    for literal in body:
        if isinstance(literal, ir.Compare):
            for op, left, right in literal.both_ways():
                if isinstance(left, ir.Var) and isinstance(right, ir.Const) and op in COMPARED.get(right.kind, ()):
                    bounds.setdefault(left.name, []).append((op, right))
    for literal in body:
        if isinstance(literal, ir.Aggregate):
            _read_body(literal.body, readings, uses, literal.op not in ("min", "max"), bounds)
            continue
        for atom in (node for node in rewrite.walk(literal) if isinstance(node, ir.Atom) and node.relation in readings):
            columns = [column for column, arg in enumerate(atom.args) if counted or _is_read(arg, uses)]
            conditions = [condition for column, arg in enumerate(atom.args) for condition in _conditions(column, arg, bounds)]
            readings[atom.relation].add(columns, conditions)


def _is_read(arg: ir.Term, uses: Counter) -> bool:
    """True if a rule needs the value of an argument: it is not `_`, nor a variable without another occurrence."""
    return not (isinstance(arg, ir.Wild) or isinstance(arg, ir.Var) and uses[arg.name] == 1)


def _conditions(column: int, arg: ir.Term, bounds: Bounds) -> list[Condition]:
    """Return the conditions that the argument in a column implies. bounds: of variables."""
    if isinstance(arg, ir.Const):
        return [Condition(column, "=", arg)] if "=" in COMPARED.get(arg.kind, ()) else []
    return [Condition(column, op, const) for op, const in bounds.get(arg.name, ())] if isinstance(arg, ir.Var) else []
