"""Start Spark: return the session or context that the user has, or make one with the settings that measurements favour."""

import logging
import os
import site
import sys
import sysconfig
import threading
import time
from dataclasses import dataclass

from semi_naive.host import leftovers, limits
from semi_naive.host.optional_packages import import_optional
from semi_naive.host.threads import cpus
from semi_naive.ra.spark import lost

MAX_REGISTRATION_SECONDS = 30.0  # after the start of a context, in which executors may register
QUIET_SECONDS = 1.5  # without a new executor, after which all are assumed to have registered
_settled: set[str] = set()  # the application ids of contexts whose executors have registered

PYSPARK = "'pyspark>=4.1,<5'"  # as in setup.cfg

LOOPBACK = "127.0.0.1"  # for local mode: a laptop whose own name does not resolve can still start

CONNECT_HAS_NO_CONTEXT = (
    "a session of Spark Connect has no SparkContext, which the engine's jobs need: leave spark out. The run is then in this"
    " process, on its cores; it takes DataFrames of Spark Connect as facts, and to_df() makes one of the answer. Or pass a"
    " session that is not of Spark Connect"
)
DAEMON_SETTING, WAIT_SETTING = "spark.python.daemon.module", "spark.locality.wait"

# Each setting has its reason; times are those of a job without work, 2 cores, Spark 4.3.
SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",  # 45 ms instead of 84: TCP pays a delayed acknowledgement
    "spark.shuffle.compress": "false",  # what we ship is already coded
    # Spark's default, zstd, is native code that is unpacked into the temporary folder. If that is full, or memory is short, the
    # driver's thread that reports the places of shuffles ends, and the job waits forever. lz4 also exists in Java.
    "spark.shuffle.mapStatus.compression.codec": "lz4",
    "spark.ui.enabled": "false",  # a web server that is not needed
    "spark.ui.showConsoleProgress": "false",  # its bar would write over ours
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    DAEMON_SETTING: "semi_naive.ra.spark.daemon",  # not documented by Spark; 1.2 s to the first result instead of 1.7
    "spark.driver.maxResultSize": "0",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
}


def start(master: str | None = None, cores: int | None = None):
    """Return a SparkSession: the active one if `master` is None, else one on the context that `context` returns."""
    sc = context(master, cores)
    from pyspark.sql import SparkSession

    return (SparkSession.getActiveSession() if master is None else None) or SparkSession(sc)


def active():
    """Return the SparkContext of this process, or None. Does not import pyspark."""
    pyspark = sys.modules.get("pyspark")
    return getattr(getattr(pyspark, "SparkContext", None), "_active_spark_context", None)


@dataclass(frozen=True)
class OnDemand:
    """A function that returns a SparkContext, and starts it if necessary: see `context`."""

    master: str | None = None
    cores: int | None = None

    def __call__(self):
        return context(self.master, self.cores)


def context(master: str | None = None, cores: int | None = None):
    """Return the running SparkContext, or start one: on `master`, or local on `cores` (default: all) with failed tasks retried.
    Starting takes 2.5 s. A SparkSession on top takes another 2 s and is started only when DataFrames are needed. Raises
    NotInstalled without pyspark."""
    import_optional("pyspark", "Spark, on which what is large runs,", PYSPARK)
    from pyspark import SparkConf, SparkContext

    from semi_naive.ra.spark.aside import call_interruptibly
    from semi_naive.ra.spark.java import heap_bytes

    running = SparkContext._active_spark_context
    # A lost context of the engine is replaced; for one of the user, `context_of` raises SparkLost.
    if running is not None and leftovers.is_ours(getattr(running._gateway, "proc", None)) and lost.is_lost(running):
        lost.forget_context(running)
    elif running is not None and master is None:
        return context_of(running)
    # Workers would otherwise run the `python3` of the path, which may not have this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAppName("semi-naive").setMaster(master or f"local[{cores or cpus()},4]")
    for key, value in SETTINGS.items():
        conf.set(key, value)
    for name, value in _worker_environment().items():
        conf.set(f"spark.executorEnv.{name}", value)
    conf.set("spark.driver.memory", f"{heap_bytes() >> 20}m")
    if master is None:
        conf.set("spark.driver.bindAddress", LOOPBACK).set("spark.driver.host", LOOPBACK)
    elif not master.startswith("local"):
        # Its hosts may receive this package only with the first task, so our daemon cannot start their workers. A task waits
        # for the host that has its runs: sending them takes longer.
        conf.set(DAEMON_SETTING, "pyspark.daemon").set(WAIT_SETTING, conf.get(WAIT_SETTING, "10min"))
    conf.set("spark.sql.shuffle.partitions", str(cores or cpus()))
    given_up = threading.Event()  # set by Ctrl-C or a limit: the start of Java then ends
    return call_interruptibly(lambda: _make_context(conf, given_up), given_up.set, limits.check_limits)


def _worker_environment() -> dict[str, str]:
    """Return the environment variables of Python workers. PYTHONSAFEPATH keeps a file `random.py` in the user's working
    directory from shadowing a module. If this package was imported from a checkout, PYTHONPATH makes workers import it, too."""
    root = os.path.dirname(os.path.dirname(sys.modules[__name__.split(".")[0]].__file__ or ""))
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()}
    return {"PYTHONSAFEPATH": "1"} | ({} if root in installed else {"PYTHONPATH": root})


def _make_context(conf, given_up: threading.Event):
    """Start a SparkContext unless another thread has started one. Raises SparkLost if its Java process has ended meanwhile."""
    from pyspark import SparkContext

    from semi_naive.ra.spark.java import gateway

    with SparkContext._lock:
        if SparkContext._active_spark_context is None:
            java = SparkContext._gateway or gateway(conf, given_up)
            try:
                sc = SparkContext(conf=conf, gateway=java)
            except Exception as error:
                if not lost.ended(java, lost.ENDING_SECONDS):
                    raise
                lost.forget_context()
                raise lost.lost_error(java) from error
            # If Java ends, both would print the stack to standard error; the caller gets an exception anyway.
            sc._accumulatorServer.handle_error = lambda *_: None
            logging.getLogger().addFilter(lambda record: record.msg != "Exception while sending command.")  # of py4j
        return SparkContext._active_spark_context


def cores(sc) -> int:
    """Return the number of cores of a SparkContext. The executors of a cluster register one after the other: in the first
    seconds of a context this waits until no further one registers."""
    if not sc.master.startswith("local") and sc.applicationId not in _settled:
        _settled.add(sc.applicationId)
        sc.parallelize([0], 1).count()  # waits for the first
        known, since = 0, time.monotonic()
        while time.time() - sc.startTime / 1000 < MAX_REGISTRATION_SECONDS and time.monotonic() - since < QUIET_SECONDS:
            time.sleep(QUIET_SECONDS / 10)
            if sc.defaultParallelism != known:
                known, since = sc.defaultParallelism, time.monotonic()
    return sc.defaultParallelism


def is_connect(session_or_frame) -> bool:
    """True if a session or a DataFrame belongs to Spark Connect. Does not import it."""
    return type(session_or_frame).__module__.startswith("pyspark.sql.connect")


def active_connect_session():
    """Return the session of Spark Connect that is active in this thread, or None."""
    module = sys.modules.get("pyspark.sql.connect.session")
    return module and module.SparkSession.getActiveSession()


def context_of(spark):
    """Return the SparkContext of a user's session or context; for None the running one, or a new one.

    By default, the workers of a local context run the `python3` of the path, which may not have this package: they get this
    process's interpreter instead. Raises SparkLost if the given context has ended, ValueError for a session of Spark Connect,
    TypeError for anything else.
    """
    if spark is None:
        return context()
    if is_connect(spark):
        raise ValueError(CONNECT_HAS_NO_CONTEXT)
    sc = getattr(spark, "sparkContext", spark)
    if not hasattr(sc, "pythonExec"):
        raise TypeError(f"spark is {spark!r}: expected a SparkSession or a SparkContext, or none for a Spark of this process")
    if lost.is_lost(sc):
        raise lost.lost_error(sc._gateway)
    if sc.pythonExec == "python3" and sc.master.startswith("local"):
        sc.pythonExec = sys.executable
    return sc


def map_in_arrow(frame, task, schema):
    """Return `frame.mapInArrow(task, schema)`, also without pandas, which Spark requires for it but does not use."""
    try:
        return frame.mapInArrow(task, schema)
    except ImportError:
        from pyspark.sql import DataFrame
        from pyspark.sql.udf import _create_udf
        from pyspark.util import PythonEvalType

        mapped = _create_udf(task, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)(*(frame[name] for name in frame.columns))
        # no barrier, no resource profile: the defaults of `frame.mapInArrow`
        return DataFrame(frame._jdf.mapInArrow(mapped._jc, False, None), frame.sparkSession)
