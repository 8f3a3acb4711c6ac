"""The text that an editor shows for a name: its declaration and comment, type, stratum, and size in the last run.

The records of runs are those that `run --trace` or `-p` wrote into the program's folder.
"""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from semi_naive.editor.names import Declaration
from semi_naive.editor.programs import Checked, Reading
from semi_naive.host.numbers import quantity
from semi_naive.language import syntax
from semi_naive.language.trees import written_name
from semi_naive.planning.rewriting.passes import Compiled

MAX_RECORD_BYTES = 50_000_000  # of a record, which is read while the user waits
MAX_RECORDS = 100


@dataclass(frozen=True)
class LastRun:
    """The last run of a program. file: the name of its record; written: the file's time; tuples: their number by relation."""

    file: str
    written: datetime
    tuples: dict[str, int]


def last_run(program: str) -> LastRun | None:
    """Return the newest record of the program in its folder, None if there is none. Other JSON files are skipped."""
    found: list[tuple[Path, os.stat_result]] = []
    with suppress(OSError):  # a file that is removed meanwhile
        found += ((path, path.stat()) for path in Path(program).parent.glob("*.json") if path.is_file())
    for path, status in sorted(found, key=lambda each: -each[1].st_mtime)[:MAX_RECORDS]:
        record = _read_record(str(path), status.st_mtime) if status.st_size <= MAX_RECORD_BYTES else None
        recorded_program, tuples = record or ("", {})
        if record and _is_same_program(recorded_program, program):
            return LastRun(path.name, datetime.fromtimestamp(status.st_mtime), tuples)
    return None


@lru_cache(maxsize=MAX_RECORDS)
def _read_record(path: str, written: float) -> tuple[str, dict[str, int]] | None:
    """Return (the program of a record, the tuples of its relations), None if the file is no record. written: the file's time,
    so that a rewritten file is read again."""
    try:
        record = json.loads(Path(path).read_bytes())
        profile = record.get("profile", record)
        return profile["program"], {each["relation"]: each["tuples"] for each in profile["relations"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _is_same_program(recorded: str, program: str) -> bool:
    """True if a record's program is this one. Of a relative path only the last part is compared, as its base is unknown."""
    if os.path.isabs(recorded):
        return os.path.realpath(recorded) == os.path.realpath(program)
    return os.path.basename(recorded) == os.path.basename(program)


def hover(declaration: Declaration, reading: Reading, checked: Checked | None) -> str:
    """Return the Markdown text for a name. checked: the last version of the program without errors, if any."""
    lines = reading.texts[declaration.span.file].split("\n")
    if declaration.kind == "variable":
        return _code(f"{declaration.name}: {_types(declaration, declaration.node.span.text(lines), checked)}")
    parts = [_code(_declaration_text(declaration, lines)), _comment(declaration.span.line, lines)]
    if declaration.kind == "relation" and checked is not None:
        parts.append(_relations(declaration, reading.root, checked))
    return "\n\n".join(filter(None, parts))


def _code(text: str) -> str:
    return f"```semi-naive\n{text}\n```"


def _declaration_text(declaration: Declaration, lines: list[str]) -> str:
    """Return the text of a declaration, its first line if there are several; of a component the text before its statements."""
    node, line = declaration.node, lines[declaration.span.line - 1]
    if isinstance(node, syntax.RelationDecl):
        words = "".join(f" {word}" for word in sorted(node.qualifiers))
        keys = ", ".join(key[0] if len(key) == 1 else f"({', '.join(key)})" for key in node.choice.keys)
        return f".decl {node.name}({_fields(node.attributes)}){words}" + f" choice-domain {keys}" * bool(keys)
    if isinstance(node, syntax.Component):
        return line.split("{")[0].strip()
    if isinstance(node, syntax.BranchDecl):
        return f"{node.name} {{{_fields(node.fields)}}}"
    return line[: node.span.end_column - 1 if node.span.end_line == declaration.span.line else len(line)].strip()


def _fields(pairs: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name}: {type_}" for name, type_ in pairs)


def _comment(line: int, lines: list[str]) -> str:
    """Return the comment after a declaration, or else the one directly above it. line: of the declaration."""
    _, _, comment = lines[line - 1].partition("//")
    if comment.strip():
        return comment.strip()
    above: list[str] = []
    for text in reversed(lines[: line - 1]):
        if not text.strip().startswith("//"):
            break
        above.insert(0, text.strip().removeprefix("//").strip())
    return "\n".join(above)


def _types(declaration: Declaration, clause: str, checked: Checked | None) -> str:
    """Return the types of a variable in the rules made from its clause. The rules are found by the clause's text, as its
    position may have changed."""
    from semi_naive.cli.show import types_of

    if checked is None:
        return "?"
    found: dict[str, None] = {}
    for rule in checked.program.rules:
        if rule.text == clause:
            for name, types in types_of(rule, checked.program).items():
                found |= dict.fromkeys(types if written_name(name) == declaration.name else ())
    return " & ".join(found) or "?"


def _relations(declaration: Declaration, root: str, checked: Checked) -> str:
    """Return a line for the relation, or for each instance of it: its stratum, and its number of tuples."""
    relations, run = checked.program.relations, last_run(root)
    names = [name for name, relation in relations.items() if relation.span == declaration.span and "@" not in name]
    # Since the last check, the declaration may have moved.
    names = names or [name for name in relations if name == declaration.name and declaration.within is None]
    lines = {name: _relation(name, checked.compiled, run) for name in names}
    alone = list(lines) == [declaration.name]
    return "  \n".join(line if alone else f"`{name}`: {line}" for name, line in lines.items() if line)


def _relation(name: str, compiled: Compiled, run: LastRun | None) -> str:
    """Return the stratum and the number of tuples of a relation."""
    strata = [stratum for stratum in compiled.strata if stratum.rules]
    facts = [
        f"stratum {number} of {len(strata)}{', recursive' * stratum.recursive}"
        for number, stratum in enumerate(strata, 1) if name in stratum.relations
    ]  # fmt: skip
    if run is not None and name in run.tuples:
        facts.append(f"{quantity(run.tuples[name], 'tuple')} in the run of {run.written:%Y-%m-%d %H:%M} ({run.file})")
    return "; ".join(facts)
