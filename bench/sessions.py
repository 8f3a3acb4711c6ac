"""What a change costs in a session, beside a run from the start in the same process, and beside DuckDB's recomputation.

    python -m bench.sessions [--rows join,cspa] [--sizes 1,100,10%,all] [--repeat 3] [--changes 30] [--scale 1] [--data DIR]
        [--timeout 120] [--quick] [--out FILE]

Of one relation of each program so many facts, or such a part of them, go out and come back, in transactions of their own; of
the patterns in graphs, half of them also come in place of the other half. The rows `batches` have sizes of their own. The
last facts of crdt, one of --data, also go out by the thousand, and are replayed. A run has its facts as arrays, or those of
doop as Arrow tables, and is warm; DuckDB has them as tables. Prints the median and the 99th percentile of the transactions,
and how many of them a run takes. Stops with an error when the session's contents are not those of a run, at the end.
"""

import math
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

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
SMALL = """
.decl edge(x: number, y: number)
.input edge
.decl reach(x: number)
.output reach
reach(0).
reach(y) :- reach(x), edge(x, y).
.decl far(x: number, steps: number)
.output far
far(x, n) :- edge(x, _), !reach(x), n = count : { edge(x, _) }.
"""
EDGES = """
.decl edge(x: number, y: number)
.input edge
"""
LISTED = (
    EDGES
    + """
.decl triangle(x: number, y: number, z: number)
.output triangle
triangle(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).
"""
)
COUNTED = (
    EDGES
    + """
.decl found(n: number)
.output found
found(n) :- n = count : { BODY }.
"""
)
PATTERNS = {  # a diamond is two triangles on an edge, or one of them twice
    "triangles": ("xy", "yz", "xz"),
    "4-cliques": ("xy", "xz", "xt", "yz", "yt", "zt"),
    "diamonds": ("xy", "xz", "yz", "xt", "yt"),
}
KINDS = (
    EDGES
    + """
.decl kind(x: number, k: number)
.input kind
.decl found(n: number)
.output found
found(n) :- n = count : { edge(x, y), edge(y, z), edge(x, z), kind(x, 0), kind(y, 0), kind(z, 0) }.
"""
)
MOST_KIND = 0.9  # of the vertices are of one kind, the others of a thousand
SIZES = "1,10,100,1000,10%,50%,all"  # facts of a transaction
BATCHES = "1,10,100,1000,10000,20000,50000,100000"  # the throughput should not fall as they grow (Ammar et al. 2018, figure 6)
LARGE = 100  # from there on, fewer transactions tell enough
FEWER = 5
EDITS = 1000  # of a transaction that is replayed
SHOWN = {"Insert_input": ["result"], "_AssignLocal": ["VarPointsTo", "CallGraphEdge"]}


@dataclass
class ChangingFacts:
    """A program, its facts, the relation that facts come and go of, and the question to DuckDB, if there is one.
    edits: (the relation of each, its rows there), as they came; `swapped`: as many also come as go, in one transaction;
    sizes: of transactions, in place of --sizes."""

    program: Program
    facts: dict[str, np.ndarray | pa.Table]
    changed: str
    sql: str = ""
    edits: tuple[np.ndarray, np.ndarray] | None = None
    swapped: bool = False
    sizes: str = ""


def _join(scale: float) -> ChangingFacts:
    size = max(100, int(1_000_000 * scale))
    rng = np.random.default_rng(0)
    facts = {name: rng.integers(size, size=(size, 2)) for name in "rs"}
    return ChangingFacts(Program(JOIN), facts, "r", JOIN_SQL)


def _closure(scale: float) -> ChangingFacts:
    edges = graphs.as_edges(graphs.bundled("p2p-gnutella09")).pairs
    return _of("closure", {"edge": edges[: max(100, int(len(edges) * scale))]}, "edge")


def _rmat(scale: float) -> ChangingFacts:
    return _of("closure", {"edge": graphs.rmat(16, max(100, int(60_000 * scale)), seed=2)}, "edge")


def _cspa(scale: float) -> ChangingFacts:
    return _of("cspa", analyses.cspa(max(200, int(20_000 * scale))), "assign")


def _andersen(scale: float) -> ChangingFacts:
    return _of("andersen", analyses.andersen(max(200, int(712_000 * scale))), "copy")


def _small(scale: float) -> ChangingFacts:
    """A program of milliseconds."""
    edges = np.random.default_rng(0).integers(300, size=(max(100, int(1000 * scale)), 2))
    return ChangingFacts(Program(SMALL), {"edge": edges}, "edge")


def _pattern(name: str, level: int, scale: float) -> ChangingFacts:
    """How often a pattern is in an RMAT graph of 2^level vertices, whose edges lead to the greater one."""
    body = ", ".join(f"edge({x}, {y})" for x, y in PATTERNS[name])
    places = {name: f"e{number}.{'xy'[at]}" for number, pair in enumerate(PATTERNS[name]) for at, name in enumerate(pair)}
    same = [f"e{n}.{'xy'[at]} = {places[v]}" for n, pair in enumerate(PATTERNS[name]) for at, v in enumerate(pair)]
    joined = ", ".join(f"edge e{number}" for number in range(len(PATTERNS[name])))
    sql = f"SELECT count(*) FROM {joined} WHERE {' AND '.join(same)}"
    return ChangingFacts(Program(COUNTED.replace("BODY", body)), {"edge": _graph(level, scale)}, "edge", sql, swapped=True)


def _listed(scale: float) -> ChangingFacts:
    """The triangles themselves: some 60 go with an edge."""
    case = _pattern("triangles", 18, scale)
    return ChangingFacts(Program(LISTED), case.facts, "edge", case.sql, swapped=True)


def _batches(program: str, scale: float) -> ChangingFacts:
    """Triangles in a graph of 363,000 edges with 262,144 vertices, in transactions up to a third of it."""
    size = max(100, int(363_000 * scale))
    edges = np.sort(np.random.default_rng(0).integers(max(50, int(size / 1.4)), size=(size, 2)), axis=1)
    return ChangingFacts(Program(program), {"edge": edges[edges[:, 0] < edges[:, 1]]}, "edge", sizes=BATCHES)


def _kinds(scale: float) -> ChangingFacts:
    """Triangles of a kind that nearly all vertices are of."""
    edges, rng = _graph(16, scale), np.random.default_rng(0)
    vertices = np.arange(edges.max() + 1)
    kinds = np.where(rng.random(vertices.size) < MOST_KIND, 0, rng.integers(1, 1001, vertices.size))
    return ChangingFacts(Program(KINDS), {"edge": edges, "kind": np.column_stack([vertices, kinds])}, "kind")


def _graph(level: int, scale: float) -> np.ndarray:
    level = max(6, level + round(math.log2(scale)))
    edges = np.sort(graphs.rmat(level, 16 << level), axis=1)
    return np.unique(edges[edges[:, 0] < edges[:, 1]], axis=0)


def _same_generation(scale: float, data: Path) -> ChangingFacts:
    edges = graphs.as_edges(data / "tg-cedge.tsv.gz").pairs
    return _of("same_generation", {"edge": edges[: max(100, int(len(edges) * scale))]}, "edge")


def _doop(scale: float, data: Path) -> ChangingFacts:
    """Facts of strings, all of them whatever the scale."""
    text, facts = (data / "doop" / "doop.dl").read_text(), {}
    for name, file in re.findall(r'^\.input (\w+)\(.*filename="([^"]+)"', text, re.MULTILINE):
        lines = csv.ParseOptions(delimiter="\t", quote_char=False)
        path = data / "doop" / "facts" / f"{file}.gz"
        with path.open("rb") as packed:
            names = csv.ReadOptions(autogenerate_column_names=True)
            facts[name] = csv.read_csv(pa.CompressedInputStream(packed, "gzip"), names, lines)
    return ChangingFacts(Program(text), facts, "_AssignLocal")


def _crdt(scale: float, data: Path) -> ChangingFacts:
    """A text that was edited: elements that are inserted, and removed, in the order of the elements' counters."""
    facts = {}
    for name in ("Insert_input", "Remove_input"):
        rows = np.loadtxt(data / "crdt" / "facts" / f"{name}.csv.gz", np.int64, delimiter=",")
        facts[name] = rows[: max(200, int(len(rows) * scale))]
    relation = np.repeat(list(facts), [len(rows) for rows in facts.values()])
    number = np.concatenate([np.arange(len(rows)) for rows in facts.values()])
    order = np.argsort(np.concatenate([rows[:, 0] for rows in facts.values()]), kind="stable")
    program = Program.from_file(data / "crdt" / "crdt.dl")
    return ChangingFacts(program, facts, "Insert_input", edits=(relation[order], number[order]))


def _of(name: str, facts: dict, changed: str) -> ChangingFacts:
    return ChangingFacts(Program.from_file(PROGRAMS / f"{name}.dl"), facts, changed, (PROGRAMS / f"{name}.sql").read_text())


ROWS: dict[str, Callable[[float], ChangingFacts]] = {
    "join": _join, "closure": _closure, "rmat": _rmat, "cspa": _cspa, "andersen": _andersen, "small": _small,
    "triangles": partial(_pattern, "triangles", 18), "triangles listed": _listed, "kinds": _kinds,
    "batches": partial(_batches, COUNTED.replace("BODY", "edge(x, y), edge(y, z), edge(x, z)")),
    "batches listed": partial(_batches, LISTED),
    "4-cliques": partial(_pattern, "4-cliques", 14), "diamonds": partial(_pattern, "diamonds", 14),
}  # fmt: skip
STORED: dict[str, Callable[[float, Path], ChangingFacts]] = {"crdt": _crdt, "same-generation": _same_generation, "doop": _doop}


def main(arguments=None) -> int:
    return command("bench.sessions", parsed(arguments), run, lambda results: [table(results)], (WrongCount, ValueError))


def parsed(arguments):
    parser = parser_of("bench.sessions", __doc__, ROWS, timeout=120)
    parser.add_argument("--changes", type=int, default=30, help="transactions of each kind (default: %(default)s)")
    parser.add_argument("--sizes", default=SIZES, help="facts of a transaction, or parts of all (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="a folder with doop/, crdt/ and tg-cedge.tsv.gz, for the rows of these")
    parser.add_argument("--scale", type=float, default=1, help="how large what is made up is (default: %(default)s)")
    return parser.parse_args(arguments)


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples in seconds."""
    results = {**surroundings(None, options), "rows": {}}
    for name in options.rows.split(","):
        if name not in ROWS and not (name in STORED and options.data):
            raise ValueError(f"there is no row {name!r}: expected some of {', '.join([*ROWS, *STORED])}, the last with --data")
        say(name)
        scale = 0.001 if options.toy else options.scale
        case = STORED[name](scale, options.data) if name in STORED else ROWS[name](scale)
        changes = 2 if options.toy else options.changes
        results["rows"][name] = measured(
            case, (case.sizes or options.sizes).split(","), changes, options.repeat, options.timeout
        )
    return results


def measured(case: ChangingFacts, sizes: list[str], changes: int, repeat: int, timeout: float) -> dict:
    """Seconds of runs, of DuckDB's, and of transactions by (operation, facts)."""
    fresh = [_seconds(partial(_fresh, case)) for _ in range(repeat + 1)][1:]
    ask = partial(_asked, case)
    duckdb = by_duckdb(ask, 2, timeout, partial(_load, case)) if case.sql else None
    samples: dict[str, list[float]] = {}
    every = case.facts[case.changed]
    every = every if isinstance(every, pa.Table) else np.unique(every, axis=0)
    with case.program.session(case.facts) as session:
        for size in sizes:
            count = sized(size, len(every))
            for number in range(1 + (changes if count <= LARGE else min(changes, FEWER))):
                rows = _drawn(every, count, number)
                for operation in ("delete", "insert"):
                    seconds = _seconds(partial(getattr(session, operation), case.changed, rows))
                    if number:  # the first one makes plans and indexes
                        samples.setdefault(f"{operation} {size}", []).append(seconds)
                if case.swapped and number:
                    samples.setdefault(f"swap {size}", []).extend(_swapped(case.changed, rows, session))
        if case.edits:
            samples |= _replayed(case, session, changes)
        counts = _counts(case, session)
        left = {name: session[name].to_arrow() for name in case.facts}
    with case.program.run(left) as result:
        if counts != _counts(case, result):
            raise WrongCount(f"the session has {counts}, a run {_counts(case, result)}")
    peer = {"duckdb": duckdb.seconds, "duckdb_stopped": duckdb.pairs is None} if duckdb else {}
    return {"fresh": fresh, **peer, "counts": counts, "changes": samples}


def sized(size: str, count: int) -> int:
    """How many of some facts that is.

    >>> [sized(size, 3000) for size in ("100", "10%", "all", "10000")]
    [100, 300, 3000, 3000]
    """
    if size == "all":
        return count
    return max(1, count * int(size[:-1]) // 100) if size.endswith("%") else min(int(size), count)


def _replayed(case: ChangingFacts, session, changes: int) -> dict[str, list[float]]:
    """Seconds of transactions that take the last edits back, latest first, and of those that make them again."""
    relation, number = case.edits
    last = [slice(end - EDITS, end) for end in range(len(number), EDITS, -EDITS)][:changes]
    samples: dict[str, list[float]] = {}
    for operation, parts in (("delete", last), ("insert", last[::-1])):
        for part in parts:
            edits = {name: case.facts[name][number[part][relation[part] == name]] for name in case.facts}
            samples.setdefault(f"{operation} {EDITS} edits", []).append(_seconds(partial(_edited, session, operation, edits)))
    return samples


def _edited(session, operation: str, edits: dict[str, np.ndarray]) -> None:
    with session.transaction() as transaction:
        for name, rows in edits.items():
            getattr(transaction, operation)(name, rows)


def _swapped(name: str, rows, session) -> list[float]:
    """Seconds of transactions by which one half of some facts comes in place of the other, and the other way round."""
    halves, seconds = np.array_split(rows, 2), []
    session.delete(name, halves[0])
    for come, go in (halves, halves[::-1]):
        begun = time.perf_counter()
        with session.transaction() as transaction:
            transaction.insert(name, come)
            transaction.delete(name, go)
        seconds.append(time.perf_counter() - begun)
    session.insert(name, halves[0])
    return seconds


def _counts(case: ChangingFacts, answers) -> dict:
    """How many tuples there are, or the one that there is."""
    found = {name: answers[name] for name in _shown(case)}
    return {name: each.to_list() if each.count() == 1 else each.count() for name, each in found.items()}


def _shown(case: ChangingFacts) -> list[str]:
    """What a run and a session are asked for; the programs of --data print sizes, and have no output."""
    return list(case.program.outputs) or SHOWN[case.changed]


def _fresh(case: ChangingFacts) -> None:
    with case.program.run(case.facts) as result:
        for name in _shown(case):
            result[name].count()


def _asked(case: ChangingFacts, connection) -> int:
    return connection.execute(case.sql).fetchone()[0]


def _load(case: ChangingFacts, connection) -> None:
    for name, rows in case.facts.items():
        columns = {"x": rows[:, 0], "y": rows[:, 1]}
        connection.register(f"{name}_rows", columns)
        connection.execute(f"CREATE TABLE {name} AS FROM {name}_rows")


def _drawn(rows, size: int, seed: int):
    """Some of the facts, an array or an Arrow table."""
    chosen = np.random.default_rng((seed, size)).choice(len(rows), size, replace=False)
    return rows.take(chosen) if isinstance(rows, pa.Table) else rows[chosen]


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def table(results: dict):
    """Milliseconds of a transaction, and how many of them a run from the start takes."""
    from rich.table import Table

    made = Table(title="Sessions: milliseconds of a transaction, median (99th percentile), and how many of them a run takes")
    for column in ("program", "run, s", "DuckDB, s", "facts", "out", "", "in", "", "in, facts/s", "half in, half out", ""):
        made.add_column(column, justify="left" if column == "program" else "right")
    for name, row in results["rows"].items():
        fresh = float(np.median(row["fresh"]))
        peer = f"{'> ' * row['duckdb_stopped']}{row['duckdb']:.3f}" if "duckdb" in row else "–"
        told = name, f"{fresh:.3f}", peer
        for size in dict.fromkeys(operation.partition(" ")[2] for operation in row["changes"]):
            cells = [_cell(row["changes"].get(f"{operation} {size}"), fresh) for operation in ("delete", "insert", "swap")]
            made.add_row(*told, size, *cells[0], *cells[1], _throughput(size, row["changes"].get(f"insert {size}")), *cells[2])
            told = "", "", ""
    return made


def _throughput(size: str, samples: list[float] | None) -> str:
    return f"{int(size) / np.median(samples):,.0f}" if samples and size.isdigit() else "–"


def _cell(samples: list[float] | None, fresh: float) -> tuple[str, str]:
    if samples is None:
        return "–", ""
    median, most = np.median(samples), np.quantile(samples, 0.99)
    return f"{1e3 * median:,.2f} ({1e3 * most:,.1f})", f"{fresh / median:,.1f}×"


if __name__ == "__main__":
    sys.exit(main())
