"""Send a signal to a command at a moment of its run, and see what is left. `python -m bench.faults` does so at random ones."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil

MARK = "SEMI_NAIVE_TEST_MARK"
PATIENCE = 5.0  # seconds in which everything that was started has to be gone
KILLED = 60.0  # the same where nobody tells Java to end: on a busy machine it takes long to start, and to find out
SAYS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "its terminal is gone"}


def signalled(arguments: list[str], number: int, after: float, folder: Path, again: float | None = None, moment=None) -> dict:
    """Run a command, send it a signal after so many seconds (and `again` so much later), and tell what came of it. moment: says
    of a command's processes whether those seconds begin."""
    mark, temporary = uuid.uuid4().hex, folder / "tmp"
    temporary.mkdir(exist_ok=True)
    env = os.environ | {MARK: mark, "TMPDIR": str(temporary)}
    process = subprocess.Popen(
        [sys.executable, "-m", "semi_naive", *arguments], cwd=folder, env=env, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    while moment and process.poll() is None and not moment(marked(mark)):
        time.sleep(0.02)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        if again is not None:
            time.sleep(again)
            process.send_signal(number)
    begun = time.monotonic()
    said, complaint = process.communicate(timeout=60)
    ended = time.monotonic() - begun
    patience = KILLED if number == signal.SIGKILL else PATIENCE
    while (running := marked(mark)) and time.monotonic() < begun + ended + patience:
        time.sleep(0.05)
    left = sorted(str(path.relative_to(temporary)) for path in temporary.iterdir())
    for other in running:
        other.kill()
    return {
        "status": process.returncode, "said": said, "complaint": complaint, "seconds": ended,
        "running": [" ".join(one.info["cmdline"] or [])[:100] for one in running], "left": left,
    }  # fmt: skip


def marked(mark: str) -> list[psutil.Process]:
    """The processes that descend from one whose environment has the mark."""
    found = []
    for process in psutil.process_iter(["name", "environ", "cmdline", "status"]):
        if (process.info["environ"] or {}).get(MARK) == mark and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def wrong(told: dict, number: int) -> list[str]:
    """What is not as it should be."""
    found = []
    if told["running"]:
        found.append(f"still running: {told['running']}")
    if told["left"] and number != signal.SIGKILL:
        found.append(f"left: {told['left']}")
    if told["status"] == -number:  # before the first line of ours, or after the last; 9 always
        return found
    if told["status"] == 0:
        return found + ([told["complaint"]] if told["complaint"] else [])
    if told["status"] != 128 + number or told["complaint"] != f"semi-naive: {SAYS[number]}\n":
        found.append(f"status {told['status']}, says {told['complaint'][-1500:]!r}")
    return found
