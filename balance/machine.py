"""Prices of work: the simulator converts counts into seconds by them. They are fitted to traces of real runs.

The model is linear in the counted quantities: tuples, bytes, messages. The network has the usual model: latency and bandwidth
for each rank's link, and a collective operation of log2(ranks) rounds.
"""

from dataclasses import asdict, dataclass, fields, replace

import numpy as np

HEAD_PHASES = ("join", "run-ahead")  # the phases that make heads


@dataclass(frozen=True)
class Machine:
    """Seconds of one rank's core for each unit of work. The defaults were fitted by `python -m bench.machine --repeat 3` to
    closures on two cores; messages and collectives, which one host cannot measure, are those of a usual network.

    receive, pair, make: a tuple that enters a local join; a pair that it compares; a head that remains, encoded.
    insert, birth: a head that arrives at its home; one that is new there.
    byte, message: on a rank's link, in or out.
    collective: for an all-to-all, for each doubling of the ranks.
    task: the cost of a phase for a rank without work.
    job: the cost of an inner iteration for the driver.
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
        """Return a machine with the same cores and links, without a driver between iterations: MPI ranks, as in the paper."""
        return cls(**{"job": 0.0, "task": 0.0} | prices)

    def worth(self) -> float:
        """Return the tuples that a rank makes and inserts in the time of an empty job: moving fewer is not worth a job.

        >>> round(Machine(job=0.03, make=1e-8, insert=2e-8).worth()), Machine.mpi().worth()
        (1000000, 0.0)
        """
        return self.job / max(self.make + self.insert, 1e-12)  # the prices may be 0

    def join(self, received, joined, heads):
        """Return the seconds of a local join on each rank. The arguments are counts of tuples and pairs, by rank."""
        return self.task + self.receive * received + self.pair * joined + self.make * heads

    def inserting(self, received, born):
        """Return the seconds of a local insert on each rank, from the heads received and the tuples born there."""
        return self.task + self.insert * received + self.birth * born

    def exchange(self, sent, received, messages, ranks: int):
        """Return the seconds of an exchange for each rank. sent, received: bytes, which its link carries at the same time;
        messages: those that it sends."""
        rounds = self.collective * np.log2(max(ranks, 2))
        return rounds + self.byte * np.maximum(sent, received) + self.message * messages

    def predicted_seconds(self, phase: dict, ranks: int) -> np.ndarray:
        """Return the predicted seconds of a phase of a trace on each rank. A job that runs ahead has no count of compared
        pairs: it is assumed to compare as many as it makes heads. An intra-bucket shuffle may include a join, and an insert
        may send new tuples to further indexes."""
        received, sent, size = (np.asarray(phase[key], np.float64) for key in ("received", "sent", "bytes"))
        if phase["phase"] in HEAD_PHASES:
            return self.join(received, np.asarray(phase.get("joined", sent)), sent)
        # If the record does not say how many tuples arrived, as many are assumed on each rank.
        arrived = np.asarray(phase.get("arrived", received if phase["phase"] == "all-to-all" else np.ones(ranks)), np.float64)
        incoming = arrived * (size.sum() / max(arrived.sum(), 1.0))  # all tuples of a phase take about as many bytes
        exchange = self.exchange(size, incoming, np.asarray(phase.get("messages", 0)), ranks)
        if phase["phase"] == "insert":
            return self.inserting(received, sent) + (exchange if size.any() else 0.0)
        return exchange + (self.join(received, np.asarray(phase["joined"]), sent) if "joined" in phase else 0.0)

    def iteration(self, phases: list[dict]) -> tuple[float, float]:
        """Return (seconds of the driver, seconds of the whole iteration). The driver takes a job for each inner iteration, and
        a phase takes as long as its slowest rank. phases: with their seconds by rank."""
        driver = self.job * _inner_iterations(phases)
        return driver, driver + sum(float(np.max(phase["seconds"])) for phase in phases)

    def moving(self, left, arrived) -> float:
        """Return the seconds of a rebalancing job. left, arrived: tuples, of two bytes, that leave and reach each rank."""
        return self.job + float(np.max(left) * self.make + np.max(arrived) * (self.insert + 2 * self.byte))

    def to_json(self) -> dict:
        return asdict(self)


# For each phase of a trace, the prices that its seconds are made of, and the counts that they are multiplied with; None: 1.
FITTED = {
    "join": {"receive": "received", "pair": "joined", "make": "sent", "task": None},
    "insert": {"insert": "received", "birth": "sent", "task": None},
    "all-to-all": {"byte": "bytes", "task": None},
}


def fitted(traces: list[dict], base: Machine | None = None) -> Machine:
    """Return the machine that best explains the times of the tasks of some runs, by least squares with nonnegative prices.
    Prices that one host cannot measure (messages, collectives) are those of `base`. Raises ValueError if there is nothing to
    fit."""
    base = base or Machine()
    iterations = [entry for trace in traces for entry in trace["iterations"]]
    values_by_price: dict[str, list[float]] = {}
    for name, prices in FITTED.items():
        rows: list[tuple] = []
        seconds: list[float] = []
        for phase in (phase for entry in iterations for phase in entry["phases"] if phase["phase"] == name):
            if all(key is None or key in phase for key in prices.values()):
                counts = [phase[key] if key else [1] * len(phase["seconds"]) for key in prices.values()]
                rows += zip(*counts, strict=True)
                seconds += phase["seconds"]
        if not rows:
            raise ValueError(f"nothing to fit a machine to: the traces have no phase {name!r} of the balanced plan")
        for price, value in zip(prices, _not_negative(np.array(rows, float), np.array(seconds)), strict=True):
            values_by_price.setdefault(price, []).append(float(value))
    overheads = [entry["driver"] / _inner_iterations(entry["phases"]) for entry in iterations if "driver" in entry]
    prices_found = {price: float(np.mean(values)) for price, values in values_by_price.items()}  # `task` is in each phase
    return replace(base, **prices_found, job=float(np.median(overheads)) if overheads else base.job)


def _inner_iterations(phases: list[dict]) -> int:
    """Return the number of inner iterations that phases belong to."""
    return max((phase["inner"] for phase in phases), default=0) + 1


def _not_negative(rows: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the coefficients x of the least-squares solution of rows · x = seconds. While some are negative, they are set to
    0, and the others are fitted again. It ends, as each round has fewer coefficients."""
    used = np.ones(rows.shape[1], np.bool_)
    while True:
        solution = np.zeros(rows.shape[1])
        solution[used] = np.linalg.lstsq(rows[:, used], seconds, rcond=None)[0]
        if (solution >= 0).all():
            return solution
        used &= solution > 0


FIELDS = tuple(f.name for f in fields(Machine))
