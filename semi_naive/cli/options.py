"""Options that several commands have."""

from collections.abc import Callable

import click


def together(*made: Callable) -> Callable:
    """A decorator that gives a command some `click.option`s, in this order."""

    def given(command):
        for option in reversed(made):
            command = option(command)
        return command

    return given


def facts_from(folder: str, headed: str = "Files of -F NAME=FILE") -> Callable:
    """Where a command reads facts. folder: what its help says of one; headed: which files --header is of."""
    return together(
        click.option(
            "-F", "--fact-dir", "facts", metavar="DIR|NAME=FILE", multiple=True,
            help=f"Read the facts {folder}, those of a relation from this file or 'edges/*.parquet'.",
        ),
        click.option("--header", is_flag=True, help=f"{headed} begin with a line of names."),
    )  # fmt: skip
