"""A command as a child process in a session of its own: its processes, the moments to break something, and its end."""

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.private_cluster import java_options

MARK = "BENCH_FAULTS_CHILD"  # in the environment of the child, and so in that of whatever it starts
LOOK = 0.005  # seconds between two looks at a child
PATIENCE = 15.0  # seconds in which all that a child has started is gone
LIMIT = 400.0  # seconds that a child may take on a busy machine, where executors that die of little memory are started anew


@dataclass
class Child:
    """`folder` has its input and its output, `spare` its temporary directory."""

    folder: Path
    spare: Path
    command: list[str]
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    memory: int | None = None  # bytes of address space
    environment: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ("-m", "semi_naive")  # what Python runs

    def __post_init__(self):
        self.out, self.err = (self.spare.parent / f"{kind}-{self.name}" for kind in ("stdout", "stderr"))
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, *self.program, *self.command], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out,
                stderr=err, env=self._environment(), start_new_session=True, preexec_fn=self._limited,
            )  # fmt: skip
        self.begun, self.seconds = time.monotonic(), 0.0

    def _environment(self) -> dict[str, str]:
        spare = str(self.spare)
        return os.environ | {
            MARK: self.name, "TMPDIR": spare, "SPARK_LOCAL_DIRS": spare, "PYSPARK_PYTHON": sys.executable,
            "SPARK_SUBMIT_OPTS": f"{java_options()} -Djava.io.tmpdir={spare} -XX:-UsePerfData",
        } | self.environment  # fmt: skip

    def _limited(self) -> None:
        if self.memory:
            resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))

    @property
    def pid(self) -> int:
        return self.process.pid

    def running(self) -> bool:
        return self.process.poll() is None

    def processes(self) -> list[psutil.Process]:
        """All that are alive and have been started by the child, itself among them. A zombie is not alive."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(MARK) == self.name and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def in_role(self, role: str) -> list[psutil.Process]:
        """jvm: the driver's; executor: those of a local cluster; worker: what runs Python for Spark's tasks."""
        return [process for process in self.processes() if process.pid != self.pid and _role(process) == role]

    def reaches(self, seconds: float = 0.0, role: str | None = None, files: tuple[Path, str, int] | None = None) -> bool:
        """Wait until the child is so old, has a process in such a role, and has made so many files of a pattern below a folder;
        whether it still runs then."""
        seen: set[str] = set()
        while self.running() and time.monotonic() - self.begun < LIMIT:
            if files:
                seen.update(_below(*files[:2]))
            old = time.monotonic() - self.begun >= seconds
            if old and (files is None or len(seen) >= files[2]) and (role is None or self.in_role(role)):
                return True
            time.sleep(LOOK)
        return False

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def listens(self) -> bool:
        """Whether our first lines have been run, and so SIGTERM is caught: Python itself does not."""
        with contextlib.suppress(OSError):
            caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{self.pid}/status").read_text())
            return caught is None or bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)
        return True

    def ends(self) -> bool:
        """Wait for the end; False if it takes too long, and is ended then."""
        try:
            self.process.wait(max(1.0, LIMIT - (time.monotonic() - self.begun)))
            self.seconds = time.monotonic() - self.begun
            return True
        except subprocess.TimeoutExpired:
            return False

    def left(self) -> list[str]:
        """The processes that are still there when all should be gone."""
        until = time.monotonic() + PATIENCE
        while (alive := self.processes()) and time.monotonic() < until:
            time.sleep(0.05)
        return list(_told(alive))

    def cleared(self) -> None:
        """End all that is left."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)


def _role(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        command = " ".join(process.cmdline())
        if "CoarseGrainedExecutorBackend" in command:
            return "executor"
        if process.name() == "java" and "SparkSubmit" in command:
            return "jvm"
        if "daemon" in command and "python" in process.name():
            return "worker"
    return ""


def _below(folder: Path, pattern: str) -> Iterator[str]:
    """Whole files that match, while others come and go."""
    with contextlib.suppress(OSError):
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError):
                if path.is_file() and not path.name.endswith(".partial"):
                    yield str(path)


def _told(processes: list[psutil.Process]) -> Iterator[str]:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            yield f"{process.pid} {' '.join(process.cmdline())[:120]}"
