"""semi-naive: a Datalog engine, a distributed relational-algebra fixpoint with dynamic load balancing, on Apache Spark.

from semi_naive import Program, transitive_closure
Program.from_file("program.dl").run("facts").write("out")
transitive_closure("edges.tsv").to_df()
"""

from typing import TYPE_CHECKING

from semi_naive.lazy import lazily

if TYPE_CHECKING:  # the same names for type checkers; a test compares the two
    from semi_naive.branch import Branch as Branch
    from semi_naive.closure import transitive_closure as transitive_closure
    from semi_naive.config import Config as Config
    from semi_naive.functors import vectorised as vectorised
    from semi_naive.host.limits import LimitExceeded as LimitExceeded
    from semi_naive.host.memory import OutOfMemory as OutOfMemory
    from semi_naive.io.errors import BadInput as BadInput
    from semi_naive.language.errors import ProgramError as ProgramError
    from semi_naive.libraries import Libraries as Libraries
    from semi_naive.program import Program as Program
    from semi_naive.ra.expressions.arithmetic import EvaluationError as EvaluationError
    from semi_naive.ra.spark.failures import DiskFull as DiskFull
    from semi_naive.ra.spark.failures import JobFailed as JobFailed
    from semi_naive.ra.spark.java import NoJava as NoJava
    from semi_naive.ra.spark.java import NotStarted as NotStarted
    from semi_naive.ra.spark.lost import RunsLost as RunsLost
    from semi_naive.ra.spark.lost import SparkLost as SparkLost
    from semi_naive.relation import Relation as Relation
    from semi_naive.result import Closure as Closure
    from semi_naive.running.progress.manifest import CheckpointUnusable as CheckpointUnusable
    from semi_naive.session.durability.directory import StateUnusable as StateUnusable
    from semi_naive.simulation import simulate as simulate
    from semi_naive.subgraph_queries.matching import subgraphs as subgraphs
    from semi_naive.subgraph_queries.vertices import Vertices as Vertices

__version__ = "0.1.0"

_LAZY = {
    "Program": "semi_naive.program",
    "ProgramError": "semi_naive.language.errors",
    "EvaluationError": "semi_naive.ra.expressions.arithmetic",
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
    "CheckpointUnusable": "semi_naive.running.progress.manifest",
    "DiskFull": "semi_naive.ra.spark.failures",
    "JobFailed": "semi_naive.ra.spark.failures",
    "NoJava": "semi_naive.ra.spark.java",
    "NotStarted": "semi_naive.ra.spark.java",
    "LimitExceeded": "semi_naive.host.limits",
    "OutOfMemory": "semi_naive.host.memory",
    "RunsLost": "semi_naive.ra.spark.lost",
    "StateUnusable": "semi_naive.session.durability.directory",
    "SparkLost": "semi_naive.ra.spark.lost",
}
__all__ = sorted(_LAZY)
__getattr__ = lazily(__name__, _LAZY)


def __dir__():
    return [*__all__, "__version__"]
