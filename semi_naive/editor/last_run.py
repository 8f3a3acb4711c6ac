"""The sizes of relations in a program's last run, from the records that `run --trace` or `-p` wrote into its folder."""

import json
import os
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

MAX_RECORD_BYTES = 50_000_000  # of a record, which is read while the user waits
MAX_RECORDS = 100


@dataclass(frozen=True)
class LastRun:
    """file: the record's name; at: when it was written; tuples: the number of tuples by relation."""

    file: str
    at: datetime
    tuples: dict[str, int]


def last_run(program: str) -> LastRun | None:
    """The newest record of the program in its folder. Records of other programs, and other JSON files, are skipped."""
    newest = sorted(_records(Path(program).parent), key=lambda found: -found[1])[:MAX_RECORDS]
    for path, written, size in newest:
        record = _read_record(str(path), written) if size <= MAX_RECORD_BYTES else None
        if record is not None and _is_program_of(record[0], program, path.parent):
            return LastRun(path.name, datetime.fromtimestamp(written), record[1])
    return None


def _records(folder: Path):
    try:
        for entry in os.scandir(folder):
            if entry.name.endswith(".json") and entry.is_file():
                found = entry.stat()
                yield Path(entry.path), found.st_mtime, found.st_size
    except OSError:
        return


@lru_cache(maxsize=MAX_RECORDS)
def _read_record(path: str, written: float) -> tuple[str, dict[str, int]] | None:
    """The program of a record, and its relations' sizes. written: the file's time, so that a rewritten file is read again."""
    try:
        record = json.loads(Path(path).read_bytes())
        profile = record.get("profile", record)
        return profile["program"], {each["relation"]: each["tuples"] for each in profile["relations"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _is_program_of(recorded: str, program: str, folder: Path) -> bool:
    """True if a record's program is this one. The last part of a relative path must match, as its base is unknown."""
    if os.path.isabs(recorded):
        return os.path.realpath(recorded) == os.path.realpath(program)
    return os.path.basename(recorded) == os.path.basename(program)
