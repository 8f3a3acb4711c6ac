"""Datalog programs against DuckDB's recursive queries, loops over Spark DataFrames and `transitive_closure`.

    python -m bench.datalog [--rows andersen,cspa] [--repeat 3] [--scale 1] [--quick] [--data DIR] [--out FILE]

The programs are programs/*.dl, the queries beside them. Stops with an error when two engines' answers differ. Prints the
medians and how many times as long the others take; writes every sample, and what it ran on, as JSON.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.closure import WrongCount, compare
from bench.command import command, parser_of, say, surroundings
from bench.report import in_seconds, seconds_of
from bench.workloads import NAMES, Workload, ours, ours_written, workloads

PEERS = {  # and whom each is compared with
    "duckdb": ("DuckDB", "datalog"), "written": ("to parquet", None), "duckdb_written": ("DuckDB to parquet", "written"),
    "loop": ("DataFrame loop", "datalog"), "transitive_closure": ("transitive_closure", "datalog"),
}  # fmt: skip


def main(arguments=None) -> int:
    return command("bench.datalog", parsed(arguments), run, lambda results: [table(results)], (WrongCount, ValueError))


def parsed(arguments):
    parser = parser_of("bench.datalog", __doc__, NAMES, timeout=600)
    parser.add_argument("--scale", type=float, default=1, help="how large what is made up is (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="a folder with tg-cedge.tsv.gz")
    return parser.parse_args(arguments)


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples."""
    from semi_naive.ra.spark import spark_context

    spark = spark_context.start()
    with tempfile.TemporaryDirectory(prefix="bench-datalog-") as folder:
        names = options.rows.split(",")
        found = workloads(names, Path(folder), options.data, options.toy, options.scale)
        warm_up(spark, names, Path(folder))
        results = {**surroundings(spark, options), "rows": {}}
        for workload in found:
            results["rows"][workload.name] = compare(workload, engines(workload), spark, options.repeat, options.timeout)
    return results


def engines(workload: Workload) -> dict:
    written = {"written": partial(ours_written, workload)} if "duckdb_written" in workload.peers else {}
    return {"datalog": partial(ours, workload), **written, **workload.peers}


def warm_up(spark, names: list[str], folder: Path) -> None:
    """Each engine once, on next to nothing: what it loads and compiles is no part of a measurement."""
    for workload in workloads(names, folder / "warm", quick=True):
        for name, engine in engines(workload).items():
            say(f"warming up: {workload.name}, {name}")
            engine(workload.path, spark, 600)


def table(results: dict):
    """Seconds of each engine, and how many times as long as ours the others take."""
    from rich.table import Table

    made = Table(title="Datalog, seconds: median (least–most), and ÷ ours")
    for column in ("program", "answer", "datalog", *(said for said, _ in PEERS.values())):
        made.add_column(column, justify="left" if column == "program" else "right")
    for name, row in results["rows"].items():
        times = {engine: seconds_of(samples) for engine, samples in row["samples"].items()}
        cells = [_cell(times.get(peer), times.get(than)) for peer, (_, than) in PEERS.items()]
        made.add_row(name, f"{row['pairs']:,}", _cell(times["datalog"]), *cells)
    return made


def _cell(times, mine=None) -> str:
    told = in_seconds(times)
    return told if mine is None or not times else f"{told}\n{'≥ ' * times[3]}{times[0] / mine[0]:.2f}×"


if __name__ == "__main__":
    sys.exit(main())
