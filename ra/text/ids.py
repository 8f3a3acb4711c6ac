"""The error for an id that no symbol or record has."""


class UnknownId(KeyError):
    """An id that no symbol or record has. A rule can make one from a number, by `as`."""

    def __str__(self) -> str:
        return self.args[0]
