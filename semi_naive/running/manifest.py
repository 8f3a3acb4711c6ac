"""A durable directory with a manifest: a JSON record of everything that is there, with a checksum of each file.

The manifest is written last and renamed into place, so there is always one that is whole, and what it names stays. A record
with a "checksum" is a file; its "path" is below the directory, which may be moved.
"""

import json
import os
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path

from semi_naive.ra.rules import durable

MANIFEST, FILES = "manifest.json", "runs"


class CheckpointUnusable(RuntimeError):
    """The checkpoint directory cannot be written, or holds what cannot be taken up."""


@dataclass
class DurableFiles:
    """`owner`: a name that no other process gives its files."""

    directory: Path
    owner: str
    written: int = 0

    def new(self, name: str) -> Path:
        """Where a file is to be written."""
        self.written += 1
        path = self.directory / FILES / self.owner / f"{self.written}-{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def name(self, path) -> str:
        return str(Path(path).relative_to(self.directory))

    def path(self, record: dict) -> str:
        return str(self.directory / record["path"])

    def record(self, path, **facts) -> dict:
        """Of a file that has been written."""
        return {"path": self.name(path), "checksum": durable.checksum_of(str(path)), **facts}

    def write(self, name: str, content, **facts) -> dict:
        """A JSON file; its record."""
        path = self.new(name)
        path.write_text(json.dumps(content))
        return self.record(path, **facts)

    def read(self, record: dict):
        return json.loads(Path(self.path(record)).read_text())

    def publish(self, manifest: dict) -> None:
        """From now on the directory is this; files that it does not name are removed."""
        text, partial = json.dumps(manifest), self.directory / f"{MANIFEST}.partial"
        partial.write_text(f"{zlib.crc32(text.encode())}\n{text}")
        partial.replace(self.directory / MANIFEST)
        named = set(files_of(manifest))
        for stale in (self.directory / FILES).rglob("*"):
            if stale.is_file() and self.name(stale) not in named:
                stale.unlink()

    def manifest(self) -> dict | None:
        """What was published last, if anything."""
        path = self.directory / MANIFEST
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if not os.access(self.directory, os.W_OK):
                raise PermissionError("it is not writable")
            checksum, text = path.read_text().split("\n", 1)
            if int(checksum) == zlib.crc32(text.encode()):
                return json.loads(text)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointUnusable(f"the checkpoint directory {self.directory} cannot be used: {error}") from None
        except ValueError:
            pass
        raise CheckpointUnusable(f"{path} is damaged or not a checkpoint: remove it to start anew")

    def verify(self, manifest: dict, jobs) -> None:
        """CheckpointUnusable if a file that the manifest names is not as it was written. `jobs`: the partitions, if it is
        they that read the files, and so must see them."""
        files = [(str(self.directory / name), checksum) for name, checksum in files_of(manifest).items()]
        faults = jobs.job(durable.Verify(files, jobs.partitions)) if jobs else list(durable.Verify(files, 1)(0, []))
        if faults:
            hint = f"remove {self.directory / MANIFEST} to start anew"
            raise CheckpointUnusable(f"the checkpoint in {self.directory} cannot be taken up: {faults[0]}; {hint}")

    def remove(self) -> None:
        shutil.rmtree(self.directory / FILES, ignore_errors=True)
        (self.directory / MANIFEST).unlink(missing_ok=True)


def files_of(record) -> dict[str, int]:
    """The files that a record names, and their checksums.

    >>> files_of({"done": [1], "values": [{"path": "a", "checksum": 7}, {"path": "b", "checksum": 8}]})
    {'a': 7, 'b': 8}
    """
    if isinstance(record, dict) and "checksum" in record:
        return {record["path"]: record["checksum"]}
    inner = record.values() if isinstance(record, dict) else record if isinstance(record, list) else ()
    return {path: checksum for one in inner for path, checksum in files_of(one).items()}
