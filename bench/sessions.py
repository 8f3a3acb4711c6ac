"""What a change costs in a session, beside a run from the start in the same process, and beside DuckDB's recomputation.

    python -m bench.sessions [--rows join,cspa] [--repeat 3] [--changes 30] [--scale 1] [--data DIR] [--quick] [--out FILE]

Of each program 1 of its facts, and 100, go out and come back, in transactions of their own; the last facts of crdt, which is
one of --data, go out by the thousand, and are replayed. A run has its facts as arrays,
and is warm; DuckDB has them as tables. Prints the median and the 99th percentile of the transactions, and how many of them a
run takes. Stops with an error when the session's contents are not those of a run, at the end.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

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
EDITS = 1000  # of a transaction that is replayed


@dataclass
class Case:
    """A program, its facts, the relation that facts come and go of, and the question to DuckDB, if there is one. edits: (the
    relation of each, its rows there), as they came."""

    program: Program
    facts: dict[str, np.ndarray]
    changed: str
    sql: str = ""
    edits: tuple[np.ndarray, np.ndarray] | None = None


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


def _crdt(scale: float, data: Path) -> Case:
    """A text that was edited: elements that are inserted, and removed, in the order of the elements' counters."""
    facts = {}
    for name in ("Insert_input", "Remove_input"):
        rows = np.loadtxt(data / "crdt" / "facts" / f"{name}.csv.gz", np.int64, delimiter=",")
        facts[name] = rows[: max(200, int(len(rows) * scale))]
    relation = np.repeat(list(facts), [len(rows) for rows in facts.values()])
    number = np.concatenate([np.arange(len(rows)) for rows in facts.values()])
    order = np.argsort(np.concatenate([rows[:, 0] for rows in facts.values()]), kind="stable")
    program = Program.from_file(data / "crdt" / "crdt.dl")
    return Case(program, facts, "Insert_input", edits=(relation[order], number[order]))


def _of(name: str, facts: dict, changed: str) -> Case:
    return Case(Program.from_file(PROGRAMS / f"{name}.dl"), facts, changed, (PROGRAMS / f"{name}.sql").read_text())


ROWS: dict[str, Callable[[float], Case]] = {"join": _join, "closure": _closure, "cspa": _cspa, "andersen": _andersen}


def main(arguments=None) -> int:
    return command("bench.sessions", parsed(arguments), run, lambda results: [table(results)], (WrongCount, ValueError))


def parsed(arguments):
    parser = parser_of("bench.sessions", __doc__, ROWS, timeout=120)
    parser.add_argument("--changes", type=int, default=30, help="transactions of each kind (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="a folder with crdt/crdt.dl and crdt/facts/*.csv.gz, for the row crdt")
    parser.add_argument("--scale", type=float, default=1, help="how large what is made up is (default: %(default)s)")
    return parser.parse_args(arguments)


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples in seconds."""
    results = {**surroundings(None, options), "rows": {}}
    for name in options.rows.split(","):
        if name not in ROWS and not (name == "crdt" and options.data):
            raise ValueError(f"there is no row {name!r}: expected some of {', '.join(ROWS)}, and crdt with --data")
        say(name)
        scale = 0.001 if options.toy else options.scale
        case = _crdt(scale, options.data) if name == "crdt" else ROWS[name](scale)
        changes = 2 if options.toy else options.changes
        results["rows"][name] = measured(case, changes, options.repeat, options.timeout)
    return results


def measured(case: Case, changes: int, repeat: int, timeout: float) -> dict:
    """Seconds of runs, of DuckDB's, and of transactions by (operation, facts)."""
    fresh = [_seconds(partial(_fresh, case)) for _ in range(repeat + 1)][1:]
    ask = partial(_asked, case)
    duckdb = by_duckdb(ask, 2, timeout, partial(_load, case)) if case.sql else None
    samples: dict[str, list[float]] = {}
    every = np.unique(case.facts[case.changed], axis=0)
    with case.program.session(case.facts) as session:
        for size, number in product(SIZES, range(changes + 1)):
            rows = _drawn(every, size, number)
            for operation in ("delete", "insert"):
                seconds = _seconds(partial(getattr(session, operation), case.changed, rows))
                if number:  # the first one makes plans and indexes
                    samples.setdefault(f"{operation} {size}", []).append(seconds)
        if case.edits:
            samples |= _replayed(case, session, changes)
        counts = {name: session[name].count() for name in _shown(case)}
        left = {name: session[name].to_numpy() for name in case.facts}
    with case.program.run(left) as result:
        if counts != {name: result[name].count() for name in counts}:
            raise WrongCount(f"the session has {counts}, a run { ({name: result[name].count() for name in counts}) }")
    peer = {"duckdb": duckdb.seconds, "duckdb_stopped": duckdb.pairs is None} if duckdb else {}
    return {"fresh": fresh, **peer, "counts": counts, "changes": samples}


def _replayed(case: Case, session, changes: int) -> dict[str, list[float]]:
    """Seconds of transactions that take the last edits back, latest first, and of those that make them again."""
    relation, number = case.edits
    last = [slice(end - EDITS, end) for end in range(len(number), EDITS, -EDITS)][:changes]
    samples: dict[str, list[float]] = {}
    for operation, parts in (("delete", last), ("insert", last[::-1])):
        for part in parts:
            edits = {name: case.facts[name][number[part][relation[part] == name]] for name in case.facts}
            samples.setdefault(f"{operation} {EDITS}", []).append(_seconds(partial(_edited, session, operation, edits)))
    return samples


def _edited(session, operation: str, edits: dict[str, np.ndarray]) -> None:
    with session.transaction() as transaction:
        for name, rows in edits.items():
            getattr(transaction, operation)(name, rows)


def _shown(case: Case) -> list[str]:
    """What a run and a session are asked for; the program of crdt prints sizes, and has no output."""
    return list(case.program.outputs) or ["result"]


def _fresh(case: Case) -> None:
    with case.program.run(case.facts) as result:
        for name in _shown(case):
            result[name].count()


def _asked(case: Case, connection) -> int:
    return connection.execute(case.sql).fetchone()[0]


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
    operations = list(dict.fromkeys(operation for row in results["rows"].values() for operation in row["changes"]))
    for column in ("program", "run, s", "DuckDB, s", *operations):
        made.add_column(column, justify="left" if column == "program" else "right")
    for name, row in results["rows"].items():
        fresh = float(np.median(row["fresh"]))
        peer = f"{'> ' * row['duckdb_stopped']}{row['duckdb']:.3f}" if "duckdb" in row else "–"
        cells = [_cell(row["changes"][operation], fresh) if operation in row["changes"] else "–" for operation in operations]
        made.add_row(name, f"{fresh:.3f}", peer, *cells)
    return made


def _cell(samples: list[float], fresh: float) -> str:
    median, most = np.median(samples), np.quantile(samples, 0.99)
    return f"{1e3 * median:,.2f} ({1e3 * most:,.1f})\n{fresh / median:,.1f}×"


if __name__ == "__main__":
    sys.exit(main())
