"""Sessions with a known answer that something goes wrong with: what they must be afterwards, in use and opened again."""

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from semi_naive import Program, StateUnusable
from semi_naive.session.durability import directory, log

TEXT = """
.type Pair = [x: symbol, y: symbol]
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.decl degree(x: symbol, n: number)
.output degree
degree(x, n) :- edge(x, _), n = count : { edge(x, _) }.
.decl pair(p: Pair)
.output pair
pair([x, y]) :- edge(x, y).
"""
NEAR = ".decl near(y: symbol)  near(y) :- path($town, y)."
Edges = set[tuple[str, str]]


def expected(edges: Edges) -> dict[str, set]:
    """All relations of the program, and `near` of the first town."""
    paths = set(edges)
    while more := {(x, z) for x, y in paths for w, z in edges if w == y} - paths:
        paths |= more
    degrees = {(x, sum(x == each for each, _ in edges)) for x, _ in edges}
    return {"edge": set(edges), "path": paths, "degree": degrees, "pair": {(edge,) for edge in edges}}


@dataclass
class Watched:
    """A session, what must be in it, and what its subscribers have been told. `path`: None for one in memory alone."""

    rng: Random
    path: Path | None = None
    retain: int = 0
    edges: Edges = field(default_factory=lambda: {("0", "1"), ("1", "2")})

    def __post_init__(self):
        self.program, self.calls, self.epochs = Program(TEXT), 0, []
        self.open()

    def open(self) -> None:
        """Go on where the session before has ended."""
        new = self.path is None or not (self.path / "manifest.json").exists()  # written last of a first opening
        self.session = self.program.session({"edge": self.edges} if new else None, path=self.path, retain=self.retain)
        self.told: set[tuple] = self.session["path"].to_set()
        self.session.subscribe("path", self._tell)
        self.session.subscribe("sys.epoch", lambda changes, _: self.epochs.extend(row[0] for row in changes if row[-1] > 0))

    def _tell(self, changes, epoch: int) -> None:
        for *row, sign in changes.to_list():
            assert (tuple(row) in self.told) == (sign < 0), f"epoch {epoch} is told twice"
            (self.told.add if sign > 0 else self.told.remove)(tuple(row))

    def some(self) -> tuple[Edges, Edges]:
        """Edges to insert, and to delete."""
        town = lambda: f"{self.rng.randrange(6)}{self.rng.choice(['', '', self.rng.randrange(99)])}"  # noqa: E731
        gone = set(self.rng.sample(sorted(self.edges), min(len(self.edges), max(1, len(self.edges) - 6))))
        return {(town(), town()) for _ in range(2)} - gone, gone

    def commit(self, came: Edges, gone: Edges) -> None:
        with self.session.transaction() as transaction:
            transaction.insert("edge", list(came))
            transaction.delete("edge", list(gone))

    def by_hand(self, came: Edges, gone: Edges) -> None:
        transaction = self.session.transaction()
        try:
            transaction.begin()
            transaction.insert("edge", list(came))
            transaction.delete("edge", list(gone))
            transaction.commit()
        except BaseException:
            if "open" in repr(transaction):
                transaction.abort()
            raise

    def aborted(self, came: Edges, gone: Edges) -> None:
        with self.session.transaction() as transaction:
            transaction.insert("edge", list(came))
            transaction.delete("edge", list(gone))
            transaction.abort()

    def asked(self, *_) -> None:
        """Register rules, have them evaluated, and forget them; also those that an interrupt has left."""
        for each in [each for each in self.session.registry.subscribers.active if each.name]:
            each.cancel()
        if "near" not in self.session.registry.rules:
            self.session.register("near", NEAR)
        found = self.session.query("near(y)", town="0").to_set()
        assert found == {(y,) for x, y in expected(self.edges)["path"] if x == "0"}, "the answer of a query"
        self.session.subscribe("near", print, name="near", town="nowhere").cancel()
        self.session.end_subscription("near")
        self.session.unregister("near")

    def survives(self, work: Callable[[Edges, Edges], None], interrupt: Callable) -> Iterator[str]:
        """Do some work while an interrupt may come; yields what is wrong with the session then. interrupt: for `with`."""
        (came, gone), before = self.some(), self.session.epoch
        try:
            with interrupt:
                work(came, gone)
        except KeyboardInterrupt:
            pass
        if self.session.epoch > before:
            self.edges = (self.edges - gone) | came
        if self.session.epoch > before + 1:
            yield f"epoch {self.session.epoch} comes after {before}"
        yield from self.wrong()
        another = threading.Thread(target=self._use, daemon=True)
        another.start()
        another.join(60)
        if another.is_alive():
            yield "a transaction of another thread waits for ever"
            return
        yield from self.wrong()
        if self.told != expected(self.edges)["path"]:
            yield f"a subscriber was told {self.told}"
        if len(set(self.epochs)) != len(self.epochs) or (self.path is None and len(self.epochs) != self.session.epoch):
            yield f"sys.epoch tells {self.epochs} at {self.session.epoch}"

    def _use(self) -> None:
        came, gone = self.some()
        self.commit(came, gone)
        self.edges = (self.edges - gone) | came

    def wrong(self) -> Iterator[str]:
        for name, wanted in expected(self.edges).items():
            if (found := self.session[name].to_set()) != wanted:
                yield f"{name} has {sorted(map(str, found - wanted))} and lacks {sorted(map(str, wanted - found))}"

    def reopened(self) -> Iterator[str]:
        """Close and open it; yields what is wrong then."""
        epoch = self.session.epoch if self.path else 0
        self.session.close()
        self.epochs.clear()
        self.open()
        if self.session.epoch != epoch:
            yield f"epoch {self.session.epoch} is opened, and {epoch} was closed"
        yield from self.wrong()
        logs = [path.name for path in self.path.glob("log-*")] if self.path else [""]
        if len(logs) != 1:
            yield f"there are the logs {logs}"


class Signals:
    """While the block runs, SIGINT comes after a while, once."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def __enter__(self) -> None:
        self.thread = threading.Thread(target=self._send)
        self.thread.start()

    def _send(self) -> None:
        time.sleep(self.seconds)
        os.kill(os.getpid(), signal.SIGINT)

    def __exit__(self, *_) -> None:
        while self.thread.is_alive():  # here, too, it comes
            self.thread.join()
        time.sleep(0)


# -- files


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def written(folder: Path, rng: Random, epochs: int, least: int = directory.MIN_LOG_BYTES) -> list[dict[str, set]]:
    """A directory of a session of some epochs; what it had after each."""
    before, directory.MIN_LOG_BYTES = directory.MIN_LOG_BYTES, least
    try:
        watched = Watched(rng, folder)
        found = [expected(watched.edges)]
        for _ in range(epochs):
            watched._use()
            found.append(expected(watched.edges))
        watched.session.close()
    finally:
        directory.MIN_LOG_BYTES = before
    return found


def opened(folder: Path) -> tuple[int, dict[str, set]] | None:
    """(epoch, all relations) of a directory; None if it is refused, and left as it is. AssertionError if not."""
    before = tree(folder)
    try:
        with Program(TEXT).session(path=folder) as session:
            return session.epoch, {name: session[name].to_set() for name in session}
    except StateUnusable:
        assert tree(folder) == before, "files were changed"
        return None


def headers(content: bytes) -> list[int]:
    """The bytes of a log that are in its preamble, in headers of records and at their ends."""
    places, begin = list(range(log.PREAMBLE.size)), log.PREAMBLE.size
    while begin < len(content):
        body = begin + log.HEADER.size
        end = body + log.HEADER.unpack(content[begin:body])[2] + len(log.END)
        places += [*range(begin, body), *range(end - len(log.END), end)]
        begin = end
    return places


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def cut(content: bytes, rng: Random) -> bytes:
    """A log after an interrupted write: its beginning, with zeros behind it, or with zeros in the place of some sectors."""
    size = rng.randrange(log.PREAMBLE.size, len(content) + 1)
    if rng.random() < 0.5:
        return content[:size]
    size = max(size - size % log.SECTOR, log.PREAMBLE.size)  # which was on the disk before the first record
    zeros = bytes(rng.choice([1, log.SECTOR, len(content) - size]))
    return content[:size] + zeros + (content[size + len(zeros) :] if rng.random() < 0.3 else b"")


# -- forks


def calls(watched: Watched) -> dict[str, Callable]:
    """All that can be done with a session."""
    session, answer, begun = watched.session, watched.session["path"], watched.session.transaction()
    subscription = session.registry.subscribers.active[0]
    return {
        "transaction": session.transaction, "begin": begun.begin, "insert": lambda: session.insert("edge", [("a", "b")]),
        "delete": lambda: session.delete("edge", [("a", "b")]), "upsert": lambda: session.upsert("edge", [("a", "b")], ["x"]),
        "clear": lambda: session.clear("edge"), "read": lambda: session["path"], "answer": answer.to_set,
        "sys": lambda: session["sys.epoch"], "at": lambda: session.at(session._now.number), "epoch": lambda: session.epoch,
        "between": lambda: session.between("path", -1, 0), "query": lambda: session.query("path(x, y)"),
        "why": lambda: session.why("path", ("a", "b")), "why_not": lambda: session.why_not("path", ("a", "b")),
        "explain": session.explain, "subscribe": lambda: session.subscribe("path", print), "sink": lambda: session.sink("edge"),
        "register": lambda: session.register("near", NEAR), "unregister": lambda: session.unregister("near"),
        "end": lambda: session.end_subscription("n"), "ack": lambda: session.registry.subscribers.acknowledge("n", 1),
        "cancel": subscription.cancel, "flush": subscription.flush,
    }  # fmt: skip


def refused(work: dict[str, Callable]) -> Iterator[str]:
    """What of some calls is not refused, as this is a fork of the process that opened the session."""
    for name, call in work.items():
        try:
            call()
            yield f"{name} does not fail"
        except ValueError as error:
            if "is a fork of process" not in str(error):
                yield f"{name}: {error}"
        except Exception as error:
            yield f"{name}: {error!r}"


def forked(work: Callable[[], Iterator[str]]) -> list[str]:
    """What a fork of this process finds, before it ends."""
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            found = "\n".join(work())
        except BaseException as error:
            found = repr(error)
        os.write(write, found.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        found = told.read().splitlines()
    os.waitpid(child, 0)
    return found


def in_fork(watched: Watched, transaction=None) -> list[str]:
    """What a fork, which does all that it can do with a session, and then closes it, is not refused."""
    work = calls(watched)
    if transaction is not None:
        work["open"] = lambda: transaction.insert("edge", [("a", "b")])
        work |= {"commit": transaction.commit, "abort": transaction.abort}

    def use() -> Iterator[str]:
        yield from refused(work)
        repr(watched.session)
        if transaction is not None:
            transaction.__exit__(SystemExit, SystemExit(), None)
        with watched.session:
            pass
        vars(watched).clear()
        gc.collect()

    return forked(use)
