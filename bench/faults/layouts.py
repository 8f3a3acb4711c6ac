"""Where a workload runs and how its tuples are laid out: settings that must not change the answer, drawn by chance."""

from math import inf
from random import Random

from bench.faults.workloads import FaultWorkload

PLACES = {"driver": 6, "local": 5, "local-cluster": 1, "two-hosts": 1}  # and how often
CHOICES = {
    "buckets": [None, None, 2, 5, 64], "partitions": [None, 2, 3, 4], "replicate_bytes": [None, 0, 0, 100],
    "run_ahead": [None, 0, 0, 1000], "policy": [None, "paper"], "rollover_threshold": [None, None, 5000],
    "multiway": [None, None, "always", "never"],
}  # fmt: skip
BALANCING = {"refinement_minimum": 1, "tolerance": 1.0, "grain": 0.1, "horizon": inf}  # what moves tuples whenever it may


def place(workload: FaultWorkload, rng: Random, places: tuple[str, ...]) -> str:
    """Where it runs: one of those that the fault needs."""
    never = {"always": "driver", "never": "local-cluster"}.get(workload.spark)
    possible = [each for each in places if each != never]
    return rng.choices(possible, [PLACES[each] for each in possible])[0]


def options(workload: FaultWorkload, rng: Random, where: str, plan: str | None = None) -> list[str]:
    """Options of the command line."""
    if workload.spark == "never":
        plans = [["auto"], ["leapfrog"], ["boxed", "--memory", "1M"]] if where == "driver" else [["bigjoin"], ["bigjoin-s"]]
        return ["--plan", *rng.choice(plans)]
    drawn = {name: rng.choice(values) for name, values in CHOICES.items()}
    drawn |= BALANCING if rng.random() < 0.3 else {}
    if workload.spark == "always":  # a closure, which has neither
        drawn["multiway"] = None
    elif where != "driver":
        drawn["local_tuples"] = 0
    plans = ["auto", "balanced", "balanced"] + ["decomposed"] * (workload.spark == "always")  # no group in most programs
    plan = plan or rng.choice(plans)
    given = ["--plan", plan] + [f"--set={name}={value}" for name, value in drawn.items() if value is not None]
    return given + {"driver": [], "local": ["-j", "2"], "local-cluster": ["--master", "local-cluster[2,1,1024]"]}.get(where, [])
