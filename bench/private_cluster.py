"""A Spark standalone cluster of two hosts that share no disk, on this machine: what breaks there does not break in local mode.

Made of what the pyspark package has: a master, and two workers of one core each. A worker has a mount and a host-name namespace
of its own, an address of its own (127.0.0.2, 127.0.0.3), and a memory disk of its own over the folder that all of them, and the
driver, call their temporary directory.
"""

import contextlib
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

HOSTS = {"ours-a": "127.0.0.2", "ours-b": "127.0.0.3"}
# Of a worker: $1 its name, $2 its disk, $3 its address, $4 the master, $5 spark-class.
WORKER = """
hostname "$1" && mount -t tmpfs tmpfs "$2" && exec "$5" org.apache.spark.deploy.worker.Worker \
  --host "$3" --cores 1 --memory 2g --webui-port 0 --work-dir "$2/work" "$4"
"""
STARTED = 180.0  # seconds; it takes 3, but sixty on a machine that does ten other things
DAEMON = "-XX:+UseSerialGC -Dspark.master.rest.enabled=false -Dspark.ui.enabled=false"


@dataclass
class PrivateCluster:
    """`folder`: on every host another disk is mounted there. `workers`: the processes, by the names of their hosts."""

    master: str
    folder: Path
    workers: dict[str, subprocess.Popen]

    def seen_by(self, host: str) -> Path:
        """The folder as a host sees it."""
        return Path(f"/proc/{self.workers[host].pid}/root{self.folder}")

    def left(self) -> list[str]:
        """What evaluations have on the hosts' disks."""
        return [str(path) for host in self.workers for path in self.seen_by(host).glob("semi-naive-*")]

    def executors(self) -> list[psutil.Process]:
        """The executors' Java processes that run now."""
        children = [child for worker in self.workers.values() for child in psutil.Process(worker.pid).children()]
        return [child for child in children if "CoarseGrainedExecutorBackend" in _command(child)]

    def an_executor(self) -> psutil.Process:
        """The first executor, as soon as there is one."""
        late = time.monotonic() + STARTED
        while not (found := self.executors()):
            if time.monotonic() > late:
                raise TimeoutError("no executor has been started")
            time.sleep(0.1)
        return found[0]

    def environment(self) -> dict[str, str]:
        """Of a driver."""
        return os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(self.folder), "PYSPARK_PYTHON": sys.executable}


def java_options() -> str:
    """The options of a Java of some minutes: those that Spark's driver has been given, by default no second compiler."""
    return os.environ.get("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


def _command(process: psutil.Process) -> str:
    """Its command line; nothing of one that has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def refused() -> str | None:
    """Why there can be no such cluster here; None where there can."""
    try:
        done = subprocess.run(["unshare", "-m", "-u", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True)
    except FileNotFoundError:
        return "there is no command unshare"
    return done.stderr.strip() or f"status {done.returncode}" if done.returncode else None


@contextlib.contextmanager
def private_cluster(folder: Path, logs: Path):
    """Start it, and take it down."""
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    started = []

    def start(name: str, *command, **environment) -> subprocess.Popen:
        common = {"SPARK_NO_DAEMONIZE": "1", "PYSPARK_PYTHON": sys.executable}
        common["SPARK_DAEMON_JAVA_OPTS"] = f"{java_options()} {DAEMON}"
        with open(logs / name, "wb") as log:
            process = subprocess.Popen(
                [str(part) for part in command], stdout=log, stderr=log, env=os.environ | common | environment
            )
        started.append(process)
        return process

    try:
        start(
            "master", spark_class, "org.apache.spark.deploy.master.Master", *"--host 127.0.0.1 --port 0 --webui-port 0".split()
        )
        master = _said(logs / "master", r"Starting Spark master at (spark://\S+)")[0]
        workers = {
            host: start(
                host, "unshare", "-m", "-u", "sh", "-c", WORKER, "worker", host, folder, address, master, spark_class,
                SPARK_LOCAL_IP=address, TMPDIR=str(folder), SPARK_LOCAL_DIRS=str(folder),
            )
            for host, address in HOSTS.items()
        }  # fmt: skip
        _said(logs / "master", r"Registering worker", len(HOSTS))
        yield PrivateCluster(master, folder, workers)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)


def _said(log: Path, pattern: str, times: int = 1) -> list[str]:
    """What a log says; waits until it says so."""
    until = time.monotonic() + STARTED
    while len(found := re.findall(pattern, log.read_text(errors="replace"))) < times:
        if time.monotonic() > until:
            raise TimeoutError(f"{log} does not say {pattern!r}:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)
    return found
