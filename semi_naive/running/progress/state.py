"""The state of a run: program, settings, database and cluster, the strata evaluated so far, and their record."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from semi_naive.balance.course import Course
from semi_naive.balance.trace import VERSION
from semi_naive.config import PLANS, Config
from semi_naive.host.account import Account
from semi_naive.planning.joins.indexes import Indexes
from semi_naive.planning.rewriting.passes import Compiled
from semi_naive.planning.rewriting.whole_bodies import streamed
from semi_naive.planning.strata import Stratum, is_fact, readers
from semi_naive.ra.values.values import Values
from semi_naive.running.progress.profile import Profile
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.database import Database
from semi_naive.running.relations.loading import FactLoader

# Config.local_tuples by default. On 2 cores, 7.7 M pairs of a points-to analysis take 9 s in the driver, 20 s on partitions.
LOCAL_TUPLES, LOCAL_TUPLES_ON_TWO_CORES = 4_000_000, 64_000_000


@dataclass
class RunState:
    """The arguments of one call of `Program.run`, and the state of its evaluation. asked: the program as the user wrote it."""

    asked: Any
    compiled: Compiled
    config: Config
    spark: Any = None
    progress: Callable[..., None] | None = None
    watch: Callable[[Callable[[], dict]], None] | None = None  # see `Program.run`
    plan: str = "auto"  # see `Program.run`
    keeps: bool = False  # True for a session: relations on the partitions stay there, to be compared with later states
    values: Values = field(default_factory=lambda: Values())
    plans: dict[int, dict] = field(default_factory=dict)  # the records of the strata evaluated so far, by number
    bodies: dict[int, dict] = field(default_factory=dict)  # for each stratum, the bodies of its rules as planned last
    planned: dict[int, dict] = field(default_factory=dict)  # for each stratum of a loop, the bodies planned for the driver
    current_record: dict | None = None  # the record, so far, of the stratum that is being evaluated
    stratum_began: float = 0.0  # when its evaluation began
    trace_so_far: Callable[[], dict] | None = None  # returns its trace so far, once it is on the partitions
    given_from_outside: set[str] = field(default_factory=set)  # relations with facts from outside the program's text
    remembered_facts: dict[str, Any] = field(default_factory=dict)  # for relations that also have rules, tables of their facts
    id: str = field(default_factory=lambda: f"semi-naive-{os.urandom(6).hex()}")  # in the trace, and the group of Spark's jobs
    account: Account = field(default_factory=Account)
    courses: dict[int, Course] = field(default_factory=dict)  # the iterations of each recursive stratum in the driver

    def __post_init__(self):
        """Create the database, the indexes and the cluster of the run. read_by: the numbers of the strata that read each
        relation; looping: those of strata in loops; strata: the strata as evaluated, whose facts are loaded before."""
        if self.plan not in PLANS:
            raise ValueError(f"plan is {self.plan!r}: expected one of {', '.join(PLANS)}")
        self.program = self.compiled.program
        self.database = Database(self.program, self.values, self.config.memory, self.config.local_dir)
        self.database.rounding = not self.keeps  # delta rules keep every tuple that they make
        self.indexes = Indexes({name: relation.arity for name, relation in self.program.relations.items()})
        self.profile = Profile()
        self.cluster = Cluster(self.spark, self.config, self.asked.name, self.id)
        self.local_tuples_given = self.config.local_tuples is not None
        if not self.local_tuples_given:
            few_cores = self.cluster.cores <= 2
            local_tuples = LOCAL_TUPLES_ON_TWO_CORES if few_cores else LOCAL_TUPLES
            self.config = self.config.with_options({"local_tuples": local_tuples})
        self.read_by = readers(self.compiled.strata)
        kept = self.keeps or self.config.checkpoint_dir or self.compiled.loops  # these read the tables of all relations
        self.streamed = set() if kept else streamed(self.program)  # relations without a table, while strata are local
        self.looping = {number for loop in self.compiled.loops.values() for number in loop.numbers}
        strata = self.compiled.strata
        self.strata = [replace(stratum, rules=[rule for rule in stratum.rules if not is_fact(rule)]) for stratum in strata]
        self.loading = FactLoader(self)

    def nbytes(self) -> int:
        """Return the bytes of all relations, in this process and on the partitions, and of symbols and records."""
        spread = sum(self.database.bytes(name) for name in self.database.on_partitions)
        return sum(self.database.held().values()) + spread + self.values.nbytes

    def record(self, counts: dict[str, int]) -> dict:
        """Return the record of the strata evaluated so far (see `balance.trace`). counts: the known sizes of relations."""
        workers = self.cluster.started and self.cluster.local
        strata = [entry for _, entry in sorted(self.plans.items())]  # a checkpoint may have restored later ones
        profile = self.profile.record(self.asked.name, counts, strata, self.database.held(), workers)
        paid = self.account.paid()
        return {
            "version": VERSION, "started": self.account.started, "program": self.asked.name, "run": self.id, **paid,
            "config": self.config.to_json(), "source": self.asked.checked.texts, "strata": strata,
            "profile": profile | paid,
        }  # fmt: skip

    def so_far(self) -> dict:
        """Return the record with the stratum that is being evaluated. Any thread may call it."""
        current, trace_so_far = self.current_record, self.trace_so_far
        record = self.record({})
        if current and current["number"] not in [entry["number"] for entry in record["strata"]]:
            trace = trace_so_far() if trace_so_far else None
            seconds = time.perf_counter() - self.stratum_began
            record["strata"].append(current | {"seconds": seconds} | self.details(current["number"], trace))
        return record

    def details(self, number: int, trace: dict | None) -> dict:
        """Return the entries of a stratum's record that not all have: the course of its iterations in the driver, and the trace
        of those on the partitions."""
        course = self.courses.get(number)
        return ({"course": course.to_json()} if course and course.entries else {}) | ({"trace": trace} if trace else {})


def stratum_record(number: int, stratum: Stratum, plan: str, reason: str = "", tuples: int = 0) -> dict:
    """Return the entries that the record of every stratum has."""
    return {
        "number": number, "relations": list(stratum.relations), "plan": plan, "reason": reason, "tuples": tuples,
        "recursive": stratum.recursive,
    }  # fmt: skip
