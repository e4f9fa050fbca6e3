"""Columns as times: how to convert each type to microseconds, in Spark SQL.

The unit of a number is never guessed; a plain cast would silently read it as seconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from tidegate.names import quoted, suggestion
from tidegate.plan.statement import BoundQuery, Column


class TimeKind(Enum):
    """How the type of a column is read as a time."""

    TIMESTAMP = "timestamp"
    CIVIL = "civil"
    TEXT = "text"
    INTEGER = "integer"
    FRACTION = "fraction"
    UNKNOWN = "unknown"
    OTHER = "other"

    @classmethod
    def of(cls, ddl_type: str) -> TimeKind:
        """Return the kind of a Spark SQL type such as ``DECIMAL(10,2)``."""
        if "WITHOUT TIME ZONE" in ddl_type.upper():
            return cls.CIVIL
        name = re.match(r"\s*(\w*)", ddl_type)
        return _KINDS.get(name[1].upper() if name else "", cls.OTHER)

    @classmethod
    def instants(cls) -> tuple[TimeKind, ...]:
        """The kinds that are points in time without a unit."""
        return cls.TIMESTAMP, cls.CIVIL

    @property
    def needs_unit(self) -> bool:
        """Whether it needs a unit to be a time."""
        return self in (TimeKind.INTEGER, TimeKind.FRACTION)

    @property
    def takes_unit(self) -> bool:
        """Whether a unit, if set, applies to it."""
        return self not in (TimeKind.TIMESTAMP, TimeKind.CIVIL, TimeKind.OTHER)


_KINDS: dict[str, TimeKind] = {
    "TIMESTAMP": TimeKind.TIMESTAMP,
    "TIMESTAMP_LTZ": TimeKind.TIMESTAMP,
    "TIMESTAMP_NTZ": TimeKind.CIVIL,
    "DATE": TimeKind.CIVIL,
    "STRING": TimeKind.TEXT,
    "VARCHAR": TimeKind.TEXT,
    "CHAR": TimeKind.TEXT,
    "CHARACTER": TimeKind.TEXT,
    "TINYINT": TimeKind.INTEGER,
    "BYTE": TimeKind.INTEGER,
    "SMALLINT": TimeKind.INTEGER,
    "SHORT": TimeKind.INTEGER,
    "INT": TimeKind.INTEGER,
    "INTEGER": TimeKind.INTEGER,
    "BIGINT": TimeKind.INTEGER,
    "LONG": TimeKind.INTEGER,
    "FLOAT": TimeKind.FRACTION,
    "REAL": TimeKind.FRACTION,
    "DOUBLE": TimeKind.FRACTION,
    "DECIMAL": TimeKind.FRACTION,
    "DEC": TimeKind.FRACTION,
    "NUMERIC": TimeKind.FRACTION,
}

# The microseconds of each unit of a numeric event time, as a DECIMAL literal.
EVENT_TIME_UNITS: dict[str, str] = {"s": "1000000BD", "ms": "1000BD", "us": "1BD", "ns": "0.001BD"}

# The same as a BIGINT literal, for units that are whole microseconds.
_WHOLE_UNITS: dict[str, str] = {"s": "1000000L", "ms": "1000L", "us": "1L"}

# Years 1 to 9999, the range in which Spark prints and reads times; arithmetic on it cannot
# overflow.
LEAST_TIME_US = -62_135_596_800_000_000
GREATEST_TIME_US = 253_402_300_799_999_999

# Holds every BIGINT, with room for six more digits from a multiplication.
_NUMBER = "DECIMAL(28, 9)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeColumn:
    """An expression that may be an event time; ``type`` is ``unknown`` if it is not declared."""

    sql: str
    text: str
    kind: TimeKind
    type: str


def event_time_sql(x: str, kind: TimeKind, unit: str | None) -> str:  # noqa: PLR0911
    """Return BIGINT Spark SQL text: microseconds since 1970, floored.

    It is NULL where ``x`` is NULL or no time. A number too great for microseconds, or too small,
    gives the first one out of range. Where the type is not known, ``IF(true, f(x), x)`` is ``f(x)``
    with a type check: Spark's analyzer refuses a number without a unit, or a timestamp with one,
    and its optimizer then removes the IF.
    """
    assert unit is not None or not kind.needs_unit, "a number needs a unit"
    match kind:
        case TimeKind.TIMESTAMP:
            return f"unix_micros({x})"
        case TimeKind.CIVIL:
            return f"unix_micros(CAST({x} AS TIMESTAMP))"
        case TimeKind.TEXT if unit is None:
            return f"unix_micros(try_cast({x} AS TIMESTAMP))"
        case TimeKind.UNKNOWN if unit is None:
            return f"unix_micros(IF(true, try_cast({x} AS TIMESTAMP), {x}))"
        case TimeKind.INTEGER if unit == "ns":
            return f"(CAST({x} AS BIGINT) div 1000L - IF({x} % 1000 < 0, 1L, 0L))"
        case TimeKind.INTEGER:
            return _in_range(f"try_multiply(CAST({x} AS BIGINT), {_WHOLE_UNITS[unit or '']})", x)
        case TimeKind.FRACTION | TimeKind.TEXT:
            # A cast to DECIMAL gives a DOUBLE the digits that it prints: the last digit of
            # 1600000000.123456 would otherwise be lost.
            return _in_range(_floored(f"try_cast({x} AS {_NUMBER})", unit), x)
        case TimeKind.UNKNOWN:
            number = f"CAST(IF(true, try_cast({x} AS {_NUMBER}), {x}) AS {_NUMBER})"
            return _in_range(_floored(number, unit), x)
        case TimeKind.OTHER:
            raise AssertionError("a column that is not a time was refused before")
        case _:
            assert_never(kind)


def _floored(number: str, unit: str | None) -> str:
    return f"try_cast(floor({number} * {EVENT_TIME_UNITS[unit or '']}) AS BIGINT)"


def _in_range(micros: str, x: str) -> str:
    """Microseconds, where there are none because the number ``x`` is too great the first too many.

    What is no number is NULL, and so is NaN.
    """
    number = f"nanvl(try_cast({x} AS DOUBLE), NULL)"
    beyond = f"WHEN {number} > 0 THEN {GREATEST_TIME_US + 1}L"
    return f"coalesce({micros}, CASE {beyond} WHEN {number} < 0 THEN {LEAST_TIME_US - 1}L END)"


_PLAIN = re.compile(r"(?:`(?:[^`]|``)+`|[A-Za-z_]\w*)(?:\s*\.\s*(?:`(?:[^`]|``)+`|[A-Za-z_]\w*))*")
_PART = re.compile(r"`((?:[^`]|``)+)`|([A-Za-z_]\w*)")


def written_column(bound: BoundQuery, sql: str) -> TimeColumn:
    """Return an expression of the statement; the kind is known for a plain column of the stream."""
    column = _column_of(bound, sql.strip())
    if column is None:
        return TimeColumn(sql=sql, text=sql, kind=TimeKind.UNKNOWN, type="unknown")
    return TimeColumn(sql=sql, text=sql, kind=TimeKind.of(column.type), type=column.type)


def field_column(bound: BoundQuery, field: str) -> TimeColumn | None:
    """Return the column that a setting names, or None if the stream is known not to have it.

    A dot leads into a struct unless a column has the whole name; backticks are not needed.
    """
    columns = bound.source.columns
    column = find_column(columns or (), field)
    if column is not None:
        # A WITH clause may change the type of a column of this name.
        kind = TimeKind.UNKNOWN if bound.statement.ctes else TimeKind.of(column.type)
        return TimeColumn(sql=quoted(column.name), text=field, kind=kind, type=column.type)
    parts = (
        [part[0].replace("``", "`") or part[1] for part in _PART.findall(field)]
        if _PLAIN.fullmatch(field)
        else [field]
    )
    known = columns is not None and not bound.statement.ctes
    if known and (len(parts) == 1 or find_column(columns or (), parts[0]) is None):
        return None
    return TimeColumn(
        sql=".".join(quoted(part) for part in parts),
        text=field,
        kind=TimeKind.UNKNOWN,
        type="unknown",
    )


def _column_of(bound: BoundQuery, sql: str) -> Column | None:
    """Return the stream's column that SQL text names, if it can mean nothing else."""
    if bound.statement.ctes or not _PLAIN.fullmatch(sql):
        return None
    parts = [part[0].replace("``", "`") or part[1] for part in _PART.findall(sql)]
    columns = bound.source.columns or ()
    if len(parts) > 2 or (len(parts) == 2 and find_column(columns, parts[0]) is not None):
        return None
    if any(find_column(table.columns or (), parts[-1]) for table in bound.tables):
        return None
    return find_column(columns, parts[-1])


def find_column(columns: tuple[Column, ...], name: str) -> Column | None:
    """Return the column of a name, ignoring case, or None."""
    return next((column for column in columns if column.name.lower() == name.lower()), None)


def nearest_columns(name: str, columns: tuple[Column, ...]) -> str:
    """Return a sentence with the columns that a wrong name could mean."""
    names = [column.name for column in columns]
    all_of_them = f"Its columns are {', '.join(names)}." if names else "It has no columns."
    return suggestion(name, names, otherwise=all_of_them)
