"""Find, start and end the Java process that Spark runs in.

pyspark can start it, too. But if it is interrupted meanwhile, it removes the folder in which the process reports how it can be
reached; the process then fails to report it and never ends. Here nothing is removed before the process has ended.

The process ends when its standard input is closed, so also when this process is killed. It leads a session of its own: Ctrl-C
in the terminal reaches neither it nor the Python workers that it starts.
"""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator

from semi_naive.host import leftovers
from semi_naive.host.memory import is_memory, out_of_memory
from semi_naive.host.memory_limits import limit
from semi_naive.ra.spark.masters import on_this_host

MIN_JAVA_VERSION = 17
MAX_HEAP_BYTES, MIN_HEAP_BYTES = 2 << 30, 384 << 20  # bytes of Java's heap: the most it is given, and what Spark needs to start
JAVA_MEMORY_DIVISOR = 4  # Java gets a quarter of the memory limit; this process and the Python workers share the rest
NEEDS_JAVA = f"Spark needs Java {MIN_JAVA_VERSION} or later"
HOW_TO_INSTALL = (
    "install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless · Fedora: dnf install java-17-openjdk-headless"
    " · macOS: brew install openjdk@17 · any: https://adoptium.net), or set JAVA_HOME to where it is"
)
POLL_SECONDS = 0.01  # between two checks whether Java has started
MAX_START_SECONDS = 120.0  # that Java may take to start
MAX_QUOTED_CHARACTERS = 2000  # of Java's output that an error repeats
MAX_SOCKET_FOLDER_CHARACTERS = 100 - len("/.01234567-0123-0123-0123-0123456789ab.sock")  # Linux limits a socket's path
SHORT_TEMPORARY_FOLDER = "/tmp"  # used if the name of the temporary directory is too long
OPTIONS = "spark.driver.extraJavaOptions"
SMALL_OPTIONS = ("-XX:CompressedClassSpaceSize=96m", "-XX:ReservedCodeCacheSize=96m")  # reserves 1.2 GB else
PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"  # the variables that tell pyspark of a started process


class NoJava(RuntimeError):
    """Java is missing or too old; the message says what to install and how."""


class NotStarted(RuntimeError):
    """The Java process of Spark ended before it was ready; the message has its output."""


def check_java() -> int:
    """Return the major version of the Java that Spark would start. Raises NoJava if there is none, or it is too old."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    if not shutil.which(java):
        raise NoJava(f"{NEEDS_JAVA}, and there is no {java!r}: {HOW_TO_INSTALL}")
    text = subprocess.run([java, "-Xmx32m", *SMALL_OPTIONS, "-version"], capture_output=True, text=True).stderr
    if is_memory(text):
        raise out_of_memory(text, "the start of Java")
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    if not match or int(match[1]) < MIN_JAVA_VERSION:
        raise NoJava(f"{NEEDS_JAVA}, and {java!r} is {text.splitlines()[0] if text else 'not a Java'}: {HOW_TO_INSTALL}")
    return int(match[1])


def heap_bytes() -> int:
    """Return the size of Java's heap. Spark needs little here, as tuples do not pass through it."""
    return max(MIN_HEAP_BYTES, min(MAX_HEAP_BYTES, limit() // JAVA_MEMORY_DIVISOR))


def gateway(conf, given_up: threading.Event):
    """Connect pyspark to a new Java process with the settings of a SparkConf, or to the one that started this process. Raises
    NotStarted, with the output of the process, if it does not start, or if `given_up` is set before it has."""
    from pyspark.java_gateway import launch_gateway

    from semi_naive.ra.storage.runs import Store

    if PORT in os.environ or os.name != "posix":  # elsewhere pyspark starts the process
        return launch_gateway(conf)
    check_java()
    scratch = Store.create()
    for name, value in _folders(conf, scratch):
        conf.set(name, value)
    with tempfile.TemporaryFile() as output:
        process, port, secret = _start_java(_command(conf), scratch.path("java"), output, given_up)
    os.environ[PORT], os.environ[SECRET] = port, secret  # `launch_gateway` reads them, and starts no process then
    try:
        connection = launch_gateway()
    except Exception as error:  # it has ended meanwhile, or reported a wrong port or secret
        leftovers.end_process(process, patience=0)
        raise NotStarted(f"Spark did not start: there is no connection to its Java process: {error}") from error
    finally:
        del os.environ[PORT], os.environ[SECRET]
    connection.proc = process
    return connection


def _folders(conf, scratch) -> Iterator[tuple[str, str]]:
    """Yield (setting, value) for the folders that a local Spark writes to. They are below the store `scratch`, which is removed
    even if this process is killed."""
    if not on_this_host(conf.get("spark.master", "")):
        return
    os.makedirs(scratch.path("spark"))
    yield "spark.local.dir", scratch.path("spark")
    if sockets := _socket_folder(scratch):
        yield "spark.python.unix.domain.socket.dir", sockets.root
    else:
        yield "spark.python.unix.domain.socket.enabled", "false"
    small = " ".join(SMALL_OPTIONS) if heap_bytes() < MAX_HEAP_BYTES else ""
    own = f"{small} -XX:-UsePerfData {shlex.quote('-Djava.io.tmpdir=' + scratch.path('spark'))}"  # Spark splits as a shell does
    yield OPTIONS, f"{conf.get(OPTIONS, '')} {own}"


def _socket_folder(scratch):
    """Return a store whose path is short enough for a socket in it: `scratch`, or a new one; None if there is none."""
    from semi_naive.ra.storage.runs import Store

    if len(os.fsencode(scratch.root)) <= MAX_SOCKET_FOLDER_CHARACTERS:
        return scratch
    with contextlib.suppress(OSError):
        other = Store.create(SHORT_TEMPORARY_FOLDER)
        if len(os.fsencode(other.root)) <= MAX_SOCKET_FOLDER_CHARACTERS:
            return other
        other.remove()
    return None


def _command(conf) -> list[str]:
    """Return the command line that starts Spark's Java process."""
    from pyspark.find_spark_home import _find_spark_home

    settings = [word for name, value in conf.getAll() for word in ("--conf", f"{name}={value}")]
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    return [os.path.join(_find_spark_home(), "bin", "spark-submit"), *settings, *arguments]


def _start_java(command: list[str], report_path: str, output, given_up: threading.Event) -> tuple[subprocess.Popen, str, str]:
    """Start the process, and return (process, port, secret). report_path: the file into which it writes port and secret;
    output: a file for its output, which is read only if it does not start."""
    from pyspark.serializers import UTF8Deserializer, read_int

    # as pyspark sets them for the process that it starts
    env = os.environ | {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": report_path}
    if heap_bytes() < MAX_HEAP_BYTES:  # memory is limited: spark-submit's own Java and the C library take less, too
        env |= {"SPARK_LAUNCHER_OPTS": " ".join(SMALL_OPTIONS), "MALLOC_ARENA_MAX": "2"}
    # it ends when its standard input is closed, and Ctrl-C does not reach its own session
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=env, start_new_session=True)
    leftovers.add_process(process)
    until = time.monotonic() + MAX_START_SECONDS
    while not os.path.exists(report_path):
        late = time.monotonic() > until
        if late or given_up.is_set() or process.poll() is not None:
            leftovers.end_process(process, patience=0)
            output.seek(0)
            text = output.read().decode(errors="replace")
            if is_memory(text):
                raise out_of_memory(text, "the start of Java")
            reason = (
                f"Java has not said in {MAX_START_SECONDS:.0f} s how it is reached"
                if late
                else f"Java ended with status {process.returncode}"
            )
            raise NotStarted(f"Spark did not start: {reason}\n{text[-MAX_QUOTED_CHARACTERS:]}")
        time.sleep(POLL_SECONDS)
    with open(report_path, "rb") as info:
        return process, str(read_int(info)), UTF8Deserializer().loads(info)
