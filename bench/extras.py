"""What is measured besides the engines side by side: memory, iterations of a chain, balancing, starting up."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.inputs import Row, write
from bench.memory import peak
from bench.peers import ours
from semi_naive import graphs
from semi_naive.host.threads import cpus

IMPORTS = {"import": "import semi_naive", "import_names": "from semi_naive import transitive_closure, Config"}
SHUFFLED = {"plan": "balanced", "run_ahead": 0, "replicate_bytes": 0}  # the paper's layout: edges in buckets, as the paths are
FIVE = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]


def memory(row: Row) -> dict:
    """Peak memory of both plans."""
    return {plan: peak(row.path, plan) for plan in ("decomposed", "balanced")}


def chain(row: Row, spark) -> dict:
    """The balanced plan, one job an iteration, with its shuffle: what it costs when there is nothing to do in it."""
    sample = ours(row.path, spark, **SHUFFLED)
    facts = sample.facts
    return {
        "seconds": sample.seconds, "pairs": sample.pairs, "iterations": facts["iterations"],
        "iteration": sample.seconds / facts["iterations"], "median_iteration": facts["median_iteration"],
    }  # fmt: skip


def balancing(spark, repeat: int, toy: bool) -> dict:
    """A tree pointing up, whose root ends up in every path, in one bucket: with and without refinement, in turn."""
    edges = graphs.tree(9 if toy else 18)
    layout = {**SHUFFLED, "buckets": 64, "partitions": 8}
    samples = {"on": [], "off": []}
    for _ in range(repeat):
        for refine, found in samples.items():
            found.append(ours(edges, spark, refine=refine == "on", **layout))
    return {
        refine: {
            "seconds": statistics.median(s.seconds for s in found), "all": [s.seconds for s in found],
            "imbalance": found[-1].facts["imbalance"], "events": found[-1].facts["events"], "pairs": found[-1].pairs,
        }
        for refine, found in samples.items()
    }  # fmt: skip


def importing(repeat: int) -> dict:
    """Seconds an import takes in a new interpreter."""
    timed = "import time; begun = time.perf_counter(); {}; print(time.perf_counter() - begun)"
    return {
        name: statistics.median(float(_output([sys.executable, "-c", timed.format(what)])) for _ in range(repeat))
        for name, what in IMPORTS.items()
    }


def five_edges(folder: Path, repeat: int) -> dict:
    """Seconds from typing the command to having its answer; or why there is none."""
    path, seconds = write(graphs.as_edges(FIVE).pairs, folder / "five.tsv"), []
    for _ in range(repeat):
        begun = time.perf_counter()
        try:
            _output([sys.executable, "-m", "semi_naive", "tc", path, "--cores", str(cpus())])
        except subprocess.CalledProcessError as failed:
            return {"failed": (failed.stderr or failed.stdout).strip()[-400:] or f"status {failed.returncode}"}
        seconds.append(time.perf_counter() - begun)
    return {"seconds": statistics.median(seconds), "all": seconds}


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
