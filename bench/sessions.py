"""What a change costs in a session, beside a run from the start in the same process, and beside DuckDB's recomputation.

    python -m bench.sessions [--rows join,cspa] [--repeat 3] [--changes 30] [--scale 1] [--quick] [--out FILE]

Of each program 1 of its facts, and 100, go out and come back, in transactions of their own. A run has its facts as arrays,
and is warm; DuckDB has them as tables. Prints the median and the 99th percentile of the transactions, and how many of them a
run takes. Stops with an error when the session's contents are not those of a run, at the end.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from bench import analyses
from bench.closure import WrongCount
from bench.command import command, parser_of, say, surroundings
from bench.peers import by_duckdb
from bench.workloads import PROGRAMS
from semi_naive import Program, graphs

JOIN = """
.decl r(x: number, y: number)
.input r
.decl s(x: number, y: number)
.input s
.decl joined(x: number, z: number)
.output joined
joined(x, z) :- r(x, y), s(y, z).
"""
JOIN_SQL = "SELECT count(*) FROM (SELECT DISTINCT r.x, s.y FROM r JOIN s ON r.y = s.x)"
SIZES = 1, 100  # facts of a transaction


@dataclass
class Case:
    """A program, its facts, the relation that facts come and go of, and the question to DuckDB."""

    program: Program
    facts: dict[str, np.ndarray]
    changed: str
    sql: str


def _join(scale: float) -> Case:
    size = max(100, int(1_000_000 * scale))
    rng = np.random.default_rng(0)
    facts = {name: rng.integers(size, size=(size, 2)) for name in "rs"}
    return Case(Program(JOIN), facts, "r", JOIN_SQL)


def _closure(scale: float) -> Case:
    edges = graphs.read_edges(graphs.bundled("p2p-gnutella09")).pairs
    return _of("closure", {"edge": edges[: max(100, int(len(edges) * scale))]}, "edge")


def _cspa(scale: float) -> Case:
    return _of("cspa", analyses.cspa(max(200, int(20_000 * scale))), "assign")


def _andersen(scale: float) -> Case:
    return _of("andersen", analyses.andersen(max(200, int(100_000 * scale))), "copy")


def _of(name: str, facts: dict, changed: str) -> Case:
    return Case(Program.from_file(PROGRAMS / f"{name}.dl"), facts, changed, (PROGRAMS / f"{name}.sql").read_text())


ROWS: dict[str, Callable[[float], Case]] = {"join": _join, "closure": _closure, "cspa": _cspa, "andersen": _andersen}


def main(arguments=None) -> int:
    return command("bench.sessions", parsed(arguments), run, lambda results: [table(results)], (WrongCount, ValueError))


def parsed(arguments):
    parser = parser_of("bench.sessions", __doc__, ROWS, timeout=120)
    parser.add_argument("--changes", type=int, default=30, help="transactions of each kind (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1, help="how large what is made up is (default: %(default)s)")
    return parser.parse_args(arguments)


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples in seconds."""
    results = {**surroundings(None, options), "rows": {}}
    for name in options.rows.split(","):
        if name not in ROWS:
            raise ValueError(f"there is no row {name!r}: expected some of {', '.join(ROWS)}")
        say(name)
        case = ROWS[name](0.001 if options.toy else options.scale)
        changes = 2 if options.toy else options.changes
        results["rows"][name] = measured(case, changes, options.repeat, options.timeout)
    return results


def measured(case: Case, changes: int, repeat: int, timeout: float) -> dict:
    """Seconds of runs, of DuckDB's, and of transactions by (operation, facts)."""
    fresh = [_seconds(partial(_fresh, case)) for _ in range(repeat + 1)][1:]
    duckdb = by_duckdb(lambda connection: connection.execute(case.sql).fetchone()[0], 2, timeout, partial(_load, case))
    samples: dict[str, list[float]] = {}
    every = np.unique(case.facts[case.changed], axis=0)
    with case.program.session(case.facts) as session:
        for size, number in product(SIZES, range(changes + 1)):
            rows = _drawn(every, size, number)
            for operation in ("delete", "insert"):
                seconds = _seconds(partial(getattr(session, operation), case.changed, rows))
                if number:  # the first one makes plans and indexes
                    samples.setdefault(f"{operation} {size}", []).append(seconds)
        counts = {name: session[name].count() for name in case.program.outputs}
        left = {name: session[name].to_numpy() for name in case.facts}
    with case.program.run(left) as result:
        if counts != {name: result[name].count() for name in counts}:
            raise WrongCount(f"the session has {counts}, a run { ({name: result[name].count() for name in counts}) }")
    peer = {"duckdb": duckdb.seconds, "duckdb_stopped": duckdb.pairs is None}
    return {"fresh": fresh, **peer, "counts": counts, "changes": samples}


def _fresh(case: Case) -> None:
    with case.program.run(case.facts) as result:
        for name in case.program.outputs:
            result[name].count()


def _load(case: Case, connection) -> None:
    for name, rows in case.facts.items():
        columns = {"x": rows[:, 0], "y": rows[:, 1]}
        connection.register(f"{name}_rows", columns)
        connection.execute(f"CREATE TABLE {name} AS FROM {name}_rows")


def _drawn(rows: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Some of the facts."""
    return rows[np.random.default_rng((seed, size)).choice(len(rows), min(size, len(rows) // 2), replace=False)]


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def table(results: dict):
    """Milliseconds of a transaction, and how many of them a run from the start takes."""
    from rich.table import Table

    made = Table(title="Sessions: milliseconds of a transaction, median (99th percentile), and how many of them a run takes")
    for column in ("program", "run, s", "DuckDB, s", *(f"{op} {size}" for size in SIZES for op in ("delete", "insert"))):
        made.add_column(column, justify="left" if column == "program" else "right")
    for name, row in results["rows"].items():
        fresh = float(np.median(row["fresh"]))
        bound = "> " * row["duckdb_stopped"]
        cells = [_cell(samples, fresh) for samples in row["changes"].values()]
        made.add_row(name, f"{fresh:.3f}", f"{bound}{row['duckdb']:.3f}", *cells)
    return made


def _cell(samples: list[float], fresh: float) -> str:
    median, most = np.median(samples), np.quantile(samples, 0.99)
    return f"{1e3 * median:,.2f} ({1e3 * most:,.1f})\n{fresh / median:,.1f}×"


if __name__ == "__main__":
    sys.exit(main())
