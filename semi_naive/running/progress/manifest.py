"""Durable directories with a manifest: a JSON record of the contents, with a checksum of each file.

The manifest is written last and renamed into place, so there is always a complete one, and the files that it names exist. A
record with a "path" is a file and has its "checksum"; the path is below the directory, which may be moved.
"""

import contextlib
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from semi_naive.host import private
from semi_naive.ra.blocks import durable
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.ra.storage.checksum import checksum_of_file
from semi_naive.ra.storage.missing import RunMissing

MANIFEST, FILES = "manifest.json", "runs"


class CheckpointUnusable(ValueError):
    """The checkpoint directory cannot be written, or its contents cannot be resumed."""


@dataclass
class DurableFiles:
    """The files of a durable directory.

    owner: a folder name that no other process uses for its files.
    noun, advice, error: for errors, the kind of directory, the remedy for a damaged one, and the exception.
    sync: force files to the disk before a manifest names them.
    written: the number of files written so far.
    """

    directory: Path
    owner: str
    noun: str = "checkpoint"
    advice: str = "remove {} to start anew"  # {} is the path of the manifest
    error: type[ValueError] = CheckpointUnusable
    sync: bool = False
    written: int = 0
    synced: set[str] = field(default_factory=set)  # files that have been forced to the disk

    def new(self, name: str) -> Path:
        """Return a new path for a file to be written."""
        self.written += 1
        return Path(private.folder(self.directory / FILES / self.owner)) / f"{self.written}-{name}"

    def name(self, path) -> str:
        """Return a path relative to the directory, as records have it."""
        return str(Path(path).relative_to(self.directory))

    def path(self, record: dict) -> str:
        return str(self.directory / record["path"])

    def record(self, path, **facts) -> dict:
        """Return the record of a file that has been written."""
        return {"path": self.name(path), "checksum": checksum_of_file(path), **facts}

    def write(self, name: str, content, **facts) -> dict:
        """Write a JSON file, and return its record. facts: further entries of the record."""
        path = self.new(name)
        with private.open_replacing(path) as file:
            file.write(json.dumps(content).encode())
        return self.record(path, **facts)

    def read(self, record: dict):
        return json.loads(Path(self.path(record)).read_text())

    def publish(self, manifest: dict) -> None:
        """Write a new manifest in place of the last one, and remove the files that it does not name."""
        named = set(files_of_record(manifest))
        fresh = {self.directory / name for name in named - self.synced} if self.sync else set()
        folders = {folder for file in fresh for folder in (file.parent, file.parent.parent)}  # a folder lists its files
        for path in fresh | folders:
            private.sync(path)
        private.save_checked(self.directory / MANIFEST, json.dumps(manifest).encode(), self.sync)
        self.synced = named
        for stale in (self.directory / FILES).rglob("*"):
            if stale.is_file() and self.name(stale) not in named:
                stale.unlink()

    def manifest(self) -> dict | None:
        """Return the manifest published last, if any."""
        path = self.directory / MANIFEST
        try:
            private.folder(self.directory)
            if not os.access(self.directory, os.W_OK):
                raise PermissionError("it is not writable")
            data = private.load(path)
        except private.NotPrivate as error:
            hint = f"only its user may write a {self.noun}: `chmod go-w` it, or give another"
            raise self.error(f"the {self.noun} directory {self.directory} cannot be used: {error}; {hint}") from None
        except OSError as error:
            raise self.error(f"the {self.noun} directory {self.directory} cannot be used: {error}") from None
        if data is None and os.path.lexists(path):
            raise self.error(f"{path} is damaged or not a {self.noun}: {self.advice.format('it')}")
        with self.checked_contents():
            return None if data is None else json.loads(data)

    def verify(self, manifest: dict, jobs) -> None:
        """Raise an error if a file that the manifest names is damaged. jobs: lets the partitions verify files, if given."""
        files = [(str(self.directory / name), checksum) for name, checksum in files_of_record(manifest).items()]
        faults = jobs.job(durable.Verify(files, jobs.partitions)) if jobs else list(durable.Verify(files, 1)(0, []))
        if faults:
            raise self.unusable_error(faults[0])

    def unusable_error(self, why: str) -> ValueError:
        hint = self.advice.format(self.directory / MANIFEST)
        return self.error(f"the {self.noun} in {self.directory} cannot be taken up: {why}; {hint}")

    @contextlib.contextmanager
    def checked_contents(self):
        """Turn errors of the block, which reads the contents, into the directory's error: they are invalid, or changed."""
        try:
            yield
        except self.error:
            raise
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, OSError) as error:
            raise self.unusable_error(f"{MANIFEST} is not complete ({type(error).__name__}: {error})") from error
        except (RunMissing, RunsLost) as lost:
            raise self.unusable_error(str(lost)) if str(self.directory) in str(lost) else lost from None

    def remove(self) -> None:
        shutil.rmtree(self.directory / FILES, ignore_errors=True)
        (self.directory / MANIFEST).unlink(missing_ok=True)


def files_of_record(record) -> dict[str, int]:
    """Return the paths of the files that a record names, at any depth, with their checksums.

    >>> files_of_record({"done": [1], "values": [{"path": "a", "checksum": 7}, {"path": "b", "checksum": 8}]})
    {'a': 7, 'b': 8}
    """
    if isinstance(record, dict) and isinstance(record.get("path"), str):  # a relation may be called path, too
        return {record["path"]: record["checksum"]}
    if not isinstance(record, dict | list):
        return {}
    parts = record.values() if isinstance(record, dict) else record
    return {path: checksum for part in parts for path, checksum in files_of_record(part).items()}
