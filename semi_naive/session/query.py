"""Evaluate a query. The answers are the distinct values of its variables.

A query of one atom, with constants, `_`, variables, and records or branches of these, searches the relation's tuples. Any other
query is the body of a rule, which is evaluated (`registered.bodies`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np

from semi_naive.branch import Branch
from semi_naive.host.similar import unknown
from semi_naive.io.errors import BadInput
from semi_naive.io.python_data import bits_of_value
from semi_naive.io.values.bits import BUILT_IN, type_description
from semi_naive.io.values.records import NIL
from semi_naive.language import syntax
from semi_naive.language.parsing.parse import parse
from semi_naive.language.trees import walk
from semi_naive.ra.blocks.block import Block, bounds_of, snug
from semi_naive.ra.ir import Relation, Type
from semi_naive.ra.partitions.loading import blocks_of
from semi_naive.ra.partitions.partitioned import PartitionedRelation
from semi_naive.ra.values import branches
from semi_naive.ra.values.values import Known, Values
from semi_naive.running.relations.on_partitions import OnPartitions, unless_lost
from semi_naive.running.results.answers import Answer
from semi_naive.sandbox import NoFiles
from semi_naive.session.contents import EpochDatabase, TablesOnDemand, View
from semi_naive.session.facts import columns_of
from semi_naive.session.maintenance.spread import Contents
from semi_naive.session.registered.bodies import parse_query

EXPECTS = 'an atom of a query has constants, _ and variables, as in path(1, y) or name(x, "Ann")'


@dataclass
class QueryTerms:
    """The terms of an atom, a record or a branch, by place: constants in 64 bits, variables, patterns. `_` is left out."""

    constants: dict[int, int] = field(default_factory=dict)
    variables: dict[int, str] = field(default_factory=dict)
    patterns: dict[int, "RecordPattern"] = field(default_factory=dict)


@dataclass
class RecordPattern:
    """A record or branch with variables. width: its number of fields. tag: the number of the branch."""

    terms: QueryTerms
    width: int
    tag: int | None

    def opened(self, ids: np.ndarray, values) -> tuple[np.ndarray, np.ndarray]:
        """Return (matches (n,), booleans: the ids of records of this form; fields (width, m), the columns of their fields)."""
        fits = ids != NIL
        if self.tag is None:
            return fits, values.fields(ids[fits], self.width)
        tags, payloads = branches.open_(ids[fits], values)
        fits[fits] = tags == self.tag
        return fits, branches.fields(payloads[tags == self.tag], self.width, values)


@dataclass(frozen=True)
class Query:
    """A query `relation(terms)`. named: the attributes of the answers by variable, in the order of the text."""

    relation: Relation
    terms: QueryTerms
    named: dict[str, Type]
    values: Any = field(compare=False, repr=False)  # of this process, or a worker's

    @property
    def answer(self) -> Relation:
        """The relation of the answers: an attribute for each variable."""
        return Relation(self.relation.name, tuple(self.named.items()))

    def on_partitions(self, spread: OnPartitions) -> np.ndarray:
        """The answers from a relation on the partitions. A task of each reads its runs; this process does, if it sees them."""
        if spread.cluster.local:
            task = QueryRuns(self, spread.relation)
            parts = list(unless_lost(part for partition in range(spread.pieces) for part in task(partition, ())))
        else:
            values = spread.cluster.share_values(self.values) if self.terms.patterns else None
            parts = spread.cluster.jobs.job(QueryRuns(replace(self, values=values), spread.relation))
        columns = np.concatenate(parts, axis=1)
        if not len(columns):
            return columns[:, :1]
        return np.array(Block.of(list(columns), columns.shape[1]).columns(), np.int64)

    def of(self, table: Any) -> np.ndarray:
        """The answers as columns. It searches an index that begins with constants, or passes over all tuples without one."""
        columns, size = self._candidates(table)
        first: dict[str, int] = {}
        waiting = [(self.terms, 0)]  # (terms, the column of their first place)
        while waiting:
            terms, begin = waiting.pop()
            rows = np.ones(size, np.bool_)
            for place, value in terms.constants.items():
                rows &= columns[begin + place] == value
            for place, name in terms.variables.items():
                rows &= columns[begin + place] == columns[first.setdefault(name, begin + place)]
            columns, size = [column[rows] for column in columns], int(np.count_nonzero(rows))
            for place, pattern in terms.patterns.items():
                fits, fields = pattern.opened(columns[begin + place], self.values)
                columns, size = [column[fits] for column in columns], int(np.count_nonzero(fits))
                waiting.append((pattern.terms, len(columns)))
                columns += list(fields)
        found = [np.ascontiguousarray(columns[first[name]]) for name in self.named]
        if not found:
            return np.empty((0, min(1, size)), np.int64)
        return np.array(Block.of(found, size, snug(bounds_of(found))).columns(), np.int64)

    def _candidates(self, table: Any) -> tuple[list[np.ndarray], int]:
        """Return (columns in the relation's own order, their length): a superset of the matching tuples, found by an index on
        constants if there is one."""
        if not table.is_spelt and self.terms.constants:
            columns = table.beside(*next(iter(self.terms.constants.items())))
            return list(columns), columns.shape[1]
        order = max(list(table.full), key=self._bound)
        keys = [np.array([self.terms.constants[place]]) for place in order[: self._bound(order)]]
        parts = []
        for block in table.blocks("all", order):
            low, high = (int(ends[0]) for ends in block.ranges(keys, 1))
            positions = np.arange(low, high)
            parts.append([block.column(order.index(place), positions) for place in range(table.arity)])
        columns = [np.concatenate([np.empty(0, np.int64), *column]) for column in zip(*parts, strict=True)]
        if not columns:
            return [np.empty(0, np.int64)] * table.arity, table.count if not table.arity else 0
        return columns, columns[0].size

    def _bound(self, order: tuple[int, ...]) -> int:
        """The number of columns at the beginning of an order that are constants."""
        return next((number for number, place in enumerate(order) if place not in self.terms.constants), len(order))


def query_of(atom: syntax.Atom, relations: dict[str, Relation], types: dict, values: Values) -> Query:
    """Check an atom as a query of one of the relations. BadInput for a constant that is not of its attribute's type."""
    if atom.relation not in relations:
        raise BadInput(unknown("relation", atom.relation, relations))
    relation = relations[atom.relation]
    if len(atom.args) != relation.arity:
        raise BadInput(f"{relation.name} has {relation.arity} attributes, and the query has {len(atom.args)}", hint=EXPECTS)
    reading = _Reading(relation, BUILT_IN | types, Known(values), {})
    return Query(relation, reading.terms(atom.args, relation.attributes), reading.named, values)


@dataclass
class _Reading:
    """Reads the terms of one query. named: the variables read so far, with the type of the attribute where each first
    occurred.
    """

    relation: Relation
    types: dict
    known: Known
    named: dict[str, Type]

    def terms(self, args: tuple, attributes) -> QueryTerms:
        """The terms at the places of attributes, (name, type)."""
        made = QueryTerms()
        for place, (term, (name, type_)) in enumerate(zip(args, attributes, strict=True)):
            if isinstance(term, syntax.Variable):
                made.variables[place] = term.name
                self.named.setdefault(term.name, type_)
            elif any(isinstance(each, (syntax.Variable, syntax.Underscore)) for each in walk(term)):
                if not isinstance(term, syntax.Underscore):
                    made.patterns[place] = self.pattern(term, name, type_)
            else:
                made.constants[place] = self.bits(term, name, type_)
        return made

    def bits(self, term, name: str, type_: Type) -> int:
        return bits_of_value(_value(term), (name, type_), self.relation.name, self.types, self.known)

    def pattern(self, term, name: str, type_: Type) -> RecordPattern:
        """Return a term with variables, which is a record or a branch of a type, as a pattern. name: the attribute, for
        errors."""
        tag, fields = None, type_.fields
        if isinstance(term, syntax.BranchInit):
            tag = next((number for number, each in enumerate(type_.branches) if each.name == term.name), None)
            fields = () if tag is None else type_.branches[tag].fields
        elif not isinstance(term, syntax.RecordInit):
            raise BadInput("a query computes nothing", "<query>", hint=EXPECTS)
        if len(fields) != len(term.args) or (tag is None) == bool(type_.branches):
            message = f"{name} is a {type_.name}, and this is none"
            raise BadInput(message, f"{self.relation.name}.{name}", hint=f"expected {type_description(type_)}")
        inner = [(field, self.types[of]) for field, of in fields]
        return RecordPattern(self.terms(term.args, inner), len(fields), tag)


def fact(text: str) -> tuple[str, tuple]:
    """The relation and the values of an atom of constants.

    >>> fact('name([1, nil], "Ann")')
    ('name', ((1, None), 'Ann'))
    """
    atom = atom_of(text)
    return atom.relation, tuple(map(_value, atom.args))


def atom_of(text: str) -> syntax.Atom:
    """Parse an atom. ProgramError or BadInput for any other text."""
    statements = parse(f"{text.strip().removesuffix('.')}.", "<query>", sandbox=NoFiles()).statements
    atoms = statements[0].heads if len(statements) == 1 and isinstance(statements[0], syntax.Clause) else ()
    if len(atoms) != 1 or statements[0].body is not None:
        raise BadInput(f"{text.strip()!r} is no query", hint=EXPECTS)
    return atoms[0]


def _value(term):
    """The Python value of a constant."""
    if isinstance(term, syntax.Number | syntax.String):
        return term.value
    if isinstance(term, syntax.Nil):
        return None
    if isinstance(term, syntax.RecordInit):
        return tuple(map(_value, term.args))
    if isinstance(term, syntax.BranchInit):
        return Branch(term.name, *map(_value, term.args))
    raise BadInput("a query computes nothing", "<query>", hint=EXPECTS)


@dataclass
class QueryRuns:
    """A task that answers from its partition's runs of a relation."""

    asking: Query
    relation: PartitionedRelation

    def __call__(self, partition, records):
        yield self.asking.of(_Runs(self.relation, partition))


@dataclass
class _Runs:
    """A partition's runs (sorted blocks) of a relation, in one order, with the interface of a table."""

    relation: PartitionedRelation
    partition: int
    is_spelt = True

    @property
    def arity(self) -> int:
        return self.relation.arity

    @property
    def full(self) -> tuple:
        return (self.relation.home.order,)

    def blocks(self, part: str, order) -> list[Block]:
        return list(blocks_of(self.relation, self.partition, order))


def answers(session: Any, text: str, parameters: dict) -> Answer:
    """The answers to a query: see `Session.query`."""
    asked = parse_query(text)
    if isinstance(asked, syntax.Atom):
        return answers_to_atom(session, asked, text, parameters)
    with session.limited(), session.in_turn(), session.registry.registered_body(text) as name:
        return answers_to_rules(session, name, parameters)


def answers_to_rules(session: Any, name: str, parameters: dict) -> Answer:
    """All tuples of a relation of registered rules, in an open turn."""
    with session.registry.contents_of(name, parameters) as (relation, table):
        return answer_of(session, relation, partial(columns_of, table))


def answers_to_atom(session: Any, atom: syntax.Atom, text: str, parameters: dict, owner: str | None = None) -> Answer:
    """The answers to a query of one atom. text: the query as written; owner: see `System.table`. Of a relation that is not
    evaluated, only those tuples are computed for which the constants ask."""
    session.check_open()
    session.registry.check_waiting(atom.relation)
    name, types, values = atom.relation, session.upkeep.program.types, session.upkeep.values
    with session.limited():
        if session.is_there(name):
            asked = query_of(atom, session.relations, types, values)
            session.registry.parameter_key(name, parameters)
            return _answer_query(session, asked, session.at(session.epoch).contents(name))
        with session.in_turn():
            if not parameters and session.registry.answers_on_demand(name):
                asked = query_of(atom, {name: session.registry.relation(name)}, types, values)
                if asked.terms.constants:
                    with session.registry.registered_body(text) as body, session.registry.contents_of(body, {}) as (_, table):
                        return answer_of(session, asked.answer, partial(columns_of, table))
            with session.registry.contents_of(name, parameters, owner) as (relation, table):
                return _answer_query(session, query_of(atom, {name: relation}, types, values), table)


def everything(session: Any, name: str, parameters: dict, owner: str | None = None) -> Answer:
    """All tuples of a relation now; registered rules are evaluated for this if no subscriber needs them."""
    session.registry.check_waiting(name)
    if session.is_there(name):
        session.registry.parameter_key(name, parameters)
        return session[name]
    with session.limited(), session.in_turn(), session.registry.contents_of(name, parameters, owner) as (relation, table):
        return answer_of(session, relation, partial(columns_of, table))


def answer_of(session: Any, relation: Relation, columns: Callable[[], np.ndarray], values: Values | None = None) -> Answer:
    """Return an answer of tuples that the session does not store. columns: makes their columns (arity, n). values: the symbols
    and records that these have ids of, if not the session's."""
    held = EpochDatabase({relation.name: relation}, TablesOnDemand({relation.name: columns}))
    return Answer(cast(Any, View({relation.name: relation}, held, session, own=values)), relation.name)


def _answer_query(session: Any, asked: Query, contents: Contents) -> Answer:
    columns = asked.on_partitions(contents) if isinstance(contents, OnPartitions) else asked.of(contents)
    return answer_of(session, asked.answer, lambda: columns)
