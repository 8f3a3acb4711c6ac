"""Three policies of balance, none, the paper's and ours, on 27 families of graphs, each on some numbers of simulated ranks.

    python -m bench.policies [--rows "tree up;grid"] [--toy] [--out FILE]

Nothing is measured by a clock: the work of each rank is counted, and priced as on MPI ranks (`Machine.mpi`).
"""

import sys

import numpy as np

from bench.command import command, parser_of, say, surroundings
from bench.paper.policies import summary
from semi_naive import Config, graphs
from semi_naive.balance.machine import Machine
from semi_naive.cli.simulate import policy_config
from semi_naive.simulation import Replayable

RANKS, MORE_RANKS, TOY_RANKS = (16, 64, 256), 512, 8
ALLOWED = 1.1  # ours is to take at most so many times the seconds of the better of the others
POLICIES = ("none", "paper", "work")


def shifted(*parts) -> np.ndarray:
    """The union of graphs, each with ids of its own."""
    starts = np.cumsum([0, *(int(part.max()) + 1 for part in parts)])
    return np.concatenate([part + start for part, start in zip(parts, starts, strict=False)])


def bow_ties_in_a_row(widths, length: int) -> np.ndarray:
    """Strings that fan out into `widths[i]` nodes, which all lead into the next string."""
    edges, node = [], 0
    for width in widths:
        string, fan = np.arange(node, node + length), np.arange(node + length + 1, node + length + 1 + width)
        after = np.full(width, node + length + 1 + width)
        last = np.full(width, node + length)
        edges += [(string, string + 1), (last, fan), (fan, after)]
        node = int(after[0])
    return np.concatenate([np.stack(pair, axis=1) for pair in edges])


def caterpillar(spine: int, leaves: int, direction: str) -> np.ndarray:
    """A chain, each node of which has leaves: that lead to it ("in"), or to which it leads ("out")."""
    body, leaf = np.repeat(np.arange(spine), leaves), spine + np.arange(spine * leaves)
    pair = (leaf, body) if direction == "in" else (body, leaf)
    return np.concatenate((graphs.chain(spine), np.stack(pair, axis=1)))


def cliques(number: int, size: int) -> np.ndarray:
    """A chain of cliques: the last node of each leads to the first of the next."""
    one, two = (found.ravel() for found in np.divmod(np.arange(size * size), size))
    clique = np.stack((one, two), axis=1)[one != two]
    first = np.arange(number) * size
    within = (clique[None] + first[:, None, None]).reshape(-1, 2)
    return np.concatenate((within, np.stack((first[1:] - 1, first[1:]), axis=1)))


def small_world(nodes: int, neighbours: int, rewired: float, seed: int = 1) -> np.ndarray:
    """A ring in which each node leads to its next neighbours, a fraction of them replaced by random nodes (Watts and Strogatz
    1998)."""
    rng, source = np.random.default_rng(seed), np.repeat(np.arange(nodes), neighbours)
    target = (source + np.tile(np.arange(1, neighbours + 1), nodes)) % nodes
    target = np.where(rng.random(source.size) < rewired, rng.integers(0, nodes, source.size), target)
    return np.unique(np.stack((source, target), axis=1)[source != target], axis=0)


def layers(number: int, width: int, degree: int, seed: int = 1) -> np.ndarray:
    """Layers of nodes, each of which leads to `degree` random ones of the next layer."""
    source = np.repeat(np.arange((number - 1) * width), degree)
    target = (source // width + 1) * width + np.random.default_rng(seed).integers(0, width, source.size)
    return np.unique(np.stack((source, target), axis=1), axis=0)


def attached(nodes: int, seed: int = 1) -> np.ndarray:
    """A random tree that points to its root: each node leads to an end of a random earlier edge, so hubs grow."""
    rng, parent = np.random.default_rng(seed), np.zeros(nodes, np.int64)
    for node in range(2, nodes):
        other = int(rng.integers(1, node))
        parent[node] = other if rng.random() < 0.5 else parent[other]
    return np.stack((np.arange(1, nodes), parent[1:]), axis=1)


def two_trees(height: int, length: int) -> np.ndarray:
    """A tree that points up, a string from its root, and a tree that points down from there."""
    up, down = graphs.tree(height), graphs.tree(height, "down")
    string, size = graphs.chain(length + 1), 2 ** (height + 1) - 1
    return np.concatenate((up, down + size, np.where(string == 0, 0, np.where(string == length, size, string + 2 * size))))


def halved(value: int, toy: bool) -> int:
    return max(2, value // 8) if toy else value


# By family: a function of the scale n -> its edges, which for n = 1 are the table's; whether it is also run on 512 ranks.
FAMILIES = {
    "tree up": (lambda n: graphs.tree(n(14)), True),
    "tree down": (lambda n: graphs.tree(n(14), "down"), False),
    "two trees, string of 20": (lambda n: two_trees(n(8), 20), False),
    "attached tree": (lambda n: attached(n(8000)), False),
    "star": (lambda n: graphs.bowtie(n(800), 0), True),
    "bow tie 1000×4": (lambda n: graphs.bowtie(n(1000), 4), True),
    "bow tie 300×30": (lambda n: graphs.bowtie(n(300), n(30)), True),
    "bow tie 300×60": (lambda n: graphs.bowtie(n(300), n(60)), True),
    "bow tie 100×150": (lambda n: graphs.bowtie(n(100), n(150)), False),
    "bow ties, 8 lengths": (lambda n: shifted(*(graphs.bowtie(n(150), 2 + 4 * k) for k in range(8))), False),
    "bow ties in a row": (lambda n: bow_ties_in_a_row((n(200), n(100), n(300)), n(20)), False),
    "caterpillar in": (lambda n: caterpillar(n(100), 20, "in"), False),
    "caterpillar out": (lambda n: caterpillar(n(100), 20, "out"), False),
    "grid": (lambda n: graphs.grid(n(32)), True),
    "narrow grid": (lambda n: graphs.grid(4, n(200)), False),
    "chain": (lambda n: graphs.chain(n(500)), False),
    "chains": (lambda n: shifted(*[graphs.chain(n(100))] * 40), True),
    "cycle": (lambda n: np.stack((np.arange(n(300)), np.roll(np.arange(n(300)), -1)), axis=1), False),
    "cliques, 150 of 4": (lambda n: cliques(n(150), 4), False),
    "cliques, 20 of 20": (lambda n: cliques(n(20), 20), False),
    "small world": (lambda n: small_world(n(800), 4, 0.05), True),
    "ring lattice": (lambda n: small_world(n(500), 4, 0.0), False),
    "layers": (lambda n: layers(12, n(100), 3), False),
    "RMAT": (lambda n: graphs.rmat(12, n(6000)), True),
    "Zipf": (lambda n: graphs.zipf(n(3000), n(6000)), False),
    "G(n, p), sparse": (lambda n: graphs.gnp(n(1500), 1.2 / n(1500), 1), False),
    "G(n, p), dense": (lambda n: graphs.gnp(n(600), 0.01, 1), False),
}  # fmt: skip
NAMES = tuple(FAMILIES)


def main(arguments=None) -> int:
    parser = parser_of("bench.policies", __doc__, repeat=1)
    parser.add_argument("--rows", default=";".join(NAMES), help="families, separated by semicolons (default: all)")
    options = parser.parse_args(arguments)
    return command("bench.policies", options, run, lambda results: [table(results), *told(results)], (ValueError,))


def run(options) -> dict:
    wanted = options.rows.split(";")
    if unknown := set(wanted) - set(NAMES):
        raise ValueError(f"there is no family {min(unknown)!r}: expected some of {'; '.join(NAMES)}")
    rows = []
    for family in wanted:
        make, more = FAMILIES[family]
        closure = Replayable.of(make(lambda value: halved(value, options.toy)), Config())
        for ranks in (TOY_RANKS,) if options.toy else (*RANKS, *[MORE_RANKS] * more):
            say(f"{family}, {ranks} ranks")
            rows.append(case(closure, ranks) | {"family": family, "ranks": ranks})
    return {**surroundings(None, options), "rows": rows}


def case(closure: Replayable, ranks: int) -> dict:
    """Seconds and critical path of each policy, all with one bucket a rank."""
    found = {name: summary(closure.simulate(ranks, policy_config(name, {}, ranks), Machine.mpi())) for name in POLICIES}
    return {key: {name: one[key] for name, one in found.items()} for key in ("seconds", "path", "moved")}


def slower(row: dict) -> float:
    """Our seconds ÷ those of the better of the others."""
    return row["seconds"]["work"] / min(row["seconds"]["none"], row["seconds"]["paper"])


def table(results: dict):
    from rich.table import Table

    found = Table(title="Policies of balance: milliseconds, and the critical path ÷ the average work (1 is perfect)")
    columns = ("family", "ranks", *("ms: none", "paper", "ours", "÷ better"), *("path: none", "paper", "ours", "÷ paper"))
    for name in columns:
        found.add_column(name, justify="left" if name == "family" else "right")
    for row in results["rows"]:
        times = [f"{1e3 * row['seconds'][name]:.2f}" for name in POLICIES]
        paths = [f"{row['path'][name]:.2f}" for name in POLICIES]
        shorter = f"{row['path']['work'] / row['path']['paper']:.2f}"
        found.add_row(row["family"], str(row["ranks"]), *times, f"{slower(row):.2f}", *paths, shorter)
    return found


def told(results: dict) -> list[str]:
    """The summary of all cases, in sentences."""
    rows = results["rows"]
    ratios = np.array([slower(row) for row in rows])
    paths = np.array([row["path"]["work"] / row["path"]["paper"] for row in rows])
    against = np.array([row["seconds"]["work"] / row["seconds"]["paper"] for row in rows])
    worst = rows[int(ratios.argmax())]
    return [
        f"Seconds ÷ the better of none and paper: {ratios.min():.2f} to {ratios.max():.2f} ({worst['family']}, {worst['ranks']}"
        f" ranks), geometric mean {mean(ratios):.2f}; beyond {ALLOWED}: {int((ratios > ALLOWED).sum())} of {len(rows)} cases.",
        f"Seconds ÷ paper: geometric mean {mean(against):.2f}; below 0.95: {int((against < 0.95).sum())}, "
        f"above 1.05: {int((against > 1.05).sum())}.",
        f"Critical path ÷ paper: geometric mean {mean(paths):.2f}.",
    ]


def mean(ratios: np.ndarray) -> float:
    """The geometric mean."""
    return float(np.exp(np.log(ratios).mean()))


if __name__ == "__main__":
    sys.exit(main())
