"""Options that several commands have."""

from collections.abc import Callable

import click


def option_group(*made: Callable) -> Callable:
    """A decorator that gives a command some `click.option`s, in this order."""

    def given(command):
        for option in reversed(made):
            command = option(command)
        return command

    return given


limiting = option_group(  # of a command that evaluates rules; `Config.with_options` reads the values
    click.option("--query-seconds", metavar="SECONDS", help="End an evaluation that takes longer; none sets no limit."),
    click.option("--query-bytes", metavar="BYTES", help="End an evaluation that makes more: 64M, 2G; none sets no limit."),
)
LIMITS = "query_seconds", "query_bytes"


def settings(given: dict) -> dict:
    """The tunables that --set and the options of `limiting` give."""
    limits = {name: given[name] for name in LIMITS if given.get(name) is not None}
    return dict(map(assignment, given["options"])) | limits


def assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}: expected NAME=VALUE")
    return name, value


def facts_from(folder: str, headed: str = "Files of -F NAME=FILE") -> Callable:
    """Where a command reads facts. folder: what its help says of one; headed: which files --header is of."""
    return option_group(
        click.option(
            "-F", "--fact-dir", "facts", metavar="DIR|NAME=FILE", multiple=True,
            help=f"Read the facts {folder}, those of a relation from this file or 'edges/*.parquet'.",
        ),
        click.option("--header", is_flag=True, help=f"{headed} begin with a line of names."),
    )  # fmt: skip
