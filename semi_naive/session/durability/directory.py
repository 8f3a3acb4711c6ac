"""The directory of a durable session: a snapshot of one epoch, and a log of the transactions since.

    manifest.json   names the files of the snapshot, with their checksums; written last (`running.progress.manifest`)
    runs/           blocks of explicit facts and of derived relations, symbols and records; blocks that have not changed
                    since the last snapshot are not written again
    log-N-ID        the transactions after epoch N (`log`); N is the first epoch that is retained
    lock            locked by the process that has opened the session

The directory and each snapshot have an identity. The manifest and the log after the snapshot contain both.

Ids of symbols and records are stored: each record of the log contains the new symbols and records. A derived relation is read
from the snapshot if its rules, and those of the relations that it depends on, have not changed. Otherwise it is derived again.
Relations on Spark's partitions, and closures that are represented by their edges, are always derived again: the snapshot has
only their explicit facts.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sortedcontainers import SortedDict

from semi_naive.host.exclusive import exclusive
from semi_naive.host.interrupts import afterwards, deferred, locked
from semi_naive.io.errors import BadInput
from semi_naive.io.files import is_uri
from semi_naive.ra.blocks import durable
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, own_order, union_of_blocks
from semi_naive.ra.blocks.stored import store
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.values.dictionary import Rows, Strings
from semi_naive.ra.values.values import Values
from semi_naive.running.progress.manifest import DurableFiles
from semi_naive.session.contents import BEFORE_ALL, Epoch
from semi_naive.session.durability.fingerprints import VERSION, fingerprints, tuple_type, unusable_reason
from semi_naive.session.durability.log import Identity, Log, LogDamaged, records
from semi_naive.session.durability.log_records import (
    LoggedTransaction,
    batch_of_record,
    changed_relations,
    lexicon_as_arrays,
    lexicons_of_record,
    net_changes,
    transaction_as_arrays,
    transaction_of_record,
)
from semi_naive.session.durability.registrations import Arrays, Registrations, changes_as_arrays, event_as_arrays, is_event
from semi_naive.session.maintenance.implied import Implied
from semi_naive.session.maintenance.recomputation import Budget
from semi_naive.session.registered.subscriptions import History

if TYPE_CHECKING:
    from semi_naive.session.maintenance.upkeep import Upkeep

MIN_LOG_BYTES = 4 << 20  # a snapshot is due when the log exceeds this and half of the last snapshot
Batch = tuple[str, int]  # (stream, number)
# By the block's `id`: the block, which is kept alive so that no other one gets its id, and the manifest's records of its runs.
WrittenBlocks = dict[int, tuple[Block, list[dict]]]
AddUndo = Callable[[Callable[[], object]], None]  # registers a step that reverts a change if the transaction fails
ADVICE = "restore all of the directory from a copy, or remove it to begin anew"
OTHER_VERSION_ADVICE = "read its relations with that version, and begin a new directory with them as facts"


class StateUnusable(ValueError):
    """The directory of a session is unusable: it is in use, damaged, of another version, or of another program."""


@dataclass
class WrittenSnapshot:
    """A snapshot that has been or is being written: the log that follows it, and the files of its contents."""

    log: Log
    blocks: WrittenBlocks
    lexicon_files: dict[str, list[dict]]  # the files of symbols and records, as in the manifest
    lexicon_sizes: dict[str, int]  # the numbers of symbols and records in the snapshot and in its log


class Directory:
    """The directory of one session, locked until `close`. Raises StateUnusable if another process has it, or it is damaged."""

    def __init__(self, path, sync_seconds: float):
        """sync_seconds: seconds after which the log is forced to the disk; 0: with each transaction."""
        if is_uri(path := os.fspath(path)):
            raise BadInput(f"a session cannot be kept at {path}", hint="path is a directory on a disk of this machine")
        self.path, self.sync_seconds = Path(path).absolute(), sync_seconds
        self.files = DurableFiles(self.path, uuid.uuid4().hex, "session", ADVICE, StateUnusable, sync=True)
        self.identity = uuid.uuid4().hex
        self.log: Log | None = None
        self.lexicon_sizes: dict[str, int] = {}  # the numbers of symbols and records in the snapshot and in the log
        self.lexicon_files: dict[str, list[dict]] = {}  # see `WrittenSnapshot`, also for the next line
        self.blocks: WrittenBlocks = {}
        self.unfinished: WrittenSnapshot | None = None  # the snapshot being written; the manifest may name it already
        self.snapshot_bytes = 0
        self.repeated_bytes = 0  # bytes of the log that repeat transactions of the log before
        self.batches: dict[str, int] = {}  # the number of the last committed batch of each stream
        self.rules_unchanged = True  # True if the rules of all relations are those of the snapshot
        self.unchanged: set[str] = set()  # the relations whose rules are those of the snapshot
        self.registrations = Registrations()  # the rules and subscriptions in the directory when it was opened
        self._writing = threading.Lock()  # any thread may acknowledge changes
        self.files.manifest()  # creates the folder, or checks that it is this user's
        self._file_lock = contextlib.ExitStack()
        try:
            with deferred():
                locked_by_us = self._file_lock.enter_context(exclusive(self.path / "lock", patience=0))
            if not locked_by_us:
                raise StateUnusable(f"{self.path} is in use: another process has its session, or files cannot be locked there")
            self.manifest = self.files.manifest()
        except BaseException:
            self._file_lock.close()
            raise

    # -- writing

    def append(
        self, transaction: LoggedTransaction, values: Values, batch: Batch | None, changes: dict[str, Change], add_undo: AddUndo
    ) -> None:
        """Append a transaction to the log. Raises OSError if it cannot be written.
        values: the symbols and records of the session. batch: the (stream, number) that the transaction commits. changes: those
        to store for named subscriptions, by name. add_undo: is called with a step that removes the record."""
        arrays = transaction_as_arrays(transaction) | changes_as_arrays(changes)
        if batch:
            stream, number = batch
            arrays |= {"query": np.frombuffer(stream.encode(), np.uint8), "batch": np.array([number])}
        self._append(transaction.epoch, arrays, values, add_undo)

    def append_event(self, epoch: int, values: Values | None, add_undo: AddUndo, sync: bool, *event) -> None:
        """Append a change of the registered rules or of a named subscription to the log. event: as for
        `Registrations.apply_event`. values: the symbols and records of the session, if the event contains ids of them. sync:
        force the record to the disk now; otherwise the next transaction does."""
        self._append(epoch, event_as_arrays(*event), values, add_undo, sync)

    def _append(self, epoch: int, arrays: Arrays, values: Values | None, add_undo: AddUndo, sync: bool = True) -> None:
        """Append a record with these arrays, and with the symbols and records that the directory does not have yet."""
        with locked(self._writing):
            self._finish_snapshot()
            assert self.log is not None
            new_sizes = self.lexicon_sizes
            if values is not None:
                new_sizes = values.sizes()
                for name, (dense, content) in values.since(self.lexicon_sizes).items():
                    arrays |= lexicon_as_arrays(name, dense, content)
            add_undo(partial(self._truncate_log, self.log.size, self.lexicon_sizes))
            self.log.append(epoch, arrays, sync)
            self.lexicon_sizes = new_sizes

    def _truncate_log(self, size: int, lexicon_sizes: dict[str, int]) -> None:
        """Truncate the log to a size in bytes. lexicon_sizes: the numbers of symbols and records before the removed records."""
        with locked(self._writing):
            assert self.log is not None
            self.log.truncate(size)
            self.lexicon_sizes = lexicon_sizes

    @property
    def due(self) -> bool:
        """True if the log is so large that a snapshot is worth its time."""
        return self.log is not None and self.log.size - self.repeated_bytes > max(MIN_LOG_BYTES, self.snapshot_bytes / 2)

    def snapshot(self, first: Epoch, upkeep: Upkeep, batches: dict[str, int], registrations: Registrations) -> None:
        """Write a snapshot: blocks, symbols and records that the last snapshot does not have, a new log with the transactions
        since, then the manifest. first: the first retained epoch, which is written. batches: each stream's last batch."""
        with locked(self._writing), afterwards(self._finish_snapshot):
            self._finish_snapshot()
            hashes = fingerprints(upkeep)
            blocks: WrittenBlocks = {}
            relations = {name: self._write_relation(name, first, upkeep, blocks) | {"print": hashes[name]} for name in hashes}
            lexicon_files = self._write_lexicons(upkeep.values)
            identity = Identity(self.identity, uuid.uuid4().hex)
            path = self.path / f"log-{first.number}-{identity.snapshot[:8]}"
            log = Log.new(path, identity, self.sync_seconds)
            self.unfinished = WrittenSnapshot(log, blocks, lexicon_files, upkeep.values.sizes())
            for transaction in self._transactions_after(first.number):
                log.append(transaction.epoch, transaction_as_arrays(transaction), sync=False)
            log.sync()
            budgets = upkeep.recomputation.budgets.items()
            self.files.publish({
                "version": VERSION, **vars(identity), "epoch": first.number, "log": path.name, "relations": relations,
                "values": lexicon_files, "batches": batches, "time": None if first.time == BEFORE_ALL else first.time,
                "declarations": registrations.declarations,
                "rules": [[name, *rules] for name, rules in registrations.rules.items()],
                "names": [self._write_history(name, history, blocks) for name, history in registrations.names.items()],
                "visited": {upkeep.run.strata[number].relations[0]: budget.visited for number, budget in budgets},
            })  # fmt: skip

    def _write_relation(self, name: str, first: Epoch, upkeep: Upkeep, blocks: WrittenBlocks) -> dict[str, Any]:
        """Write the tables of a relation at an epoch, its explicit facts and all its tuples. Return its entry in the manifest.
        blocks: those of the new snapshot, to which the written ones are added."""
        relation = upkeep.program.relations[name]
        table = first.tables.get(name)  # None before its first use
        if name in first.spread or isinstance(table, Implied):
            table = None  # the relation is derived again when the directory is opened
        # "spread": derived again; "given", "whole": the runs of explicit facts and of all tuples
        entry = {"spread": table is None, "form": tuple_type(relation, upkeep.program.types), "arity": relation.arity}
        if name in upkeep.relations.facts.given:  # without facts, if it was added to the session after this epoch
            entry["given"] = self._write_table(first.given[name], name, blocks) if name in first.given else []
        if table is not None and not upkeep.relations.facts.is_shared(name):
            entry["whole"] = self._write_table(table, name, blocks)
        return entry

    def _transactions_after(self, epoch: int) -> list[LoggedTransaction]:
        """Read the transactions after an epoch from the log."""
        logged = records(self.log.path, self.log.identity)[0] if self.log is not None else []
        later = [(number, arrays) for number, arrays in logged if number > epoch and not is_event(arrays)]
        return [transaction_of_record(number, arrays, changed_relations(arrays)) for number, arrays in later]

    def _finish_snapshot(self) -> None:
        """Finish an unfinished snapshot: make its log the current one if the manifest names it, otherwise discard it."""
        if self.unfinished is not None:
            manifest = self.files.manifest()
            if manifest is not None and manifest["snapshot"] == self.unfinished.log.identity.snapshot:
                self._use_snapshot(self.unfinished)
                self.repeated_bytes = self.unfinished.log.size  # all of its records so far were in the old log
            else:
                self.unfinished.log.close()
            self._remove_old_logs()
            self.unfinished = None

    def _use_snapshot(self, snapshot: WrittenSnapshot) -> None:
        """Make a snapshot and its log the current ones."""
        if self.log is not None and self.log is not snapshot.log:
            self.log.close()
        self.log, self.blocks = snapshot.log, snapshot.blocks
        self.lexicon_files, self.lexicon_sizes = snapshot.lexicon_files, snapshot.lexicon_sizes
        self.snapshot_bytes = sum(8 * run["words"] for _, runs in self.blocks.values() for run in runs)

    def _remove_old_logs(self) -> None:
        """Remove all logs except for the current one."""
        for path in self.path.glob("log-*"):
            if self.log is not None and path != Path(self.log.path):
                path.unlink(missing_ok=True)

    def _write_table(self, table: Table, name: str, blocks: WrittenBlocks) -> list[dict]:
        """Write the blocks of a table, and return the records of their runs."""
        runs = []
        for block in table.blocks("all", own_order(table.arity)):
            runs += self._write_block(block, name, blocks)
        return runs

    def _write_history(self, name: str, history: History, blocks: WrittenBlocks) -> dict:
        """Write the changes stored for a named subscription, and return its entry in the manifest."""
        epochs, arity = [], 0
        for epoch, change in history.after():
            arity = change.born.arity
            epochs.append([epoch, *(self._write_block(block, "changes", blocks) for block in (change.born, change.lost))])
        return {
            "name": name, "relation": history.relation, "key": list(history.key), "acknowledged": history.acknowledged,
            "epochs": epochs, "arity": arity, "lapsed": history.lapsed,
        }  # fmt: skip

    def _write_block(self, block: Block, name: str, blocks: WrittenBlocks) -> list[dict]:
        """Write a block, unless an earlier snapshot has, and return the records of its runs. blocks: the new snapshot's."""
        if id(block) in self.blocks:
            blocks[id(block)] = self.blocks[id(block)]
        elif id(block) not in blocks:
            path = str(self.files.new(name))
            blocks[id(block)] = block, [durable.to_json(run, self.files.name(path)) for run in store(path, block)]
        _, runs = blocks[id(block)]
        return runs

    def _write_lexicons(self, values: Values) -> dict[str, list[dict]]:
        """Write the symbols and records that no snapshot has yet. Return the files of all of them, by the lexicon's name."""
        sizes, all_files = values.sizes(), {name: list(files) for name, files in self.lexicon_files.items()}
        written = {name: sum(file["length"] for file in files) for name, files in self.lexicon_files.items()}
        for name, (dense, content) in values.since(written).items():
            storage, path = Strings if name == "symbols" else Rows, str(self.files.new(name))
            storage.save(content, path)
            length = sizes[name] - written.get(name, 0)
            all_files.setdefault(name, []).append(self.files.record(path + storage.suffix, length=length, dense=dense))
        return all_files

    # -- reading

    def load(self, upkeep: Upkeep, changeable: set[str], retain: int) -> tuple[list[LoggedTransaction], dict[str, Table]]:
        """Read the snapshot and the log. Explicit facts, values and budgets are stored in `upkeep`.
        Return (transactions, tables). The first transaction sums up all changes of facts up to the first retained epoch; one
        for each later epoch follows. tables: those of the snapshot, by relation; a relation without one must be derived again.
        changeable: the relations whose facts may change. retain: the number of epochs to retain before the last one."""
        manifest: dict = self.manifest or {}
        with self.files.checked_contents():
            if manifest["version"] != VERSION:
                message = f"another version of semi-naive has written {self.path}, in the form {manifest['version']!r}"
                raise StateUnusable(f"{message}, and this one reads {VERSION!r}: {OTHER_VERSION_ADVICE}")
            self.files.verify(manifest, None)
            path, identity = self.path / manifest["log"], Identity(manifest["directory"], manifest["snapshot"])
            try:
                logged, end = records(path, identity)
            except LogDamaged as damaged:
                raise StateUnusable(f"{damaged}; {ADVICE}") from None
            self.identity = identity.directory
            self._read_values(manifest["values"], [arrays for _, arrays in logged], upkeep.values)
            changes = [(epoch, arrays) for epoch, arrays in logged if not is_event(arrays)]
            summed = max(0, len(changes) - retain)  # the number of transactions that are not retained
            net = self._read_facts(manifest["relations"], [arrays for _, arrays in changes], summed, upkeep, changeable)
            tables = self._read_tables(manifest, upkeep)
            self.batches = manifest["batches"] | dict(batch_of_record(arrays) for _, arrays in logged if "batch" in arrays)
            self._read_registrations(manifest)
            epochs = [epoch for epoch, arrays in logged if not self.registrations.apply_record(epoch, arrays)]
        if epochs != list(range(manifest["epoch"] + 1, manifest["epoch"] + 1 + len(epochs))):
            raise self.files.unusable_error(f"{path} has other epochs than those after {manifest['epoch']}")
        log = Log(path, identity, end, self.sync_seconds)
        self._use_snapshot(WrittenSnapshot(log, self.blocks, self.lexicon_files, self.lexicon_sizes))
        self._remove_old_logs()
        transactions = [transaction_of_record(epoch, arrays, upkeep.relations.facts.given) for epoch, arrays in changes]
        # The first retained epoch is that of the last transaction that is summed up, or of the snapshot.
        first = transactions[summed - 1] if summed else LoggedTransaction(manifest["epoch"], manifest.get("time"), {})
        return [replace(first, net=net), *transactions[summed:]], tables

    def _read_values(self, lexicon_files: dict[str, list[dict]], logged: list[Arrays], values: Values) -> None:
        """Read the symbols and records of the snapshot and of the log. logged: the arrays of the records of the log."""
        self.lexicon_files = lexicon_files
        lexicons: dict[str, tuple[int, list]] = {}
        for name, files in lexicon_files.items():
            storage = Strings if name == "symbols" else Rows
            pieces = [storage.load(self.files.path(file).removesuffix(storage.suffix)) for file in files]
            lexicons[name] = files[-1]["dense"], pieces
        for arrays in logged:
            for name, dense, more_pieces in lexicons_of_record(arrays):
                _, pieces = lexicons.get(name, (0, []))
                lexicons[name] = dense, [*pieces, *more_pieces]
        values.restore(lexicons)
        self.lexicon_sizes = values.sizes()

    def _read_facts(self, saved: dict, logged: list[Arrays], summed: int, upkeep: Upkeep, changeable: set) -> dict[str, Change]:
        """Restore the explicit facts of the snapshot, and return their net changes by the first `summed` transactions since.
        Raises StateUnusable if a relation has facts at the end but is not an input of the program any more, or has another
        type. saved: the manifest's entries of relations. logged: the arrays of the transactions in the log."""
        facts = upkeep.relations.facts
        given = {name: self._read_table(entry["given"], entry["arity"]) for name, entry in saved.items() if "given" in entry}
        net = net_changes(logged, given)
        for name, table in given.items():
            saved_type = saved[name]["form"]
            if reason := unusable_reason(name, saved_type, upkeep, changeable):
                change = net.pop(name, None)
                if table.count + (change.born.size - change.lost.size if change else 0):
                    hint = "declare it as it was, or clear it with the program that has written the directory"
                    raise StateUnusable(f"{self.path} has facts of {name}{saved_type}, {reason}: {hint}")
            else:
                facts.given[name] = table
        for name in changeable - facts.given.keys():
            facts.given[name] = Table(upkeep.program.relations[name].arity)
        if summed < len(logged):  # so far, `net` has the changes of all transactions, for the check above
            net = {name: change for name, change in net_changes(logged[:summed], given).items() if name in facts.given}
        return net

    def _read_tables(self, manifest: dict, upkeep: Upkeep) -> dict[str, Table]:
        """Read the tables of relations whose rules are those of the snapshot, and the budgets of strata."""
        saved, hashes, tables = manifest["relations"], fingerprints(upkeep), {}
        self.rules_unchanged = {name: entry["print"] for name, entry in saved.items()} == hashes
        for name, hash_ in hashes.items():
            entry = saved.get(name, {})
            if entry.get("print") != hash_:
                continue
            self.unchanged.add(name)
            if not entry.get("spread"):  # a table without "whole" has explicit facts only
                tables[name] = self._read_table(entry["whole" if "whole" in entry else "given"], entry["arity"])
        for number, stratum in enumerate(upkeep.run.strata):
            if bindings := manifest.get("visited", {}).get(stratum.relations[0]):
                upkeep.recomputation.budgets[number] = Budget(bindings)
        return tables

    def _read_registrations(self, manifest: dict) -> None:
        """Read the registered rules and the named subscriptions of the snapshot."""
        self.registrations = Registrations({name: tuple(rules) for name, *rules in manifest.get("rules", [])})
        for entry in manifest.get("names", []):
            epochs = SortedDict()
            for epoch, *runs_of_sides in entry["epochs"]:
                born, lost = (union_of_blocks(self._open_blocks(runs), entry["arity"]) for runs in runs_of_sides)
                epochs[epoch] = Change(born, lost)
            self.registrations.names[entry["name"]] = History(
                entry["relation"], tuple(entry["key"]), entry["acknowledged"], epochs, entry.get("lapsed", False)
            )

    def _open_blocks(self, runs: list[dict]) -> list[Block]:
        """Open the blocks of a snapshot, and remember their files for the next snapshot. runs: records from the manifest."""
        blocks = []
        for run in runs:
            block = durable.from_json(run, self.files.path(run)).open()
            self.blocks[id(block)] = block, [run]
            blocks.append(block)
        return blocks

    def _read_table(self, runs: list[dict], arity: int) -> Table:
        """Return a settled table of the blocks of a snapshot. runs: records from the manifest."""
        order = own_order(arity)
        return Table.of(arity, order, {order: self._open_blocks(runs)}, [])

    def close(self) -> None:
        """Force the log to the disk, and unlock the directory."""
        try:
            if self.log is not None:
                self.log.close()
        finally:
            self._file_lock.close()
