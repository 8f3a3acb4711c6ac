"""Finding the program that includes a file, in its folder or above, up to the workspace."""

import os
import re
from collections import defaultdict
from pathlib import Path

from semi_naive.language.origins import read_text

MAX_PROGRAMS = 2_000  # programs of a workspace that are looked at
INCLUDE = re.compile(r'^[ \t]*(?:\.include|#[ \t]*include)[ \t]*"([^"\n]+)"', re.MULTILINE)
SUFFIXES = ".dl", ".datalog"


def root_of(path: str, folder: str | None) -> str:
    """The program that includes a file, directly or not, the first by name; the file itself if there is none. folder: the
    workspace; None: only programs beside the file are considered."""
    by = defaultdict(set)
    for program in _programs(Path(folder or os.path.dirname(path))):
        for name in _includes(program):
            by[os.path.abspath(os.path.join(os.path.dirname(program), name))].add(program)
    seen, root = {path}, path
    while above := sorted(by[root] - seen):
        root = above[0]
        seen.add(root)
    return root


def _programs(folder: Path) -> list[str]:
    found: list[str] = []
    for place, inside, names in os.walk(folder):
        inside[:] = [name for name in inside if not name.startswith(".") and name != "node_modules"]
        found += [os.path.abspath(os.path.join(place, name)) for name in names if name.endswith(SUFFIXES)]
        if len(found) >= MAX_PROGRAMS:
            break
    return found[:MAX_PROGRAMS]


def _includes(program: str) -> list[str]:
    try:
        return INCLUDE.findall(read_text(program))
    except OSError:
        return []
