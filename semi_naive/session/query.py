"""Answer queries. The answers are the distinct values of the variables of a query.

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
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.packings import bounds_of, snug
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
    """The terms of an atom, a record or a branch, by place: constants in 64 bits, names of variables, and patterns. No `_`."""

    constants: dict[int, int] = field(default_factory=dict)
    variables: dict[int, str] = field(default_factory=dict)
    patterns: dict[int, "RecordPattern"] = field(default_factory=dict)


@dataclass
class RecordPattern:
    """A record or branch with variables or `_`. width: its number of fields. tag: the number of a branch, or None."""

    terms: QueryTerms
    width: int
    tag: int | None

    def match(self, ids: np.ndarray, values: Any) -> tuple[np.ndarray, np.ndarray]:
        """Match n ids of records. Return (booleans (n,), fields (width, m) of m matching records). values: see `Query`."""
        matches = ids != NIL
        if self.tag is None:
            return matches, values.fields(ids[matches], self.width)
        tags, payloads = branches.tags_and_payloads(ids[matches], values)
        matches[matches] = tags == self.tag  # of the records that are not nil
        return matches, branches.fields(payloads[tags == self.tag], self.width, values)


@dataclass(frozen=True)
class Query:
    """A query `relation(terms)`. variables: the types of its variables, in the order of the text."""

    relation: Relation
    terms: QueryTerms
    variables: dict[str, Type]
    values: Any = field(compare=False, repr=False)  # the symbols and records of this process, or those that a worker reads

    @property
    def answer_relation(self) -> Relation:
        """The relation of the answers, with an attribute for each variable."""
        return Relation(self.relation.name, tuple(self.variables.items()))

    def search_partitions(self, spread: OnPartitions) -> np.ndarray:
        """Return the answers from a relation on the partitions, as `search` does. If all runs are on this host, this process
        reads them; otherwise a task on each partition reads its runs."""
        if spread.cluster.local:
            task = SearchRuns(self, spread.relation)
            answers_of_partitions = list(unless_lost(part for place in range(spread.pieces) for part in task(place, ())))
        else:
            values = spread.cluster.share_values(self.values) if self.terms.patterns else None
            answers_of_partitions = spread.cluster.jobs.job(SearchRuns(replace(self, values=values), spread.relation))
        columns = np.concatenate(answers_of_partitions, axis=1)
        if not len(columns):  # a query without variables has one answer or none
            return columns[:, :1]
        return np.array(Block.of(list(columns), columns.shape[1]).columns(), np.int64)

    def search(self, table: Any) -> np.ndarray:
        """Return the distinct answers from a table, as columns (number of variables, n). Search an index that begins with
        constants of the query; if there is none, read all tuples. table: a `Table` or `_RunsAsTable`."""
        columns, size = self._candidates(table)
        column_of: dict[str, int] = {}  # the first column of each variable
        unmatched = [(self.terms, 0)]  # (terms, the column of their first place)
        while unmatched:
            terms, begin = unmatched.pop()
            matches = np.ones(size, np.bool_)
            for place, value in terms.constants.items():
                matches &= columns[begin + place] == value
            for place, name in terms.variables.items():
                matches &= columns[begin + place] == columns[column_of.setdefault(name, begin + place)]
            columns, size = [column[matches] for column in columns], int(np.count_nonzero(matches))
            for place, pattern in terms.patterns.items():
                matches, fields = pattern.match(columns[begin + place], self.values)
                columns, size = [column[matches] for column in columns], int(np.count_nonzero(matches))
                unmatched.append((pattern.terms, len(columns)))
                columns += list(fields)
        answers = [np.ascontiguousarray(columns[column_of[name]]) for name in self.variables]
        if not answers:  # a query without variables has one answer or none
            return np.empty((0, min(1, size)), np.int64)
        return np.array(Block.of(answers, size, snug(bounds_of(answers))).columns(), np.int64)

    def _candidates(self, table: Any) -> tuple[list[np.ndarray], int]:
        """Return (columns in the relation's own order, their length) of a superset of the matching tuples: those that an index
        finds by constants, or all tuples if no index begins with a constant."""
        if not table.is_spelt and self.terms.constants:  # a closure represented by its edges: a graph search finds its pairs
            place, value = next(iter(self.terms.constants.items()))
            columns = table.pairs_with(place, value)
            return list(columns), columns.shape[1]
        order = max(list(table.full), key=self._constant_prefix)
        keys = [np.array([self.terms.constants[place]]) for place in order[: self._constant_prefix(order)]]
        parts = []
        for block in table.blocks("all", order):
            low, high = (int(ends[0]) for ends in block.ranges(keys, 1))
            positions = np.arange(low, high)
            parts.append([block.column(order.index(place), positions) for place in range(table.arity)])
        columns = [np.concatenate([np.empty(0, np.int64), *column]) for column in zip(*parts, strict=True)]
        if not columns:  # there is no block, or the relation is nullary, of which blocks have no columns
            return [np.empty(0, np.int64)] * table.arity, table.count if not table.arity else 0
        return columns, columns[0].size

    def _constant_prefix(self, order: tuple[int, ...]) -> int:
        """Return the number of columns at the beginning of an order for which the query has constants."""
        return next((number for number, place in enumerate(order) if place not in self.terms.constants), len(order))


def query_of(atom: syntax.Atom, relations: dict[str, Relation], types: dict, values: Values) -> Query:
    """Convert an atom to a query of one of the relations. Raises BadInput for an unknown relation, a wrong number of terms, or
    a constant that is not of its attribute's type. types: those of the program, by name."""
    if atom.relation not in relations:
        raise BadInput(unknown("relation", atom.relation, relations))
    relation = relations[atom.relation]
    if len(atom.args) != relation.arity:
        raise BadInput(f"{relation.name} has {relation.arity} attributes, and the query has {len(atom.args)}", hint=EXPECTS)
    reader = _TermReader(relation, BUILT_IN | types, Known(values), {})
    return Query(relation, reader.terms(atom.args, relation.attributes), reader.variables, values)


@dataclass
class _TermReader:
    """Converts the terms of one query. variables: the variables so far, with the type of the attribute where each first
    occurred.
    known: the symbols and records of the session, to which none are added."""

    relation: Relation
    types: dict
    known: Known
    variables: dict[str, Type]

    def terms(self, args: tuple, attributes: tuple[tuple[str, Type], ...]) -> QueryTerms:
        """Convert the terms of an atom, or the fields of a record. attributes: the (name, type) of each term. The variables are
        added to `variables`."""
        terms = QueryTerms()
        for place, (term, (name, type_)) in enumerate(zip(args, attributes, strict=True)):
            if isinstance(term, syntax.Variable):
                terms.variables[place] = term.name
                self.variables.setdefault(term.name, type_)
            elif any(isinstance(node, (syntax.Variable, syntax.Underscore)) for node in walk(term)):
                if not isinstance(term, syntax.Underscore):
                    terms.patterns[place] = self._pattern(term, name, type_)
            else:
                value = _python_value(term)
                terms.constants[place] = bits_of_value(value, (name, type_), self.relation.name, self.types, self.known)
        return terms

    def _pattern(self, term, name: str, type_: Type) -> RecordPattern:
        """Convert a record or a branch with variables. name, type_: those of the attribute. Raises BadInput for other terms."""
        tag, fields = None, type_.fields
        if isinstance(term, syntax.BranchInit):
            tag = next((number for number, branch in enumerate(type_.branches) if branch.name == term.name), None)
            fields = () if tag is None else type_.branches[tag].fields
        elif not isinstance(term, syntax.RecordInit):
            raise BadInput("a query computes nothing", "<query>", hint=EXPECTS)
        # A record, or an unknown branch, where the type has branches; or a branch where the type is a record.
        is_other_kind = (tag is None) == bool(type_.branches)
        if len(fields) != len(term.args) or is_other_kind:
            message = f"{name} is a {type_.name}, and this is none"
            raise BadInput(message, f"{self.relation.name}.{name}", hint=f"expected {type_description(type_)}")
        attributes = tuple((field_name, self.types[type_name]) for field_name, type_name in fields)
        return RecordPattern(self.terms(term.args, attributes), len(fields), tag)


def parse_fact(text: str) -> tuple[str, tuple]:
    """Parse an atom of constants: return (relation, Python values).

    >>> parse_fact('name([1, nil], "Ann")')
    ('name', ((1, None), 'Ann'))
    """
    atom = parse_atom(text)
    return atom.relation, tuple(map(_python_value, atom.args))


def parse_atom(text: str) -> syntax.Atom:
    """Parse an atom. Raises ProgramError or BadInput for any other text."""
    statements = parse(f"{text.strip().removesuffix('.')}.", "<query>", sandbox=NoFiles()).statements
    atoms = statements[0].heads if len(statements) == 1 and isinstance(statements[0], syntax.Clause) else ()
    if len(atoms) != 1 or statements[0].body is not None:
        raise BadInput(f"{text.strip()!r} is no query", hint=EXPECTS)
    return atoms[0]


def _python_value(term):
    """Return the Python value of a constant. Raises BadInput for other terms."""
    if isinstance(term, syntax.Number | syntax.String):
        return term.value
    if isinstance(term, syntax.Nil):
        return None
    if isinstance(term, syntax.RecordInit):
        return tuple(map(_python_value, term.args))
    if isinstance(term, syntax.BranchInit):
        return Branch(term.name, *map(_python_value, term.args))
    raise BadInput("a query computes nothing", "<query>", hint=EXPECTS)


@dataclass
class SearchRuns:
    """The task of a partition that yields the answers to a query from the partition's runs of a relation."""

    query: Query
    relation: PartitionedRelation

    def __call__(self, partition, records):
        yield self.query.search(_RunsAsTable(self.relation, partition))


@dataclass
class _RunsAsTable:
    """A partition's runs (sorted blocks) of a relation, in one order, with the attributes of a table that `Query` reads."""

    relation: PartitionedRelation
    partition: int
    is_spelt = True

    def __post_init__(self):
        self.arity, self.full = self.relation.arity, (self.relation.home.order,)

    def blocks(self, part: str, order: tuple[int, ...]) -> list[Block]:
        """Return the blocks of all tuples, which are the only part."""
        return list(blocks_of(self.relation, self.partition, order))


def answers(session: Any, text: str, parameters: dict[str, Any]) -> Answer:
    """Answer a query: see `Session.query`."""
    query = parse_query(text)
    if isinstance(query, syntax.Atom):
        return answers_to_atom(session, query, text, parameters)
    with session.limited(), session.in_turn(), session.registry.registered_body(text) as name:
        return answers_to_rules(session, name, parameters)


def answers_to_rules(session: Any, name: str, parameters: dict[str, Any]) -> Answer:
    """Return all tuples of a relation of registered rules, for values of its parameters. The caller has the session's turn.
    They are read later: the table, which does not change, keeps them after the relation is released."""
    with session.registry.contents_of(name, parameters) as (relation, table):
        return answer_of(session, relation, partial(columns_of, table))


def answers_to_atom(session: Any, atom: syntax.Atom, text: str, parameters: dict[str, Any], owner: str | None = None) -> Answer:
    """Answer a query of one atom. If the relation is not evaluated, only the tuples that the constants ask for are computed, if
    its rules permit that. text: the query as written; owner: see `System.table`."""
    session.check_open()
    session.registry.check_waiting(atom.relation)
    name, types, values = atom.relation, session.upkeep.program.types, session.upkeep.values
    with session.limited():
        if session.is_there(name):
            query = query_of(atom, session.relations, types, values)
            session.registry.check_given(name, parameters)
            return _search(session, query, session.at(session.epoch).contents(name))
        with session.in_turn():
            if not parameters and session.registry.demand.definition(name):
                query = query_of(atom, {name: session.registry.relation(name)}, types, values)
                if query.terms.constants:  # a rule with the query as its body asks for these tuples only
                    with session.registry.registered_body(text) as body, session.registry.contents_of(body, {}) as (_, table):
                        return answer_of(session, query.answer_relation, partial(columns_of, table))
            with session.registry.contents_of(name, parameters, owner) as (relation, table):
                return _search(session, query_of(atom, {name: relation}, types, values), table)


def all_tuples(session: Any, name: str, parameters: dict[str, Any], owner: str | None = None) -> Answer:
    """Return all tuples of a relation at the last epoch. Rules are evaluated for this if needed. owner: see `System.table`."""
    session.registry.check_waiting(name)
    if session.is_there(name):
        session.registry.check_given(name, parameters)
        return session[name]
    with session.limited(), session.in_turn(), session.registry.contents_of(name, parameters, owner) as (relation, table):
        return answer_of(session, relation, partial(columns_of, table))


def answer_of(session: Any, relation: Relation, columns: Callable[[], np.ndarray], values: Values | None = None) -> Answer:
    """Return an answer of tuples that the session does not store. columns: returns them as columns (arity, n), when they are
    first read. values: the symbols and records whose ids they contain, if not the session's."""
    relations = {relation.name: relation}
    database = EpochDatabase(relations, TablesOnDemand({relation.name: columns}))
    return Answer(cast(Any, View(relations, database, session, own=values)), relation.name)


def _search(session: Any, query: Query, contents: Contents) -> Answer:
    """Answer a query from the contents of its relation."""
    columns = query.search_partitions(contents) if isinstance(contents, OnPartitions) else query.search(contents)
    return answer_of(session, query.answer_relation, lambda: columns)
