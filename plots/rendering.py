"""Pages made by a process of their own, which yields to the evaluation: drawing figures takes a second of Python, and a thread
would take it from the driver.

One line of JSON to it, the record; one line back, the page or what went wrong. It ends when its input does.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading

YIELDING = 10  # added to the process's niceness


class Renderer:
    """Call it with a record and what the run is called; returns the body of the report. RuntimeError when that fails."""

    def __init__(self):
        self.process, self.lock = None, threading.Lock()

    def __call__(self, record: dict, name: str) -> str:
        with self.lock:
            if self.process is None or self.process.poll() is not None:
                self.process = _started()
            answer = self._asked({"record": record, "name": name})
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["body"]

    def _asked(self, request: dict) -> dict:
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError):
            return {"error": "the process that draws has ended"}

    def close(self) -> None:
        """End the process, if one was ever needed."""
        if self.process is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
            self.process.terminate()
            self.process.wait()
            self.process.stdout.close()


def _started() -> subprocess.Popen:
    """In a session of its own: an interrupted run has its end shown too."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    command = [sys.executable, "-m", "semi_naive.plots.rendering"]
    return subprocess.Popen(command, start_new_session=True, encoding="utf-8", **pipes)


def answer(request: dict) -> dict:
    """What is wrong with the figures of one state is said on the page; the next state is tried again."""
    from semi_naive.plots.report import body

    try:
        return {"body": body([request["record"]], [request["name"]])}
    except Exception as wrong:
        return {"error": f"{type(wrong).__name__}: {wrong}"}


def main() -> None:
    with contextlib.suppress(AttributeError, OSError):
        os.nice(YIELDING)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
