"""The relations of a session at an epoch, and the changes by a transaction, both with the interface of a result's relations."""

import math
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from semi_naive.host.numbers import quantity
from semi_naive.io.relations import columns_table
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Kind, Program, Relation, Type
from semi_naive.ra.values.values import Values
from semi_naive.running.relations.database import Database
from semi_naive.running.results.answers import Answer
from semi_naive.session.facts import with_prefixes
from semi_naive.session.maintenance.spread import AnyChange, Kept, SpreadChange
from semi_naive.tuples import Relations

if TYPE_CHECKING:
    from semi_naive.provenance.proofs import Proof, WhyNot
    from semi_naive.provenance.why import Why

BEFORE_ALL = -math.inf  # the time of the epoch before all transactions
DIFF = "diff"  # the column of a change: 1 for an inserted tuple, -1 for a deleted one
SIGN = Type("number", Kind.NUMBER)


class EpochDatabase(Database):
    """Tables of this process and relations on the partitions, with the interface that an `Answer` reads."""

    def __init__(self, relations: dict[str, Relation], tables: dict[str, Any], spread: dict[str, Any] | None = None):
        self.program, self.tables, self.on_partitions = Program({}, relations, []), tables, spread or {}


class TablesOnDemand(dict):
    """Tables by relation; each is made of its columns (arity, n) at its first use."""

    def __init__(self, columns_of: dict[str, Callable[[], np.ndarray]]):
        super().__init__()
        self.columns_of = columns_of

    def __missing__(self, name: str) -> Table:
        self[name] = columns_table(self.columns_of[name]())
        return self[name]


@dataclass(eq=False)
class View:
    """The part of a result that an `Answer` needs. session: has the symbols, the records and Spark. lasting: the answer can be
    read after the session is closed. own: symbols and records in place of the session's.
    """

    relations: dict[str, Relation]
    database: EpochDatabase
    session: Any
    lasting: bool = False
    trace: dict = field(default_factory=dict)
    own: Values | None = None

    @property
    def types(self) -> dict:
        return self.session.upkeep.program.types

    @property
    def values(self):
        return self.session.upkeep.values if self.own is None else self.own

    @property
    def cluster(self):
        return self.session.upkeep.run.cluster

    @property
    def lent(self):
        return self.session.lent

    @property
    def closed(self) -> bool:
        return self.session.closed and not self.lasting

    def check_open(self) -> None:
        if not self.lasting:
            self.session.check_open()

    def explain(self) -> str:
        """The plans of the session's rules: a run has recorded nothing."""
        return self.session.explain()

    def pin(self) -> None:
        """Keep the tables until the session is closed."""
        self.session.pinned.append(self)

    def _charged_to(self, part: str) -> AbstractContextManager:
        """Return a context that does nothing: a session keeps no account of time."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing: the session is closed by its owner."""


@dataclass(eq=False, repr=False)
class Epoch(Relations):
    """All relations as they were after one transaction. time: of the transaction. tables: share the blocks that have not
    changed since. spread: the relations that were on the partitions. given: the explicit facts of relations that have rules,
    too."""

    number: int
    time: float
    tables: dict
    spread: dict
    session: Any
    given: dict = field(default_factory=dict)

    def __getitem__(self, name: str) -> Answer:
        """The answer for a relation, as of a result. Later transactions do not change it."""
        self.session.check_open()
        self.check(name)
        return Answer(cast(Any, self.view), name)

    def check(self, name: str) -> None:
        """Raise KeyError for a relation that did not exist then."""
        if self.session.known(name) not in self.tables:
            raise KeyError(f"{name!r} was not evaluated at epoch {self.number}: its first use was later")

    @property
    def relations(self) -> dict[str, Relation]:  # type: ignore[override]
        """The relations that were evaluated then, by name."""
        return {name: relation for name, relation in self.session.relations.items() if name in self.tables}

    def kept(self, name: str) -> Kept:
        """The table of a relation, or its place on the partitions."""
        return self.spread.get(name) or self.tables[name]

    def why(self, relation: str, row, **parameters) -> "Proof":
        """Return a proof of a tuple: see `Result.why`. Transactions record no proofs, so it is searched for now. parameters: of
        registered rules, which are evaluated for these values once more."""
        with self.session.limited(), self._asked(relation, parameters) as why:
            return why.why(relation, row)

    def why_not(self, relation: str, row, **parameters) -> "WhyNot":
        """The reason that a tuple was not there: see `Result.why_not`."""
        with self.session.limited(), self._asked(relation, parameters) as why:
            return why.why_not(relation, row)

    def _asked(self, relation: str, given: dict) -> AbstractContextManager["Why"]:
        """Return a context with the search for proofs in a relation, for given parameter values."""
        self.session.check_open()
        rules = self.session.registry.rules.get(relation)
        if given or rules and rules.parameters:
            from semi_naive.session.registered.reasons import reasons

            return reasons(self.session, relation, given, self)
        if relation in self.session:
            self.check(relation)
        return nullcontext(self._why)

    @cached_property
    def _why(self) -> "Why":
        """Return the search for proofs in the relations of this epoch."""
        from semi_naive.provenance.why import Why

        spread = self.spread | {name: table for name, table in self.tables.items() if not table.is_spelt}
        tables = {name: table for name, table in self.tables.items() if name not in spread}
        program = self.session.registry.with_rules(self.session.program.checked, tables.keys() | spread.keys())
        return Why(program, tables, self.view.values, self.given, spread, self.session.alone)

    @property
    def view(self) -> View:
        return View(self.session.relations, EpochDatabase(self.session.relations, self.tables, self.spread), self.session)

    def __repr__(self) -> str:
        return f"<Epoch {self.number} of {self.session.program.name}: {quantity(len(self), 'relation')}>"


class Changes(Answer):
    """The change of a relation by a transaction: its columns and `diff`, 1 of a tuple that was inserted, -1 of one that was
    deleted; each tuple once. It is an `Answer`: an iterable of such tuples, with `to_pandas`, `to_arrow`, `write` and so on.
    A large change of a relation on Spark's partitions stays there, and can be read as long as the session is open."""

    def __init__(self, session, relation: Relation, change: AnyChange):
        """relation: without the column `diff`, which is appended here; change: in this process or on the partitions."""
        diff, names = DIFF, {name for name, _ in relation.attributes}
        while diff in names:
            diff += "_"
        shown = replace(relation, attributes=(*relation.attributes, (diff, SIGN)))
        if isinstance(change, SpreadChange):
            database = EpochDatabase({relation.name: shown}, {}, {relation.name: change.signed})
        else:
            database = EpochDatabase({relation.name: shown}, TablesOnDemand({relation.name: lambda: _signed(change)}))
        lasting = isinstance(change, Change)
        super().__init__(cast(Any, View({relation.name: shown}, database, session, lasting)), relation.name)
        self.inserted, self.deleted, self._made_of = change.came, change.went, (session, relation, change)

    def beginning(self, keys: Collection[tuple[int, ...]]) -> "Changes":
        """The changes of tuples that begin with one of the keys, values of 64 bits, of a relation in this process."""
        session, relation, change = self._made_of
        assert isinstance(change, Change)
        wanted = Block.of([np.array(column) for column in zip(*sorted(keys), strict=True)], len(keys))
        return Changes(session, relation, Change(with_prefixes(change.born, wanted), with_prefixes(change.lost, wanted)))

    def __repr__(self) -> str:
        return f"<Changes of {self.name}: {self.inserted:,} inserted, {self.deleted:,} deleted>"


def _signed(change: Change) -> np.ndarray:
    """Columns (arity + 1, n): the deleted tuples, then the inserted ones."""
    parts = [_with_sign(change.lost, -1), _with_sign(change.born, 1)]
    return np.concatenate(parts, axis=1)


def _with_sign(block: Block, sign: int) -> np.ndarray:
    return np.array([*block.columns(), np.full(block.size, sign)], np.int64).reshape(block.arity + 1, block.size)
