"""Errors and warnings of a program, collected with their places in the source."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from semi_naive.host.numbers import quantity


class Span(NamedTuple):
    """A range in a source file. Lines and columns count from 1, the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, last: "Span") -> "Span":
        """Return the span from the beginning of this one to the end of another one; this one if that is in another file."""
        return Span(self.file, self.line, self.column, last.end_line, last.end_column) if last.file == self.file else self

    def text(self, lines: Sequence[str]) -> str:
        """Return the text of the span on one line. lines: of its file."""
        span_lines = list(lines[self.line - 1 : self.end_line]) or [""]
        span_lines[-1] = span_lines[-1][: self.end_column - 1]
        span_lines[0] = span_lines[0][self.column - 1 :]
        return " ".join(" ".join(span_lines).split())


ERROR, WARNING = "Error", "Warning"  # the severities of problems
NOWHERE = Span("<program>", 1, 1, 1, 1)


@dataclass
class Problem:
    """One error or warning. flag: the command line's name of a warning; undefined: the name of an undefined relation."""

    message: str
    span: Span
    hint: str = ""
    severity: str = ERROR
    notes: list[tuple[str, Span]] = field(default_factory=list)  # other relevant places, such as "declared here"
    flag: str = ""
    undefined: str = ""


class ProgramError(ValueError):
    """The errors and warnings of a program. problems: distinct, sorted by place; sources: the text of each file, by name."""

    def __init__(self, problems: list[Problem], sources: dict[str, str] | None = None):
        self.problems = sorted(distinct(problems), key=lambda p: p.span)
        self.sources = sources or {}
        errors = sum(p.severity == ERROR for p in self.problems)
        shown = "\n".join(rendered(p, self.sources) for p in self.problems)
        super().__init__(f"{shown}\n{quantity(errors, 'error')} generated, evaluation aborted")


def distinct(problems: list[Problem]) -> list[Problem]:
    """Return distinct problems: an instance of a component, or a clause with several heads, is checked several times."""
    return list({(problem.message, problem.span): problem for problem in reversed(problems)}.values())[::-1]


def rendered(problem: Problem, sources: dict[str, str]) -> str:
    """Return a problem in Soufflé's format, with a column and a hint in addition.

    >>> span = Span("p.dl", 1, 9, 1, 13)
    >>> print(rendered(Problem("Undefined relation B", span, "declare it: .decl B(x: number)"), {"p.dl": "A(x) :- B(x)."}))
    Error: Undefined relation B in file p.dl at line 1, column 9
    A(x) :- B(x).
    --------^~~~-
    hint: declare it: .decl B(x: number)
    """
    lines = [f"{problem.severity}: {problem.message} {_where(problem.span)}", *_excerpt(problem.span, sources)]
    for message, span in problem.notes:
        lines += [f"note: {message} {_where(span)}", *_excerpt(span, sources)]
    return "\n".join(lines + [f"hint: {problem.hint}"] * bool(problem.hint))


def _where(span: Span) -> str:
    return f"in file {span.file} at line {span.line}, column {span.column}"


def _excerpt(span: Span, sources: dict[str, str]) -> list[str]:
    """Return the source line of a span, and a line that marks the span; [] if the text is unknown."""
    lines = sources.get(span.file, "").split("\n")
    if not 1 <= span.line <= len(lines) or not lines[span.line - 1].strip():
        return []
    text = lines[span.line - 1].replace("\t", " ").rstrip("\r")
    end = span.end_column if span.end_line == span.line else len(text) + 1
    width = max(1, min(end, len(text) + 1) - span.column)
    return [text, "-" * (span.column - 1) + "^" + "~" * (width - 1) + "-" * (len(text) - span.column - width + 1)]
