"""`semi-naive check PROGRAM`: print all errors and warnings of a program, as text or, for editors, as JSON."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from semi_naive.host.numbers import quantity
from semi_naive.language.errors import ERROR, Problem, ProgramError, rendered

if TYPE_CHECKING:
    from semi_naive.language.syntax import SourceProgram
    from semi_naive.ra.ir import Program


def check_program(program: str, reading: dict, as_json: bool) -> int:
    """Print the errors and warnings of a program; return the exit status, 1 if there is an error. reading: options of
    `Program`."""
    from semi_naive.cli.program import Origin

    problems, texts, _ = problems_in(lambda: Origin(program).source(reading))
    errors = sum(problem.severity == ERROR for problem in problems)
    if as_json:
        click.echo(json.dumps([problem_to_dict(problem) for problem in problems], ensure_ascii=False, indent=1))
    else:
        for problem in problems:
            click.echo(rendered(problem, texts))
        click.echo(f"{quantity(errors, 'error')}, {quantity(len(problems) - errors, 'warning')}")
    return int(errors > 0)


def problems_in(parsed: Callable[[], "SourceProgram"]) -> tuple[list[Problem], dict[str, str], "Program | None"]:
    """Return (the problems in the order of their places, the source files by name, the program if it has no errors). A text
    that does not parse has syntax errors only; other checks need a syntax tree. parsed: returns the syntax tree."""
    from semi_naive.language import check_source

    try:
        checked = check_source(parsed())
    except ProgramError as wrong:
        return wrong.problems, wrong.sources, None
    return sorted(checked.warnings, key=lambda problem: problem.span), checked.texts, checked


def problem_to_dict(problem: Problem) -> dict:
    """Return a problem as a dictionary for editors. Lines and columns count from 1, and the end is exclusive."""
    notes = [{"message": message, **span._asdict()} for message, span in problem.notes]
    fields = {"severity": problem.severity.lower(), "message": problem.message, "hint": problem.hint, "notes": notes}
    return problem.span._asdict() | fields
