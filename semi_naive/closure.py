"""Transitive closure: a program of two rules. Read the edges, choose a plan, run the program, hand back where the tuples are.

path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).        or another of `semi_naive.config.RULES`
"""

import functools
import os
from dataclasses import dataclass

import numpy as np

from semi_naive.config import PLANS, REPLICATED, Config
from semi_naive.io.edges import Edges, as_edges
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
    reading = {name: options.pop(name) for name in READING if name in options}
    config = (config or Config()).with_options(options)
    choose(plan, config)  # what cannot be is said before anything is read
    if is_spark_frame(edges):
        spark = edges.sparkSession
    source = read(edges, spark, reading)
    try:
        context = session.context_of(spark)
        plan, reason = choose(plan, config, source.rows if hasattr(source, "rows") else len(source))
        return evaluate(numbered(source, context, config), context, plan, reason, config, progress, watch)
    finally:
        if hasattr(source, "release"):
            source.release()


@functools.cache
def closure_program(rule: str):
    """The program of two rules, of which the second is one of `RULES`.

    >>> print(*closure_program("edge-path").checked.rules, sep="\\n")
    path(x, y) :- edge(x, y).
    path(x, z) :- edge(x, y), path(y, z).
    """
    from semi_naive.program import Program

    first, second = rule.split("-")
    pair = {"x": "number", "y": "number"}
    rules = [(("path", "x", "y"), ("edge", "x", "y")), (("path", "x", "z"), (first, "x", "y"), (second, "y", "z"))]
    return Program.from_rules({"edge": pair, "path": pair}, rules, outputs=["path"], file=rule)


@dataclass
class Numbered:
    """Edges over dense ids, neighbours in breadth-first order side by side: values[id] is an id's value, or with `names`, an
    Arrow array of strings, its place there."""

    pairs: np.ndarray
    values: np.ndarray
    names: object = None


def numbered(source, sc, config: Config) -> Numbered:
    """The edges that were read over dense ids. Those in Spark's blocks get their ids there; the distinct values, 8 bytes a
    node, and the edges, 8 bytes each, come to this process."""
    from semi_naive.ra.graph import Dense, intern, relabel
    from semi_naive.ra.interning import intern_blocks
    from semi_naive.ra.runs import Store
    from semi_naive.ra.words import merge_all

    if isinstance(source, Edges):
        graph = intern(source.pairs)
        names = source.names
    else:
        store = Store.create(config.local_dir)
        try:
            blocks = intern_blocks(sc, store, source)
            graph, names = Dense(merge_all(blocks.rdd.collect()), blocks.values), blocks.names
        finally:
            store.remove()
    graph = relabel(graph)
    return Numbered(np.column_stack([graph.sources, graph.targets]).view(np.int64), graph.values, names)


def evaluate(edges: Numbered, sc, plan: str, reason: str, config: Config, progress, watch):
    """Run the program on the partitions; a `Closure`."""
    from semi_naive.ra.replica import Replica
    from semi_naive.result import Closure, Pairs, Reader

    result = closure_program(config.rule).run(
        {"edge": edges.pairs}, sc, config.with_options({"local_tuples": 0}), plan=plan,
        progress=progress and (lambda name, number, of, *told, **pieces: progress(*told, **pieces)),
        watch=watch and (lambda look: watch(lambda: _only_stratum(look(), plan, reason, config, edges))),
    )  # fmt: skip
    trace = _only_stratum(result.trace, plan, reason, config, edges)
    if not edges.values.size:
        return Closure(sc, None, 0, trace, edges.names is not None, result.close)
    found, cluster = result.database.on_partitions["path"], result.cluster
    values = Replica.share(cluster.sc, cluster.store, "nodes", edges.values)
    names = None if edges.names is None else cluster.sc.broadcast(edges.names)
    reader = Reader(Pairs(found.relation, found.pieces), values, names)
    jobs = cluster.jobs if plan == "balanced" else None
    return Closure(sc, reader, found.count, trace, names is not None, result.close, jobs)


def _only_stratum(record: dict, plan: str, reason: str, config: Config, edges: Numbered) -> dict:
    """The record of a closure, from that of its program, so far or whole."""
    stratum = (record["strata"] or [{}])[-1]
    trace = stratum.get("trace", {"version": record["version"], "started": record["started"], "iterations": [], "events": []})
    told = {"plan": plan, "reason": reason, "rule": config.rule, "config": config.to_json(), "seconds": record["seconds"]}
    trace = trace | told | {"input": {"nodes": edges.values.size}}
    if "result" in trace or "result" in record:
        iterations = sum(sum(born > 0 for born in entry["births"]) for entry in trace["iterations"])
        trace["result"] = trace.get("result", {"tuples": 0, "disk_bytes": 0}) | {"iterations": iterations}
    return trace


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
