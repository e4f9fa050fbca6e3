"""Where the time of a row comes from, and the durations of the settings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

from .built import Built
from .parse import Refused
from .query import Query
from .values import RowError, cast, is_number, micros

DURATIONS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
UNITS_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
KAFKA_COLUMNS = {"topic", "partition", "offset", "timestamp"}
METADATA = ("received_at", "@timestamp")


def duration(text: object) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*(us|ms|s|m|h|d)\s*", str(text))
    if found is None:
        raise Refused(f"{text!r} is no duration")
    return int(found[1]) * DURATIONS[found[2]]


def event_time_of(query: Query, settings: Mapping[str, object]) -> Built | None:
    """By authority: the statement, the setting, the source's metadata; None: the clock."""
    if settings.get("time") == "processing":
        return None
    statement = query.statement
    text = statement.event_time or settings.get("event_time_field") or _metadata(query)
    if text is not None:
        return _micros_of(query, str(text), settings.get("event_time_unit"))
    if statement.has_watermark:
        raise Refused("WATERMARK needs an event time: write ON column, or set event_time_field")
    return None


def fallback_of(query: Query, settings: Mapping[str, object]) -> Built | None:
    """The metadata's time, for rows without an event time."""
    text = _metadata(query)
    asked = settings.get("null_event_time") == "fallback"
    return _micros_of(query, text, None) if asked and text is not None else None


def _micros_of(query: Query, text: str, unit: object) -> Built:
    built = query.scalar(text, "ON")
    if not is_number(built.type):
        return Built("BIGINT", lambda row: _as_micros(built.run(row), built.type))
    if unit not in UNITS_NS:
        raise Refused(f"{text} is a number: name its unit with event_time_unit, e.g. ms")
    scale = UNITS_NS[str(unit)]
    return Built("BIGINT", lambda row: _scaled(built.run(row), scale))


def _metadata(query: Query) -> str | None:
    """The column in which the source says when a row came."""
    names = {f.name.lower(): f.name for f in query.rows.fields}
    kafka = ("timestamp",) if names.keys() >= KAFKA_COLUMNS else ()
    found = next((names[name] for name in (*kafka, *METADATA) if name in names), None)
    return None if found is None else f"`{found}`"


def _as_micros(value: object, kind: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, str | date) and not isinstance(value, datetime):
        value = cast(value, kind, "TIMESTAMP")
    assert isinstance(value, datetime)
    return micros(value)


def _scaled(value: object, nanoseconds: int) -> int | None:
    return None if value is None else math.floor(Decimal(value) * nanoseconds / 1000)


def tried(built: Built, values: tuple) -> object:
    """A value, or NULL when it cannot be computed."""
    try:
        return built.run(values)
    except RowError:
        return None
