"""The driver of `on_cluster`, run once for all processes of the tests, beside the other tests: it waits more than it computes.

python tests/cluster_outcome.py FOLDER    writes FOLDER/outcome.json; ends early if standard input is closed
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from bench.private_cluster import private_cluster

LONGEST = 1800  # seconds that all cases may take: three minutes where nothing else runs, and fifteen on a busy machine
_started: list[subprocess.Popen] = []  # which end with this process, as their standard input is closed then


def shared(tmp_path_factory) -> Path:
    """The temporary folder that all processes of the tests have in common."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def begin(shared: Path) -> Path:
    """Start the driver, unless a process has done so. Returns its folder. shared: a folder of all processes of the tests."""
    folder = shared / "cluster"
    try:
        folder.mkdir()
    except FileExistsError:
        return folder
    command = [sys.executable, __file__, str(folder)]
    errors = open(folder / "errors", "w")  # noqa: SIM115 - the process has it
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    _started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=errors, stderr=errors, env=env))
    return folder


def outcome(shared: Path) -> dict:
    """What the driver says of its cases, by name; `left`: what is on the hosts before the executor is killed; `said`."""
    folder, late = begin(shared), time.monotonic() + LONGEST
    while not (found := folder / "outcome.json").exists():
        ended = any(process.poll() is not None for process in _started)
        assert not ended or found.exists(), (folder / "errors").read_text()[-3000:]
        assert time.monotonic() < late, "the cluster takes too long"
        time.sleep(0.1)
    return json.loads(found.read_text())


def main(folder: Path) -> None:
    disk, logs = folder / "disk", folder / "logs"
    disk.mkdir()
    logs.mkdir()
    with private_cluster(disk, logs) as cluster, open(logs / "driver", "w+") as errors:
        driver = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("on_cluster.py"), cluster.master],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=cluster.environment(),
        )  # fmt: skip
        threading.Thread(target=lambda: (sys.stdin.read(), driver.kill()), daemon=True).start()
        found = {}
        for line in driver.stdout:
            if line == "kill\n":
                found["left"] = cluster.left()
                cluster.an_executor().kill()
            elif line != "stop\n":
                found |= {case["case"]: case for case in [json.loads(line)]}
                continue
            driver.stdin.write("\n")
            driver.stdin.flush()
        status = driver.wait(60)
        errors.seek(0)
        found |= {"said": errors.read(), "status": status}
    (folder / "written.json").write_text(json.dumps(found))
    (folder / "written.json").rename(folder / "outcome.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
