"""The signatures of the intrinsic functors: the kinds of their parameters and results."""

from collections.abc import Iterable
from dataclasses import dataclass

from semi_naive.ra.ir import Kind

N, U, F, S, R = Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL, Kind.RECORD
PREFERENCE = {S: 0, N: 1, U: 2, F: 3, R: 4}  # Soufflé's preference among overloads that fit equally


@dataclass(frozen=True)
class Overload:
    """The types of the arguments and of the result of a functor."""

    params: tuple[Kind, ...]
    result: Kind
    variadic: bool = False  # one or more arguments, all of the first parameter's kind

    def takes(self, count: int) -> bool:
        """True if the functor may have this number of arguments."""
        return count >= 1 if self.variadic else count == len(self.params)

    def param(self, place: int) -> Kind:
        """Return the kind of the argument at a place."""
        return self.params[0 if self.variadic else place]


def _homogeneous(kinds: Iterable[Kind], arity: int = 2, variadic: bool = False) -> list[Overload]:
    """Return an overload for each kind, with parameters and a result of this kind."""
    return [Overload((kind,) * arity, kind, variadic) for kind in kinds]


_NUMERIC, _INTEGRAL = (N, U, F), (N, U)
INFIX = {"+", "-", "*", "/", "%", "^", "band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor"}

OVERLOADS: dict[str, list[Overload]] = {
    **{op: _homogeneous(_NUMERIC) for op in ("-", "*", "/", "^")},
    **{op: _homogeneous(_INTEGRAL) for op in ("%", "band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor")},
    **{op: _homogeneous(_INTEGRAL, arity=1) for op in ("bnot", "lnot")},
    "+": _homogeneous((*_NUMERIC, S)),  # of symbols it is cat
    "neg": _homogeneous((N, F), arity=1),
    **{op: _homogeneous((S, N, U, F), arity=1, variadic=True) for op in ("min", "max")},
    "range": _homogeneous(_NUMERIC) + _homogeneous(_NUMERIC, arity=3),
    **{
        name: [Overload((kind,), to) for kind in (S, N, U, F)]
        for name, to in (("to_number", N), ("to_unsigned", U), ("to_float", F), ("to_string", S))
    },
    "ord": [Overload((kind,), N) for kind in (S, N, U, F, R)],
    "strlen": [Overload((S,), N)],
    "substr": [Overload((S, N, N), S)],
    **{name: [Overload((S,), S)] for name in ("lower", "upper", "trim")},
    "replace": [Overload((S, S, S), S)],
    "cat": _homogeneous((S,), arity=1, variadic=True),
    **{name: [Overload((N,), N)] for name in ("year", "month", "day", "weekday", "hour", "minute", "second")},
    **{name: [Overload((N,), N)] for name in ("days", "hours", "minutes", "seconds")},
    **{name: [Overload((S,), N), Overload((N,), N)] for name in ("date", "timestamp")},
    "duration": [Overload((S,), N)],
    "autoinc": [Overload((), N)],
    "recursive_iteration_cnt": [Overload((), U)],
}


def overload_preference(overload: Overload):
    """Return a sort key: the preferred overload comes first."""
    return PREFERENCE[overload.result], overload.variadic, [PREFERENCE[kind] for kind in overload.params]
