"""Programs by Soufflé's compiler and by this engine, in turn, on all cores: from the shell, and ours warm in a process as well.

    python -m bench.souffle [--rows doop,andersen] [--repeat 3] [--souffle DIR] [--data DIR] [--quick] [--out FILE]
    python -m bench.souffle --suite own|DIR [--size small|medium|large] [--rows cyk,life] [--timeout 60] …

Soufflé is looked for in --souffle DIR, then on the PATH. It compiles each program once, which is not timed, and the binary is
kept. Stops with an error when a relation has not as many tuples for both. Prints the medians and how many times as long
Soufflé takes; writes every sample, and what it ran on, as JSON.

With --suite the programs are those of a folder (NAME/NAME.dl and NAME/facts/), or our own (suite.py). Wall time,
processor time and peak memory are measured, and the outputs must have the same tuples. --souffle A:B compares with several.
"""

import gzip
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bench import side_by_side, workloads
from bench.closure import WrongCount, compare
from bench.command import command, parser_of, surroundings
from bench.compilers import compiled, compilers
from bench.peers import Sample
from bench.report import in_seconds, seconds_of
from bench.workloads import Workload
from semi_naive.host.threads import cpus

LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def main(arguments=None) -> int:
    options = parsed(arguments)
    options.compilers = compilers(options.souffle)
    if not options.compilers:
        print("bench.souffle: there is no souffle on the PATH: name the folder it is in with --souffle DIR", file=sys.stderr)
        return 2
    told = (WrongCount, ValueError, subprocess.CalledProcessError)
    measure = side_by_side if options.suite else sys.modules[__name__]
    return command("bench.souffle", options, measure.run, lambda results: [measure.table(results)], told)


def parsed(arguments):
    parser = parser_of("bench.souffle", __doc__, repeat=3, timeout=1800)
    parser.add_argument("--rows", help=f"separated by commas (default: all; {','.join(NAMES)}, or programs of the suite)")
    parser.add_argument("--souffle", metavar="DIR", help="the folder that souffle is in (default: looked for on the PATH)")
    parser.add_argument("--data", type=Path, help="a folder with doop/ and crdt/, in each the program and its facts, .gz")
    parser.add_argument("--suite", metavar="DIR", help="a folder of programs and facts, or own: those of bench/suite.py")
    parser.add_argument(
        "--size", choices=("small", "medium", "large"), default="small", help="of --suite own (default: %(default)s)"
    )
    parser.add_argument("--jobs", type=int, help="cores of each run of a suite (default: all); 1 if the machine is not idle")
    return parser.parse_args(arguments)


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples."""
    results = {**surroundings(None, options), "souffle": options.compilers[0].version, "rows": {}}
    with tempfile.TemporaryDirectory(prefix="bench-souffle-") as folder:
        names = options.rows.split(",") if options.rows else [*NAMES]
        for workload in workloads.workloads(names, Path(folder), options.data, options.toy, known=NAMES):
            results["rows"][workload.name] = measured(sized(workload), Path(folder), options)
    return results


def sized(workload: Workload) -> Workload:
    """The same, of which only the sizes of its results are printed: nobody's disk is compared."""
    text = re.sub(r"(?m)^\.output\b", ".printsize", workload.text)
    names = tuple(name.strip() for line in re.findall(r"(?m)^\.printsize (.*)$", text) for name in line.split(","))
    return replace(workload, text=text, counted=names)


def measured(workload: Workload, folder: Path, options) -> dict:
    """The samples of all engines; WrongCount if two sizes of a relation differ."""
    program = folder / f"{workload.name.replace(' ', '-')}.dl"
    program.write_text(workload.text)
    ours = [sys.executable, "-m", "semi_naive", "run", str(program), "--quiet"]
    engines = {
        "command": partial(shell, [*ours, "--no-warn"]), "warm": partial(workloads.ours, workload),
        "souffle": partial(shell, [compiled(program, options.compilers[0].path)]),
    }  # fmt: skip
    workloads.ours(workload, workload.path, None, 0)  # what is loaded and compiled is no part of "warm"
    row = compare(workload, engines, None, options.repeat, options.timeout)
    sizes = [sample["facts"] for name in ("command", "souffle") for sample in row["samples"][name] if sample["facts"]]
    if any(found != sizes[0] for found in sizes):
        raise WrongCount(f"{workload.name}: {' and '.join(str(found) for found in sizes)} were printed")
    return row


def shell(words: list[str], path, spark, timeout: float) -> Sample:
    """A command's wall time, as who types it has it, and the sizes that it prints. Stopped when the time is up."""
    begun = time.perf_counter()
    try:
        done = subprocess.run(
            [*words, "-F", str(path), f"-j{cpus()}"], check=True, timeout=timeout, stdout=subprocess.PIPE, text=True
        )
    except subprocess.TimeoutExpired:
        return Sample(time.perf_counter() - begun, None)
    seconds = time.perf_counter() - begun
    sizes = {name: int(size) for name, size in re.findall(r"(?m)^(\S+)\t(\d+)$", done.stdout)}
    return Sample(seconds, sum(sizes.values()), sizes)


def table(results: dict):
    """Seconds of each engine, and how many times as long as ours Soufflé takes."""
    from rich.table import Table

    made = Table(title="Compiled by Soufflé, and ours, seconds: median (least–most)")
    for column in ("program", "tuples", "souffle", "ours, command", "souffle ÷ it", "ours, warm", "souffle ÷ it"):
        made.add_column(column, justify="left" if column == "program" else "right")
    for name, row in results["rows"].items():
        times = {engine: seconds_of(samples) for engine, samples in row["samples"].items()}
        cells = [in_seconds(times["souffle"])]
        for engine in ("command", "warm"):
            cells += [in_seconds(times[engine]), ratio(times["souffle"], times[engine])]
        made.add_row(name, f"{row['pairs']:,}", *cells)
    return made


def ratio(theirs: tuple, mine: tuple) -> str:
    """
    >>> ratio((6.0, 6.0, 6.0, False), (2.0, 2.0, 2.0, False)), ratio((600.0, 600.0, 600.0, True), (2.0, 2.0, 2.0, False))
    ('3.00×', '≥ 300.00×')
    """
    return f"{'≥ ' * theirs[3]}{theirs[0] / mine[0]:.2f}×"


def _stored(name: str, folder: Path, data: Path | None, quick: bool, scale: float) -> Workload | None:
    """A program of --data, its facts unpacked to where both read them; None without --data, or if it is to be quick."""
    if data is None or quick:
        return None
    folder.mkdir(parents=True)
    for packed in (data / name / "facts").glob("*.gz"):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    return Workload(name, str(folder), (data / name / f"{name}.dl").read_text(), ())


def _counter(text: str, name: str, folder: Path, data: Path | None, quick: bool, scale: float) -> Workload:
    """Iterations with one tuple each."""
    folder.mkdir(parents=True)
    return Workload(name, str(folder), text.replace("N", "100" if quick else "100000"), ())


def _functors(folder: Path, data: Path | None, quick: bool, scale: float) -> Workload:
    """Every piece of eight letters, or fewer at the end, of words of sixteen."""
    count = 50 if quick else 330_000
    folder.mkdir(parents=True)
    words = np.random.default_rng(5).choice(LETTERS, (count, 16))
    (folder / "word.facts").write_text("".join(f"{''.join(word)}\n" for word in words.tolist()))
    return Workload("functors", str(folder), PIECES, ())


ONE_RULE = """.decl b(x: number)
.printsize b
b(0).
b(x + 1) :- b(x), x < N.
"""
TWO_RULES = """.decl a(x: number)
.decl b(x: number)
.printsize a, b
a(0).
b(x + 1) :- a(x), x < N.
a(x + 1) :- b(x), x < N.
"""
PIECES = """.decl word(w: symbol)
.input word
.decl piece(p: symbol, length: number)
.printsize piece
piece(p, strlen(p)) :- word(w), i = range(0, strlen(w)), p = substr(w, i, 8).
"""
NAMES = {
    "doop": partial(_stored, "doop"),
    "crdt": partial(_stored, "crdt"),
    "andersen": lambda *given: workloads.NAMES["andersen"](*given[:3], 4 * given[3]),
    "sg-gnutella": workloads.NAMES["sg-gnutella"],
    "cspa": workloads.NAMES["cspa"],
    "counter": partial(_counter, ONE_RULE, "counter"),
    "two-counters": partial(_counter, TWO_RULES, "two counters"),
    "functors": _functors,
}

if __name__ == "__main__":
    sys.exit(main())
