"""What work costs on a machine: the prices by which the simulator turns counts into seconds, and how they are fitted.

Linear in what is counted: tuples, bytes, messages. The network's part follows the usual model, latency and bandwidth for
each rank's link, and a collective that takes log2(ranks) rounds.
"""

from dataclasses import asdict, dataclass, fields, replace

import numpy as np

HEAD_PHASES = ("join", "run-ahead")  # the phases that make heads


@dataclass(frozen=True)
class Machine:
    """Seconds of one rank's core. The defaults were fitted by `python -m bench.machine --repeat 3` to closures on two cores;
    messages and collectives, which one host cannot tell, are those of a usual network.

    receive, pair, make: a tuple that comes into a local join; a pair that meets; a head that is left of them, coded.
    insert, birth: a head that arrives at its home; one that is new there.
    byte, message: on a rank's link, in or out. collective: once an all-to-all, for each doubling of the ranks.
    task: what a phase costs a rank that has nothing to do. job: what an inner iteration costs the driver.
    """

    receive: float = 4.5e-9
    pair: float = 0.8e-9
    make: float = 17e-9
    insert: float = 26e-9
    birth: float = 0.0
    byte: float = 6.5e-9
    message: float = 2e-6
    collective: float = 5e-6
    task: float = 15e-3
    job: float = 45e-3

    @classmethod
    def mpi(cls, **prices) -> "Machine":
        """The same cores and links where no driver stands between two iterations: as the paper's machine, ranks of MPI."""
        return cls(**{"job": 0.0, "task": 0.0} | prices)

    def worth(self) -> float:
        """Tuples that a rank makes and inserts while the driver runs a job of nothing.

        >>> round(Machine(job=0.03, make=1e-8, insert=2e-8).worth()), Machine.mpi().worth()
        (1000000, 0.0)
        """
        return self.job / max(self.make + self.insert, 1e-12)

    def join(self, received, joined, made):
        """Seconds of a local join, by rank."""
        return self.task + self.receive * received + self.pair * joined + self.make * made

    def inserting(self, received, born):
        """Seconds of a local insert, by rank."""
        return self.task + self.insert * received + self.birth * born

    def exchange(self, sent, received, messages, ranks: int):
        """Seconds of an exchange of bytes, by rank: its link carries what goes out and what comes in at once."""
        rounds = self.collective * np.log2(max(ranks, 2))
        return rounds + self.byte * np.maximum(sent, received) + self.message * messages

    def predicted_seconds(self, phase: dict, ranks: int) -> np.ndarray:
        """The seconds that a phase of a trace takes on each rank, predicted from its counts. A job that runs ahead counts no
        joined pairs: it is taken to join as many as it makes heads."""
        received, sent, size = (np.asarray(phase[key], np.float64) for key in ("received", "sent", "bytes"))
        if phase["phase"] in HEAD_PHASES:
            return self.join(received, np.asarray(phase.get("joined", sent)), sent)
        if phase["phase"] == "insert":
            return self.inserting(received, sent)
        return self.exchange(size, size.mean(), np.asarray(phase.get("messages", 0)), ranks)

    def iteration(self, phases: list[dict]) -> tuple[float, float]:
        """Seconds of an iteration whose phases have theirs, those of the driver and all: a job for each inner iteration, and
        of each phase the slowest rank."""
        driver = self.job * (1 + max((phase["inner"] for phase in phases), default=0))
        return driver, driver + sum(float(np.max(phase["seconds"])) for phase in phases)

    def moving(self, left, arrived) -> float:
        """Seconds of a rebalancing job from the tuples that leave each rank and arrive there: two bytes a tuple."""
        return self.job + float(np.max(left) * self.make + np.max(arrived) * (self.insert + 2 * self.byte))

    def to_json(self) -> dict:
        return asdict(self)


PHASES = {  # of each phase of a trace: the prices that its seconds are a sum of, and the counts they are multiplied with
    "join": {"receive": "received", "pair": "joined", "make": "sent", "task": None},
    "insert": {"insert": "received", "birth": "sent", "task": None},
    "all-to-all": {"byte": "bytes", "task": None},
}


def fitted(traces: list[dict], base: Machine | None = None) -> Machine:
    """The machine that explains best what the tasks of some runs took, by least squares without negative prices.

    What runs on one host cannot tell (messages, collectives) stays as in `base`. ValueError when there is nothing to fit.
    """
    base = base or Machine()
    found: dict[str, list[float]] = {}
    for name, prices in PHASES.items():
        rows: list[tuple] = []
        seconds: list[float] = []
        for phase in (p for trace in traces for entry in trace["iterations"] for p in entry["phases"] if p["phase"] == name):
            if all(key is None or key in phase for key in prices.values()):
                counts = [phase[key] if key else [1] * len(phase["seconds"]) for key in prices.values()]
                rows += zip(*counts, strict=True)
                seconds += phase["seconds"]
        if not rows:
            raise ValueError(f"nothing to fit a machine to: the traces have no phase {name!r} of the balanced plan")
        for price, value in zip(prices, _not_negative(np.array(rows, float), np.array(seconds)), strict=True):
            found.setdefault(price, []).append(float(value))
    overheads = [e["driver"] / max(1, _inner(e)) for trace in traces for e in trace["iterations"] if "driver" in e]
    known = {price: float(np.mean(values)) for price, values in found.items()}
    return replace(base, **known, job=float(np.median(overheads)) if overheads else base.job)


def _inner(entry: dict) -> int:
    return max((phase["inner"] for phase in entry["phases"]), default=0) + 1


def _not_negative(rows: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Least squares; what comes out negative is left out, and the rest fitted again."""
    used = np.ones(rows.shape[1], np.bool_)
    while True:
        solution = np.zeros(rows.shape[1])
        solution[used] = np.linalg.lstsq(rows[:, used], seconds, rcond=None)[0]
        if (solution >= 0).all():
            return solution
        used &= solution > 0


FIELDS = tuple(f.name for f in fields(Machine))
