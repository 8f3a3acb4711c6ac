"""Spark's page: each job has a description, and the run's job group unless the user's thread has one."""

import threading

import pytest

from semi_naive import Program
from semi_naive.ra.spark.failures import JobFailed

CLOSURE = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
EDGES = [(x, x + 1) for x in range(6)]
FORCED = {"local_tuples": 0, "partitions": 2, "run_ahead": 0}


@pytest.fixture
def jobs_of(spark):
    """Return a function: for a job group, the descriptions of its jobs in order."""
    context = spark.sparkContext
    for name in ("spark.jobGroup.id", "spark.job.description"):  # what tests before this one may have set
        context.setLocalProperty(name, None)

    def jobs(group: str) -> list[str]:
        store = context._jsc.sc().statusStore()
        found = [store.job(number) for number in context.statusTracker().getJobIdsForGroup(group)]
        return [job.description().get() for job in sorted(found, key=lambda job: job.jobId())]

    return jobs


def test_jobs_are_described_and_in_the_group_of_the_run(spark, jobs_of):
    program = Program(CLOSURE, file="reach.dl")
    with program.run({"edge": EDGES}, spark=spark, plan="balanced", **FORCED) as result:
        assert result["path"].count() == 21
        described = jobs_of(result.trace["run"])
    assert described and all(text.startswith("reach.dl") for text in described), described
    assert any("path (stratum " in text and "iteration " in text and "insert" in text for text in described), described


def test_a_group_and_a_description_of_the_users_thread_stay(spark, jobs_of):
    context = spark.sparkContext
    context.setJobGroup("nightly", "the nightly load")
    try:
        with Program(CLOSURE).run({"edge": EDGES}, spark=spark, plan="balanced", **FORCED) as result:
            assert result["path"].count() == 21 and not jobs_of(result.trace["run"])
        described = jobs_of("nightly")
        assert described and all(text.startswith("the nightly load: ") for text in described), described
        assert context.getLocalProperty("spark.job.description") == "the nightly load"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)


def test_a_cancellation_from_outside_is_told_as_such(spark):
    context = spark.sparkContext

    def slow(value: int) -> int:
        import time

        time.sleep(2)
        return value

    text = ".functor slow(x: number): number .decl e(x: number) .input e .decl r(x: number) .output r r(@slow(x)) :- e(x)."
    program = Program(text, functors={"slow": slow})
    done = threading.Event()

    def cancel() -> None:
        while not done.wait(0.5):
            if context.statusTracker().getActiveJobsIds():
                context.cancelAllJobs()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        with pytest.raises(JobFailed, match="cancelled from outside: Spark says 'Job [0-9]+ cancelled"):
            program.run({"e": [(x,) for x in range(40)]}, spark=spark, plan="balanced", **FORCED)
    finally:
        done.set()
        canceller.join()
