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
from semi_naive.running.relations.on_partitions import OnPartitions
from semi_naive.running.results.answers import Answer
from semi_naive.session.facts import with_prefixes
from semi_naive.session.maintenance.spread import AnyChange, Contents, SpreadChange
from semi_naive.tuples import Relations

if TYPE_CHECKING:
    from semi_naive.provenance.proofs import Proof, WhyNot
    from semi_naive.provenance.why import Why

BEFORE_ALL = -math.inf  # the time of epoch 0, before all transactions
DIFF = "diff"  # the column of a change: 1 for an inserted tuple, -1 for a deleted one
SIGN = Type("number", Kind.NUMBER)


class EpochDatabase(Database):
    """A read-only `Database` of immutable contents, from which an `Answer` reads. spread: the relations on the partitions."""

    def __init__(self, relations: dict[str, Relation], tables: dict[str, Any], spread: dict[str, Any] | None = None):
        self.program, self.tables, self.on_partitions = Program({}, relations, []), tables, spread or {}


class TablesOnDemand(dict):
    """Tables by relation. Each is built at its first use from its columns (arity, n), which `columns_of[name]()` returns."""

    def __init__(self, columns_of: dict[str, Callable[[], np.ndarray]]):
        super().__init__()
        self.columns_of = columns_of

    def __missing__(self, name: str) -> Table:
        self[name] = columns_table(self.columns_of[name]())
        return self[name]


@dataclass(eq=False)
class View:
    """The interface of a `Result` that an `Answer` reads, for relations of a session.
    lasting: the answer can be read after the session is closed. trace: empty, as a session records no runs.
    own: symbols and records in place of the session's."""

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
    """The relations of a session after one transaction.
    time: that of the transaction. tables: the tables in this process; epochs share the blocks that did not change between them.
    spread: the relations on the partitions. given: the explicit facts that users have inserted, by relation. whole: this epoch
    with the relations that are not retained any more, if the session has a directory."""

    number: int
    time: float
    tables: dict[str, Table]
    spread: dict[str, OnPartitions]
    session: Any
    given: dict[str, Table] = field(default_factory=dict)
    whole: "Epoch | None" = None

    def __getitem__(self, name: str) -> Answer:
        """Return a relation at this epoch, like `Result[name]`. Later transactions do not change it."""
        self.session.check_open()
        self.check(name)
        return Answer(cast(Any, self.view), name)

    def check(self, name: str) -> None:
        """Raise KeyError for a relation that was not evaluated at this epoch, or is not retained."""
        if self.session.check_known(name) not in self.tables:
            self.check_retained(name)
            raise KeyError(f"{name!r} was not evaluated at epoch {self.number}: its first use was later")

    def check_retained(self, name: str) -> None:
        """Raise KeyError if a relation is not retained for as many epochs as have been committed since."""
        kept = self.session.commits.retention.epochs_of(name)
        if name not in self.tables and self.session.epoch - self.number > kept:
            text = f"retain keeps {quantity(kept, 'epoch')} of it before the last one"
            raise KeyError(f"{name!r} is gone at epoch {self.number}: {text}")

    @property
    def relations(self) -> dict[str, Relation]:  # type: ignore[override]
        """The relations that were evaluated at this epoch, by name."""
        return {name: relation for name, relation in self.session.relations.items() if name in self.tables}

    def contents(self, name: str) -> Contents:
        """Return the tuples of a relation: its table, or its runs on the partitions."""
        return self.spread.get(name) or self.tables[name]

    def why(self, relation: str, row, **parameters) -> "Proof":
        """Return a proof of a tuple: see `Result.why`. Transactions record no proofs, so it is searched for now. parameters: of
        registered rules, which are evaluated for these values once more."""
        with self.session.limited(), self._proofs(relation, parameters) as proofs:
            return proofs.why(relation, row)

    def why_not(self, relation: str, row, **parameters) -> "WhyNot":
        """Explain why a relation did not contain a tuple: see `Result.why_not`."""
        with self.session.limited(), self._proofs(relation, parameters) as proofs:
            return proofs.why_not(relation, row)

    def _proofs(self, relation: str, parameters: dict[str, Any]) -> AbstractContextManager["Why"]:
        """Return a context with the search for proofs in a relation. parameters: of registered rules, by name. With parameters,
        or if a needed relation is not stored, the relations are evaluated for the search."""
        self.session.check_open()
        if parameters or self.session.registry.lacks_for_proofs(relation, self.tables):
            from semi_naive.session.registered.reasons import reasons

            return reasons(self.session, relation, parameters, self)
        if relation in self.session:
            self.check(relation)
            # If no relation has a number of its own, an epoch is retained with all of its relations or not at all.
            for name in self.session.registry.needed_for_proofs(relation) if self.session.commits.retention.by_name else ():
                self.check_retained(name)
        return nullcontext(self.proofs)

    @cached_property
    def proofs(self) -> "Why":
        """Return the search for proofs in the relations of this epoch."""
        from semi_naive.provenance.why import Why

        # Closures represented by their edges are read like relations on the partitions: their pairs are not computed.
        spread = self.spread | {name: table for name, table in self.tables.items() if not table.is_spelt}
        tables = {name: table for name, table in self.tables.items() if name not in spread}
        program = self.session.registry.with_registered_rules(self.session.program.checked, tables.keys() | spread.keys())
        return Why(program, tables, self.view.values, self.given, spread, self.session.in_turn)

    @property
    def view(self) -> View:
        """The relations of this epoch, as an `Answer` reads them."""
        return View(self.session.relations, EpochDatabase(self.session.relations, self.tables, self.spread), self.session)

    def __repr__(self) -> str:
        return f"<Epoch {self.number} of {self.session.program.name}: {quantity(len(self), 'relation')}>"


class Changes(Answer):
    """The change of a relation by a transaction, as an `Answer`: an iterable of tuples, with `to_pandas`, `to_arrow`, `write`
    and so on. Its columns are those of the relation and `diff`: 1 for an inserted tuple, -1 for a deleted one. Each tuple
    occurs once. A large change of a relation on Spark's partitions stays there, and can be read while the session is open."""

    def __init__(self, session, relation: Relation, change: AnyChange):
        """relation: without the column `diff`, which is appended here; change: in this process or on the partitions."""
        diff, names = DIFF, {name for name, _ in relation.attributes}
        while diff in names:  # an attribute of the relation has the name already
            diff += "_"
        relations = {relation.name: replace(relation, attributes=(*relation.attributes, (diff, SIGN)))}
        if isinstance(change, SpreadChange):
            database = EpochDatabase(relations, {}, {relation.name: change.signed})
        else:
            signed = lambda: np.concatenate([_with_sign(change.lost, -1), _with_sign(change.born, 1)], axis=1)  # noqa: E731
            database = EpochDatabase(relations, TablesOnDemand({relation.name: signed}))
        lasting = isinstance(change, Change)
        super().__init__(cast(Any, View(relations, database, session, lasting)), relation.name)
        self.inserted, self.deleted, self._arguments = change.born_count, change.lost_count, (session, relation, change)

    def with_keys(self, keys: Collection[tuple[int, ...]]) -> "Changes":
        """Return the changes of tuples that begin with one of the keys, of a relation in this process. keys: of one length."""
        session, relation, change = self._arguments
        assert isinstance(change, Change)
        prefixes = Block.of([np.array(column) for column in zip(*sorted(keys), strict=True)], len(keys))
        return Changes(session, relation, Change(with_prefixes(change.born, prefixes), with_prefixes(change.lost, prefixes)))

    def __repr__(self) -> str:
        return f"<Changes of {self.name}: {self.inserted:,} inserted, {self.deleted:,} deleted>"


def _with_sign(block: Block, sign: int) -> np.ndarray:
    """Return the tuples of a block as columns (arity + 1, n), of which the last one is the sign."""
    return np.array([*block.columns(), np.full(block.size, sign)], np.int64).reshape(block.arity + 1, block.size)
