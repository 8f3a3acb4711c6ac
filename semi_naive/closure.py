"""Transitive closure as a program of two rules: read the edges, choose a plan, run the program.

path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).        or another of `semi_naive.config.RULES`
"""

import functools
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from semi_naive.config import PLANS, Config
from semi_naive.host.account import open_account, part
from semi_naive.host.numbers import quantity
from semi_naive.io.edges import Edges, edge_source, load_edges
from semi_naive.io.names import edge_relation
from semi_naive.io.python_data import gives_arrow, is_a, is_spark_frame
from semi_naive.io.unread import Source
from semi_naive.notebooks.progress import showing
from semi_naive.planning.detect_closure import MIN_JOB_EDGES
from semi_naive.ra.spark import spark_context
from semi_naive.ra.words import distinct
from semi_naive.running.relations.cluster import Cluster
from semi_naive.unused_settings import OF_A_CLOSURE, unused_settings

if TYPE_CHECKING:
    from semi_naive.result import Closure

log = logging.getLogger("semi_naive")

READING = ("header", "expand_symmetric", "strings", "any_ids", "delimiter")


@open_account()
def transitive_closure(
    edges: Any, spark: Any = None, plan: str = "auto", config: Config | None = None, progress: Callable | bool | None = None,
    watch: Callable | None = None, **options: Any,
) -> "Closure":  # fmt: skip
    """Compute the pairs (x, y) such that y can be reached from x over one or more edges.

    edges: a path (.facts .tsv .csv .txt .mtx, each also .gz; .parquet .json .sqlite) or a pattern of paths (edges/*.parquet), a
        Spark, pandas or polars DataFrame, an Arrow table, an (n, 2) integer array, an iterable of pairs (ints or strings), a
        networkx DiGraph. Files from 64 MB and Spark DataFrames are read by Spark's tasks, and come to this process only where
        they are to be copied to every host. The closure of a data frame or a table has its columns' names, any other one x
        and y.
    spark: a SparkSession or SparkContext; None: the one that runs, or an embedded one, which is started when it is needed.
    plan: "balanced", "decomposed", or "auto", which chooses and says why in the result's `reason`: few edges are followed in
        this process, as long as that does not lead to many pairs.
    config, options: tunables of the evaluation (see `Config`), and of reading a file: header, expand_symmetric, strings,
        any_ids, delimiter.
    progress: called as progress(iteration, delta, tuples) after each iteration, and as progress(1, 0, 0) while the decomposed
        plan's only job runs. None shows a bar in a notebook, once a run has taken a second; True shows one on a terminal, too;
        False shows none.
    watch: called once, before the first iteration, with a function that returns a copy of the record so far (see
        `balance.trace`) whenever it is called, from any thread; of a decomposed job it has the tasks `done`, and the `total`.

    Raises `BadInput` (a ValueError that names file, line and column), ValueError for a wrong option, and
    `ra.spark.java.NoJava` where Spark cannot be started.
    """
    reading = {name: options.pop(name) for name in READING if name in options}
    columns = closure_columns(edges)
    config = (config or Config()).with_options(options)
    choose_closure_plan(plan, config)  # invalid options are reported before reading
    if is_spark_frame(edges) and not spark_context.is_connect(edges):
        spark = edges.sparkSession
    here = runs_here(plan, spark, config)
    graph = read_input_edges(edges, here, **reading)
    for line in unused_settings(config, {plan}, OF_A_CLOSURE):
        log.warning("%s", line)
    if plan == "auto" and starts_in_driver(graph, config, here):
        return evaluate_closure(graph, spark, "auto", "", config, progress, watch, columns)
    with part("spark"):
        context = spark_context.context_of(spark() if callable(spark) else spark)
    return evaluate_closure(graph, context, *choose_closure_plan(plan, config, graph.rows()), config, progress, watch, columns)


def closure_columns(edges: Any) -> tuple[str, str]:
    """Return the names of the closure's columns: the source and target columns of a data frame or table, else x and y.

    >>> import pyarrow
    >>> closure_columns(pyarrow.table({"dst": [2], "src": [1]})), closure_columns([(1, 2)])
    (('src', 'dst'), ('x', 'y'))
    """
    names: Any = ()
    if is_spark_frame(edges) or is_a("pandas", "DataFrame", edges):
        names = list(edges.columns)
    elif is_a("polars", "LazyFrame", edges):
        names = edges.collect_schema().names()
    elif gives_arrow(edges):
        names = getattr(edges, "column_names", None) or getattr(edges, "columns", ())
    (source, _), (target, _) = edge_relation("", names := list(names)).attributes
    if {source, target} <= set(names):
        return source, target
    are_two_names = len(names) == 2 and all(isinstance(name, str) for name in names) and names[0] != names[1]
    return (names[0], names[1]) if are_two_names else ("x", "y")


@functools.cache
@part("compile")
def closure_program(rule: str, kind: str = "number"):
    """Return the program of two rules, the second of them one of `RULES`, on vertices of a kind.

    >>> print(*closure_program("edge-path").checked.rules, sep="\\n")
    path(x, y) :- edge(x, y).
    path(x, z) :- edge(x, y), path(y, z).
    """
    from semi_naive.program import Program

    first, second = rule.split("-")
    pair = {"x": kind, "y": kind}
    rules = [(("path", "x", "y"), ("edge", "x", "y")), (("path", "x", "z"), (first, "x", "y"), (second, "y", "z"))]
    return Program.from_rules({"edge": pair, "path": pair}, rules, outputs=["path"], file=rule)


def runs_here(plan: str, spark, config: Config) -> bool:
    """True if all jobs of a closure run in this process: there is no cluster, and no plan is required."""
    return plan == "auto" and Cluster(spark, config).in_process


@part("load")
def read_input_edges(edges, here: bool, **reading) -> Edges | Source:
    """Return the edges, read in this process, or their source if Spark's tasks should read them. here: the closure is evaluated
    in this process."""
    if isinstance(edges, Edges):
        return edges
    source = edge_source(edges, **reading)
    return source if source.large and not here else load_edges(source)


def starts_in_driver(graph: Edges | Source, config: Config, here: bool) -> bool:
    """True if a closure without a required plan is first evaluated in this process: it is small, or all tasks run in this
    process (`here`)."""
    if not isinstance(graph, Edges) or config.local_tuples == 0 or (graph.rows() > MIN_JOB_EDGES and not here):
        return False
    plan, _ = choose_closure_plan("auto", config, graph.rows())
    return plan == "decomposed"


def evaluate_closure(
    graph: Edges | Source, spark, plan: str, reason: str, config: Config, progress, watch, columns=("x", "y")
):  # fmt: skip
    """Run the program of a closure, and return the `Closure`. With the plan "auto" it runs in this process, and on the
    partitions only if it grows large.

    The vertices of edges in this process are numbers: a name is its position. For the balanced plan they are renumbered to
    dense ids in breadth-first order, so that neighbours have close ids.

    reason: the reason for the plan, "" for "auto". columns: the names of the closure's columns.
    """
    from semi_naive.result import Closure

    facts: Any = graph
    kind, values = "number", None
    entries: dict[str, Any] = {"plan": plan, "reason": reason} if reason else {}  # of the record
    births = Births()
    if isinstance(graph, Source):
        kind = graph.relation.kinds[0].value
    elif plan == "balanced":
        facts, values = dense_ids(graph.pairs)
        entries["input"] = {"nodes": values.size}
    else:
        facts = graph.pairs
    # the program has its rule, and a run would report the setting as unused; a required plan leaves nothing in the driver
    settings = {"rule": Config.rule} | ({} if plan == "auto" else {"local_tuples": 0})
    with showing(progress, "closure", "closure") as births.forward:
        result = closure_program(config.rule, kind).run(
            {"edge": facts}, spark, config.with_options(settings), plan=plan, progress=births.take,
            watch=watch and (lambda look: watch(lambda: _only_stratum(look(), config, entries, births))),
        )  # fmt: skip
    names = graph.names if isinstance(graph, Edges) else None
    trace = _only_stratum(result.trace, config, entries, births)
    if isinstance(graph, Edges) and "input" not in trace:
        trace["input"] = {"nodes": distinct(graph.pairs.reshape(-1)).size}
    return Closure(result, trace, values, names, columns)


class Births:
    """Collects the number of pairs born in each iteration, as a progress callback. forward: the user's progress callback, if
    any.
    """

    forward: Callable[..., None] | None = None

    def __init__(self):
        self.sizes, self.begun = [0], time.perf_counter()

    def take(self, name, number, of, iteration: int, delta: int, tuples: int, **pieces) -> None:
        """Record the size after an iteration, and forward it: the progress callback of a program with one recursive stratum.
        pieces: the finished and all groups of a decomposed job."""
        self.sizes.append(tuples)
        if self.forward:
            self.forward(iteration, delta, tuples, **pieces)

    def trace(self) -> dict:
        """Return the part of a record that plans on the partitions write; here everything is one task, as in the decomposed
        plan."""
        from semi_naive.balance.trace import Trace, record_groups

        trace = Trace()
        born = np.trim_zeros(np.diff(self.sizes), "b")
        if born.size:
            seconds = time.perf_counter() - self.begun
            record_groups(trace, born, [int(born.sum())], [1], [seconds])
        return trace.finish(tuples=int(born.sum()), iterations=born.size, disk_bytes=0)


@part("intern")
def dense_ids(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (edges (n, 2) over dense ids, the vertex of each id)."""
    from semi_naive.ra.closures.graph import intern, relabel

    graph = relabel(intern(pairs))
    return np.column_stack([graph.sources, graph.targets]).view(np.int64), graph.values


def _only_stratum(record: dict, config: Config, entries: dict, births: Births) -> dict:
    """Return the record of a closure, given the record of its program, complete or not. entries: further entries of the record,
    which replace its own."""
    stratum = (record["strata"] or [{"plan": "running", "reason": ""}])[-1]  # none before it begins
    trace = stratum.get("trace") or births.trace() | {"started": record["started"]}
    trace = trace | {"plan": stratum["plan"], "reason": stratum["reason"]} | entries
    trace |= {"rule": config.rule, "config": config.to_json()} | {name: record[name] for name in ("seconds", "account")}
    if "result" in trace or "result" in record:
        iterations = sum(sum(born > 0 for born in entry["births"]) for entry in trace["iterations"])
        trace["result"] = trace.get("result", {"tuples": 0, "disk_bytes": 0}) | {"iterations": iterations}
    return trace


def choose_closure_plan(plan: str, config: Config, edges: int | None = 0) -> tuple[str, str]:
    """Return (plan, the reason for it); ("auto", "") if it depends on the number of edges, and `edges` is None. Raises
    ValueError if the configuration does not allow the plan.

    >>> choose_closure_plan("auto", Config(rule="path-path"))[0]
    'balanced'
    """
    if plan not in PLANS:
        raise ValueError(f"plan is {plan!r}: expected one of {', '.join(PLANS)}")
    is_linear = config.rule != "path-path"
    if plan == "decomposed" and config.checkpoint_dir:
        raise ValueError("the decomposed plan is one job and makes no checkpoints: leave out checkpoint_dir, or the plan")
    if plan == "decomposed" and not is_linear:
        raise ValueError("the decomposed plan needs a rule that carries a column unchanged; path-path carries none")
    if plan != "auto":
        return plan, "asked for"
    if not is_linear:
        return "balanced", "path-path carries no column unchanged, so its tuples cannot be decomposed into groups"
    if config.checkpoint_dir:
        return "balanced", "only the balanced plan has anything to checkpoint"
    if edges is None:
        return "auto", ""
    if 8 * edges > config.replicate_bytes:  # a pair is one word of 8 bytes
        return "balanced", f"{quantity(edges, 'edge')} are too many to replicate on every host"
    carried = "x" if config.rule == "path-edge" else "z"
    return "decomposed", f"{config.rule} carries {carried} unchanged and the edges fit every host: no shuffle is needed"
