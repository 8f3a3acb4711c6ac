"""What the paper says about its settings, each on a graph where it can be seen: the order of the join (section 4.1), how often
imbalance is looked for (3.2), thresholds of rolling over by ranks (4.2), fused exchanges (3.1), and memory without rolling over
(4.2).

All but the memory is simulated on ranks that pass messages. The memory is that of a process of its own.
"""

import json
import subprocess
import sys

import numpy as np

from bench.paper import claims
from bench.paper.drawing import grouped, logarithmic, small_legend
from bench.paper.policies import summary
from bench.paper.runs import inner_iterations
from bench.paper.tables import ResultTable
from semi_naive.plots.style import DARK, GREY, SAND, new_figure

TITLE = "Settings: orders, checks, thresholds, fusion, memory"
SIZES = {  # height of a tree; RMAT's scale, edges drawn; a bow tie's width; thresholds; numbers of ranks
    "toy": (6, (7, 300), 40, (50, 500), (4, 8, 16)),
    "quick": (18, (14, 20_000), 2000, (1_000, 10_000, 100_000), (32, 512, 4096)),
    "full": (20, (15, 40_000), 5000, (1_000, 10_000, 100_000, 1_000_000), (32, 512, 8192)),
}
ORDERS = {"T ⋈ G": "path-edge", "G ⋈ T": "edge-path"}
CHECKS = (2, 10)  # iterations between two looks at imbalance
RANKS = {"toy": 16, "quick": 512, "full": 512}
LIMITED = {"toy": (100, 500, 0), "quick": (4000, 500_000, 200), "full": (4000, 500_000, 200)}  # width, threshold, megabytes
LINES = ((DARK, "-", "o"), (GREY, "--", "s"), (SAND, ":", "^"))  # one for each number of ranks
LEAST = {"toy": 16, "quick": 1024, "full": 1024}  # tuples of a subbucket, below which it is left alone


def measure(evaluation) -> dict:
    from semi_naive import graphs

    height, (scale, drawn), width, thresholds, numbers = evaluation.pick(SIZES)
    ranks, least = evaluation.pick(RANKS), evaluation.pick(LEAST)
    trees = {way: graphs.tree(height, way) for way in ("up", "down")}
    rmat, bowtie = graphs.rmat(scale, drawn, seed=1), graphs.bowtie(width, 10)
    simulated = Simulated(least)
    evaluation.say("orders of the join")
    orders = [{"graph": f"tree {way}", "order": order, "balancing": policy, **simulated(edges, ranks, rule=rule, **settings)}
              for way, edges in trees.items() for order, rule in ORDERS.items()
              for policy, settings in (("off", {"refine": False, "consolidate": False}), ("paper's", {}))]  # fmt: skip
    evaluation.say("checks of imbalance")
    given = {"tree up": trees["up"], "RMAT": rmat, "bow tie": bowtie}
    checks = [{"graph": name, "every": every, **simulated(edges, ranks, check_interval=every)}
              for name, edges in given.items() for every in CHECKS]  # fmt: skip
    evaluation.say("thresholds")
    rolled = [{"ranks": number, "threshold": threshold, **simulated(rmat, number, rollover_threshold=threshold)}
              for number in numbers for threshold in thresholds]  # fmt: skip
    fused = [{"graph": name, **simulated.fused(edges, ranks)} for name, edges in given.items()]
    bursts = [entry["born"] for entry in simulated.record(bowtie, ranks)["iterations"] if entry["born"]]
    evaluation.say("memory")
    memory = [limited(*evaluation.pick(LIMITED), rolling) for rolling in (True, False)]
    return {
        "ranks": ranks, "orders": orders, "checks": checks, "thresholds": rolled, "fused": fused, "memory": memory,
        "burst": {"width": width, "most": max(bursts), "median": float(np.median(bursts))},
    }  # fmt: skip


class Simulated:
    """Simulations of the paper's policy on ranks that pass messages, one bucket each. least: tuples of a subbucket, below which
    it is left alone. replays: the edges and births of each graph and order."""

    def __init__(self, least: int):
        self.least, self.replays = least, {}

    def record(self, edges, ranks: int, **settings) -> dict:
        from bench.paper.runs import papers
        from semi_naive import Config
        from semi_naive.balance.machine import Machine
        from semi_naive.simulation import Replayable

        settings = papers(buckets=ranks, refinement_minimum=self.least, **{"check_interval": 2} | settings)
        config = Config().with_options(settings)
        key = id(edges), config.rule
        if key not in self.replays:
            self.replays[key] = edges, Replayable.of(edges, config)
        return self.replays[key][1].simulate(ranks, config, Machine.mpi())

    def __call__(self, edges, ranks: int, **settings) -> dict:
        """Return pairs, seconds, critical path ÷ average work, inner iterations, and the peak of a rank in tuples."""
        record = self.record(edges, ranks, **settings)
        found = summary(record)
        return {
            "pairs": found["pairs"], "seconds": found["seconds"], "path": found["path"],
            "inner": sum(map(inner_iterations, record["iterations"])), "peak": max(record["result"]["peak_tuples"]),
        }  # fmt: skip

    def fused(self, edges, ranks: int) -> dict:
        """Return the heads that joins make and the new tuples among them; and the pairs that joins compare, and would compare
        if the heads went to the next join without being deduplicated at home."""
        entries = self.record(edges, ranks)["iterations"]
        made = [sum(int(np.sum(p["sent"])) for p in entry["phases"] if p["phase"] == "join") for entry in entries]
        pairs = [sum(int(np.sum(p["joined"])) for p in entry["phases"] if p["phase"] == "join") for entry in entries]
        born = [entry["born"] for entry in entries]
        repeats = [1.0] + [heads / new if new else 1.0 for heads, new in zip(made, born, strict=True)][:-1]
        fused = sum(count * repeat for count, repeat in zip(pairs, repeats, strict=True))
        return {"made": sum(made), "born": sum(born), "pairs": sum(pairs), "fused": round(fused)}


def limited(width: int, threshold: int, megabytes: int, rolling: bool) -> dict:
    """The closure of a bow tie in a process of its own (`bench.paper.limited`), without a limit, and with the given one."""
    words = [sys.executable, "-m", "bench.paper.limited", str(width), str(threshold * rolling)]
    given = (0, megabytes) if megabytes else (0,)
    runs = [subprocess.run([*words, str(each)], check=True, capture_output=True, text=True) for each in given]
    found = [json.loads(run.stdout.splitlines()[-1]) for run in runs]
    return {
        "width": width, "threshold": threshold if rolling else None, "megabytes": megabytes, "free": found[0],
        "bounded": found[-1],
    }  # fmt: skip


def table(data: dict) -> ResultTable:
    columns = ["setting", "graph", "value", "ranks", "seconds", "critical path", "inner iterations", "peak of a rank, tuples"]

    def row(setting: str, graph: str, value: str, found: dict, ranks: int | None = None) -> list:
        return [setting, graph, value, ranks or data["ranks"], *(found[key] for key in ("seconds", "path", "inner", "peak"))]

    rows = [row("order", each["graph"], f"{each['order']}, balancing {each['balancing']}", each) for each in data["orders"]]
    rows += [row("check", each["graph"], f"every {each['every']} iterations", each) for each in data["checks"]]
    rows += [row("threshold", "RMAT", f"{each['threshold']:,}", each, each["ranks"]) for each in data["thresholds"]]
    rows += [["fusion", each["graph"], f"{each['fused'] / each['pairs']:.2f} × the pairs of joins", data["ranks"],
              *[None] * 4] for each in data["fused"]]  # fmt: skip
    rows += [["memory", "bow tie", _rolling(each), 1, None, None, each["free"]["inner"], None] for each in data["memory"]]
    return ResultTable(TITLE, columns, rows, notes(data))


def _rolling(run: dict) -> str:
    return f"rolling over at {run['threshold']:,}" if run["threshold"] else "not rolling over"


def notes(data: dict) -> list[str]:
    few, many = claims.CHECK_INTERVALS
    times = "; ".join(f"{threshold:,}: {seconds} s" for threshold, seconds in claims.THRESHOLD_SECONDS.items())
    ends = "; ".join(
        f"{_rolling(run)}: {run['free']['bytes'] / 1e6:,.0f} MB"
        + (f", and with at most {run['megabytes']} MB {_ending(run['bounded'])}" if run["megabytes"] else "")
        for run in data["memory"]
    )
    burst, width = data["burst"], data["memory"][0]["width"]
    return [
        "Simulated with the paper's policy, a bucket a rank; seconds are priced without a driver (`Machine.mpi`).",
        "Order. The paper (section 4.1): T ⋈ G of an up tree becomes as quick as that of a down tree by joining G ⋈ T, if"
        " somebody knows the topology before.",
        f"Check. The paper (section 3.2): only a small difference between every {few} and every {many} iterations.",
        f"Threshold. The paper (section 4.2), of sgpf5y6 on 8,192 cores: {times}. With more ranks each makes fewer tuples,"
        " and an exchange costs more.",
        "Fusion. The heads go to the next join at once, and are not deduplicated at home before. The paper (section 3.1) found"
        " meaningful slowdowns. Here: the pairs that joins would compare; an exchange an iteration is saved.",
        f"Temporal imbalance: the largest iteration of a bow tie of width {burst['width']:,} makes"
        f" {burst['most'] / burst['median']:,.0f} times the tuples of the median one. The paper (section 4.2): about"
        f" {claims.TEMPORAL_IMBALANCE:,} at width {claims.BOWTIE_WIDTH:,}.",
        f"Memory: resident, with mapped files, above what the process has after its start; a bow tie of width"
        f" {width:,} on one partition. {ends}. The paper (section 4.2): without rolling over, memory is used up after iteration"
        f" {claims.WITHOUT_ROLLOVER} of {claims.OUTER_ITERATIONS}.",
    ]  # fmt: skip


def _ending(run: dict) -> str:
    return f"{run['pairs']:,} pairs" if run["pairs"] else run["error"]


def draw(data: dict):
    figure = new_figure(12, 8, TITLE)
    (orders, checks), (thresholds, memory) = figure.subplots(2, 2)
    names = list(dict.fromkeys(f"{each['graph']}\n{each['order']}" for each in data["orders"]))
    series = {way: [each["seconds"] for each in data["orders"] if each["balancing"] == way] for way in ("off", "paper's")}
    grouped(orders, names, series, {"off": ("white", "////"), "paper's": (SAND, "....")})
    orders.set_title("Seconds by the order of the join", loc="left")
    names = list(dict.fromkeys(each["graph"] for each in data["checks"]))
    series = {f"every {every}": [each["seconds"] for each in data["checks"] if each["every"] == every] for every in CHECKS}
    grouped(checks, names, series, dict(zip(series, ((DARK, ""), (GREY, "....")), strict=True)))
    logarithmic(checks.yaxis)
    checks.set_title("Seconds by the iterations between two checks", loc="left")
    for ranks, (colour, line, marker) in zip(_ranks(data), LINES, strict=True):
        found = [each for each in data["thresholds"] if each["ranks"] == ranks]
        at, seconds = ([each[key] for each in found] for key in ("threshold", "seconds"))
        thresholds.plot(at, seconds, color=colour, linestyle=line, marker=marker, label=f"{ranks:,} ranks")
    for axis in (thresholds.xaxis, thresholds.yaxis):
        logarithmic(axis)
    thresholds.set_title("Seconds by the threshold of rolling over", loc="left")
    ways = [_rolling(run) for run in data["memory"]]
    grouped(memory, ways, {"MB": [run["free"]["bytes"] / 1e6 for run in data["memory"]]}, {"MB": (DARK, "")})
    memory.set_title("Peak memory above the start, MB", loc="left")
    thresholds.set_xlabel("threshold, tuples")
    small_legend(orders, title="balancing", title_fontsize=8)
    for axes in (checks, thresholds):
        small_legend(axes)
    return figure


def _ranks(data: dict) -> list[int]:
    return list(dict.fromkeys(each["ranks"] for each in data["thresholds"]))
