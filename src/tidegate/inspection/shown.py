"""Values of the state as people and machines read them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tidegate.time import format_time, from_datetime


def time_text(time_us: int | None) -> str | None:
    """Return a time as ISO 8601 UTC; one outside of the calendar as its number of microseconds."""
    if time_us is None:
        return None
    try:
        return format_time(time_us)
    except OverflowError:
        return str(time_us)


def utc_rows(
    rows: Sequence[Mapping[str, Any]], schema: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    """Return state rows whose TIMESTAMP columns have a time zone; Parquet has them in UTC."""
    moments = [name for name, type_ in schema.items() if type_ == "timestamp"]
    if not moments:
        return list(rows)
    return [{**row, **{name: _in_utc(row.get(name)) for name in moments}} for row in rows]


def json_value(value: object) -> object:
    """Return a value as JSON can express it: times as ISO 8601, decimals as text, bytes in base64.

    A value that needs Spark is null.
    """
    shown: object = None
    match value:
        case bool() | int() | float() | str():
            shown = value
        case Mapping():
            shown = {str(name): json_value(each) for name, each in value.items()}
        case list() | tuple():
            shown = [json_value(each) for each in value]
        case datetime() if value.tzinfo is not None:
            shown = format_time(from_datetime(value))
        case date():
            shown = value.isoformat()
        case bytes() | bytearray():
            shown = base64.b64encode(value).decode()
        case Decimal() | timedelta():
            shown = str(value)
    return shown


def text_of(value: object) -> str | None:
    """Return a value as a cell of a table; None for NULL."""
    match value:
        case bool():
            return str(value).lower()
        case None | str():
            return value
        case bytes() | bytearray():
            return f"{len(value):,} bytes"
        case Mapping() | list() | tuple():
            return json.dumps(json_value(value), ensure_ascii=False)
    shown = json_value(value)
    return repr(value) if shown is None else str(shown)


def _in_utc(value: object) -> object:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and not value.tzinfo else value
