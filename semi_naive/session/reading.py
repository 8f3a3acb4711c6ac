"""Answers of a session: to a query, or all tuples of a relation."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np

from semi_naive.language import syntax
from semi_naive.ra.ir import Relation
from semi_naive.ra.values.values import Values
from semi_naive.running.relations.on_partitions import OnPartitions
from semi_naive.running.results.answers import Answer
from semi_naive.session.contents import EpochDatabase, TablesOnDemand, View
from semi_naive.session.facts import columns_of
from semi_naive.session.maintenance.spread import Kept
from semi_naive.session.query import Query, query_of


def answers(session: Any, atom: syntax.Atom, parameters: dict, owner: str | None = None) -> Answer:
    """The answers to an atom: see `Session.query`. owner: see `System.table`."""
    session.check_open()
    name, types, values = atom.relation, session.upkeep.program.types, session.upkeep.values
    with session.limited():
        if session.is_there(name):
            asked = query_of(atom, session.relations, types, values)
            session.registry.key(name, parameters)
            return _answer_query(session, asked, session.at(session.epoch).kept(name))
        with session.alone(), session.registry.answer(name, parameters, owner) as (relation, table):
            return _answer_query(session, query_of(atom, {name: relation}, types, values), table)


def everything(session: Any, name: str, parameters: dict, owner: str | None = None) -> Answer:
    """All tuples of a relation now; registered rules are evaluated for this if no subscriber needs them."""
    if session.is_there(name):
        session.registry.key(name, parameters)
        return session[name]
    with session.limited(), session.alone(), session.registry.answer(name, parameters, owner) as (relation, table):
        return answer_of(session, relation, partial(columns_of, table))


def answer_of(session: Any, relation: Relation, columns: Callable[[], np.ndarray], values: Values | None = None) -> Answer:
    """An answer of tuples that the session does not keep, given by their columns. values: of which these have ids, if they are
    not the session's."""
    held = EpochDatabase({relation.name: relation}, TablesOnDemand({relation.name: columns}))
    return Answer(cast(Any, View({relation.name: relation}, held, session, own=values)), relation.name)


def _answer_query(session: Any, asked: Query, kept: Kept) -> Answer:
    columns = asked.on_partitions(kept) if isinstance(kept, OnPartitions) else asked.of(kept)
    return answer_of(session, asked.answer, lambda: columns)
