"""Checkpoints: the runs of a state, copied to a durable directory, and a manifest that names them.

A manifest is written last and renamed into place, so there is always one whole checkpoint. Runs never change, so a copy
that is there already is kept: a checkpoint costs the tuples born or merged since the last one.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balanced import State
from semi_naive.ra.exchange import Fabric
from semi_naive.ra.placed import Placed, Runs
from semi_naive.ra.runs import Run
from semi_naive.running.manifest import CheckpointUnusable

MANIFEST = "manifest.json"
PARTS = ("full", "delta")


@dataclass
class Copy:
    """Copy each partition's files, (from, to) pairs; a file of the right size is there already. Yields what it copied."""

    files: list[list[tuple[str, str, int]]]

    def __call__(self, partition, records):
        for source, target, size in self.files[partition]:
            if os.path.exists(target) and os.path.getsize(target) == size:
                continue
            if not os.path.exists(source):
                raise FileNotFoundError(f"{source} is not on this host")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            partial = f"{target}.{os.getpid()}.partial"
            shutil.copyfile(source, partial)
            os.replace(partial, target)
            yield size


@dataclass
class Checkpoints:
    """The checkpoint of one evaluation in `directory`; `fingerprint` says of which input and rule."""

    directory: Path
    fingerprint: str
    every: int  # outer iterations
    saved: int = 0  # the iteration of the last checkpoint

    def due(self, iteration: int) -> bool:
        return iteration - self.saved >= self.every

    def save(self, state: State, fabric: Fabric, trace: dict) -> int:
        """Copy the state, and what the trace says so far; returns the bytes that had to be copied."""
        folder, wanted = self.directory / "runs", {}
        files: list[list[tuple[str, str, int]]] = [[] for _ in range(fabric.partitions)]
        for placed in (state.path, state.inner):
            for part in PARTS:
                for partition, runs in enumerate(getattr(placed, part)):
                    for run in runs:
                        target = folder / str(partition) / Path(run.path).name
                        files[partition].append((run.path, str(target), 8 * run.words))
                        wanted[str(target)] = True
        copied = sum(fabric.job(Copy(files)))
        manifest = {
            "version": 1, "fingerprint": self.fingerprint, "iteration": state.iteration,
            "path": _placed_to_json(state.path), "inner": _placed_to_json(state.inner),
            "copies": {bucket: sorted(partitions) for bucket, partitions in state.copies.items()},
            "iterations": trace["iterations"], "events": trace["events"],
        }  # fmt: skip
        partial = self.directory / (MANIFEST + ".partial")
        partial.write_text(json.dumps(manifest))
        partial.replace(self.directory / MANIFEST)
        for stale in folder.rglob("*"):
            if stale.is_file() and str(stale) not in wanted:
                stale.unlink()
        self.saved = state.iteration
        return copied

    def manifest(self) -> dict | None:
        """What the directory holds of this input, if anything."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if not os.access(self.directory, os.W_OK):
                raise PermissionError("not writable")
            text = (self.directory / MANIFEST).read_text()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointUnusable(f"checkpoint directory {self.directory}: {error}") from None
        try:
            manifest = json.loads(text)
            return manifest if manifest["fingerprint"] == self.fingerprint else None
        except (ValueError, KeyError):
            raise CheckpointUnusable(f"{self.directory / MANIFEST} is not a checkpoint: remove it to start anew") from None

    def restore(self, manifest: dict, fabric: Fabric, root: str) -> State:
        """The state of the manifest, its runs copied back to the hosts that will read them."""
        placed = {name: _placed_from_json(name, manifest[name]) for name in ("path", "inner")}
        files: list[list[tuple[str, str, int]]] = [[] for _ in range(fabric.partitions)]
        for index in placed.values():
            for part in PARTS:
                setattr(index, part, _relocated(getattr(index, part), self.directory / "runs", root, files))
        fabric.job(Copy(files))
        self.saved = manifest["iteration"]
        copies = {int(bucket): frozenset(partitions) for bucket, partitions in manifest["copies"].items()}
        return State(manifest["iteration"], placed["path"], placed["inner"], copies)

    def remove(self) -> None:
        """The evaluation is complete: nothing is left to resume."""
        shutil.rmtree(self.directory / "runs", ignore_errors=True)
        (self.directory / MANIFEST).unlink(missing_ok=True)


def _relocated(runs: Runs, source: Path, root: str, files: list) -> Runs:
    moved: Runs = []
    for partition, of_partition in enumerate(runs):
        moved.append([])
        for run in of_partition:
            target = os.path.join(root, str(partition), run.path)
            files[partition].append((str(source / str(partition) / run.path), target, 8 * run.words))
            moved[-1].append(Run(target, run.words))
    return moved


def _placed_to_json(placed: Placed) -> dict:
    runs = {part: [[[Path(run.path).name, run.words] for run in runs] for runs in getattr(placed, part)] for part in PARTS}
    return {"shift": placed.shift, "map": placed.map.to_json(), "sizes": placed.sizes.tolist(), **runs}


def _placed_from_json(name: str, record: dict) -> Placed:
    runs = {part: [[Run(path, words) for path, words in runs] for runs in record[part]] for part in PARTS}
    sizes = np.array(record["sizes"], np.int64)
    return Placed(name, record["shift"], BucketMap.from_json(record["map"]), sizes=sizes, **runs)
