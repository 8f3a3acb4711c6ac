"""Parsing of numbers of bytes."""

UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


def parse_bytes(text: str) -> int:
    """A whole number of bytes, or any number with K, M, G or T of 1,024 times as many each. ValueError for anything else.

    >>> parse_bytes("64M"), parse_bytes("1.5g"), parse_bytes("2GB"), parse_bytes("500_000")
    (67108864, 1610612736, 2147483648, 500000)
    """
    number = text.strip().upper().removesuffix("B").removesuffix("I")
    try:
        return int(float(number[:-1]) * (1 << UNITS[number[-1]])) if number[-1:] in UNITS else int(number)
    except (ValueError, OverflowError):
        raise ValueError(f"{text}: expected a number of bytes, such as 500000, 64M or 2G") from None
