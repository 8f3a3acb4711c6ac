"""One closure by the engine, and what the figures need of its trace."""

import statistics
import threading
import time
from collections import Counter

from bench.paper import claims
from semi_naive import Config, transitive_closure
from semi_naive.plots.run import RecordedRun

EVERY = 0.05  # seconds, between two looks at the memory
ENOUGH = 20  # seconds that the samples of a closure have taken, from which on no further one is made


def papers(**changes) -> dict:
    """What makes the engine the paper's, as keywords: all in which `Config.paper` is not the default, and the changes."""
    rules = {
        "refinement_ratio": claims.REFINEMENT_RATIO, "refinement_factor": claims.REFINEMENT_FACTOR,
        "consolidation_fraction": claims.CONSOLIDATION_FRACTION, "rollover_threshold": claims.ROLLOVER_THRESHOLD,
    }  # fmt: skip
    config, default = Config.paper(**rules | changes).to_json(), Config().to_json()
    return {name: value for name, value in config.items() if value != default[name]} | changes


def closure(evaluation, edges, plan: str = "balanced", repeat: int = 1, memory: bool = False, **settings) -> dict:
    """Evaluate `repeat` times, or until that took ENOUGH. Seconds are from edges in memory to the count, the median; all else
    is of the last run.

    `memory`: also the most that driver and workers held, in bytes; None where psutil or the benchmarks are not installed.
    """
    samples, peaks, trace, spark = [], [], {}, evaluation.spark  # which may have to be started: before the clock is
    for _ in range(repeat):
        peak, begun = Peak() if memory else None, time.perf_counter()
        with transitive_closure(edges, spark, plan=plan, **settings) as found:
            samples.append(time.perf_counter() - begun)
            trace = found.trace
        if peak:
            peaks.append(peak.stop())
        if sum(samples) >= ENOUGH:
            break
    return {
        "plan": plan, "settings": settings, "seconds": statistics.median(samples), "samples": samples, **result(trace),
        "memory": max((peak for peak in peaks if peak is not None), default=None), "trace": slim(trace),
    }  # fmt: skip


def result(trace: dict) -> dict:
    """pairs, iterations; inner iterations altogether; imbalance of the partitions at the end; events, counted by kind."""
    lasting = trace["iterations"]
    return {
        "pairs": trace["result"]["tuples"], "iterations": trace["result"]["iterations"],
        "inner": sum(inner_iterations(entry) for entry in lasting),
        "imbalance": RecordedRun(trace).imbalance,
        "worst": max((e["imbalance"]["partitions"] for e in lasting), default=1.0),
        "events": acted(trace["events"]),
    }  # fmt: skip


def inner_iterations(entry: dict) -> int:
    """How many inner iterations an outer one took.

    >>> inner_iterations({"phases": [{"phase": "join"}, {"phase": "insert"}, {"phase": "join"}]})
    2
    """
    return sum(phase["phase"] == "join" for phase in entry["phases"])


def acted(events: list[dict]) -> dict[str, int]:
    """How often each kind of balancing acted on each relation: S (edges, the inner one) and T (the closure).

    >>> acted([{"event": "refine", "relation": "path"}, {"event": "roll-over"}, {"event": "roll-over"}])
    {'T refine': 1, 'roll-over': 2}
    """
    names = {"path": "T ", "edge": "S "}
    return dict(Counter(names.get(e.get("relation"), "") + e["event"] for e in events if e["event"] != "placed"))


def slim(trace: dict) -> dict:
    """The trace without the sizes of its subbuckets, of which a long run has too many to keep."""
    kept = [{key: value for key, value in entry.items() if key != "sizes"} for entry in trace["iterations"]]
    events = [{k: v for k, v in e.items() if k not in ("buckets", "cursors")} for e in trace["events"]]
    return {**trace, "iterations": kept, "events": events}


class Peak:
    """Watches the memory of this process and all that it started, until stopped."""

    def __init__(self):
        self.most, self.over = None, threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()

    def _watch(self) -> None:
        try:
            import psutil

            from bench.memory import now
        except ImportError:
            return
        root = psutil.Process()
        while not self.over.wait(EVERY):
            self.most = max(self.most or 0, now(root)["python"])

    def stop(self) -> int | None:
        self.over.set()
        self.watcher.join()
        return self.most
