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
    """Evaluate rule versions by one or more jobs. Yield (results, remaining work) of each job.

    threshold: a partition stops in a stage of one job once it has made more tuples.
    name: the beginning of the jobs' labels.
    last: a function that returns the last tasks of a job for its label.

    Work that remains in a late stage is done before an early stage continues, so the waiting bindings are bounded.
    """
    stages, partitions = max([len(version.segments) for version in versions], default=1), cluster.jobs.partitions
    for version in versions:
        version.first = stages - len(version.segments)  # so that all versions end in the last stage
    remaining: Waiting = {  # at first, for each version the stage in which it begins
        stage: [[Remaining(v.number) for v in versions if v.first == stage and v.begins(p)] for p in range(partitions)]
        for stage in {version.first for version in versions}
    }
    number = 0
    while remaining:
        label = cluster.label(f"{name}.{number}")
        tasks = []
        for stage in range(max(remaining) if number else 0, stages):  # at first all, then from the latest with work on
            work = remaining.pop(stage, [[]] * partitions)  # one list for all, which is only read
            tasks.append(Evaluate(world, versions, stage, partitions, threshold, work, cluster.root, label))
        last_tasks = last(label)
        results = cluster.jobs.job(*tasks, *last_tasks)
        results = results if last_tasks else [record for _, record in results]  # Evaluate yields (destination, record)
        for report in evaluations(results):
            if report.facts["left"] is not None:
                waiting = remaining.setdefault(report.facts["stage"], [[] for _ in range(partitions)])
                waiting[report.partition].append(report.facts["left"])
        yield results, remaining
        number += 1


def evaluations(results) -> list[Report]:
    """Return the reports of evaluations among the results of a job, by partition, stage and number."""
    reports = (result for result in results if isinstance(result, Report) and "left" in result.facts)
    return sorted(reports, key=lambda report: (report.partition, report.facts["stage"], report.facts["number"]))
