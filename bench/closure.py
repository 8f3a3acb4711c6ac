"""The closure of several graphs by several engines, in turn, in one process and one Spark session.

    python -m bench.closure [--rows gnp,rmat,grid,gnutella,tree,chain] [--repeat 3] [--toy] [--data DIR] [--out FILE]

Stops with an error when the engines disagree, or a count differs from the known one. Prints the medians, their ratios
and the targets; writes every sample, and what it ran on, as JSON.
"""

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench import extras
from bench.command import command, parser_of, say, surroundings
from bench.inputs import NAMES, Row, rows, write
from bench.peers import ENGINES, Sample
from bench.report import measures, tables
from semi_naive import graphs

LOOPED = ("tree",)  # the loop over DataFrames takes minutes on the others


class WrongCount(RuntimeError):
    """An engine's answer is not the known one, or not the other engines'."""


def main(arguments=None) -> int:
    return command("bench.closure", parsed(arguments), run, shown, (WrongCount, ValueError))


def parsed(arguments):
    parser = parser_of("bench.closure", __doc__, NAMES, timeout=600)
    parser.add_argument("--all", action="store_true", help="the loop over DataFrames on every graph")
    parser.add_argument("--no-extras", dest="extras", action="store_false", help="only the engines side by side")
    parser.add_argument("--data", type=Path, help="a folder with grid150.csv.gz")
    return parser.parse_args(arguments)


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples, extras, measures."""
    from semi_naive.ra.spark import spark_context

    spark = spark_context.start()
    with tempfile.TemporaryDirectory(prefix="bench-closure-") as folder:
        folder = Path(folder)
        found = rows(options.rows.split(","), folder, options.data, options.toy)
        warm_up(spark, folder)
        results = {**surroundings(spark, options), "rows": {}, "extras": {}}
        for row in found:
            engines = engines_for(row, options)
            results["rows"][row.name] = compare(row, engines, spark, options.repeat, options.timeout)
        if options.extras:
            results["extras"] = besides({row.name: row for row in found}, spark, folder, options)
    results["measures"] = [{**asdict(measure), "met": measure.met} for measure in measures(results)]
    return results


def warm_up(spark, folder: Path) -> None:
    """Each engine once, on a graph of nothing: what it loads and compiles is no part of a measurement."""
    path = write(graphs.tree(2), folder / "warm.tsv")
    for engine in ENGINES.values():
        engine(path, spark, 600)


def engines_for(row: Row, options) -> dict:
    return {
        name: engine
        for name, engine in ENGINES.items()
        if name != "dataframes" or options.toy or options.all or row.name in LOOPED
    }


def compare(row: Row, engines: dict, spark, repeat: int, timeout: float) -> dict:
    """A B C, A B C, …: what disturbs the machine for a while disturbs them all. An engine once stopped is left out."""
    samples: dict[str, list[Sample]] = {name: [] for name in engines}
    for _ in range(repeat):
        for name, engine in engines.items():
            if any(sample.pairs is None for sample in samples[name]):
                continue
            sample = engine(row.path, spark, timeout)
            say(f"{row.name}: {name} {sample.seconds:.2f} s" + (" (stopped)" if sample.pairs is None else ""))
            samples[name].append(sample)
            agree(row, samples)
    pairs = next(s.pairs for found in samples.values() for s in found if s.pairs is not None)
    return {"pairs": pairs, "samples": {name: [asdict(s) for s in found] for name, found in samples.items()}}


def agree(row: Row, samples: dict[str, list[Sample]]) -> None:
    """WrongCount unless all counts so far are the same, and the known one."""
    counts = {name: s.pairs for name, found in samples.items() for s in found if s.pairs is not None}
    distinct = {s.pairs for found in samples.values() for s in found if s.pairs is not None}
    if len(distinct | ({row.pairs} if row.pairs is not None else set())) > 1:
        known = "" if row.pairs is None else f"; {row.pairs:,} are known to be right"
        told = ", ".join(f"{name} found {pairs:,}" for name, pairs in counts.items())
        raise WrongCount(f"{row.name}: {told} pairs{known}")


def besides(found: dict[str, Row], spark, folder: Path, options) -> dict:
    """What `bench.extras` measures, as far as the graphs it needs were asked for."""
    repeat = 1 if options.toy else options.repeat
    measured = {}
    for name, needs, measure in (
        ("memory", "rmat", lambda: extras.memory(found["rmat"])),
        ("chain", "chain", lambda: extras.chain(found["chain"], spark)),
        ("balancing", "tree", lambda: extras.balancing(spark, repeat, options.toy)),
        ("importing", None, lambda: extras.importing(2 * repeat + 1)),
        ("five_edges", None, lambda: extras.five_edges(folder, repeat)),
    ):
        if needs is None or needs in found:
            measured[name] = measure()
            say(f"{name}: {measured[name]}")
    return measured


def shown(results: dict):
    """The tables; and why the command line was not measured, if it was not."""
    yield from tables(results)
    if "failed" in results["extras"].get("five_edges", {}):
        yield f"The command line was not measured, it failed: {results['extras']['five_edges']['failed']}"


if __name__ == "__main__":
    sys.exit(main())
