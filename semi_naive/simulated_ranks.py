"""Simulate a program on many ranks: the engine's own tasks run one rank after the other in this process, with modelled
times.

A rank corresponds to a Spark partition, and the counts are exactly the engine's: its rules, hash, bucket maps and balancing.
Only the seconds are modelled. *Load-balancing Parallel Relational Algebra* (Kumar, Gilray 2020), section 4;
`semi_naive.balance.simulate` counts closures alone, without making their tuples rank by rank, on many more ranks.
"""

import sys
from dataclasses import dataclass

from semi_naive.balance.machine import Machine
from semi_naive.balance.pricing import priced_record
from semi_naive.config import Config
from semi_naive.running.relations.local_jobs import LocalJobs

MAX_RANKS = 4096  # more would take too long: some milliseconds a rank, phase and iteration


@dataclass(frozen=True)
class SimulatedRanks:
    """The part of SparkContext's interface that an evaluation uses; jobs run in this process."""

    ranks: int
    master: str = "local[simulated]"
    applicationId: str = "simulated"
    pythonExec: str = sys.executable

    @property
    def defaultParallelism(self) -> int:
        return self.ranks

    def partitioned_jobs(self, partitions: int) -> LocalJobs:
        """Return the object that runs a run's jobs here, in place of Spark's."""
        return LocalJobs(partitions, self)


def simulate_program(program, facts, ranks: int, config: Config | None = None, machine: Machine | None = None, **options):
    """Simulate `program` on `facts`, as for `Program.run`, on `ranks` ranks. Return the record of a run, in which each stratum
    has a trace with lists by rank, and seconds modelled by `machine` (default: `Machine()`).

    Every stratum that can be partitioned is on the ranks. It takes the time of the run on one core, and some milliseconds for
    each rank, phase and iteration. Raises ValueError for more than 4,096 ranks.
    """
    if not isinstance(ranks, int) or not 1 <= ranks <= MAX_RANKS:
        raise ValueError(f"ranks is {ranks!r}: expected a whole number from 1 to {MAX_RANKS:,} for a program")
    # so that the record has every stratum by rank, and every iteration by itself
    given = {"local_tuples": 0, "run_ahead": 0} | options
    config = (config or Config()).with_options(given | {"partitions": ranks})
    machine = machine or Machine()
    if config.refinement_minimum is None:
        config = config.with_options({"refinement_minimum": config.least(machine.worth())})
    with program.run(facts, SimulatedRanks(ranks), config, plan="balanced") as result:
        record = result.trace
    strata = [
        stratum | ({"trace": priced_record(stratum["trace"], ranks, machine)} if "trace" in stratum else {})
        for stratum in record["strata"]
    ]
    return record | {"strata": strata, "seconds": sum(s["trace"]["seconds"] for s in strata if "trace" in s)}
