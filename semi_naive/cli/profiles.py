"""`semi-naive profile`: print a profile written by `semi-naive run -p` as tables."""

import json
import os
import sys
from collections.abc import Iterator

from semi_naive.host.account import as_sum
from semi_naive.host.numbers import quantity
from semi_naive.io.errors import BadInput
from semi_naive.io.files import io_errors
from semi_naive.plots.pages.summary import bytes_a_tuple, memory_of

COLUMN_GAP = 2  # spaces between two columns
MIN_RULE_CHARACTERS = 24  # the least width of rules, on the narrowest terminal
UNLIMITED_WIDTH = 10_000  # the width of a line if the output is not a terminal


def print_profile(path: str, top: int | None, sort: str, whole: bool) -> None:
    """Print a profile as tables of rules and relations, after a summary of the run. top: the rows of each table; None: all.
    whole: print rules as written; otherwise a rule takes one line, cut to the terminal's width."""
    from rich.console import Console

    record = read_profile(path)
    terminal = sys.stdout.isatty()
    console = Console(soft_wrap=not terminal, width=None if terminal else UNLIMITED_WIDTH)
    took = ", ".join(filter(None, [as_sum(record), memory_of(record)]))
    console.print(f"{record.get('program', path)}: {took}", markup=False, highlight=False)
    all_rules = sum(rule["seconds"] for rule in record["rules"]) or 1.0
    columns = {"seconds": RULES["seconds"], "share": lambda rule: f"{rule['seconds'] / all_rules:.0%}", **RULES}
    columns["rule"] = _rule_as_written if whole else _rule_on_a_line
    for key, shown_columns, name in (("rules", columns, "rule"), ("relations", RELATIONS, "relation")):
        if not (rows := sorted(record[key], key=_order(sort, name))):
            continue
        console.print(_table(shown_columns, rows[:top], console.width - COLUMN_GAP if terminal and not whole else None))
        if top is not None and len(rows) > top:
            console.print(f"… and {quantity(len(rows) - top, f'more {name}')}; --all shows them, --sort orders them")
    for line in _lines_of_strata(record):
        console.print(line, markup=False, highlight=False)


def _lines_of_strata(record: dict) -> Iterator[str]:
    """Yield a line for each recursive stratum without times by rule, such as a transitive closure."""
    ruled = {rule["relation"] for rule in record["rules"]}
    for stratum in record["strata"]:
        if stratum.get("recursive") and not ruled & set(stratum["relations"]):
            took = stratum.get("account", {}).get("iterate", stratum["seconds"])
            yield f"{took:.3f} s for the rules of {', '.join(stratum['relations'])} together: {stratum['reason']}"


def _order(sort: str, name: str):
    """Return the sort key of rows; large values come first."""
    by = {"time": lambda row: -row.get("seconds", 0), "tuples": lambda row: -row["tuples"], "name": lambda row: row[name]}
    return by[sort]


def _rule_on_a_line(rule: dict) -> str:
    return f"{' '.join(rule['rule'].split())}  {_source_of_rule(rule)}"


def _rule_as_written(rule: dict) -> str:
    return f"{_source_of_rule(rule)}\n{rule['rule'].strip()}"


def _source_of_rule(rule: dict) -> str:
    return f"[{os.path.basename(rule.get('file') or '')}:{rule.get('line') or ''}]"


def read_profile(path: str) -> dict:
    """Read a profile. Raises BadInput if the file is something else."""
    hint = "expected a file that `semi-naive run -p FILE` wrote"
    with io_errors(path), open(path, encoding="utf-8") as file:
        try:
            record = json.load(file)
        except ValueError as error:
            raise BadInput(f"the file is not a profile: {error}", path, hint=hint) from None
    if not isinstance(record, dict) or record.get("version") != 1 or not {"rules", "relations"} <= record.keys():
        raise BadInput("the file is not a profile of version 1", path, hint=hint)
    return record


RULES = {
    "seconds": lambda rule: f"{rule['seconds']:.3f}",
    "tuples": lambda rule: f"{rule['tuples']:,}",
    "made": lambda rule: f"{rule['made']:,}",
    "runs": lambda rule: f"{rule['runs']:,}" if rule["recursive"] and "runs" in rule else "",
    "rule": _rule_on_a_line,
}
RELATIONS = {
    "seconds": lambda each: f"{each.get('seconds', 0):.3f}",
    "tuples": lambda each: f"{each['tuples']:,}",
    "bytes": lambda each: f"{each['bytes']:,}" if "bytes" in each else "",
    "bytes a tuple": bytes_a_tuple,
    "relation": lambda each: each["relation"],
}


def _table(columns: dict, rows: list, room: int | None):
    """Return rows as a table. columns: a function from a row to its cell, by heading; all but the last are numbers. room: the
    characters of a line, to which the last column is cut; None: it is folded."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table, (*numbers, last) = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)), columns
    cells = {name: [columns[name](row) for row in rows] for name in columns}
    for name in numbers:
        width = max(map(len, [name, *cells[name]]))
        table.add_column(name, justify="right", min_width=width, no_wrap=True)
        room = room and room - width - COLUMN_GAP  # None stays None
    table.add_column(
        last, overflow="ellipsis" if room else "fold", no_wrap=bool(room), max_width=room and max(room, MIN_RULE_CHARACTERS)
    )
    for row in zip(*cells.values(), strict=True):
        table.add_row(*map(Text, row))
    return table
