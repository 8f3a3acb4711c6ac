"""Proofs as somebody reads them: each tuple with the rule that makes it, what that rule met, and where it is written."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from semi_naive.branch import Branch
from semi_naive.io.bits import BUILT_IN
from semi_naive.io.errors import BadInput
from semi_naive.io.python_data import bits_of_value
from semi_naive.planning import rewrite
from semi_naive.planning.magic import is_adorned
from semi_naive.provenance.instances import Instance, InstanceRule, Instances, Node, Row
from semi_naive.provenance.search import NotFound, Search
from semi_naive.ra.rules.changes import plain as settled
from semi_naive.ra.rules.ir import Aggregate, Atom, Compare, Const, Kind, Not, Range, Relation, Rule, Truth, Type, Var, Wild
from semi_naive.ra.rules.table import Table, snapshot
from semi_naive.ra.rules.values import Known, Values
from semi_naive.running.python_values import nested_values

INDENT = "   "


@dataclass(frozen=True, eq=False)
class Proof:
    """A tuple of a relation, and why it is there: the `rule` that makes it, None for a fact, of the `premises`, which are
    proofs in their turn; `conditions`: what else the rule asks for, with the values of here. Two proofs may share one."""

    relation: str
    tuple: tuple
    rule: str | None = None
    place: str = ""  # file:line:column of the rule
    premises: tuple["Proof", ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def height(self) -> int:
        """0 for a fact, else one more than the highest premise."""
        heights: dict[int, int] = {}
        for each in reversed(self._below()):
            below = [heights[id(premise)] for premise in each.premises]
            heights[id(each)] = 0 if each.rule is None else 1 + max(below, default=0)
        return heights[id(self)]

    def _below(self) -> list["Proof"]:
        """It and all below, each once, and before its premises."""
        done: dict[int, Proof] = {}
        waiting: list[tuple[Proof, bool]] = [(self, False)]
        while waiting:
            each, through = waiting.pop()
            if through:
                done[id(each)] = each
            elif id(each) not in done:
                waiting.append((each, True))
                waiting += [(premise, False) for premise in each.premises if id(premise) not in done]
        return list(done.values())[::-1]

    def to_text(self, depth: int | None = None) -> str:
        """One line for each tuple, its premises below it; what was shown above is not shown again. depth: how many levels."""
        lines: list[str] = []
        shown: set[int] = set()
        waiting = [(self, 0)]
        while waiting:
            each, level = waiting.pop()
            first = f"{INDENT * level}{each.atom}"
            if each.rule is None:
                lines.append(f"{first}   [fact]")
            elif id(each) in shown:
                lines.append(f"{first}   [as above]")
            elif depth is not None and level >= depth:
                lines.append(f"{first}   […]")
            else:
                shown.add(id(each))
                lines.append(f"{first}   [{each.rule}]")
                lines += [f"{INDENT * (level + 1)}{condition}" for condition in each.conditions]
                waiting += [(premise, level + 1) for premise in reversed(each.premises)]
        return "\n".join(lines)

    @property
    def atom(self) -> str:
        return f"{self.relation}({', '.join(map(_written, self.tuple))})"

    def to_dict(self) -> dict:
        """Of dictionaries and lists, as JSON has them; a proof that is shared is there more than once."""
        made: dict[int, dict] = {}
        for each in reversed(self._below()):
            found: dict[str, Any] = {"relation": each.relation, "tuple": _listed(each.tuple)}
            if each.rule is not None:
                found |= {"rule": each.rule, "place": each.place, "premises": [made[id(one)] for one in each.premises],
                          "conditions": list(each.conditions)}  # fmt: skip
            made[id(each)] = found
        return made[id(self)]

    def to_json(self, **options) -> str:
        return json.dumps(self.to_dict(), **options)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<Proof of {self.atom}, height {self.height}>"


@dataclass(frozen=True)
class Failure:
    """A rule that does not make a tuple: the first part of its body that nothing fits, after the parts before it; `example`:
    values of variables that fit those."""

    rule: str
    place: str
    part: str
    example: str = ""

    def __str__(self) -> str:
        return f"{self.rule}\n{INDENT}{self.part}{f'   with {self.example}' if self.example else ''}"


@dataclass(frozen=True)
class WhyNot:
    """Why a tuple is not there: what each rule for its relation lacks."""

    relation: str
    tuple: tuple
    failures: tuple[Failure, ...]

    def __str__(self) -> str:
        head = f"{self.relation}({', '.join(map(_written, self.tuple))})"
        if not self.failures:
            return f"{head} is no fact, and no rule makes tuples of {self.relation}"
        return f"{head} is not there:\n" + "\n".join(map(str, self.failures))


@dataclass
class Why:
    """Answers for one state of a program's relations. given: the explicit facts of relations that have rules, too."""

    program: Any
    tables: dict[str, Any]
    values: Values
    given: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        self.given = {name: settled(snapshot(table)) for name, table in self.given.items()}
        self.tables = self.tables | {name: self._on_demand(name) for name in self.program.relations.keys() - self.tables.keys()}
        self.instances = Instances(self.program, self.tables, self.values)
        self.types = BUILT_IN | self.program.types

    def _on_demand(self, name: str) -> Table:
        """What has been computed of a relation for those who asked for some of it."""
        found = Table(self.program.relations[name].arity)
        for each, table in self.tables.items():
            if is_adorned(each, name):
                found.insert(table.columns(), table.count)
        found.settle()
        return found

    def why(self, name: str, row) -> Proof:
        """A proof of least height. ValueError if the tuple is not there, or has none."""
        relation, node = self._node(name, row)
        if not self._is_there(node):
            raise ValueError(f"{Proof(name, tuple(row)).atom} is not there; why_not tells what it lacks")
        try:
            return self._proof(node, Search(self.instances, self._is_fact).proven(node))
        except NotFound:
            told = f"{Proof(name, tuple(row)).atom} has no proof of tuples that are there now"
            raise ValueError(f"{told}: a value that has been superseded was in it") from None

    def why_not(self, name: str, row) -> WhyNot:
        """What each rule lacks. ValueError if the tuple is there."""
        relation, node = self._node(name, row)
        if self._is_there(node):
            raise ValueError(f"{Proof(name, tuple(row)).atom} is there; why tells how it came about")
        rules = [rule for rule in self.program.rules if rule.head.relation == name and rule.body]
        return WhyNot(name, tuple(row), tuple(self._failure(rule, node[1], tuple(row)) for rule in rules))

    # -- from Python's values to bits, and back

    def _node(self, name: str, row) -> tuple[Relation, Node]:
        relations = self.program.relations
        if name not in relations:
            raise KeyError(f"{name!r}: there is {', '.join(sorted(relations))}")
        relation, row = relations[name], tuple(row)
        if len(row) != relation.arity:
            raise BadInput(f"{name} has {relation.arity} attributes, and the tuple has {len(row)}", hint="give all of them")
        known, pairs = Known(self.values), zip(row, relation.attributes, strict=True)
        bits = [bits_of_value(value, attribute, name, self.types, known) for value, attribute in pairs]
        return relation, (name, tuple(bits))

    def _python(self, relation: Relation, rows: list[Row]) -> list[tuple]:
        if not relation.arity:
            return [() for _ in rows]
        columns = np.array(rows, np.int64).reshape(len(rows), relation.arity).T
        found = (
            nested_values(np.ascontiguousarray(column), type_, self.types, self.values)
            for column, (_, type_) in zip(columns, relation.attributes, strict=True)
        )
        return list(zip(*found, strict=True))

    # -- what is there

    def _is_there(self, node: Node) -> bool:
        return _has(self.tables[node[0]], node[1])

    def _is_fact(self, node: Node) -> bool:
        name, row = node
        known = name not in self.instances.asked or node in self.instances.facts
        return known or (name in self.given and _has(self.given[name], row))

    # -- what is told

    def _proof(self, node: Node, found: dict[Node, Instance | None]) -> Proof:
        rows: dict[str, list[Row]] = {}
        for name, row in found:
            rows.setdefault(name, []).append(row)
        python = {
            (name, row): values
            for name, some in rows.items()
            for row, values in zip(some, self._python(self.program.relations[name], some), strict=True)
        }
        made: dict[Node, Proof] = {}
        waiting = [node]
        while waiting:
            each, instance = waiting[-1], found[waiting[-1]]
            missing = [premise for premise in instance.premises if premise not in made] if instance else []
            waiting += missing
            if not missing:
                made[waiting.pop()] = self._made(each, instance, python[each], made)
        return made[node]

    def _made(self, node: Node, instance: Instance | None, values: tuple, made: dict[Node, Proof]) -> Proof:
        if instance is None:
            return Proof(node[0], values)
        rule, bound = instance.asked.of, self._bound(instance.asked, instance.values)
        known = (_with(part, bound) for part in rule.body if not isinstance(part, Atom))
        conditions = tuple(str(part) for part in known if not (isinstance(part, Compare) and part.left == part.right))
        premises = tuple(made[premise] for premise in instance.premises)
        return Proof(node[0], values, rule.text or str(rule), _place(rule), premises, conditions)

    def _bound(self, asked: InstanceRule, values: Row) -> dict[str, Const]:
        """Constants of variables, but for those that are records, whose types only attributes know."""
        kept = [
            (variable, bits) for variable, bits in zip(asked.variables, values, strict=True) if variable.kind != Kind.RECORD
        ]
        shape = Relation("", tuple((each.name, Type(each.kind.value, each.kind)) for each, _ in kept))
        [found] = self._python(shape, [tuple(bits for _, bits in kept)])
        return {each.name: Const(value, each.kind) for (each, _), value in zip(kept, found, strict=True)}

    def _failure(self, rule: Rule, row: Row, values: tuple) -> Failure:
        """The first literal of a rule, in an order in which their variables are known, that leaves nothing."""
        body, bound = _ordered(rule), _of_head(rule.head, values)
        failure = Failure(rule.text or str(rule), _place(rule), f"its head is {rule.head}")
        for length in range(len(body) + 1):
            found = self._some(replace(rule, head=_loose(rule.head, body[:length]), body=(*body[:length], Truth(True))), row)
            if found is None:
                shown = {name: value for name, value in bound.items() if not name.startswith("?") and "@" not in name}
                example = ", ".join(f"{name} = {value}" for name, value in shown.items())
                return replace(failure, part=_lack(_with(body[length - 1], bound)), example=example) if length else failure
            bound |= found
        return replace(failure, part=f"its head is {_with(rule.head, bound)} then")

    def _some(self, rule: Rule, row: Row) -> dict[str, Const] | None:
        """The values of the variables in an instance of a rule that makes a tuple; None if there is none."""
        instances = Instances(replace(self.program, rules=[rule]), self.tables, self.values)
        found = next(iter(instances.of(rule.head.relation, [row])), None)
        return None if found is None else self._bound(found[1].asked, found[1].values)


def _of_head(head: Atom, values: tuple) -> dict[str, Const]:
    """The values that a tuple gives to variables of a head."""
    pairs = zip(head.args, values, strict=True)
    return {each.name: Const(value, each.kind) for each, value in pairs if isinstance(each, Var) and each.kind != Kind.RECORD}


def _has(table, row: Row) -> bool:
    """Whether a settled table has a tuple: a search in each block."""
    if not row:
        return table.count > 0
    order = next(iter(getattr(table, "full", ())), tuple(range(len(row))))  # one that it is sorted in
    for block in table.blocks("all", order):
        lows, highs = block.ranges([np.array([row[place]]) for place in order], 1)
        if highs[0] > lows[0]:
            return True
    return False


def _ordered(rule: Rule) -> list:
    """The literals of a body, each after those that bind what it needs."""
    left, found, bound = list(rule.body), [], set[str]()
    while left:
        ready = next((part for part in left if isinstance(part, Atom) or _is_ready(part, rule, bound)), left[0])
        left.remove(ready)
        found.append(ready)
        bound |= rewrite.variables_of(ready).keys()
    return found


def _is_ready(part, rule: Rule, bound: set[str]) -> bool:
    """Whether a literal can be looked at when some variables are bound."""
    if isinstance(part, Compare) and part.op == "=":
        return any(rewrite.variables_of(side).keys() <= bound for side in (part.left, part.right))
    inside = rewrite.variables_of(part).keys() - {part.result.name if isinstance(part, Range | Aggregate) else ""}
    if isinstance(part, Aggregate):
        others = [rule.head, *(other for other in rule.body if other is not part)]
        inside &= rewrite.variables_of(others).keys()
    return inside <= bound


def _loose(head: Atom, body: list) -> Atom:
    """The head as far as it has variables that some literals bind, and constants."""
    bound = {term.name for part in body for term in rewrite.walk(part) if isinstance(term, Var)}
    fixed = (isinstance(term, Const) or isinstance(term, Var) and term.name in bound for term in head.args)
    return replace(head, args=tuple(term if keep else Wild() for term, keep in zip(head.args, fixed, strict=True)))


def _lack(part) -> str:
    if isinstance(part, Atom):
        return f"there is no {part}"
    return f"there is {part.atom}" if isinstance(part, Not) else f"it is not so that {part}"


def _with(part, bound: dict[str, Const]):
    """A literal with constants in place of variables, but for the result of an aggregate's own variables."""
    return rewrite.transform(part, lambda node: bound.get(node.name, node) if isinstance(node, Var) else node)


def _place(rule: Rule) -> str:
    return f"{rule.span.file}:{rule.span.line}:{rule.span.column}" if rule.span is not None else ""


def _written(value) -> str:
    """A value as programs have it."""
    if value is None:
        return "nil"
    if isinstance(value, Branch):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _listed(value):
    """As JSON has it; a branch is its text."""
    if isinstance(value, Branch):
        return str(value)
    return [*map(_listed, value)] if isinstance(value, tuple) else value
