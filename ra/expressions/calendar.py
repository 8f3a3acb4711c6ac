"""The functors of dates, timestamps and durations, and those between them and text (`ra.values.encoded`).

A functor takes columns (n,) of numbers or symbols and returns one: days, microseconds, parts of dates, or symbols. Text is
parsed and made once for every distinct value.
"""

from collections.abc import Callable

import numpy as np

from semi_naive.ra.expressions.arithmetic import refuse
from semi_naive.ra.ir import ENCODED, Kind
from semi_naive.ra.values.distinct import distinct_with_inverse
from semi_naive.ra.values.encoded import (
    DAY_MICROSECONDS,
    EXPECTED,
    GREATEST_DAY,
    LEAST_DAY,
    bits_of_encoded_text,
    encoded_text,
)

HOUR, MINUTE, SECOND = 3_600_000_000, 60_000_000, 1_000_000  # microseconds
TEXT_OF, PARSE = "text_of_", "parse_"  # the functors between symbols and a kind have its name after these


def _checked_days(days: np.ndarray) -> np.ndarray:
    """Return days as numpy's dates. Raises EvaluationError for a day of another year than 1 to 9999."""
    refuse((days < LEAST_DAY) | (days > GREATEST_DAY), lambda i: f"day {days[i]}", "dates have the years 1 to 9999")
    return days.astype("datetime64[D]")


def _year(days: np.ndarray) -> np.ndarray:
    return _checked_days(days).astype("datetime64[Y]").astype(np.int64) + 1970


def _month(days: np.ndarray) -> np.ndarray:
    return _checked_days(days).astype("datetime64[M]").astype(np.int64) % 12 + 1


def _day(days: np.ndarray) -> np.ndarray:
    dates = _checked_days(days)
    return (dates - dates.astype("datetime64[M]")).astype(np.int64) + 1


def _parsed(kind: Kind, symbols: np.ndarray, values) -> np.ndarray:
    """Return the numbers that symbols denote. Raises EvaluationError for one that is no value of the kind."""
    ids, rows = distinct_with_inverse(symbols)
    texts = values.strings(ids)
    numbers = [bits_of_encoded_text(text, kind) for text in texts]
    refuse(np.array([each is None for each in numbers]), lambda i: f'{kind}("{texts[i]}")', f"expected {EXPECTED[kind]}")
    return np.array(numbers, np.int64)[rows]


def _texts(kind: Kind, numbers: np.ndarray, values) -> np.ndarray:
    """Return the symbols of numbers in the form of a kind."""
    distinct, rows = distinct_with_inverse(numbers)
    return np.asarray(values.intern([encoded_text(number, kind) for number in distinct.tolist()]), np.int64)[rows]


def _of_first(function: Callable[[np.ndarray], np.ndarray]) -> Callable:
    """Return a function of days or microseconds as a functor, which takes (columns, values)."""
    return lambda args, values: function(args[0])


FUNCTIONS = {
    "year": _of_first(_year),
    "month": _of_first(_month),
    "day": _of_first(_day),
    "weekday": _of_first(lambda days: (days + 3) % 7 + 1),  # of ISO 8601: Monday is 1; 1970-01-01 was a Thursday
    "hour": _of_first(lambda microseconds: microseconds // HOUR % 24),
    "minute": _of_first(lambda microseconds: microseconds // MINUTE % 60),
    "second": _of_first(lambda microseconds: microseconds // SECOND % 60),
    "date": _of_first(lambda microseconds: microseconds // DAY_MICROSECONDS),
    "timestamp": _of_first(lambda days: days * DAY_MICROSECONDS),
    "days": _of_first(lambda count: count * DAY_MICROSECONDS),
    "hours": _of_first(lambda count: count * HOUR),
    "minutes": _of_first(lambda count: count * MINUTE),
    "seconds": _of_first(lambda count: count * SECOND),
    **{PARSE + kind.value: lambda args, values, kind=kind: _parsed(kind, args[0], values) for kind in ENCODED},
    **{TEXT_OF + kind.value: lambda args, values, kind=kind: _texts(kind, args[0], values) for kind in ENCODED},
}
