"""Values that are stored as numbers and written otherwise: truth values, dates, timestamps and durations.

bool       0 or 1                                        true, false
date       days since 1970-01-01                         2026-01-31
timestamp  microseconds since 1970-01-01 00:00 in UTC    2026-01-31T12:30:00Z, 2026-01-31T12:30:00.250000Z
duration   microseconds                                  PT1H30M, P2DT0.5S, -PT5S

Text is in the forms of ISO 8601. A timestamp without an offset is in UTC. The calendar is Gregorian; years have four digits.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import numpy as np

from semi_naive.ra.ir import Kind
from semi_naive.ra.text.arrow_arrays import arrow_of, numpy_of

EXPECTED = {
    Kind.BOOL: "a bool: true or false",
    Kind.DATE: "a date, such as 2026-01-31",
    Kind.TIMESTAMP: "a timestamp, such as 2026-01-31T12:30:00Z; without Z or an offset such as +01:00, it is in UTC",
    Kind.DURATION: "a duration of ISO 8601, such as P2D, PT1H30M or -PT0.5S",
}
EPOCH_DAY, EPOCH = date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND, DAY_MICROSECONDS = timedelta(microseconds=1), 86_400_000_000
LEAST_DAY, GREATEST_DAY = (date.min - EPOCH_DAY).days, (date.max - EPOCH_DAY).days  # of the years 1 to 9999
_TRUTH = {"true": 1, "false": 0, "1": 1, "0": 0}
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6}0*)?)?(?:Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_DURATION = re.compile(
    r"([+-]?)P(?=.)(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6})0*)?S)?)?", re.ASCII
)


def bits_of_encoded_text(text: str, kind: Kind) -> int | None:
    """Return the number that a text denotes; None if it is no value of the kind.

    >>> bits_of_encoded_text("1970-01-11", Kind.DATE), bits_of_encoded_text("1970-01-01 00:00:01", Kind.TIMESTAMP)
    (10, 1000000)
    >>> bits_of_encoded_text("-PT1M", Kind.DURATION), bits_of_encoded_text("True", Kind.BOOL)
    (-60000000, 1)
    """
    return _PARSERS[kind](text.strip())


def bits_of_encoded(value, kind: Kind) -> int | None:
    """Return the number of a Python or numpy value, or of a text; None if it is no value of the kind. A date and time without
    an offset is in UTC."""
    if isinstance(value, str):
        return bits_of_encoded_text(value, kind)
    if isinstance(value, np.generic):
        return _bits_of_numpy(value, kind)
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):  # of pandas, whose types are those of datetime
        return None
    if kind == Kind.BOOL:
        return int(value) if isinstance(value, bool) else None
    if kind == Kind.DURATION:
        return value // MICROSECOND if isinstance(value, timedelta) else None
    if kind == Kind.DATE:
        return (value - EPOCH_DAY).days if isinstance(value, date) and not isinstance(value, datetime) else None
    if isinstance(value, datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND
    return (value - EPOCH_DAY).days * DAY_MICROSECONDS if isinstance(value, date) else None


def encoded_values(column: np.ndarray, kind: Kind) -> list:
    """Return the Python values of a column of numbers: bool, date, datetime with the zone UTC, or timedelta. A date outside of
    the years 1 to 9999, which Python does not have, is the text of its number."""
    numbers = column.tolist()
    if kind == Kind.BOOL:
        return [number != 0 for number in numbers]
    if kind == Kind.DURATION:
        return [timedelta(microseconds=number) for number in numbers]
    if kind == Kind.DATE:
        return [EPOCH_DAY + timedelta(number) if LEAST_DAY <= number <= GREATEST_DAY else str(number) for number in numbers]
    return [
        EPOCH + timedelta(microseconds=number) if LEAST_DAY <= number // DAY_MICROSECONDS <= GREATEST_DAY else str(number)
        for number in numbers
    ]


def encoded_text(number: int, kind: Kind) -> str:
    """Return the text of a number in the form of its kind.

    >>> encoded_text(-1, Kind.DATE), encoded_text(1_500_000, Kind.TIMESTAMP), encoded_text(5_400_000_000, Kind.DURATION)
    ('1969-12-31', '1970-01-01T00:00:01.500000Z', 'PT1H30M')
    """
    (value,) = encoded_values(np.array([number]), kind)
    if kind == Kind.BOOL:
        return "true" if value else "false"
    if kind == Kind.DURATION:
        return _duration_text(number)
    return value if isinstance(value, str) else value.isoformat().replace("+00:00", "Z")


def text_of_encoded(value) -> str:
    """Return a Python value of an encoded kind as text."""
    kind = {bool: Kind.BOOL, timedelta: Kind.DURATION, datetime: Kind.TIMESTAMP}.get(type(value), Kind.DATE)
    return encoded_text(bits_of_encoded(value, kind) or 0, kind)


def bits_of_encoded_texts(texts, kind: Kind) -> np.ndarray | None:
    """Return the numbers of an Arrow array of texts; None if Arrow cannot read one of them in the form of a kind."""
    import pyarrow as pa

    forms = {Kind.DATE: [pa.date32()], Kind.TIMESTAMP: [pa.timestamp("us"), pa.timestamp("us", "UTC")]}
    for arrow_type in forms.get(kind, ()):
        try:
            return numbers_of_arrow(texts.cast(arrow_type), kind)
        except pa.ArrowInvalid:  # for a timestamp: some have an offset, others none
            pass
    return None


def numbers_of_arrow(array, kind: Kind) -> np.ndarray:
    """Return the numbers (n,) of an Arrow array of the kind's values, in any unit and zone. Raises pyarrow.ArrowInvalid for
    fractions of a microsecond or a day."""
    import pyarrow as pa

    if kind == Kind.DATE:
        array = array.cast(pa.date32()).cast(pa.int32())
    elif kind == Kind.TIMESTAMP:
        array = array.cast(pa.timestamp("us", getattr(array.type, "tz", None))).cast(pa.int64())
    elif kind == Kind.DURATION:
        array = array.cast(pa.duration("us")).cast(pa.int64())
    return numpy_of(array.cast(pa.int64()))


def arrow_of_numbers(column: np.ndarray, kind: Kind):
    """Return the Arrow array of a column of numbers: bool, date32, timestamp[us, tz=UTC] or duration[us]."""
    import pyarrow as pa

    array, arrow_type = arrow_of(np.ascontiguousarray(column)), arrow_type_of_encoded(kind)
    return array.cast(pa.int32()).cast(arrow_type) if kind == Kind.DATE else array.cast(arrow_type)


def arrow_type_of_encoded(kind: Kind):
    """Return the Arrow type of a kind's values."""
    import pyarrow as pa

    if kind == Kind.TIMESTAMP:
        return pa.timestamp("us", "UTC")
    return {Kind.BOOL: pa.bool_, Kind.DATE: pa.date32}[kind]() if kind != Kind.DURATION else pa.duration("us")


def kind_of_encoded_arrow(arrow_type) -> Kind | None:
    """Return the kind of the values of an Arrow type that are stored as numbers and written otherwise; None for other types."""
    import pyarrow.types as is_

    if is_.is_boolean(arrow_type) or is_.is_date(arrow_type):
        return Kind.BOOL if is_.is_boolean(arrow_type) else Kind.DATE
    return Kind.TIMESTAMP if is_.is_timestamp(arrow_type) else Kind.DURATION if is_.is_duration(arrow_type) else None


def _parse_date(text: str) -> int | None:
    """Return the days of a date; None for another text, or a day that does not exist."""
    try:
        return (date.fromisoformat(text) - EPOCH_DAY).days if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _parse_timestamp(text: str) -> int | None:
    """Return the microseconds of a timestamp; None for another text, or a time that does not exist."""
    try:
        value = datetime.fromisoformat(text) if _TIMESTAMP.fullmatch(text) else None
    except ValueError:
        return None
    return None if value is None else bits_of_encoded(value, Kind.TIMESTAMP)


def _parse_duration(text: str) -> int | None:
    """Return the microseconds of a duration; None for another text, or if they do not fit into 64 bits."""
    if not (match := _DURATION.fullmatch(text)):
        return None
    sign, *numbers, fraction = match.groups()
    weeks, days, hours, minutes, seconds = (int(number or 0) for number in numbers)
    whole = (((weeks * 7 + days) * 24 + hours) * 60 + minutes) * 60 + seconds
    total = whole * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return (-total if sign == "-" else total) if total < 1 << 63 else None


_PARSERS: dict[Kind, Callable[[str], int | None]] = {
    Kind.BOOL: lambda text: _TRUTH.get(text.lower()),
    Kind.DATE: _parse_date,
    Kind.TIMESTAMP: _parse_timestamp,
    Kind.DURATION: _parse_duration,
}


_NUMPY_TYPES = {Kind.DATE: "datetime64[D]", Kind.TIMESTAMP: "datetime64[us]", Kind.DURATION: "timedelta64[us]"}


def _bits_of_numpy(value: np.generic, kind: Kind) -> int | None:
    """Return the number of a numpy scalar; None if it is not of the kind, or finer than the kind."""
    if kind == Kind.BOOL:
        return int(value) if isinstance(value, np.bool_) else None
    unit = np.dtype(_NUMPY_TYPES[kind])
    if value.dtype.kind != unit.kind or np.isnat(value):
        return None
    converted = value.astype(unit)
    return int(converted.astype(np.int64)) if converted == value else None


def _duration_text(number: int) -> str:
    """Return microseconds as a duration of ISO 8601."""
    seconds, fraction = divmod(abs(number), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    second = f"{seconds}.{fraction:06}".rstrip("0") if fraction else str(seconds)
    parts = [f"{count}{unit}" for count, unit in ((str(hours), "H"), (str(minutes), "M"), (second, "S")) if count != "0"]
    text = f"{days}D" * bool(days) + ("T" + "".join(parts)) * bool(parts)
    return f"{'-' if number < 0 else ''}P{text or 'T0S'}"
