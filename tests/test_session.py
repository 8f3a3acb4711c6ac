"""What `ra.session` relies on beyond Spark's documentation, pinned."""

import gc
import os
import subprocess
import sys
import textwrap

import psutil
import pytest
from semi_naive.ra import session
from semi_naive.ra.jobs import PartitionedJobs


@pytest.fixture
def where():
    """A task that says which process it ran in. Made here: workers cannot import a test's module."""

    def task(partition, records):
        return [(os.getpid(), os.getppid(), gc.get_freeze_count())]

    return task


@pytest.fixture
def jobs(spark):
    jobs = PartitionedJobs(spark.sparkContext, 2)
    yield jobs
    jobs.close()


def test_workers_are_forked_from_our_daemon(jobs, where):
    for _, parent, _ in jobs.job(where):
        assert "semi_naive.ra.daemon" in psutil.Process(parent).cmdline()


def test_workers_are_used_again_and_keep_the_collector_off_the_kernels(jobs, where):
    """Whichever worker is idle gets a task, so of any two jobs the workers may differ: of twenty they repeat."""
    seen = [(pid, frozen) for _ in range(20) for pid, _, frozen in jobs.job(where)]
    assert len({pid for pid, _ in seen}) < len(seen) / 2
    assert min(frozen for _, frozen in seen) > 10_000


def test_stages_run_where_the_anchors_are(jobs, where):
    """A union under one partitioner is no shuffle: it has the anchors' partitions, not twice as many."""
    chained = jobs._chain((where, where), None)
    assert chained.getNumPartitions() == 2


def test_what_runs_is_used(spark):
    assert session.context() is spark.sparkContext is session.context_of(None) is session.context_of(spark)
    assert session.start() is not None and session.context_of(spark.sparkContext) is spark.sparkContext


def test_java_is_found():
    assert session.check_java() >= session.JAVA


def test_a_session_of_the_users_own_runs_our_interpreter(tmp_path):
    """Made without a word about Python, with Spark's own daemon and no retries: works, also when workers are killed."""
    program = """
        import psutil, graphs
        from pyspark.sql import SparkSession
        from semi_naive import transitive_closure
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        def kill(iteration, delta, tuples):
            for process in psutil.Process().children(recursive=True) if iteration == 3 else ():
                if process.name().startswith("python") and process.parent().name().startswith("python"):
                    process.kill()
        frame = spark.createDataFrame([(1, 2), (2, 3)], "a int, b int")
        print(sorted(map(tuple, transitive_closure(frame).to_df().collect())))
        print(transitive_closure(graphs.grid(5), spark, "balanced", run_ahead=0, progress=kill).count())
    """
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK")}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.stdout == f"[(1, 2), (1, 3), (2, 3)]\n{15 * 15 - 25}\n", done.stderr[-2000:]
