"""Rounds of jobs that evaluate rule versions on the partitions: each job runs all stages, until no work is left."""

from collections.abc import Callable, Iterator

from semi_naive.ra.rules.context import World
from semi_naive.ra.rules.evaluate import Evaluate, Remaining, Version
from semi_naive.ra.spark.reports import Report
from semi_naive.running.relations.cluster import Cluster

Waiting = dict[int, list[list[Remaining]]]  # by stage and partition: the evaluations that are not finished


def evaluate_in_rounds(
    cluster: Cluster, world: World, versions: list[Version], threshold: int | None, name: str, last: Callable = lambda label: []
) -> Iterator[tuple[list, Waiting]]:
    """Evaluate rule versions. Yields for each job its results and the remaining work.

    threshold: a partition stops in a stage of one job once it has made more tuples.
    last: function of a job's label that returns the tasks at its end.

    Work that remains in a late stage is done before an early stage continues, so the waiting bindings are bounded.
    """
    stages, partitions = max([len(version.segments) for version in versions], default=1), cluster.jobs.partitions
    for version in versions:
        version.first = stages - len(version.segments)
    remaining, number = _first_stages(versions, partitions), 0
    while remaining:
        label = cluster.label(f"{name}.{number}")
        due = max(remaining) if number else 0
        tasks = [
            Evaluate(
                world, versions, stage, partitions, threshold, remaining.pop(stage, [[]] * partitions), cluster.root, label
            )
            for stage in range(due, stages)
        ]  # fmt: skip
        finish = last(label)
        results = cluster.jobs.job(*tasks, *finish)
        results = results if finish else [record for _, record in results]
        remaining |= _unfinished(results, partitions)
        yield results, remaining
        number += 1


def _first_stages(versions: list[Version], partitions: int) -> Waiting:
    """Return the work of each partition in the stages in which versions begin."""
    return {
        stage: [[Remaining(v.number) for v in versions if v.first == stage and v.begins(p)] for p in range(partitions)]
        for stage in {version.first for version in versions}
    }


def evaluations(results) -> list[Report]:
    """The reports of evaluations, in a fixed order."""
    made = (result for result in results if isinstance(result, Report) and "left" in result.facts)
    return sorted(made, key=lambda report: (report.partition, report.facts["stage"], report.facts["number"]))


def _unfinished(results, partitions: int) -> Waiting:
    """Return the remaining work that the reports of a job contain, by stage and partition."""
    remaining: Waiting = {}
    for report in evaluations(results):
        if report.facts["left"] is not None:
            stage = remaining.setdefault(report.facts["stage"], [[] for _ in range(partitions)])
            stage[report.partition].append(report.facts["left"])
    return remaining
