"""What every benchmark's command does: read its options, measure, show, and keep the results."""

import argparse
import json
import sys
from pathlib import Path

from bench.paper.files import machine

PACKAGES = ("semi-naive", "pyspark", "duckdb", "numpy", "numba", "pyarrow", "psutil")


def parser_of(name: str, about: str, rows=(), repeat: int = 3, timeout: float | None = None) -> argparse.ArgumentParser:
    """The options that the benchmarks share: which rows, how often, for how long, how large, and where the results go."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=about.splitlines()[0])
    if rows:
        parser.add_argument("--rows", default=",".join(rows), help="separated by commas (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=repeat, help="samples of each (default: %(default)s)")
    if timeout is not None:
        parser.add_argument("--timeout", type=float, default=timeout, help="seconds a peer may take (default: %(default)s)")
    parser.add_argument("--toy", "--quick", dest="toy", action="store_true", help="tiny inputs: does everything work?")
    parser.add_argument("--out", help="write the results as JSON")
    return parser


def command(name: str, options, run, tables, told: tuple = ()) -> int:
    """Run, print what `tables` makes of the results, and write them to options.out as JSON. The exit status: 1, after one
    line, when `run` raises something of `told`."""
    try:
        results = run(options)
    except told as wrong:
        print(f"{name}: {wrong}", file=sys.stderr)
        return 1
    show(tables(results), results["toy"])
    if options.out:
        Path(options.out).write_text(json.dumps(results, indent=1) + "\n")
    return 0


def show(tables, toy: bool) -> None:
    """Print rich tables, and texts."""
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=150)
    for table in tables:
        console.print(table)
    if toy:
        console.print("Toy inputs: the figures say nothing, and there are no targets for them.")


def surroundings(spark, options) -> dict:
    """What a number means nothing without: versions, cores, memory; `spark` is None where nothing runs on it."""
    here = {}
    if spark is not None:
        java = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
        here = {"spark_cores": spark.sparkContext.defaultParallelism, "java": java}
    return {
        "toy": options.toy, "repeat": options.repeat, "timeout": getattr(options, "timeout", None),
        "machine": machine(packages=PACKAGES) | here,
    }  # fmt: skip


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)
