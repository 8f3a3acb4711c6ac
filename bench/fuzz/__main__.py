"""Random programs against the oracle and Soufflé: `python -m bench.fuzz [--count N] [--seed S] [--souffle DIR] [--spark N]`.

Each program is evaluated a tuple at a time, a block at a time, on partitions, and by sessions, whose maintenance has no limit,
a small budget, or is interrupted whenever its work is counted. With --souffle, all programs are of the language that
Soufflé has as well, and Soufflé answers, too. Prints each finding with a smaller case and the command that does it again. Exit
status 1 if there was a finding.
"""

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from random import Random

from bench.command import say
from bench.fuzz.checks import BUDGETS, agrees, agrees_within, check, ending, layouts, load_machine
from bench.fuzz.jobs_here import in_this_process, on_threads
from bench.fuzz.random_programs import random_case
from bench.fuzz.rounds import judge
from bench.fuzz.souffle import BEYOND, agrees_with_souffle, souffle_of
from semi_naive import Config

CHECKS = "tuples", "blocks", "partitions", "threads", "spark", "session", "budget", "interrupted", "souffle"


def main(arguments=None) -> int:
    options = parsed(arguments)
    souffle = souffle_of(options.souffle) if options.souffle is not None else None
    if options.souffle is not None and souffle is None:
        say("bench.fuzz: there is no Soufflé: name the folder that it is in with --souffle DIR")
        return 2
    logging.getLogger("semi_naive").setLevel(logging.ERROR)
    load_machine()
    begun, findings, runs = time.monotonic(), 0, Counter()
    with in_this_process() as here:
        for number in range(options.count):
            seed = options.seed + number
            for name, checked in checks(options, number, here, souffle).items():
                if options.only is None or name in options.only.split(","):
                    runs[name] += 1
                    findings += not passes(seed, name, checked, options)
            if number % 100 == 99:
                say(f"{number + 1:,} programs: {findings} findings")
    counted = ", ".join(f"{name} {count:,}" for name, count in runs.items())
    say(f"{options.count:,} programs in {time.monotonic() - begun:.0f} s ({counted}): {findings} findings")
    return int(findings > 0)


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500, help="programs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the next one has the next (default: 0)")
    told = "compare with Soufflé (64 bit), which is in this folder; without one in SEMI_NAIVE_SOUFFLE, or on the PATH"
    parser.add_argument("--souffle", metavar="DIR", nargs="?", const="", help=told)
    parser.add_argument("--spark", type=int, default=0, metavar="N", help="run every Nth program on Spark as well")
    parser.add_argument("--only", metavar="CHECKS", help=f"only these, separated by commas: {', '.join(CHECKS)}")
    options = parser.parse_args(arguments)
    if unknown := set((options.only or "").split(",")) - {*CHECKS, ""}:
        parser.error(f"--only: there is no check {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    return options


def check_on_threads(case, random) -> None:
    with on_threads():
        check(case, random.choice(layouts(1 << 30, 100, 0)))


def checks(options, number: int, here, souffle: str | None) -> dict[str, Callable]:
    """By name the checks of a program, which get its case and a `random.Random` for choices."""
    chosen: dict[str, Callable] = {
        "tuples": lambda case, random: check(case, Config(small_delta=random.choice([1, 2, 3, 5, 50_000]))),
        "blocks": lambda case, random: check(case, Config(small_delta=0)),
        "partitions": lambda case, random: check(case, random.choice(layouts(1 << 30, 100, 0)), spark=here),
        "threads": check_on_threads,
        "session": lambda case, random: agrees(case, small_delta=random.choice([0, 2, 50_000])),
        "budget": lambda case, random: agrees_within(random.choice(BUDGETS), case, small_delta=random.choice([0, 1000])),
        "interrupted": _ends_at_random,
    }
    if options.spark and number % options.spark == 0:
        chosen["spark"] = _on_spark
    if souffle is not None:
        chosen["souffle"] = lambda case, random: agrees_with_souffle(case, souffle)
    return chosen


def _ends_at_random(case, random) -> None:
    often = random.choice([1, 2, 4, 10, 30])
    with ending(lambda look: random.randrange(often) == 0):
        agrees(case)


def _on_spark(case, random) -> None:
    from semi_naive.ra.spark import spark_context

    check(case, random.choice(layouts(1 << 30, 100, 0)), spark=spark_context.start(cores=2))


def passes(seed: int, name: str, checked: Callable, options) -> bool:
    """Judge the program of a seed by a check; tell what is found."""
    within = {"without": BEYOND, "features": {"text"}} if options.souffle is not None else {}
    try:
        judge(random_case(Random(seed), **within), seed, lambda case: checked(case, Random(seed)))
    except AssertionError as error:
        say(f"finding by {name}: {error}")
        souffle = f" --souffle {options.souffle}".rstrip() if options.souffle is not None else ""
        say(f"again: python -m bench.fuzz --count 1 --seed {seed} --only {name}{souffle}\n")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
