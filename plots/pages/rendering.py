"""Render pages in a separate low-priority process. Drawing takes a second of Python, which a thread would take from the driver.

The process reads a record as one line of JSON, and writes the page or an error as one line. It ends when its input is closed.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading

NICENESS = 10  # added to the process's niceness


class Renderer:
    """Renders the body of a record's report in another process. Raises RuntimeError on failure."""

    def __init__(self):
        self.process: subprocess.Popen[str] | None = None
        self.lock = threading.Lock()

    def __call__(self, record: dict, name: str) -> str:
        """Return the HTML body of a page. Starts the process if necessary."""
        with self.lock:
            if self.process is None or self.process.poll() is not None:
                self.process = _start_renderer()
            answer = _send_request(self.process, {"record": record, "name": name})
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["body"]

    def close(self) -> None:
        """End the process, if one was started."""
        if self.process is not None:
            assert self.process.stdin is not None and self.process.stdout is not None
            with contextlib.suppress(OSError):
                self.process.stdin.close()
            self.process.terminate()
            self.process.wait()
            self.process.stdout.close()


def _start_renderer() -> subprocess.Popen[str]:
    """Start the process in a session of its own, so that it also shows the end of an interrupted run."""
    command, pipe = [sys.executable, "-m", "semi_naive.plots.pages.rendering"], subprocess.PIPE
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=quiet, start_new_session=True, encoding="utf-8")


def _send_request(process: subprocess.Popen[str], request: dict) -> dict:
    """Return the answer of the process, as `answer` makes it; an error if it has ended."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())
    except (OSError, ValueError):
        return {"error": "the process that draws has ended"}


def answer(request: dict) -> dict:
    """Render one record. Errors of one state's figures are shown on the page; the next state is tried again."""
    from semi_naive.plots.pages.report import body

    try:
        return {"body": body([request["record"]], [request["name"]])}
    except Exception as wrong:
        return {"error": f"{type(wrong).__name__}: {wrong}"}


def answer_requests() -> None:
    """Answer requests from standard input until it ends: the main function of the process."""
    with contextlib.suppress(AttributeError, OSError):
        os.nice(NICENESS)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    answer_requests()
