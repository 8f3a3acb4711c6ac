"""End a command in order: on a signal (Ctrl-C, SIGTERM, a closed terminal), and before the system kills it for lack of
memory.

The first signal is raised in the main thread as `EndSignal`, so that it unwinds in order. If the main thread computes on for
ORDERLY_END_SECONDS, or at a second signal, the process ends at once. In both cases no process and no temporary file is left.

A command that completes cleans up, too. Then the process ends without Python's finalization: a thread of Arrow that releases
Python objects during finalization kills the process by signal 6 (https://github.com/apache/arrow/issues/34314).
"""

import atexit
import contextlib
import gc
import os
import select
import signal
import sys
import threading
import time
import warnings
from importlib import import_module

PROCESS_START = time.perf_counter() - time.process_time()  # the start of the process, up to time in which it did not compute
ORDERLY_END_SECONDS = 2.0  # seconds for an orderly end
FORCED_END_SECONDS = 10.0  # seconds after which the process ends even if cleaning up has not finished
MAX_BYTES_ALLOCATED_A_SECOND = 4 << 30  # bytes that two cores allocate in a second
MIN_CHECK_SECONDS, MAX_CHECK_SECONDS = 0.01, 0.5  # between two checks of the memory that is left; a check takes 0.1 ms
# New objects between two garbage collections, which traverse all that is imported: 10 ms for 50,000 objects, a twentieth of
# the time of a small program, which makes no more objects than that.
OBJECTS_BETWEEN_COLLECTIONS = 200_000
LIMITED_STACK_BYTES = 2 << 20  # bytes of a thread's stack under a limit, which counts stacks as used; 8 MB otherwise
PANDAS = "PySpark does not yet fully support pandas"  # pandas 3 makes pyspark warn; no command uses pandas
SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides the cursor
SIGNAL_TEXTS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "its terminal is gone"}


class EndSignal(BaseException):
    """A signal of this number requests the end of the process. Not a KeyboardInterrupt, which click would convert."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number

    @property
    def status(self) -> int:
        """The exit status of a process ended by the signal, as shells report it."""
        return 128 + self.number

    def __str__(self) -> str:
        return SIGNAL_TEXTS[signal.Signals(self.number).name]


class Ending:
    """The state of the end of the process.

    received: the first signal.
    done: True once the command has ended by itself.
    by: the thread that ends the process at once.
    status: the exit status of a process that no signal ends.
    """

    received: EndSignal | None = None
    done = False
    by: int | None = None
    status = 1  # as for an uncaught exception, after Python has printed it


_once = threading.Lock()


def listen() -> None:
    """Handle signals by ending this process in order. Signals that the parent process has set to be ignored stay ignored, as
    with nohup."""
    numbers = [getattr(signal, name) for name in SIGNAL_TEXTS if hasattr(signal, name)]
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)  # written to at once, even while the main thread computes
    threading.Thread(target=_watch, args=[read, numbers], name="semi-naive-ending", daemon=True).start()


def _on_signal(number: int, frame) -> None:
    """Raise EndSignal in the main thread at the first signal; end at once at the second."""
    if Ending.done or Ending.received:
        return end_now(Ending.received or EndSignal(number))
    Ending.received = EndSignal(number)
    sys.unraisablehook = lambda _: None
    threading.excepthook = lambda _: None  # errors from here on cannot be reported
    raise Ending.received


def _watch(read: int, numbers: list[int]) -> None:
    """End the process ORDERLY_END_SECONDS after the first signal, or at the second one, if the main thread has not ended it.
    read: the pipe to which the interpreter writes the number of each signal."""
    while (first := os.read(read, 1)[0]) not in numbers:
        pass
    select.select([read], [], [], ORDERLY_END_SECONDS)
    end_now(EndSignal(first))


def end_now(received: EndSignal) -> None:
    """Clean up and end the process at once. If several threads call it, the first does it."""
    if _once.acquire(blocking=False):
        Ending.by = threading.get_ident()
        if not Ending.done:
            os.write(2, f"{SHOW_CURSOR if os.isatty(2) else ''}semi-naive: {received}\n".encode())
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # other threads may report errors, as processes end that they use
        if "semi_naive.host.leftovers" in sys.modules:
            sys.modules["semi_naive.host.leftovers"].end()
    elif Ending.by == threading.get_ident():
        return  # a signal has interrupted this thread's own call
    else:
        time.sleep(FORCED_END_SECONDS)
    os._exit(received.status)


class MemoryExhausted(EndSignal):
    """Memory is exhausted: the system is about to kill the process without a message."""

    status = 1

    def __init__(self, error: Exception):
        BaseException.__init__(self, error)

    def __str__(self) -> str:
        return str(self.args[0])


def watch_memory() -> None:
    """End the process when memory is about to be exhausted; runs in a thread."""
    memory = import_module("semi_naive.host.memory")
    while not Ending.done:
        left, error = memory.bytes_before_kill()
        if error is not None:
            end_now(MemoryExhausted(error))
        time.sleep(min(max(left / MAX_BYTES_ALLOCATED_A_SECOND, MIN_CHECK_SECONDS), MAX_CHECK_SECONDS))


def exit_process() -> None:
    """End the process, after Python has printed an uncaught error, waited for threads and run exit functions. If the last
    output cannot be written, Python ends by itself, and reports it."""
    with contextlib.suppress(OSError, ValueError):
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        os._exit(Ending.status)


def set_up_libraries() -> None:
    """Set environment variables and limits before libraries are loaded."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads for matrices, of which there are none, take 0.07 s
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # its own keeps memory, and reserves all up to a limit
    memory = import_module("semi_naive.host.memory")
    memory.keep_less_freed_memory()
    if import_module("semi_naive.host.memory_limits").is_process_limited():
        threading.stack_size(LIMITED_STACK_BYTES)


def command() -> None:
    """Run the command `semi-naive`: the entry point of the process."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    set_up_libraries()
    atexit.register(exit_process)  # called after all that is registered later
    warnings.filterwarnings("ignore", PANDAS, FutureWarning)
    listen()
    try:
        main = import_module("semi_naive.__main__").main
        threading.Thread(target=watch_memory, name="semi-naive-memory", daemon=True).start()
        main(begun=PROCESS_START)
        Ending.status = 0
    except SystemExit as done:
        Ending.status = done.code if isinstance(done.code, int) else bool(done.code)  # as Python does: 0 for None, 1 for a text
        raise
    finally:
        if Ending.received:  # even if a library has caught the exception
            end_now(Ending.received)
        Ending.done = True
