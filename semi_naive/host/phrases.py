"""Parts of messages: series of items, and text of limited length."""

from collections.abc import Iterable


def series(items: Iterable, last: str = "and") -> str:
    """Items separated by commas, and by a word before the last one.

    >>> series([1]), series([1, 2, 5]), series(["a", "b"], "or"), series([])
    ('1', '1, 2 and 5', 'a or b', '')
    """
    *most, end = map(str, items) if items else [""]
    return f"{', '.join(most)} {last} {end}" if most else end


def shortened(text: str, most: int) -> str:
    """Text cut to a number of characters.

    >>> shortened("path(x, z) :- path(x, y), edge(y, z).", 14)
    'path(x, z) :-…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
