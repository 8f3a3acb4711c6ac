"""Run calls of Spark such that they do not wait for a lost executor: the call is cancelled and repeated.

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

from semi_naive.ra.spark.aside import POLL_SECONDS, call_interruptibly, threads
from semi_naive.ra.spark.masters import on_this_host

MAX_RESTARTS = 4  # of one call after losses; then Spark itself fails a task that ends its executor each time
REPLACEMENT_SECONDS = 20.0  # to wait for a new executor in place of a lost one; a standalone cluster starts it in 2 to 5
IDLE_HEARTBEATS = 1.5  # heartbeats without a running task after which a job is idle; they report how many tasks have finished
CHECKS_PER_PATIENCE = 4  # checks of the running tasks in the time after which a job is idle

log = logging.getLogger("semi_naive")
Result = TypeVar("Result")

_numbers = itertools.count()
_counts: dict[str, int] = {}  # for each application id, the number of executors at the last check


class ExecutorGone(Exception):
    """A job waits for an executor that is lost."""


def executors(sc) -> set[str]:
    """Return the addresses of a context's executors and of its driver, as Spark lists them now. Takes 1 ms."""
    return set(sc._jsc.sc().getExecutorMemoryStatus().keySet().mkString(" ").split())


@functools.lru_cache(1)
def _settings(sc) -> tuple[bool, float]:
    """Return (True if Spark releases executors itself (dynamic allocation), seconds between two heartbeats)."""
    conf = sc._jsc.sc().conf()
    milliseconds = conf.getTimeAsMs("spark.executor.heartbeatInterval", "10s")
    return conf.getBoolean("spark.dynamicAllocation.enabled", False), milliseconds / 1000


class Watch:
    """A monitor of the jobs of one call, which have a tag. It checks them a few times a second until the call has ended.

    Raises ExecutorGone if an executor of the context is lost, unless Spark releases executors itself, or after MAX_RESTARTS
    restarts. Also raises it if tasks are pending and none has run for IDLE_HEARTBEATS. That time doubles with each restart, so
    that a healthy job can finish.
    """

    def __init__(self, sc, tag: str, restarts: int = 0):
        """tag: the tag of the call's jobs; restarts: how often the call has been repeated."""
        self.sc, self.tag, self.restarts = sc, tag, restarts
        self.begun, self.done = threading.Event(), threading.Event()  # set when the call begins, and when it has ended
        self.known: set[str] = set()  # executors
        # The result of the last `_idle`, the time since when it is the same, and the time of that check.
        self.idle_stages, self.idle_since, self.checked_at = (), 0.0, 0.0

    def await_executors(self) -> None:
        """Wait until there are as many executors as at the last check, for at most REPLACEMENT_SECONDS.

        An executor that replaces a lost one has access to the runs of its host, so no other executor has to take over its
        partitions.
        """
        elastic, _ = _settings(self.sc)  # with dynamic allocation, fewer executors are no loss
        until, expected = time.monotonic() + REPLACEMENT_SECONDS, 0 if elastic else _counts.get(self.sc.applicationId, 0)
        while len(present := executors(self.sc)) < expected and time.monotonic() < until:
            if self.done.wait(POLL_SECONDS / 2):
                raise RuntimeError("cancelled")
        self._note_executors(present)
        self.begun.set()

    def cancel(self) -> None:
        """Cancel the call's jobs, and the call itself if it has not begun."""
        self.done.set()
        self.sc.cancelJobsWithTag(self.tag)

    def __call__(self) -> None:
        """Check the jobs until the call has ended."""
        self.begun.wait()
        while not self.done.wait(POLL_SECONDS):
            self._check(executors(self.sc), time.monotonic())

    def _check(self, present: set[str], now: float) -> None:
        """Check once. present: the executors; now: the time (`time.monotonic`)."""
        elastic, heartbeat = _settings(self.sc)
        patience = IDLE_HEARTBEATS * heartbeat * 2**self.restarts
        self._note_executors(present)
        # `known` includes those present, so it is larger if some are missing
        if present < self.known and not elastic and self.restarts < MAX_RESTARTS:
            raise ExecutorGone(f"lost executor {', '.join(sorted(self.known - present))}")
        if now > self.checked_at + patience / CHECKS_PER_PATIENCE:
            self.checked_at, idle = now, self._idle()
            if not idle or idle != self.idle_stages:
                self.idle_stages, self.idle_since = idle, now
            elif now > self.idle_since + patience:
                raise ExecutorGone("tasks are pending, and none runs")

    def _note_executors(self, present: set[str]) -> None:
        """Remember executors, and for the context's later calls their number."""
        self.known |= present
        _counts[self.sc.applicationId] = len(self.known)

    def _idle(self) -> tuple:
        """Return the call's stages that have unfinished tasks, if no task of the context runs; else ().

        The running tasks are read from the scheduler. The status tracker does not show tasks that start within 0.1 s of their
        stage until the next heartbeat.
        """
        scala, tracker = self.sc._jsc.sc(), self.sc.statusTracker()
        running_tasks = scala.taskScheduler().runningTasksByExecutors().values().mkString(" ")  # one number an executor
        if set(running_tasks.split()) != {"0"}:
            return ()
        jobs = [tracker.getJobInfo(job) for job in scala.statusTracker().getJobIdsForTag(self.tag)]
        own = {stage for job in jobs if job for stage in job.stageIds}
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds() if stage in own]
        return tuple(stage for stage in stages if stage and stage.numCompletedTasks < stage.numTasks)


def spark_call(
    sc, call: Callable[[], Result], meanwhile: Callable[[], None] = lambda: None, labels: tuple[str | None, str] = (None, "")
) -> Result:
    """Run a call that starts Spark jobs in another thread, while this one calls `meanwhile` repeatedly. The call is repeated if
    its jobs wait for a lost executor, so it must be idempotent.

    Its jobs have the properties of this thread, such as the scheduler's pool, and a tag. By the tag they are cancelled on
    Ctrl-C, if `meanwhile` raises, and before the call is repeated. labels: (job group, description) for Spark's page; this
    thread's own group takes precedence, and its own description is put before.
    """
    properties = sc._jsc.sc().getLocalProperties().clone()
    for restarts in itertools.count():
        watch = Watch(sc, f"semi-naive-{next(_numbers)}", restarts)
        try:
            return _watched(watch, call, properties, meanwhile, labels)
        except ExecutorGone as error:
            log.warning("%s: running the job again", error)
    raise AssertionError("unreachable")


def _watched(
    watch: Watch, call: Callable[[], Result], properties, meanwhile: Callable[[], None], labels: tuple[str | None, str]
) -> Result:
    """Make a call whose jobs have a monitor's tag and the properties (a Java object) of this thread; see `spark_call`. On a
    cluster another thread runs the monitor: Ctrl-C must not interrupt this thread in a call of Java."""
    sc, on_cluster = watch.sc, not on_this_host(watch.sc.master)
    monitoring = threads.monitor.submit(watch) if on_cluster else None

    def tagged_call() -> Result:
        """Make the call in the thread that runs this, whose jobs get the calling thread's properties and the tag."""
        if on_cluster:
            watch.await_executors()
        sc._jsc.sc().setLocalProperties(properties)
        _describe(sc, *labels)
        sc.addJobTag(watch.tag)
        return call()

    def check() -> None:
        meanwhile()
        if monitoring and isinstance(monitoring.error, ExecutorGone):  # the call itself raises any other error
            raise monitoring.error

    try:
        return call_interruptibly(tagged_call, watch.cancel, check)
    finally:
        watch.done.set()
        watch.begun.set()  # the monitor may still wait for it, and then ends


def _describe(sc, group: str | None, description: str) -> None:
    """Describe the next jobs of this thread on Spark's page. A group that the thread has already stays, and a description that
    it has is put before."""
    if not description:
        return
    if own := sc.getLocalProperty("spark.job.description"):
        description = f"{own}: {description}"
    if group and sc.getLocalProperty("spark.jobGroup.id") is None:
        sc.setJobGroup(group, description)
    else:
        sc.setJobDescription(description)
