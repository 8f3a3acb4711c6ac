"""Preprocess C directives by pcpp, and keep the place of each token."""

import os
from io import StringIO
from typing import Any

import pcpp

from semi_naive.language.errors import Problem, Span
from semi_naive.language.origins import TOO_MANY_FILES, Text, read_text

PREDEFINED = {"RAM_DOMAIN_SIZE": "64"}  # as in Soufflé, so that programs can determine the width of numbers
MAX_MACRO_TOKENS = 100_000  # tokens that one macro may expand to
MAX_INCLUDE_DEPTH = 60  # nested includes, each of which takes several frames of Python's stack; only a cycle has more


def expanded_text(text: str, file: str, result: Any) -> Text:
    """Return the text with macros expanded and directives executed. result: the `Preprocessed` program, which gets the files
    that are read, and the problems."""
    macros = Macros(file, result)
    macros.parse(text, file)
    try:
        while (token := macros.token()) is not None:
            macros.lay_out(token)
    except ExpansionTooLarge as error:
        macros.on_error(macros.source or file, macros.linemacro or 1, str(error))
    except (IndexError, AttributeError):  # how pcpp takes a directive without the name it needs
        macros.on_error(macros.lastdirective.source, macros.lastdirective.lineno, f"malformed #{macros.lastdirective.value}")
    return macros.out


class ExpansionTooLarge(ValueError):
    """Raised for a macro expansion beyond the limit."""


class Macros(pcpp.Preprocessor):
    """A preprocessor of pcpp that reports problems as `Problem`s, and records the origin of its tokens.

    pcpp's tokens have a file and line. The column is found by searching the line: tokens keep their order, and the tokens of a
    macro get the place of the macro's name."""

    def __init__(self, file: str, result: Any):
        super().__init__()
        self.expand_filemacro = self.expand_linemacro = False  # the grammar knows __FILE__ and __LINE__
        self.out, self.result = Text(file), result
        self.absolute = os.path.isabs(file)
        self.names = {os.path.abspath(file): file}  # name of each file in messages
        self.markers: dict[str, list[tuple[int, int, str]]] = {}  # the #line directives of each file
        self.lines: dict[str, list[str]] = {}  # of each file
        self.last = ("", 0, 0)  # the file, line and column (from 0) at which the search for the next token begins
        for directory in result.include_dirs:
            self.add_path(directory)
        self.rewrite_paths: list[tuple[str, str]] = []  # messages name files as the directives do
        for name, value in (PREDEFINED | dict(result.defines)).items():
            self.define(f"{name} {value}")

    def lay_out(self, token):
        """Append a token to the text."""
        value = str(token.value)
        if value.isspace():
            return self.out.extend(value)
        source, line = token.source, token.lineno
        *last_line, last_column = self.last
        start = last_column if last_line == [source, line] else 0
        macros = getattr(token, "expanded_from", ())
        column = self._line(source, line).find(macros[-1] if macros else value, start)
        column = start if column < 0 else column
        self.last = (source, line, column if macros else column + len(value))  # further tokens of a macro have its place, too
        file, line = self._reported(source, line)
        self.out.append(value, file, line, column + 1)

    def _line(self, source: str, line: int) -> str:
        """Return a line, counted from 1, of a source as messages name it; "" after the end."""
        if source not in self.lines:
            self.lines[source] = self.result.texts.get(self.names.get(source, source), "").split("\n")
        lines = self.lines[source]
        return lines[line - 1] if line <= len(lines) else ""

    def _reported(self, source: str, line: int) -> tuple[str, int]:
        """Return the file and line as reported under a preceding #line directive."""
        file = self.names.get(source, source)
        for after, first, name in reversed(self.markers.get(source, ())):
            if after < line:
                return name or file, first + line - after - 1
        return file, line

    def expand_macros(self, tokens, expanding_from=()):
        """Expand macros as pcpp does; it calls this for nested expansions, each of which may double the text."""
        expansion = super().expand_macros(tokens, list(expanding_from))
        if expanding_from and len(expansion) > MAX_MACRO_TOKENS:
            raise ExpansionTooLarge(f"macro {expanding_from[0]} expands to more than {MAX_MACRO_TOKENS:,} tokens")
        return expansion

    # -- called by pcpp

    def on_error(self, file, line, msg):
        """Record an error of pcpp at a line."""
        text = self._line(file, line)
        blanks = len(text) - len(text.lstrip())
        name, line = self._reported(file, line)
        span = Span(name, line, blanks + 1, line, max(len(text), blanks + 1) + 1)
        self.result.problems.append(Problem(msg.strip(), span, "# is for the C preprocessor; comments begin with //"))

    def on_file_open(self, is_system_include, includepath):
        """Open an included file, unless that is forbidden or recursive."""
        if self.result.outside(includepath):
            message = f"{self.result.sandbox.refusal(includepath)}: {self.result.sandbox.advice}"
            self.on_error(self.lastdirective.source, self.lastdirective.lineno, message)
            raise pcpp.OutputDirective(pcpp.Action.IgnoreAndRemove)
        if self.result.many_files():
            raise ExpansionTooLarge(TOO_MANY_FILES)
        if self.include_depth > MAX_INCLUDE_DEPTH:
            self.on_error(self.lastdirective.source, self.lastdirective.lineno, f"{includepath} includes itself")
            raise pcpp.OutputDirective(pcpp.Action.IgnoreAndRemove)
        text = read_text(includepath)
        name = self.names.setdefault(includepath, includepath if self.absolute else os.path.relpath(includepath))
        self.result.texts[name] = text
        return StringIO(text)

    def on_include_not_found(self, is_malformed, is_system_include, curdir, includepath):
        """Record an error for a missing or malformed include."""
        message = f"malformed #include {includepath}" if is_malformed else f'cannot find include file "{includepath}"'
        self.on_error(self.lastdirective.source, self.lastdirective.lineno, message)
        raise pcpp.OutputDirective(pcpp.Action.IgnoreAndRemove)

    def on_directive_unknown(self, directive, toks, ifpassthru, precedingtoks):
        """Process #line and #error, and record an error for any other directive that pcpp does not know."""
        words = [token.value for token in toks if not token.value.isspace()]
        if directive.value == "line" or directive.value.isdigit():
            number, *name = words if directive.value == "line" else [directive.value, *words]
            if number.isdigit():
                marker = (directive.lineno, int(number), name[0].strip('"') if name else "")
                self.markers.setdefault(directive.source, []).append(marker)
        elif directive.value == "error":
            self.on_error(directive.source, directive.lineno, "#error " + "".join(token.value for token in toks))
        elif directive.value.isidentifier() and directive.value not in ("warning", "pragma", "ident"):
            self.on_error(directive.source, directive.lineno, f"unknown directive #{directive.value}")
        return True
