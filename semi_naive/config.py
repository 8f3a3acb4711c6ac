"""Every tunable of an evaluation, by the name and with the default of the paper where it has one."""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

RULES = {
    "path-edge": "path(x, z) :- path(x, y), edge(y, z).",
    "edge-path": "path(x, z) :- edge(x, y), path(y, z).",
    "path-path": "path(x, z) :- path(x, y), path(y, z).",
}
REPLICATED = 200_000_000  # edges that every host is expected to hold whole, at 8 bytes each
PLANS = ("auto", "balanced", "decomposed")
POLICIES = ("work", "paper")
MULTIWAY = ("auto", "always", "never")
JOB = 1_000_000  # tuples that are joined and inserted on a partition while Spark runs a job of nothing


@dataclass(frozen=True)
class Config:
    """How to evaluate. The answer does not depend on any of it, except on `max_iterations` and on what ids are allowed.

    buckets: the fixed number of buckets of a relation; None: eight a partition, and at least 64.
    partitions: Spark partitions; None: as many as Spark has cores.
    check_interval: look at the balance every so many iterations.
    policy: "work", by the work that the next iteration is expected to be, or "paper", by what is stored (`balance.placement`).
    refine: whether to act on imbalance at all, of either policy.
    refinement_minimum: tuples that rebalancing must promise to save the heaviest partition within `horizon`; of policy
        "paper", that a subbucket must have. None: a million, what a Spark job is worth; simulated, what a job of the
        machine is, and at least 1,024.
    tolerance: of policy "work", heaviest ÷ average partition up to which nothing is done.
    horizon: of policy "work", the iterations in which what a rebalancing moves must have been saved.
    grain: of policy "work", the share of the average partition's work that a subbucket may be before it is split.
    refinement_ratio, refinement_factor: of policy "paper", split a bucket whose heaviest subbucket exceeds `refinement_ratio`
        times the average subbucket into `refinement_factor` times as many.
    consolidate, consolidation_fraction: of policy "paper", once more than this fraction of buckets is refined, merge the
        light ones.
    copy_inner: of a partitioned relation that never changes, copy an unrefined bucket to the partitions that the bucket of
        what is joined with it was dealt to, instead of sending the delta to it in every iteration.
    rollover, rollover_threshold: a local join that has made so many tuples ships them and goes on in an inner iteration.
    run_ahead: while delta has at most so many tuples, take several steps in one job (0: never); run_ahead_budget bounds
        the tuples one partition makes that way.
    local_tuples: a stratum of a Datalog program is evaluated in the driver, without a Spark job, until its rules make so many
        tuples in one iteration (0: never). None: 4 million; 64 million where Spark has no more than two cores, as two
        partitions take as long for what they send each other as they save.
    replicate_bytes: bytes of each host for copies of what a stratum on the partitions reads of other strata: all indexes that
        are replicated take no more together, the smallest first; the others are partitioned, each tuple on one host. 1 GiB.
    multiway: "auto": the cyclic core of a rule's body is joined variable by variable where binary joins are expected to make
        many more bindings; "always": whatever can be, "never": nothing.
    max_iterations: every recursive stratum stops after so many iterations of semi-naive evaluation. The first is its facts
        and its rules without recursion; each further one applies all rules to what there was at the end of the one before. So
        a closure has the paths of up to that length, and one by path-path those of up to 2 ** (max_iterations - 1).
    rule: which of `RULES` derives the closure.
    checkpoint_dir, checkpoint_interval: copy the runs to a durable directory, one that every host sees, every so many
        iterations of a stratum on the partitions, and after strata that took long. A run of the same program on the same facts
        takes up from there what an earlier one left, whatever its number of partitions; so does this one, should it lose runs.
        The directory is one run's; it is empty again once the run is complete.
    local_dir: where runs live on each host; None: the system's temporary directory.
    """

    buckets: int | None = None
    partitions: int | None = None
    check_interval: int = 1
    policy: str = "work"
    refine: bool = True
    refinement_minimum: int | None = None
    tolerance: float = 1.1
    grain: float = 0.5
    horizon: float = 2.0
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
    replicate_bytes: int = 1 << 30
    multiway: str = "auto"
    max_iterations: int | None = None
    rule: str = "path-edge"
    checkpoint_dir: str | None = None
    checkpoint_interval: int = 10
    local_dir: str | None = None

    def __post_init__(self):
        for name in ("buckets", "partitions", "check_interval", "rollover_threshold", "max_iterations",
                     "checkpoint_interval", "run_ahead_budget"):  # fmt: skip
            self._check(name, lambda value: isinstance(value, int) and value >= 1, "a whole number from 1")
        for name in ("run_ahead", "refinement_minimum", "local_tuples", "replicate_bytes"):
            self._check(name, lambda value: isinstance(value, int) and value >= 0, "a whole number from 0")
        self._check("refinement_ratio", lambda value: value >= 1, "a number from 1")
        self._check("tolerance", lambda value: value >= 1, "a number from 1")
        self._check("grain", lambda value: value > 0, "a number above 0")
        self._check("horizon", lambda value: value > 0, "a number above 0")
        self._check("policy", lambda value: value in POLICIES, f"one of {', '.join(POLICIES)}")
        self._check("multiway", lambda value: value in MULTIWAY, f"one of {', '.join(MULTIWAY)}")
        self._check("refinement_factor", lambda value: isinstance(value, int) and value >= 2, "a whole number from 2")
        self._check("consolidation_fraction", lambda value: 0 <= value <= 1, "a number from 0 to 1")
        self._check("rule", lambda value: value in RULES, f"one of {', '.join(RULES)}")

    def _check(self, name, holds, expected: str) -> None:
        value = getattr(self, name)
        optional = {"buckets", "partitions", "max_iterations", "refinement_minimum", "local_tuples"}
        try:
            right = (value is None and name in optional) or (value is not None and holds(value))
        except TypeError:
            right = False
        if not right or (isinstance(value, bool)):
            raise ValueError(f"Config.{name} is {value!r}: expected {expected}")

    def with_options(self, options: dict) -> "Config":
        """This configuration with some fields replaced, values also given as strings (`--set buckets=64`)."""
        known = {f.name: f for f in fields(self)}
        for name in options:
            if name not in known:
                raise ValueError(f"there is no option {name!r}: expected one of {', '.join(sorted(known))}")
        return replace(self, **{name: _parsed(name, known[name].type, value) for name, value in options.items()})

    @classmethod
    def paper(cls, **options) -> "Config":
        """As *Load-balancing Parallel Relational Algebra* has it: refinement and consolidation by what is stored, and nothing
        that the paper does not know (replicated relations, copies of buckets, running ahead)."""
        known: dict[str, Any] = {"policy": "paper", "buckets": 64, "check_interval": 2, "refinement_minimum": 1024}
        return cls(**known | {"replicate_bytes": 0, "copy_inner": False, "run_ahead": 0} | options)

    def buckets_on(self, partitions: int) -> int:
        """The number of buckets where there are so many partitions."""
        return self.buckets or max(64, 8 * partitions)

    def least(self, job: float = JOB) -> int:
        """Tuples that a rebalancing must be worth, where a job is worth so many."""
        return max(1024, int(job)) if self.refinement_minimum is None else self.refinement_minimum

    @property
    def threshold(self) -> int | None:
        return self.rollover_threshold if self.rollover else None

    def to_json(self) -> dict:
        return asdict(self)


def _parsed(name: str, kind, value):
    if not isinstance(value, str) or "str" in str(kind):
        return value
    words = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False, "none": None}
    if value.lower() in words and value.lower() not in ("0", "1"):
        return words[value.lower()]
    try:
        return float(value) if "float" in str(kind) else int(value.replace("_", ""))
    except ValueError:
        raise ValueError(f"{name}={value}: expected {getattr(kind, '__name__', kind)}") from None
