"""The options of an evaluation, with the names and defaults of the papers if they are from one."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from math import inf
from typing import Any

from semi_naive.host.numbers import parse_bytes

RULES = {
    "path-edge": "path(x, z) :- path(x, y), edge(y, z).",
    "edge-path": "path(x, z) :- edge(x, y), path(y, z).",
    "path-path": "path(x, z) :- path(x, y), path(y, z).",
}
PLANS = ("auto", "balanced", "decomposed")
POLICIES = ("work", "paper")
MULTIWAY = ("auto", "always", "never")
BYTES = ("memory", "replicate_bytes", "query_bytes")  # fields that accept "2G"
TUPLES_WORTH_A_JOB = 1_000_000  # the tuples that a partition joins and inserts in the time of one empty Spark job


@dataclass(frozen=True)
class Config:
    """The configuration of an evaluation. Of all tunables only `max_iterations`, `null` and the allowed ids change the answer.

    A run lists the given tunables that had no effect: see `semi_naive.unused_settings`.

    buckets: the fixed number of buckets of a relation. None means eight for each partition, and at least 64.
    partitions: the number of Spark partitions. None means as many as Spark has cores.
    check_interval: the number of iterations from one check of the balance to the next.
    policy: "work" balances the expected work of the next iteration, "paper" the stored tuples (`balance.placement`).
    refine: False switches rebalancing off, under either policy.
    refinement_minimum: the tuples that a rebalancing must promise to save the heaviest partition within `horizon`. By policy
        "paper" it is the least size of a subbucket that is split. None means a million, the worth of a Spark job. In a
        simulation None means the worth of a job of the simulated machine, and at least 1,024.
    tolerance: policy "work" does nothing while heaviest ÷ average partition is at most this.
    horizon: policy "work" moves tuples only if that saves more than it costs within so many iterations, or within those that
        are expected to remain, by the trend of the deltas, if they are fewer. If infinite, cost is ignored.
    grain: policy "work" splits a subbucket whose work is more than this share of the average partition's.
    refinement_ratio, refinement_factor: policy "paper" splits a bucket whose heaviest subbucket exceeds `refinement_ratio`
        times the average subbucket. The bucket gets `refinement_factor` times as many subbuckets.
    consolidate, consolidation_fraction: policy "paper" merges the light buckets once more than this fraction of buckets is
        refined.
    copy_inner: a bucket of a partitioned relation that never changes is copied to the partitions of the tuples joined with it,
        unless the bucket is refined. Otherwise the delta is sent to the bucket in every iteration.
    rollover, rollover_threshold: a local join that has made more tuples ships them, and continues in an inner iteration.
    run_ahead: while delta has at most so many tuples, one job takes several iterations; 0 switches this off.
    run_ahead_budget: the tuples that one partition makes in such a job, at most.
    local_tuples: the driver evaluates a stratum without a Spark job until the rules make so many tuples in one iteration; 0
        means never. None means 4 million, or 64 million where Spark has at most two cores: the messages between two partitions
        take as long as the second core saves. In a run without a cluster None means as many as 40 % of the memory holds.
    small_delta: while the deltas of a stratum in the driver have at most so many tuples for each recursive atom of its rules,
        its iterations run a tuple at a time, in compiled code, unless that is much work. Other iterations run a block at a
        time. 0 switches this off.
    memory: bytes that the tables of a stratum's relations may take in the driver, with all of their indexes. Beyond it the
        stratum moves to the partitions; one that cannot be partitioned ends in `OutOfMemory`. None sets no such bound. In any
        case a stratum goes once the driver uses 40 % of the machine's memory. A rule that is joined variable by variable may
        have so many bytes of tries, 2 MB at least, in the driver or a task; beyond that they are in files, and joined box by
        box. As an option it may have a unit, "2G".
    replicate_bytes: bytes of each host for copies of the relations that a stratum on the partitions reads of other strata. The
        smallest indexes are replicated first, until these bytes are used. The other indexes are partitioned: each tuple is on
        one host. The default is 1 GiB.
    multiway: "auto" joins the cyclic core of a rule's body variable by variable where binary joins are expected to make many
        more bindings; "always" does so wherever it is possible, "never" nowhere.
    follow: the budget for maintaining a stratum of a session after a change, as a fraction of the bindings that recomputing
        it takes. If the budget is exceeded, the attempt is undone and the stratum is recomputed. 10,000 bindings are always
        allowed; 0 recomputes every stratum.
    max_iterations: every recursive stratum stops after so many iterations of semi-naive evaluation. The first iteration
        consists of the stratum's facts and its rules without recursion. Each further one applies all rules to the tuples of the
        iteration before. So a closure has the paths of up to that length, and by path-path of up to 2 ** (max_iterations - 1).
    rule: which of `RULES` derives the closure.
    query_seconds: seconds that an evaluation may take: a run from its facts on, or in a session a query, a transaction, a
        subscription or a registration, with the time that it waits for others. Then it ends in `LimitExceeded`, which names
        the rule that was running. None sets no limit.
    query_bytes: bytes that an evaluation may add to relations, symbols and records, wherever they are. Facts that a run reads
        do not count. Then it ends in `LimitExceeded`. None sets no limit. As an option it may have a unit, "2G".
    checkpoint_dir, checkpoint_interval: the engine copies the runs to this durable directory, which every host must see. It
        does so every so many iterations of a stratum on the partitions, and after strata that took long. A later run of the
        same program on the same facts resumes there, with any number of partitions. So does this run, if it loses its state.
        One run at a time uses the directory, and the directory is empty again once the run is complete. It must belong to this
        user, and be writable by no other user.
    local_dir: where runs live on each host. None means the system's temporary directory.
    null: how missing values of facts are read where no .input says it: "error", "skip" (the row is left out), or a text that is
        read in place of each missing value.
    """

    buckets: int | None = None
    partitions: int | None = None
    check_interval: int = 1
    policy: str = "work"
    refine: bool = True
    refinement_minimum: int | None = None
    tolerance: float = 1.1
    grain: float = 0.5
    horizon: float = 4.0
    refinement_ratio: float = 3.0
    refinement_factor: int = 4
    consolidate: bool = True
    consolidation_fraction: float = 0.6
    copy_inner: bool = True
    rollover: bool = True
    rollover_threshold: int = 8_000_000
    run_ahead: int = 1_000_000
    run_ahead_budget: int = 4_000_000
    local_tuples: int | None = None
    small_delta: int = 1000
    memory: int | None = None
    replicate_bytes: int = 1 << 30
    multiway: str = "auto"
    follow: float = 0.15
    max_iterations: int | None = None
    query_seconds: float | None = None
    query_bytes: int | None = None
    rule: str = "path-edge"
    checkpoint_dir: str | None = None
    checkpoint_interval: int = 10
    local_dir: str | None = None
    null: str = "error"

    def __post_init__(self):
        for name in ("buckets", "partitions", "check_interval", "rollover_threshold", "max_iterations",
                     "checkpoint_interval", "run_ahead_budget", "memory", "query_bytes"):  # fmt: skip
            self._check(name, lambda value: isinstance(value, int) and value >= 1, "a whole number from 1")
        for name in ("run_ahead", "refinement_minimum", "local_tuples", "small_delta", "replicate_bytes"):
            self._check(name, lambda value: isinstance(value, int) and value >= 0, "a whole number from 0")
        self._check("query_seconds", lambda value: 0 < value < inf, "a number of seconds above 0")
        self._check("follow", lambda value: 0 <= value < inf, "a number from 0")
        for name in ("refinement_ratio", "tolerance"):
            self._check(name, lambda value: value >= 1, "a number from 1")
        for name in ("grain", "horizon"):
            self._check(name, lambda value: value > 0, "a number above 0")
        self._check("policy", lambda value: value in POLICIES, f"one of {', '.join(POLICIES)}")
        self._check("multiway", lambda value: value in MULTIWAY, f"one of {', '.join(MULTIWAY)}")
        self._check("refinement_factor", lambda value: isinstance(value, int) and value >= 2, "a whole number from 2")
        self._check("consolidation_fraction", lambda value: 0 <= value <= 1, "a number from 0 to 1")
        self._check("rule", lambda value: value in RULES, f"one of {', '.join(RULES)}")

    def _check(self, name: str, holds: Callable[[Any], bool], expected: str) -> None:
        """Raise ValueError unless a field has an accepted value, or None if that is its default. holds: accepts a value;
        expected: describes accepted values."""
        value = getattr(self, name)
        optional = {field.name for field in fields(self) if field.default is None}
        try:
            accepted = (value is None and name in optional) or (value is not None and holds(value))
        except TypeError:
            accepted = False
        if not accepted or isinstance(value, bool):  # True is an int to Python, and a number is expected
            raise ValueError(f"Config.{name} is {value!r}: expected {expected}")

    def with_options(self, options: dict) -> "Config":
        """Return this configuration with some fields replaced. Values may be strings, as of `--set buckets=64`. Raises
        ValueError for an unknown field or an invalid value."""
        known = {f.name: f for f in fields(self)}
        for name in options:
            if name not in known:
                from semi_naive.host.similar import unknown

                raise ValueError(unknown("option", name, known))
        return replace(self, **{name: _parse_setting(name, known[name].type, value) for name, value in options.items()})

    @classmethod
    def paper(cls, ranks: int = 64, **options) -> "Config":
        """Return the configuration of *Load-balancing Parallel Relational Algebra*: refinement and consolidation by stored
        sizes, all on the partitions, without features that the paper lacks (replicated relations, copies of buckets, running
        ahead, a least size of refined subbuckets). ranks: the number of partitions; there are as many buckets."""
        known: dict[str, Any] = {"policy": "paper", "buckets": ranks, "check_interval": 2, "refinement_minimum": 0}
        return cls(**known | {"replicate_bytes": 0, "copy_inner": False, "run_ahead": 0, "local_tuples": 0} | options)

    def buckets_on(self, partitions: int) -> int:
        """Return the number of buckets for a number of partitions."""
        return self.buckets or max(64, 8 * partitions)

    def least(self, job: float = TUPLES_WORTH_A_JOB) -> int:
        """Return the tuples that a rebalancing must save, see `refinement_minimum`. job: the tuples that a job is worth."""
        return max(1024, int(job)) if self.refinement_minimum is None else self.refinement_minimum

    @property
    def threshold(self) -> int | None:
        """The tuples after which a local join rolls over; None if it never does."""
        return self.rollover_threshold if self.rollover else None

    def to_json(self) -> dict:
        return asdict(self)

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in changed_settings(self).items())})"


def changed_settings(config: Config) -> dict[str, Any]:
    """Return the settings that differ from the defaults."""
    return {each.name: getattr(config, each.name) for each in fields(config) if getattr(config, each.name) != each.default}


def _parse_setting(name: str, kind, value):
    """Convert the text of an option to the type of its field. Raises ValueError if it is not a value of that type."""
    if not isinstance(value, str) or "str" in str(kind):
        return value
    words = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False, "none": None}
    if value.lower() in words and value.lower() not in ("0", "1"):
        return words[value.lower()]
    try:
        if name in BYTES:
            return parse_bytes(value)
        return float(value) if "float" in str(kind) else int(value.replace("_", ""))
    except ValueError:
        raise ValueError(f"{name}={value}: expected {_accepted_values(name, str(kind))}") from None


def _accepted_values(name: str, kind: str) -> str:
    """Describe the values that a field of a kind accepts.

    >>> _accepted_values("buckets", "int | None"), _accepted_values("refine", "bool"), _accepted_values("tolerance", "float")
    ('a whole number, or none', 'on or off', 'a number')
    """
    if name in BYTES:
        return "a number of bytes, such as 500000, 64M or 2G"
    words = {"bool": "on or off", "float": "a number", "int": "a whole number"}
    return next(word for part, word in words.items() if part in kind) + ", or none" * ("None" in kind)
