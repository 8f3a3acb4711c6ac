"""Numbers of bytes as people write them."""

UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


def bytes_of(text: str) -> int:
    """A whole number of bytes, or any number with K, M, G or T of 1,024 times as many each. ValueError for anything else.

    >>> bytes_of("64M"), bytes_of("1.5g"), bytes_of("2GB"), bytes_of("500_000")
    (67108864, 1610612736, 2147483648, 500000)
    """
    number = text.strip().upper().removesuffix("B").removesuffix("I")
    try:
        return int(float(number[:-1]) * (1 << UNITS[number[-1]])) if number[-1:] in UNITS else int(number)
    except (ValueError, OverflowError):
        raise ValueError(f"{text}: expected a number of bytes, such as 500000, 64M or 2G") from None
