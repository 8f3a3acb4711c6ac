"""Numbers of bytes as command line options."""

import click

from semi_naive.quantities import parse_bytes


class Bytes(click.ParamType):
    """A positive number of bytes, or one with K, M, G or T (powers of 1,024).

    >>> Bytes().convert("64M", None, None)
    67108864
    """

    name = "bytes"

    def convert(self, value, param, ctx):
        try:
            found = parse_bytes(str(value))
        except ValueError:
            found = 0
        if found < 1:
            self.fail(f"{value!r}: expected a number of bytes from 1, such as 500000, 64M or 2G", param, ctx)
        return found
