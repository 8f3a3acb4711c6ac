"""Calls of Spark that do not wait for an executor that is gone.

Spark keeps a task for the executor that holds its cached partition, up to `spark.locality.wait`. It looks up that executor when
it submits the stage. If the executor is lost afterwards, the task is still kept for it while all others idle (delay scheduling,
`TaskSetManager.getAllowedLocalityLevel`). The wait is a setting of the context and cannot be changed for one job. So the job is
cancelled and submitted again: Spark then looks up the places again, and skips the shuffles that are complete.
"""

import functools
import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from semi_naive.ra.spark.aside import POLL_SECONDS, aside, threads
from semi_naive.ra.spark.masters import on_this_host

MAX_LOSSES = 4  # restarts of one call after losses; a task that ends its executor each time is then failed by Spark
REPLACEMENT_SECONDS = 20.0  # to wait for a new executor in place of a lost one; a standalone cluster starts it in 2 to 5
IDLE_HEARTBEATS = 1.5  # in which no task runs, after which a job is idle: heartbeats tell how many of its tasks are done
LOOKS_PER_BEAT = 4  # at the running tasks

log = logging.getLogger("semi_naive")
Made = TypeVar("Made")

_numbers = itertools.count()
_counts: dict[str, int] = {}  # executors at the last look, by the id of the application


class ExecutorGone(Exception):
    """A job waits for an executor that is gone."""


def executors(sc) -> set[str]:
    """The addresses of a context's executors and of its driver, as Spark lists them now. Takes 1 ms."""
    return set(sc._jsc.sc().getExecutorMemoryStatus().keySet().mkString(" ").split())


@functools.lru_cache(1)
def _settings(sc) -> tuple[bool, float]:
    """True if Spark itself gives executors back (dynamic allocation), and the seconds between two heartbeats."""
    conf = sc._jsc.sc().conf()
    milliseconds = conf.getTimeAsMs("spark.executor.heartbeatInterval", "10s")
    return conf.getBoolean("spark.dynamicAllocation.enabled", False), milliseconds / 1000


class Watch:
    """A look at the jobs of a call, which have a tag, a few times a second until the call is done.

    Raises Waiting if an executor of the context is lost. That rule does not apply where Spark gives executors back by itself,
    nor after MAX_LOSSES restarts. A second rule always does: tasks are pending, and no task runs, for IDLE_HEARTBEATS. That
    time doubles with each restart, so that a job that was healthy comes to its end.
    """

    def __init__(self, sc, tag: str, restarts: int = 0):
        self.sc, self.tag, self.restarts = sc, tag, restarts
        self.begun, self.done = threading.Event(), threading.Event()
        self.known: set[str] = set()
        self.idle, self.since, self.looked = (), 0.0, 0.0

    def begin(self) -> None:
        """Wait until there are as many executors as at the last look, for REPLACED seconds at most.

        The executor in place of a lost one finds the runs of its host, and no other has to compute two partitions.
        """
        elastic, _ = _settings(self.sc)
        until, expected = time.monotonic() + REPLACEMENT_SECONDS, 0 if elastic else _counts.get(self.sc.applicationId, 0)
        while len(found := executors(self.sc)) < expected and time.monotonic() < until:
            if self.done.wait(POLL_SECONDS / 2):
                raise RuntimeError("cancelled")
        self._see(found)
        self.begun.set()

    def cancel(self) -> None:
        """Cancel the call's jobs, and the call itself if it has not begun."""
        self.done.set()
        self.sc.cancelJobsWithTag(self.tag)

    def __call__(self) -> None:
        self.begun.wait()
        while not self.done.wait(POLL_SECONDS):
            self.look(executors(self.sc), time.monotonic())

    def look(self, found: set[str], now: float) -> None:
        elastic, beat = _settings(self.sc)
        patience = IDLE_HEARTBEATS * beat * 2**self.restarts
        self._see(found)
        if found < self.known and not elastic and self.restarts < MAX_LOSSES:
            raise ExecutorGone(f"lost executor {', '.join(sorted(self.known - found))}")
        if now > self.looked + patience / LOOKS_PER_BEAT:
            self.looked = now
            if not (idle := self._idle()) or idle != self.idle:
                self.idle, self.since = idle, now
            elif now > self.since + patience:
                raise ExecutorGone("tasks are pending, and none runs")

    def _see(self, found: set[str]) -> None:
        self.known |= found
        _counts[self.sc.applicationId] = len(self.known)

    def _idle(self) -> tuple:
        """The call's stages that have tasks left, if no task of the context runs.

        The scheduler itself is asked which tasks run: if those of a stage start within 0.1 s of its submission, the status
        tracker shows none of them up to the next heartbeat.
        """
        scala, tracker = self.sc._jsc.sc(), self.sc.statusTracker()
        if set(scala.taskScheduler().runningTasksByExecutors().values().mkString(" ").split()) != {"0"}:
            return ()
        jobs = [tracker.getJobInfo(job) for job in scala.statusTracker().getJobIdsForTag(self.tag)]
        own = {stage for job in jobs if job for stage in job.stageIds}
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds() if stage in own]
        return tuple(stage for stage in stages if stage and stage.numCompletedTasks < stage.numTasks)


def spark_call(sc, call: Callable[[], Made], meanwhile: Callable[[], None] = lambda: None) -> Made:
    """Run a call that starts jobs of Spark in another thread, while this one calls `meanwhile` again and again. The call is
    repeated if its jobs wait for an executor that is lost, so it must be idempotent.

    Its jobs have the properties of this thread, such as the scheduler's pool, and a tag, by which they are cancelled: on
    Ctrl-C, when `meanwhile` raises, and before the call is repeated.
    """
    properties = sc._jsc.sc().getLocalProperties().clone()
    for restarts in itertools.count():
        watch = Watch(sc, f"semi-naive-{next(_numbers)}", restarts)
        try:
            return _watched(watch, call, properties, meanwhile)
        except ExecutorGone as error:
            log.warning("%s: running the job again", error)
    raise AssertionError("unreachable")


def _watched(watch: Watch, call: Callable[[], Made], properties, meanwhile: Callable[[], None]) -> Made:
    """Make a call whose jobs have a watch's tag. On a cluster another thread looks at them: Ctrl-C must not find this one in a
    call of Java."""
    sc, elsewhere = watch.sc, not on_this_host(watch.sc.master)
    looking = threads.looks.begin(watch) if elsewhere else None

    def tagged() -> Made:
        if elsewhere:
            watch.begin()
        sc._jsc.sc().setLocalProperties(properties)
        sc.addJobTag(watch.tag)
        return call()

    def look() -> None:
        meanwhile()
        if looking and isinstance(looking.error, ExecutorGone):  # the call itself tells of any other error
            raise looking.error

    try:
        return aside(tagged, watch.cancel, look)
    finally:
        watch.done.set()
        watch.begun.set()
