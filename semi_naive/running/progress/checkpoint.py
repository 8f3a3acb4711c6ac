"""Checkpoints of a run: the results of its strata, in a durable directory.

For a relation on the partitions, the runs of its home index are copied, full and delta. The other indexes are built again on
resumption, for any number of partitions. A relation in the driver is written as a block. Facts are not written, as the resumed
run has them, unless they hold ids of symbols or records, whose meaning the checkpoint defines. Complete results and runs are
immutable, so a checkpoint costs only the tuples made or merged since the last one.
"""

import hashlib
import time
from dataclasses import dataclass, field
from pathlib import Path

import semi_naive
from semi_naive.ra.blocks import durable
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.stored import store
from semi_naive.ra.ir import Kind
from semi_naive.ra.partitions.fingerprint import Fingerprint, FingerprintPieces
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.reduce.of_relation import best_of, rounded
from semi_naive.ra.values.dictionary import Rows, Strings
from semi_naive.running.progress.manifest import DurableFiles
from semi_naive.running.progress.state import RunState
from semi_naive.running.relations.dealing import deal_tuples

CHECKPOINT_SECONDS = 10.0  # time since the last checkpoint after which the end of a stratum makes one
VERSION = f"{semi_naive.__version__}, format 5"  # of what writes and reads checkpoints
IDS = {Kind.SYMBOL, Kind.RECORD}


@dataclass
class Checkpoints:
    """The checkpoint of one run in Config.checkpoint_dir."""

    run: RunState
    iteration: int = 0  # the iteration of the current stratum that was last saved
    copies: dict[str, dict] = field(default_factory=dict)  # records of the copied runs, by path
    complete: dict[tuple, dict] = field(default_factory=dict)  # records of saved relations, by (name, its rules have run)
    pieces: dict[str, list] = field(default_factory=dict)  # records of the files of growing data: lexicons, the trace

    def __post_init__(self):
        """Compute the fingerprint of the program and its facts before rules add tuples."""
        self.database, self.cluster, self.when = self.run.database, self.run.cluster, time.perf_counter()
        self.files = DurableFiles(Path(self.run.config.checkpoint_dir or "").absolute(), Path(self.cluster.store.root).name)
        self.fingerprint = self._fingerprint()  # now, before rules add tuples

    def _fingerprint(self) -> str:
        """Hash the program, the settings that change the answer, and the facts."""
        program, config = self.run.program, self.run.config
        relations = [
            (r.name, r.attributes, r.lattice, r.eqrel, r.choice, r.dominated, [join.name for join in r.joins], self._facts(r))
            for r in program.relations.values()
        ]
        limits = [(d.relation, d.parameters) for d in program.directives if d.kind == "limitsize"]
        parts = config.max_iterations, limits, relations, program.types, list(map(str, program.rules))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def _facts(self, relation) -> int:
        """Return the fingerprint of a relation's facts."""
        types, spread = self.run.program.types, self.database.partitioned(relation.name)
        if any(type_.kind == Kind.RECORD and type_.name not in types for _, type_ in relation.attributes):
            return 0  # a relation made by a planner pass: its facts are in the rules
        if spread is None:
            return Fingerprint(relation, types, self.run.values)(self.database.columns(relation.name))
        number = Fingerprint(relation, types, self.cluster.share_values(self.run.values, more=True))
        return sum(self.cluster.jobs.job(FingerprintPieces(number, spread))) % (1 << 64)

    def due(self, iteration: int) -> bool:
        return iteration - self.iteration >= self.run.config.checkpoint_interval

    def late(self) -> bool:
        return time.perf_counter() - self.when > CHECKPOINT_SECONDS

    # -- saving

    def save(self, done: set[int], stratum=None, between: tuple[dict, set[str], set[str]] | None = None) -> int:
        """The relations of the strata that are done, and of the one that runs on the partitions; returns the bytes that had to
        be written. between: of a loop between two steps its place, the relations that it keeps, and those it makes anew."""
        self.size, now, strata = 0, stratum.relations if stratum else {}, self.run.strata
        place, kept, remade = between or ({}, set(), set())
        apart = now.keys() | kept | remade
        known = {name: number in done for number, each in enumerate(strata) for name in each.relations if name not in apart}
        fresh = [name for name, after in known.items() if (name, after) not in self.complete and self._wanted(name, after)]
        spread = {name: relation for name in fresh if (relation := self.database.partitioned(name))}
        self._copy([*now.values(), *spread.values()])
        for name in fresh:
            self.complete[name, known[name]] = self._spread(spread[name]) if name in spread else self._block(name)
        relations = {name: self.complete[name, after] for name, after in known.items() if (name, after) in self.complete}
        self.files.publish({
            "version": VERSION, "fingerprint": self.fingerprint, "relations": relations, "values": self._values(),
            "strata": self._strata(),
            "done": [number for number in done if relations.keys() >= set(strata[number].relations)],
            "running": self._running(stratum) if stratum else None,
            "between": place | {"relations": self._between(kept)} if between else None,
            "rules": self.run.profile.by_place(self.run.program.rules),
        })  # fmt: skip
        self.iteration, self.when = stratum.iteration if stratum else 0, time.perf_counter()
        return self.size

    def _wanted(self, name: str, after: bool) -> bool:
        """True if a resumed run could not recompute the relation, or would number its symbols differently. A relation on the
        partitions in a form of its own is made by one job, again if need be. after: the stratum of the relation is complete."""
        kept = name not in self.database.on_partitions or self.database.partitioned(name) is not None
        return kept and (after or bool(IDS & set(self.run.program.relations[name].kinds)))

    def _copy(self, relations: list[PartitionedRelation]) -> None:
        """Copy the missing files; each partition copies its own runs."""
        found = (
            (p, stored)
            for relation in relations
            for part in _parts_to_copy(relation).values()
            for p, stored in _blocks_by_partition(part)
        )
        fresh = {stored.run.path: (p, stored) for p, stored in found if stored.run.path not in self.copies}
        if not fresh:
            return
        wanted: list[list] = [[] for _ in range(self.cluster.jobs.partitions)]
        targets = {path: str(self.files.new(Path(path).name)) for path in fresh}
        for path, (partition, stored) in fresh.items():
            wanted[partition].append((stored.run, targets[path]))
        self.cluster.jobs.job(durable.CopyRuns(wanted))
        for path, (_, stored) in fresh.items():
            self.copies[path] = durable.to_json(stored, self.files.name(targets[path]))
            self.size += 8 * stored.run.words

    def _between(self, names: set[str]) -> dict[str, dict]:
        """Save the relations that a loop keeps between two steps."""
        spread = {name: relation for name in names if (relation := self.database.partitioned(name))}
        self._copy([*spread.values()])
        return {name: self._spread(spread[name]) if name in spread else self._block(name) for name in sorted(names)}

    def _spread(self, relation: PartitionedRelation) -> dict:
        """Return the record of a relation on the partitions, with those of its copied runs."""
        parts = {
            name: [self.copies[s.run.path] for _, s in _blocks_by_partition(part)]
            for name, part in _parts_to_copy(relation).items()
        }
        return {"order": relation.home.order, "keys": relation.home.keys, **parts}

    def _block(self, name: str) -> dict:
        """Return the driver's tuples of a relation as one block."""
        columns, path = self.database.columns(name), str(self.files.new(name))
        stored = store(path, Block.of(list(columns), columns.shape[1]))
        self.size += sum(8 * one.run.words for one in stored)
        return {"block": [durable.to_json(one, self.files.name(path)) for one in stored]}

    def _values(self) -> dict:
        """Return the record of the symbols and records: for each lexicon, the files with the entries added at each
        checkpoint."""
        lexicons = {}
        for name, lexicon in self.run.values.lexicons().items():
            pieces = self.pieces.setdefault(name, [])
            known = _length(pieces)
            if known < len(lexicon):
                path = str(self.files.new(name))
                lexicon.form.save(lexicon.content_from(known), path)
                pieces.append(self.files.record(path + lexicon.form.suffix, length=len(lexicon) - known))
            lexicons[name] = {"dense": lexicon.dense, "pieces": pieces}
        return {"lexicons": lexicons, "counter": self.run.values.counter}

    def _running(self, stratum) -> dict:
        """Return the record of the stratum on the partitions. Its trace is written in pieces, as there may be many
        iterations."""
        number, trace = stratum.local.number, stratum.trace.record
        pieces = self.pieces.setdefault(f"trace {number}", [])
        since = trace["iterations"][_length(pieces) :]
        pieces.append(self.files.write("trace", since, length=len(since)))
        relations = {name: self._spread(relation) for name, relation in stratum.relations.items()}
        return {
            "number": number, "iteration": stratum.iteration, "relations": relations, "iterations": pieces,
            "events": trace["events"],
        }  # fmt: skip

    def _strata(self) -> list[dict]:
        """Return the records of the traces of completed strata; each is written once."""
        for entry in self.run.plans:
            if f"stratum {entry['number']}" not in self.pieces:
                self.pieces[f"stratum {entry['number']}"] = [self.files.write("stratum", entry)]
        return [self.pieces[f"stratum {entry['number']}"][0] for entry in self.run.plans]

    # -- taking up

    def manifest(self) -> dict | None:
        """Return the manifest of this run in the directory, if any, with all files verified."""
        manifest = self.files.manifest()
        if manifest is None:
            return None
        with self.files.understood():
            if manifest["version"] != VERSION:
                raise self.files.unusable(f"semi-naive {manifest['version']} has written it, and this is {VERSION}")
            if manifest["fingerprint"] != self.fingerprint:
                return None
            inside = [manifest[part]["relations"] for part in ("running", "between") if manifest[part]]
            relations = [*manifest["relations"].values(), *(record for each in inside for record in each.values())]
            self.files.verify(manifest, self.cluster.jobs if any("order" in record for record in relations) else None)
        return manifest

    def take_up(self, manifest: dict) -> None:
        """Adopt the values of the process that wrote the manifest, with their ids. Its relations are not read yet."""
        lexicons = {}
        for name, lexicon in manifest["values"]["lexicons"].items():
            form, self.pieces[name] = Strings if name == "symbols" else Rows, lexicon["pieces"]
            paths = [self.files.path(piece).removesuffix(form.suffix) for piece in lexicon["pieces"]]
            lexicons[name] = lexicon["dense"], [form.load(path) for path in paths]
        self.run.values.take_up(lexicons, manifest["values"]["counter"])
        done = {name for number in manifest["done"] for name in self.run.strata[number].relations}
        self.complete = {(name, name in done): record for name, record in manifest["relations"].items()}
        entries = [(record, self.files.read(record)) for record in manifest["strata"]]
        for record, entry in entries:
            if entry["number"] in manifest["done"]:
                self.pieces[f"stratum {entry['number']}"] = [record]
                self.run.plans.append(entry)
        self.run.profile.take_up(manifest["rules"], self.run.program.rules)

    def relation(self, name: str, record: dict) -> None:
        """Restore a relation from its record: on the partitions, or in the driver."""
        relation = self.run.program.relations[name]
        if "order" in record:
            home = PartitionedIndex(tuple(record["order"]), record["keys"], self.cluster.bucket_map())
            spread = PartitionedRelation(name, relation.arity, [home], best_of(relation) or rounded(relation))
            self.deal({name: spread}, {name: record})
            spread.settle()
            self.database.place(name, spread, self.cluster)
        for entry in record.get("block", []):
            stored = durable.from_json(entry, self.files.path(entry))
            self.database.tables[name].insert(stored.open().columns(), stored.size)

    def deal(self, relations: dict[str, PartitionedRelation], records: dict[str, dict]) -> None:
        """Deal a relation home: its full tuples are full again, and its delta is new."""
        for part in ("full", "delta"):
            blocks = {
                name: ([durable.from_json(one, self.files.path(one)) for one in record[part]], tuple(record["order"]))
                for name, record in records.items()
            }
            if any(stored for stored, _ in blocks.values()):
                deal_tuples(self.cluster, relations, blocks)
            if part == "full":
                for relation in relations.values():
                    relation.settle()

    def iterations(self, running: dict) -> list[dict]:
        """Return the iterations in the trace of a stratum that was saved while it ran."""
        pieces = self.pieces[f"trace {running['number']}"] = list(running["iterations"])
        return [entry for piece in pieces for entry in self.files.read(piece)]


def _parts_to_copy(relation: PartitionedRelation) -> dict[str, list]:
    """The blocks of a relation that a checkpoint keeps, by part. With a reduction all tuples are in full. They are restored as
    delta, from which rules derive little that is new."""
    home = relation.home
    return {"full": [], "delta": home.full} if relation.reduction else {"full": home.full, "delta": home.delta}


def _blocks_by_partition(part: list):
    return ((partition, stored) for partition, blocks in enumerate(part) for stored in blocks)


def _length(pieces: list[dict]) -> int:
    return sum(piece["length"] for piece in pieces)
