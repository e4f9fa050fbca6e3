"""Where the event time, the lag and the lateness of a query come from.

The event time comes from the first that names one: the statement, the setting ``event_time_field``,
the source's metadata; if none does, rows take the clock of their batch. Lag and lateness each come
from the statement, else the setting, else they are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from tidegate.errors import ConfigError, QueryError, Span
from tidegate.names import quoted
from tidegate.plan.columns import FILE
from tidegate.plan.logical import Authority, EventTime, WatermarkSpec
from tidegate.plan.settings import Lateness, Settings, TimeMode
from tidegate.plan.statement import BoundQuery, Column, WatermarkClause
from tidegate.plan.time_columns import (
    EVENT_TIME_UNITS,
    TimeColumn,
    TimeKind,
    event_time_sql,
    field_column,
    find_column,
    nearest_columns,
    written_column,
)
from tidegate.plan.upstream import Follows
from tidegate.planner.shards import kafka_column, resolve_shard, shard_setting
from tidegate.planner.upstream import check_readable, followed

_RECEIPT_COLUMNS = ("received_at", "@timestamp")
_FILE_TIME = f"{FILE}.file_modification_time"


def resolve_watermark(bound: BoundQuery, settings: Settings) -> WatermarkSpec:
    """Return what determines the time of a row, the watermark, and which rows are late.

    In processing time lag and lateness are 0: the clock is the watermark, and no row can be late.

    Raises:
        QueryError: the statement has a WATERMARK but nothing gives an event time, or it names an
            event time that cannot be one.
        ConfigError: ``event_time_field`` names no column, or a number without ``event_time_unit``.
    """
    check_readable(bound)
    follows: Follows | None = None
    if bound.source.upstream is not None and settings.time is not TimeMode.PROCESSING:
        event_time, follows = followed(bound, settings)
    else:
        event_time = _event_time(bound, settings)
    lag_us, lag_authority = 0, Authority.DEFAULT
    lateness_us, lateness_authority = 0, Authority.DEFAULT
    if event_time.sql is not None:
        clause = bound.statement.watermark or WatermarkClause(
            lag_us=None, lateness_us=None, span=Span(0, 0)
        )
        lag_us, lag_authority = _first_set(clause.lag_us, settings.watermark_lag_us)
        lateness_us, lateness_authority = _first_set(
            clause.lateness_us, settings.allowed_lateness_us
        )
    mode = TimeMode.PROCESSING if event_time.sql is None else TimeMode.EVENT
    shard, shard_authority = (
        resolve_shard(bound, settings, mode) if follows is None else (None, Authority.DEFAULT)
    )
    return WatermarkSpec(
        mode=mode,
        event_time=event_time,
        lag_us=lag_us,
        lag_authority=lag_authority,
        lateness_us=lateness_us,
        lateness_authority=lateness_authority,
        shard=shard,
        shard_authority=shard_authority,
        shard_expiry_us=settings.shard_expiry_us if shard is not None else None,
        idle_timeout_us=settings.idle_timeout_us,
        on_idle=settings.on_idle,
        null_event_time_fallback=settings.null_event_time == "fallback",
        max_future_skew_us=settings.max_future_skew_us,
        emit_on_close=_emits_on_close(bound),
        by_record=mode is TimeMode.EVENT and settings.lateness is Lateness.RECORD,
        follows=follows,
        shard_of_keys=bound.shard_of_keys if shard == shard_setting(settings) else None,
    )


def _first_set(in_statement: int | None, in_settings: int | None) -> tuple[int, Authority]:
    if in_statement is not None:
        return in_statement, Authority.SQL
    if in_settings is not None:
        return in_settings, Authority.SETTING
    return 0, Authority.DEFAULT


def _emits_on_close(bound: BoundQuery) -> bool:
    window = bound.statement.window
    assert window is not None, "a statement without a window is refused before planning"
    return not window.goes_out_at_once or bound.statement.emit_on_close


def _event_time(bound: BoundQuery, settings: Settings) -> EventTime:
    if settings.time is TimeMode.PROCESSING:
        return EventTime(
            sql=None,
            text="the batch's clock",
            authority=Authority.SETTING,
            why='time = "processing" asks for it',
        )
    for authority in AUTHORITIES:
        event_time = authority(bound, settings)
        if event_time is not None:
            return _with_fallback(event_time, bound, settings)
    return _processing_time(bound, settings)


def _from_statement(bound: BoundQuery, settings: Settings) -> EventTime | None:
    named = bound.statement.event_time
    if named is None:
        return None
    column = written_column(bound, named.sql)
    problem = time_problem(column, settings.event_time_unit)
    if problem is not None:
        what, mend = problem
        statement = bound.statement
        raise QueryError(
            what, sql=statement.text, span=named.span, mend=mend, origin=statement.origin
        )
    why = "the statement names it"
    if settings.event_time_field is not None and settings.event_time_field != named.sql:
        why += f', so event_time_field = "{settings.event_time_field}" is not used'
    return _made_of(column, settings.event_time_unit, Authority.SQL, why)


def _from_setting(bound: BoundQuery, settings: Settings) -> EventTime | None:
    field = settings.event_time_field
    if field is None:
        return None
    column = field_column(bound, field)
    if column is None:
        columns = bound.source.columns or ()
        raise ConfigError(
            f'event_time_field = "{field}": stream {bound.source.name} has no column {field}\n\n'
            f"{nearest_columns(field, columns)}"
        )
    problem = time_problem(column, settings.event_time_unit)
    if problem is not None:
        what, mend = problem
        raise ConfigError(f'event_time_field = "{field}": {what}\n\n{mend}')
    why = "event_time_field names it, the statement names none"
    return _made_of(column, settings.event_time_unit, Authority.SETTING, why)


def _from_metadata(bound: BoundQuery, settings: Settings) -> EventTime | None:
    found = _metadata_column(bound, settings)
    if found is None:
        return None
    column, why = found
    problem = time_problem(column, settings.event_time_unit)
    if problem is not None:
        what, mend = problem
        raise ConfigError(
            f"{what}\n\n{mend} Or name another column with event_time_field, or ask for "
            'the clock with time = "processing".'
        )
    return _made_of(column, settings.event_time_unit, Authority.METADATA, why)


Resolver: TypeAlias = Callable[[BoundQuery, Settings], EventTime | None]

# Who may name an event time, in order of precedence.
AUTHORITIES: tuple[Resolver, ...] = (_from_statement, _from_setting, _from_metadata)


def _metadata_column(bound: BoundQuery, settings: Settings) -> tuple[TimeColumn, str] | None:
    """The column with the time of a row's arrival, and a sentence saying why it is that one."""
    if settings.event_time_metadata == "file":
        if bound.source.united:
            raise ConfigError(
                f'event_time_metadata = "file": {bound.source.name} unites several streams, and '
                "Spark does not tell the file of a row then\n\nRemove the setting, and take the "
                "time from a column."
            )
        column = TimeColumn(
            sql=_FILE_TIME, text=_FILE_TIME, kind=TimeKind.TIMESTAMP, type="TIMESTAMP"
        )
        return column, 'event_time_metadata = "file" asks for the time its file was last changed'
    columns = bound.source.columns or ()
    time = kafka_column(columns, "timestamp")
    if time is not None:
        return _metadata_time(time), "it is the time of the Kafka record"
    for name in _RECEIPT_COLUMNS:
        receipt = find_column(columns, name)
        if receipt is not None:
            return _metadata_time(
                receipt
            ), "the source has this column, and nothing else names an event time"
    return None


def _metadata_time(column: Column | None) -> TimeColumn:
    assert column is not None, "metadata columns are looked up by existing names"
    return TimeColumn(
        sql=quoted(column.name),
        text=column.name,
        kind=TimeKind.of(column.type),
        type=column.type,
    )


def _with_fallback(event_time: EventTime, bound: BoundQuery, settings: Settings) -> EventTime:
    """Add the metadata's time for rows without an event time, if asked for."""
    if settings.null_event_time != "fallback" or event_time.authority is Authority.METADATA:
        return event_time
    found = _metadata_column(bound, settings)
    # The unit is that of the event time; a number in the metadata has none, so it is not used.
    if found is None or time_problem(found[0], None) is not None:
        return event_time
    return replace(event_time, fallback_sql=event_time_sql(found[0].sql, found[0].kind, None))


def _processing_time(bound: BoundQuery, settings: Settings) -> EventTime:
    statement = bound.statement
    times = [
        c.name for c in bound.source.columns or () if TimeKind.of(c.type) in TimeKind.instants()
    ]
    example = quoted(times[0]) if times else "ts"
    if statement.watermark is not None:
        raise QueryError(
            "WATERMARK needs an event time, and neither the statement, event_time_field nor the "
            "source gives one",
            sql=statement.text,
            span=statement.watermark.span,
            mend=f"Name it before WATERMARK: ON {example} WATERMARK (INTERVAL '5' SECOND).",
            origin=statement.origin,
        )
    if settings.time is TimeMode.EVENT:
        raise ConfigError(
            f'time = "event": nothing gives stream {bound.source.name} an event time\n\n'
            f'Name it in the statement with ON {example}, or set event_time_field = "{example}".'
        )
    return EventTime(
        sql=None,
        text="the batch's clock",
        authority=Authority.DEFAULT,
        why=(
            "neither the statement, event_time_field nor the source gives an event time; "
            'if that is meant, set time = "processing"'
        ),
    )


def _made_of(column: TimeColumn, unit: str | None, authority: Authority, why: str) -> EventTime:
    if unit is not None and column.kind.takes_unit:
        why += f'; event_time_unit = "{unit}" says what the number counts'
    return EventTime(
        sql=event_time_sql(column.sql, column.kind, unit),
        text=column.text,
        authority=authority,
        why=why,
    )


def time_problem(column: TimeColumn, unit: str | None) -> tuple[str, str] | None:
    """Return why a column cannot be an event time, and what to do; None if it can."""
    if column.kind.needs_unit and unit is None:
        return (
            f"event time {column.text} is a number ({column.type}) whose unit is not given",
            'Say what it counts since 1970: event_time_unit = "ms" (or "s", "us", "ns").',
        )
    if unit is not None and unit not in EVENT_TIME_UNITS:
        return (
            f'event_time_unit = "{unit}" is not a unit',
            'The units are "s", "ms", "us" and "ns".',
        )
    if column.kind is TimeKind.OTHER:
        return (
            f"event time {column.text} is {column.type}, which is not a time",
            "An event time is a TIMESTAMP, a TIMESTAMP_NTZ, a DATE, a STRING that holds one, or a "
            "number with event_time_unit.",
        )
    return None
