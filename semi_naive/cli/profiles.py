"""What `semi-naive profile` shows of a record that `semi-naive run -p` wrote."""

import json
import os
import sys

from semi_naive.balance.account import as_sum
from semi_naive.io.errors import BadInput
from semi_naive.io.files import io_errors
from semi_naive.plots.summary import bytes_a_tuple, memory_of


def print_profile(path: str, top: int) -> None:
    """The record of -p as tables: rules and relations, the hottest first; above them what the run took."""
    from rich.console import Console

    record = read_profile(path)
    console = Console(soft_wrap=not sys.stdout.isatty())
    took = ", ".join(filter(None, [as_sum(record), memory_of(record)]))
    console.print(f"{record.get('program', path)}: {took}", markup=False, highlight=False)
    rules = sorted(record["rules"], key=lambda rule: -rule["seconds"])
    console.print(_table(RULES, rules[:top]))
    console.print(_table(RELATIONS, sorted(record["relations"], key=lambda each: -each.get("seconds", 0))[:top]))
    for name, shown in (("rules", len(rules)), ("relations", len(record["relations"]))):
        if shown > top:
            console.print(f"… and {shown - top} more {name}; --top {shown} shows all")


def read_profile(path: str) -> dict:
    """What -p wrote; BadInput when this is something else."""
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
    "iterations": lambda rule: f"{rule['iterations']:,}" if rule["recursive"] else "",
    "rule": lambda rule: f"{rule['rule']}  [{os.path.basename(rule.get('file') or '')}:{rule.get('line') or ''}]",
}
RELATIONS = {
    "seconds": lambda each: f"{each.get('seconds', 0):.3f}",
    "tuples": lambda each: f"{each['tuples']:,}",
    "bytes": lambda each: f"{each['bytes']:,}" if "bytes" in each else "",
    "bytes a tuple": bytes_a_tuple,
    "relation": lambda each: each["relation"],
}


def _table(columns: dict, rows: list):
    """Rows as a table; all but the last column are numbers."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="left" if name == list(columns)[-1] else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(show(row)) for show in columns.values()))
    return table
