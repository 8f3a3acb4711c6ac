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
    """The files of the program, with the time of the rules that begin on each line, and its share as heat in the margin."""
    texts = {file: text for file, text in trace.get("source", {}).items() if isinstance(text, str)}
    rules = trace.get("profile", {}).get("rules", [])
    total = sum(rule["seconds"] for rule in rules) or 1.0
    shown = [(file, text, [rule for rule in rules if rule.get("file") == file]) for file, text in texts.items()]
    shown = [each for each in shown if each[2]]
    parts = [_file(number, *each, total, alone=len(shown) == 1) for number, each in enumerate(shown)]
    if not parts:
        return ""
    said = paragraph("The time of each rule, in all its versions; the heat is its share of the time of all rules.", "quiet")
    return "\n".join([said, *parts])


def _file(number: int, file: str, text: str, rules: list[dict], total: float, alone: bool) -> str:
    """Return one source file as a table: line, time, heat and text. total: the seconds of all rules; alone: there is no other
    file."""
    lines, seconds_of_line, rule_of_line = text.splitlines(), {}, {}
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
    return (
        listing
        if alone
        else folded(f"source-{number}", f"{file}: {seconds(sum(seconds_of_line.values()))}", listing, not number)
    )


def _last_line_of_rule(rule: dict, lines: list[str]) -> int:
    """Return the last line of a rule, found by its text; the first line if it is not found.

    >>> _last_line_of_rule({"rule": "a(x) :- b(x), c(x).", "line": 2}, ["", "a(x) :-", "  b(x),", "  c(x).", "d(1)."])
    4
    """
    wanted, begin, words = " ".join(rule["rule"].split()), rule.get("line", 0), []
    for at in range(begin, min(begin + MAX_RULE_LINES, len(lines) + 1)):
        words += lines[at - 1].split()
        if wanted in " ".join(words):
            return at
    return begin


def _lines_to_show(lines: int, owner: dict[int, int]) -> list[int]:
    """The lines that are shown."""
    if lines <= MAX_WHOLE_LINES:
        return list(range(1, lines + 1))
    near = sorted({at + step for at in owner for step in range(-CONTEXT_LINES, CONTEXT_LINES + 1) if 1 <= at + step <= lines})
    between = [at for here, there in pairwise(near) if there - here <= MAX_GAP_LINES + 1 for at in range(here + 1, there)]
    return sorted([*near, *between])[:MAX_FILE_LINES]


def _heat(share: float) -> Markup:
    """Return a mark for the margin, stronger for a larger share."""
    if share < 0.005:
        return Markup("")
    return Markup(f'<i style="--heat: {share**0.5:.2f}"></i><span class="hidden">{share:.0%}</span>')
