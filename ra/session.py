"""The Spark session: the one a user already has, as it is, or an embedded one with the settings measured to matter."""

import os
import re
import shutil
import subprocess
import sys

JAVA = 17
NEEDS_JAVA = f"Spark needs Java {JAVA} or later"
HOW = (
    "install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless · Fedora: dnf install java-17-openjdk-headless"
    " · macOS: brew install openjdk@17 · any: https://adoptium.net), or set JAVA_HOME to where it is"
)

# Each line with its reason; the times are of a job that does nothing, 2 cores, Spark 4.3.
SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",  # 45 ms instead of 84: TCP pays a delayed acknowledgement
    "spark.shuffle.compress": "false",  # what we ship is already coded
    "spark.ui.enabled": "false",  # a web server nobody asked for
    "spark.ui.showConsoleProgress": "false",  # its bar would write over ours
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",  # a laptop whose own name does not resolve can still start
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "0",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4 -XX:+UseParallelGC -Xshare:auto",
}


class NoJava(RuntimeError):
    """Java is missing or too old; the message says what to install and how."""


def check_java() -> int:
    """The major version of the Java that Spark would start. NoJava when there is none, or it is too old."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    if not shutil.which(java):
        raise NoJava(f"{NEEDS_JAVA}, and there is no {java!r}: {HOW}")
    text = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    if not found or int(found[1]) < JAVA:
        raise NoJava(f"{NEEDS_JAVA}, and {java!r} is {text.splitlines()[0] if text else 'not a Java'}: {HOW}")
    return int(found[1])


def start(master: str | None = None, cores: int | None = None):
    """The session that runs, or a new one: `master`, or local mode on `cores` (default: all) that retries failed tasks."""
    from pyspark.sql import SparkSession

    if (running := SparkSession.getActiveSession()) is not None and master is None:
        return running
    check_java()
    # Workers would otherwise be started by whatever `python3` is on the path, which need not have this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("semi-naive")
    builder = builder.master(master or f"local[{cores or cpus()},4]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.shuffle.partitions", str(cores or cpus()))
    return builder.getOrCreate()


def cpus() -> int:
    """Cores this process may use (a container's share, not the machine's)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def context_of(spark):
    """The SparkContext of what a user gave: a session, a context, or None for the one that runs or a new one."""
    session = spark if spark is not None else start()
    return getattr(session, "sparkContext", session)
