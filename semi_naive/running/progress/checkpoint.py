"""Checkpoints of a run: the results of its strata, in a durable directory.

For a relation on the partitions, the runs of its home index are copied, full and delta. The other indexes are built again on
resumption, for any number of partitions. A relation in the driver is written as a block. Facts are not written, as the resumed
run has them, unless they hold ids of symbols or records, whose meaning the checkpoint defines. Complete results and runs are
immutable, so a checkpoint costs only the tuples made or merged since the last one.
"""

import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import semi_naive
from semi_naive.ra.blocks import durable
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.stored import store
from semi_naive.ra.ir import Kind, Relation
from semi_naive.ra.partitions.fingerprint import Fingerprint, FingerprintPieces
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.reduce.of_relation import best_of, rounded
from semi_naive.ra.values.dictionary import Rows, Strings
from semi_naive.running.progress.manifest import DurableFiles
from semi_naive.running.progress.state import RunState
from semi_naive.running.relations.dealing import deal_tuples

CHECKPOINT_SECONDS = 10.0  # time since the last checkpoint after which the end of a stratum makes one
VERSION = f"{semi_naive.__version__}, format 5"  # of the engine, and of its checkpoints
IDS = {Kind.SYMBOL, Kind.RECORD}


@dataclass
class Checkpoints:
    """The checkpoint of one run in Config.checkpoint_dir."""

    run: RunState
    iteration: int = 0  # the iteration of the current stratum that was last saved
    copies: dict[str, dict] = field(default_factory=dict)  # records of the copied runs, by path
    saved: dict[tuple, dict] = field(default_factory=dict)  # records of saved relations, by (name, True if its stratum is done)
    pieces: dict[str, list] = field(default_factory=dict)  # records of the files of growing data: lexicons, the trace
    size: int = 0  # bytes written by the current `save`

    def __post_init__(self):
        """Open the directory, and compute the fingerprint of the program and its facts."""
        self.database, self.cluster, self.saved_at = self.run.database, self.run.cluster, time.perf_counter()
        self.files = DurableFiles(Path(self.run.config.checkpoint_dir or "").absolute(), Path(self.cluster.store.root).name)
        self.fingerprint = self._fingerprint()  # now, before rules add tuples

    def _fingerprint(self) -> str:
        """Hash the program, the settings that change the answer, and the facts."""
        program, config = self.run.program, self.run.config
        relations = [
            (r.name, r.attributes, r.lattice, r.eqrel, r.choice, r.dominated, [join.name for join in r.joins], self._facts(r))
            for r in program.relations.values()
        ]
        limits = [(limit.relation, limit.parameters) for limit in program.directives if limit.kind == "limitsize"]
        parts = config.max_iterations, limits, relations, program.types, list(map(str, program.rules))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def _facts(self, relation: Relation) -> int:
        """Return the fingerprint of a relation's facts. Those of parts add up to that of all, in 64 bits."""
        types, spread = self.run.program.types, self.database.partitioned(relation.name)
        if any(type_.kind == Kind.RECORD and type_.name not in types for _, type_ in relation.attributes):
            return 0  # a relation made by a planner pass: its facts are in the rules
        if spread is None:
            return Fingerprint(relation, types, self.run.values)(self.database.columns(relation.name))
        fingerprint = Fingerprint(relation, types, self.cluster.share_values(self.run.values, more=True))
        return sum(self.cluster.jobs.job(FingerprintPieces(fingerprint, spread))) % (1 << 64)

    def due(self, iteration: int) -> bool:
        """True if enough iterations have passed since the last checkpoint."""
        return iteration - self.iteration >= self.run.config.checkpoint_interval

    def is_late(self) -> bool:
        """True if enough time has passed since the last checkpoint."""
        return time.perf_counter() - self.saved_at > CHECKPOINT_SECONDS

    # -- saving

    def save(self, done: set[int], stratum=None, between: tuple[dict, set[str], set[str]] | None = None) -> int:
        """Save a checkpoint, and return the number of bytes written. done: the strata that have been evaluated; stratum: the
        `Partitioned` that is being evaluated, if any; between: for a loop between two steps, (its position, the relations
        that it keeps, those that it derives in each step)."""
        self.size, strata = 0, self.run.strata
        running = stratum.relations if stratum else {}
        position, kept, remade = between or ({}, set(), set())
        saved_apart = running.keys() | kept | remade  # or not at all: the next step derives `remade` again
        is_done = {
            name: number in done for number, part in enumerate(strata) for name in part.relations if name not in saved_apart
        }
        fresh = [key for key in is_done.items() if key not in self.saved and self._needs_saving(*key)]
        records = self._save_relations(name for name, _ in fresh)
        self.saved |= {(name, complete): records[name] for name, complete in fresh}
        relations = {key[0]: self.saved[key] for key in is_done.items() if key in self.saved}
        self.files.publish({
            "version": VERSION, "fingerprint": self.fingerprint, "relations": relations, "values": self._values(),
            "strata": self._strata(),
            "done": [number for number in done if relations.keys() >= set(strata[number].relations)],
            "running": self._running(stratum) if stratum else None,
            "between": position | {"relations": self._save_relations(sorted(kept))} if between else None,
            "rules": self.run.profile.by_place(self.run.program.rules),
        })  # fmt: skip
        self.iteration, self.saved_at = stratum.iteration if stratum else 0, time.perf_counter()
        return self.size

    def _needs_saving(self, name: str, complete: bool) -> bool:
        """True if a resumed run would have to derive the relation again, or number its symbols differently. A relation whose
        tuples are computed again on demand (`Remade`) is not saved. complete: its stratum has been evaluated."""
        stored = name not in self.database.on_partitions or self.database.partitioned(name) is not None
        return stored and (complete or bool(IDS & set(self.run.program.relations[name].kinds)))

    def _copy_runs(self, relations: list[PartitionedRelation]) -> None:
        """Copy the runs of some relations that have not been copied; each partition copies its own."""
        parts = [part for relation in relations for part in _saved_parts(relation).values()]
        located = chain.from_iterable(map(_with_partitions, parts))
        fresh = {stored.run.path: (number, stored) for number, stored in located if stored.run.path not in self.copies}
        if not fresh:
            return
        copies: list[list] = [[] for _ in range(self.cluster.jobs.partitions)]
        targets = {path: str(self.files.new(Path(path).name)) for path in fresh}
        for path, (partition, stored) in fresh.items():
            copies[partition].append((stored.run, targets[path]))
        self.cluster.jobs.job(durable.CopyRuns(copies))
        for path, (_, stored) in fresh.items():
            self.copies[path] = durable.to_json(stored, self.files.name(targets[path]))
            self.size += 8 * stored.run.words

    def _save_relations(self, names: Iterable[str]) -> dict[str, dict]:
        """Save relations of no stratum that is being evaluated, and return their records: of runs, or of a block."""
        stored = {name: self.database.partitioned(name) for name in names}
        self._copy_runs(list(filter(None, stored.values())))
        return {name: self._record_of_runs(spread) if spread else self._save_block(name) for name, spread in stored.items()}

    def _record_of_runs(self, relation: PartitionedRelation) -> dict:
        """Return the record of a relation on the partitions, with the records of its copied runs."""
        parts = {
            name: [self.copies[s.run.path] for _, s in _with_partitions(part)] for name, part in _saved_parts(relation).items()
        }
        return {"order": relation.home.order, "keys": relation.home.keys, **parts}

    def _save_block(self, name: str) -> dict:
        """Write the tuples of a relation in the driver as one block, and return the record."""
        columns, path = self.database.columns(name), str(self.files.new(name))
        stored = store(path, Block.of(list(columns), columns.shape[1]))
        self.size += sum(8 * part.run.words for part in stored)
        return {"block": [durable.to_json(part, self.files.name(path)) for part in stored]}

    def _values(self) -> dict:
        """Write the new symbols and records, and return their record: the files of each lexicon, one for each checkpoint."""
        lexicons = {}
        for name, lexicon in self.run.values.lexicons().items():
            pieces = self.pieces.setdefault(name, [])
            saved_length = _total_length(pieces)
            if saved_length < len(lexicon):
                path = str(self.files.new(name))
                lexicon.form.save(lexicon.content_from(saved_length), path)
                pieces.append(self.files.record(path + lexicon.form.suffix, length=len(lexicon) - saved_length))
            lexicons[name] = {"dense": lexicon.dense, "pieces": pieces}
        return {"lexicons": lexicons, "counter": self.run.values.counter}

    def _running(self, stratum) -> dict:
        """Return the record of the stratum that is being evaluated on the partitions, a `Partitioned`. The new iterations of
        its trace are written to a file, as there may be many."""
        number, trace = stratum.local.number, stratum.trace.record
        self._copy_runs([*stratum.relations.values()])
        pieces = self.pieces.setdefault(f"trace {number}", [])
        since = trace["iterations"][_total_length(pieces) :]
        pieces.append(self.files.write("trace", since, length=len(since)))
        relations = {name: self._record_of_runs(relation) for name, relation in stratum.relations.items()}
        return {
            "number": number, "iteration": stratum.iteration, "relations": relations, "iterations": pieces,
            "events": trace["events"],
        }  # fmt: skip

    def _strata(self) -> list[dict]:
        """Return the records of the traces of completed strata; each is written once."""
        for number, entry in self.run.plans.items():
            if f"stratum {number}" not in self.pieces:
                self.pieces[f"stratum {number}"] = [self.files.write("stratum", entry)]
        return [self.pieces[f"stratum {number}"][0] for number in self.run.plans]

    # -- taking up

    def manifest(self) -> dict | None:
        """Return the manifest of this run in the directory, if any, with all files verified."""
        manifest = self.files.manifest()
        if manifest is None:
            return None
        with self.files.checked_contents():
            if manifest["version"] != VERSION:
                raise self.files.unusable_error(f"semi-naive {manifest['version']} has written it, and this is {VERSION}")
            if manifest["fingerprint"] != self.fingerprint:  # of another program, or of other facts
                return None
            inside = [manifest[part]["relations"] for part in ("running", "between") if manifest[part]]
            relations = [*manifest["relations"].values(), *(record for records in inside for record in records.values())]
            self.files.verify(manifest, self.cluster.jobs if any("order" in record for record in relations) else None)
        return manifest

    def take_up(self, manifest: dict) -> None:
        """Restore symbols, records, traces and costs from a manifest. Relations are restored later, by `restore`."""
        lexicons = {}
        for name, lexicon in manifest["values"]["lexicons"].items():
            form, self.pieces[name] = Strings if name == "symbols" else Rows, lexicon["pieces"]
            paths = [self.files.path(piece).removesuffix(form.suffix) for piece in lexicon["pieces"]]
            lexicons[name] = lexicon["dense"], [form.load(path) for path in paths]
        self.run.values.take_up(lexicons, manifest["values"]["counter"])
        done = {name for number in manifest["done"] for name in self.run.strata[number].relations}
        self.saved = {(name, name in done): record for name, record in manifest["relations"].items()}
        entries = [(record, self.files.read(record)) for record in manifest["strata"]]
        for record, entry in entries:
            if entry["number"] in manifest["done"]:
                self.pieces[f"stratum {entry['number']}"] = [record]
                self.run.plans[entry["number"]] = entry
        self.run.profile.take_up(manifest["rules"], self.run.program.rules)

    def restore(self, name: str, record: dict) -> None:
        """Restore a relation from its record: on the partitions, or in the driver."""
        relation = self.run.program.relations[name]
        if "order" in record:
            home = PartitionedIndex(tuple(record["order"]), record["keys"], self.cluster.bucket_map())
            spread = PartitionedRelation(name, relation.arity, [home], best_of(relation) or rounded(relation))
            self.restore_stratum({name: spread}, {name: record})
            spread.settle()
            self.database.place(name, spread, self.cluster)
        for entry in record.get("block", []):
            stored = durable.from_json(entry, self.files.path(entry))
            self.database.tables[name].insert(stored.open().columns(), stored.size)

    def restore_stratum(self, relations: dict[str, PartitionedRelation], records: dict[str, dict]) -> None:
        """Send the saved tuples of some relations to their home partitions: full ones become full, and the delta `new`."""
        for part in ("full", "delta"):
            blocks = {
                name: ([durable.from_json(run, self.files.path(run)) for run in record[part]], tuple(record["order"]))
                for name, record in records.items()
            }
            if any(stored for stored, _ in blocks.values()):
                deal_tuples(self.cluster, relations, blocks)
            if part == "full":
                for relation in relations.values():
                    relation.settle()

    def saved_iterations(self, running: dict) -> list[dict]:
        """Return the iterations in the trace of a stratum that was saved while it ran."""
        pieces = self.pieces[f"trace {running['number']}"] = list(running["iterations"])
        return [entry for piece in pieces for entry in self.files.read(piece)]


def _saved_parts(relation: PartitionedRelation) -> dict[str, list]:
    """Return the blocks of a relation that a checkpoint saves, by part and partition. With a reduction all tuples are in full;
    they are restored as the delta, from which rules derive little that is new."""
    home = relation.home
    return {"full": [], "delta": home.full} if relation.reduction else {"full": home.full, "delta": home.delta}


def _with_partitions(part: list):
    """Yield (partition, block) for the blocks of a part, which are listed by partition."""
    return ((partition, stored) for partition, blocks in enumerate(part) for stored in blocks)


def _total_length(pieces: list[dict]) -> int:
    return sum(piece["length"] for piece in pieces)
