"""The types of kernels, described without numba, which takes half a second to load.

`types.int64`, `types.Array(types.int64, 1, "C")`, `types.Tuple((…))` and so on mean the same as in numba. A type called with
argument types is a signature. Both convert values as compiled code does, so that an uncompiled kernel has the same arguments
and results.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from semi_naive.host.numbers import quantity

WORD_MASK = (1 << 64) - 1
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400  # NPY_ARRAY_… of numpy's C interface


class KernelType:
    """The base of all types."""

    def __call__(self, *arguments: "KernelType") -> "Signature":
        return Signature(self, arguments)

    def of_numba(self, types) -> Any:
        """Return the same type of numba. types: the module `numba.types`."""
        raise NotImplementedError

    def as_argument(self, value):
        """Convert an argument as compiled code does. Raises TypeError if it is of another kind."""
        return value

    def as_result(self, value):
        """Convert a result as compiled code does."""
        return value


@dataclass(frozen=True)
class Scalar(KernelType):
    """A number of the numpy type of this name."""

    name: str

    def __getitem__(self, dimension: slice) -> "Array":
        """`boolean[::1]`: a contiguous array."""
        assert dimension == slice(None, None, 1), dimension
        return Array(self, 1, "C")

    def of_numba(self, types):
        return getattr(types, self.name)

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype("bool" if self.name == "boolean" else self.name)


class Integer(Scalar):
    """An integer of the numpy type."""

    def as_argument(self, value):
        """Convert an argument as compiled code does: a larger one wraps around."""
        try:
            return self.dtype.type(value)
        except OverflowError:  # which a cast does not know
            return np.uint64(operator.index(value) & WORD_MASK).astype(self.dtype)

    def as_result(self, value) -> int:
        return operator.index(value)  # a TypeError, if it has become a float on the way


class Boolean(Scalar):
    """A boolean."""

    def as_argument(self, value) -> bool:
        return bool(value)

    as_result = as_argument


class Nothing(Scalar):
    """The type of a kernel without result."""

    def as_result(self, value) -> None:
        return None


@dataclass(frozen=True)
class Array(KernelType):
    """An array; layout: "C" if it is contiguous, "A" if any."""

    of: Scalar
    dimensions: int
    layout: str
    readonly: bool = False

    @cached_property
    def flags(self) -> int:
        """The flags of numpy that an array must have, as bits of `flags.num`."""
        return CONTIGUOUS | ALIGNED | (0 if self.readonly else WRITEABLE)

    def of_numba(self, types):
        return types.Array(self.of.of_numba(types), self.dimensions, self.layout, readonly=self.readonly)

    def as_argument(self, value) -> np.ndarray:
        """Check that an argument is an array of this type."""
        if isinstance(value, np.ndarray) and value.dtype == self.of.dtype and value.ndim == self.dimensions:
            if value.flags.num & self.flags == self.flags:
                return value
        shape = f"{'' if self.readonly else 'writeable '}contiguous array of {self.of.name}, of {self.dimensions} dimensions"
        raise TypeError(f"expected a {shape}, found {value!r}")


@dataclass(frozen=True)
class Tuple(KernelType):
    """A tuple of values."""

    of: tuple[KernelType, ...]

    def of_numba(self, types):
        return types.Tuple(tuple(each.of_numba(types) for each in self.of))

    def as_argument(self, value) -> tuple:
        return tuple(each.as_argument(one) for each, one in zip(self.of, value, strict=True))

    def as_result(self, value) -> tuple:
        return tuple(each.as_result(one) for each, one in zip(self.of, value, strict=True))


@dataclass(frozen=True)
class Signature:
    """The types of a kernel's result and arguments."""

    result: KernelType
    arguments: tuple[KernelType, ...]

    def of_numba(self, types):
        return self.result.of_numba(types)(*(each.of_numba(types) for each in self.arguments))

    def as_argument(self, values) -> list:
        """Convert arguments as compiled code does.

        >>> i64 = types.Array(types.int64, 1, "C")
        >>> types.void(i64, types.uint64).as_argument((np.arange(2), -1))
        [array([0, 1]), np.uint64(18446744073709551615)]
        >>> types.void(i64).as_argument((np.arange(2.0),))
        Traceback (most recent call last):
        TypeError: expected a writeable contiguous array of int64, of 1 dimensions, found array([0., 1.])
        """
        if len(values) != len(self.arguments):
            raise TypeError(f"expected {quantity(len(self.arguments), 'argument')}, found {len(values)}")
        return [each.as_argument(value) for each, value in zip(self.arguments, values, strict=True)]

    def checking(self, function: Callable) -> Callable:
        """Return a function that checks its arguments, and calls `function` with them: machine code, which does not check the
        types of arrays. It raises TypeError for arguments that are not of this signature. An array takes 0.1 µs."""
        arrays = [
            (place, each.of.dtype, each.dimensions, each.flags)
            for place, each in enumerate(self.arguments)
            if isinstance(each, Array)
        ]
        count, has_tuples = len(self.arguments), any(isinstance(each, Tuple) for each in self.arguments)

        def call(*values):
            if len(values) != count or has_tuples:
                return function(*self.as_argument(values))
            for place, dtype, dimensions, flags in arrays:
                value = values[place]
                if (
                    type(value) is not np.ndarray
                    or value.dtype is not dtype
                    or value.ndim != dimensions
                    or value.flags.num & flags != flags
                ):
                    return function(*self.as_argument(values))  # an error, or a subclass or an equal type
            return function(*values)

        return call


types = SimpleNamespace(
    **{f"{sign}int{bits}": Integer(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    float64=Scalar("float64"), boolean=Boolean("boolean"), void=Nothing("void"),
    Array=Array, Tuple=Tuple, UniTuple=lambda of, count: Tuple((of,) * count),
)  # fmt: skip
