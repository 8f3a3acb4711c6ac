"""A session: the relations of a program, kept at their fixed point while facts are inserted and deleted.

with program.session({"edge": [(1, 2)]}) as s:
    with s.transaction() as t:
        t.insert("edge", [(2, 3)])
    t.changes["path"].to_list()         # [(1, 3, 1), (2, 3, 1)]
    s["path"].to_set()                  # {(1, 2), (1, 3), (2, 3)}
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semi_naive.config import Config
from semi_naive.host import limits
from semi_naive.host.interrupts import afterwards
from semi_naive.host.numbers import quantity
from semi_naive.host.similar import UnknownName, unknown
from semi_naive.io.directives import check_sandbox, directive_place
from semi_naive.io.errors import BadInput
from semi_naive.io.values.bits import to_value
from semi_naive.planning.rewrite import has_autoinc
from semi_naive.planning.spoken import spoken_name
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import FileDirective, Kind, Relation
from semi_naive.ra.text.symbols import SymbolTable
from semi_naive.ra.values.values import Values
from semi_naive.running.results.answers import Answer
from semi_naive.running.results.lent import Lent
from semi_naive.session.committing import Commits
from semi_naive.session.contents import BEFORE_ALL, Changes, Epoch
from semi_naive.session.durability.directory import Directory
from semi_naive.session.facts import columns_of, last_occurrences
from semi_naive.session.following import Follower
from semi_naive.session.maintenance.upkeep import Upkeep
from semi_naive.session.query import answer_of, answers
from semi_naive.session.recording import record
from semi_naive.session.registered.registry import Registry
from semi_naive.session.registered.subscriptions import Callback, Granularity, Subscription, without_parameters
from semi_naive.session.retention import Retention
from semi_naive.session.served.streams import StreamSink
from semi_naive.session.system import RELATIONS, System
from semi_naive.session.transaction import Time, Transaction, Turn, Turns, checked_time
from semi_naive.tuples import Relations

if TYPE_CHECKING:
    from semi_naive.provenance.proofs import Proof, WhyNot

log = logging.getLogger("semi_naive")

# Parameter values with which rules are explained before a value is known, by kind; 0 for other kinds.
EXAMPLES = {Kind.SYMBOL: "", Kind.RECORD: None}


class Session(Relations):
    """The relations of a program at the last epoch and at retained earlier ones; see `Program.session`. Use it in a `with`
    block, or call `close`.

    One transaction is open at a time. A thread that begins another one waits; if it has one open already, this is an error.
    Readers never wait: they see the whole last epoch. Relations are in this process, except that a relation that a run would
    leave on Spark's partitions stays there if it has more than `local_tuples` tuples.
    """

    def __init__(
        self, program: Any, facts: Any = None, path: str | os.PathLike[str] | None = None,
        retain: int | Mapping[str, int] = 0, spark: Any = None, config: Config | None = None, sync_seconds: float = 0.0,
    ):  # fmt: skip
        """See `Program.session`."""
        retention = Retention.of(retain)
        self.config, self.retain, self.closed, self._process = config or Config(), retention.longest, False, os.getpid()
        self.lent = Lent(self.config.local_dir)
        _check_program(program)
        _check_config(self.config)
        compiled = program.compile(facts if isinstance(facts, dict) else None, once=False)
        self.program, self.outputs = program, program.outputs
        self.changeable = _changeable(program, facts, compiled.program.relations)
        # Inlined relations are not compiled. Relations that passes add have an @ in their names.
        declared = [name for name in program.relations if name in compiled.program.relations and "@" not in name]
        self.declared = {name: program.relations[name] for name in declared}
        self.declared_keys = _declared_keys(program)
        self.relations = dict(self.declared)  # with those of registered rules that are evaluated
        self.registry = Registry(self)
        self.system = System(self)
        self.batches: dict[str, int] = {}  # the number of the last committed batch of each stream
        self.followers: list[Follower] = []
        self.derived_anew: list[str] = []  # the relations whose rules have changed since the directory was written
        self.pinned: list[Any] = []  # objects whose files DataFrames may still read
        self.turns, self.commits = Turns(), Commits(self, retention)
        self.upkeep = Upkeep(program, compiled, self.config, spark, values=Values(None if path is None else SymbolTable()))
        try:
            self._open(facts, path, sync_seconds)
            self._check_keys()
            self.system.work.extend(self.system.cost_of_rules(self.epoch))
            if self.commits.directory:
                self._restore_registrations(self.commits.directory)
            for directive in program.checked.directives:
                if directive.kind == "output" and (folder := directive.parameters.get("epochs")):
                    check_sandbox([folder], directive, self.upkeep.run.asked.sandbox)
                    self.record(directive.relation, folder)
        except BaseException:
            self._release(failed=True)
            raise

    def _open(self, facts: Any, path: str | os.PathLike[str] | None, sync_seconds: float) -> None:
        """Compute the outputs from `facts`, or, if the directory at `path` has a session, restore its retained epochs."""
        commits = self.commits
        directory = commits.directory = None if path is None else Directory(path, sync_seconds)
        if directory is None or directory.manifest is None:
            self.upkeep.begin(facts, self.changeable, self.outputs)
            commits.start_at(0, BEFORE_ALL)
            if directory:
                commits.write_snapshot(directory)
            return
        for name, text in directory.manifest.get("declarations", {}).items():
            if name not in self.changeable:  # else the program has it now
                self.registry.declare(text)
        self.relations = dict(self.declared)
        (first, *later), self.derived_anew = self.upkeep.load(directory, self.changeable, self.outputs, self.retain)
        self.batches = dict(directory.batches)
        if self.derived_anew:
            log.warning("%s: derived anew, as the rules have changed: %s", path, ", ".join(self.derived_anew))
        commits.start_at(first.epoch, BEFORE_ALL if first.time is None else first.time)
        for transaction in later:
            self.upkeep.apply(transaction.net)
            commits.append_epoch(transaction.epoch, self._now.time if transaction.time is None else transaction.time)
            self.upkeep.relations.sweep()

    def _check_keys(self) -> None:
        """Raise BadInput if two facts have the same key of their relation."""
        for name, key in self.declared_keys.items():
            columns = columns_of(self.upkeep.relations.explicit(name))
            if (repeated := ~last_occurrences(columns[list(self.key_places(name, key))])).any():
                rows = partial(np.ascontiguousarray, columns[:, repeated])
                row = answer_of(self, self.declared[name], rows, self.upkeep.values).to_list()[0]
                message = f"{name} has other facts with the key ({', '.join(key)}) of {row}"
                raise BadInput(message, hint="begin with one fact of each key; later inserts replace those with the same key")

    def _restore_registrations(self, directory: Directory) -> None:
        """Restore the registered rules and the named subscriptions of the directory. If rules of the program have changed since
        the directory was written, write a snapshot."""
        with self.in_turn():
            self.registry.load(directory.registrations, self.derived_anew)
        if not directory.rules_unchanged:
            self.commits.write_snapshot(directory)

    # -- the state of the session

    @property
    def _now(self) -> Epoch:
        """The last epoch."""
        return self.commits.epochs[0]

    @property
    def epoch(self) -> int:
        """The number of the last epoch: 0 before the first transaction."""
        self.check_process()
        return self._now.number

    @property
    def is_foreign(self) -> bool:
        """True in a fork of the process that opened the session."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raise ValueError in a fork of the process that has opened the session."""
        if self.is_foreign:
            raise ValueError(
                f"process {os.getpid()} is a fork of process {self._process}, which has opened this session: use it there, "
                "and give the fork what it needs of it, as session[name].to_set(), or open another session in the fork"
            )

    def check_open(self) -> None:
        """Raise ValueError if the session is closed, or in a fork."""
        self.check_process()
        if self.closed:
            raise ValueError("this session has been closed, and its relations are gone: read or write them before that")

    def begin(self, turn: Turn) -> None:
        """Wait until no other turn is open, and open this one for this thread."""
        self.check_open()
        if self.turns.is_mine:
            raise ValueError("a transaction is open in this thread, or a subscription begins: let it end first")
        self.turns.take(turn)
        self.check_open()  # it may have been closed while this thread was waiting
        turn.undo.append(partial(self.upkeep.values.back_to, self.upkeep.values.mark()))  # forgets new symbols and records

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Run the block in a turn of its own: no transaction is open meanwhile. If the block fails, its changes are undone."""
        turn = Turn()
        with self.turns.settling(turn):
            self.begin(turn)
            yield
            self.registry.subscribers.release_cancelled()
            turn.committed = True

    def limited(self) -> AbstractContextManager:
        """Return a context with the limits of a query in seconds and bytes, if the configuration has any."""
        seconds, nbytes = self.config.query_seconds, self.config.query_bytes
        return nullcontext() if seconds is None and nbytes is None else limits.within(seconds, nbytes)

    def check_known(self, name: str) -> str:
        """Return the name of a relation. Raises KeyError if the session has no relation of this name."""
        if name not in self.relations:
            raise UnknownName(unknown("relation", name, self.relations))
        return name

    def changeable_facts(self, name: str) -> Table:
        """Return the explicit facts of a relation that users have inserted. Raises ValueError if they cannot be changed."""
        self.check_known(name)
        if name not in self.changeable:
            advice = f"declare .input {name}, or name it among the facts that the session begins with: {{{name!r}: []}}"
            raise ValueError(f"facts of {name} cannot be changed, as it has no .input: {advice}")
        return self.upkeep.relations.facts.given[name]

    def key_places(self, relation: str, key: str | Iterable[str]) -> tuple[int, ...]:
        """Return the places of a key's attributes in a relation. Raises ValueError for an attribute that it does not have."""
        attributes = [attribute for attribute, _ in self.relations[self.check_known(relation)].attributes]
        names = [key] if isinstance(key, str) else list(key)
        for name in names:
            if name not in attributes:
                raise ValueError(f"the key names {name!r}: {relation} has the attributes {', '.join(attributes) or '(none)'}")
        return tuple(attributes.index(name) for name in dict.fromkeys(names))

    # -- reading

    def __getitem__(self, name: str) -> Answer:
        """Return a relation at the last epoch, in the form of a result of `Program.run`. Later transactions do not change it.
        Names such as sys.epoch are system relations (`semi_naive.session.system`). A relation that is no output, and on which
        no output depends, is evaluated when it is read for the first time, in a turn of its own."""
        self.check_process()
        if name in self.registry.system_rules:
            values = Values()  # a reader has no turn, so it must not number symbols of the session
            return answer_of(self, RELATIONS[name], partial(columns_of, self.system.table(name, values=values)), values)
        self._evaluate_unused(name)
        return self._now[name]

    def _is_unused(self, name: str) -> bool:
        """True for a relation of the program that is not evaluated, because it has not been used."""
        return name in self.declared and name not in self._now.tables

    def _evaluate_unused(self, name: str) -> None:
        """Evaluate a relation of the program at its first use; do nothing later."""
        if self._is_unused(name):
            with self.limited(), self.in_turn():
                self.registry.acquire(name, ())

    def at(self, epoch: int | None = None, *, time: Time | None = None) -> Epoch:
        """Return the relations at a retained epoch: that of the number `epoch`, or the last one whose time is not after `time`
        (see `transaction`). The last epoch and the `retain` epochs before it are retained. Raises ValueError for others."""
        self.check_open()
        if (epoch is None) == (time is None):
            raise ValueError("at takes the number of an epoch, or a time: s.at(41), s.at(time=…)")
        epochs = self.commits.epochs
        first = epochs[-1].number
        if time is not None:
            latest = checked_time(time)
            none = first - 1  # an epoch that is not retained: the error below names those that are
            epoch = next((retained.number for retained in epochs if retained.time <= latest), none)
        for retained in epochs:
            if retained.number == epoch:
                return retained
        if not isinstance(epoch, int) or epoch > self.epoch:
            raise ValueError(f"there is no epoch {epoch!r}: the last one is {self.epoch}")
        kept = f"epochs {first} to {self.epoch} are kept" if first < self.epoch else f"only epoch {first} is kept"
        raise ValueError(f"epoch {epoch} is gone: {kept}; session(…, retain=n) keeps n epochs before the last one")

    def between(self, relation: str, since: int, until: int, /, **parameters: Any) -> Changes:
        """Return the change of a relation from one retained epoch to a later retained one. since=-1 stands for an empty
        relation. parameters: of registered rules, which must have been evaluated for these values at both epochs."""
        self.check_open()
        self._evaluate_unused(relation)
        with self.in_turn() if parameters else nullcontext():  # parameter values may be new symbols
            key = self.registry.parameter_key(relation, parameters) if parameters else ()
            change = self.registry.subscribers.between(relation, key, since, until)
        return Changes(self, without_parameters(self.registry.relation(relation), len(key)), change)

    def query(self, body: str, /, **parameters: Any) -> Answer:
        """Return the answers to an atom or a body, such as `path(1, y)`, `list($Cons(x, _))` or `path($src, y), !blocked(y)`.

        The answers are a relation with an attribute for each variable. Without variables it is nullary, with one tuple or none.

        An atom with constants, `_` and variables is searched: by an index, if constants begin one; otherwise all tuples are
        read. Any other body is evaluated as a rule, in a turn of its own. A relation of registered rules without subscribers is
        evaluated for the query. parameters: of registered rules, or of the body, by name."""
        return answers(self, body, parameters)

    def is_there(self, name: str) -> bool:
        """True if a relation is evaluated, so that a query of it evaluates no rules and does not wait for a transaction."""
        if name in self.registry.system_rules or self._is_unused(name):
            return False
        rules = self.registry.rules.get(name)
        return rules is None or not rules.parameters and name in self._now.tables

    def why(self, relation: str, row: Iterable[Any], **parameters: Any) -> Proof:
        """Return a proof of least height for a tuple of the last epoch, like `Result.why`. `at(epoch).why` does so for an
        earlier epoch. parameters: of registered rules."""
        self._evaluate_unused(relation)
        return self._now.why(relation, row, **parameters)

    def why_not(self, relation: str, row: Iterable[Any], **parameters: Any) -> WhyNot:
        """Explain why a tuple is not in a relation at the last epoch, like `Result.why_not`."""
        self._evaluate_unused(relation)
        return self._now.why_not(relation, row, **parameters)

    def explain(self, name: str | None = None, changes: bool = False) -> str:
        """Format the strata of the program, or of registered rules, and their plans by the current sizes, like
        `Program.explain`. changes: format the rules that maintain all strata, or that of one relation, when facts change."""
        self.check_process()
        if changes:
            text = self.upkeep.explain_changes(name)
            return text if text or name is None else f"{self.check_known(name)}\n  no rule derives it\n"
        config = self.upkeep.run.config
        if name not in self.registry.rules:
            if name is not None:
                self.check_known(name)
            changeable = self.changeable & self.program.relations.keys()
            facts = {relation: table for relation, table in self._now.tables.items() if relation in changeable}
            spread = sorted(self._now.spread.items())
            places = [f"  {spoken_name(relation)}: {contents.count:,} tuples\n" for relation, contents in spread]
            return self.program.explain(facts, config) + "".join(["\nOn the partitions now\n", *places] if places else [])
        rules = self.registry.rules[name]
        with nullcontext() if self.turns.is_mine else self.in_turn():  # forms of rules may be compiled
            demand_text, definitions = self.registry.demand.explain(rules), self.registry.demand.with_definitions(rules)
            program_of_rules = replace(definitions.checked, directives=[FileDirective("output", name)])
        read = definitions.reads & self._now.tables.keys()
        tables: dict[str, Any] = {relation: self._now.contents(relation) for relation in read}
        if rules.parameters:
            kinds = [type_.kind for _, type_ in rules.relation.attributes[: len(rules.parameters)]]
            example = tuple(EXAMPLES[kind] if kind in EXAMPLES else to_value(0, kind) for kind in kinds)
            tables[rules.parameter_relation] = [example]  # one tuple of parameter values
        return demand_text + type(self.program).from_checked(program_of_rules, name).explain(tables, config)

    # -- transactions

    def transaction(self, time: Time | None = None) -> Transaction:
        """Return a transaction, for a `with` block. time: the time of its epoch for `at`, a datetime or a number in any unit;
        by default the seconds since 1970. Times must not decrease."""
        self.check_open()
        return Transaction(self, None if time is None else checked_time(time))

    def insert(self, relation: str, rows: Any) -> Transaction:
        """Insert facts in a transaction of their own, and return it, committed."""
        with self.transaction() as transaction:
            transaction.insert(relation, rows)
        return transaction

    def delete(self, relation: str, rows: Any) -> Transaction:
        """Delete facts in a transaction of their own, and return it, committed."""
        with self.transaction() as transaction:
            transaction.delete(relation, rows)
        return transaction

    def upsert(self, relation: str, rows: Any, key: Iterable[str]) -> Transaction:
        """Insert facts in place of others with the same key, in a transaction of their own, and return it, committed."""
        with self.transaction() as transaction:
            transaction.upsert(relation, rows, key)
        return transaction

    def clear(self, relation: str) -> Transaction:
        """Delete all facts of a relation in a transaction of its own, and return it, committed."""
        with self.transaction() as transaction:
            transaction.clear(relation)
        return transaction

    # -- subscriptions and registered rules

    def subscribe(
        self, relation: str, callback: Callback, /, *, snapshot: bool = False, since: int | None = None, epochs: int = 1,
        seconds: float = 0.0, background: bool = False, name: str | None = None, keep: bool = True, **parameters: Any,
    ) -> Subscription:  # fmt: skip
        """Call callback(changes, epoch) after each later transaction that changes a relation. The thread that commits makes the
        call, before another transaction can begin. An exception of the callback is logged; the transaction stands.

        relation: a relation of the program, or of registered rules, which are evaluated from now on. parameters: of the
            rules, by name. Only tuples with these values are delivered, without the columns of the parameters.
        snapshot: the first call has all current tuples. since: the first call has the changes after a retained epoch.
        epochs, seconds: a call is made after this number of epochs that change the relation, and not before so many seconds
            since the last call; it has the sum of their changes.
        background: a thread of its own makes the calls, so that a slow callback delays no transaction. `seconds` implies it.
        name: the changes are kept for this name until `Subscription.ack`, also after `cancel`. A later subscription
        by the name first gets the changes that are not acknowledged, or the changes after `since`, one epoch at a time.
        keep: False for the changes of registered rules alone: their tuples are neither evaluated nor kept for the subscription.
            ValueError unless it is one rule whose head has all variables of its body.
        """
        self.check_open()
        when = Granularity(epochs, seconds, background)
        with self.limited(), self.in_turn():
            return self.registry.subscribers.subscribe(relation, callback, parameters, when, snapshot, since, name, keep=keep)

    def watch(
        self, pattern: Any, callback: Callback, /, *, edges: str = "edge", directed: bool = False, symmetry: bool = True,
        homomorphisms: bool = False, triangles: bool = False, count: bool = False, snapshot: bool = False, epochs: int = 1,
        seconds: float = 0.0, background: bool = False, name: str | None = None,
    ) -> Subscription:  # fmt: skip
        """Call callback(changes, epoch) after each transaction by which matches of a pattern appear or disappear: their
        vertices, in columns a, b, c, … in the order of the pattern's, and `diff`. No match is kept or evaluated before: a
        session takes the memory of the edges, and of indexes of them. With `count=True` the changes are those of the number of
        matches, n.

        pattern, directed, symmetry, homomorphisms: as for `subgraphs`.
        edges: a relation of two attributes of one type. Loops are left out; if `directed` is False, an edge is there while it
            is there in one direction or in both.
        triangles: keep the triangles of the graph, and join them in place of their edges.
        count: the number is computed at once, and followed; `s[subscription.relation]` has it. Matches are not kept for it.
        snapshot: with `count=True` the first call has the number. epochs, seconds, background, name: as for `subscribe`.

        The rules are registered, under names that begin with that of the relation, as edge__up; equal ones are shared.
        """
        from semi_naive.subgraph_queries.watched import rules_of_pattern

        self.check_open()
        when = Granularity(epochs, seconds, background)
        graph = self.registry.relation(edges)
        texts = rules_of_pattern(pattern, graph, directed, symmetry, homomorphisms, triangles, count)
        with self.limited(), self.in_turn():
            relation = self.registry.register_patterns(texts)
            return self.registry.subscribers.subscribe(relation, callback, {}, when, snapshot, None, name, keep=count)

    def sink(
        self, relation: str, op: str | None = None, key: Iterable[str] | None = None, query: str | None = None,
        lines: str | None = None,
    ) -> StreamSink:  # fmt: skip
        """Return a sink for Structured Streaming: `stream.writeStream.foreachBatch(session.sink("edge", op="_change_type"))`.

        Each batch is a transaction, exactly once: a batch that is delivered again changes nothing, also after the session was
        reopened with its `path`.

        op: the column of a change feed that marks inserts (insert, update_postimage, +I, +U, c, r, u or 1) and deletes (delete,
            update_preimage, -D, -U, d or -1). Without it all rows are inserted.
        key: attributes by which an insert replaces other facts, as in `Transaction.upsert`.
        query: a name for the stream in place of its id, which is the same as long as the stream's checkpoint is.
        lines: the column whose values are lines of text, with tabs between fields, as `value` of Kafka.
        """
        self.check_open()
        return StreamSink(self, relation, op, key, query, lines)

    def follow(
        self,
        relation: str,
        source: str | os.PathLike,
        *,
        op: str | None = None,
        key: Iterable[str] | None = None,
        name: str | None = None,
        seconds: float = 0.5,
        header: bool = False,
    ) -> Follower:
        """Commit the rows that arrive in a source as transactions on one relation, in a thread, until `Follower.stop` or the
        end of a `with` block: `with s.follow("edge", "inbox/") as follower: …`.

        source: a text file that grows; a folder, of which each file that arrives is read once, in a format of `Program.run`;
            or `tcp://host:port`, which sends lines with tabs between fields. A file for a folder should be renamed into it; one
            that is written there is read once two reads of the folder find it unchanged.
        op: the column that marks inserts and deletes, as for `sink`, also by + and -; the first column if there is no header.
        key: attributes by which an insert replaces other facts.
        name: under which the session stores how far it has read; by default of relation and source. With a directory, rows
            count exactly once, also after it was opened again.
        seconds: the time between two reads of the source. header: text begins with the names of its columns.
        """
        self.check_open()
        follower = Follower(self, relation, os.fspath(source), op, key, name, seconds, header)
        self.followers = [active for active in self.followers if active.is_alive] + [follower]
        return follower

    def record(
        self, relation: str, folder: str | os.PathLike, /, extension: str = ".parquet", **parameters: Any
    ) -> Subscription:
        """Write a file into a folder for each epoch that changes a relation, `path-0000000012.parquet`: its columns and `diff`.
        With a directory each epoch is written exactly once, also after the session was opened again and `record` was called.
        An epoch whose file cannot be written is logged, and written with the next one. `.output path(epochs="folder")` in the
        program does the same.

        extension: .parquet, .csv, .tsv, .csv.gz or .tsv.gz. parameters: of registered rules."""
        self.check_open()
        return record(self, relation, os.fspath(folder), extension, parameters)

    def end_subscription(self, name: str) -> None:
        """Discard a named subscription and the changes stored for it. Raises KeyError if there is none."""
        with self.in_turn():
            self.registry.subscribers.end(name)

    def register(self, name: str, rules: str, *, share: bool | None = None, add: bool = False) -> None:
        """Register rules for a relation. The text has its declaration, those of further relations, and rules, which may have
        parameters, such as `$src`. It is parsed and checked against the session; `subscribe` and `query` evaluate the rules.
        They may read system relations (`semi_naive.session.system`). If they read relations that are not there, they wait until
        these are registered, with a warning in the log.

        share: True if rules that read the relation read all of it; False if they compute only the tuples that their constants
            and parameters ask for. By default they do the latter, unless the whole relation is evaluated already, or is
            expected to have fewer tuples. `explain` tells which.
        add: the rules are further ones for a relation that is registered and has no subscribers, directly or by rules
            that read it. Its declaration is there already. In errors, lines count from the beginning of all its rules.

        Raises ProgramError with all errors. Takes 0.8 ms for a rule; 0.04 ms if only name and constants differ from others.
        """
        self.check_open()
        with self.limited(), self.in_turn():
            self.registry.register(name, rules, share=share, add=add)

    def declare(self, declaration: str) -> None:
        """Add a relation to the session, as `color(x: number, c: symbol)`. It has no tuples before transactions insert facts;
        registered rules and queries read it. A directory stores it: a snapshot is written. Raises BadInput for a name that the
        session has already, and for anything but the declaration of a relation with facts alone."""
        self.check_open()
        with self.in_turn():
            self.registry.show_declared(self.registry.declare(declaration))

    def unregister(self, name: str) -> None:
        """Remove registered rules. Raises ValueError if they have subscriptions, or if other rules read them."""
        with self.in_turn():
            self.registry.unregister(name)

    # -- the end

    def close(self) -> None:
        """Close the session: end its subscriptions, and release its files, Spark and the directory. Its relations cannot be
        read any more. In a fork nothing is closed."""
        if not self.closed and not self.is_foreign:
            for follower in self.followers:
                follower.end()
            with afterwards(self._end_session):
                self.turns.settle_interrupted()

    def _end_session(self) -> None:
        """Stop the subscriptions, and release the resources of the session."""
        self.closed = True
        self.registry.subscribers.close()
        self._release()

    def _release(self, failed: bool = False) -> None:
        """Release files, Spark and the directory. failed: the session could not be opened."""
        self.pinned.clear()
        self.lent.close()
        try:
            self.upkeep.run.cluster.release(failed=failed)
        finally:
            if self.commits.directory:
                self.commits.directory.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session of {self.program.name}: epoch {self._now.number}, {quantity(len(self), 'relation')}>"


def _changeable(program, facts, compiled: dict[str, Relation]) -> set[str]:
    """Return the relations whose facts may change: relations with an .input, and relations that `facts` names. Raises BadInput
    for other names. compiled: the relations of the compiled program, in which inlined ones are missing."""
    named = set(facts) if isinstance(facts, dict) else set()
    for name in named - program.relations.keys():
        raise BadInput(f"facts: {unknown('relation', name, program.relations)}")
    for name in named - compiled.keys():
        raise BadInput(f"facts for {name!r}: it is inlined, so it has no tuples", hint=f"take `inline` from its .decl {name}")
    return named | set(program.inputs)


def _declared_keys(program) -> dict[str, tuple[str, ...]]:
    """Return the key of each relation that has one: the attributes that `.input r(key="x, y")` names."""
    keys = {}
    for directive in program.checked.directives:
        if directive.kind == "input" and "key" in directive.parameters:
            name = directive.relation
            keys[name] = key = tuple(each.strip() for each in directive.parameters["key"].split(","))
            attributes = [attribute for attribute, _ in program.relations[name].attributes]
            if wrong := [each for each in key if each not in attributes]:
                message = f".input {name}: the key names {wrong[0]!r}"
                raise BadInput(message, *directive_place(directive), hint=f"{name} has the attributes {', '.join(attributes)}")
    return keys


def _check_program(program) -> None:
    """Raise ValueError for a program with autoinc() or .limitsize: its relations are not determined by its facts."""
    for rule in program.checked.rules:
        if has_autoinc(rule):
            advice = "number the facts before they are inserted, or use a record as the identity of a tuple"
            message = f"autoinc() in {rule.head.relation} gives other numbers each time, so a session has no answer"
            raise ValueError(f"{message}: {advice}")
    for directive in program.checked.directives:
        if directive.kind == "limitsize":
            advice = "take it out, and bound the recursion by a condition in its rules"
            raise ValueError(f".limitsize of {directive.relation} ends a run anywhere, so a session has no answer: {advice}")


def _check_config(config: Config) -> None:
    """Raise ValueError if a configuration has options that are only for runs."""
    if config.max_iterations is not None:
        raise ValueError("max_iterations ends a run before its fixed point, and a session keeps relations there: leave it out")
    if config.checkpoint_dir is not None:
        raise ValueError("checkpoint_dir is for runs: leave it out, and name the session's directory by path")
