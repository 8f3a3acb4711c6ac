"""Format the numbers in messages (counts, bytes, durations, counted nouns, lists of items), and parse numbers of bytes."""

from collections.abc import Callable, Iterable


def in_full(value: float) -> str:
    """Return a count with all its digits.

    >>> in_full(21_402_960), in_full(0.3)
    ('21,402,960', '0')
    """
    return f"{value:,.0f}"


def number(value: float) -> str:
    """Return a count: in full if it is short, otherwise in thousands, millions, …

    >>> [number(n) for n in (0, 8114, 99_999, 1_234_567, 21_402_960, 131_675_775, 4_000_000_000)]
    ['0', '8,114', '99,999', '1.2 M', '21.4 M', '132 M', '4.0 G']
    """
    if abs(value) < 100_000:
        return in_full(value) if value == round(value) else f"{value:,.2f}"
    return _scaled(value, " kMGTPE")


def quantity(count: float, noun: str, plural: str = "", show: Callable[[float], str] = in_full) -> str:
    """Return a number with its noun. plural: the plural, if it is not formed by an s.

    >>> quantity(1, "iteration"), quantity(1200, "tuple"), quantity(0.3, "rule"), quantity(2, "stratum", "strata")
    ('1 iteration', '1,200 tuples', '0 rules', '2 strata')
    """
    digits = show(count)
    return f"{digits} {noun if digits == '1' else plural or noun + 's'}"


def with_article(word: str) -> str:
    """Return a word with its indefinite article, as the spelling suggests.

    >>> with_article("int"), with_article("list")
    ('an int', 'a list')
    """
    return f"{'an' if word[:1].lower() in tuple('aeio') else 'a'} {word}"


def about(count: float, noun: str, plural: str = "") -> str:
    """Return a count, rounded to a few digits, with its noun.

    >>> about(1, "tuple"), about(21_402_960, "tuple")
    ('1 tuple', '21.4 M tuples')
    """
    return quantity(count, noun, plural, number)


def size(count: float) -> str:
    """Return a number of bytes as text.

    >>> [size(n) for n in (0, 999, 12_300_000, 171_000_000)]
    ['0 B', '999 B', '12.3 MB', '171 MB']
    """
    return f"{count:,.0f} B" if abs(count) < 1000 else _scaled(count, " kMGTPE") + "B"


def _scaled(value: float, prefixes: str) -> str:
    """Return a value with the prefix by which it is below 1000, rounded: three digits, two of values below 10."""
    step = 0
    while abs(value) >= 999.5 and step < len(prefixes) - 1:
        value, step = value / 1000, step + 1
    return f"{value:.{0 if abs(value) >= 99.95 else 1}f} {prefixes[step]}"


def seconds(value: float) -> str:
    """Return a duration as text.

    >>> [seconds(s) for s in (0, 0.00087, 0.25, 2.664, 12.34, 59.96, 75, 3725)]
    ['0 s', '0.9 ms', '250 ms', '2.66 s', '12.3 s', '1 min 0 s', '1 min 15 s', '1 h 2 min']
    """
    if value < 0.9995:
        return f"{value * 1000:.{1 if value < 0.00995 else 0}f} ms" if value > 0 else "0 s"
    if value < 59.95:
        return f"{value:.{2 if value < 9.995 else 1}f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def summands(values: dict[str, float]) -> dict[str, float]:
    """Round seconds to whole milliseconds that add up to their rounded sum; values of 0 ms are left out.

    >>> summands({"load": 0.0014, "plan": 0.0014, "iterate": 1.0002, "other": 0.0001})
    {'load': 0.002, 'plan': 0.001, 'iterate': 1.0}
    """
    exact = {name: value * 1000 for name, value in values.items()}
    whole = {name: int(value) for name, value in exact.items()}
    short = round(sum(exact.values())) - sum(whole.values())  # to be added to those that lost most by rounding down
    for name in sorted(exact, key=lambda name: whole[name] - exact[name])[:short]:
        whole[name] += 1
    return {name: value / 1000 for name, value in whole.items() if value}


def series(items: Iterable, last: str = "and") -> str:
    """Return items separated by commas, and by a word before the last one.

    >>> series([1]), series([1, 2, 5]), series(["a", "b"], "or"), series([])
    ('1', '1, 2 and 5', 'a or b', '')
    """
    *most, end = map(str, items) if items else [""]
    return f"{', '.join(most)} {last} {end}" if most else end


def shortened(text: str, most: int) -> str:
    """Return a text, cut to a number of characters.

    >>> shortened("path(x, z) :- path(x, y), edge(y, z).", 14)
    'path(x, z) :-…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


def parse_bytes(text: str) -> int:
    """Parse an integer number of bytes, or any number with K, M, G or T (powers of 1,024). Raises ValueError for anything
    else.

    >>> parse_bytes("64M"), parse_bytes("1.5g"), parse_bytes("2GB"), parse_bytes("500_000")
    (67108864, 1610612736, 2147483648, 500000)
    """
    number = text.strip().upper().removesuffix("B").removesuffix("I")  # of GB, GiB
    try:
        return int(float(number[:-1]) * (1 << UNITS[number[-1]])) if number[-1:] in UNITS else int(number)
    except (ValueError, OverflowError):
        raise ValueError(f"{text}: expected a number of bytes, such as 500000, 64M or 2G") from None
