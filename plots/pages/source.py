"""The source of a program, with the time of each rule in the margin."""

from itertools import pairwise

from semi_naive.host.numbers import in_full, quantity, seconds
from semi_naive.plots.pages.page import Markup, code, folded, paragraph, table

MAX_WHOLE_LINES = 150  # lines up to which a program is shown whole; of a longer one only rules and lines around them
CONTEXT_LINES = 2  # lines before and after a rule
MAX_GAP_LINES = 3  # lines of a gap that is shown as well
MAX_RULE_LINES = 50  # lines searched for the end of a rule
MAX_FILE_LINES = 1500  # lines of a file, and characters of a line
MAX_LINE_CHARACTERS = 400


def source_sections(trace: dict) -> str:
    """Return the files of the program that have rules, with the time of the rules that begin on each line, and its share as
    heat in the margin; "" if there are none."""
    texts = {file: text for file, text in trace.get("source", {}).items() if isinstance(text, str)}
    rules = trace.get("profile", {}).get("rules", [])
    total = sum(rule["seconds"] for rule in rules) or 1.0
    rules_of_file = {file: [rule for rule in rules if rule.get("file") == file] for file in texts}
    files = [file for file in texts if rules_of_file[file]]
    if not files:
        return ""
    parts = [
        _file(number, file, texts[file], rules_of_file[file], total, alone=len(files) == 1) for number, file in enumerate(files)
    ]
    note = paragraph("The time of each rule, in all its versions; the heat is its share of the time of all rules.", "quiet")
    return "\n".join([note, *parts])


def _file(number: int, file: str, text: str, rules: list[dict], total: float, alone: bool) -> str:
    """Return one source file as a table: line, time, heat and text, folded unless it is the only file. total: the seconds of
    all rules."""
    lines = text.splitlines()
    seconds_of_line: dict[int, float] = {}
    rule_of_line: dict[int, int] = {}
    for rule in rules:
        line = rule.get("line", 0)
        seconds_of_line[line] = seconds_of_line.get(line, 0.0) + rule["seconds"]
        for line_number in range(line, _last_line_of_rule(rule, lines) + 1):
            rule_of_line.setdefault(line_number, line)
    shown = _lines_to_show(len(lines), rule_of_line)
    rows, last = [], 0
    for line_number in [*shown, len(lines) + 1]:
        if line_number > last + 1:
            rows.append(["⋯", "", Markup(""), Markup(f'<em class="quiet">{quantity(line_number - last - 1, "line")}</em>')])
        if line_number <= len(lines):
            share = seconds_of_line.get(rule_of_line.get(line_number, 0), 0.0) / total
            time = seconds(seconds_of_line[line_number]) if line_number in seconds_of_line else ""
            rows.append([in_full(line_number), time, _heat(share), code(lines[line_number - 1][:MAX_LINE_CHARACTERS])])
        last = line_number
    columns = [("line", "number"), ("time", "number"), ("heat", "heat"), ("program", "code")]
    listing = table(f"{file}, with the time of each rule", columns, rows)
    if alone:
        return listing
    title = f"{file}: {seconds(sum(seconds_of_line.values()))}"
    return folded(f"source-{number}", title, listing, unfolded=number == 0)


def _last_line_of_rule(rule: dict, lines: list[str]) -> int:
    """Return the last line of a rule, found by its text; the first line if it is not found.

    >>> _last_line_of_rule({"rule": "a(x) :- b(x), c(x).", "line": 2}, ["", "a(x) :-", "  b(x),", "  c(x).", "d(1)."])
    4
    """
    wanted, first, words = " ".join(rule["rule"].split()), rule.get("line", 0), []
    for line in range(first, min(first + MAX_RULE_LINES, len(lines) + 1)):
        words += lines[line - 1].split()
        if wanted in " ".join(words):
            return line
    return first


def _lines_to_show(lines: int, owner: dict[int, int]) -> list[int]:
    """Return the lines to show of a file with so many: all, or those of rules with their context and short gaps between. owner:
    the first line of the rule on each line of a rule."""
    if lines <= MAX_WHOLE_LINES:
        return list(range(1, lines + 1))
    context = range(-CONTEXT_LINES, CONTEXT_LINES + 1)
    near = sorted({line + step for line in owner for step in context if 1 <= line + step <= lines})
    short_gaps = [range(line + 1, following) for line, following in pairwise(near) if following - line <= MAX_GAP_LINES + 1]
    return sorted([*near, *(line for gap in short_gaps for line in gap)])[:MAX_FILE_LINES]


def _heat(share: float) -> Markup:
    """Return a mark for the margin, stronger for a larger share."""
    if share < 0.005:  # it would read 0%
        return Markup("")
    return Markup(f'<i style="--heat: {share**0.5:.2f}"></i><span class="hidden">{share:.0%}</span>')
