"""What every benchmark's command does: measure, show, and keep the results."""

import json
import sys
from pathlib import Path


def command(name: str, options, run, show, told: tuple = ()) -> int:
    """The exit status: 1, after one line, when `run` raises something of `told`. options.out: for the results, as JSON."""
    try:
        results = run(options)
    except told as wrong:
        print(f"{name}: {wrong}", file=sys.stderr)
        return 1
    show(results)
    if options.out:
        Path(options.out).write_text(json.dumps(results, indent=1) + "\n")
    return 0
