"""Numbers of bytes as people write them on a command line."""

import click

UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


class Bytes(click.ParamType):
    """A whole number from 1, of bytes or with K, M, G or T of 1,024 times as many each.

    >>> Bytes().convert("64M", None, None), Bytes().convert("1.5g", None, None), Bytes().convert("2GB", None, None)
    (67108864, 1610612736, 2147483648)
    """

    name = "bytes"

    def convert(self, value, param, ctx):
        text = str(value).strip().upper().removesuffix("B").removesuffix("I")
        number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS and text else (text, "")
        try:
            found = int(float(number) * (1 << UNITS[unit])) if unit else int(number)
        except (ValueError, OverflowError):
            found = 0
        if found < 1:
            self.fail(f"{value!r}: expected a number of bytes from 1, such as 500000, 64M or 2G", param, ctx)
        return found
