"""Fig. 13: strong scaling by the simulator, up to 32,768 ranks: time by phase on the critical path, and efficiency.

Priced twice: on a host of Spark as the simulator's machine was fitted to it, where each iteration costs the driver a job; and
without what jobs and tasks cost by themselves, as where processes pass messages.
"""

import functools

import numpy as np

from bench.paper import claims
from bench.paper.drawing import logarithmic, small_legend
from bench.paper.tables import ResultTable
from semi_naive.balance.machine import Machine
from semi_naive.plots.style import DARK, FURTHER_STYLES, GREY, PHASES, log_ticks, new_figure

TITLE = "Fig. 13 · strong scaling, simulated"
QUADRANTS = {"a": 0.45, "b": 0.2, "c": 0.2, "seed": 2}
SIZES = {  # scale, edges drawn, numbers of ranks
    "toy": (8, 350, [2, 16]),
    "quick": (13, 10_000, [2, 32, 512, 4096, claims.MOST_RANKS]),
    "full": (15, 34_000, [2, 8, 32, 128, 512, 2048, 8192, claims.MOST_RANKS]),
}
LEAST = 1024  # tuples that a rebalancing of ours must save: the default where a job costs nothing
BUCKETS = 512  # and as many as there are ranks, if these are more


def measure(evaluation) -> dict:
    from bench.paper.runs import papers
    from bench.paper.simulated import summary
    from semi_naive import Config
    from semi_naive.graphs import rmat
    from semi_naive.simulation import Replayable

    scale, drawn, numbers = evaluation.pick(SIZES)
    edges, runs = rmat(scale, drawn, **QUADRANTS), []
    replay = Replayable.of(edges, Config())
    ours = functools.partial(dict, refinement_minimum=LEAST)
    for policy, settings in (("paper's", papers), ("ours", ours)):
        for ranks in numbers:
            record = replay.simulate(ranks, **settings(buckets=max(BUCKETS, ranks)))
            runs.append({"policy": policy, "pairs": record["result"]["tuples"], **summary(record, ranks)})
            evaluation.say(f"{policy} policy, {ranks:,} ranks: {runs[-1]['seconds']:.3f} s simulated")
    return {"graph": {"scale": scale, "edges": len(edges), **QUADRANTS}, "prices": Machine().to_json(), "runs": runs}


def efficiency(runs: list[dict], key: str) -> list[float]:
    """Of each number of ranks against the smallest one.

    >>> efficiency([{"ranks": 2, "seconds": 8.0}, {"ranks": 8, "seconds": 4.0}], "seconds")
    [1.0, 0.5]
    """
    base = runs[0][key] * runs[0]["ranks"]
    return [base / (run[key] * run["ranks"]) for run in runs]


def by_policy(data: dict) -> dict[str, list[dict]]:
    policies = dict.fromkeys(run["policy"] for run in data["runs"])
    return {policy: [run for run in data["runs"] if run["policy"] == policy] for policy in policies}


def table(data: dict) -> ResultTable:
    columns = ["policy", "ranks", "seconds", "efficiency", "without jobs, s", "efficiency without jobs", "work imbalance",
               "subbuckets", "tuples moved"]  # fmt: skip
    rows = [
        [policy, run["ranks"], run["seconds"], whole, run["bare"], bare, run["work"], run["subbuckets"], run["moved"]]
        for policy, runs in by_policy(data).items()
        for run, whole, bare in zip(runs, efficiency(runs, "seconds"), efficiency(runs, "bare"), strict=True)
    ]
    return ResultTable(TITLE, columns, rows, [
        f"{graph(data)}; {BUCKETS} buckets, or as many as ranks. Exact in tuples and bytes, seconds by prices fitted to this"
        " kind of host (`balance.machine`); without jobs: those prices without what a Spark job and task cost by themselves."
        " Work imbalance: heaviest ÷ average rank in tuples received, the whole run.",
        f"The paper's, of lhr34: efficiency {claims.SCALING[512, 2048]:.0%} from 512 to 2,048 processes and"
        f" {claims.SCALING[2048, 8192]:.0%} from there to 8,192, in all 7 times as fast; rim {claims.RIM_SPEEDUP} times;"
        " TSC OPF 300 gets slower. Its seconds are in a plot only.",
    ])  # fmt: skip


def graph(data: dict) -> str:
    return f"RMAT of scale {data['graph']['scale']}, {data['graph']['edges']:,} edges, {data['runs'][0]['pairs']:,} pairs"


def draw(data: dict):
    figure, policies = new_figure(12, 8.6, TITLE), by_policy(data)
    (fitted, bare), (times, efficiencies) = figure.subplots(2, 2)
    _stacked(fitted, policies["ours"], "phases", "as fitted to a host of Spark")
    _stacked(bare, policies["ours"], "bare_phases", "without what jobs cost")
    for policy, runs in policies.items():
        for key in ("seconds", "bare"):
            _lines(times, runs, key, [run[key] for run in runs], policy)
            _lines(efficiencies, runs, key, efficiency(runs, key), policy)
    runs = policies["ours"]
    ideal = [runs[0]["bare"] * runs[0]["ranks"] / run["ranks"] for run in runs]
    times.plot([run["ranks"] for run in runs], ideal, color="black", linewidth=0.7, label="ideal, without jobs")
    for axes, what in ((times, "Seconds"), (efficiencies, "Efficiency")):
        logarithmic(axes.xaxis)
        logarithmic(axes.yaxis)
        log_ticks(axes.xaxis)
        axes.set_title(what, loc="left")
        axes.set_xlabel("ranks")
        axes.set_ylabel(what.lower())
        axes.grid(linewidth=0.4, alpha=0.6)
        small_legend(axes, loc="lower left")
    return figure


def _lines(axes, runs: list[dict], key: str, values: list, policy: str) -> None:
    colour, marker = {"paper's": (GREY, "s"), "ours": (DARK, "o")}[policy]
    name = {"paper's": "the paper's policy", "ours": "our policy"}[policy]
    style = {"linestyle": "-", "label": f"{name}, without jobs"} if key == "bare" else {"linestyle": ":", "label": name}
    fill = "full" if key == "bare" else "none"
    axes.plot([run["ranks"] for run in runs], values, color=colour, marker=marker, fillstyle=fill, **style)


def _stacked(axes, runs: list[dict], key: str, what: str) -> None:
    """Parts of the critical path, whose whole is written above: seconds differ by orders."""
    base, names = np.zeros(len(runs)), list(dict.fromkeys(name for run in runs for name in run[key]))
    names.sort(key=lambda name: list(PHASES).index(name) if name in PHASES else len(PHASES))
    for name in names:
        parts = np.array([run[key].get(name, 0.0) / sum(run[key].values()) for run in runs])
        if parts.any():
            colour, hatch = PHASES.get(name, FURTHER_STYLES[0])
            style = {"facecolor": colour, "hatch": hatch, "edgecolor": "black", "linewidth": 0.4}
            axes.bar(range(len(runs)), parts, 0.86, base, label=name, **style)
            base = base + parts
    for place, run in enumerate(runs):
        axes.text(place, 1.01, f"{sum(run[key].values()):.3g} s", ha="center", va="bottom", fontsize=7.5)
    axes.set_xticks(range(len(runs)), [_short(run["ranks"]) for run in runs], fontsize=8)
    axes.set_ylim(0, 1.32)
    axes.set_yticks(np.arange(0, 1.01, 0.25), [f"{part:.0%}" for part in np.arange(0, 1.01, 0.25)])
    axes.set_title(f"Critical path, {what}", loc="left")
    axes.set_xlabel("ranks (our policy)")
    axes.set_ylabel("part of the seconds above the bar")
    axes.legend(fontsize=7.5, frameon=False, loc="upper left", ncols=3)


def _short(number: int) -> str:
    """
    >>> _short(512), _short(32768)
    ('512', '32k')
    """
    return f"{number // 1024}k" if number >= 1024 else str(number)
