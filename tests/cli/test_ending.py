"""Commands that are told to end, at several moments: one line, nothing left. Ctrl-C in a user's own process: Spark goes on."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from signals import signalled, wrong

from semi_naive.__main__ import main
from semi_naive.ra.spark import java
from semi_naive.ra.spark.aside import call_interruptibly
from semi_naive.ra.spark.jobs import PartitionedJobs

CLOSURE = ["tc", "e.tsv", "-q", "-o", "out.tsv", "--plan", "decomposed"]


def running(name):
    """Whether, of the processes of a command, one has this name."""
    return lambda processes: any(process.info["name"] == name for process in processes)


@pytest.mark.parametrize(
    "number, moment, wait, again",
    [
        (signal.SIGINT, running("java"), 1.0, None),  # about when Java says how it can be reached
        (signal.SIGTERM, running("java"), 0.5, 0.05),
        (signal.SIGHUP, lambda processes: len(processes) == 1, 0.3, None),  # while modules are loaded
        (signal.SIGKILL, running("java"), 1.5, None),  # nothing can be put in order: processes end all the same
    ],
)
def test_nothing_is_left_of_a_command_that_is_told_to_end(tmp_path, number, moment, wait, again):
    (tmp_path / "e.tsv").write_text("".join(f"{i}\t{i + 1}\n" for i in range(500)))
    told = signalled(CLOSURE, number, wait, tmp_path, again, moment)
    assert not wrong(told, number)
    assert told["status"] != 0, "it ended before the signal came"
    assert number == signal.SIGKILL or {path.name for path in tmp_path.iterdir()} == {"e.tsv", "tmp"}


def test_an_interrupted_call_is_cancelled_and_waited_for():
    begun, cancelled = threading.Event(), threading.Event()

    def call():
        begun.set()
        cancelled.wait(30)

    def interrupt():
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        call_interruptibly(call, cancelled.set)
    assert cancelled.is_set() and call_interruptibly(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        call_interruptibly(lambda: 1 / 0)


def test_a_call_of_any_thread_is_looked_after():
    """A job of another thread than the main one is cancelled if memory is short, and waits for no other thread's."""
    cancelled = [threading.Event(), threading.Event()]

    def short():
        raise MemoryError

    def call(number):
        with pytest.raises(MemoryError):
            call_interruptibly(lambda: all(each.wait(30) for each in cancelled), cancelled[number].set, short)
        return True

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(call, range(2)))
    assert all(each.is_set() for each in cancelled)


def test_ctrl_c_in_a_job_leaves_a_spark_that_works(spark):
    jobs, timer = PartitionedJobs(spark.sparkContext, 2), threading.Timer(1.0, os.kill, [os.getpid(), signal.SIGINT])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "Spark was to leave signals alone"

    def sleep(partition, records):
        time.sleep(60)
        return [partition]

    timer.start()
    with pytest.raises(KeyboardInterrupt):
        jobs.job(sleep)
    assert sorted(jobs.job(lambda partition, records: [partition])) == [0, 1]
    jobs.close()


def test_a_java_that_never_says_how_it_is_reached_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "MAX_START_SECONDS", 0.5)
    with (
        open(tmp_path / "said", "w+b") as said,
        pytest.raises(java.NotStarted, match="has not said in 0 s|has not said in 1 s"),
    ):
        java._start_java(["sleep", "60"], str(tmp_path / "told"), said, threading.Event())


@pytest.mark.parametrize("end, status", [("None", 0), ("sys.exit(2)", 2), ("sys.exit()", 0), ("1 / 0", 1)])
def test_a_command_ends_in_order_and_python_is_not_taken_apart(end, status):
    """What is registered is called, what was printed is whole, and no thread meets what is gone already."""
    script = f"""
import atexit, os, sys, threading, time, types
import semi_naive.__main__
from semi_naive.cli.ending import command

class Kept:
    def __del__(self):
        os.write(2, b"taken apart")

def main(begun):
    sys.modules["kept"] = types.ModuleType("kept")
    sys.modules["kept"].kept = Kept()
    threading.Thread(target=lambda: (time.sleep(0.1), print("by a thread"))).start()
    atexit.register(print, "in the end")
    {end}

semi_naive.__main__.main = main
command()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, "by a thread\nin the end\n")
    assert "taken apart" not in done.stderr and ("ZeroDivisionError" in done.stderr) == (status == 1)


@pytest.mark.parametrize("shell, why", [("> /dev/full", "No space left on device"), (">&-", "Bad file descriptor")])
def test_results_that_cannot_be_printed(tmp_path, shell, why):
    (tmp_path / "p.dl").write_text(".decl a(x: number)\n.output a\na(1).\n")
    command = f"'{sys.executable}' -m semi_naive run p.dl -D - {shell}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, f"semi-naive: standard output: {why}\n")


def test_what_has_no_room_on_standard_output_is_said():
    with open("/dev/full", "w") as full:
        script = "import sys; from semi_naive.cli.ending import command; sys.argv = ['semi-naive', '--version']; command()"
        done = subprocess.run([sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "No space left on device" in done.stderr


def test_a_command_says_nothing_of_a_pandas_that_it_makes_no_use_of():
    script = """
import warnings
import semi_naive.__main__
from pyspark.sql.pandas import utils
from semi_naive.cli.ending import command

def main(begun):
    import pandas

    pandas.__version__ = "3.0.0"
    utils.require_minimum_pandas_version()
    warnings.warn("of something else", FutureWarning)

semi_naive.__main__.main = main
command()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and "of something else" in done.stderr and "pandas" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    "error, status", [(java.NotStarted("Java ended"), 1), (java.NoJava("no Java"), 2), (KeyError("other"), None)]
)
def test_errors_of_java_are_a_line_on_standard_error(monkeypatch, capsys, error, status):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("semi_naive.__main__.cli.main", fail)
    with pytest.raises(SystemExit if status else KeyError) as ended:
        main(["run", "p.dl"])
    if status:
        assert ended.value.code == status and capsys.readouterr().err == f"semi-naive: {error}\n"
