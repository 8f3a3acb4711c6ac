"""Find settings that have no effect under the plans used or with other settings, and describe them.

Only durability is more than a matter of speed: a closure that is asked to be decomposed refuses a `checkpoint_dir`.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from semi_naive.config import Config, changed_settings

SPREAD = ("buckets", "partitions", "replicate_bytes")  # settings of strata on the partitions, under both plans
WORK = ("tolerance", "horizon", "grain")
PAPER = ("refinement_ratio", "refinement_factor", "consolidate", "consolidation_fraction")
REFINED = ("policy", "refinement_minimum", *WORK, *PAPER)
BALANCED = (
    "check_interval", "refine", *REFINED, "copy_inner", "rollover", "rollover_threshold", "run_ahead", "run_ahead_budget",
)  # fmt: skip
LOCAL = "every stratum was evaluated in the driver; with local_tuples=0 they are on the partitions"
DECOMPOSED = 'no stratum was evaluated by the balanced plan, and no other one uses that; plan="balanced" asks for it'


class NoEffect(NamedTuple):
    """A rule: the settings have no effect if `holds(configuration, plans used)` is true. why: the reason."""

    settings: tuple[str, ...]
    holds: Callable[[Config, set[str]], bool]
    why: str


RULES = (
    NoEffect(("rule",), lambda config, plans: True, "a program has its own rules"),
    NoEffect(("follow",), lambda config, plans: True, "it is for sessions"),
    NoEffect(("checkpoint_interval",), lambda config, plans: not config.checkpoint_dir, "no checkpoint_dir is given"),
    NoEffect((*SPREAD, *BALANCED), lambda config, plans: plans == {"local"}, LOCAL),
    NoEffect(("small_delta",), lambda config, plans: "local" not in plans, "no stratum was evaluated in the driver"),
    NoEffect(("memory",), lambda config, plans: config.local_tuples == 0 and plans == {"balanced"}, "local_tuples is 0"),
    NoEffect(BALANCED, lambda config, plans: "balanced" not in plans, DECOMPOSED),
    NoEffect(REFINED, lambda config, plans: not config.refine, "refine is off"),
    NoEffect(PAPER, lambda config, plans: config.policy == "work", 'the policy is "work"'),
    NoEffect(WORK, lambda config, plans: config.policy == "paper", 'the policy is "paper"'),
    NoEffect(("rollover_threshold",), lambda config, plans: not config.rollover, "rollover is off"),
    NoEffect(("run_ahead_budget",), lambda config, plans: config.run_ahead == 0, "run_ahead is 0"),
)
ASKED_FOR = "a closure is on the partitions where a plan is asked for"
OF_A_CLOSURE = (  # further rules for a closure
    NoEffect(("multiway",), lambda config, plans: True, "a closure joins two relations"),
    NoEffect(("null",), lambda config, plans: True, "missing values in edges are an error"),
    NoEffect(("local_tuples", "memory"), lambda config, plans: "auto" not in plans, ASKED_FOR),
)


def unused_settings(config: Config, plans: Iterable[str], rules: tuple[NoEffect, ...] = RULES) -> list[str]:
    """Return a note for each reason for which given settings had no effect on the strata evaluated by some plans.

    >>> unused_settings(Config(buckets=8, refine=False, grain=0.1), {"balanced"})
    ['the setting grain has no effect: refine is off']
    >>> unused_settings(Config(buckets=8, max_iterations=3, checkpoint_interval=5), {"decomposed", "local"})
    ['the setting checkpoint_interval has no effect: no checkpoint_dir is given']
    """
    remaining, notes, used = [*changed_settings(config)], [], set(plans)
    for rule in rules if used else ():  # nothing was evaluated: nothing can be told
        names = [name for name in remaining if name in rule.settings and rule.holds(config, used)]
        remaining = [name for name in remaining if name not in names]
        if names:
            subject = f"the setting {names[0]} has" if len(names) == 1 else f"the settings {', '.join(names)} have"
            notes.append(f"{subject} no effect: {rule.why}")
    return notes
