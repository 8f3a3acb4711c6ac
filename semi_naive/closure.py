"""Transitive closure: a program of two rules. Read the edges, choose a plan, run the program, hand back where the tuples are.

path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).        or another of `semi_naive.config.RULES`
"""

import functools
from typing import Any

import numpy as np

from semi_naive.config import PLANS, Config
from semi_naive.io.edges import Edges, edge_source, edges_of
from semi_naive.io.python_data import is_spark_frame
from semi_naive.io.sources import Source
from semi_naive.ra import session

READING = ("header", "expand_symmetric", "strings", "any_ids", "delimiter")


def transitive_closure(edges, spark=None, plan="auto", config=None, progress=None, watch=None, **options):
    """The pairs (x, y) such that y can be reached from x over one or more edges.

    edges: a path (.facts .tsv .csv .txt .mtx, each also .gz; .parquet .json .sqlite), a Spark or pandas DataFrame, an Arrow
        table, an (n, 2) integer array, an iterable of pairs (ints or strings), a networkx DiGraph. Files from 64 MB and Spark
        DataFrames are read by Spark's tasks, and come to this process only where they are to be copied to every host.
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
    graph = read(edges, **reading)
    context = session.context_of(spark)
    return evaluate(graph, context, *choose(plan, config, graph.rows()), config, progress, watch)


@functools.cache
def closure_program(rule: str, kind: str = "number"):
    """The program of two rules, of which the second is one of `RULES`, on vertices of a kind.

    >>> print(*closure_program("edge-path").checked.rules, sep="\\n")
    path(x, y) :- edge(x, y).
    path(x, z) :- edge(x, y), path(y, z).
    """
    from semi_naive.program import Program

    first, second = rule.split("-")
    pair = {"x": kind, "y": kind}
    rules = [(("path", "x", "y"), ("edge", "x", "y")), (("path", "x", "z"), (first, "x", "y"), (second, "y", "z"))]
    return Program.from_rules({"edge": pair, "path": pair}, rules, outputs=["path"], file=rule)


def read(edges, **reading) -> Edges | Source:
    """The edges in this process, or where they are, if Spark's tasks had better read them."""
    if isinstance(edges, Edges):
        return edges
    source = edge_source(edges, **reading)
    return source if source.large else edges_of(source)


def evaluate(graph: Edges | Source, sc, plan: str, reason: str, config: Config, progress, watch):
    """Run the program on the partitions; a `Closure`.

    Edges in this process go in as numbers, names by their place: for the balanced plan as dense ones, neighbours in
    breadth-first order side by side.
    """
    from semi_naive.ra.replica import Replica
    from semi_naive.result import Closure, Names, Pairs, Reader
    from semi_naive.running.on_partitions import OnPartitions

    facts: Any = graph
    kind, values = "number", None
    told: dict[str, Any] = {"plan": plan, "reason": reason}
    if isinstance(graph, Source):
        kind = graph.relation.kinds[0].value
        told = told if reason else {}
    elif plan == "balanced":
        facts, values = numbered(graph.pairs)
        told["input"] = {"nodes": values.size}
    else:
        facts = graph.pairs
    result = closure_program(config.rule, kind).run(
        {"edge": facts}, sc, config.with_options({"local_tuples": 0}), plan=plan,
        progress=progress and (lambda name, number, of, *told, **pieces: progress(*told, **pieces)),
        watch=watch and (lambda look: watch(lambda: _only_stratum(look(), config, told))),
    )  # fmt: skip
    found, cluster = result.database.on_partitions["path"], result.cluster
    names = None
    if isinstance(graph, Edges) and graph.names is not None:
        names = Names(cluster.sc.broadcast(graph.names))
    elif kind == "symbol":
        names = cluster.share_values(result.values)
    nodes = None if values is None else Replica.share(cluster.sc, cluster.store, "nodes", values)
    reader = Reader(Pairs(found.relation, found.pieces), nodes, names)
    jobs = cluster.jobs if isinstance(found, OnPartitions) else None
    return Closure(sc, reader, found.count, _only_stratum(result.trace, config, told), result.close, jobs)


def numbered(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edges (n, 2) over dense ids, and the value of each id."""
    from semi_naive.ra.graph import intern, relabel

    graph = relabel(intern(pairs))
    return np.column_stack([graph.sources, graph.targets]).view(np.int64), graph.values


def _only_stratum(record: dict, config: Config, told: dict) -> dict:
    """The record of a closure, from that of its program, so far or whole. told: what this module knows better."""
    stratum = (record["strata"] or [{"plan": "running", "reason": ""}])[-1]
    trace = stratum.get("trace", {"version": record["version"], "started": record["started"], "iterations": [], "events": []})
    trace = trace | {"plan": stratum["plan"], "reason": stratum["reason"]} | told
    trace |= {"rule": config.rule, "config": config.to_json(), "seconds": record["seconds"]}
    if "result" in trace or "result" in record:
        iterations = sum(sum(born > 0 for born in entry["births"]) for entry in trace["iterations"])
        trace["result"] = trace.get("result", {"tuples": 0, "disk_bytes": 0}) | {"iterations": iterations}
    return trace


def choose(plan: str, config: Config, edges: int | None = 0) -> tuple[str, str]:
    """The plan and the reason for it. ("auto", "") if only who has read the edges can tell, as nobody knows how many there are.

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
    if edges is None:
        return "auto", ""
    if 8 * edges > config.replicate_bytes:
        return "balanced", f"{edges:,} edges are too many to replicate on every host"
    carried = "x" if config.rule == "path-edge" else "z"
    return "decomposed", f"{config.rule} carries {carried} unchanged and the edges fit every host: no shuffle is needed"
