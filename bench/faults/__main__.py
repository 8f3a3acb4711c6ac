"""Faults at random moments: `python -m bench.faults [--minutes M] [--runs N] [--seed S] [--only KIND]`.

Prints how often each kind of fault ended in the right answer and how often in a clear error, and each finding with the command
that does it again. Exit status 1 if there was a finding.
"""

import argparse
import os
import sys
import time
from collections import Counter
from random import Random

from bench.command import say, show
from bench.faults import exhaustion, session_kinds  # noqa: F401 (they add kinds)
from bench.faults.kinds import KINDS
from bench.faults.layouts import PLACES
from bench.faults.trial import CLEAR, RIGHT, FaultTrial


def main(arguments=None) -> int:
    options = parsed(arguments)
    counts: dict[str, Counter] = {}
    wrong = 0
    for number, seed in enumerate(seeds(options), 1):
        begun = time.monotonic()
        trial = tried(seed, options.only, options.where)
        seconds = time.monotonic() - begun
        counts.setdefault(trial.kind, Counter()).update({"runs": 1, trial.result: 1})
        wrong += bool(trial.findings)
        say(f"{number}: seed {seed}, {trial.kind}: {trial.result} in {seconds:.1f} s ({trial.about})")
        for finding in trial.findings:
            say(f"  finding: {finding}")
        if trial.findings:
            where = f" --where {options.where}" if options.where else ""
            say(f"  again: python -m bench.faults --runs 1 --seed {seed} --only {trial.kind.replace(' ', '-')}{where}")
    show([table(counts)], False)
    return int(wrong > 0)


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, help="begin no further trial after so many (default: 10, or as --runs says)")
    parser.add_argument("--runs", type=int, help="so many trials")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first trial; the next one has the next (default: %(default)s)"
    )
    names = [name.replace(" ", "-") for name in KINDS]
    parser.add_argument("--only", choices=names, metavar="KIND", help=f"only this kind of fault: {', '.join(names)}")
    parser.add_argument("--where", choices=PLACES, help="only in this place, and only faults that can be there")
    return parser.parse_args(arguments)


def seeds(options):
    """One after the other, until there were enough."""
    minutes = options.minutes or (10 if options.runs is None else float("inf"))
    until, runs = time.monotonic() + 60 * minutes, options.runs or sys.maxsize
    for number in range(runs):
        if number and time.monotonic() > until:
            break
        yield options.seed + number


def tried(seed: int, only: str | None, where: str | None = None) -> FaultTrial:
    """The trial of a seed. Its kind is drawn apart, so that --only finds the same trial."""
    possible = [each for each in KINDS.values() if (not where or where in each.places) and not _refused(each)]
    drawn = Random(f"kind {seed}").choices(possible, [each.weight for each in possible])[0]
    kind = KINDS[only.replace("-", " ")] if only else drawn
    with FaultTrial(kind.name, seed, (where,) if where else kind.places, kind.workloads, kind.plan) as trial:
        kind.scenario(trial)
    return trial


def _refused(kind) -> bool:
    """Whether it cannot be here."""
    return kind.needs_root and os.geteuid() != 0


def table(counts: dict[str, Counter]):
    """One row for each kind."""
    from rich.table import Table

    made = Table("fault", title="Faults")
    for column in ("runs", RIGHT, CLEAR, "findings"):
        made.add_column(column, justify="right")
    for name in [*sorted(counts), "all"]:
        counted = sum(counts.values(), Counter()) if name == "all" else counts[name]
        made.add_row(name, *(f"{counted[column]:,}" for column in ("runs", RIGHT, CLEAR, "findings")))
    return made


if __name__ == "__main__":
    sys.exit(main())
