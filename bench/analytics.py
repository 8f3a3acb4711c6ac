"""Aggregates over joins of parquet files, by this engine and by DuckDB, from the shell: wall and processor time, peak memory.

    python -m bench.analytics [--rows segments,star,snowflake,recent,together] [--scale 1] [--repeat 3] [--jobs N] [--toy]
        [--out FILE]

`--scale 1` is 5 M sales of 100,000 customers and 2,000 products on 3,650 days, in the order of days. The tables are seeded.
Each engine starts anew for each row and reads the files; the outputs must have the same lines.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from bench.closure import WrongCount
from bench.command import command, parser_of, surroundings
from bench.side_by_side import OURS, Task, compared, our_command, table
from semi_naive.ra.tuple_at_a_time.machine import KERNELS

PROGRAMS = Path(__file__).parent / "programs" / "analytics"
ROWS = "segments", "star", "snowflake", "recent", "together"
SEED, SALES, TOY = 3308, 5_000_000, 0.002
DUCKDB = "duckdb"


def main(arguments=None) -> int:
    parser = parser_of("bench.analytics", __doc__, ROWS, timeout=600)
    parser.add_argument("--scale", type=float, default=1, help="how large the generated tables are (default: %(default)s)")
    parser.add_argument("--jobs", type=int, help="cores of each run (default: all); 1 if the machine is not idle")
    options = parser.parse_args(arguments)
    return command("bench.analytics", options, run, lambda results: [table(results)], (WrongCount, ValueError))


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples."""
    for kernel in () if options.toy else KERNELS:
        kernel.compiled()
    title = "Aggregates over joins of parquet files, from the shell"
    results = {**surroundings(None, options), "title": title, "engines": [DUCKDB], "rows": {}}
    with tempfile.TemporaryDirectory(prefix="bench-analytics-") as folder:
        facts = write_tables(TOY if options.toy else options.scale, Path(folder) / "facts")
        for name in options.rows.split(","):
            if name not in ROWS:
                raise ValueError(f"there is no row {name!r}: expected some of {', '.join(ROWS)}")
            task = Task(name, PROGRAMS / f"{name}.dl", facts)
            theirs = [sys.executable, "-m", "bench.duckdb_command", str(PROGRAMS / f"{name}.sql"), result_of(task.program)]
            results["rows"][name] = compared(task, {DUCKDB: theirs, OURS: our_command(task)}, Path(folder), options)
    return results


def result_of(program: Path) -> str:
    """The name of the file that a program writes."""
    (name,) = (line.removeprefix(".output ") for line in program.read_text().splitlines() if line.startswith(".output "))
    return f"{name}.csv"


def write_tables(scale: float, folder: Path) -> Path:
    """Make the tables of all rows and write them as parquet files to a folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for name, columns in tables(np.random.default_rng(SEED), scale).items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


def tables(rng, scale: float) -> dict[str, dict]:
    """The columns of each table. Few products are in most sales."""
    sales, customers, products = int(SALES * scale), max(10, int(100_000 * scale)), max(10, int(2000 * min(1, scale)))
    names = np.array([f"customer {each:06d}" for each in range(customers)])
    sold = (products * rng.random(sales) ** 2).astype(np.int64)
    baskets = rng.integers(0, max(1, sales // 400), sales // 10)
    pairs = np.unique([baskets, sold[: len(baskets)]], axis=1)
    return {
        "sale": {
            "id": np.arange(sales), "customer": names[rng.integers(0, customers, sales)], "product": sold,
            "day": np.sort(rng.integers(0, 3650, sales)), "amount": rng.integers(1, 1000, sales),
        },
        "customer": {
            "name": names, "segment": np.array(["retail", "wholesale", "online", "public"])[rng.integers(0, 4, customers)],
            "city": [f"city {each}" for each in rng.integers(0, 500, customers)],
        },
        "city": {"city": [f"city {each}" for each in range(500)], "country": [f"country {each % 40}" for each in range(500)]},
        "product": {"product": np.arange(products), "category": [f"category {each % 60}" for each in range(products)]},
        "category": {
            "category": [f"category {each}" for each in range(60)],
            "department": [f"department {each % 7}" for each in range(60)],
        },
        "calendar": {"day": np.arange(3650), "year": 2015 + np.arange(3650) // 365},
        "bought": {"customer": pairs[0], "product": pairs[1]},
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
