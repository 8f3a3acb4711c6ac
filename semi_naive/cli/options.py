"""Options that several commands have."""

from collections.abc import Callable


def together(*made: Callable) -> Callable:
    """A decorator that gives a command some `click.option`s, in this order."""

    def given(command):
        for option in reversed(made):
            command = option(command)
        return command

    return given
