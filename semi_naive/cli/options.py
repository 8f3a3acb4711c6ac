"""Command line options that several commands share."""

from collections.abc import Callable

import click

from semi_naive.host.numbers import parse_bytes


def option_group(*options: Callable) -> Callable:
    """Return a decorator that adds some `click.option`s to a command, in this order."""

    def decorate(command):
        for option in reversed(options):  # as a decorator that is written last is applied first
            command = option(command)
        return command

    return decorate


limiting = option_group(  # for commands that evaluate rules; `Config.with_options` parses the values
    click.option("--query-seconds", metavar="SECONDS", help="End an evaluation that takes longer; none sets no limit."),
    click.option("--query-bytes", metavar="BYTES", help="End an evaluation that makes more: 64M, 2G; none sets no limit."),
)
LIMITS = "query_seconds", "query_bytes"


def settings(given: dict) -> dict:
    """Return the tunables given by --set, --null and the options of `limiting`. given: the options of the command line."""
    limits = {name: given[name] for name in (*LIMITS, "null") if given.get(name) is not None}
    return dict(map(assignment, given["options"])) | limits


def assignment(text: str) -> tuple[str, str]:
    """Split NAME=VALUE of --set."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}: expected NAME=VALUE")
    return name, value


def facts_from(folder: str, headed: str = "Files of -F NAME=FILE") -> Callable:
    """Return the decorator that adds -F and --header. folder: the help on a folder; headed: the files that --header applies
    to."""
    return option_group(
        click.option(
            "-F", "--fact-dir", "facts", metavar="DIR|NAME=FILE", multiple=True,
            help=f"Read the facts {folder}, those of a relation from this file or 'edges/*.parquet'.",
        ),
        click.option("--header", is_flag=True, help=f"{headed} begin with a line of names."),
        click.option("--null", metavar="skip|VALUE", help="Leave out rows with missing values, or read VALUE in their place."),
    )  # fmt: skip


class Bytes(click.ParamType):
    """A positive number of bytes, or one with K, M, G or T (powers of 1,024).

    >>> Bytes().convert("64M", None, None)
    67108864
    """

    name = "bytes"

    def convert(self, value, param, ctx):
        """Parse a value of the option."""
        try:
            nbytes = parse_bytes(str(value))
        except ValueError:
            nbytes = 0
        if nbytes < 1:
            self.fail(f"{value!r}: expected a number of bytes from 1, such as 500000, 64M or 2G", param, ctx)
        return nbytes
