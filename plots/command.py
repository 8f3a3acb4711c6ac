"""`semi-naive plot`: draw the figures of recorded runs."""

from pathlib import Path
from zlib import crc32

import click

from semi_naive.balance.joins import is_join
from semi_naive.balance.trace import read_trace, spread
from semi_naive.plots.figures import OVERVIEW, PROGRAM, comparison, figures
from semi_naive.plots.joins import join_figures, join_kind
from semi_naive.plots.run import drawable
from semi_naive.plots.style import save_figure

KINDS = ("png", "svg")
MAX_STEM_CHARACTERS = 100  # characters of a file name before the figure's name


def draw(paths, output: str, only: str = ""):
    """Draw one record, or several side by side, as PNG and SVG files in a folder, which is created; yield the path of each.
    only: names of figures between commas. By default all figures of one run are drawn; for a program with several strata on
    the partitions, the overview of each. All records are read before anything is drawn."""
    records, wanted = [read_trace(path, joins=True) for path in paths], figure_names(only)
    drawn = _joins(records, paths, wanted) if any(map(is_join, records)) else _fixpoints(records, paths, wanted, only)
    Path(output).mkdir(parents=True, exist_ok=True)
    for name, figure in drawn.items():
        for kind in KINDS:
            target = Path(output) / f"{stem(paths)}-{file_name_part(name)}.{kind}"
            save_figure(figure, target)
            yield str(target)


def _joins(records: list[dict], paths, wanted: list[str]) -> dict:
    """Return the figures of multiway joins by name. wanted: the names to draw; none: all."""
    if not all(map(is_join, records)):
        raise ValueError("some of these runs are multiway joins and some are not: there is nothing to compare")
    if not (drawn := join_figures(records, [Path(path).name for path in paths], wanted)):
        raise ValueError(f"{', '.join(paths)}: no {', '.join(wanted)} to draw: of these joins there is {join_kind(records[0])}")
    return drawn


def _fixpoints(records: list[dict], paths, wanted: list[str], only: str) -> dict:
    """Return the figures of closures and programs by name. wanted: the names to draw; none: all. only: the same as text, for
    errors."""
    if not wanted and any(len(drawable(record)) > 1 for record in records):  # of several strata only the overview of each
        wanted = [OVERVIEW, *PROGRAM]
    drawn = figures(records[0], wanted) if len(paths) == 1 else comparison(records, paths, wanted)
    reason = _reason_not_drawable(records)
    if not drawn:
        raise ValueError(f"{', '.join(paths)}: no {only or 'strata, no rules'} to draw. {reason}".strip())
    if reason:
        click.echo(f"semi-naive: {reason}", err=True)
    return drawn


def _reason_not_drawable(records: list[dict]) -> str:
    """Return the reason why no record has a balance to draw; "" if one has."""
    reasons = []
    for record in records:
        try:
            spread(record)
        except ValueError as nothing:
            reasons.append(str(nothing))
    return reasons[0] if len(reasons) == len(records) else ""


def figure_names(only: str | None) -> list[str]:
    """Return the names in a comma-separated list; `figures` checks them.

    >>> figure_names("heat, times,")
    ['heat', 'times']
    """
    return [name.strip() for name in (only or "").split(",") if name.strip()]


def stem(paths) -> str:
    """Return the common prefix of figure file names.

    >>> stem(["a/run.json"]), stem(["a.json", "b.json"])
    ('run', 'a-vs-b')
    """
    joined = "-vs-".join(dict.fromkeys(Path(path).stem for path in paths))
    return joined if len(joined) <= MAX_STEM_CHARACTERS else "comparison"


def file_name_part(name: str) -> str:
    """Return a figure's name as part of a file name; a very long one is truncated, with a checksum that keeps it unique.

    >>> file_name_part("path.of/x-heat"), file_name_part("x" * 300 + "-heat")[-14:]
    ('path.of_x-heat', '-1b432d13-heat')
    """
    stratum, dash, panel = name.rpartition("-")
    if len(name) > MAX_STEM_CHARACTERS:
        stratum = f"{stratum[:MAX_STEM_CHARACTERS]}-{crc32(stratum.encode()):08x}"
    return "".join(letter if letter.isalnum() or letter in "-_.@" else "_" for letter in stratum + dash + panel)
