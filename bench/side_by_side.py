"""Folders of programs and facts by compiled Soufflé and by this engine, from the shell: times, memory, and the same outputs."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench import suite
from bench.closure import WrongCount
from bench.command import say, surroundings
from bench.compilers import compiled
from semi_naive.host.threads import cpus
from semi_naive.ra.tuple_at_a_time.machine import KERNELS

SHOWN = 3  # lines of one output that an error shows
OURS = "ours"
NEMO = "nemo"  # an engine that does not print the sizes of relations
MEASURES = {"seconds": "wall", "processor": "processor", "bytes": "memory"}


@dataclass
class Task:
    """A program and the folder of its facts."""

    name: str
    program: Path
    facts: Path


@dataclass
class ShellRun:
    """One run from the shell: seconds, seconds of all cores, peak memory in bytes; `stopped` if the time was up."""

    seconds: float
    processor: float
    bytes: int
    stopped: bool
    tuples: int | None = None


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples."""
    for kernel in () if options.toy else KERNELS:
        kernel.compiled()  # once on a computer, as the binaries of Soufflé are
    results = {**surroundings(None, options), **beside_souffle(options), "rows": {}}
    with tempfile.TemporaryDirectory(prefix="bench-suite-") as folder:
        for task in tasks(options, Path(folder)):
            results["rows"][task.name] = measured(task, Path(folder), options)
    return results


def beside_souffle(options) -> dict:
    """Return the part of a record that names the Soufflés and the suite."""
    size = f", {options.size}" if options.suite == "own" else ""
    return {
        "suite": options.suite, "size": options.size, "souffle": [asdict(each) for each in options.compilers],
        "engines": [f"souffle{each.bits}" for each in options.compilers],
        "title": f"Compiled by Soufflé, and ours, from the shell: {options.suite}{size}",
    }  # fmt: skip


def tasks(options, folder: Path):
    """The tasks of the suite that were asked for; those of ours get their facts one by one."""
    wanted = options.rows.split(",") if options.rows else None
    if options.suite == "own":
        size = "toy" if options.toy else options.size
        for name in wanted or suite.NAMES:
            yield Task(name, suite.program(name), suite.write_facts(name, size, folder / name))
        return
    found = {path.parent.name: path for path in sorted(Path(options.suite).glob("*/*.dl")) if path.stem == path.parent.name}
    if missing := [name for name in wanted or () if name not in found]:
        raise ValueError(f"{options.suite} has no {missing[0]}/{missing[0]}.dl: expected some of {', '.join(found)}")
    if not found:
        raise ValueError(f"{options.suite} has no programs: expected folders, in each NAME/NAME.dl and NAME/facts")
    for name in wanted or found:
        facts = found[name].parent / "facts"
        yield Task(name, found[name], facts if facts.is_dir() else facts.parent)


def measured(task: Task, folder: Path, options, peers: dict[str, list[str]] | None = None) -> dict:
    """The samples of the Soufflés, of other peers, given as their commands, and of ours."""
    engines = {f"souffle{each.bits}": [compiled(task.program, each.path)] for each in options.compilers}
    return compared(task, engines | (peers or {}) | {OURS: our_command(task)}, folder, options)


def our_command(task: Task) -> list[str]:
    return [sys.executable, "-m", "semi_naive", "run", str(task.program), "--quiet", "--no-warn"]


def compared(task: Task, engines: dict[str, list[str]], folder: Path, options) -> dict:
    """The samples of all engines, in turn. An engine that was stopped once is left out then. engines: the command of each, to
    which the folders of facts and of outputs and the number of cores are added."""
    samples: dict[str, list[ShellRun]] = {name: [] for name in engines}
    first = None
    for _ in range(options.repeat):
        for name, words in engines.items():
            if any(sample.stopped for sample in samples[name]):
                continue
            out = folder / "out" / task.name / name
            given = ["-F", str(task.facts), f"-j{options.jobs or cpus()}", "-D", str(out)]
            sample = watched([*words, *given], out, options.timeout)
            say(f"{task.name}: {name} {sample.seconds:.2f} s" + " (stopped)" * sample.stopped)
            samples[name].append(sample)
            if not sample.stopped:
                found = outputs(out)
                first = first or (name, out, found)
                sample.tuples = sum(map(len, found.values()))
                agree(task.name, first, (name, out, found))
    return {"samples": {name: [asdict(sample) for sample in found] for name, found in samples.items()}}


def watched(words: list[str], out: Path, timeout: float) -> ShellRun:
    """A command's run with its standard output in the folder `out`, where its other results may be, too. Python keeps the
    bytecode of its modules, as it does for users."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    report = out.with_suffix(".json")
    command = [sys.executable, "-m", "bench.watched", str(timeout), str(report), *words]
    with open(out / "stdout", "wb") as printed, open(out.with_suffix(".err"), "w+b") as told:
        subprocess.run(command, check=True, stdout=printed, stderr=told, env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""})
        found = json.loads(report.read_text())
        if found.pop("status") and not found["stopped"]:
            told.seek(0)
            raise ValueError(f"{' '.join(words)} failed:\n{told.read().decode(errors='replace')[-2000:]}")
    return ShellRun(**found)


def outputs(folder: Path) -> dict[str, np.ndarray]:
    """The distinct lines of each file, as sorted hashes of 64 bits."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with open(path, "rb") as file:
            hashes = np.sort(np.fromiter(map(hash, file), np.int64))
        found[str(path.relative_to(folder))] = hashes[np.diff(hashes, prepend=hashes[:1] - 1) != 0]
    return found


def agree(name: str, first: tuple, other: tuple) -> None:
    """WrongCount unless two runs have the same outputs, with the same lines."""
    (one, out, expected), (two, there, found) = first, other
    if NEMO in (one, two):
        expected, found = ({file: lines for file, lines in each.items() if file != "stdout"} for each in (expected, found))
    if expected.keys() != found.keys():
        raise WrongCount(f"{name}: {one} writes {', '.join(expected)}, {two} {', '.join(found)}")
    for file, lines in expected.items():
        if not np.array_equal(lines, found[file]):
            here, yonder = (only(*pair) for pair in [(out / file, there / file), (there / file, out / file)])
            raise WrongCount(
                f"{name}: {file} differs: {len(lines):,} lines of {one}, {len(found[file]):,} of {two}; "
                f"only {one} has {here}; only {two} has {yonder}"
            )


def only(path: Path, other: Path) -> list[str]:
    """Some lines of the one file that the other one has not got."""
    with open(path, "rb") as file, open(other, "rb") as theirs:
        return sorted(line.decode(errors="replace").rstrip("\n") for line in {*file} - {*theirs})[:SHOWN]


def table(results: dict):
    """Medians of each engine, and how many times as much the others take as ours; then the least of these ratios and their
    mean."""
    from rich.table import Table

    rows, engines = results["rows"], results["engines"]
    made = Table(title=results["title"])
    made.add_column("program")
    for engine in [*engines, OURS]:
        made.add_column(f"{engine}, s")
        made.add_column("cpu, s")
        made.add_column("MB")
        for measure in MEASURES.values() if engine != OURS else ():
            made.add_column(f"{measure} ÷ ours")
    for column in made.columns[1:]:
        column.justify = "right"
    for name, row in rows.items():
        cells = []
        for engine in [*engines, OURS]:
            cells += _cells(row["samples"][engine])
            cells += [_ratio(row, engine, measure) for measure in MEASURES] if engine != OURS else []
        made.add_row(name, *cells)
    for told, summary in (("least", min), ("geometric mean", statistics.geometric_mean)):
        cells = []
        for engine in engines:
            ratios = [[r for row in rows.values() if (r := ratio(row, engine, measure))] for measure in MEASURES]
            cells += ["", "", "", *(_times(summary(each) if each else None) for each in ratios)]
        made.add_row(told, *cells)
    return made


def ratio(row: dict, engine: str, measure: str) -> float | None:
    """How many times as much an engine takes as ours; None if one of them was stopped."""
    both = [row["samples"][each] for each in (engine, OURS)]
    if any(sample["stopped"] for samples in both for sample in samples):
        return None
    theirs, mine = (statistics.median(sample[measure] for sample in samples) for samples in both)
    return theirs / mine


def _ratio(row: dict, engine: str, measure: str) -> str:
    """The cell of a ratio; if only one was stopped, a bound."""
    known = ratio(row, engine, measure)
    if known is not None or measure != "seconds":
        return _times(known)
    theirs, mine = row["samples"][engine], row["samples"][OURS]
    if theirs[-1]["stopped"] == mine[-1]["stopped"]:
        return "–"
    least = theirs[-1]["seconds"] / mine[-1]["seconds"]
    return f"{'>' if theirs[-1]['stopped'] else '<'} {_times(least)}"


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _cells(samples: list[dict]) -> list[str]:
    """Wall and processor seconds and megabytes of one engine."""
    middle = {measure: statistics.median(sample[measure] for sample in samples) for measure in MEASURES}
    stopped = samples[-1]["stopped"]
    wall = f"> {middle['seconds']:.0f}" if stopped else f"{middle['seconds']:.2f}"
    return [wall, f"{middle['processor']:.2f}", f"{middle['bytes'] / 1e6:,.0f}"]
