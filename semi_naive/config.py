"""Every tunable of an evaluation, by the name and with the default of the paper where it has one."""

from dataclasses import asdict, dataclass, fields, replace

RULES = {
    "path-edge": "path(x, z) :- path(x, y), edge(y, z).",
    "edge-path": "path(x, z) :- edge(x, y), path(y, z).",
    "path-path": "path(x, z) :- path(x, y), path(y, z).",
}
REPLICATED = 200_000_000  # edges that every host is expected to hold whole, at 8 bytes each
PLANS = ("auto", "balanced", "decomposed")


@dataclass(frozen=True)
class Config:
    """How to evaluate. The answer does not depend on any of it, except on `max_iterations` and on what ids are allowed.

    buckets: the fixed number of buckets of a relation.
    partitions: Spark partitions; None: as many as Spark has cores.
    check_interval: look at the sizes every so many iterations.
    refine, refinement_ratio, refinement_factor: split a bucket whose heaviest subbucket exceeds `refinement_ratio` times
        the average subbucket (and has `refinement_minimum` tuples) into `refinement_factor` times as many.
    relief_ratio: beyond the paper, also split the heaviest bucket of a partition that holds more than so many times the
        average of the partitions; None: buckets alone decide.
    consolidate, consolidation_fraction: once more than this fraction of buckets is refined, merge the light ones.
    copy_inner: copy an unrefined bucket of the (static) inner relation to the partitions its refined counterpart was
        dealt to, instead of sending the counterpart's delta to it in every iteration.
    rollover, rollover_threshold: a local join that has made so many tuples ships them and goes on in an inner iteration.
    run_ahead: while delta has at most so many tuples, take several steps in one job (0: never); run_ahead_budget bounds
        the tuples one partition makes that way.
    local_tuples: a stratum of a Datalog program is evaluated in the driver, without a Spark job, until its rules make so many
        tuples in one iteration (0: never). None: 4 million; 64 million where Spark has no more than two cores, as two
        partitions take as long for what they send each other as they save.
    max_iterations: stop early, with the paths of up to that length; for path-path, of up to 2 ** (max_iterations - 1).
    rule: which of `RULES` derives the closure.
    checkpoint_dir, checkpoint_interval: copy the runs to a durable directory, one that every host sees, every so many
        iterations, and take up from there whatever an earlier evaluation of the same input left.
    local_dir: where runs live on each host; None: the system's temporary directory.
    """

    buckets: int = 64
    partitions: int | None = None
    check_interval: int = 2
    refine: bool = True
    refinement_ratio: float = 3.0
    refinement_factor: int = 4
    refinement_minimum: int = 1024
    relief_ratio: float | None = 1.25
    consolidate: bool = True
    consolidation_fraction: float = 0.6
    copy_inner: bool = True
    rollover: bool = True
    rollover_threshold: int = 8_000_000
    run_ahead: int = 1_000_000
    run_ahead_budget: int = 4_000_000
    local_tuples: int | None = None
    max_iterations: int | None = None
    rule: str = "path-edge"
    checkpoint_dir: str | None = None
    checkpoint_interval: int = 10
    local_dir: str | None = None

    def __post_init__(self):
        for name in ("buckets", "partitions", "check_interval", "rollover_threshold", "max_iterations",
                     "checkpoint_interval", "run_ahead_budget"):  # fmt: skip
            self._check(name, lambda value: isinstance(value, int) and value >= 1, "a whole number from 1")
        for name in ("run_ahead", "refinement_minimum", "local_tuples"):
            self._check(name, lambda value: isinstance(value, int) and value >= 0, "a whole number from 0")
        self._check("refinement_ratio", lambda value: value >= 1, "a number from 1")
        self._check("relief_ratio", lambda value: value >= 1, "a number from 1, or None")
        self._check("refinement_factor", lambda value: isinstance(value, int) and value >= 2, "a whole number from 2")
        self._check("consolidation_fraction", lambda value: 0 <= value <= 1, "a number from 0 to 1")
        self._check("rule", lambda value: value in RULES, f"one of {', '.join(RULES)}")

    def _check(self, name, holds, expected: str) -> None:
        value = getattr(self, name)
        optional = {"partitions", "max_iterations", "relief_ratio", "local_tuples"}
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
