"""The closure of a bow tie on one partition by a process whose data are limited: what rolling over saves.

    python -m bench.paper.limited WIDTH THRESHOLD MEGABYTES

A THRESHOLD of 0 does not roll over. MEGABYTES, by which the data of the process may grow after it has loaded everything; 0 does
not limit them. Prints the pairs, the inner iterations and the bytes that the peak is above the start, or what was used up.
"""

import json
import resource
import sys
from pathlib import Path

from bench.fuzz.jobs_here import in_this_process
from bench.paper.runs import inner_iterations
from semi_naive import OutOfMemory, transitive_closure
from semi_naive.graphs import bowtie

LENGTH = 10  # nodes between the sources and the sinks


def main(arguments: list[str]) -> dict:
    width, threshold, megabytes = map(int, arguments)
    rolling = {"rollover_threshold": threshold} if threshold else {"rollover": False}
    with in_this_process() as context:
        settings = {"plan": "balanced", "partitions": 1, "run_ahead": 0, **rolling}
        transitive_closure(bowtie(10, LENGTH), context, **settings).close()  # loads and compiles everything
        begin = _status("VmHWM")
        if megabytes:
            resource.setrlimit(resource.RLIMIT_DATA, (_status("VmData") + megabytes * 1_000_000,) * 2)
        try:
            with transitive_closure(bowtie(width, LENGTH), context, **settings) as found:
                inner = sum(map(inner_iterations, found.trace["iterations"]))
                return {"pairs": found.count(), "inner": inner, "bytes": _status("VmHWM") - begin}
        except OutOfMemory as error:
            return {"pairs": None, "inner": None, "bytes": None, "error": str(error).partition(":")[0]}


def _status(name: str) -> int:
    """Return a quantity of this process in bytes, as Linux has it: VmHWM, the peak of resident memory; VmData."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
