"""Faults of sessions, in this process: an interrupt at any line, signals, forks, bits and files that are not as they were."""

import contextlib
import io
import logging
import shutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from random import Random

from bench.faults.kinds import kind
from bench.faults.lines import Line, of_sessions
from bench.faults.sessions import (
    Signals,
    Watched,
    cut,
    flipped,
    headers,
    in_fork,
    opened,
    tree,
    written,
)
from bench.faults.trial import RIGHT, FaultTrial
from semi_naive.session.durability import directory

INTERRUPTS, SIGNALS, DAMAGES = 12, 40, 12  # cases of a trial
Scenario = Callable[[Path, Random], Iterator[str]]


def outside_of_compilers(path: str) -> bool:
    """True for code that an interrupt can reach: kernels are loaded while signals are deferred, and llvmlite holds a lock."""
    return "llvmlite" not in path and "numba" not in path


def session_kind(scenario: Scenario) -> Scenario:
    """A kind of fault whose scenario yields what it finds to be wrong."""

    def run(trial: FaultTrial) -> None:
        trial.about = scenario.__doc__ or ""
        logging.disable(logging.CRITICAL)
        import_module(
            "numba"
        )  # signals are deferred while it is imported: an interrupt at a line of that would leave half of it
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                for finding in scenario(trial.home, trial.rng):
                    trial.find(finding)
        except Exception as error:
            trial.find(f"{type(error).__name__}: {error}")
        finally:
            logging.disable(logging.NOTSET)
        trial.outcomes.append(RIGHT)

    run.__name__ = scenario.__name__
    kind(places=("driver",), workloads=("components",))(run)
    return scenario


@session_kind
def line_interrupted(home: Path, rng: Random) -> Iterator[str]:
    """KeyboardInterrupt at lines of transactions, and of registering rules."""
    wanted = rng.choice([of_sessions, outside_of_compilers])
    with snapshots(rng.choice([-1, 1 << 20])):
        watched = Watched(rng, rng.choice([None, home / "s"]), rng.choice([0, 2]))
        for work in (watched.commit, watched.by_hand, watched.aborted, watched.asked):
            with Line(None, wanted) as counted:
                work(*watched.some()) if work == watched.asked else list(watched.survives(work, contextlib.nullcontext()))
            for _ in range(INTERRUPTS):
                line = Line(rng.randint(1, counted.executed), wanted)
                yield from (f"{work.__name__}, {line.place}: {each}" for each in watched.survives(work, line))
            yield from watched.reopened()
        watched.session.close()


@session_kind
def opening_interrupted(home: Path, rng: Random) -> Iterator[str]:
    """KeyboardInterrupt at lines of opening and closing a directory."""
    watched, kept = Watched(rng, home / "s"), []
    with Line(None, of_sessions) as counted:
        yield from watched.reopened()
    for _ in range(INTERRUPTS):
        line = Line(rng.randint(1, 2 * counted.executed), of_sessions)
        if rng.random() < 0.2:
            watched.session.close()
            shutil.rmtree(home / "s")
            watched.edges = {("7", "8")}
        try:
            with line:
                watched.session.close()
                watched.open()
        except KeyboardInterrupt as interrupt:
            kept.append(interrupt)  # with its traceback, and so with all that is in its frames
            watched.session.close()
            watched.open()
        yield from (f"{line.place}: {each}" for each in watched.wrong())
        watched._use()
        yield from (f"{line.place}: {each}" for each in watched.reopened())
    watched.session.close()


@session_kind
def signalled(home: Path, rng: Random) -> Iterator[str]:
    """SIGINT at moments by chance."""
    watched = Watched(rng, rng.choice([None, home / "s"]))
    for number in range(SIGNALS):
        yield from watched.survives(watched.commit, Signals(rng.uniform(0, 0.003)))
        if not number % 10:
            yield from watched.reopened()
    watched.session.close()


@session_kind
def fork(home: Path, rng: Random) -> Iterator[str]:
    """A fork uses and closes the session of its parent, at rest and in a transaction."""
    watched = Watched(rng, rng.choice([None, home / "s"]))
    for _ in range(3):
        watched._use()
        yield from in_fork(watched)
        came, gone = watched.some()
        with watched.session.transaction() as transaction:
            transaction.insert("edge", list(came))
            transaction.delete("edge", list(gone))
            yield from in_fork(watched, transaction)
        watched.edges = (watched.edges - gone) | came
        if watched.path:
            if opened(watched.path) is not None:
                yield "the directory is not locked"
        yield from watched.wrong()
    yield from watched.reopened()
    watched.session.close()


@session_kind
def header_flipped(home: Path, rng: Random) -> Iterator[str]:
    """Bits of a directory, most of them in headers of its log."""
    epochs = written(home / "s", rng, rng.randint(1, 6))
    [log] = (home / "s").glob("log-*")
    for _ in range(DAMAGES):
        file = log if rng.random() < 0.8 else rng.choice([path for path in (home / "s").rglob("*") if path.is_file()])
        content = file.read_bytes()
        place = rng.choice(headers(content)) if file == log else rng.randrange(len(content) or 1)
        if content:
            file.write_bytes(flipped(content, 8 * place + rng.randrange(8)))
            if opened(home / "s") is not None:
                yield f"bit of byte {place} of {file.name} is another, and it is opened"
            file.write_bytes(content)
    if opened(home / "s") != (len(epochs) - 1, epochs[-1]):
        yield "it is not opened as it was"


@session_kind
def log_cut(home: Path, rng: Random) -> Iterator[str]:
    """A log that ends in the midst of a record, or in zeros: the epochs before are there, or it is refused."""
    epochs = written(home / "whole", rng, rng.randint(1, 6))
    [log] = (home / "whole").glob("log-*")
    for _ in range(DAMAGES):
        shutil.rmtree(home / "s", ignore_errors=True)
        shutil.copytree(home / "whole", home / "s")
        content = cut(log.read_bytes(), rng)
        (home / "s" / log.name).write_bytes(content)
        found = opened(home / "s")
        whole = content.rstrip(b"\0")
        lost = log.read_bytes()[: len(whole)] != whole or len(content) < len(log.read_bytes())
        if found is not None and found[1] != epochs[found[0]]:
            yield f"epoch {found[0]} is {found[1]}"
        if found is None and not lost:
            yield "an unfinished record is refused"


@session_kind
def files_swapped(home: Path, rng: Random) -> Iterator[str]:
    """Files of another directory, or of an earlier state of this one, in their place."""
    places = home / "a", home / "b", home / "c"
    states = [written(place, rng, rng.randint(0, 4), rng.choice([-1, 1 << 20])) for place in places[:2]]
    shutil.copytree(places[0], places[2])
    with snapshots(rng.choice([-1, 1 << 20])):
        watched = Watched(rng, places[2], edges=states[0][-1]["edge"])
        for _ in range(rng.randint(1, 3)):
            watched._use()
        watched.session.close()
    whole = [tree(place) for place in places]
    known = [opened(place) for place in places]
    for _ in range(DAMAGES):
        one, other = rng.sample(whole, 2)
        names = rng.sample(sorted(one.keys() | other.keys()), rng.choice([1, 1, 2, 3]))
        shutil.rmtree(home / "s", ignore_errors=True)
        for name, content in (one | {name: other[name] for name in names if name in other}).items():
            (home / "s" / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            (home / "s" / name).write_bytes(content)
        for log in [name for name in one if name.startswith("log-") and rng.random() < 0.5]:
            for mine in [name for name in other if name.startswith("log-")]:  # by the name of the one that is missing
                (home / "s" / log).write_bytes(other[mine])
        found = opened(home / "s")
        if found is not None and found not in known:
            yield f"of {names} it has made {found}"


@contextlib.contextmanager
def snapshots(least: int) -> Iterator[None]:
    """Logs are so large before a snapshot is made; −1: at each transaction."""
    before, directory.MIN_LOG_BYTES = directory.MIN_LOG_BYTES, least
    try:
        yield
    finally:
        directory.MIN_LOG_BYTES = before
