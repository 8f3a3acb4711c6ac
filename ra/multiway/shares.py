"""Leapfrog triejoin by the tasks of a cluster: every host has the tries in files, and tasks divide the first variable's values
among them.

The values are cut into many ranges, and each task takes every k-th, so that heavy and light ranges are mixed. Nothing is
shuffled.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from semi_naive.ra.multiway.leapfrog import TASKS_PER_CORE, Leapfrog, bind_loops, domain_for_tasks
from semi_naive.ra.multiway.query import ConjunctiveQuery
from semi_naive.ra.multiway.tries.arrays import ArrayFile
from semi_naive.ra.multiway.tries.domain import Domain
from semi_naive.ra.multiway.tries.trie import TrieArray, Tries
from semi_naive.ra.spark.jobs import PartitionedJobs
from semi_naive.ra.spark.spark_context import cores
from semi_naive.ra.storage.runs import Store


def run_shares(query: ConjunctiveQuery, relations: Mapping | Tries, sc, *, count: bool = False, local_dir: str | None = None):
    """Run `leapfrog.leapfrog_join` as one Spark job.

    Builds the tries here and broadcasts them to `local_dir` (default: the system's temporary directory) of every host: some 20
    bytes a tuple of two values. A listed answer goes through Spark to this process, 8 bytes a value. If a count factors into
    components, one task does all the work. Raises JobFailed.
    """
    store, tasks = Store.create(local_dir), TASKS_PER_CORE * cores(sc)
    jobs = PartitionedJobs(sc, tasks)
    try:
        join = Leapfrog.of(query, relations)
        files = [ArrayFile.share(trie.arrays(), sc, store, f"{slot}.trie") for slot, trie in enumerate(join.arrays)]
        keep = 0 if count else len(query.variables)
        domain = domain_for_tasks(join.shape, join.tries.domain)
        parts = jobs.job(Share(query, join.shape.order, keep, domain, files, tasks))
        return sum(count_of_range for count_of_range, _ in parts) if count else join.concatenated(parts)
    finally:
        jobs.remove(store)
        jobs.close()


@dataclass
class Share:
    """A task that joins its share of the ranges in one thread."""

    query: ConjunctiveQuery
    order: tuple[str, ...]
    keep: int
    domain: Domain
    files: list[ArrayFile]
    tasks: int

    def __call__(self, partition, records):
        """Evaluate this partition's share of the values of the first variable. Return (count, rows) of each range; if answers
        are only counted, one (count, None)."""
        loops = bind_loops(self.query, self.order, self.keep, self.domain, list(map(TrieArray.mapped, self.files)))
        parts = loops.pieces(1, share=(partition, self.tasks))
        return parts if self.keep else [(sum(count for count, _ in parts), None)]
