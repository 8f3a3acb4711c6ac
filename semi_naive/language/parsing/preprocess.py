"""Preprocess a program's text: `#define` and other C directives, `#include`, `.include` and `.once`."""

import os
import re
from collections.abc import Mapping, Sequence

from semi_naive.language.errors import Problem, ProgramError, Span
from semi_naive.language.origins import MAX_FILES, TOO_MANY_FILES, Text, read_text
from semi_naive.sandbox import Sandbox

_DIRECTIVE = re.compile(r"^[ \t]*#", re.MULTILINE)
_INCLUDE = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"|//[^\n]*|/\*.*?\*/'  # strings and comments, which may contain text like directives
    r'|(?P<include>\.include(?![\w?])(?:[ \t]*"(?P<path>[^"\\\n]*(?:\\.[^"\\\n]*)*)")?)|(?P<once>\.once(?![\w?]))',
    re.DOTALL,
)


def preprocess(
    text: str, file: str, include_dirs: Sequence = (), defines: Mapping = {}, sandbox: Sandbox | None = None
) -> "Preprocessed":
    """Assemble a program. `defines`: macros with their values, as by `#define`."""
    result = Preprocessed(file, [os.fspath(directory) for directory in include_dirs], defines, sandbox)
    result.add(text, file)
    return result


class Preprocessed:
    """A program's text, assembled from its files."""

    def __init__(self, file: str, include_dirs: list[str], defines: Mapping, sandbox: Sandbox | None):
        self.include_dirs, self.defines, self.sandbox = include_dirs, defines, sandbox
        self.text = Text(file)  # the whole program
        self.texts: dict[str, str] = {}  # the text of each file, for messages
        self.problems: list[Problem] = []
        self.files = 0  # the number of included files
        self.open: list[str] = []  # the files that are being included, the innermost last
        self.once: set[str] = set()  # files with .once

    def outside(self, path: str) -> bool:
        """True if a file must not be included."""
        return self.sandbox is not None and not self.sandbox.holds(path)

    def many_files(self) -> bool:
        """True if including one more file exceeds the limit, repetitions counted."""
        self.files += 1
        return self.files > MAX_FILES

    def add(self, text: str, file: str):
        """Append a file with its includes."""
        self.texts[file] = text
        written = self.expanded(text, file)
        whole = written.whole()
        if ".include" not in whole and ".once" not in whole:
            return self.text.copy(written, 0, len(whole))
        self.open.append(os.path.abspath(file))
        self.add_with_includes(written)
        self.open.pop()

    def expanded(self, text: str, file: str) -> Text:
        """Return the text of a file after C directives."""
        if self.defines or _DIRECTIVE.search(text):
            from semi_naive.language.parsing.macros import expanded_text  # pcpp takes 50 ms to import

            return expanded_text(text, file, self)
        written = Text(file)
        written.append(text, file, 1, 1)
        return written

    def add_with_includes(self, written: Text):
        """Append a file's text, with the files that it includes."""
        out, whole, done = self.text, written.whole(), 0
        for match in _INCLUDE.finditer(whole):
            if match["include"]:
                out.copy(written, done, match.start())
                out.extend("\n")
                self.include(match["path"], written.between(match.start(), match.end()))
                out.extend("\n")
                done = match.end()
            elif match["once"]:
                out.copy(written, done, match.start())
                done = match.end()
                if self.open[-1] in self.once:
                    return
                self.once.add(self.open[-1])
        out.copy(written, done, len(whole))

    def include(self, path: str | None, span: Span):
        """Append an included file."""
        if path is None:
            return self.problem(".include needs the name of a file", span, 'write .include "file.dl"')
        path = re.sub(r"\\(.)", r"\1", path)
        places = [os.path.dirname(span.file), *self.include_dirs]
        names = [os.path.join(place, path) for place in places]
        allowed = [name for name in names if not self.outside(name)]
        if self.sandbox is not None and not allowed:
            return self.problem(self.sandbox.refusal(f'"{path}"'), span, self.sandbox.advice)
        file_path = next((name for name in allowed if os.path.isfile(name)), None)
        if file_path is None:
            searched = ", ".join(place or "." for place in places)
            return self.problem(f'cannot find include file "{path}"', span, f"looked in {searched}; -I adds another directory")
        absolute = os.path.abspath(file_path)
        if absolute in self.open and absolute not in self.once:
            return self.problem(f"{path} includes itself", span, "write .once at the top of a file that may be included again")
        if absolute not in self.open:
            if self.many_files():
                problem = Problem(TOO_MANY_FILES, span, "write .once at the top of files that need it")
                raise ProgramError([problem], self.texts)
            self.add(read_text(file_path), file_path)

    def problem(self, message: str, span: Span, hint: str):
        self.problems.append(Problem(message, span, hint))
