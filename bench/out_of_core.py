"""Patterns in a graph in files, from the shell: in memory, and within a number of bytes.

    python -m bench.out_of_core [--scale 21] [--degree 16] [--patterns triangle,diamond] [--memory 32M,100M] [--limit 172M]

The graph is RMAT, written as text before. Each run is a process of its own, which reads the file, numbers the vertices, and
counts. Its peak is that of its resident memory. --limit: of the data of the runs within a number of bytes, set by the operating
system (`ulimit -d`).
"""

import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.closure import WrongCount
from bench.command import command, parser_of, say, surroundings
from bench.side_by_side import MEASURES, watched

TOY_SCALE = 10


def main(arguments=None) -> int:
    parser = parser_of("bench.out_of_core", __doc__, timeout=3600)
    parser.add_argument("--scale", type=int, default=21, help="the vertices are 2^scale (default: %(default)s)")
    parser.add_argument("--degree", type=int, default=16, help="edges for each vertex (default: %(default)s)")
    parser.add_argument("--patterns", default="triangle,diamond", help="separated by commas (default: %(default)s)")
    parser.add_argument("--memory", default="32M,100M", help="separated by commas (default: %(default)s)")
    parser.add_argument("--limit", help="the limit of a boxed run's data: 200M")
    parser.add_argument("--only-boxed", action="store_true", help="leave out the run in memory")
    options = parser.parse_args(arguments)
    return command("bench.out_of_core", options, run, lambda results: [table(results)], (WrongCount, ValueError))


def run(options) -> dict:
    from semi_naive import graphs

    scale = TOY_SCALE if options.toy else options.scale
    with tempfile.TemporaryDirectory(prefix="bench-out-of-core-") as folder:
        path = Path(folder) / "edges.tsv"
        edges = graphs.rmat(scale, options.degree << scale)
        write(edges, path)
        results = {**surroundings(None, options), "scale": scale, "edges": len(edges), "bytes": path.stat().st_size, "rows": {}}
        del edges
        for pattern in options.patterns.split(","):
            results["rows"][pattern] = counted(path, pattern, options)
    return results


def write(edges, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv

    plain = csv.WriteOptions(include_header=False, delimiter="\t")
    csv.write_csv(pa.table({"source": edges[:, 0], "target": edges[:, 1]}), path, plain)


def counted(path: Path, pattern: str, options) -> dict:
    """The samples of a pattern by memory; all find the same number."""
    samples: dict[str, list] = {}
    counts = set()
    for _ in range(options.repeat):
        for memory in ([] if options.only_boxed else [""]) + options.memory.split(","):
            words = [sys.executable, "-m", "semi_naive", "subgraphs", str(path), "--pattern", pattern]
            if memory:
                words += ["--memory", memory]
                words = limited(words, options.limit) if options.limit else words
            out = path.parent / "out"
            sample = watched(words, out, options.timeout)
            say(f"{pattern}, {memory or 'in memory'}: {sample.seconds:.1f} s, {sample.bytes >> 20} MB")
            if not sample.stopped:
                counts.add(int((out / "stdout").read_text()))
            samples.setdefault(memory or "in memory", []).append(asdict(sample))
    if len(counts) > 1:
        raise WrongCount(f"{pattern}: the runs found {', '.join(map(str, sorted(counts)))}")
    return {"count": next(iter(counts), None), "samples": samples}


def limited(words: list[str], limit: str) -> list[str]:
    """The command under a limit of its data."""
    from semi_naive.cli.options import Bytes

    kilobytes = Bytes().convert(limit, None, None) // 1024
    return ["sh", "-c", f'ulimit -d {kilobytes}; exec "$@"', "sh", *words]


def table(results: dict):
    from rich.table import Table

    title = f"RMAT of scale {results['scale']}: {results['edges']:,} edges, {results['bytes'] / 1e6:.0f} MB of text"
    found = Table(title=title)
    for name in ("pattern", "count", "memory", "s", "processor, s", "peak, MB"):
        found.add_column(name, justify="left" if name in ("pattern", "memory") else "right")
    for pattern, row in results["rows"].items():
        for memory, samples in row["samples"].items():
            seconds, processor, size = (statistics.median(sample[name] for sample in samples) for name in MEASURES)
            found.add_row(pattern, f"{row['count']:,}", memory, f"{seconds:.1f}", f"{processor:.1f}", f"{size / 1e6:.0f}")
    return found


if __name__ == "__main__":
    sys.exit(main())
