"""Messages about unknown names: a similar name that may be meant, and the known names."""

from collections.abc import Collection


class UnknownName(KeyError):
    """A name that a mapping does not have. Unlike that of a KeyError, its text is the message."""

    def __str__(self) -> str:
        return str(self.args[0])


def similar(name: str, known: Collection[str]) -> str:
    """Return the most similar of the known names, "" if none is similar."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, 1)), "")


def unknown(kind: str, name: object, known: Collection[str]) -> str:
    """Return the message for an unknown name. kind: the kind of things that have these names.

    >>> print(unknown("relation", "pth", ["path", "edge"]))
    unknown relation 'pth'; did you mean 'path'? There are edge, path
    >>> print(unknown("relation", 3, []))
    unknown relation 3: there is none
    """
    near = similar(name, known) if isinstance(name, str) else ""
    listed = f"here are {', '.join(sorted(known))}" if len(known) > 1 else f"here is {next(iter(known), 'none')}"
    if near:
        return f"unknown {kind} {name!r}; did you mean {near!r}? T{listed}"
    return f"unknown {kind} {name!r}: t{listed}"
