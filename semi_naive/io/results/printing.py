"""Print results on standard output: as a table, rows of text, JSON or markdown.

Rows are printed in the order of their values, a piece at a time.
"""

import json
import sys
from collections.abc import Iterator

import numpy as np

from semi_naive.host.numbers import quantity
from semi_naive.io.formats.layouts import Format
from semi_naive.io.results.order import MIN_ROWS_FOR_ARROW
from semi_naive.io.results.sorted_rows import RelationRows, SortedRows
from semi_naive.io.results.writing import lines, write_rows
from semi_naive.io.values.bits import short_float_text
from semi_naive.io.values.record_text import TableStyle
from semi_naive.ra.ir import Kind

MAX_TABLE_ROWS = 20  # rows of a table, at most
DEFAULT_TABLE_WIDTH = 160  # characters in a line of a table if the output is not a terminal
PLAIN = {"tsv": Format("stdout", delimiter="\t"), "csv": Format(delimiter=",", rfc4180=True)}
FORMATS = ("souffle", "table", "json", "markdown", *PLAIN)


class MarkdownStyle(TableStyle):
    """The style of cells of a table in markdown."""

    keeps_symbols = False

    def field(self, value, kind: Kind) -> str:
        return short_float_text(value) if kind == Kind.FLOAT else _escaped(value)


def print_relations(relations: list[RelationRows], form: str, stream) -> None:
    """Print relations to a binary stream. form: one of `FORMATS`, except "souffle".

    csv has a header, tsv has none. Several relations are separated by blank lines, and each begins with a line of its name.
    json is one object with the tuples of each relation as objects; nil in a record is null. A table shows the first rows.
    """
    if form == "json":
        return _json(relations, stream)
    for number, shown in enumerate(relations):
        stream.write(b"\n" * (number > 0))
        if len(relations) > 1 and form in PLAIN:
            stream.write(f"{shown.relation.name}\n".encode())
        if form in PLAIN:
            _print_plain(shown, stream, PLAIN[form])
        else:
            {"table": _table, "markdown": _markdown}[form](shown, stream)


def _print_plain(shown: RelationRows, stream, form: Format) -> None:
    """Print rows as delimited text, with a header in the format rfc4180."""
    if form.rfc4180:
        stream.write((",".join(_attribute_names(shown)) + "\n").encode())
    write_rows(stream, shown, form)


def _attribute_names(shown: RelationRows) -> list[str]:
    return [name for name, _ in shown.relation.attributes]


def _json(relations: list[RelationRows], stream) -> None:
    """Print relations as a JSON object: its members are their names, with their tuples."""
    opened, form = b"{", Format("jsonfile", objects=True)
    for shown in relations:
        stream.write(opened + b"\n" + json.dumps(shown.relation.name).encode() + b": ")
        if shown.relation.arity:
            write_rows(stream, shown, form)
        else:
            stream.write(b"[{}]\n" if shown.rows.size else b"[]\n")
        opened = b","
    stream.write(b"}\n" if relations else b"{}\n")


def _markdown(shown: RelationRows, stream) -> None:
    stream.write(f"**{_escaped(shown.relation.name)}**\n\n".encode())
    if not shown.relation.arity:
        stream.write(b"()\n" * bool(shown.rows.size))
        return
    is_right_aligned = [kind in (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT) for kind in shown.relation.kinds]
    heading = [_attribute_names(shown), ["--:" if right else "---" for right in is_right_aligned]]
    stream.write("".join(f"| {' | '.join(row)} |\n" for row in heading).encode())
    seams = ["| ", *[" | "] * (shown.relation.arity - 1), " |\n"]
    for piece in lines(shown, MarkdownStyle(), seams):
        stream.write(piece)


def _escaped(text: str) -> str:
    r"""Return the text of a markdown cell, with special characters escaped.

    >>> print(_escaped("a|b\nc"))
    a\|b<br>c
    """
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def _table(shown: RelationRows, stream) -> None:
    """Print the first rows of a relation as a table."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    relation, size = shown.relation, shown.rows.size
    table = Table(box=box.SIMPLE_HEAD)
    for (name, type_), kind in zip(relation.attributes, relation.kinds, strict=True):
        number = kind in (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT)
        head = Text.assemble(name, "\n", (type_.name, "dim"))
        table.add_column(head, justify="right" if number else "left", overflow="fold")
    for row in zip(*_first_rows(shown), strict=True):
        table.add_row(*map(Text, row))
    caption = quantity(size, "tuple") + f", the first {MAX_TABLE_ROWS} are shown" * (size > MAX_TABLE_ROWS)
    is_terminal = sys.stdout.isatty()
    console = Console(width=None if is_terminal else DEFAULT_TABLE_WIDTH, force_terminal=is_terminal)
    with console.capture() as text:
        console.print(Text(relation.name, "bold"), *[table] * (relation.arity > 0), Text(caption, "dim"), sep="\n")
    stream.write(text.get().encode())


def _first_rows(shown: RelationRows) -> Iterator[list[str]]:
    """Yield the texts of the first rows, column by column."""
    if not shown.relation.arity:
        return
    ordered = SortedRows(shown, TableStyle(), MIN_ROWS_FOR_ARROW)
    rows = ordered.piece(0) if shown.rows.size else np.empty((shown.relation.arity, 0), np.int64)
    for keys, column in zip(ordered.keys, rows[:, :MAX_TABLE_ROWS], strict=True):
        yield [short_float_text(value) if keys.kind == Kind.FLOAT else str(value) for value in keys.listed(column)]
