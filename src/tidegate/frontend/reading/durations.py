"""Durations in a statement: INTERVAL literals, and units with whole numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tidegate.errors import Span
from tidegate.frontend.refusal import Refusal
from tidegate.names import suggestion
from tidegate.time import TimeUnit

# The units of StreamDialect, as they are written.
STREAM_UNITS = {unit.value: unit for unit in TimeUnit if unit is not TimeUnit.MICROSECOND}

_HOUR_US = TimeUnit.HOUR.micros
_INTERVAL_UNITS = {
    "week": 7 * TimeUnit.DAY.micros,
    "day": TimeUnit.DAY.micros,
    "hour": _HOUR_US,
    "minute": TimeUnit.MINUTE.micros,
    "second": TimeUnit.SECOND.micros,
    "millisecond": TimeUnit.MILLISECOND.micros,
    "microsecond": 1,
}
_CALENDAR_UNITS = ("month", "quarter", "year")

# No duration has a number as long. Python does not read those of more than 4,300 digits.
_MOST_DIGITS = 100
_NUMBER = r"[+-]?\s*\d+(?:\.\d*)?|[+-]?\s*\.\d+"
_INTERVAL = re.compile(r"(?P<sign>-\s*)?INTERVAL\b(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_PAIR = re.compile(
    rf"\s*(?P<quote>['\"]?)\s*(?P<number>{_NUMBER})\s*(?P=quote)\s*(?P<unit>[A-Za-z]+)"
)
_ONE_STRING = re.compile(r"\s*(?P<quote>['\"])(?P<inside>.*)(?P=quote)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """A length of time in microseconds, as it was written, and where."""

    micros: int
    text: str
    span: Span


def read_interval(text: str, span: Span) -> Duration:
    """Return the length of an INTERVAL literal of weeks to microseconds; it may be negative.

    Raises:
        Refusal: it is not a literal, has months or years, or is not a whole number of microseconds.
    """
    match = _INTERVAL.fullmatch(text.strip())
    if match is None:
        raise Refusal(
            f"{text} is not an INTERVAL literal, which a duration here must be",
            span,
            "Write e.g. INTERVAL '10' SECOND.",
        )
    whole = _ONE_STRING.fullmatch(match["rest"])
    total, rest = Fraction(0), whole["inside"] if whole else match["rest"]
    if not rest.strip():
        raise _malformed(text, span)
    while rest.strip():
        pair = _PAIR.match(rest)
        if pair is None:
            raise _malformed(text, span)
        if len(pair["number"]) > _MOST_DIGITS:
            raise Refusal(
                f"a number in an INTERVAL literal has {len(pair['number']):,} characters",
                span,
                f"Write one of up to {_MOST_DIGITS} characters.",
            )
        total += Fraction(re.sub(r"\s", "", pair["number"])) * _unit_micros(pair["unit"], span)
        rest = rest[pair.end() :]
    micros = -total if match["sign"] else total
    if micros.denominator != 1:
        raise Refusal(
            f"{text} is not a whole number of microseconds",
            span,
            "Write an interval of whole microseconds.",
        )
    return Duration(micros=int(micros), text=text, span=span)


def common_unit(durations: Sequence[int]) -> TimeUnit:
    """Return the greatest unit of which all the durations are whole numbers."""
    return next(unit for unit in TimeUnit if all(micros % unit.micros == 0 for micros in durations))


def read_unit(word: str, span: Span) -> TimeUnit:
    """Return a unit of StreamDialect, in any case.

    Raises:
        Refusal: there is no such unit.
    """
    unit = STREAM_UNITS.get(word.lower())
    if unit is None:
        raise Refusal(
            f"{word!r} is not a unit of time",
            span,
            "Write one of 'dd' (days), 'hh' (hours), 'mi' (minutes), 'ss' (seconds) and "
            "'ms' (milliseconds).",
        )
    return unit


def _unit_micros(word: str, span: Span) -> int:
    singular = word.lower().removesuffix("s")
    if singular in _CALENDAR_UNITS:
        raise Refusal(
            f"{word} has no fixed length; the units of windows are weeks to microseconds",
            span,
            "Write a number of days, e.g. INTERVAL '30' DAY.",
        )
    if singular not in _INTERVAL_UNITS:
        raise Refusal(
            f"{word} is not a unit of an interval",
            span,
            suggestion(
                singular,
                _INTERVAL_UNITS,
                otherwise="Write WEEK, DAY, HOUR, MINUTE, SECOND or MILLISECOND.",
            ),
        )
    return _INTERVAL_UNITS[singular]


def _malformed(text: str, span: Span) -> Refusal:
    if re.search(r"\bTO\b", text, re.IGNORECASE):
        what, mend = (
            "is an interval from one unit to another; durations have one unit",
            "Write e.g. INTERVAL '90' SECOND.",
        )
    else:
        what, mend = "is not a number and a unit", "Write e.g. INTERVAL '10' SECOND."
    return Refusal(f"{text} {what}", span, mend)
