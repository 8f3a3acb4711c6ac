"""semi-naive: a Datalog engine, a distributed relational-algebra fixpoint with dynamic load balancing, on Apache Spark.

from semi_naive import Program, transitive_closure
Program.from_file("program.dl").run("facts").write("out")
transitive_closure("edges.tsv").to_df()
"""

from semi_naive.lazy import lazily

__version__ = "0.1.0"

_LAZY = {
    "Program": "semi_naive.program",
    "ProgramError": "semi_naive.language.errors",
    "EvaluationError": "semi_naive.ra.rules.arithmetic",
    "Branch": "semi_naive.branch",
    "vectorised": "semi_naive.functors",
    "Libraries": "semi_naive.libraries",
    "transitive_closure": "semi_naive.closure",
    "simulate": "semi_naive.simulation",
    "subgraphs": "semi_naive.subgraph_queries.matching",
    "Vertices": "semi_naive.subgraph_queries.vertices",
    "Closure": "semi_naive.result",
    "Config": "semi_naive.config",
    "Relation": "semi_naive.relation",
    "BadInput": "semi_naive.io.errors",
    "CheckpointUnusable": "semi_naive.running.manifest",
    "DiskFull": "semi_naive.ra.failures",
    "JobFailed": "semi_naive.ra.failures",
    "NoJava": "semi_naive.ra.java",
    "NotStarted": "semi_naive.ra.java",
    "LimitExceeded": "semi_naive.host.limits",
    "OutOfMemory": "semi_naive.host.memory",
    "RunsLost": "semi_naive.ra.jobs",
    "StateUnusable": "semi_naive.session.durability.directory",
    "SparkLost": "semi_naive.ra.lost",
}
__all__ = sorted(_LAZY)
__getattr__ = lazily(__name__, _LAZY)


def __dir__():
    return [*__all__, "__version__"]
