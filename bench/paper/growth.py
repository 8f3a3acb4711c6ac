"""How subbuckets grow when 512 buckets of an up tree's closure are balanced: simulated, and in closed form.

The closed form knows the buckets' exact sizes after every iteration (`bench.paper.trees`) and takes a bucket's tuples to be
spread evenly over its subbuckets; the simulator hashes every tuple.
"""

import numpy as np

from bench.paper import claims
from bench.paper.drawing import logarithmic, small_legend
from bench.paper.tables import ResultTable
from bench.paper.trees import bucket_sizes
from semi_naive.balance.hashing import bucket_of
from semi_naive.plots.style import DARK, GREY, new_figure, whole_ticks

TITLE = "Growth of the subbuckets, balancing 512 buckets"
HEIGHTS = {"toy": 9, "quick": 16, "full": 20}
BUCKETS = RANKS = 512
LEAST = 1024  # tuples of a subbucket, below which it is left alone: `Config.refinement_minimum`
CHECK = 2  # iterations between two looks at the sizes: `Config.check_interval`


def measure(evaluation) -> dict:
    from bench.paper.runs import papers
    from semi_naive import Config
    from semi_naive.graphs import tree
    from semi_naive.simulation import Replayable

    height = evaluation.pick(HEIGHTS)
    edges = tree(height)
    replay = Replayable.of(edges, Config())
    evaluation.say(f"tree up of height {height}, with and without balancing")
    settings = papers(buckets=BUCKETS, check_interval=CHECK, refinement_minimum=LEAST, consolidate=False)
    with_it, without = (replay.simulate(RANKS, **settings | {"refine": refine}) for refine in (True, False))
    model = modelled(counts_of(edges, height), height)
    iterations = zip(with_it["iterations"], without["iterations"], model, strict=True)
    rows = [one(entry, closed) | {"without": other["imbalance"]["partitions"]} for entry, other, closed in iterations]
    return {"height": height, "rows": rows}


def one(entry: dict, closed: np.ndarray) -> dict:
    """An iteration as it was simulated, and as the closed form has it."""
    return {
        "iteration": entry["iteration"], "tuples": entry["full"], "imbalance": entry["imbalance"]["partitions"],
        "simulated": sum(map(len, entry["sizes"])), "closed": int(closed.sum()),
        "most_simulated": max(map(len, entry["sizes"])), "most_closed": int(closed.max()),
    }  # fmt: skip


def counts_of(edges: np.ndarray, height: int) -> np.ndarray:
    """Nodes of each depth in each bucket, as `trees.depth_counts`, but of the ids that the engine gives the nodes."""
    from semi_naive.ra.closures.graph import intern, relabel

    nodes = relabel(intern(edges)).values  # in heap order: node n has depth floor(log2(n + 1))
    bucket = bucket_of(np.arange(nodes.size, dtype=np.uint64), np.uint64(BUCKETS)).astype(np.int64)
    depth = np.frexp(nodes + 1.0)[1] - 1
    return np.bincount(depth * BUCKETS + bucket, minlength=(height + 1) * BUCKETS).reshape(height + 1, BUCKETS)


def modelled(counts: np.ndarray, height: int) -> list[np.ndarray]:
    """Subbuckets of every bucket during each iteration: a bucket is refined after an iteration that is looked at when
    its tuples ÷ its subbuckets is over 3 times the average subbucket."""
    subbuckets, found = np.ones(BUCKETS, np.int64), []
    for iteration in range(1, height + 2):
        found.append(subbuckets)
        sizes = bucket_sizes(counts, "up", "T", height, iteration)
        each, average = sizes / subbuckets, sizes.sum() / subbuckets.sum()
        if iteration % CHECK == 0:
            over = (each > claims.REFINEMENT_RATIO * average) & (each >= LEAST)
            subbuckets = np.where(over, subbuckets * claims.REFINEMENT_FACTOR, subbuckets)
    return found


def table(data: dict) -> ResultTable:
    columns = {
        "iteration": "iteration", "tuples": "tuples", "simulated": "subbuckets", "closed": "subbuckets, closed form",
        "most_simulated": "most of a bucket", "most_closed": "most, closed form", "imbalance": "imbalance of ranks",
        "without": "without balancing",
    }  # fmt: skip
    few, many = claims.TREE_SUBBUCKETS
    return ResultTable(TITLE, [*columns.values()], [[row[key] for key in columns] for row in data["rows"]], [
        f"Tree up of height {data['height']}, {BUCKETS} buckets, {RANKS} ranks, simulated with the engine's hash and the"
        f" paper's policy: ×{claims.REFINEMENT_FACTOR} beyond {claims.REFINEMENT_RATIO:g}:1, every {CHECK} iterations,"
        f" subbuckets under {LEAST:,} tuples left alone. Without balancing the root's bucket is on one rank: buckets ÷"
        f" (height - 1) at the end. The paper's (section 4.1): from {few} to {many:,} subbuckets by"
        f" {claims.TREE_REFINEMENTS} refinements, for trees of depths 21 to 27.",
    ])  # fmt: skip


def draw(data: dict):
    figure, rows = new_figure(10, 4.3, f"{TITLE}: tree up, height {data['height']}"), data["rows"]
    left, right = figure.subplots(1, 2)
    at = [row["iteration"] for row in rows]
    dots = {"color": "black", "linestyle": ":", "marker": "o", "fillstyle": "none"}
    left.step(at, [row["simulated"] for row in rows], where="mid", color=DARK, linewidth=2.2, label="simulated")
    left.step(at, [row["closed"] for row in rows], where="mid", label="closed form", **dots)
    left.set_title("Subbuckets of all buckets", loc="left")
    right.plot(at, [row["without"] for row in rows], color=GREY, marker="s", label="without balancing")
    right.plot(at, [row["imbalance"] for row in rows], color=DARK, marker="o", label="with the paper's policy")
    logarithmic(right.yaxis)
    right.set_title("Heaviest ÷ average rank", loc="left")
    for axes in (left, right):
        axes.set_xlabel("iteration")
        whole_ticks(axes.xaxis)
        axes.grid(axis="y", linewidth=0.4, alpha=0.6)
        small_legend(axes, loc="best")
    return figure
