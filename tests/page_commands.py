"""What pages of docs/ show somebody who sits at a shell: their files, and their commands with what these print.

A block with a title is a file: ```datalog title="reach.dl". A block ```console has commands after `$ `, each followed by what
it prints, errors first, and by `[exit status 2]` where that is not 0.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELL = set("|<>*$;&")


def write_files(page: str, folder: Path) -> None:
    for _, title, text in BLOCK.findall(page):
        if title:
            path = folder / title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def commands(page: str) -> list[tuple[str, str]]:
    """(command, what the page says that it prints)."""
    found = []
    for kind, _, text in BLOCK.findall(page):
        if kind == "console":
            found += [(part.split("\n", 1)[0], part.partition("\n")[2]) for part in re.split(r"^\$ ", text, flags=re.M)[1:]]
    return found


def printed(command: str, run) -> str:
    """What a command prints; run: calls `semi-naive` in this process, which is quick. Others, and pipes, go to a shell."""
    if command.startswith("semi-naive ") and not SHELL & set(re.sub(r"'[^']*'", "", command)):
        status, out, errors = run(*shlex.split(command)[1:])
    else:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=os.environ | {"PATH": path})
        status, out, errors = done.returncode, done.stdout, done.stderr
    return errors + out + f"[exit status {status}]\n" * bool(status)


def trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]
