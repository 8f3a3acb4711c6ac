"""Datalog programs against DuckDB's recursive queries, loops over Spark DataFrames and `transitive_closure`.

    python -m bench.datalog [--rows andersen,cspa] [--repeat 3] [--scale 1] [--quick] [--data DIR] [--out FILE]

The programs are programs/*.dl, the queries beside them. Stops with an error when two engines' answers differ. Prints the
medians and how many times as long the others take; writes every sample, and what it ran on, as JSON.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.closure import WrongCount, compare, say, surroundings
from bench.command import command
from bench.peers import Sample
from bench.report import seconds_of
from bench.workloads import NAMES, Workload, ours, workloads

PEERS = {"duckdb": "DuckDB", "loop": "DataFrame loop", "transitive_closure": "transitive_closure"}


def main(arguments=None) -> int:
    return command("bench.datalog", parsed(arguments), run, show, (WrongCount, ValueError))


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="python -m bench.datalog", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(NAMES), help="programs, separated by commas (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="samples of each engine (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a peer may take (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1, help="how large what is made up is (default: %(default)s)")
    parser.add_argument("--quick", dest="toy", action="store_true", help="tiny facts: does everything work?")
    parser.add_argument("--data", type=Path, help="a folder with tg-cedge.tsv.gz")
    parser.add_argument("--out", help="write the results as JSON")
    return parser.parse_args(arguments)


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples."""
    from semi_naive.ra import session

    spark = session.start()
    with tempfile.TemporaryDirectory(prefix="bench-datalog-") as folder:
        names = options.rows.split(",")
        found = workloads(names, Path(folder), options.data, options.toy, options.scale)
        warm_up(spark, names, Path(folder))
        results = {**surroundings(spark, options), "rows": {}}
        for workload in found:
            results["rows"][workload.name] = compare(workload, engines(workload), spark, options.repeat, options.timeout)
    return results


def engines(workload: Workload) -> dict:
    return {"datalog": partial(_ours, workload), **workload.peers}


def _ours(workload: Workload, path, spark, timeout: float) -> Sample:
    return ours(workload, path, spark, timeout)


def warm_up(spark, names: list[str], folder: Path) -> None:
    """Each engine once, on next to nothing: what it loads and compiles is no part of a measurement."""
    for workload in workloads(names, folder / "warm", quick=True):
        for name, engine in engines(workload).items():
            say(f"warming up: {workload.name}, {name}")
            engine(workload.path, spark, 600)


def show(results: dict) -> None:
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=150)
    console.print(table(results))
    if results["toy"]:
        console.print("Tiny facts: the times and ratios say nothing.")


def table(results: dict):
    """Seconds of each engine, and how many times as long as ours the others take."""
    from rich.table import Table

    made = Table(title="Datalog, seconds: median (least–most), and ÷ ours")
    for column in ("program", "answer", "datalog", *PEERS.values()):
        made.add_column(column, justify="left" if column == "program" else "right")
    for name, row in results["rows"].items():
        mine = seconds_of(row["samples"]["datalog"])
        cells = [_cell(seconds_of(row["samples"].get(peer, [])), mine) for peer in PEERS]
        made.add_row(name, f"{row['pairs']:,}", _cell(mine), *cells)
    return made


def _cell(times, mine=None) -> str:
    if not times:
        return "–"
    median, least, most, stopped = times
    told = f"> {median:,.0f}" if stopped else f"{median:.2f} ({least:.2f}–{most:.2f})"
    return told if mine is None else f"{told}\n{'≥ ' * bool(stopped)}{median / mine[0]:.2f}×"


if __name__ == "__main__":
    sys.exit(main())
