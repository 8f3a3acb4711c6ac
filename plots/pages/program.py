"""Tables of a report about a Datalog program: strata, rules and relations."""

from pathlib import PurePath

from semi_naive.host.numbers import in_full, number, seconds, size
from semi_naive.plots.pages.page import bar, code, folded, paragraph, table
from semi_naive.plots.pages.summary import bytes_a_tuple, named

MAX_UNFOLDED_RULES = 15  # rules shown unfolded
MAX_TABLE_ROWS = 500  # rows of any table, as a program may have thousands of rules


def strata_table(trace: dict) -> str:
    """Return a table of the strata, the running one first, then the slowest, with the plan of each and its reason."""
    strata = sorted(enumerate(trace.get("strata", []), 1), key=lambda numbered: _running_then_slowest(numbered[1]))
    most = max([stratum.get("seconds", 0) for _, stratum in strata], default=0) or 1
    rows = [
        [in_full(place), named(stratum), stratum.get("plan", ""), _iterations(stratum),
         number(stratum.get("tuples", 0)), seconds(stratum.get("seconds", 0)), bar(stratum.get("seconds", 0) / most),
         stratum.get("reason", "")]
        for place, stratum in strata
    ]  # fmt: skip
    columns = [("#", "number"), ("relations", "text"), ("plan", ""), ("iterations", "number"), ("tuples", "number"),
               ("time", "number"), ("share", "bar"), ("why this plan", "text")]  # fmt: skip
    caption = "Slowest first; # is the position in the order of evaluation, as in explain"
    return _long_table("strata", caption, columns, rows) if rows else ""


def _running_then_slowest(stratum: dict) -> tuple:
    """Return a sort key of strata."""
    return stratum.get("plan") != "running", -stratum.get("seconds", 0)


def _iterations(stratum: dict) -> str:
    """Return the number of iterations of a stratum as text."""
    entries, course = stratum.get("trace", {}).get("iterations", []), stratum.get("course", {}).get("iteration", [])
    known = [entry["iteration"] for entry in entries[-1:]] + course[-1:] + [stratum.get("iteration", 0)]
    return in_full(max(known)) if any(known) else ""


def spread_strata(trace: dict) -> list[dict]:
    """Return the strata on the partitions: the running one, then the slowest first."""
    spread = [stratum for stratum in trace.get("strata", []) if stratum.get("trace", {}).get("iterations")]
    return sorted(spread, key=_running_then_slowest)


def rules_table(trace: dict) -> str:
    """Return a table of the rules, slowest first."""
    found = sorted(trace.get("profile", {}).get("rules", []), key=lambda rule: -rule["seconds"])
    total = sum(rule["seconds"] for rule in found) or 1
    rows = [
        [code(" ".join(rule["rule"].split())), seconds(rule["seconds"]), bar(rule["seconds"] / total), number(rule["made"]),
         f"{rule.get('runs', 0):,}" if rule.get("recursive") else "", _line_of_rule(rule)]
        for rule in found
    ]  # fmt: skip
    columns = [("rule", "text"), ("time", "number"), ("share", "bar"), ("made", "number"), ("runs", "number"),
               ("where", "")]  # fmt: skip
    what = "Time of each rule, on the partitions the average of them; made: tuples, with those that were known"
    return _long_table("rules", what, columns, rows) if rows else ""


def _line_of_rule(rule: dict) -> str:
    return f"{PurePath(rule.get('file') or '').name}:{rule['line']}" if rule.get("line") else ""


def relations(trace: dict) -> str:
    """Return a table of the relations, in the order of declaration: tuples, and bytes of those in the driver."""
    counts = trace.get("result", {}).get("relations", {})
    most = max(counts.values(), default=0) or 1
    in_driver = {entry["relation"]: entry for entry in trace.get("profile", {}).get("relations", []) if "bytes" in entry}
    rows = [[name, f"{count:,}", bar(count / most), *_memory_cells(in_driver.get(name))] for name, count in counts.items()]
    columns = [("relation", "text"), ("tuples", "number"), ("share", "bar"), ("memory", "number"), ("bytes a tuple", "number")]
    caption = "Tuples, and the memory of tables in the driver with all their indexes"
    return _long_table("relations", caption, columns, rows) if rows else ""


def _memory_cells(entry: dict | None) -> list[str]:
    """Return [bytes of a relation, bytes a tuple], two empty texts if it is not in the driver."""
    return [size(entry["bytes"]), bytes_a_tuple(entry)] if entry else ["", ""]


def _long_table(name: str, caption: str, columns: list, rows: list[list]) -> str:
    """Return a table; most rows of a long one are folded, and the last are left out."""
    first, others, left = rows[:MAX_UNFOLDED_RULES], rows[MAX_UNFOLDED_RULES:MAX_TABLE_ROWS], len(rows) - MAX_TABLE_ROWS
    parts = [table(caption, columns, first)]
    if others:
        parts.append(folded(f"more-{name}", f"{number(len(others))} more", table(f"{caption}, further ones", columns, others)))
    if left > 0:
        parts.append(paragraph(f"… and {number(left)} more, which are not shown.", "quiet"))
    return "\n".join(parts)
