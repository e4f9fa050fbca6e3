"""The event time and the watermark of a statement that reads the results of a transform.

The closing of that transform is the watermark, exactly. So there is nothing to set: no lag, no
lateness, no shards; and the event time must be a time of the windows.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.errors import ConfigError, QueryError
from tidegate.names import listed, quoted
from tidegate.plan.columns import WINDOW_TIME
from tidegate.plan.logical import Authority, EventTime
from tidegate.plan.settings import Lateness, OnIdle, Settings
from tidegate.plan.statement import BoundQuery
from tidegate.plan.time_columns import field_column, written_column
from tidegate.plan.upstream import Follows, ResultTime, Upstream

_PROCESSING = 'Or set time = "processing".'


def followed(bound: BoundQuery, settings: Settings) -> tuple[EventTime, Follows]:
    """Return the event time of results, and how their watermark follows from the upstream.

    Raises:
        QueryError: the statement names another event time, or has a WATERMARK.
        ConfigError: a setting does, or the upstream's windows bound no times.
    """
    upstream = bound.source.upstream
    assert upstream is not None, "asked only then"
    _check_upstream(bound, upstream)
    _check_settings(upstream, settings)
    statement = bound.statement
    if statement.watermark is not None:
        raise QueryError(
            f"the watermark of the results of {upstream.name} is the closing of its windows",
            sql=statement.text,
            span=statement.watermark.span,
            mend="Leave WATERMARK and its lateness out: no result comes late.",
            origin=statement.origin,
        )
    if statement.event_time is not None:
        column = written_column(bound, statement.event_time.sql)
        time = _time_of(upstream, column.text)
        if time is None:
            raise QueryError(
                f"{column.text} is not a time of the windows of {upstream.name}, so their closing "
                "does not say when it has passed",
                sql=statement.text,
                span=statement.event_time.span,
                mend=_mend(upstream, "ON"),
                origin=statement.origin,
            )
        named = EventTime(
            sql=column.sql,
            text=column.text,
            authority=Authority.SQL,
            why="the statement names it",
        )
        return _named(named, Follows(upstream=upstream, time=time))
    if settings.event_time_field is not None:
        field = settings.event_time_field
        time = _time_of(upstream, field)
        found = field_column(bound, field)
        if time is None or found is None:
            raise ConfigError(
                f'event_time_field = "{field}": it is not a time of the windows of '
                f"{upstream.name}, so their closing does not say when it has passed\n\n"
                f"{_mend(upstream, 'event_time_field')}"
            )
        named = EventTime(
            sql=found.sql,
            text=field,
            authority=Authority.SETTING,
            why="event_time_field names it, the statement names none",
        )
        return _named(named, Follows(upstream=upstream, time=time))
    return EventTime(
        sql=WINDOW_TIME,
        text=f"{ResultTime.LAST.value} in {upstream.name}",
        authority=Authority.METADATA,
        why="a result belongs where its window ends, and nothing else is named",
    ), Follows(upstream=upstream, time=ResultTime.LAST)


def _named(column: EventTime, follows: Follows) -> tuple[EventTime, Follows]:
    """Return a column of the upstream as the event time: it is a TIMESTAMP."""
    why = f"{column.why}; it is {follows.time.value} in {follows.upstream.name}"
    return replace(column, sql=f"unix_micros({column.sql})", why=why), follows


def _time_of(upstream: Upstream, name: str) -> ResultTime | None:
    """The time of the window that a column is, None if it is another one or not bounded."""
    plain = name.strip().rpartition(".")[2].strip("`").lower()
    time = upstream.columns.get(plain)
    return time if time in upstream.times else None


def _mend(upstream: Upstream, key: str) -> str:
    known = [quoted(name) for name, time in upstream.columns.items() if time in upstream.times]
    default = f"Leave {key} out: the time of a result is the last instant of its window."
    return f"{default} Or name {listed(known)}." if known else default


def check_readable(bound: BoundQuery) -> None:
    """Refuse a statement that reads a transform with provisional results.

    Raises:
        ConfigError: it does.
    """
    upstream = bound.source.upstream
    if upstream is not None and upstream.early:
        raise ConfigError(
            f"{upstream.name} has EMIT EARLY, and its provisional results would count beside the "
            f"final ones\n\nLeave EMIT EARLY out of {upstream.name}, or add another transform with "
            "the same statement for it."
        )


def _check_upstream(bound: BoundQuery, upstream: Upstream) -> None:
    if not upstream.times:
        raise ConfigError(
            f"{upstream.name} has {upstream.window.kind} windows, which close when a row says so: "
            "that bounds no event times of results that are still to come\n\nSet time = "
            '"processing", or read a transform with other windows.'
        )
    if bound.statement.from_clause.has_queries:
        raise ConfigError(
            f"a WITH clause or a subquery hides the windows of the results of {upstream.name}\n\n"
            f"Name the transform itself: FROM {upstream.name}. {_PROCESSING}"
        )


def _check_settings(upstream: Upstream, settings: Settings) -> None:
    given = {
        "watermark_lag": settings.watermark_lag_us,
        "allowed_lateness": settings.allowed_lateness_us,
        "lateness": settings.lateness is Lateness.RECORD or None,
        "shard": settings.shard,
        "shard_expiry": settings.shard_expiry_us,
        "idle_timeout": settings.idle_timeout_us,
        "on_idle": settings.on_idle is OnIdle.ADVANCE or None,
        "event_time_unit": settings.event_time_unit,
        "event_time_metadata": settings.event_time_metadata,
        "null_event_time": settings.null_event_time,
    }
    for key, value in given.items():
        if value is not None:
            raise ConfigError(
                f"The setting {key} is not for the results of a transform: the watermark is the "
                f"closing of the windows of {upstream.name}, and no result comes late\n\n"
                f"Leave {key} out. {_PROCESSING}"
            )
