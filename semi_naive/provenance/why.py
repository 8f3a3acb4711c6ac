"""`Result.why` and `why_not`: explanations of tuples, computed from the relations of a run."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

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

    given: explicit facts of relations with rules.
    spread: relations on the partitions.
    alone: a context in which no other thread numbers records.
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
        """Prepare the tables in which proofs are searched for."""
        self.program = with_whole_steps(self.program)
        self.given = {name: settled(snapshot(table)) for name, table in self.given.items()}
        missing = self.program.relations.keys() - self.tables.keys() - self.spread.keys()
        tables = self.tables | {name: self._on_demand(name) for name in missing}
        self.instances = Instances(self.program, tables, self.values, self.spread)
        self.tables = self.instances.database.tables | {name: table for name, table in tables.items() if name in missing}
        self.types = BUILT_IN | self.program.types
        self.paths: dict[str, Paths | None] = {}
        self.variables_of: dict[tuple[int, ...], dict[str, Type]] = {}  # for each tuple of rule ids, the types of the variables

    def _on_demand(self, name: str) -> Table:
        """The tuples of a relation that were computed for queries."""
        found = Table(self.program.relations[name].arity)
        for each in [each for each in self.tables.keys() | self.spread.keys() if is_adorned(each, name)]:
            table = collected_table(self.spread[each]) if each in self.spread else self.tables[each]
            found.insert(table.columns(), table.count)
        found.settle()
        return found

    def _paths(self, name: str) -> Paths | None:
        """The `Paths` of a relation, if it is a closure."""
        if name not in self.paths:
            self.paths[name] = paths_of(self.program.relations[name], self.instances, self.given)
        return self.paths[name]

    def why(self, name: str, row) -> Proof:
        """Return a proof of least height. Raises ValueError if the tuple is absent, or has no proof. For a pair of a closure it
        takes as long as following the edges from one vertex: 10 ms with 21 M pairs."""
        node = self._node(name, row)
        paths = self._paths(name)
        found = paths.proven(node) if paths else None
        if found:
            return self._proof(node, found)
        if paths or not self._is_there(node):
            raise ValueError(f"{atom(name, tuple(row))} is not there; why_not tells what it lacks")
        try:
            return self._proof(node, Search(self.instances, self._is_fact).proven(node))
        except NoProof:
            told = f"{atom(name, tuple(row))} has no proof of tuples that are there now"
            if self.program.relations[name].joins:
                raise ValueError(f"{told}: it is the least upper bound of several that rules have made") from None
            raise ValueError(f"{told}: a value that has been superseded was in it") from None

    def why_not(self, name: str, row) -> WhyNot:
        """The failure of each rule. Raises ValueError if the tuple is present."""
        node = self._node(name, row)
        if self._is_there(node):
            raise ValueError(f"{atom(name, tuple(row))} is there; why tells how it came about")
        bits = self._numbered(name, row)
        return WhyNot(name, tuple(row), tuple(self._failure(one, bits, tuple(row)) for one in self.rules(name)))

    def absent(self, name: str, row) -> bool:
        """True if a tuple is absent."""
        return not self._is_there(self._node(name, row))

    def some(self, name: str, number: int) -> list[tuple]:
        """About `count` tuples of a relation, spread over it."""
        columns = self.tables[name].columns()
        size = self.tables[name].count
        places = np.arange(0, size, max(1, size // number))
        return self._python(
            self.program.relations[name], list(zip(*(column[places].tolist() for column in columns), strict=True))
        )

    def rules(self, name: str) -> list[InstanceRule]:
        """The rules of a relation in their order, without the generated ones of an equivalence relation."""
        return [one for one in self.instances.asked.get(name, ()) if not one.closes]

    # -- conversion of Python values to bits, and back

    def _node(self, name: str, row, made: bool = False) -> Node:
        """Return (relation name, tuple as 64-bit values). made: records that do not exist get ids, so that rules can unpack
        them."""
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
        known: Any = self.values if made else Known(self.values)
        pairs = zip(row, relation.attributes, strict=True)
        return name, tuple(bits_of_value(value, attribute, name, self.types, known) for value, attribute in pairs)

    def _numbered(self, name: str, row) -> Row:
        """Return a tuple as 64-bit values. Its records get ids, as rules may unpack them."""
        if Kind.RECORD not in self.program.relations[name].kinds:
            return self._node(name, row)[1]
        with self.alone():
            return self._node(name, row, made=True)[1]

    def _python(self, relation: Relation, rows: list[Row]) -> list[tuple]:
        """Return rows of 64-bit values as tuples of Python values."""
        if not relation.arity:
            return [() for _ in rows]
        columns = np.array(rows, np.int64).reshape(len(rows), relation.arity).T
        found = (
            nested_values(np.ascontiguousarray(column), type_, self.types, self.values)
            for column, (_, type_) in zip(columns, relation.attributes, strict=True)
        )
        return list(zip(*found, strict=True))

    # -- tests of presence

    def _is_there(self, node: Node) -> bool:
        """True if a tuple is in its relation."""
        if paths := self._paths(node[0]):
            return paths.proven(node) is not None
        if node[0] in self.instances.inlined:
            return self._is_fact(node) or any(True for _ in self.instances.of(node[0], [node[1]]))
        return _contains_tuple(self.tables[node[0]], node[1])

    def _is_fact(self, node: Node) -> bool:
        """True if a tuple is a fact, or belongs to a relation without rules."""
        name, row = node
        known = name not in self.instances.asked or node in self.instances.facts
        return known or (name in self.given and _contains_tuple(self.given[name], row))

    # -- the parts of an answer

    def _proof(self, node: Node, found: dict[Node, Instance | None]) -> Proof:
        """Return the proof of a tuple. found: an instance for each tuple of the proof, or None for a fact."""
        rows: dict[str, list[Row]] = {}
        for name, row in found:
            rows.setdefault(name, []).append(row)
        python = {
            (name, row): values
            for name, rows_of_name in rows.items()
            for row, values in zip(rows_of_name, self._python(self.program.relations[name], rows_of_name), strict=True)
        }
        made: dict[Node, Proof] = {}
        waiting = [node]
        while waiting:
            current, instance = waiting[-1], found[waiting[-1]]
            missing = [premise for premise in instance.premises if premise not in made] if instance else []
            waiting += missing
            if not missing:
                made[waiting.pop()] = self._made(current, instance, python[current], made)
        return made[node]

    def _made(self, node: Node, instance: Instance | None, values: tuple, made: dict[Node, Proof]) -> Proof:
        """Return the proof of a tuple from the proofs of its premises, `made`. values: the tuple's Python values."""
        if instance is None:
            return Proof(node[0], values)
        rule, bound = instance.asked.of, self._bound(instance.asked, instance.values)
        premises = iter(instance.premises)
        body = (made[next(premises)] if isinstance(part, Atom) else _instantiate(part, bound) for part in rule.body)
        premises_and_tests = [self._told(part) for part in body if not _says_nothing(part)]
        if node[0] in self.program.sums:
            premises_and_tests = [*aggregated_from(self.program, node[0], values), *premises_and_tests]
        return Proof(node[0], values, instance.asked.text, _rule_place(rule), instance.asked.number, tuple(premises_and_tests))

    def _told(self, part) -> Proof | str:
        """Return a premise as a proof, or another literal as text."""
        if not isinstance(part, Proof):
            return str(as_written(part, self.program.relations))
        if part.relation in self.named:
            pairs = zip(self.named[part.relation], part.tuple, strict=True)
            return ", ".join(f"${name} = {in_program(value)}" for name, value in pairs)
        return f"{ITERATION_NUMBER}() = {part.tuple[0]}" if part.relation.endswith("@iteration") else part

    def _bound(self, asked: InstanceRule, values: Row) -> dict[str, Const]:
        """The constants of an instance's variables."""
        names = (variable.name for variable in asked.variables)
        return self._known((asked.of, asked.made), dict(zip(names, values, strict=True)))

    def _failure(self, asked: InstanceRule, row: Row, values: tuple) -> Failure:
        """The first literal of a rule that nothing matches, in an order that binds its variables."""
        rule, walk = asked.made, BodyWalk(asked.made, self.instances.database, self._paths)
        start = walk.start(row)
        if start is None:
            return Failure(asked.text, _rule_place(rule), f"its head is {rule.head}")
        walked = walk.walked(start)
        bound = self._constants(rule, walked.bound, _of_head(rule.head, values))
        shown = {name: value for name, value in bound.items() if not name.startswith(UNNAMED) and "@" not in name}
        example = ", ".join(f"{name} = {value}" for name, value in shown.items())
        if walked.missing is None:
            rival = self._rival(rule.head.relation, row)
            return Failure(asked.text, _rule_place(rule), rival or f"its head is {_instantiate(rule.head, bound)} then")
        missing = as_written(_instantiate(walked.missing, bound), self.program.relations)
        return Failure(asked.text, _rule_place(rule), _lack(missing), example)

    def _rival(self, name: str, row: Row) -> str:
        """Return text: the tuple that a choice or a best value has kept instead; "" if there is none."""
        relation = self.program.relations[name]
        keys = relation.keys
        if name in self.program.sums:
            keys = (tuple(place for place in range(relation.arity) if place not in self.program.sums[name][0]),)
        for key in keys:
            order = *key, *(place for place in range(relation.arity) if place not in key)
            for block in self.tables[name].blocks("all", order):
                lows, highs = block.ranges([np.array([row[place]]) for place in key], 1)
                if highs[0] > lows[0]:
                    bits = tuple(int(block.column(order.index(place), lows)[0]) for place in range(relation.arity))
                    [kept] = self._python(relation, [bits])
                    names = ", ".join(relation.attributes[place][0] for place in key)
                    alike = f" with the same {names}" if key else ""
                    return f"of tuples{alike} there is one, and that is {atom(name, kept)}"
        return "another tuple subsumes it, or did when it was made" if relation.dominated else ""

    # -- failing rules, literal by literal

    def variables(self, name: str, number: int) -> list[Var]:
        """The variables in the body of a rule and not in its head, without records and computed ones."""
        rule = self.rules(name)[number - 1].made
        outside = names_of_variables(rule.head) | {
            part.result.name for part in rule.body if isinstance(part, Range | Aggregate)
        }
        found = [term for part in rule.body if isinstance(part, Atom) for term in rewrite.walk(part) if isinstance(term, Var)]
        named = [term for term in dict.fromkeys(found) if not term.name.startswith(UNNAMED)]
        return [term for term in named if term.name not in outside and term.kind != Kind.RECORD]

    def examined(self, name: str, row, number: int, given: dict[str, Any]) -> list[tuple[str, bool]]:
        """The literals of a rule for a tuple, each with whether it holds for the given values of variables; other variables get
        values from a walk along the rule. Raises ValueError if the head does not match."""
        bits = self._numbered(name, row)
        rule = self.rules(name)[number - 1].made
        walk, known, said = (
            BodyWalk(rule, self.instances.database, self._paths),
            Known(self.values),
            _of_head(rule.head, tuple(row)),
        )
        if (start := walk.start(bits)) is None:
            raise ValueError(f"the rule's head is {rule.head}, which is not {atom(name, tuple(row))}")
        for variable in self.variables(name, number):
            if variable.name in given:
                of = variable.name, BUILT_IN[variable.kind.value]
                start[variable.name] = bits_of_value(given[variable.name], of, name, self.types, known)
                said[variable.name] = ShownConstant(given[variable.name], variable.kind)
        told = walk.told(walk.walked(start).bound)
        parts = ((_instantiate(literal, self._constants(rule, bound, said)), holds) for literal, holds, bound in told)
        return [(str(as_written(part, self.program.relations)), holds) for part, holds in parts]

    def _constants(self, rule: Rule, bound: dict[str, int], said: dict[str, Const]) -> dict[str, Const]:
        """Return the values of variables, given as 64 bits, as constants. said: values that the user gave, which may be symbols
        that no tuple has."""
        return said | self._known((rule,), {name: value for name, value in bound.items() if name not in said})

    def _known(self, rules: tuple[Rule, ...], bound: dict[str, int]) -> dict[str, Const]:
        """Constants of the variables of rules, without records of unknown types."""
        key = tuple(map(id, rules))
        if key not in self.variables_of:
            self.variables_of[key] = types_of_variables(rules, self.instances.database.program.relations, self.types)
        types = self.variables_of[key]
        shape = Relation("", tuple((name, types[name]) for name in bound if name in types))
        [values] = self._python(shape, [tuple(bound[name] for name, _ in shape.attributes)])
        return {name: ShownConstant(value, of.kind) for (name, of), value in zip(shape.attributes, values, strict=True)}


class ShownConstant(Const):
    """A constant in a proof, printed as in a program; it may be a record or a branch."""

    def __str__(self):
        return in_program(self.value)


def _of_head(head: Atom, values: tuple) -> dict[str, Const]:
    """The values that a tuple gives to the head's variables, without records, which have several forms."""
    pairs = zip(head.args, values, strict=True)
    return {
        each.name: ShownConstant(value, each.kind)
        for each, value in pairs
        if isinstance(each, Var) and each.kind != Kind.RECORD
    }


def _contains_tuple(table, row: Row) -> bool:
    """True if a settled table has a tuple: a search in each block."""
    if not row:
        return table.count > 0
    order = next(iter(getattr(table, "full", ())), tuple(range(len(row))))  # one that it is sorted in
    for block in table.blocks("all", order):
        lows, highs = block.ranges([np.array([row[place]]) for place in order], 1)
        if highs[0] > lows[0]:
            return True
    return False


def _lack(part) -> str:
    """Return text: which literal of a rule does not hold."""
    if isinstance(part, Atom):
        return f"there is no {part}"
    if isinstance(part, Compare) and isinstance(part.left, Call) and part.left.op == ITERATION_NUMBER:
        return f"no iteration has the number {part.right}"
    return f"there is {part.atom}" if isinstance(part, Not) else f"it is not so that {part}"


def _instantiate(part, bound: dict[str, Const]):
    """Return a literal with constants in place of variables, except those local to an aggregate, and `_` for unnamed variables.
    A record of constants is one constant."""

    def known(node):
        if isinstance(node, Var):
            return bound.get(node.name, Wild() if node.name.startswith(UNNAMED) else node)
        if isinstance(node, Const):
            return ShownConstant(node.value, node.kind)
        if isinstance(node, Pack) and all(isinstance(arg, Const) for arg in node.args):
            fields = [cast(Const, arg).value for arg in node.args]
            return ShownConstant(Branch(node.branch, *fields) if node.branch else tuple(fields), Kind.RECORD)
        return node

    return rewrite.transform(part, known)


def _says_nothing(part) -> bool:
    """True for a trivial equality, as of a variable that is an alias."""
    return isinstance(part, Compare) and part.left == part.right


def _rule_place(rule: Rule) -> str:
    return f"{rule.span.file}:{rule.span.line}:{rule.span.column}" if rule.span is not None else ""
