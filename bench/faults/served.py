"""Faults of clients: requests to `semi-naive serve` that are wrong in form or intent, and clients that leave."""

import http.client
import json
import signal
import socket
import time
import urllib.parse
from dataclasses import dataclass
from random import Random

from bench.faults.child import Child
from bench.faults.errors import STACK, TERMINATED
from bench.faults.trial import RIGHT, FaultTrial

PROGRAM = """
.type List = [head: number, tail: List]
.decl edge(x: number, y: number)
.input edge
.decl name(x: symbol, weight: float)
.input name
.decl list(x: List)
.input list
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
OWNER, CLIENT, CANARY = "owner-0123456789abcdef", "ann-0123456789abcdef", "canary7391"
TOKENS = f"""
[operator]
token = "{OWNER}"
owner = true

[ann]
token = "{CLIENT}"
reads = ["path"]
rules = true
"""
REQUESTS, RULES = 40, 12  # of one trial
PATIENCE = 60.0  # seconds for an answer, and for the start


@dataclass
class Server:
    """A server in a trial's folder, whose answers are judged as they come."""

    trial: FaultTrial
    more: tuple[str, ...] = ()

    def __enter__(self) -> "Server":
        folder = self.trial.folder
        (folder / "served.dl").write_text(PROGRAM)
        (folder / "tokens").write_text(TOKENS)
        (folder / "tokens").chmod(0o600)
        command = [
            "serve",
            "served.dl",
            "--state",
            str(self.trial.home / "state"),
            "--token",
            "tokens",
            "--port",
            "0",
            *self.more,
        ]
        self.child = Child(folder, self.trial.spare, command)
        self.trial.children.append(self.child)
        until = time.monotonic() + PATIENCE
        while "serving" not in (said := self.child.err.read_text()):
            if time.monotonic() > until or not self.child.running():
                raise RuntimeError(f"the server has not begun: {said}")
            time.sleep(0.02)
        self.port = int(said.split("127.0.0.1:")[1].split()[0])
        return self

    def __exit__(self, *_) -> None:
        self.child.signal(signal.SIGTERM)
        self.trial.find_if(not self.child.ends(), "the server did not end in time")
        said = "\n".join(self.child.err.read_text().splitlines()[1:])
        fits = TERMINATED.fits(self.child.process.returncode, said)
        self.trial.find_if(not fits or bool(STACK.search(said)), f"the server ended so: …{said[-600:]!r}")
        self.trial.outcomes.append(RIGHT)

    def ask(self, method: str, path: str, body: bytes = b"", token: str = OWNER, **headers: str) -> tuple[int, object]:
        """(status, JSON) of an answer; all but the page are JSON, errors say what they are, and none is the server's own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        given = {"authorization": f"Bearer {token}", "content-type": "application/json"} | headers
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                return answer.status, None
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.trial.find(f"{method} {path[:200]} {body[:200]!r}: {type(error).__name__}: {error}")
            return 0, None
        finally:
            connection.close()
        return self._judged(f"{method} {path[:200]} {body[:200]!r} ({len(body)} bytes)", answer.status, text)

    def _judged(self, asked: str, status: int, text: bytes) -> tuple[int, object]:
        try:
            found = json.loads(text)
        except ValueError:
            self.trial.find(f"{asked}: {status}, no JSON: {text[:200]!r}")
            return status, None
        wrong = status >= 500 or status >= 400 and not (isinstance(found, dict) and found.get("error"))
        self.trial.find_if(wrong, f"{asked}: {status}, {text[:300]!r}")
        return status, found

    def leave(self, text: bytes) -> None:
        """Send a part of a request, and close the connection."""
        head = b"host: 127.0.0.1\r\nauthorization: Bearer %s\r\ncontent-type: application/json\r\n" % OWNER.encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(text.replace(b"HEAD", head))


def odd_requests(trial: FaultTrial) -> None:
    trial.about, rng, edges = f"{REQUESTS} requests to a server", trial.rng, set()
    with Server(trial) as server:
        for _ in range(REQUESTS):
            if rng.random() < 0.3:
                row = rng.randrange(9), rng.randrange(9)
                status, _ = server.ask("POST", "/transactions", json.dumps([{"insert": "edge", "rows": [row]}]).encode())
                trial.find_if(status != 200, f"a transaction that is right: {status}")
                edges.add(row)
            elif rng.random() < 0.2:
                server.leave(_part(rng))
            else:
                method, path, body, headers = _odd(rng)
                server.ask(method, path, body, **headers)
        _, found = server.ask("GET", "/relations/edge?limit=100")
        rows = set(map(tuple, found["rows"])) if isinstance(found, dict) else None
        trial.find_if(rows != edges, f"edge has {rows}, and {edges} were acknowledged")


def _part(rng: Random) -> bytes:
    """A request that is cut somewhere."""
    body = b'[{"insert": "edge", "rows": [[77, 78]]}]'
    whole = rng.choice([
        b"POST /transactions HTTP/1.1\r\nHEADcontent-length: %d\r\n\r\n" % (len(body) + 1) + body,
        b"PUT /rules/cut HTTP/1.1\r\nHEADcontent-length: 999\r\n\r\n.decl cut(x: number)",
        b"GET /changes/path?snapshot=1 HTTP/1.1\r\nHEAD\r\n", b"GET /relations HTTP/1.1\r\nHEAD\r\n",
    ])  # fmt: skip
    return whole[: rng.randrange(1, len(whole) + 1)]


def _odd(rng: Random) -> tuple[str, str, bytes, dict[str, str]]:
    """(method, path, body, headers) of a request that makes little sense."""
    quoted = urllib.parse.quote
    number = rng.choice(["-1", "1e400", "9" * rng.choice([20, 5000]), "nan", "inf", "٣", "0x10", "", "1_0", "null"])
    if rng.random() < 0.5:
        value = rng.choice([
            number, "[" * (deep := rng.choice([50, 400, 5000])) + "]" * deep, '"\\ud800"', '"a"', "[1, [2, null]]", "true",
            "{}", "NaN", "-Infinity", "1.5", "[1," * deep + "null" + "]" * deep, '"' + "x" * 100_000 + '"',
        ])  # fmt: skip
        relation = rng.choice(["edge", "name", "list", "path", "none", "sys.epoch", ""])
        operation = rng.choice(["insert", "delete", "upsert", "clear", "insert", "drop"])
        key = rng.choice(["", ', "key": ["x"]', ', "key": 5', ', "key": [[1]]', ', "key": {"x": 1}', ', "key": "z"'])
        row = f"[{value}]" if relation == "list" else f"[{value}, {value}]"
        text = f'[{{"{operation}": "{relation}", "rows": [{row}]{key}}}]'
        if relation == "edge":  # which is what is compared
            text = text.replace('"edge"', '"edge "')
        body = text.encode(errors="replace")[: rng.choice([None, None, None, 30])]
        body = rng.choice([body, body, body, b"\xff" + body, body * 2])
        return "POST", rng.choice(["/transactions", "/transactions", "/subscriptions/x"]), body, {}
    option = rng.choice(
        ["limit", "since", "until", "seconds", "epochs", "self", "relation", "callback", "atom", "name", "$x", "a"]
    )
    atom = rng.choice([
        "path(x, y)", "path(", "path(1" * 2000, "list([x, y])", "list(" + "[" * 900 + "]" * 900 + ")", '.include "tokens"',
        "name(x, 1e400)", "path(x, as(y, symbol))", "", "sys.rule(a, b, c)", '#include "tokens"\npath(x, y)', "a" * 20_000,
    ])  # fmt: skip
    path = rng.choice([
        f"/relations/{rng.choice(['path', 'list', 'none', '%00', 'sys.memory', '..%2f..'])}?{option}={quoted(number)}",
        f"/query?atom={quoted(atom)}&{option}={quoted(number)}", f"/query?atom={quoted(atom)}",
        f"/query?{option}={quoted(number)}",
        f"/differences/path?{option}={quoted(number)}", f"/changes/path?{option}={quoted(number)}", "/nothing", "/rules/none",
        "/subscriptions/none", "/relations/", "//", "/%ff", "/changes/none?name=x", f"/changes/path?seconds={quoted(number)}",
    ])  # fmt: skip
    headers = rng.choice(
        [{}, {}, {}, {"last-event-id": number.encode("ascii", "ignore").decode()}, {"origin": "http://e.example"}]
    )
    return rng.choice(["GET"] * 5 + ["DELETE", "PUT", "PATCH"]), path, b"", headers


def registered_rules(trial: FaultTrial) -> None:
    trial.about, rng = f"{RULES} texts of rules that name what they must not", trial.rng
    secret = trial.home / "secret.dl"
    secret.write_text(f"{CANARY}(1).\n")
    (trial.folder / "near.dl").write_text(f".decl {CANARY}(x: number)\n")
    with Server(trial, ("--sandbox", str(trial.folder))) as server:
        server.ask("POST", "/transactions", json.dumps([{"insert": "name", "rows": [[CANARY, 1.5]]}]).encode())
        for number in range(RULES):
            token, name = rng.choice([(OWNER, f"r{number}"), (CLIENT, f"ann__r{number}")])
            file = rng.choice([secret, "../secret.dl", "near.dl", "tokens", "/etc/passwd", "nowhere.dl"])
            head = f".decl {name}(x: symbol)\n"
            text = rng.choice([
                f'.include "{file}"\n{head}', f'{head}#include "{file}"\n', f"#include <{file}>\n{head}",
                f'#define F "{file}"\n#include F\n{head}', f'{head}.input {name}(filename="{file}")\n',
                f'.comp C {{ .decl a(x: symbol)\n.input a(filename="{file}") }}\n.init c = C\n{head}{name}(x) :- c.a(x).',
                f'.functor system(x: symbol): number\n{head}{name}("a") :- @system("cat {file}") = 0.',
                f'.pragma "fact-dir" "{trial.home}"\n{head}{name}("a").',
            ])  # fmt: skip
            if token == CLIENT and rng.random() < 0.4:
                text = (
                    f"{head}{name}(x) :- name(x, _)." if rng.random() < 0.5 else f"{head}{name}(as(y, symbol)) :- path(_, y)."
                )
            status, found = server.ask("PUT", f"/rules/{name}", text.encode(), token)
            trial.find_if(status not in (400, 403), f"{text!r} is registered: {status}")
            trial.find_if(CANARY in str(found) or "root:" in str(found), f"{text!r} shows {found}")
            _, found = server.ask("GET", f"/query?atom={name}(x)", token=token)
            trial.find_if(CANARY in str(found), f"a query of {text!r} shows {found}")
        _, found = server.ask("GET", "/rules")
        trial.find_if(found != [], f"there are rules: {found}")
