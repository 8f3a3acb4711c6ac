"""Killed workers, lost runs, lost executors, a dead driver, Ctrl-C: the same answer, or one clear error; nothing left."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import psutil
import pytest

from bench.fuzz.jobs_here import JobsAsSpark
from semi_naive import Program, SparkLost, graphs, transitive_closure
from semi_naive.balance.bucket_map import BucketMap
from semi_naive.config import Config
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.stored import store
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.local_insert import Born, Insert
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.spark import executors
from semi_naive.ra.spark.aside import POLL_SECONDS
from semi_naive.ra.spark.failures import DiskFull, JobFailed, WorkerLost, job_failure
from semi_naive.ra.spark.jobs import PartitionedJobs
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.ra.storage.missing import RunMissing
from semi_naive.ra.storage.runs import Store, write_run
from semi_naive.running.progress.manifest import CheckpointUnusable
from semi_naive.running.relations.cluster import Cluster

EDGES = graphs.grid(6)  # ten iterations, each a job of Spark
EXPECTED = 21 * 21 - 36  # pairs of a 6 x 6 grid: (6 * 7 / 2) ** 2 ordered by both coordinates, less each with itself
STEPS = {"run_ahead": 0, "plan": "balanced"}


def at(iteration, act):
    """A progress callback that acts once, at the end of an iteration."""
    waiting = [iteration]

    def tell(now, delta, tuples):
        if waiting and now >= waiting[0]:
            waiting.clear()
            act()

    return tell


def python_workers():
    """The daemon that forks Python workers, and those that are alive."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie, or gone meanwhile
            if "semi_naive.ra.spark.daemon" in " ".join(process.cmdline()):
                found.append(process)
    return found


def runs_in(folder):
    return sorted(str(path) for path in folder.glob("semi-naive-*/runs/*/*"))


def script(text, *arguments, check=None, env=None):
    """Run a program of its own; returns the finished process."""
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert check is None or done.returncode == check, done.stderr[-3000:]
    return done


def test_killed_workers(spark):
    def kill():
        workers = python_workers()
        assert workers
        for worker in workers[1:] or workers:  # the first is the daemon that forks them
            worker.send_signal(signal.SIGKILL)

    for _ in range(2):
        with transitive_closure(EDGES, spark, progress=at(3, kill), **STEPS) as result:
            assert result.count() == EXPECTED


def test_worker_killed_inside_a_task(spark, tmp_path):
    """The first attempt of one local insert is killed from within; Spark's or our next one does the work again."""
    mark = tmp_path / "killed"

    def task(partition, records):
        if partition == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [partition]

    jobs = PartitionedJobs(spark.sparkContext, 2)
    assert sorted(jobs.job(task)) == [0, 1] and mark.exists()
    jobs.close()


def test_lost_runs_start_again(spark, tmp_path):
    def lose():
        for path in runs_in(tmp_path):
            os.unlink(path)

    with transitive_closure(EDGES, spark, progress=at(4, lose), local_dir=str(tmp_path), **STEPS) as result:
        assert result.count() == EXPECTED
        assert "runs lost" in [event["event"] for event in result.trace["events"]]


def test_lost_runs_resume_from_the_checkpoint(here, tmp_path):
    local, durable = tmp_path / "local", tmp_path / "durable"
    local.mkdir()

    def lose():
        for path in runs_in(local):
            os.unlink(path)

    options = {"checkpoint_dir": str(durable), "checkpoint_interval": 2, "local_dir": str(local), **STEPS}
    with transitive_closure(EDGES, here, progress=at(7, lose), **options) as result:
        events = {event["event"]: event["iteration"] for event in result.trace["events"]}
        assert result.count() == EXPECTED and result.iterations == 10
        assert 5 <= events["restore"] <= 7 and "checkpoint" in events
    assert not list(durable.rglob("*.run")) and not (durable / "manifest.json").exists()


def test_a_run_that_keeps_getting_lost_is_one_clear_error(here, tmp_path):
    def tell(iteration, delta, tuples):
        for path in runs_in(tmp_path):
            os.unlink(path)

    with pytest.raises(RunsLost, match="a run is missing: .*path"):
        transitive_closure(EDGES, here, progress=tell, local_dir=str(tmp_path), **STEPS)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_another_input_is_not_taken_up(here, tmp_path):
    class Stopped(Exception):
        pass

    def stop(iteration, delta, tuples):
        if (tmp_path / "manifest.json").exists():
            raise Stopped

    options = {"checkpoint_dir": str(tmp_path), "checkpoint_interval": 1, **STEPS}
    with pytest.raises(Stopped):
        transitive_closure(graphs.chain(20), here, progress=stop, **options)
    with transitive_closure(EDGES, here, checkpoint_dir=str(tmp_path), **STEPS) as result:
        assert result.count() == EXPECTED
        assert "restore" not in [event["event"] for event in result.trace["events"]]
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(CheckpointUnusable, match="not a checkpoint"):
        transitive_closure(EDGES, here, checkpoint_dir=str(tmp_path), **STEPS)


def test_ctrl_c_leaves_nothing(spark, tmp_path):
    interrupt = at(3, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        transitive_closure(EDGES, spark, progress=interrupt, local_dir=str(tmp_path), **STEPS)
    assert not list(tmp_path.iterdir())
    with transitive_closure([(1, 2), (2, 3)], spark, **STEPS) as result:
        assert result.count() == 3, "Spark goes on"


def test_a_dead_java_is_one_error_and_the_next_run_starts_another():
    program = """
        import os, signal
        from semi_naive import SparkLost, graphs, transitive_closure
        from semi_naive.ra.spark import spark_context
        def kill(iteration, delta, tuples):
            os.kill(spark_context.context()._gateway.proc.pid, signal.SIGKILL)
        try:
            transitive_closure(graphs.grid(5), plan="balanced", run_ahead=0, progress=kill)
        except SparkLost as error:
            print(error)
        with transitive_closure(graphs.grid(5), plan="balanced") as result:
            print(result.count(), result.to_df().count())
    """
    done = script(program, check=0)
    assert done.stdout == (
        f"Spark's Java process was killed by signal 9: run again, and another one is started\n{15 * 15 - 25} {15 * 15 - 25}\n"
    )
    assert "Traceback" not in done.stderr and "ERROR" not in done.stderr


def test_a_dead_spark_of_the_users_own_is_theirs_to_start_again():
    class Dead:
        master, pythonExec, _jsc, _gateway = "local[2]", sys.executable, None, None

    with pytest.raises(SparkLost, match="has ended: start a new SparkSession, and run again"):
        Program(".decl a(x: number)\n.output a\na(1).").run(spark=Dead(), local_tuples=0).cluster.start()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_with_its_folder_and_the_setting(spark, tmp_path, number):
    def task(partition, records):
        raise OSError(number, os.strerror(number))

    jobs, leftovers_of_a_run = PartitionedJobs(spark.sparkContext, 2), Store.create(str(tmp_path))
    with pytest.raises(DiskFull, match=r"^no space left in /.* \([\d,]+ bytes free\): the setting local_dir .* TMPDIR"):
        jobs.job(task)
    jobs.close()
    leftovers_of_a_run.remove()


ABORTED = (
    "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
    ": org.apache.spark.SparkException: Job aborted: most recent failure: Lost task 0.3 (TID 30) (host executor driver): "
)
SAID = (
    "SparkException: \nError from python worker:\n{}\nPYTHONPATH was:\n  /lib\norg.apache.spark.SparkException: EOFException\n"
)
MISSING = "  Traceback (most recent call last):\n    import numpy\n  ModuleNotFoundError: No module named 'numpy'"
NO_PYTHON = 'java.io.IOException: Cannot run program "/no/python": error=2'
CAUSES = {
    "import": (
        SAID.format(MISSING),
        "did not start: ModuleNotFoundError: No module named 'numpy'\n  every host needs semi-naive",
    ),
    "no daemon": (SAID.format("  python3: No module named semi_naive"), "did not start: python3: No module named semi_naive"),
    "no python": (f"{NO_PYTHON}\n\tat java\nCaused by: java.io.IOException: error=2\n", NO_PYTHON),
    "ours": ("org.apache.spark.api.python.PythonException: Traceback\n  File x\nKeyError: 7\n\n\tat org\n", "KeyError: 7"),
}


@pytest.mark.parametrize(("text", "told"), CAUSES.values(), ids=CAUSES)
def test_the_cause_of_a_failed_job_is_told(text, told):
    """Of a worker that cannot start what it has written itself; as it would fail again, the job is not run again."""
    found = job_failure(RuntimeError(ABORTED + text))
    assert type(found) is JobFailed and told in str(found) and "collectAndServe" not in str(found)
    assert type(job_failure(RuntimeError(f"{ABORTED}java.io.EOFException: gone"))) is WorkerLost


def test_a_full_disk_of_the_driver_is_told_alike(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("semi_naive.running.driver.local.Local.run", full)
    with pytest.raises(DiskFull, match="local_dir"):
        Program(".decl a(x: number)\n.output a\na(1). a(x) :- a(y), x = y + 1, y < 9.").run()


def test_lost_executor(tmp_path):
    """local-cluster: two executors of their own processes; one is killed in the middle of a job, one between two. No task is
    kept for the first: `spark.locality.wait` is longer than this test may take. The driver's Java cannot unpack
    zstd's native code, as on a full disk: a driver that needs it to say where shuffles are waits for ever."""
    program = """
        import os, signal, sys, time, psutil, graphs
        from semi_naive.ra.spark import spark_context
        from semi_naive.ra.spark.jobs import PartitionedJobs
        from semi_naive import transitive_closure
        def task(partition, records):
            import os, signal, psutil
            if partition == 0 and not os.path.exists(mark):
                open(mark, "w").close()
                psutil.Process(os.getppid()).parent().send_signal(signal.SIGKILL)
                time.sleep(60)
            return [partition]
        def tell(iteration, delta, tuples):
            if iteration == 4:
                executors = [p for p in psutil.Process().children(recursive=True)
                             if p.name() == "java" and "CoarseGrainedExecutorBackend" in " ".join(p.cmdline())]
                executors[-1].send_signal(signal.SIGKILL)
        context, mark = spark_context.context("local-cluster[2,1,1024]"), sys.argv[3]
        context._conf.set("spark.locality.wait", "1h")
        jobs = PartitionedJobs(context, 2)
        assert sorted(jobs.job(task)) == [0, 1] and os.path.exists(mark)
        jobs.close()
        options = dict(run_ahead=0, partitions=2, local_dir=sys.argv[1], progress=tell)
        with transitive_closure(graphs.grid(4), context, "balanced", **options) as result:
            result.write(sys.argv[2])
            print(result.count())
        print(os.listdir(sys.argv[1]))
    """
    local, pairs = tmp_path / "local", tmp_path / "pairs.tsv"
    local.mkdir()
    options = f"--conf 'spark.executor.extraJavaOptions={os.environ['SPARK_SUBMIT_OPTS']}' pyspark-shell"
    java = f"{os.environ['SPARK_SUBMIT_OPTS']} -DZstdTempFolder={tmp_path}/missing"
    done = script(
        program,
        local,
        pairs,
        tmp_path / "mark",
        check=0,
        env=os.environ | {"PYSPARK_SUBMIT_ARGS": options, "SPARK_SUBMIT_OPTS": java},
    )
    expected = 10 * 10 - 16  # as EXPECTED, of 4 x 4
    assert done.stdout == f"{expected}\n[]\n" and len(set(pairs.read_text().splitlines())) == expected


@pytest.mark.parametrize(
    "elastic, idle, gone, times",
    [
        (False, (), {"a"}, 2),  # lost, and what it had to do would be kept for it
        (True, (), {"a"}, 1),  # Spark has given it back: nothing of ours was there
        (True, ("a stage",), {"a"}, 2),
        (False, ("a stage",), set(), 2),  # for example an executor that is being decommissioned
    ],
)
def test_a_job_that_waits_for_an_executor_is_run_again(monkeypatch, elastic, idle, gone, times):
    listed, cancelled, calls = {"a", "b"}, threading.Event(), []
    monkeypatch.setattr(executors, "executors", lambda sc: set(listed))
    monkeypatch.setattr(executors, "_settings", lambda sc: (elastic, 0.1))
    monkeypatch.setattr(executors.Watch, "_idle", lambda watch: idle)
    sc = MagicMock(master="spark://host:7077", applicationId=str(monkeypatch))

    def cancel(tag):
        listed.update(gone and {"its successor"})
        cancelled.set()

    def call():
        calls.append(set(listed))
        listed.difference_update(gone)
        if len(calls) == 1 and cancelled.wait(60 if times == 2 else 4 * POLL_SECONDS):
            raise RuntimeError("cancelled")
        return 7

    sc.cancelJobsWithTag.side_effect = cancel
    assert executors.spark_call(sc, call) == 7 and len(calls) == times
    assert len(calls[-1]) == 2, "the successor is waited for"


def test_a_call_that_is_cancelled_while_it_waits_for_executors_is_not_made(monkeypatch):
    listed, calls, sc = {"a", "b"}, [], MagicMock(master="spark://host:7077", applicationId="waits")
    monkeypatch.setattr(executors, "executors", lambda sc: set(listed))
    monkeypatch.setattr(executors, "_settings", lambda sc: (False, 0.1))
    assert executors.spark_call(sc, lambda: 7) == 7
    listed.remove("a")

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executors.spark_call(sc, lambda: calls.append(1), stop)
    assert not calls


def test_a_lost_executor_is_one_error_that_says_how():
    text = (
        "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent"
        " failure: Lost task 0.3 in stage 3.0 (TID 10) (10.0.0.2 executor 7): ExecutorLostFailure"
        " (executor 7 exited caused by one of the running tasks) Reason:"
        " Command exited with code 137\nDriver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler.abortStage"
    )
    error = job_failure(RuntimeError(text))
    assert isinstance(error, WorkerLost) and str(error).startswith(
        "executor 7 on 10.0.0.2 was lost: Command exited with code 137\n"
    )
    assert "spark.executor.memoryOverhead" in str(error)


def test_a_run_keeps_its_partitions_when_executors_are_lost():
    """Relations that were complete have runs for each of them."""
    sc = SimpleNamespace(
        master="local[3]", applicationId="here", defaultParallelism=3, pythonExec="python", partitioned_jobs=JobsAsSpark
    )
    cluster = Cluster(lambda: sc, Config())
    assert cluster.jobs.partitions == 3
    sc.defaultParallelism = 2
    cluster.renew()
    assert cluster.jobs.partitions == 3


def test_a_task_run_twice_gives_the_same_run(tmp_path):
    """Speculative and retried attempts write the same file again, and report the same."""
    block = Block.of([np.array([3, 9, 27]), np.array([1, 2, 1 << 20])], 3)
    known = store(str(tmp_path / "old"), Block(block.packing, block.words[:, :1]))
    index = PartitionedIndex((0, 1), 1, BucketMap.deal(4, 2), full=[known, []])
    insert = Insert([PartitionedRelation("path", 2, [index])], "2.0", str(tmp_path), False)
    sent = [parcel for _, parcel in parcels.to_home(block, 1, BucketMap.deal(4, 1), "path/0")]
    first, second = (next(r for r in insert(0, list(sent)) if isinstance(r, Born)) for _ in range(2))
    assert first.new == second.new and [block.columns()[0].tolist() for block in (first.new[0].open(),)] == [[9, 27]]
    assert (first.sizes == second.sizes).all() and first.count == second.count == 2


def test_errors_of_tasks_are_one_line(spark):
    def task(partition, records):
        raise ZeroDivisionError("what the user needs to know")

    jobs = PartitionedJobs(spark.sparkContext, 2)
    with pytest.raises(JobFailed, match="^ZeroDivisionError: what the user needs to know$"):
        jobs.job(task)
    jobs.close()


def test_runs_are_whole_or_missing(tmp_path):
    run = write_run(tmp_path / "a", np.arange(10, dtype=np.uint64))
    assert run.open().tolist() == list(range(10))
    os.truncate(run.path, 40)
    with pytest.raises(RunMissing):
        run.open()

    def broken():
        yield np.arange(3, dtype=np.uint64)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_run(tmp_path / "b", broken())
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_stores_of_dead_drivers_are_swept(tmp_path):
    alive = Store.create(str(tmp_path))
    dead = tmp_path / os.path.basename(alive.root).replace(f"-{os.getpid()}-", "-999999999-")
    dead.mkdir()
    other = Store.create(str(tmp_path))
    assert sorted(map(str, tmp_path.iterdir())) == sorted([alive.root, other.root])
    alive.remove()
    other.remove()
