"""`semi-naive format PROGRAM …`: format programs in the canonical layout, on standard output, in place, or as a difference."""

import sys
from difflib import unified_diff

import click

from semi_naive.io.errors import BadInput
from semi_naive.io.files import atomic_stream, io_errors
from semi_naive.language.origins import read_text
from semi_naive.language.parsing.layout import formatted


def format_programs(programs, in_place: bool, check: bool, diff: bool) -> int:
    """Format each program, and return the exit status, which with `check` is 1 if one would change."""
    if in_place and "-" in programs:
        raise BadInput("standard input cannot be changed in place", hint="name files, or leave out -i")
    changed = 0
    for program in programs:
        text = _read_program(program)
        layout = formatted(text)
        changed += layout != text
        if diff:
            _print("".join(_difference(program, text, layout)))
        if in_place and layout != text:
            with atomic_stream(program) as file:
                file.write(_bytes(layout))
        if check and layout != text:
            click.echo(f"{program} would change", err=True)
        if not (in_place or check or diff):
            _print(layout)
    return int(check and changed > 0)


def _read_program(program: str) -> str:
    """Return the text of a program. program: its path, or - for standard input."""
    if program == "-":
        return sys.stdin.read()
    with io_errors(program):
        return read_text(program)


def _difference(program: str, text: str, layout: str):
    lines = text.splitlines(keepends=True), layout.splitlines(keepends=True)
    for line in unified_diff(*lines, program, f"{program} (formatted)"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _print(text: str) -> None:
    click.echo(_bytes(text), nl=False)


def _bytes(text: str) -> bytes:
    """Return a text as bytes of a file; bytes that are not UTF-8 are unchanged."""
    return text.encode("utf-8", "surrogateescape")
