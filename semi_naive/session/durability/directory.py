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

import contextlib
import hashlib
import os
import threading
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sortedcontainers import SortedDict

import semi_naive
from semi_naive.host.exclusive import exclusive
from semi_naive.host.interrupts import afterwards, deferred, locked
from semi_naive.io.errors import BadInput
from semi_naive.io.files import is_uri
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.blocks import durable
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, own_order, union_of_blocks
from semi_naive.ra.blocks.stored import store
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Kind, Relation
from semi_naive.ra.text.arrow_arrays import strings_of
from semi_naive.ra.text.strings import places_of, string_arrays
from semi_naive.ra.values.dictionary import Rows, Strings
from semi_naive.running.progress.manifest import DurableFiles
from semi_naive.session.contents import BEFORE_ALL
from semi_naive.session.durability.log import Identity, Log, LogDamaged, records
from semi_naive.session.durability.registrations import Registrations, changes_as_arrays, event, is_event
from semi_naive.session.facts import PendingChange, block_of, columns_of
from semi_naive.session.maintenance.implied import Implied
from semi_naive.session.maintenance.recomputation import Budget
from semi_naive.session.registered.subscriptions import History

VERSION = "session 2"  # the version of the directory's format
LEAST = 4 << 20  # bytes: a snapshot is due when the log exceeds this and half of the last snapshot
Undo = Callable[[Callable[[], object]], None]
ADVICE = "restore all of the directory from a copy, or remove it to begin anew"
OTHERS = "read its relations with that version, and begin a new directory with them as facts"


class StateUnusable(ValueError):
    """The directory of a session is unusable: it is in use, damaged, of another version, or of another program."""


@dataclass
class Published:
    """A snapshot that has been or is being written: the log that follows it, and the files of its contents."""

    log: Log
    blocks: dict[int, tuple[Block, list[dict]]]  # for each block, by its `id`: the block, and the records of its runs
    pieces: dict[str, list[dict]]  # the files of symbols and records
    sizes: dict[str, int]  # the numbers of symbols and records in the snapshot and in its log


@dataclass(frozen=True)
class Logged:
    """A transaction in the log. time: None in logs of earlier versions; net: the changes of explicit facts."""

    epoch: int
    time: float | None
    net: dict[str, Change]


class Directory:
    """The directory of one session, locked until `close`. Raises StateUnusable if another process has locked it, or if its
    contents are unusable.
    """

    def __init__(self, path, every: float):
        """every: seconds after which the log is forced to the disk; 0: with each transaction."""
        if is_uri(path := os.fspath(path)):
            raise BadInput(f"a session cannot be kept at {path}", hint="path is a directory on a disk of this machine")
        self.path, self.every = Path(path).absolute(), every
        self.files = DurableFiles(self.path, uuid.uuid4().hex, "session", ADVICE, StateUnusable, sync=True)
        self.identity = uuid.uuid4().hex
        self.log: Log | None = None
        self.sizes: dict[str, int] = {}
        self.pieces: dict[str, list[dict]] = {}
        self.blocks: dict[int, tuple[Block, list[dict]]] = {}
        self.next: Published | None = None  # the snapshot being written; the manifest may name it already
        self.bytes = 0  # of the snapshot
        self.repeated = 0  # bytes of the log that repeat transactions of the log before
        self.batches: dict[str, int] = {}  # the number of the last committed batch of each stream
        self.fits = True  # True if the rules of all relations are those of the snapshot
        self.same: set[str] = set()  # the relations whose rules are those of the snapshot
        self.registered = Registrations()  # the rules and subscriptions in the directory when it was opened
        self._writing = threading.Lock()  # any thread may acknowledge changes
        self.files.manifest()  # creates the folder, or checks that it is this user's
        self._file_lock = contextlib.ExitStack()
        try:
            with deferred():
                mine = self._file_lock.enter_context(exclusive(self.path / "lock", 0))
            if not mine:
                raise StateUnusable(f"{self.path} is in use: another process has its session, or files cannot be locked there")
            self.manifest = self.files.manifest()
        except BaseException:
            self._file_lock.close()
            raise

    # -- writing

    def append(self, made: Logged, values, batch: tuple[str, int] | None, kept: dict[str, Change], undo: Undo) -> None:
        """Append a transaction to the log. Raises OSError if it cannot be written. batch: the (stream, number) that it commits.
        kept: the changes for named subscriptions. undo: is called with a step that removes the record."""
        arrays = _as_arrays(made) | changes_as_arrays(kept)
        if batch:
            arrays |= {"query": np.frombuffer(batch[0].encode(), np.uint8), "batch": np.array([batch[1]])}
        self._append(made.epoch, arrays, values, undo)

    def note(self, epoch: int, values, undo: Undo, sync: bool, *what) -> None:
        """Append a change of the registered rules or of a named subscription to the log. what: the event, as for
        `Registrations.happened`. values: the symbols and records of the session, if the event contains ids of them. sync:
        force the record to the disk now; otherwise the next transaction does."""
        self._append(epoch, event(*what), values, undo, sync)

    def _append(self, epoch: int, arrays: dict[str, np.ndarray], values, undo: Undo, sync: bool = True) -> None:
        """Append a record with these arrays, and with the symbols and records that the directory does not have yet."""
        with locked(self._writing):
            self._go_on()
            assert self.log is not None
            sizes = self.sizes
            if values is not None:
                sizes = values.sizes()
                for name, (dense, content) in values.since(self.sizes).items():
                    arrays |= _content(name, dense, content)
            undo(partial(self._back_to, self.log.size, self.sizes))
            self.log.append(epoch, arrays, sync)
            self.sizes = sizes

    def _back_to(self, size: int, sizes: dict[str, int]) -> None:
        """Truncate the log to a size. sizes: the numbers of symbols and records up to there."""
        with locked(self._writing):
            assert self.log is not None
            self.log.back_to(size)
            self.sizes = sizes

    @property
    def due(self) -> bool:
        """True if the log is so large that a snapshot is worth its time."""
        return self.log is not None and self.log.size - self.repeated > max(LEAST, self.bytes / 2)

    def snapshot(self, first, upkeep, batches: dict[str, int], registered: Registrations | None = None) -> None:
        """Write a snapshot, and begin a new log with the transactions since. Only blocks, symbols and records that the last
        snapshot does not have are written. first: the epoch of the snapshot, the first that is retained. batches: the last
        batch of each stream."""
        with locked(self._writing), afterwards(self._go_on):
            self._go_on()
            self._snapshot(first, upkeep, batches, registered or Registrations())

    def _snapshot(self, first, upkeep, batches: dict[str, int], registered: Registrations) -> None:
        """Write a snapshot: the blocks that are new, a new log, then the manifest."""
        prints, relations = fingerprints(upkeep), {}
        blocks: dict[int, tuple[Block, list[dict]]] = {}
        for name in prints:
            relation, given, whole = upkeep.program.relations[name], first.given.get(name), first.tables.get(name)
            anew = name in first.spread or whole is None or isinstance(whole, Implied)  # None before its first use
            elsewhere = upkeep.relations.facts.is_shared(name) or anew
            parts = {"given": given, "whole": None if elsewhere else whole}
            saved = {part: self._table(table, name, blocks) for part, table in parts.items() if table is not None}
            entry = {
                "print": prints[name],
                "spread": anew,  # it is derived again
                "form": form(relation, upkeep.program.types),
                "arity": relation.arity,
            }
            relations[name] = entry | saved
        pieces = self._lexicons(upkeep.values)
        identity = Identity(self.identity, uuid.uuid4().hex)
        path = self.path / f"log-{first.number}-{identity.snapshot[:8]}"
        self.next = Published(Log.new(path, identity, self.every), blocks, pieces, upkeep.values.sizes())
        for made in self._since(first.number):
            self.next.log.append(made.epoch, _as_arrays(made), sync=False)
        self.next.log.sync()
        self.files.publish({
            "version": VERSION, **vars(identity), "epoch": first.number, "log": path.name, "relations": relations,
            "values": pieces, "batches": batches, "time": None if first.time == BEFORE_ALL else first.time,
            "rules": [list(each) for each in registered.rules.items()],
            "names": [self._history(name, history, blocks) for name, history in registered.names.items()],
            "visited": {
                upkeep.run.strata[number].relations[0]: each.visited for number, each in upkeep.recomputation.budgets.items()
            },
        })  # fmt: skip

    def _since(self, epoch: int) -> list[Logged]:
        """The transactions of the log after an epoch."""
        found = records(self.log.path, self.log.identity)[0] if self.log is not None else []
        wanted = [(number, arrays) for number, arrays in found if number > epoch and not is_event(arrays)]
        return [_logged(number, arrays, {key[1:] for key in arrays if key[0] == "+"}) for number, arrays in wanted]

    def _go_on(self) -> None:
        """Finish an unfinished snapshot: make its log the current one if the manifest names it, otherwise discard it."""
        if self.next is not None:
            manifest = self.files.manifest()
            if manifest is not None and manifest["snapshot"] == self.next.log.identity.snapshot:
                self._begin(self.next)
                self.repeated = self.next.log.size
            else:
                self.next.log.close()
            self._remove_logs()
            self.next = None

    def _begin(self, snapshot: Published) -> None:
        """Make a snapshot and its log the current ones."""
        if self.log is not None and self.log is not snapshot.log:
            self.log.close()
        self.log, self.blocks, self.pieces, self.sizes = snapshot.log, snapshot.blocks, snapshot.pieces, snapshot.sizes
        self.bytes = sum(8 * record["words"] for _, found in self.blocks.values() for record in found)

    def _remove_logs(self) -> None:
        """Remove all logs except for the current one."""
        for stale in self.path.glob("log-*"):
            if self.log is not None and stale != Path(self.log.path):
                stale.unlink(missing_ok=True)

    def _table(self, table: Table, name: str, blocks: dict) -> list[dict]:
        """Write the blocks of a table, and return the records of their runs."""
        found = []
        for block in table.blocks("all", own_order(table.arity)):
            found += self._block(block, name, blocks)
        return found

    def _history(self, name: str, history: History, blocks: dict) -> dict:
        """Write the changes stored for a named subscription, and return its entry in the manifest."""
        kept = history.after()
        epochs = [[epoch, *(self._block(block, "changes", blocks) for block in (change.born, change.lost))]
                  for epoch, change in kept]  # fmt: skip
        return {
            "name": name, "relation": history.relation, "key": list(history.key), "acknowledged": history.acknowledged,
            "epochs": epochs, "arity": kept[0][1].born.arity if kept else 0, "lapsed": history.lapsed,
        }  # fmt: skip

    def _block(self, block: Block, name: str, blocks: dict) -> list[dict]:
        """Write a block, unless an earlier snapshot has, and return the records of its runs. blocks: the new snapshot's."""
        if id(block) in self.blocks:
            blocks[id(block)] = self.blocks[id(block)]
        elif id(block) not in blocks:
            path = str(self.files.new(name))
            blocks[id(block)] = block, [durable.to_json(one, self.files.name(path)) for one in store(path, block)]
        return blocks[id(block)][1]

    def _lexicons(self, values) -> dict[str, list[dict]]:
        """Write the symbols and records that no snapshot has yet. Return the files of all of them."""
        sizes, found = values.sizes(), {name: list(pieces) for name, pieces in self.pieces.items()}
        written = {name: sum(piece["length"] for piece in pieces) for name, pieces in self.pieces.items()}
        for name, (dense, content) in values.since(written).items():
            form, path = Strings if name == "symbols" else Rows, str(self.files.new(name))
            form.save(content, path)
            length = sizes[name] - written.get(name, 0)
            found.setdefault(name, []).append(self.files.record(path + form.suffix, length=length, dense=dense))
        return found

    # -- reading

    def take_up(self, upkeep, changeable: set[str], retain: int) -> tuple[list[Logged], dict[str, Table]]:
        """Read the explicit facts, values and budgets of the snapshot. Return the changes of facts since, first the sum of all
        up to the first epoch that is retained, then those of each later epoch; and the tables of the snapshot by relation. A
        relation without a table is derived again. retain: epochs to retain before the last one."""
        manifest: dict = self.manifest or {}
        with self.files.checked_contents():
            if manifest["version"] != VERSION:
                message = f"another version of semi-naive has written {self.path}, in the form {manifest['version']!r}"
                raise StateUnusable(f"{message}, and this one reads {VERSION!r}: {OTHERS}")
            self.files.verify(manifest, None)
            path, identity = self.path / manifest["log"], Identity(manifest["directory"], manifest["snapshot"])
            try:
                found, end = records(path, identity)
            except LogDamaged as damaged:
                raise StateUnusable(f"{damaged}; {ADVICE}") from None
            self.identity = identity.directory
            self._read_values(manifest["values"], [arrays for _, arrays in found], upkeep.values)
            transactions = [each for each in found if not is_event(each[1])]
            begin = max(0, len(transactions) - retain)
            logged = [arrays for _, arrays in transactions]
            net = self._read_facts(manifest["relations"], logged, begin, upkeep, changeable)
            tables = self._read_tables(manifest, upkeep)
            self.batches = manifest["batches"] | dict(_batch(arrays) for _, arrays in found if "batch" in arrays)
            self._read_registrations(manifest)
            epochs = [epoch for epoch, arrays in found if not self.registered.take_up(epoch, arrays)]
        if epochs != list(range(manifest["epoch"] + 1, manifest["epoch"] + 1 + len(epochs))):
            raise self.files.unusable_error(f"{path} has other epochs than those after {manifest['epoch']}")
        self._begin(Published(Log(path, identity, end, self.every), self.blocks, self.pieces, self.sizes))
        self._remove_logs()
        steps = [_logged(epoch, arrays, upkeep.relations.facts.given) for epoch, arrays in transactions]
        first = steps[begin - 1] if begin else Logged(manifest["epoch"], manifest.get("time"), {})
        return [Logged(first.epoch, first.time, net), *steps[begin:]], tables

    def _read_values(self, pieces: dict[str, list[dict]], logged: list[dict], values) -> None:
        """Read the symbols and records of the snapshot and of the log. logged: the arrays of the records of the log."""
        self.pieces = pieces
        found: dict[str, tuple[int, list]] = {}
        for name, parts in pieces.items():
            form = Strings if name == "symbols" else Rows
            content = [form.load(self.files.path(piece).removesuffix(form.suffix)) for piece in parts]
            found[name] = parts[-1]["dense"], content
        for arrays in logged:
            for name, (dense, content) in _contents(arrays):
                found[name] = dense, [*found.get(name, (0, []))[1], *content]
        values.restore(found)
        self.sizes = values.sizes()

    def _read_facts(self, known: dict, logged: list[dict], most: int, upkeep, changeable: set[str]) -> dict[str, Change]:
        """Restore the explicit facts of the snapshot, and return their changes by the first `most` transactions since. Raises
        StateUnusable if a relation has facts at the end but is not an input of the program any more, or has another type.
        known: the relations in the manifest; logged: the transactions of the log."""
        given = {name: self._read(saved["given"], saved["arity"]) for name, saved in known.items() if "given" in saved}
        net = _net(logged, given)
        for name, table in given.items():
            if wrong := _misfit(name, known[name]["form"], upkeep, changeable):
                change = net.pop(name, None)
                if table.count + (change.born.size - change.lost.size if change else 0):
                    hint = "declare it as it was, or clear it with the program that has written the directory"
                    raise StateUnusable(f"{self.path} has facts of {name}{known[name]['form']}, {wrong}: {hint}")
            else:
                upkeep.relations.facts.given[name] = table
        for name in changeable - upkeep.relations.facts.given.keys():
            upkeep.relations.facts.given[name] = Table(upkeep.program.relations[name].arity)
        if most < len(logged):
            fitting = upkeep.relations.facts.given
            net = {name: change for name, change in _net(logged[:most], given).items() if name in fitting}
        return net

    def _read_tables(self, manifest: dict, upkeep) -> dict[str, Table]:
        """Read the tables of relations whose rules are those of the snapshot, and the budgets of strata."""
        known, prints, tables = manifest["relations"], fingerprints(upkeep), {}
        self.fits = {name: saved["print"] for name, saved in known.items()} == prints
        for name, print_ in prints.items():
            saved = known.get(name, {})
            if saved.get("print") != print_:
                continue
            self.same.add(name)
            if not saved.get("spread"):
                tables[name] = self._read(saved["whole" if "whole" in saved else "given"], saved["arity"])
        for number, stratum in enumerate(upkeep.run.strata):
            if bindings := manifest.get("visited", {}).get(stratum.relations[0]):
                upkeep.recomputation.budgets[number] = Budget(bindings)
        return tables

    def _read_registrations(self, manifest: dict) -> None:
        """Read the registered rules and the named subscriptions of the snapshot."""
        self.registered = Registrations(dict(map(tuple, manifest.get("rules", []))))
        for saved in manifest.get("names", []):
            epochs = SortedDict(
                (epoch, Change(*(union_of_blocks(self._blocks(part), saved["arity"]) for part in parts)))
                for epoch, *parts in saved["epochs"]
            )
            self.registered.names[saved["name"]] = History(
                saved["relation"], tuple(saved["key"]), saved["acknowledged"], epochs, saved.get("lapsed", False)
            )

    def _blocks(self, saved: list[dict]) -> list[Block]:
        """Open the blocks of a snapshot, and note that they are written already."""
        blocks = []
        for record in saved:
            block = durable.from_json(record, self.files.path(record)).open()
            self.blocks[id(block)] = block, [record]
            blocks.append(block)
        return blocks

    def _read(self, saved: list[dict], arity: int) -> Table:
        blocks = self._blocks(saved)
        return Table.of(arity, own_order(arity), {own_order(arity): blocks}, [])

    def close(self) -> None:
        """Force the log to the disk, and unlock the directory."""
        try:
            if self.log is not None:
                self.log.close()
        finally:
            self._file_lock.close()


def fingerprints(upkeep) -> dict[str, str]:
    """Return a hash by relation of everything that its tuples depend on, except for explicit facts: the versions, the types,
    the rules, the names of its inputs, and the hashes of the relations that the rules read."""
    found: dict[str, str] = {}
    for stratum in upkeep.run.compiled.strata:
        forms = {name: form(upkeep.program.relations[name], upkeep.program.types) for name in sorted(stratum.relations)}
        below = {name: found[name] for name in sorted(stratum.reads - set(stratum.relations))}
        changeable = sorted(upkeep.relations.facts.given.keys() & forms.keys())
        parts = semi_naive.__version__, VERSION, forms, changeable, sorted(map(str, stratum.rules)), below
        found |= dict.fromkeys(stratum.relations, hashlib.sha256(repr(parts).encode()).hexdigest())
    return found


def form(relation: Relation, types: dict) -> str:
    """The type of a relation's tuples as text: the kinds of attributes, and the fields of records and branches at any depth."""
    fields: dict[str, str] = {}
    types, waiting = BUILT_IN | types, [type_ for _, type_ in relation.attributes]
    while waiting:
        type_ = waiting.pop()
        if type_.kind == Kind.RECORD and type_.name not in fields:
            fields[type_.name] = f"[{_field_types(type_.fields, types)}]"
            if type_.branches:
                fields[type_.name] = " | ".join(
                    f"{each.name} {{{_field_types(each.fields, types)}}}" for each in type_.branches
                )
            waiting += [types[each] for each in type_.inner]
    own = ", ".join(_type_name(type_) for _, type_ in relation.attributes)
    special = f" {relation.lattice or ''}{' eqrel' * relation.eqrel}".rstrip()
    special += f"{relation.choice or ''}{' subsumed' * relation.dominated}"
    special += "".join(f" @{join.name}" for join in relation.joins)
    return f"({own}){special}" + "".join(f", {name} = {inner}" for name, inner in sorted(fields.items()))


def _field_types(fields: tuple, types: dict) -> str:
    return ", ".join(_type_name(types[each]) for _, each in fields)


def _type_name(type_) -> str:
    return type_.name if type_.kind == Kind.RECORD else type_.kind.value


def _misfit(name: str, saved: str, upkeep, changeable: set[str]) -> str:
    """The reason why a program cannot have facts of a saved form (`form`); empty if it can."""
    relation = upkeep.program.relations.get(name)
    if relation is None or name not in changeable:
        return f"and {name} is no input of {upkeep.run.asked.name}"
    declared = form(relation, upkeep.program.types)
    return "" if declared == saved else f"and {upkeep.run.asked.name} declares {declared}"


def _net(logged: list[dict], given: dict[str, Table]) -> dict[str, Change]:
    """The net change of the explicit facts by all records of a log. given: the facts at the snapshot."""
    asked = {}
    for arrays in logged:
        for name in (key[1:] for key in arrays if key[0] == "+"):
            if name not in asked:
                asked[name] = PendingChange(given[name])
            asked[name].add(False, arrays[f"-{name}"])
            asked[name].add(True, arrays[f"+{name}"])
    return {name: change for name, each in asked.items() if (change := each.net()[0]).size}


def _as_arrays(made: Logged) -> dict[str, np.ndarray]:
    """The arrays of a transaction in the log."""
    arrays = {} if made.time is None else {"time": np.array([made.time])}
    for name, change in made.net.items():
        arrays[f"+{name}"], arrays[f"-{name}"] = columns_of(change.born), columns_of(change.lost)
    return arrays


def _logged(epoch: int, arrays: dict[str, np.ndarray], names: Collection[str]) -> Logged:
    """The transaction of a record in the log. names: the relations whose changes are wanted."""
    known = [name for name in names if f"+{name}" in arrays]
    net = {name: Change(block_of(arrays[f"+{name}"]), block_of(arrays[f"-{name}"])) for name in known}
    return Logged(epoch, arrays["time"][0].item() if "time" in arrays else None, net)


def _batch(arrays: dict[str, np.ndarray]) -> tuple[str, int]:
    return arrays["query"].tobytes().decode(), int(arrays["batch"][0])


def _content(name: str, dense: int, content) -> dict[str, np.ndarray]:
    """Symbols or records as arrays of a log."""
    found = {f"{name}.dense": np.array([dense])}
    if isinstance(content, np.ndarray):
        return found | {f"{name}.rows": content}
    data, begins, ends = places_of(content)
    return found | {f"{name}.bytes": data[begins[0] : ends[-1]], f"{name}.lengths": ends - begins}


def _contents(arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, tuple[int, list[Any]]]]:
    """Yield (name, (number that are dense, pieces)) of the symbols and records in a record of a log."""
    for key in (key for key in arrays if key.endswith(".dense")):
        name, dense = key.removesuffix(".dense"), int(arrays[key][0])
        if f"{name}.rows" in arrays:
            yield name, (dense, [arrays[f"{name}.rows"]])
        else:
            ends = np.cumsum(arrays[f"{name}.lengths"])
            strings = string_arrays(arrays[f"{name}.bytes"], ends - arrays[f"{name}.lengths"], ends)
            yield name, (dense, list(strings) or [strings_of([])])
