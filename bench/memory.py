"""How much memory a run takes at its peak: `python -m bench.memory FILE PLAN` is the run, `peak` watches one.

A process of its own, so that nothing another engine left behind is counted.
"""

import subprocess
import sys
import time
from pathlib import Path

import psutil

EVERY = 0.05  # seconds


def peak(path: str, plan: str) -> dict:
    """Peaks in bytes: all Python processes together (driver and workers), of that what is not a mapped file, the JVM.

    Shared pages count once (the kernel's proportional set size) where there is /proc, otherwise in every process.
    """
    run = subprocess.Popen([sys.executable, "-m", "bench.memory", path, plan], stdout=subprocess.PIPE, text=True)
    root, peaks = psutil.Process(run.pid), {"python": 0, "python_anonymous": 0, "jvm": 0}
    while run.poll() is None:
        for kind, size in now(root).items():
            peaks[kind] = max(peaks[kind], size)
        time.sleep(EVERY)
    if run.returncode:
        raise RuntimeError(f"the run whose memory was measured failed with status {run.returncode}")
    return {**peaks, "pairs": int(run.stdout.read())}


def now(root: psutil.Process) -> dict[str, int]:
    """Bytes resident now, in a process and its descendants."""
    sums = {"python": 0, "python_anonymous": 0, "jvm": 0}
    try:
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return sums
    for process in processes:
        try:
            name, (resident, anonymous) = process.name(), resident_of(process)
        except (psutil.Error, OSError):
            continue  # it has ended
        if name.startswith("python"):
            sums["python"] += resident
            sums["python_anonymous"] += anonymous
        elif name.startswith("java"):
            sums["jvm"] += resident
    return sums


def resident_of(process: psutil.Process) -> tuple[int, int]:
    """(all, anonymous) bytes of one process."""
    rollup = Path(f"/proc/{process.pid}/smaps_rollup")
    if not rollup.exists():
        return process.memory_info().rss, process.memory_info().rss
    lines = (line.split() for line in rollup.read_text().splitlines()[1:])
    sizes = {words[0]: int(words[1]) * 1024 for words in lines}
    return sizes["Pss:"], sizes.get("Pss_Anon:", sizes["Pss:"])


def main(path: str, plan: str) -> None:
    from semi_naive import transitive_closure
    from semi_naive.ra.spark import spark_context

    with transitive_closure(path, spark_context.start(), plan=plan) as closure:
        print(closure.count())


if __name__ == "__main__":
    main(*sys.argv[1:])
