"""`Result.why` and `why_not`: explanations of tuples, computed from the relations of a run."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from semi_naive.branch import Branch
from semi_naive.host.numbers import quantity
from semi_naive.host.similar import UnknownName, unknown
from semi_naive.io.errors import BadInput
from semi_naive.io.python_data import bits_of_value
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.planning import rewrite
from semi_naive.planning.joins.body import names_of_variables
from semi_naive.planning.rewriting.magic import is_adorned
from semi_naive.planning.spoken import ITERATION_NUMBER, as_written
from semi_naive.provenance.closures import Paths, paths_of
from semi_naive.provenance.instances import UNNAMED, Instance, InstanceRule, Instances, Node, Row, collected_table
from semi_naive.provenance.proofs import Failure, Proof, WhyNot, atom
from semi_naive.provenance.proofs import value_text as in_program
from semi_naive.provenance.search import NoProof, Search
from semi_naive.provenance.stepwise import with_whole_steps
from semi_naive.provenance.sums import aggregated_from
from semi_naive.provenance.variables import types_of_variables
from semi_naive.provenance.walk import BodyWalk
from semi_naive.ra.blocks.changes import settled_copy as settled
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.ir import (
    Aggregate,
    Atom,
    Call,
    Compare,
    Const,
    Kind,
    Not,
    Pack,
    Program,
    Range,
    Relation,
    Rule,
    Type,
    Var,
    Wild,
)
from semi_naive.ra.values.values import Known, Values
from semi_naive.running.results.python_values import nested_values


@dataclass
class Why:
    """Explanations for one state of a program's relations.

    tables, spread: relations in this process, and on the partitions.
    given: explicit facts of relations with rules.
    alone: returns a context in which no other thread numbers records.
    named: relations whose single tuple has the values of parameters, with the parameters' names.
    """

    program: Program
    tables: dict[str, Any]
    values: Values
    given: dict[str, Any] = field(default_factory=dict)
    spread: dict[str, Any] = field(default_factory=dict)
    alone: Callable[[], AbstractContextManager] = nullcontext
    named: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self):
        """Open the tables, and make the rules that find instances. paths: by relation, the results of `_paths` so far."""
        self.program = with_whole_steps(self.program)
        self.given = {name: settled(snapshot(table)) for name, table in self.given.items()}
        missing = self.program.relations.keys() - self.tables.keys() - self.spread.keys()
        tables = self.tables | {name: self._on_demand(name) for name in missing}
        self.instances = Instances(self.program, tables, self.values, self.spread)
        self.tables = self.instances.database.tables
        self.types = BUILT_IN | self.program.types
        self.paths: dict[str, Paths | None] = {}
        self.variables_of: dict[tuple[int, ...], dict[str, Type]] = {}  # for each tuple of rule ids, the types of the variables

    def _on_demand(self, name: str) -> Table:
        """Return the tuples of a relation that were derived on demand: the union of its adorned relations (magic sets)."""
        union = Table(self.program.relations[name].arity)
        for adorned in self.tables.keys() | self.spread.keys():
            if is_adorned(adorned, name):
                table = collected_table(self.spread[adorned]) if adorned in self.spread else self.tables[adorned]
                union.insert(table.columns(), table.count)
        union.settle()
        return union

    def _paths(self, name: str) -> Paths | None:
        """Return the `Paths` of a relation, None if it is no closure."""
        if name not in self.paths:
            self.paths[name] = paths_of(self.program.relations[name], self.instances, self.given)
        return self.paths[name]

    def why(self, name: str, row) -> Proof:
        """Return a proof of least height. Raises ValueError if the tuple is absent, or has no proof. For a pair of a closure it
        takes as long as following the edges from one vertex: 10 ms with 21 M pairs."""
        node = self._node(name, row)
        paths = self._paths(name)
        tuples = paths.proven(node) if paths else None
        if tuples:
            return self._proof(node, tuples)
        if paths or not self._is_present(node):
            raise ValueError(f"{atom(name, tuple(row))} is not there; why_not tells what it lacks")
        try:
            return self._proof(node, Search(self.instances, self._is_fact).proven(node))
        except NoProof:
            message = f"{atom(name, tuple(row))} has no proof of tuples that are there now"
            if self.program.relations[name].joins:
                raise ValueError(f"{message}: it is the least upper bound of several that rules have made") from None
            raise ValueError(f"{message}: a value that has been superseded was in it") from None

    def why_not(self, name: str, row) -> WhyNot:
        """Return the failure of each rule. Raises ValueError if the tuple is present."""
        if self._is_present(self._node(name, row)):
            raise ValueError(f"{atom(name, tuple(row))} is there; why tells how it came about")
        bits = self._bits(name, row)
        return WhyNot(name, tuple(row), tuple(self._failure(rule, bits, tuple(row)) for rule in self.rules(name)))

    def absent(self, name: str, row) -> bool:
        """True if a relation lacks a tuple of Python values. Raises as `_node`."""
        return not self._is_present(self._node(name, row))

    def sample(self, name: str, number: int) -> list[tuple]:
        """Return about `number` tuples of a relation, at equal distances in its table."""
        columns = self.tables[name].columns()
        size = self.tables[name].count
        places = np.arange(0, size, max(1, size // number))
        rows = list(zip(*(column[places].tolist() for column in columns), strict=True))
        return self._python(self.program.relations[name], rows)

    def rules(self, name: str) -> list[InstanceRule]:
        """Return the rules of a relation in their order, without implicit ones."""
        return [rule for rule in self.instances.rules.get(name, ()) if not rule.implicit]

    # -- conversion of Python values to bits, and back

    def _node(self, name: str, row, new_records: bool = False) -> Node:
        """Return (relation name, tuple as 64-bit values). Raises UnknownName, or BadInput for a tuple that does not fit.
        new_records: records that do not exist get ids."""
        relations = self.program.relations
        if name not in relations:
            raise UnknownName(unknown("relation", name, relations))
        relation = relations[name]
        if isinstance(row, str) or not isinstance(row, Iterable):
            raise BadInput(
                f"{row!r} is not a tuple of {name}",
                hint=f"it has {quantity(relation.arity, 'value')}: ({', '.join(n for n, _ in relation.attributes)})",
            )
        row = tuple(row)
        if len(row) != relation.arity:
            raise BadInput(f"{name} has {relation.arity} attributes, and the tuple has {len(row)}", hint="give all of them")
        values: Any = self.values if new_records else Known(self.values)
        pairs = zip(row, relation.attributes, strict=True)
        return name, tuple(bits_of_value(value, attribute, name, self.types, values) for value, attribute in pairs)

    def _bits(self, name: str, row) -> Row:
        """Return a tuple as 64-bit values. New records in it get ids, as rules may unpack them."""
        if Kind.RECORD not in self.program.relations[name].kinds:
            _, bits = self._node(name, row)
            return bits
        with self.alone():
            _, bits = self._node(name, row, new_records=True)
        return bits

    def _python(self, relation: Relation, rows: list[Row]) -> list[tuple]:
        """Return rows of 64-bit values as tuples of Python values."""
        if not relation.arity:
            return [() for _ in rows]
        columns = np.array(rows, np.int64).reshape(len(rows), relation.arity).T
        values = (
            nested_values(np.ascontiguousarray(column), type_, self.types, self.values)
            for column, (_, type_) in zip(columns, relation.attributes, strict=True)
        )
        return list(zip(*values, strict=True))

    # -- tests of presence

    def _is_present(self, node: Node) -> bool:
        """True if a tuple is in its relation."""
        name, row = node
        if paths := self._paths(name):
            return paths.proven(node) is not None
        if name in self.instances.inlined:
            return self._is_fact(node) or any(True for _ in self.instances.of(name, [row]))
        return _contains_tuple(self.tables[name], row)

    def _is_fact(self, node: Node) -> bool:
        """True if a tuple is a fact, or belongs to a relation without rules."""
        name, row = node
        if name not in self.instances.rules or node in self.instances.facts:
            return True
        return name in self.given and _contains_tuple(self.given[name], row)

    # -- the parts of an answer

    def _proof(self, node: Node, instances: dict[Node, Instance | None]) -> Proof:
        """Return the proof of a tuple. instances: an instance for each tuple of the proof, or None for a fact."""
        rows: dict[str, list[Row]] = {}
        for name, row in instances:
            rows.setdefault(name, []).append(row)
        values_of = {
            (name, row): values
            for name, rows_of_name in rows.items()
            for row, values in zip(rows_of_name, self._python(self.program.relations[name], rows_of_name), strict=True)
        }
        proofs: dict[Node, Proof] = {}
        stack = [node]
        while stack:
            current, instance = stack[-1], instances[stack[-1]]
            missing = [premise for premise in instance.premises if premise not in proofs] if instance else []
            stack += missing
            if not missing:
                proofs[stack.pop()] = self._proof_of_instance(current[0], instance, values_of[current], proofs)
        return proofs[node]

    def _proof_of_instance(self, name: str, instance: Instance | None, values: tuple, proofs: dict[Node, Proof]) -> Proof:
        """Return the proof of a relation's tuple (Python values) from the proofs of its instance's premises."""
        if instance is None:
            return Proof(name, values)
        rule = instance.instance_rule
        names = (variable.name for variable in rule.variables)
        bound = self._as_constants((rule.written, rule.expanded), dict(zip(names, instance.values, strict=True)))
        premises = iter(instance.premises)
        body = (proofs[next(premises)] if isinstance(part, Atom) else _instantiate(part, bound) for part in rule.written.body)
        # the equation of a variable and its alias becomes one of equal sides
        shown = [self._body_part(part) for part in body if not (isinstance(part, Compare) and part.left == part.right)]
        if name in self.program.sums:
            shown = [*aggregated_from(self.program, name, values), *shown]
        return Proof(name, values, rule.text, _rule_place(rule.written), rule.number, tuple(shown))

    def _body_part(self, part) -> Proof | str:
        """Return a part of a proof's body: a premise as its proof, another literal as text. A premise that gives the values of
        parameters, or the number of the iteration, is text, too."""
        if not isinstance(part, Proof):
            return str(as_written(part, self.program.relations))
        if part.relation in self.named:
            pairs = zip(self.named[part.relation], part.tuple, strict=True)
            return ", ".join(f"${name} = {in_program(value)}" for name, value in pairs)
        return f"{ITERATION_NUMBER}() = {part.tuple[0]}" if part.relation.endswith("@iteration") else part

    def _failure(self, instance_rule: InstanceRule, row: Row, values: tuple) -> Failure:
        """Return the reason why a rule does not derive a tuple: its head, its first literal without a match, or another tuple
        that was kept instead. row, values: the tuple in 64 bits and as Python values."""
        rule = instance_rule.expanded
        walk = BodyWalk(rule, self.instances.database, self._paths)
        failure = partial(Failure, instance_rule.text, _rule_place(rule))
        start = walk.start(row)
        if start is None:
            return failure(f"its head is {rule.head}")
        end = walk.up_to_failure(start)
        bound = self._constants(rule, end.bound, _constants_of_head(rule.head, values))
        if end.missing is None:
            rival = self._rival(rule.head.relation, row)
            return failure(rival or f"its head is {_instantiate(rule.head, bound)} then")
        missing = as_written(_instantiate(end.missing, bound), self.program.relations)
        shown = {name: value for name, value in bound.items() if not name.startswith(UNNAMED) and "@" not in name}
        return failure(_failure_text(missing), ", ".join(f"{name} = {value}" for name, value in shown.items()))

    def _rival(self, name: str, row: Row) -> str:
        """Return text about the tuple that a choice, a best value or a subsumption has kept instead of a tuple; "" if none."""
        relation = self.program.relations[name]
        keys = relation.keys
        if name in self.program.sums:
            aggregated, *_ = self.program.sums[name]  # the aggregate of each column that has one
            keys = (tuple(place for place in range(relation.arity) if place not in aggregated),)
        for key in keys:
            order = *key, *(place for place in range(relation.arity) if place not in key)
            for block in self.tables[name].blocks("all", order):
                lows, highs = block.ranges([np.array([row[place]]) for place in key], 1)
                if highs[0] > lows[0]:  # the absent tuple's key is there, with another value
                    bits = tuple(int(block.column(order.index(place), lows)[0]) for place in range(relation.arity))
                    [kept] = self._python(relation, [bits])
                    names = ", ".join(relation.attributes[place][0] for place in key)
                    same_key = f" with the same {names}" if key else ""
                    return f"of tuples{same_key} there is one, and that is {atom(name, kept)}"
        return "another tuple subsumes it, or did when it was made" if relation.dominated else ""

    # -- failing rules, literal by literal

    def variables(self, name: str, rule_number: int) -> list[Var]:
        """Return the variables of a relation's rule whose values a user may choose: those of the atoms in its body that are not
        in its head, without records and results of aggregates and ranges. rule_number: from 1 on, as in `rules`."""
        rule = self.rules(name)[rule_number - 1].expanded
        results = {part.result.name for part in rule.body if isinstance(part, Range | Aggregate)}
        fixed = names_of_variables(rule.head) | results
        terms = [term for part in rule.body if isinstance(part, Atom) for term in rewrite.walk(part)]
        named = [term for term in dict.fromkeys(terms) if isinstance(term, Var) and not term.name.startswith(UNNAMED)]
        return [term for term in named if term.name not in fixed and term.kind != Kind.RECORD]

    def examined(self, name: str, row, rule_number: int, chosen: dict[str, Any]) -> list[tuple[str, bool]]:
        """Return (literal as text, True if it holds) for each literal of a relation's rule, in its order, if the rule is to
        derive a tuple of Python values. Raises ValueError if the head does not match.

        rule_number: from 1 on, as in `rules`. chosen: Python values of some of the `variables`. The others get values that
        satisfy the literals up to the first that fails.
        """
        head_bits = self._bits(name, row)
        rule = self.rules(name)[rule_number - 1].expanded
        walk = BodyWalk(rule, self.instances.database, self._paths)
        if (bound_at_start := walk.start(head_bits)) is None:
            raise ValueError(f"the rule's head is {rule.head}, which is not {atom(name, tuple(row))}")
        # The walk takes values as bits; the text has the user's own values, as a symbol that no tuple has cannot be decoded.
        known, from_user = Known(self.values), _constants_of_head(rule.head, tuple(row))
        for variable in self.variables(name, rule_number):
            if variable.name in chosen:
                attribute = variable.name, BUILT_IN[variable.kind.value]
                bound_at_start[variable.name] = bits_of_value(chosen[variable.name], attribute, name, self.types, known)
                from_user[variable.name] = ShownConstant(chosen[variable.name], variable.kind)
        # The first walk takes literals as their inputs get bound, and finds values; the second tests all literals as written.
        bound_until_failure = walk.up_to_failure(bound_at_start).bound
        examined = []
        for literal, holds, bound in walk.each_literal(bound_until_failure):
            part = _instantiate(literal, self._constants(rule, bound, from_user))
            examined.append((str(as_written(part, self.program.relations)), holds))
        return examined

    def _constants(self, rule: Rule, bound: dict[str, int], from_user: dict[str, Const]) -> dict[str, Const]:
        """Return the values of variables, given as 64 bits, as constants. from_user: values that the user gave, which may be
        symbols that no tuple has."""
        return from_user | self._as_constants((rule,), {name: bits for name, bits in bound.items() if name not in from_user})

    def _as_constants(self, rules: tuple[Rule, ...], bound: dict[str, int]) -> dict[str, Const]:
        """Return the values of the variables of rules, given as 64 bits, as constants, without records of unknown types."""
        key = tuple(map(id, rules))  # `instances` keeps the rules alive, so that no id is used twice
        if key not in self.variables_of:
            self.variables_of[key] = types_of_variables(rules, self.instances.database.program.relations, self.types)
        types = self.variables_of[key]
        typed = [(name, types[name]) for name in bound if name in types]
        [values] = self._python(Relation("", tuple(typed)), [tuple(bound[name] for name, _ in typed)])
        return {name: ShownConstant(value, type_.kind) for (name, type_), value in zip(typed, values, strict=True)}


class ShownConstant(Const):
    """A constant in a proof, printed as in a program; it may be a record or a branch."""

    def __str__(self):
        return in_program(self.value)


def _constants_of_head(head: Atom, values: tuple) -> dict[str, Const]:
    """Return the values that a tuple of Python values gives to the head's variables; none of records, which have many forms."""
    variables = [(term, value) for term, value in zip(head.args, values, strict=True) if isinstance(term, Var)]
    return {term.name: ShownConstant(value, term.kind) for term, value in variables if term.kind != Kind.RECORD}


def _contains_tuple(table: Any, row: Row) -> bool:
    """True if a settled table has a tuple: a search in each block."""
    if not row:
        return table.count > 0
    # an order that its blocks are sorted in already: another one would have to be made
    order = next(iter(getattr(table, "full", ())), tuple(range(len(row))))
    for block in table.blocks("all", order):
        lows, highs = block.ranges([np.array([row[place]]) for place in order], 1)
        if highs[0] > lows[0]:
            return True
    return False


def _failure_text(part) -> str:
    """Return text: which literal of a rule does not hold."""
    if isinstance(part, Atom):
        return f"there is no {part}"
    if isinstance(part, Compare) and isinstance(part.left, Call) and part.left.op == ITERATION_NUMBER:
        return f"no iteration has the number {part.right}"
    return f"there is {part.atom}" if isinstance(part, Not) else f"it is not so that {part}"


def _instantiate(part, bound: dict[str, Const]):
    """Return a literal with constants in place of variables, except those local to an aggregate, and `_` for unnamed variables.
    A record of constants is one constant."""

    def instantiated(node):
        if isinstance(node, Var):
            return bound.get(node.name, Wild() if node.name.startswith(UNNAMED) else node)
        if isinstance(node, Const):
            return ShownConstant(node.value, node.kind)
        if isinstance(node, Pack) and all(isinstance(arg, Const) for arg in node.args):
            fields = tuple(arg.value for arg in node.args if isinstance(arg, Const))
            record: Any = Branch(node.branch, *fields) if node.branch else fields
            return ShownConstant(record, Kind.RECORD)
        return node

    return rewrite.transform(part, instantiated)


def _rule_place(rule: Rule) -> str:
    """Return `file:line:column` of a rule; "" for a generated rule."""
    return f"{rule.span.file}:{rule.span.line}:{rule.span.column}" if rule.span is not None else ""
