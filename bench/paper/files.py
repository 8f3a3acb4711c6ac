"""What is kept of a figure: its data with what it was measured on, its table, its pictures."""

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from semi_naive.host.files import replacing

VERSION = 1
PACKAGES = ("pyspark", "numpy", "numba", "matplotlib")


def keep(folder: Path, name: str, evaluation, data: dict) -> None:
    """Write the data as JSON, with the machine and the versions it was measured on."""
    record = {"version": VERSION, "figure": name, "size": evaluation.size, "machine": machine(evaluation.cores), "data": data}
    write_whole(folder / f"{name}.json", json.dumps(record, indent=1) + "\n")


def kept(folder: Path, name: str) -> dict:
    """A record that `keep` wrote. ValueError when there is none, it is not one, or it is of another version."""
    path = folder / f"{name}.json"
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"{path} is not there: measure it first, without --redraw") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not what a measurement left: {error}; measure it again") from None
    if not isinstance(record, dict) or record.get("version") != VERSION or record.get("figure") != name:
        raise ValueError(f"{path} is not a measurement of {name} of version {VERSION}: measure it again")
    return record


def machine(cores: int | None = None, packages=PACKAGES) -> dict:
    """Where and with what something was measured; on so many cores, None: all."""
    from semi_naive.host.threads import cpus

    found = {
        "cores": cores or cpus(),
        "system": platform.platform(),
        "processor": processor(),
        "python": platform.python_version(),
    }
    if hasattr(os, "sysconf"):
        found["memory_gb"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    return {**found, **{package: _version(package) for package in packages}}


def processor() -> str:
    """The processor's name as Linux has it, elsewhere its architecture."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def write_table(folder: Path, name: str, table) -> None:
    write_whole(folder / f"{name}.md", table.markdown())
    write_whole(folder / f"{name}.csv", table.csv())


def write_whole(path: Path, content: str) -> None:
    with replacing(path) as partial:
        partial.write_text(content)
