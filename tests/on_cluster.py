"""A driver for a cluster of hosts that share no disk: each case as one line of JSON, its answer beside that of this process.

    python tests/on_cluster.py MASTER [PART ...]

`local_tuples=0` has every stratum on the partitions. See `test_cluster`, which starts it.
"""

import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from unittest import mock

import numpy as np
from pyspark.sql import SparkSession

from semi_naive import Config, Program, RunsLost, subgraphs, transitive_closure
from semi_naive.io.results import ranges
from semi_naive.ra.spark.jobs import PartitionedJobs
from semi_naive.running.results import files
from semi_naive.session.maintenance import across_partitions, copies, recomputation, spread

PARTITIONED = Config(local_tuples=0)
LONGEST = 600  # seconds that a host is kept busy
LENGTH, CUT = 14, 10  # of a chain, in edges: as many iterations; where it is cut
REACH = """
.decl edge(x: number, y: number)
.input edge
.decl reach(x: number)
.output reach
reach(0).
reach(y) :- reach(x), edge(x, y).
"""
SAME_GENERATION = """
.decl parent(x: number, y: number)
.input parent
.decl same(x: number, y: number)
.output same
same(x, y) :- parent(p, x), parent(p, y), x != y.
same(x, y) :- parent(p, x), same(p, q), parent(q, y).
"""
FLIGHTS = """
.decl flight(origin: symbol, target: symbol, price: number)
.input flight
.decl closed(airport: symbol)
.input closed
.decl to(x: symbol, y: symbol)
.decl unreachable(x: symbol, y: symbol)
.decl offers(x: symbol, airports: number, cheapest: number)
.decl told(x: symbol)
.output to, unreachable, offers, told
to(x, y) :- flight(x, y, _), !closed(y).
to(x, z) :- to(x, y), flight(y, z, _), !closed(z).
unreachable(x, y) :- flight(x, _, _), flight(_, y, _), !to(x, y).
offers(x, n, p) :- flight(x, _, _), n = count : { to(x, _) }, p = min q : { flight(x, _, q) }.
told(cat(x, cat(" to ", y))) :- to(x, y), unreachable(y, x).
"""
LOOPS = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.decl loop(x: number)
.output loop
loop(x) :- path(x, x).
"""
TRIANGLES = """
.decl edge(x: number, y: number)
.input edge
.decl triangle(x: number, y: number, z: number)
.output triangle
triangle(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).
"""


def say(case: str, **facts) -> None:
    print(json.dumps({"case": case} | facts), flush=True)


def random_pairs(seed: int, nodes: int, count: int) -> np.ndarray:
    """Return so many edges at most. With three or four a node paths are short: an iteration, however small, is a job."""
    return np.unique(np.random.default_rng(seed).integers(0, nodes, (count, 2)), axis=0)


def program(case: str, text: str, facts: dict, spark, given: dict | None = None, progress=None, **options) -> None:
    """`given`: the same facts in another form."""
    expected = Program(text).run(facts)
    with Program(text).run(given or facts, spark, PARTITIONED.with_options(options), progress=progress) as found:
        right = {name: found[name].to_set() == expected[name].to_set() for name in expected}
        plans = [stratum["plan"] for stratum in found.trace["strata"]]
        counts = {name: found[name].count() for name in found}
        say(case, right=all(right.values()), counts=counts, plans=plans, held=shares(found.trace))


def programs(spark) -> None:
    program("reachability", REACH, {"edge": random_pairs(2, 1000, 4000)}, spark)
    program("same generation", SAME_GENERATION, {"parent": tree(4)}, spark)
    program("strings, negation, aggregates", FLIGHTS, flights(), spark)


def shares(trace: dict) -> list[float]:
    """The greatest share that one host holds of each partitioned index."""
    events = [event for stratum in trace["strata"] if "trace" in stratum for event in stratum["trace"]["events"]]
    placed = [event["tuples"] for event in events if event["event"] == "placed" and event["how"] == "partitioned"]
    return [max(tuples) / sum(tuples) for tuples in placed if sum(tuples) >= 50]


def partitioned(spark) -> None:
    edges = {"edge": random_pairs(5, 120, 1500)}
    program("partitioned: strings, negation, aggregates", FLIGHTS, flights(), spark, replicate_bytes=0)
    program("partitioned: same generation", SAME_GENERATION, {"parent": tree(4)}, spark, replicate_bytes=0)
    program("partitioned: triangles", TRIANGLES, edges, spark, replicate_bytes=0)


def closures(spark) -> None:
    edges = random_pairs(1, 100, 300)
    expected = {tuple(pair) for pair in transitive_closure(edges, plan="decomposed", spark=spark).to_numpy().tolist()}
    with transitive_closure(edges, spark, "balanced", run_ahead=0) as found:
        say("closure", right={tuple(pair) for pair in found.to_numpy().tolist()} == expected, counts=found.count())
    names = [(f"n{x}", f"n{y}") for x, y in edges.tolist()]
    rows = {f"n{x}\tn{y}" for x, y in expected}
    for plan in ("balanced", "decomposed"):
        with transitive_closure(names, spark, plan) as found:
            batches = {f"{x}\t{y}" for batch in found.to_batches() for x, y in zip(*batch.to_pydict().values(), strict=True)}
            right = batches == set(lines(found)) == {"\t".join(row) for row in found.to_df().collect()} == rows
            say(f"closure of names, {plan}: batches, files, frames", right=right, counts=found.count())


def flights() -> dict:
    names, pairs = [f"Flughafen {i}" for i in range(60)], random_pairs(4, 60, 200).tolist()
    rows = [(names[x], names[y], 10 + (7 * x + y) % 90) for x, y in pairs]
    return {"flight": rows, "closed": [(name,) for name in names[::9]]}


def triangles(spark) -> None:
    edges = random_pairs(5, 120, 1500)
    program("triangles as a rule", TRIANGLES, {"edge": edges}, spark)
    graph = np.zeros((120, 120), np.int64)
    graph[edges[:, 0], edges[:, 1]] = graph[edges[:, 1], edges[:, 0]] = 1
    np.fill_diagonal(graph, 0)
    expected = int(np.trace(graph @ graph @ graph)) // 6
    for plan, options in {"leapfrog": {}, "boxed": {"memory": 1 << 20}, "bigjoin": {}}.items():
        found = subgraphs(edges, "triangle", plan=plan, spark=spark, **options)
        say(f"triangles, {plan}", right=found == expected, counts=found, expected=expected)


def sessions(spark) -> None:
    """Relations stay on the hosts, where they go on by delta rules; so do changes of them, as none are few. Then small changes
    are followed by copies in the driver, and applied to the runs on the hosts."""
    for case, few in (("a session", -1), ("a session by copies", copies.MAX_CHANGED_TUPLES)):
        with mock.patch.object(copies, "MAX_CHANGED_TUPLES", few):
            session_of_loops(spark, case, by_jobs=few < 0)


def session_of_loops(spark, case: str, by_jobs: bool) -> None:
    text, edges = LOOPS, {tuple(map(int, pair)) for pair in random_pairs(3, 400, 700)}
    gone = set(sorted(edges)[::90])
    with (
        mock.patch.object(spread, "MAX_COLLECTED_TUPLES", -2),
        mock.patch.object(recomputation, "MIN_BUDGET", 1e9),
        mock.patch.object(across_partitions, "MAX_CHANGED_TUPLES", 1e9),
        Program(text).session({"edge": edges}, spark=spark, config=PARTITIONED) as session,
    ):
        before = {name: session[name].to_set() for name in session}
        with mock.patch.object(across_partitions, "MAX_CHANGED_PAIRS", -1):  # by its rules
            changes = session.delete("edge", gone).changes["path"]
        with Program(text).run({"edge": edges - gone}) as fresh:
            expected = {name: fresh[name].to_set() for name in fresh}
        right = {name: session[name].to_set() == expected[name] for name in expected}
        right["there"] = session["path"].on_partitions and changes.on_partitions == by_jobs
        right["changes"] = changes.to_set() == {(*row, -1) for row in before["path"] - expected["path"]}
        right["frames"] = {tuple(row) for row in session["path"].to_df().collect()} == expected["path"]
        right["query"] = session.query("path(x, x)").to_set() == expected["loop"]
        back = session.insert("edge", gone).changes["path"].to_set()
        right["back"] = back == {(*row, 1) for row in before["path"] - expected["path"]}
        right["as before"] = {name: session[name].to_set() for name in session} == before
        say(case, right=all(right.values()), parts=right, counts=changes.count())


def dataframes(spark) -> None:
    pairs = random_pairs(6, 500, 2000)
    frame = spark.createDataFrame(pairs.tolist(), "x bigint, y bigint")
    program("facts as a DataFrame", REACH, {"edge": pairs}, spark, {"edge": frame})
    with Program(SAME_GENERATION).run({"parent": tree(4)}, spark, PARTITIONED) as found:
        rows = {tuple(row) for row in found["same"].to_df().collect()}
        say("results as a DataFrame", right=rows == found["same"].to_set(), counts=len(rows))
        say("results in files", right=written(found["same"]) == "".join(f"{x}\t{y}\n" for x, y in sorted(rows)))
    names = [(f"n{x}", f"n{y}") for x, y in pairs.tolist()]
    text, frame = REACH.replace("number", "symbol").replace("0", '"n0"'), spark.createDataFrame(names, "x string, y string")
    program("facts of strings as a DataFrame", text, {"edge": names}, spark, {"edge": frame})


def written(answer) -> str:
    """The file that tasks write in pieces, which come to the driver in some chunks each."""
    files.MIN_TASK_WRITTEN_TUPLES, ranges.CHUNK_BYTES = 10, 10_000
    return "".join(lines(answer, keepends=True))


def lines(answer, keepends: bool = False) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        answer.write(f"{folder}/rows.tsv")
        with open(f"{folder}/rows.tsv") as file:
            return file.read().splitlines(keepends)


def tree(height: int) -> list[tuple[int, int]]:
    """Every node but the leaves has three children."""
    return [(i, 3 * i + j) for i in range((3**height - 1) // 2) for j in (1, 2, 3)]


class Occupied:
    """A core of one host, kept busy by another job of the session until it is given up."""

    def __init__(self, sc):
        self.sc, self.done = sc, threading.Event()
        self.thread = threading.Thread(target=self._occupy)
        self.thread.start()
        while not self._running():
            time.sleep(0.01)

    def give_up(self) -> None:
        self.done.set()
        self.sc.cancelJobGroup("occupied")
        self.thread.join()

    def _occupy(self) -> None:
        self.sc.setJobGroup("occupied", "a host is kept busy")
        with contextlib.suppress(Exception):  # it is cancelled
            self.sc.parallelize([0], 1).foreach(lambda _: time.sleep(LONGEST))
        assert self.done.is_set()

    def _running(self) -> bool:
        tracker = self.sc.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("occupied")]
        stages = [tracker.getStageInfo(stage) for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds]
        return any(stage and stage.numActiveTasks for stage in stages)


def busy(spark) -> None:
    """Another job keeps a host busy between two iterations, until its partition has been computed on the other host, which
    lacks its runs: what the host has is sent there once the host is free."""
    sc, held, ship = spark.sparkContext, [], PartitionedJobs._add_shipment

    def tell(stratum, number, of, iteration, delta, tuples):
        if iteration >= 1 and not sent.called:
            give_up()
            held.append(Occupied(sc))

    def give_up():
        while held:
            held.pop().give_up()

    def after(*arguments):
        give_up()
        return ship(*arguments)

    sc._conf.set("spark.locality.wait", "0")  # of a session whose user has set it so
    try:
        with mock.patch.object(PartitionedJobs, "_add_shipment", autospec=True, side_effect=after) as sent:
            program("a busy host", SAME_GENERATION, {"parent": tree(5)}, spark, progress=tell, run_ahead=0)
    finally:
        give_up()
        sc._conf.set("spark.locality.wait", "3s")


def killed(spark) -> None:
    """Whoever has started this kills an executor when told to."""

    told = []

    def tell(stratum, number, of, iteration, delta, tuples):
        if iteration >= 3 and not told:
            told.append(iteration)
            print("kill", flush=True)
            sys.stdin.readline()

    chain = np.stack([np.arange(LENGTH), np.arange(1, LENGTH + 1)], axis=1)
    session = Program(LOOPS).session({"edge": chain}, spark=spark, config=PARTITIONED)
    try:
        slowly = PARTITIONED.with_options({"run_ahead": 0})
        with Program(REACH).run({"edge": chain}, spark, slowly, progress=tell) as found:
            say("killed", right=found["reach"].to_set() == {(i,) for i in range(LENGTH + 1)}, error=None)
    except RunsLost as error:
        say("killed", right=True, error=str(error))
    program("after it", REACH, {"edge": chain}, spark)
    with session:
        changes = session.delete("edge", [(CUT, CUT + 1)]).changes["path"].to_set()
        pairs = {(x, y) for x in range(LENGTH + 1) for y in range(x + 1, LENGTH + 1)}
        lost = {(x, y) for x, y in pairs if x <= CUT < y}
        right = session["path"].to_set() == pairs - lost and changes == {(*pair, -1) for pair in lost}
        say("a session whose host was lost", right=right)


PARTS = programs, partitioned, closures, triangles, dataframes, sessions, busy, killed


def main(master: str, *chosen: str) -> None:
    builder = SparkSession.builder.master(master).appName("tests")
    for key, value in {
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.executor.memory": "1g",
        "spark.log.level": "ERROR", "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),
    }.items():  # fmt: skip
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for part in PARTS:
        if not chosen or part.__name__ in chosen:
            part(spark)
    print("stop", flush=True)
    sys.stdin.readline()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
