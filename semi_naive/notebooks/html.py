"""Format programs, relations and runs as HTML for notebooks: tables without scripts and styles of the page, in the surrounding
colours. All text from users is escaped.
"""

from html import escape
from typing import Any

from semi_naive.host.numbers import quantity, shortened
from semi_naive.notebooks.figures import balance_svg, strata_svg

ROWS, FOLDED = 10, 5  # first tuples shown of a relation by itself, and of one among others
MAX_LISTED = 30  # the most relations and strata that are shown
MAX_VALUE_CHARACTERS = 80  # the most characters of a value
LEFT, RIGHT = "text-align:left;vertical-align:top", "text-align:right;vertical-align:top"


def tuples_shown(found: Any, about: str = "") -> str:
    """Return a relation: a heading and its first tuples. about: HTML between these."""
    return f"{_html_line(repr(found)[1:-1])}{about}{rows_shown(found, ROWS)}"


def rows_shown(answer: Any, count: int) -> str:
    """Return the first tuples of a relation as a table, if no job is needed to read them, and the number of remaining ones."""
    try:
        rows = answer.first(count)
    except ValueError as closed:
        return _html_line(str(closed))
    if not rows or not answer.columns:
        return ""
    remaining = answer.count() - len(rows)
    styles = [RIGHT if all(isinstance(value, int | float) for value in column) else LEFT for column in zip(*rows, strict=True)]
    cells = [[escape(clipped_value(value)) for value in row] for row in rows]
    table = _table([*zip(answer.columns, styles, strict=True)], cells)
    return table + (_html_line(f"… and {quantity(remaining, 'more tuple')}") if remaining else "")


def relations_shown(headline: str, result: Any) -> str:
    """Return relations under a headline: the number of tuples of each, and its first ones when unfolded. Of many relations only
    the first are shown."""
    names = list(result)[:MAX_LISTED]
    rows = []
    for name in names:
        answer = result[name]
        attributes = ", ".join(f"{attribute}: {type_.name}" for attribute, type_ in result.relations[name].attributes)
        what = f"{escape(name)}({escape(clipped_value(attributes))})"
        inner = rows_shown(answer, FOLDED)
        rows.append([f"<details><summary>{what}</summary>{inner}</details>" if inner else what, f"{answer.count():,}"])
    remaining = len(result) - len(names)
    more = _html_line(f"… and {quantity(remaining, 'more relation')}") if remaining else ""
    return f"{_html_line(headline)}{_table([('relation', LEFT), ('tuples', RIGHT)], rows)}{more}"


def program_shown(program: Any) -> str:
    """Return a program: its inputs and outputs, and a drawing of its strata."""
    labelled = {"reads": program.inputs, "writes": program.outputs}
    lines = [f"<b>{word}</b> {escape(_some_names(names))}" for word, names in labelled.items() if names]
    drawn = strata_svg(program.compile().strata, set(program.inputs), set(program.outputs))
    return f"{_html_line(repr(program)[1:-1])}<div>{'<br>'.join(lines)}</div>{drawn}"


def run_shown(headline: str, trace: dict) -> str:
    """Return a closure or a simulation: a summary and its balance."""
    from semi_naive.plots.pages.summary import summary

    facts = [[escape(name), escape(value)] for name, value in summary(trace).items()]
    return f"{_html_line(headline)}{_table([], facts)}{balance_svg(trace)}"


def text_shown(headline: str, text: str) -> str:
    """Return preformatted text under a heading."""
    return _html_line(headline) + (f"<pre>{escape(text)}</pre>" if text else "")


def clipped_value(value) -> str:
    """Return a value as text of limited length.

    >>> clipped_value("a" * 100)[-3:], clipped_value(None), clipped_value((1, "a"))
    ('aa…', 'nil', '(1, a)')
    """
    if isinstance(value, tuple) and type(value) is tuple:
        text = f"({', '.join(map(clipped_value, value))})"
    else:
        text = "nil" if value is None else str(value)
    return shortened(text, MAX_VALUE_CHARACTERS)


def _some_names(names: list[str]) -> str:
    return ", ".join(names[:MAX_LISTED]) + f", … ({len(names):,})" * (len(names) > MAX_LISTED)


def _html_line(text: str) -> str:
    return f"<div>{escape(text)}</div>" if text else ""


def _table(head: list[tuple[str, str]], rows: list[list[str]]) -> str:
    """Return a table. head: the name and style of each column; without it, the first cell of each row is a heading. rows: cells
    of HTML."""
    first = "".join(f'<th style="{style}">{escape(clipped_value(name))}</th>' for name, style in head)
    styles = [style for _, style in head]
    body = "".join(f"<tr>{_cells(row, styles)}</tr>" for row in rows)
    return f"<table>{f'<tr>{first}</tr>' if head else ''}{body}</table>"


def _cells(row: list[str], styles: list[str]) -> str:
    """Return the cells of a table's row. styles: of each column; without, the row is a name and a value."""
    if not styles:
        name, value = row
        return f'<th style="{LEFT}">{name}</th><td style="{LEFT}">{value}</td>'
    return "".join(f'<td style="{style}">{cell}</td>' for cell, style in zip(row, styles, strict=True))
