"""Reachability and connected components while edges come and go: a session beside Pathway, and beside a run from the start.

    python -m bench.streams [--pathway PYTHON] [--rows reachability,components] [--transactions 20] [--sizes 1,100] [--quick]

Pathway has the same facts and the same transactions, in a process of its own on as many threads as there are cores. PYTHON
is an interpreter that has it; `pip install .[pathway]` puts it beside this package. Without --pathway this one is tried.
A transaction takes random edges out, and the next one puts them back. Each also has an edge to a vertex that nobody has
seen: then the answer changes, and Pathway tells that it is through. Both must count the same at the end.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from bench.closure import WrongCount
from bench.command import command, parser_of, say, surroundings
from semi_naive import Program

REACHABILITY = """
.decl edge(x: number, y: number)
.input edge
.decl source(x: number)
.decl reached(x: number)
.output reached
source(x) :- x = range(0, 10).
reached(x) :- source(x).
reached(y) :- reached(x), edge(x, y).
"""
COMPONENTS = """
.decl edge(x: number, y: number)
.input edge
.decl linked(x: number, y: number)
linked(x, y) :- edge(x, y).
linked(y, x) :- edge(x, y).
.decl label(x: number, least: number)
.output label
label(x, min(y)) :- linked(x, y).
label(x, min(least)) :- linked(x, y), label(y, least).
"""
ROWS = {"reachability": (REACHABILITY, "reached", 2.0), "components": (COMPONENTS, "label", 1.0)}  # and edges a vertex
VERTICES = 100_000
PEER = Path(__file__).with_name("pathway_peer.py")


def main(arguments=None) -> int:
    return command("bench.streams", parsed(arguments), run, lambda results: [table(results)], (WrongCount, ValueError))


def parsed(arguments):
    parser = parser_of("bench.streams", __doc__, ROWS, timeout=600)
    parser.add_argument("--pathway", metavar="PYTHON", help="an interpreter that has Pathway (default: this one, if it has)")
    parser.add_argument("--transactions", type=int, default=20, help="of each size (default: %(default)s)")
    parser.add_argument("--sizes", default="1,100", help="edges of a transaction (default: %(default)s)")
    return parser.parse_args(arguments)


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, seconds by row and size, of a session and of Pathway."""
    results = {**surroundings(None, options), "rows": {}}
    peer = options.pathway or (sys.executable if find_spec("pathway") else None)
    for name in options.rows.split(","):
        if name not in ROWS:
            raise ValueError(f"there is no row {name!r}: expected some of {', '.join(ROWS)}")
        for size in map(int, options.sizes.split(",")):
            say(f"{name}, {size} edges a transaction")
            facts = _facts(name, 200 if options.toy else VERTICES, size, 2 if options.toy else options.transactions)
            ours, theirs = _session(name, facts), _pathway(peer, name, facts, options.timeout) if peer else None
            if theirs and theirs["count"] != ours["count"]:
                raise WrongCount(f"{name}: the session has {ours['count']} tuples, Pathway {theirs['count']}")
            results["rows"][f"{name}, {size}"] = {"session": ours, "pathway": theirs}
    return results


def _facts(name: str, vertices: int, size: int, transactions: int) -> dict[str, np.ndarray]:
    """As `pathway_peer` reads them."""
    rng = np.random.default_rng(0)
    edges = np.unique(rng.integers(vertices, size=(int(ROWS[name][2] * vertices), 2)), axis=0)
    facts = {"edges": edges, "transactions": np.array(2 * transactions)}
    for number in range(transactions):
        drawn = edges[rng.choice(len(edges), min(size, len(edges) // 2), replace=False)]
        facts |= {f"delete_{2 * number}": drawn, f"insert_{2 * number + 1}": drawn}
    facts["marks"] = np.column_stack([np.zeros(2 * transactions, np.int64), vertices + np.arange(2 * transactions)])
    return facts


def _session(name: str, facts: dict[str, np.ndarray]) -> dict:
    """Seconds until the session is there, of each transaction, and of a run from the start with what there is at the end."""
    program, (_, answer, _) = Program(ROWS[name][0]), ROWS[name]
    begun, seconds = time.perf_counter(), []
    with program.session({"edge": facts["edges"]}) as session:
        first = time.perf_counter() - begun
        for number in range(int(facts["transactions"])):
            begun = time.perf_counter()
            with session.transaction() as transaction:
                transaction.delete("edge", facts.get(f"delete_{number}", np.empty((0, 2), np.int64)))
                transaction.insert("edge", facts.get(f"insert_{number}", np.empty((0, 2), np.int64)))
                transaction.insert("edge", facts["marks"][number : number + 1])
            seconds.append(time.perf_counter() - begun)
        found, left = session[answer].to_set(), session["edge"].to_numpy()
    begun = time.perf_counter()
    with program.run({"edge": left}) as result:
        count = result[answer].count()
        fresh = time.perf_counter() - begun
        if result[answer].to_set() != found:
            raise WrongCount(f"{name}: the session has {len(found)} tuples, a run {count}, or others")
    return {"first": first, "seconds": seconds, "count": count, "fresh": fresh}


def _pathway(python: str, name: str, facts: dict[str, np.ndarray], timeout: float) -> dict | None:
    """What Pathway measures of itself; None when it takes longer than `timeout` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "facts.npz"
        np.savez(path, **facts)
        threads = {"PATHWAY_THREADS": str(len(os.sched_getaffinity(0)))}
        command = [python, PEER, name, path]
        try:
            done = subprocess.run(command, env=os.environ | threads, timeout=timeout, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            return None
    if done.returncode:
        raise ValueError(f"Pathway ended with status {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def table(results: dict):
    """Milliseconds of transactions that take edges out, and that put them back, and the first answer."""
    from rich.table import Table

    made = Table(title="Edges come and go: ms of a transaction, median, in a session and in Pathway")
    for column in ("program, edges", "first, s", "Pathway", "run, s", "out, ms", "Pathway", "in, ms", "Pathway"):
        made.add_column(column, justify="left" if column == "program, edges" else "right")
    for name, row in results["rows"].items():
        ours, theirs = row["session"], row["pathway"]
        cells = [f"{ours['first']:.2f}", f"{theirs['first']:.2f}" if theirs else "–", f"{ours['fresh']:.2f}"]
        for half in (slice(0, None, 2), slice(1, None, 2)):
            mine = float(np.median(ours["seconds"][half]))
            cells.append(f"{1e3 * mine:,.2f}")
            their = float(np.median(theirs["seconds"][half])) if theirs else None
            cells.append(f"{1e3 * their:,.1f} ({their / mine:,.1f}×)" if their else "–")
        made.add_row(name, *cells)
    return made


if __name__ == "__main__":
    sys.exit(main())
