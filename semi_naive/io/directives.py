"""The parameters of .input and .output, with Soufflé's defaults, and the path of the file that they name."""

import errno
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.formats.layouts import Format
from semi_naive.ra.ir import FileDirective, Relation
from semi_naive.sandbox import Sandbox

STDOUT = "-"  # an output folder that stands for standard output
EXTENSIONS = {
    "file": ".facts",
    "jsonfile": ".json",
    "jsonlines": ".jsonl",
    "arrow": ".arrow",
    "sqlite": ".sqlite",
    "parquet": ".parquet",
}
READABLE = ("file", "stdin", "jsonfile", "json", "jsonlines", "sqlite", "parquet", "arrow")
WRITABLE = ("file", "stdout", "stdoutprintsize", "jsonfile", "json", "jsonlines", "sqlite", "parquet", "arrow")


def _complain(text: str) -> None:
    print(text, file=sys.stderr)


@dataclass(frozen=True)
class Options:
    """Settings of reading and writing, independent of the program.

    missing_ok: a missing fact file is an empty relation, which is reported to `warn`.
    out: standard output (None: the current sys.stdout).
    sandbox: the folder that contains all files.
    """

    missing_ok: bool = False
    warn: Callable[[str], None] = _complain
    out: IO[Any] | None = None
    sandbox: Sandbox | None = None

    def print_bytes(self, text: bytes | np.ndarray) -> None:
        """Write UTF-8 text to standard output in one piece. Raises an OSError that names it if it is closed or full."""
        stream = self.out or sys.stdout
        binary = getattr(stream, "buffer", None)
        try:
            if stream is None:  # Python's sign that it was closed before the start
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            stream.flush()
            binary.write(text) if binary else stream.write(bytes(text).decode("utf-8", "replace"))
            stream.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


DEFAULT = Options()


def format_of(directive: FileDirective, relation: Relation, to_stdout: bool = False) -> Format:
    """Return the `Format` of a directive on `relation`. Raises BadInput for an invalid parameter. to_stdout: an .output is
    written to standard output."""
    parameters = directive.parameters
    reading = directive.kind == "input"
    default_io = "parquet" if parameters.get("filename", "").endswith(".parquet") else "file"
    io = "stdoutprintsize" if directive.kind == "printsize" else str(parameters.get("IO", default_io))
    io = "stdout" if to_stdout and directive.kind == "output" else io
    allowed = READABLE if reading else WRITABLE
    if io not in allowed:
        message = f'.{directive.kind} {relation.name}: there is no IO="{io}"'
        raise BadInput(message, *directive_place(directive), hint=f"known are {', '.join(allowed)}")
    rfc4180 = _is_true(parameters, "rfc4180")
    delimiter = parameters.get("delimiter", "," if rfc4180 else "\t")
    if not delimiter or (rfc4180 and '"' in delimiter):
        hint = "a delimiter has at least one character, and no quote where rfc4180 is true"
        raise BadInput(
            f".{directive.kind} {relation.name}: the delimiter is {delimiter!r}", *directive_place(directive), hint=hint
        )
    names = delimiter.join(name for name, _ in relation.attributes)
    return Format(
        io=io,
        name=parameters.get("name", relation.name),
        delimiter=delimiter,
        headers=_is_true(parameters, "headers") or to_stdout,  # as of Soufflé with -D -
        rfc4180=rfc4180,
        compress=parameters.get("compress", "false") != "false",
        objects=parameters.get("format") == "object",
        columns=_columns(directive, relation) if reading else None,
        header=parameters.get("attributeNames", names),
    )


def path_of(directive: FileDirective, form: Format, folder: str, sandbox: Sandbox | None = None) -> str:
    """Return the path of the file that a directive names: an absolute path, or one below the directive's fact-dir or
    output-dir, else below `folder`. Raises BadInput for a path outside of the sandbox."""
    parameters, reading = directive.parameters, directive.kind == "input"
    extension = EXTENSIONS[form.io]
    if form.io == "file" and not reading:
        extension = ".csv.gz" if form.compress else ".csv"
    path = parameters.get("filename", parameters.get("dbname", form.name + extension))
    if not path.startswith(("/", "file:", ":memory:")) and "://" not in path:
        path = os.path.join(parameters.get("fact-dir" if reading else "output-dir", folder), path)
    check_sandbox([path], directive, sandbox)
    return path


def check_sandbox(paths, directive: FileDirective, sandbox: Sandbox | None) -> None:
    """Raise BadInput if a path of a directive is outside of the sandbox."""
    for path in paths:
        if sandbox and not sandbox.holds(path):
            message = f".{directive.kind} {directive.relation}: {path} is outside of the sandbox"
            raise BadInput(message, *directive_place(directive), hint=sandbox.advice)


def directive_place(directive: FileDirective) -> tuple[str | None, int | None, int | None]:
    """Return (file, line, column) of a directive in its program; unknown parts are None."""
    span = directive.span
    return (span.file, span.line, span.column) if span else (None, None, None)


def _is_true(parameters: dict, name: str) -> bool:
    """True if the parameter with a name is "true", in any case; it is false by default."""
    return str(parameters.get(name, "false")).lower() == "true"


def _columns(directive: FileDirective, relation: Relation) -> dict | None:
    """Return {number of a column of the file: attribute} from the `columns` parameter; None if there is none."""
    text = directive.parameters.get("columns", "")
    if not text:
        return None
    try:
        columns = {int(number): attribute for attribute, number in enumerate(text.split(":"))}
    except ValueError:
        columns = {}
    if len(columns) != relation.arity or min(columns, default=0) < 0:
        hint = f'name {relation.arity} different columns of the file, from 0: columns="0:2"'
        raise BadInput(f"Invalid column set was given: <{text}>", *directive_place(directive), hint=hint)
    return columns
