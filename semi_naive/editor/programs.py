"""The programs that are open in an editor: read again when a file changes, and checked like `semi-naive check`.

The program that includes a file is searched for in the file's folder and above, up to the workspace.
"""

import os
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from semi_naive.cli.check import problems_in
from semi_naive.editor.names import Names
from semi_naive.language.errors import Problem, ProgramError
from semi_naive.language.origins import UNSAVED, read_text
from semi_naive.language.parsing.parse import parse, parse_all
from semi_naive.planning.rewriting.passes import Compiled, apply_passes
from semi_naive.ra import ir


@dataclass
class Reading:
    """The part of a program that can be parsed. texts: the text of each file, by path."""

    root: str
    names: Names
    texts: dict[str, str]


@dataclass
class Checked:
    """A program without errors. compiled: its strata."""

    program: ir.Program
    compiled: Compiled


class Programs:
    """The programs of a workspace. folder: the workspace; reading: options of `Program`; unsaved: the editor's texts by path,
    an immutable mapping that is replaced on each change.
    """

    def __init__(self, folder: str | None = None, reading: Mapping | None = None):
        self.folder, self.reading = folder, dict(reading or {})
        self.unsaved: Mapping[str, str] = {}
        self._roots: dict[str, str] = {}  # by file: the program to which it belongs
        self._read: dict[str, tuple[Mapping[str, str], Reading]] = {}  # by root: (the unsaved texts at the time, the program)
        self.checked: dict[str, Checked] = {}  # by root: the last version without errors

    def root(self, path: str) -> str:
        """Return the program to which a file belongs."""
        if path not in self._roots:
            self._roots[path] = root_of(path, self.folder)
        return self._roots[path]

    def forget(self) -> None:
        """Read everything again, includes as well, after a file was saved."""
        self._roots.clear()
        self._read.clear()

    def read(self, path: str) -> Reading:
        """Return the program that a file belongs to; the file alone if that program cannot be parsed as far as the file."""
        reading = self._reading(self.root(path))
        return reading if path in reading.texts else self._reading(path)

    def _reading(self, root: str) -> Reading:
        """Return a program, read again if the editor's texts have changed."""
        unsaved, reading = self._read.get(root, (None, None))
        if reading is None or unsaved != self.unsaved:
            reading = self._read_now(root)
            self._read[root] = self.unsaved, reading
        return reading

    def _read_now(self, root: str) -> Reading:
        """Read a program; if it cannot be parsed, one without names."""
        token = UNSAVED.set(self.unsaved)
        try:
            source, _ = parse_all(_text(root, self.unsaved), root, **self.reading)
            return Reading(root, Names(source), source.texts)
        except ProgramError as wrong:
            source, _ = parse_all("", root)
            return Reading(root, Names(source), wrong.sources)
        finally:
            UNSAVED.reset(token)

    def check(self, path: str) -> tuple[list[Problem], set[str]]:
        """Check the program that a file belongs to. Return (its problems, its files); a version without errors is kept for
        `checked`."""
        root, unsaved = self.root(path), self.unsaved
        token = UNSAVED.set(unsaved)
        try:
            problems, texts, program = problems_in(lambda: parse(_text(root, unsaved), root, **self.reading))
        finally:
            UNSAVED.reset(token)
        if program is not None:
            outputs = {each.relation for each in program.directives if each.kind in ("output", "printsize")}
            inputs = [each.relation for each in program.directives if each.kind == "input"]
            self.checked[root] = Checked(program, apply_passes(program, outputs or None, inputs))
        return problems, set(texts)


def _text(root: str, unsaved: Mapping[str, str]) -> str:
    """Return the text of a program: the editor's, if it is open, else that of its file; "" if there is neither."""
    text = unsaved.get(root)
    return text if text is not None else read_text(root) if os.path.exists(root) else ""


MAX_PROGRAMS = 2_000  # the most programs of a workspace that are read
INCLUDE = re.compile(r'^[ \t]*(?:\.include|#[ \t]*include)[ \t]*"([^"\n]+)"', re.MULTILINE)
SUFFIXES = ".dl", ".datalog"


def root_of(path: str, folder: str | None) -> str:
    """Return the program that includes a file, directly or indirectly, the first by name; the file itself if there is none.
    folder: the workspace; None: only programs in the file's folder are considered."""
    including = defaultdict(set)
    for program in _programs(Path(folder or os.path.dirname(path))):
        for name in _includes(program):
            including[os.path.abspath(os.path.join(os.path.dirname(program), name))].add(program)
    seen, root = {path}, path
    while above := sorted(including[root] - seen):
        root = above[0]
        seen.add(root)
    return root


def _programs(folder: Path) -> list[str]:
    """Return the paths of the programs in a folder and below."""
    programs: list[str] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        programs += [os.path.abspath(os.path.join(place, name)) for name in names if name.endswith(SUFFIXES)]
        if len(programs) >= MAX_PROGRAMS:
            break
    return programs[:MAX_PROGRAMS]


def _includes(program: str) -> list[str]:
    """Return the names of the files that a program includes."""
    try:
        return INCLUDE.findall(read_text(program))
    except OSError:
        return []
