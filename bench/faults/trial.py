"""One trial: its folders, the children that it starts, and what is found to be wrong with them."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bench.faults.answers import digests
from bench.faults.child import Child
from bench.faults.errors import NOISE, SPARKS_ON_CLUSTERS, SPARKS_OWN, STACK, Allowed
from bench.faults.layouts import options, place
from bench.faults.workloads import WORKLOADS, FaultWorkload

MOST = 600  # characters of an error that are shown
RIGHT, CLEAR, ENDED = "right answer", "clear error", "killed"
SECONDS = {"driver": 2.5, "local": 12.0, "local-cluster": 20.0}  # that a run takes, where it has not been measured
_measured: dict[tuple[str, str], float] = {}


@dataclass
class FaultTrial:
    """`kind` and `seed` say all that is drawn. `outcomes`: of the children that have been judged. `about`: what was run."""

    kind: str
    seed: int
    places: tuple[str, ...]
    names: tuple[str, ...]
    plan: str | None = None
    outcomes: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    about: str = ""

    @property
    def result(self) -> str:
        return "findings" if self.findings else CLEAR if CLEAR in self.outcomes else RIGHT

    def __enter__(self) -> "FaultTrial":
        self.rng = Random(f"{self.kind} {self.seed}")
        self.home = Path(tempfile.mkdtemp(prefix="faults-"))
        self.folder, self.spare = self.home / "work", self.home / "t"
        for each in (self.folder, self.spare, self.folder / "out"):
            each.mkdir()
        names = [name for name in self.names if self.places != ("driver",) or name != "closure"]  # it always starts Spark
        self.workload: FaultWorkload = WORKLOADS[self.rng.choice(names)](self.folder, self.rng)
        self.where = place(self.workload, self.rng, self.places)
        self.options = options(self.workload, self.rng, self.where, self.plan)
        return self

    def __exit__(self, *_) -> None:
        for child in self.children:
            child.cleared()
        self.about = self.about or f"{self.workload.name}, {self.where}: {' '.join([*self.workload.command, *self.options])}"
        shutil.rmtree(self.home, ignore_errors=True)

    # -- children

    def start(self, *more: str, **of_child) -> Child:
        return self.run([*self.workload.command, *self.options, *more], **of_child)

    def run(self, command: list[str], **of_child) -> Child:
        """Start any command; `of_child`: further fields of the child."""
        self.children.append(Child(self.folder, self.spare, command, **of_child))
        return self.children[-1]

    def undisturbed(self) -> float | None:
        """The seconds that a run takes, if it has been measured."""
        return _measured.get((self.workload.name, self.where))

    def some_time(self) -> float:
        """A moment of the run, perhaps a little after its end."""
        known = _measured.get((self.workload.name, self.where), SECONDS[self.where])
        return known * self.rng.uniform(0, 1.1)

    def some_file(self) -> tuple[Path, str, int]:
        """A moment: when so many files have been in the stores."""
        return self.spare, "semi-naive-*/**/*", int(2 ** self.rng.uniform(0, 7))

    def reached(self, child: Child, role: str | None = None) -> bool:
        """Wait for a moment by chance."""
        if role is None or self.rng.random() < 0.4:
            return child.reaches(self.some_time(), role)
        return child.reaches(role=role, files=self.some_file())

    # -- judging

    def judge(self, child: Child, *allowed: Allowed) -> None:
        """Wait for the end of a child: its answer must be right, or it says one of the errors."""
        if not child.ends():
            self.find("did not end in time")
            child.cleared()
            return
        status, said = child.process.returncode, self._said(child)
        answers = digests(self.folder / "out")
        wrong = {name for name, digest in answers.items() if self.workload.answers.get(name) != digest}
        self._each(f"{name} is wrong: {answers[name]} for {self.workload.answers.get(name)}" for name in wrong)
        self.find_if(status == 0 and answers.keys() != self.workload.answers.keys(), f"there are only {sorted(answers)}")
        if status == 0:
            _measured.setdefault((self.workload.name, self.where), child.seconds)
            self.find_if(bool(said), f"exit status 0, and it says {said!r}")
            self.outcomes.append(RIGHT)
        else:
            self._judge_error(status, said, allowed)
        self._each(f"a process is left: {process}" for process in child.left())
        self.no_files()

    def _judge_error(self, status: int, said: str, allowed: tuple[Allowed, ...]) -> None:
        if STACK.search(said) or not any(each.fits(status, said) for each in allowed):
            self.find(f"exit status {status}, and it says …{said[-MOST:]!r}")
        self.outcomes.append(CLEAR)

    def _said(self, child: Child) -> str:
        lines = child.err.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if line.strip() and not NOISE.search(line))

    def killed(self, child: Child) -> None:
        """A child has been killed: all that it started ends, too."""
        child.signal(signal.SIGKILL)
        child.process.wait()
        self.outcomes.append(ENDED)
        self._each(f"a process is left of a killed driver: {process}" for process in child.left())

    def no_files(self) -> None:
        """Nothing is left in the temporary directory but what Spark does not remove once its own process has been killed."""
        own = SPARKS_ON_CLUSTERS if self.where in ("local-cluster", "two-hosts") else SPARKS_OWN
        left = [path.name for path in self.spare.iterdir() if not own.search(path.name)]
        self.find_if(bool(left), f"files are left: {left}")
        partial = [path.name for path in (self.folder / "out").iterdir() if path.name not in self.workload.answers]
        self.find_if(bool(partial), f"files are left beside the output: {partial}")

    def find(self, text: str) -> None:
        self.findings.append(text)

    def find_if(self, wrong: bool, text: str) -> None:
        if wrong:
            self.find(text)

    def _each(self, texts: Iterator[str]) -> None:
        for text in texts:
            self.find(text)
