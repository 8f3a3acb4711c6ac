"""Find the rule instances that derive given tuples, from the relations of a result.

For `path(x, z) :- path(x, y), edge(y, z).` the following rule derives the instances that make the tuples of `path:`:

    path:0(x, z, x, y, z) :- path:(x, z), path(x, y), edge(y, z).

The head's terms come first, then all variables of the rule. So nothing is recorded while a program runs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, repeat
from typing import Any

import numpy as np

from semi_naive.io.relations import columns_table
from semi_naive.planning import rewrite
from semi_naive.planning.joins.indexes import Indexes
from semi_naive.planning.rewriting.inline import copies
from semi_naive.planning.strata import Stratum
from semi_naive.provenance.sums import with_written_heads
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import (
    Aggregate,
    Atom,
    Autoinc,
    Compare,
    Const,
    Kind,
    Program,
    Relation,
    Rule,
    Term,
    Type,
    Var,
    Wild,
)
from semi_naive.ra.loops import Loop
from semi_naive.ra.values.values import Values
from semi_naive.running.driver.local import Local
from semi_naive.running.progress.profile import Profile
from semi_naive.running.relations.database import Database
from semi_naive.running.relations.on_partitions import OnPartitions, Remade, unless_lost

Row = tuple[int, ...]  # a tuple in 64 bits each
Node = tuple[str, Row]
UNNAMED = "?:"  # the prefix of variables that stand for `_`


@dataclass(frozen=True, eq=False)
class InstanceRule:
    """A rule and the rule that derives its instances.

    written: the rule of the program; expanded: the same with inlined atoms replaced by the bodies of their rules.
    number: its number among the rules of its relation, from 1.
    rule: derives the instances: the head's terms, then the `variables`.
    """

    written: Rule
    expanded: Rule
    number: int
    rule: Rule
    variables: tuple[Var, ...]
    atoms: tuple[Atom, ...]  # the positive atoms as written, without `_`
    free: frozenset[int]  # positions of the head that match any value
    implicit: bool = False  # True for the rules of `equivalence_rules` and `birth_rule`

    @property
    def text(self) -> str:
        """The text of the written rule."""
        return self.written.text or str(self.written)


@dataclass(eq=False, slots=True)
class Instance:
    """A rule with a value for each of its variables. premises: the tuples that match its positive atoms."""

    instance_rule: InstanceRule
    values: Row
    premises: tuple[Node, ...]


class Instances:
    """The instances of a program's written rules over the tables of a result. An inlined relation has no tuples; its rules are
    evaluated for the tuples that other rules need.

    tables: by relation; a missing one is empty. They are not changed.
    spread: relations on the partitions, which are collected when their tuples are searched.

    rules: the `InstanceRule`s of each relation. facts: the facts in the program's text. inlined: the inlined relations.
    database: the tables, and for each relation `name:` and each rule `name:number`, which `_InstanceEvaluation` fills.
    """

    def __init__(self, program: Program, tables: dict[str, Any], values: Values, spread: dict[str, Any] | None = None):
        program = with_written_heads(program)
        program = replace(program, rules=[after_rounds(rule, program.loops) for rule in program.rules])
        relations = dict(program.relations)
        implicit = [rule for relation in relations.values() for rule in (*equivalence_rules(relation), *birth_rule(relation))]
        named = [with_names(rule, relations) for rule in program.rules]
        # the bodies of inlined relations replace their atoms, before the rules that derive instances are made
        copies_of_rules, self.inlined = copies(replace(program, rules=named))
        written = dict(zip(map(id, named), program.rules, strict=True))  # the program's rule of each in `named`
        undetermined = (Var, Autoinc, Wild)
        bodiless = [rule for rule in named if not rule.body]
        facts = [rule for rule in bodiless if not any(isinstance(part, undetermined) for part in rewrite.walk(rule.head))]
        ids_of_facts = {id(rule) for rule in facts}
        expansions = [(rule, copy) for rule, copies_ in copies_of_rules if id(rule) not in ids_of_facts for copy in copies_]
        self.rules: dict[str, list[InstanceRule]] = {}
        for number, (rule, copy) in enumerate([*expansions, *zip(implicit, implicit, strict=True)]):
            name = rule.head.relation
            rules = self.rules.setdefault(name, [])
            entry = instance_rule(copy, len(rules) + 1, f"{name}:{number}", relations, name in self.inlined)
            atoms = tuple(literal for literal in rule.body if isinstance(literal, Atom))
            entry = replace(entry, written=written.get(id(rule), rule), atoms=atoms, implicit=number >= len(expansions))
            rules.append(entry)
            relations[entry.rule.head.relation] = relation_of_terms(entry.rule.head.relation, [*entry.rule.head.args])
        for name in self.rules:  # `name:` holds the tuples whose instances are derived: a plain set
            bare = replace(relations[name], lattice=None, choice=(), joins=(), qualifiers=frozenset())
            relations[f"{name}:"] = replace(bare, name=f"{name}:")
        self.database = Database(replace(program, relations=relations), values)
        self.database.on_partitions = {name: entry for name, entry in (spread or {}).items() if name in program.relations}
        in_process = program.relations.keys() - self.database.on_partitions.keys()
        in_tables = {name: snapshot(tables[name]) if name in tables else self.database.tables[name] for name in in_process}
        self.database.tables = CollectedTables(self.database.on_partitions, in_tables)
        self.facts = {node for rule in facts for node in self._tuples_of_atom(rule.head, {}, 1)}
        all_rules = [entry.rule for entries in self.rules.values() for entry in entries]
        indexes = Indexes({name: relation.arity for name, relation in relations.items()})
        stratum = Stratum(tuple(rule.head.relation for rule in all_rules), all_rules, recursive=False)
        self._local = _InstanceEvaluation(stratum, 0, self.database, indexes, Profile())

    def of(self, name: str, rows: Iterable[Row]) -> Iterator[tuple[Row, Instance]]:
        """Yield (tuple, instance) for each instance that derives one of some tuples of a relation."""
        searched = set(rows)
        for entry in self.rules.get(name, []):
            columns, size = self._local.evaluated(entry, f"{name}:", searched)
            arity = len(entry.written.head.args)
            heads = _rows_of_columns(columns[:arity], size)
            bound = dict(zip((variable.name for variable in entry.variables), columns[arity:], strict=True))
            matched_tuples = [self._tuples_of_atom(atom, bound, size) for atom in entry.atoms]
            premises = list(zip(*matched_tuples, strict=True)) if matched_tuples else [()] * size
            instances = map(partial(Instance, entry), _rows_of_columns(columns[arity:], size), premises)
            for head, instance in zip(heads, instances, strict=True):
                if entry.free:
                    yield from ((row, instance) for row in _matching_heads(head, entry.free, searched))
                elif head in searched:  # a computed term is searched as `_`, which finds other heads, too
                    yield head, instance

    def _tuples_of_atom(self, atom: Atom, bound: dict[str, np.ndarray], size: int) -> list[Node]:
        """Return the tuple that an atom denotes for each of `size` bindings. bound: a column of values for each variable."""
        rows = _rows_of_columns([evaluate(term, bound, size, self.database.values) for term in atom.args], size)
        return list(zip(repeat(atom.relation), rows, strict=False))


def after_rounds(rule: Rule, loops: tuple[Loop, ...]) -> Rule:
    """Return a rule of a loop as it holds after the last round: it reads final relations, and no atoms of the current round."""
    final_names = {known: name for loop in loops for known, name in loop.pairs}
    current_round = {name for loop in loops for name in loop.now}

    def after_last_round(node):
        if isinstance(node, Atom) and node.relation in final_names:
            return replace(node, relation=final_names[node.relation])
        body = node.body if isinstance(node, Rule | Aggregate) else ()
        rest = tuple(literal for literal in body if not (isinstance(literal, Atom) and literal.relation in current_round))
        return replace(node, body=rest) if len(rest) < len(body) else node

    return rewrite.transform(rule, after_last_round) if loops else rule


class CollectedTables(dict):
    """Tables by relation. A relation on the partitions is fetched on first use: runs that this process can see in place, others
    by collecting them once."""

    def __init__(self, spread: dict[str, Any], tables: dict[str, Any]):
        super().__init__(tables)
        self.spread = spread

    def __missing__(self, name: str) -> Table:
        """Collect the table of a relation on the partitions to this process."""
        if name not in self.spread:
            raise KeyError(name)
        self[name] = table = collected_table(self.spread[name])
        return table


def collected_table(spread: OnPartitions | Remade | Table) -> Table:
    """Return the table of a relation on the partitions, or of one whose tuples are derived on demand."""
    if isinstance(spread, Table):
        return snapshot(spread)
    if isinstance(spread, OnPartitions) and spread.cluster.local:
        relation = spread.relation
        indexes = [index for index in relation.indexes if len(index.order) == relation.arity]
        full = {index.order: list(unless_lost(run.open() for runs in index.full for run in runs)) for index in indexes}
        return Table.of(relation.arity, relation.home.order, full, [])
    return columns_table(spread.columns())


class _InstanceEvaluation(Local):
    """An evaluation of one instance rule at a time, whose plans are cached."""

    charges_for_indexes = True  # building one of a large relation takes longer than the searches of a proof in it

    def evaluated(self, entry: InstanceRule, name: str, rows: set[Row]) -> tuple[list[np.ndarray], int]:
        """Derive the instances of a rule for some tuples. Return (columns (size,) of the head's terms and the variables, size).
        name: the relation that receives the tuples and that the rule's first atom reads."""
        rule, tables = entry.rule, self.database.tables
        tuples = tables[name] = Table(self.indexes.arities[name])
        tuples.insert(list(np.array(sorted(rows), np.int64).reshape(len(rows), tuples.arity).T), len(rows))
        tuples.advance()
        derived = tables[rule.head.relation] = Table(len(rule.head.args))
        self.tables = {rule.head.relation: derived}
        self._plan([(rule, 0, {0: "delta"}, 0)])  # the first atom, `name:`, has only a delta: the given tuples
        self._derive(rule, 0, {0: "delta"}, 0)
        derived.settle()
        return [np.ascontiguousarray(column) for column in derived.columns()], derived.count


def with_names(rule: Rule, relations: dict[str, Relation]) -> Rule:
    """Return the rule with variables in place of `_` in its positive atoms."""
    return replace(rule, body=tuple(_without_wildcards(literal, place, relations) for place, literal in enumerate(rule.body)))


def instance_rule(rule: Rule, number: int, name: str, relations: dict[str, Relation], inlined: bool = False) -> InstanceRule:
    """Return the `InstanceRule` of a rule. number: its number among the rules of its relation; name: the relation of the
    instances; inlined: the head may have variables that the body has not.

    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> number = ("", Type("number", Kind.NUMBER))
    >>> known = {name: Relation(name, (number, number)) for name in "pe"}
    >>> print(instance_rule(Rule(Atom("p", (x, z)), (Atom("p", (x, y)), Atom("e", (Wild(), z)))), 1, "p:0", known).rule)
    p:0(x, z, x, z, y, ?::1_0) :- p:(x, z), p(x, y), e(?::1_0, z).
    """
    # not the names of `with_names`, which it may have
    body = tuple(_without_wildcards(literal, place, relations, "?::") for place, literal in enumerate(rule.body))
    atoms = tuple(literal for literal in body if isinstance(literal, Atom))
    # a counter's values of the run are not known: its equations are dropped, and the variable is bound by the head's tuple
    counting = [literal for literal in body if isinstance(literal, Compare) and _is_counter_equation(literal)]
    body = tuple(literal for literal in body if literal not in counting)
    counted = {side.name for literal in counting for side in (literal.left, literal.right) if isinstance(side, Var)}
    bound = counted | {term.name for term in rewrite.walk(atoms) if isinstance(term, Var)}
    free = {place for place, term in enumerate(rule.head.args) if isinstance(term, Autoinc | Wild)}
    patterns = tuple(
        term if isinstance(term, Const) or isinstance(term, Var) and (inlined or term.name in bound) else Wild()
        for term in rule.head.args
    )
    # a free column's 0 is not compared: `_matching_heads`
    terms = tuple(Const(0, Kind.NUMBER) if place in free else term for place, term in enumerate(rule.head.args))
    searched = Atom(f"{rule.head.relation}:", patterns)
    variables = tuple(dict.fromkeys(_outer_variables((searched, *body))))
    deriving = replace(rule, head=Atom(name, (*terms, *variables)), body=(searched, *body), plan=None, join="binary")
    return InstanceRule(rule, rule, number, deriving, variables, atoms, frozenset(free))


def equivalence_rules(relation: Relation) -> list[Rule]:
    """Return the rules by which a relation is an equivalence; none if it is not declared as one.

    >>> number = ("", Type("number", Kind.NUMBER))
    >>> print(*equivalence_rules(Relation("e", (number, number), frozenset({"eqrel"}))))
    e(x, x) :- e(x, y). e(y, x) :- e(x, y). e(x, z) :- e(x, y), e(y, z).
    """
    if not relation.eqrel:
        return []
    x, y, z = (Var(name, relation.kinds[0]) for name in "xyz")
    name = relation.name
    pair = Atom(name, (x, y))
    reflexive, symmetric = Rule(Atom(name, (x, x)), (pair,)), Rule(Atom(name, (y, x)), (pair,))
    transitive = Rule(Atom(name, (x, z)), (pair, Atom(name, (y, z))))
    return [replace(rule, text=f"{rule} (eqrel)") for rule in (reflexive, symmetric, transitive)]


def birth_rule(relation: Relation) -> list[Rule]:
    """Return the rule of a relation that records the births of another one's tuples (`debug_delta`); [] for others."""
    if not relation.follows or relation.is_iteration:
        return []
    (recorded,) = relation.follows
    variables = tuple(Var(f"x{place}", kind) for place, kind in enumerate(relation.kinds[:-1]))
    head, text = Atom(relation.name, (*variables, Wild())), f".decl {relation.name} = debug_delta({recorded})"
    return [Rule(head, (Atom(recorded, variables),), span=relation.span, text=text)]


def relation_of_terms(name: str, terms: list[Term]) -> Relation:
    """Return a relation whose attributes have the types of some terms."""
    kinds = [getattr(term, "kind", Kind.NUMBER) for term in terms]
    return Relation(name, tuple((f"a{place}", Type(kind.value, kind)) for place, kind in enumerate(kinds)))


def _without_wildcards(literal, place: int, relations: dict[str, Relation], prefix: str = UNNAMED):
    """Return a positive atom with variables in place of `_`, so that an instance has their values; another literal unchanged.
    place: its position in the body, which makes the names of the variables unique."""
    if not isinstance(literal, Atom):
        return literal
    kinds = relations[literal.relation].kinds
    args = (Var(f"{prefix}{place}_{i}", kinds[i]) if isinstance(term, Wild) else term for i, term in enumerate(literal.args))
    numbers = count()

    def named(node):
        """Return a variable for `_` inside of a record, where the kind of a field does not matter."""
        return Var(f"{prefix}{place}.{next(numbers)}", Kind.NUMBER) if isinstance(node, Wild) else node

    return Atom(literal.relation, tuple(rewrite.transform(term, named) for term in args))


def _is_counter_equation(literal: Compare) -> bool:
    """True for `n = autoinc()`, whose instances cannot be found."""
    return isinstance(literal.left, Autoinc) or isinstance(literal.right, Autoinc)


def _outer_variables(body: Iterable) -> Iterator[Var]:
    """Yield the variables of literals, except those local to an aggregate."""
    for literal in body:
        if isinstance(literal, Aggregate):
            yield literal.result
        else:
            yield from (term for term in rewrite.walk(literal) if isinstance(term, Var))


def _rows_of_columns(columns: list[np.ndarray], size: int) -> list[Row]:
    """Return columns (size,) as `size` rows, which are empty if there are no columns."""
    return list(zip(*(column.tolist() for column in columns), strict=True)) if columns else [()] * size


def _matching_heads(head: Row, free: frozenset[int], rows: set[Row]) -> list[Row]:
    """Return the rows that agree with a head in all columns but the free ones."""
    fixed = [place for place in range(len(head)) if place not in free]
    return [row for row in rows if all(row[place] == head[place] for place in fixed)]
