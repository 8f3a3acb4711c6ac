"""The kinds of fault. Each is a scenario: it starts the trial's command, breaks something, and has the end judged."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.faults import errors, served
from bench.faults.child import LOOK, Child
from bench.faults.trial import RIGHT, FaultTrial
from bench.faults.workloads import LARGE, WORKLOADS
from bench.fuzz import facts, mutants, tables
from bench.private_cluster import PrivateCluster, private_cluster

OURS, WAITS = "ours", ("ours", "3s", "5min", "10min")  # contexts: ours, or a user's with a spark.locality.wait
LATE = 30.0  # seconds that a run may take longer after the loss of an executor
CASES, SOON = 20, 60  # of a kind that tries input, and seconds that one may take
SPARK = ("local", "local-cluster")
SMALL = tuple(name for name in WORKLOADS if name not in LARGE)
PROGRAMS = tuple(name for name in SMALL if name != "triangles")
DURABLE = tuple(name for name in PROGRAMS if name not in ("random_program", "names"))  # those of many iterations


@dataclass(frozen=True)
class FaultKind:
    """`places` and `workloads`: where the fault can be. `weight`: how often it is drawn."""

    name: str
    scenario: Callable[[FaultTrial], None]
    places: tuple[str, ...] = ("driver", *SPARK)
    workloads: tuple[str, ...] = SMALL
    plan: str | None = None
    weight: int = 2
    needs_root: bool = False


KINDS: dict[str, FaultKind] = {}


def kind(**given):
    def add(scenario):
        name = scenario.__name__.replace("_", " ")
        KINDS[name] = FaultKind(name, scenario, **given)
        return scenario

    return add


# -- processes


@kind(weight=1)
def nothing(trial: FaultTrial) -> None:
    """The layout alone."""
    trial.judge(trial.start())


@kind(places=SPARK, workloads=PROGRAMS)
def worker_killed(trial: FaultTrial) -> None:
    child = trial.start()
    if trial.reached(child, "worker"):
        _send(trial, child, "worker", signal.SIGKILL)
    trial.judge(child)


@kind(places=SPARK, workloads=PROGRAMS, weight=1)
def worker_stopped(trial: FaultTrial) -> None:
    child = trial.start()
    if trial.reached(child, "worker"):
        stopped = _send(trial, child, "worker", signal.SIGSTOP)
        time.sleep(trial.rng.uniform(0.5, 4))
        for process in stopped:
            with contextlib.suppress(psutil.Error):
                process.resume()
    trial.judge(child)


@kind(places=("local-cluster",), workloads=PROGRAMS)
def executor_killed(trial: FaultTrial) -> None:
    child = trial.start()
    if trial.reached(child, "executor"):
        _send(trial, child, "executor", signal.SIGKILL)
    trial.judge(child)


@kind(places=("two-hosts",), workloads=LARGE, weight=1, needs_root=True)
def executor_of_a_host_killed(trial: FaultTrial) -> None:
    """Kill an executor's Java on one of two hosts that share no disk: in our context, or in a user's with any locality wait."""
    wait = trial.rng.choice(WAITS)
    (trial.home / "logs").mkdir()
    with private_cluster(trial.spare, trial.home / "logs") as cluster:
        if trial.undisturbed() is None:
            trial.judge(_on_hosts(trial, cluster, wait))
        usual = trial.undisturbed() or LATE
        child, moment = _on_hosts(trial, cluster, wait), trial.rng.uniform(0, usual)
        child.reaches(moment)
        while child.running() and not (found := cluster.executors()):
            time.sleep(LOOK)
        killed = child.running() and found and trial.rng.choice(found)
        if killed:
            moment = time.monotonic() - child.begun
            killed.kill()
        trial.judge(child)
        trial.find_if(child.seconds > usual + LATE, f"it took {child.seconds:.1f} s, and {usual:.1f} s without a loss")
        trial.find_if(bool(left := cluster.left()), f"files are left on the hosts: {left}")
    loss = f"an executor killed after {moment:.1f} s" if killed else "no executor was there to be killed"
    trial.about = f"context: {wait}; {loss}; {child.seconds:.1f} s, and {usual:.1f} s without"


def _on_hosts(trial: FaultTrial, cluster: PrivateCluster, wait: str) -> Child:
    """Start the program on a cluster, with everything on the partitions."""
    here = {"environment": {"SPARK_LOCAL_IP": "127.0.0.1"}}
    if wait == OURS:
        command = [*trial.workload.command, "--master", cluster.master, "--plan", "balanced", "--set=local_tuples=0"]
        return trial.run(command, **here)
    script, (name,) = Path(__file__).with_name("own_context.py"), trial.workload.answers
    command = [cluster.master, wait, "program.dl", "facts", "out", name.removesuffix(".csv")]
    return trial.run(command, program=("-P", str(script)), **here)


@kind(places=SPARK, workloads=PROGRAMS)
def jvm_killed(trial: FaultTrial) -> None:
    child = trial.start()
    if trial.reached(child, "jvm"):
        _send(trial, child, "jvm", signal.SIGKILL)
    trial.judge(child, errors.JVM_DEAD)


@kind(weight=1)
def driver_killed(trial: FaultTrial) -> None:
    """What the killed one has left, the next one sweeps."""
    child = trial.start()
    trial.reached(child)
    trial.killed(child)
    trial.judge(trial.start())


def _signalled(trial: FaultTrial, number: int, ending: errors.Allowed) -> None:
    """At any moment, the start of the interpreter included; to the child alone, or as a terminal does to all of its group."""
    child, listens = trial.start(), True
    if trial.reached(child, "worker" if trial.where != "driver" and trial.rng.random() < 0.3 else None):
        listens = child.listens()
        if trial.rng.random() < 0.5:
            child.signal(number)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, number)
        if trial.rng.random() < 0.3:  # who does not see at once that it ends
            time.sleep(0.05)
            child.signal(number)
    if listens:
        trial.judge(child, ending)
    else:  # Python itself has only begun
        trial.killed(child)


@kind()
def interrupted(trial: FaultTrial) -> None:
    _signalled(trial, signal.SIGINT, errors.INTERRUPTED)


@kind()
def terminated(trial: FaultTrial) -> None:
    _signalled(trial, signal.SIGTERM, errors.TERMINATED)


@kind(weight=1)
def hung_up(trial: FaultTrial) -> None:
    _signalled(trial, signal.SIGHUP, errors.HUNG_UP)


# -- checkpoints


def _checkpointed(trial: FaultTrial) -> tuple[str, str]:
    return f"--set=checkpoint_dir={trial.home / 'durable'}", f"--set=checkpoint_interval={trial.rng.choice([1, 2, 5])}"


def _saved_and_killed(trial: FaultTrial, options: tuple[str, str]) -> None:
    child = trial.start(*options)
    child.reaches(files=(trial.home / "durable", "**/*", int(2 ** trial.rng.uniform(0, 5))))
    time.sleep(trial.rng.uniform(0, 0.3))
    trial.killed(child)


@kind(places=SPARK, workloads=DURABLE, plan="balanced")
def resumed(trial: FaultTrial) -> None:
    options = _checkpointed(trial)
    _saved_and_killed(trial, options)
    trial.judge(trial.start(*options))
    _nothing_durable(trial)


@kind(places=("local",), workloads=DURABLE, plan="balanced", weight=3)
def checkpoint_damaged(trial: FaultTrial) -> None:
    options = _checkpointed(trial)
    _saved_and_killed(trial, options)
    if files := _files(trial.home / "durable"):
        damage(trial, trial.rng.choice(files))
    trial.judge(trial.start(*options), errors.CHECKPOINT_DAMAGED)


@kind(places=("local",), workloads=DURABLE, plan="balanced", weight=1)
def two_at_once(trial: FaultTrial) -> None:
    """Of the same checkpoint directory and the same output."""
    options = _checkpointed(trial)
    first = trial.start(*options)
    first.reaches(trial.some_time() / 2)
    second = trial.start(*options)
    first.ends(), second.ends()
    trial.judge(first, errors.CHECKPOINT_BUSY)
    trial.judge(second, errors.CHECKPOINT_BUSY)


def _nothing_durable(trial: FaultTrial) -> None:
    left = [path.name for path in _files(trial.home / "durable")]
    trial.find_if(bool(left), f"files are left in the directory of the checkpoints: {left}")


# -- files


@kind(places=SPARK, workloads=PROGRAMS)
def store_damaged(trial: FaultTrial) -> None:
    """A run is gone, shorter than it was, or has a bit that is another. Not the file by which Java says how it is reached."""
    child = trial.start()
    if child.reaches(files=trial.some_file()):
        if files := [path for path in _files(trial.spare) if path.suffix != ".partial" and path.name != "java"]:
            damage(trial, trial.rng.choice(files))
    trial.judge(child, errors.RUNS_LOST)


@kind(needs_root=True, places=SPARK)
def temporary_disk_full(trial: FaultTrial) -> None:
    with small_disk(trial, trial.spare, int(2 ** trial.rng.uniform(-3, 6))):
        trial.judge(trial.start(), errors.NO_ROOM)


@kind(needs_root=True, weight=1)
def output_disk_full(trial: FaultTrial) -> None:
    with small_disk(trial, trial.folder / "out", 2 ** trial.rng.uniform(-7, -1)):
        trial.judge(trial.start(), errors.NO_ROOM)


@kind(workloads=("triangles", "random_program", "names"), places=("driver",), weight=3)
def cache_damaged(trial: FaultTrial) -> None:
    """The compiled kernels that earlier runs have left."""
    cache = {"XDG_CACHE_HOME": str(trial.home / "cache")}
    trial.judge(trial.start(environment=cache))
    if files := _files(trial.home / "cache"):
        for path in trial.rng.sample(files, min(len(files), trial.rng.choice([1, 1, 3]))):
            damage(trial, path, how=("flip", "cut", "empty", "gone"))
    trial.judge(trial.start(environment=cache))
    trial.judge(trial.start(environment=cache))


# -- input


@kind(places=("driver",), workloads=("components",), weight=1)
def broken_facts(trial: FaultTrial) -> None:
    """Text files of facts: all ways to read one give the same."""
    _fuzzed(trial, lambda random: facts.difference(facts.random_case(random), trial.home))


@kind(places=("driver",), workloads=("components",), weight=1)
def broken_tables(trial: FaultTrial) -> None:
    """JSON, SQLite and parquet."""
    _fuzzed(trial, lambda random: tables.difference(tables.random_case(random), trial.home))


@kind(places=("driver",), workloads=("components",), weight=1)
def mutated_program(trial: FaultTrial) -> None:
    texts = mutants.programs()
    _fuzzed(trial, lambda random: mutants.trouble(mutants.random_mutant(random, texts), trial.home))


def _fuzzed(trial: FaultTrial, wrong: Callable) -> None:
    """Some cases in this process. `wrong`: what is wrong with one, drawn by chance, if anything."""
    trial.about = f"{CASES} cases in this process"
    for _ in range(CASES):
        try:
            with soon(), contextlib.redirect_stderr(io.StringIO()):
                finding = wrong(trial.rng)
        except Exception as error:
            finding = f"{type(error).__name__}: {error}"
        trial.find_if(bool(finding), str(finding)[:2500])
    trial.outcomes.append(RIGHT)


@contextlib.contextmanager
def soon():
    """TimeoutError if the block takes too long."""

    def late(*_):
        raise TimeoutError(f"did not end in {SOON} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SOON)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# -- requests


@kind(places=("driver",), workloads=("components",))
def odd_requests(trial: FaultTrial) -> None:
    """To a server, between transactions that are right: every answer is one, and what was acknowledged is there."""
    served.odd_requests(trial)


@kind(places=("driver",), workloads=("components",), weight=1)
def registered_rules(trial: FaultTrial) -> None:
    """That name files, libraries and other clients' relations: none of their content is in an answer."""
    served.registered_rules(trial)


# -- memory


@kind()
def memory_limit(trial: FaultTrial) -> None:
    """Of address space. Below 2 GB libraries end the process while they are loaded, and nobody can say why."""
    trial.judge(trial.start(memory=int(2 ** trial.rng.uniform(31, 34))), errors.NO_MEMORY)


# -- what the scenarios do


def damage(trial: FaultTrial, path: Path, how: tuple[str, ...] = ("flip", "cut", "gone")) -> None:
    """A file is not as it was written: another one is in its place, as whoever has it open still sees the old one."""
    way = trial.rng.choice(how)
    with contextlib.suppress(OSError):
        content = bytearray(path.read_bytes())
        if way == "gone" or not content:
            path.unlink()
            return
        if way == "flip":
            content[trial.rng.randrange(len(content))] ^= 1 << trial.rng.randrange(8)
        else:
            del content[0 if way == "empty" else trial.rng.randrange(len(content)) :]
        other = trial.home / "damaged"
        other.write_bytes(content)
        shutil.copystat(path, other)
        os.replace(other, path)


def _send(trial: FaultTrial, child: Child, role: str, number: int) -> list[psutil.Process]:
    """Signal one process in a role, or now and then all of them."""
    found = sorted(child.in_role(role), key=lambda process: process.pid)
    chosen = found if trial.rng.random() < 0.2 and role == "worker" else found and [trial.rng.choice(found)]
    for process in chosen:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
    return chosen


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.exists() else []


@contextlib.contextmanager
def small_disk(trial: FaultTrial, folder: Path, megabytes: float):
    """A disk in memory is mounted there meanwhile."""
    size = f"size={max(8, int(megabytes * 1024))}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "bench-faults", str(folder)], check=True)
    try:
        yield
    finally:
        for child in trial.children:
            child.cleared()
        subprocess.run(["umount", "-l", str(folder)], check=True)
