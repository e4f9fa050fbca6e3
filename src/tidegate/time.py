"""Time inside Tidegate: BIGINT microseconds since 1970-01-01 UTC; ``datetime`` only at the edges.

Negative times are legal and are floored, never truncated.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import Enum

MICROS_PER_SECOND = 1_000_000

# The unit suffixes of durations in settings, in microseconds.
DURATION_UNITS: dict[str, int] = {
    "us": 1,
    "ms": 1_000,
    "s": MICROS_PER_SECOND,
    "m": 60 * MICROS_PER_SECOND,
    "h": 3_600 * MICROS_PER_SECOND,
    "d": 86_400 * MICROS_PER_SECOND,
}

LONGEST_US = 2**63 - 1

_DURATION = re.compile(r"\s*([+-]?\d+)\s*([A-Za-z]+)\s*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TimeUnit(Enum):
    """A unit of StreamDialect; its value is how it is written, ``micros`` its length."""

    DAY = "dd"
    HOUR = "hh"
    MINUTE = "mi"
    SECOND = "ss"
    MILLISECOND = "ms"
    # Only INTERVAL literals have this unit; StreamDialect has none for it.
    MICROSECOND = "us"

    @property
    def micros(self) -> int:
        """The length of one unit in microseconds."""
        return _UNIT_MICROS[self]


_UNIT_MICROS = {
    TimeUnit.DAY: 86_400 * MICROS_PER_SECOND,
    TimeUnit.HOUR: 3_600 * MICROS_PER_SECOND,
    TimeUnit.MINUTE: 60 * MICROS_PER_SECOND,
    TimeUnit.SECOND: MICROS_PER_SECOND,
    TimeUnit.MILLISECOND: 1_000,
    TimeUnit.MICROSECOND: 1,
}


def floor_to(time_us: int, size_us: int, offset_us: int = 0) -> int:
    """Return the greatest ``offset + n * size`` that is not after ``time_us``.

    >>> floor_to(-1, 10)
    -10
    """
    return time_us - (time_us - offset_us) % size_us


def parse_duration(text: str) -> int:
    """Return the microseconds of a duration such as ``250ms`` or ``5m``.

    Raises:
        ValueError: the text is not an integer followed by one of ``us ms s m h d``, or it is
            negative or longer than a BIGINT of microseconds.
    """
    match = _DURATION.fullmatch(text)
    if match is None or match[2] not in DURATION_UNITS:
        units = " ".join(DURATION_UNITS)
        raise ValueError(
            f'{text!r} is not a duration: write an integer and one of {units}, e.g. "5m"'
        )
    if int(match[1]) < 0:
        raise ValueError(f"{text!r} is negative: a duration is 0 or more")
    micros = int(match[1]) * DURATION_UNITS[match[2]]
    if micros > LONGEST_US:
        raise ValueError(f"{text!r} is too long: the longest duration is 292,000 years")
    return micros


def format_duration(micros: int) -> str:
    """Return a duration in its largest whole unit, e.g. ``5m``; ``0s`` for 0."""
    for unit, length in sorted(DURATION_UNITS.items(), key=lambda item: -item[1]):
        if micros and micros % length == 0:
            return f"{micros // length}{unit}"
    return "0s"


def to_datetime(time_us: int) -> datetime:
    """Return the UTC ``datetime`` of a time in microseconds."""
    return _EPOCH + timedelta(microseconds=time_us)


def from_datetime(moment: datetime) -> int:
    """Return the microseconds of a ``datetime``; without a zone it counts as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_text(text: str) -> int:
    """Return the microseconds of a time in ISO 8601; without a zone it counts as UTC.

    Raises:
        ValueError: it is not one.
    """
    return from_datetime(datetime.fromisoformat(text))


def format_time(time_us: int) -> str:
    """Return a time as ISO 8601 UTC, with fraction digits only as needed.

    For instance ``2013-01-01T10:15:00Z``.
    """
    moment = to_datetime(time_us)
    fraction = f"{moment.microsecond:06d}".rstrip("0")
    seconds = moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return seconds + (f".{fraction}" if fraction else "") + "Z"
