"""The evaluations of the papers that this engine is built after, made again: every figure and table of *Load-balancing Parallel
Relational Algebra*, with the paper's numbers beside ours; of worst-case optimal joins boxes, memory budgets and skew; of
sessions the tuples in between, the orders of clauses, and tenants.

    python -m bench.paper [--quick | --full] [-o DIR] [--only fig8,fig12] [--data DIR] [--cores N] [--redraw]

Writes for each its data (JSON), its table (Markdown, CSV) and its picture (PNG, SVG), and paper.md with all of them. --redraw
makes tables and pictures again from the data that is there. Quick takes minutes, full up to an hour.
"""

import argparse
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

from bench.paper.evaluation import Evaluation
from bench.paper.output import make, write_page

PAPERS = {
    "Load-balancing Parallel Relational Algebra (Kumar and Gilray, 2020)":
        ("fig8", "fig10", "fig11", "fig12", "table1", "fig13", "growth", "policies", "settings"),
    "General-Purpose Join Algorithms for Listing Triangles in Large Graphs (Zinn, 2015)": ("boxes", "budgets", "bounds"),
    "Distributed Evaluation of Subgraph Queries Using Worst-case Optimal Low-Memory Dataflows (Ammar, McSherry, Salihoglu and"
    " Joglekar, 2018)": ("table5", "skew", "shares"),
    "Optimising Distributed Dataflows in Interactive Environments (Göbel, 2019)": ("delta", "clauses", "tenants"),
}  # fmt: skip
NAMES = tuple(name for names in PAPERS.values() for name in names)


def main(arguments=None) -> int:
    """The exit status: 0; 1 when a figure failed, the others being there; 2 for wrong arguments."""
    options = parsed(arguments)
    try:
        evaluation = Evaluation(options.size, options.data, options.cores)
        folder = Path(options.out)
        folder.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as wrong:
        print(f"bench.paper: {wrong}", file=sys.stderr)
        return 2
    failed = [name for name in options.only if not made(name, evaluation, folder, options.redraw)]
    write_page(folder, PAPERS)
    if failed:
        print(f"bench.paper: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def parsed(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m bench.paper", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = parser.add_mutually_exclusive_group()
    for size, what in (("quick", "minutes (the default)"), ("full", "the papers' sizes where they fit, up to an hour"),
                       ("toy", "seconds, to see that it works")):  # fmt: skip
        sizes.add_argument(f"--{size}", dest="size", action="store_const", const=size, default="quick", help=what)
    parser.add_argument("-o", "--out", default="paper", metavar="DIR", help="where to (default: %(default)s)")
    parser.add_argument("--only", type=names, default=list(NAMES), metavar="NAMES", help=f"of {','.join(NAMES)}")
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder of real graphs, for table1")
    parser.add_argument("--cores", type=positive, metavar="N", help="of the Spark session (default: all)")
    parser.add_argument("--redraw", action="store_true", help="from the data in DIR, measuring nothing")
    return parser.parse_args(arguments)


def names(text: str) -> list[str]:
    """
    >>> names("fig12,fig8")
    ['fig12', 'fig8']
    """
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in chosen if name not in NAMES] or not chosen and [text]:
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}: expected some of {', '.join(NAMES)}")
    return list(dict.fromkeys(chosen))


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1")
    return int(text)


def made(name: str, evaluation: Evaluation, folder: Path, redraw: bool) -> bool:
    """Make one figure; False, once it has been said why, when that failed."""
    evaluation.figure, begun = name, time.perf_counter()
    try:
        make(import_module(f"bench.paper.{name}"), name, evaluation, folder, redraw)
    except Exception as error:  # one figure must not lose the others
        if not isinstance(error, ValueError):
            traceback.print_exc()
        print(f"{name}: failed: {error}", file=sys.stderr)
        return False
    evaluation.say(f"done in {time.perf_counter() - begun:.1f} s")
    return True


if __name__ == "__main__":
    sys.exit(main())
