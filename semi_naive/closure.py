"""Transitive closure: read the edges, choose a plan, run it, hand back where the tuples are."""

import os

from semi_naive.config import PLANS, REPLICATED, Config
from semi_naive.io.edges import as_edges
from semi_naive.io.parallel import spark_edges
from semi_naive.io.python_data import is_spark_frame
from semi_naive.io.sources import is_large
from semi_naive.ra import session

READING = ("header", "expand_symmetric", "strings", "any_ids", "delimiter")


def transitive_closure(edges, spark=None, plan="auto", config=None, progress=None, watch=None, **options):
    """The pairs (x, y) such that y can be reached from x over one or more edges.

    edges: a path (.facts .tsv .csv .txt .mtx, each also .gz; .parquet .json .sqlite), a Spark or pandas DataFrame, an Arrow
        table, an (n, 2) integer array, an iterable of pairs (ints or strings), a networkx DiGraph.
    spark: a SparkSession or SparkContext; None: the one that runs, or an embedded one.
    plan: "balanced", "decomposed", or "auto", which chooses and says why in the result's `reason`.
    config, options: tunables of the evaluation (see `Config`), and of reading a file: header, expand_symmetric, strings,
        any_ids, delimiter.
    progress: called as progress(iteration, delta, tuples) after each iteration; while the decomposed plan's only job
        runs, as progress(1, 0, 0, done=tasks, total=tasks).
    watch: called once, before the first iteration, with a function that returns a copy of the record so far (see
        `balance.trace`) whenever it is called, from any thread.

    Raises `BadInput` (a ValueError that names file, line and column), ValueError for a wrong option, and
    `ra.session.NoJava` where Spark cannot be started.
    """
    from semi_naive.evaluation import Evaluation  # loads the compiled kernels, which importing the package must not

    reading = {name: options.pop(name) for name in READING if name in options}
    config = (config or Config()).with_options(options)
    choose(plan, config)  # what cannot be is said before anything is read
    if is_spark_frame(edges):
        spark = edges.sparkSession
    source = read(edges, spark, reading)
    plan, reason = choose(plan, config, source.rows if hasattr(source, "rows") else len(source))
    return Evaluation(session.context_of(spark), config, progress, plan, reason, watch).run(source)


def choose(plan: str, config: Config, edges: int = 0) -> tuple[str, str]:
    """The plan and the reason for it.

    >>> choose("auto", Config(rule="path-path"))[0]
    'balanced'
    """
    if plan not in PLANS:
        raise ValueError(f"plan is {plan!r}: expected one of {', '.join(PLANS)}")
    carries = config.rule != "path-path"
    if plan == "decomposed" and not carries:
        raise ValueError("the decomposed plan needs a rule that carries a column unchanged; path-path carries none")
    if plan != "auto":
        return plan, "asked for"
    if not carries:
        return "balanced", "path-path carries no column unchanged, so its tuples cannot be decomposed into groups"
    if config.checkpoint_dir:
        return "balanced", "only the balanced plan has anything to checkpoint"
    if edges > REPLICATED:
        return "balanced", f"{edges:,} edges are too many to replicate on every host"
    carried = "x" if config.rule == "path-edge" else "z"
    return "decomposed", f"{config.rule} carries {carried} unchanged and the edges fit every host: no shuffle is needed"


def read(edges, spark, reading: dict):
    """The edges as `graphs.Edges` in this process, or as `EdgeBlocks` in Spark where they are large or already there."""
    if is_spark_frame(edges) or (isinstance(edges, (str, os.PathLike)) and is_large(edges)):
        return spark_edges(edges, session.context_of(spark), **reading)
    return as_edges(edges, **reading)
