"""Faults of programs and clients: evaluations that never end, and clients that leave while they are evaluated."""

import contextlib
import http.client
import json
import re
import signal
import socket
import time
from pathlib import Path

from bench.faults import errors
from bench.faults.child import LIMIT, Child
from bench.faults.kinds import kind
from bench.faults.trial import FaultTrial
from bench.faults.workloads import FaultWorkload

EDGES = ".decl e(x: number, y: number)\ne(1, 2). e(2, 3). e(3, 1).\n"
ENDLESS = {  # rules for r, by what they make without end
    "numbers": ("x: number", "r(0). r(x + 1) :- r(x)."),
    "lengths": ("x: number, y: number, d: number", "r(x, y, 1) :- e(x, y). r(x, z, d + 1) :- r(x, y, d), e(y, z)."),
    "best values": ("x: number, d: number", "r(x, max(0)) :- e(x, _). r(y, max(d + 1)) :- r(x, d), e(x, y)."),
    "symbols": ("x: symbol", 'r("a"). r(cat(x, "a")) :- r(x).'),
    "records": ("x: List", "r(nil). r([1, x]) :- r(x)."),
    "one range": ("x: number", "r(x) :- x = range(0, 900000000000)."),
    "pairs": ("x: number, y: number", "r(x, y) :- x = range(0, 900000), y = range(0, 900000)."),
    "two relations": ("x: number", ".decl s(x: number)\nr(0). s(x + 1) :- r(x). r(x) :- s(x)."),
}
TYPES = ".type List = [head: number, tail: List]\n"
CLOSURE = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
BIG = ".decl big(n: number)\nbig(x) :- edge(x, _).\nbig(n + 1) :- big(n), n < 1000000000000."
CLIENTS = 20  # at most, that ask at the same time


@kind(places=("driver", "local"), workloads=("components", "same_generation"), weight=3)
def limit_exceeded(trial: FaultTrial) -> None:
    """A program that never ends, with a limit of time or of bytes."""
    made = trial.rng.choice(sorted(ENDLESS))
    trial.workload = endless(trial.folder, made)
    slow = trial.where != "driver" or made == "best values"  # a job of Spark may make one tuple; those replace each other
    if trial.rng.random() < 0.5 or slow:
        limit = f"--query-seconds={2 ** trial.rng.uniform(-6, 3):.3f}"
    else:
        limit = f"--query-bytes={int(2 ** trial.rng.uniform(10, 22))}"
    child = trial.start(limit, f"--set=small_delta={trial.rng.choice([0, 1000])}")
    trial.judge(child, errors.LIMIT)
    trial.find_if(child.process.returncode == 0, f"a program without end has ended: {made}")


def endless(folder: Path, made: str) -> FaultWorkload:
    """A program that makes something without end."""
    attributes, rules = ENDLESS[made]
    (folder / "endless.dl").write_text(f"{TYPES}{EDGES}.decl r({attributes})\n.output r\n{rules}\n")
    return FaultWorkload(f"endless {made}", ("run", "endless.dl", "-qw", "-D", "out"), {})


@kind(places=("driver",), weight=3)
def clients_leave(trial: FaultTrial) -> None:
    """More clients than the server has threads ask for what never ends, and leave at any moment. Readers are answered
    meanwhile, and so is a transaction afterwards."""
    (trial.folder / "p.dl").write_text(CLOSURE)
    trial.workload = FaultWorkload("clients that leave", ("serve", "p.dl", "--port", "0", "--query-seconds", "none"), {})
    trial.options = []
    child = trial.start()
    port = _port(child)
    trial.find_if(_answer(port, "PUT", "/rules/big", BIG) != 200, "the rules were not registered")
    trial.find_if(_commit(port, [[1, 2]]) != 200, "the first transaction failed")
    with contextlib.ExitStack() as clients:
        for _ in range(trial.rng.randrange(1, CLIENTS)):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port)))
            path = trial.rng.choice(["/query?atom=big(n)", "/changes/big", "/query?atom=big(7)"])
            client.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
            if trial.rng.random() < 0.3:
                client.close()
        time.sleep(trial.rng.uniform(0, 1))
        for path in ("/relations", "/query?atom=path(1,y)", "/rules"):
            trial.find_if(_answer(port, "GET", path) != 200, f"a reader of {path} was not answered")
    trial.find_if(_commit(port, [[2, 3]]) != 200, "a transaction failed after all clients have left")
    child.signal(signal.SIGTERM)
    trial.judge(child, errors.TERMINATED)


def _port(child: Child) -> int:
    while child.running() and time.monotonic() - child.begun < LIMIT:
        if found := re.search(r"http://127.0.0.1:(\d+)", child.err.read_text()):
            return int(found[1])
        time.sleep(0.05)
    raise AssertionError(f"the server did not begin: {child.err.read_text()}")


def _answer(port: int, method: str, path: str, body: str | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path, body, {"content-type": "application/json"})
        return connection.getresponse().status


def _commit(port: int, rows: list) -> int:
    return _answer(port, "POST", "/transactions", json.dumps([{"insert": "edge", "rows": rows}]))
