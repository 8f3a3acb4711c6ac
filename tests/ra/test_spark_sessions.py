"""What `ra.spark.spark_context` relies on beyond Spark's documentation, pinned."""

import gc
import os
import shlex
import subprocess
import sys
import tempfile
import textwrap
import threading
from types import SimpleNamespace

import psutil
import pytest
from pyspark import SparkConf

from semi_naive import SparkLost, transitive_closure
from semi_naive.host import leftovers
from semi_naive.ra.spark import java, spark_context
from semi_naive.ra.spark.jobs import PartitionedJobs
from semi_naive.ra.storage.runs import Store


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
        assert "semi_naive.ra.spark.daemon" in psutil.Process(parent).cmdline()


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
    assert spark_context.context() is spark.sparkContext is spark_context.context_of(None) is spark_context.context_of(spark)
    assert spark_context.start() is not None and spark_context.context_of(spark.sparkContext) is spark.sparkContext


def test_what_is_no_spark_is_an_error_that_says_so():
    with pytest.raises(TypeError, match=r"^spark is 'local\[2\]': expected a SparkSession or a SparkContext, or none for"):
        transitive_closure([(1, 2)], "local[2]", plan="balanced")


def test_java_is_found():
    assert java.check_java() >= java.MIN_JAVA_VERSION


@pytest.mark.parametrize("length", [10, 60])
def test_the_sockets_of_workers_have_short_names_in_a_folder_of_ours(tmp_path, monkeypatch, length):
    """A socket's path has room for some hundred bytes, and what is outside of a store, nobody removes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * length)))
    conf = SparkConf(loadDefaults=False, _jconf=None).setMaster("local[2]")
    scratch = Store.create()
    places = dict(java._folders(conf, scratch))
    folder = places["spark.python.unix.domain.socket.dir"]
    assert os.path.isdir(folder) and len(folder) <= java.MAX_SOCKET_FOLDER_CHARACTERS and folder in leftovers.folders()
    for store in {scratch.root, folder}:
        Store(store).remove()


def test_a_temporary_folder_may_have_blanks_and_quotes_in_its_name(tmp_path, monkeypatch):
    """Spark splits Java's options as a shell does."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a b'c"))
    scratch = Store.create()
    places = dict(java._folders(SparkConf(loadDefaults=False, _jconf=None).setMaster("local[2]"), scratch))
    assert f"-Djava.io.tmpdir={scratch.path('spark')}" in shlex.split(places[java.OPTIONS])
    for store in {scratch.root, places.get("spark.python.unix.domain.socket.dir", scratch.root)}:
        Store(store).remove()


def test_a_java_that_ends_while_the_context_is_made(monkeypatch):
    """It is told as one that ends later, and the next context gets another."""
    dead = SimpleNamespace(proc=subprocess.Popen(["sh", "-c", "kill -9 $$"], stdin=subprocess.PIPE), shutdown=lambda: None)

    class Context:
        _lock, _active_spark_context, _gateway, _jvm = threading.RLock(), None, dead, None

        def __init__(self, **_):
            raise OSError("Error while sending or receiving")

    monkeypatch.setattr("pyspark.SparkContext", Context)
    with pytest.raises(SparkLost, match="Spark's Java process was killed by signal 9: start a new SparkSession"):
        spark_context._make_context(None, threading.Event())
    assert Context._gateway is None


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
