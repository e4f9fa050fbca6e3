"""The oracle: the whole contract, record by record.

A batch: rows are classified in arrival order (null or future time, WHERE, row error, duplicate), placed
against the watermark before the batch (late, evicted), then the watermark advances, then windows close.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from hashlib import md5

from .expressions import Built
from .parse import Refused
from .placing import ALLOWED, Closed, Limits, Placement, Row, passed
from .query import Call, GroupEnv, Query
from .relation import Field, Frame
from .values import RowError, cast, is_number, micros, moment, order_key
from .watermark import Watermark
from .windows import make_kind

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


class QueryFailed(Exception):
    """A row failed and the policy is ``fail``."""


@dataclass(frozen=True)
class Side:
    """A record of the side output; ``original`` is None when a result failed, not a row."""

    kind: str
    reason: str
    original: Mapping[str, object] | None
    late_by_ms: int | None = None


@dataclass
class Outcome:
    """What one step gave."""

    emitted: list[dict[str, object]] = field(default_factory=list)
    side: list[Side] = field(default_factory=list)
    watermark_us: int | None = None


def duration(text: object) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*(us|ms|s|m|h|d)\s*", str(text))
    if found is None:
        raise Refused(f"{text!r} is no duration")
    return int(found[1]) * DURATIONS[found[2]]


class Oracle:
    """A query over one stream; ``tables`` are static. Rows are tuples in the order of the columns."""

    def __init__(
        self,
        sql: str,
        stream: str,
        columns: Sequence[tuple[str, str]],
        settings: Mapping[str, object] | None = None,
        tables: Mapping[str, Frame] | None = None,
    ) -> None:
        self.settings = dict(settings or {})
        self.stream = stream
        self.fields = tuple(Field(stream, name, kind) for name, kind in columns)
        self.tables = {stream: Frame(self.fields), **(tables or {})}
        self.policy = self.settings.get("error_policy", "side_output")
        self.query = Query(sql, self.tables, null_on_error=self.policy == "null")
        self.event_time = self._event_time()
        self.fallback = self._fallback()
        self.is_clock = self.event_time is None
        self.shard = self._setting_expression("shard")
        self.dedup_key = self._dedup_key()
        self.horizon = duration(self.settings.get("dedup_horizon", "0s"))
        statement = self.query.statement
        lag, self.lateness = 0, 0
        if not self.is_clock:
            lag = self._first(statement.lag_us, "watermark_lag")
            self.lateness = self._first(statement.lateness_us, "allowed_lateness")
        idle = self.settings.get("idle_timeout")
        self.watermark = Watermark(
            lag,
            duration(idle) if idle else None,
            advance=self.settings.get("on_idle") == "advance",
            is_clock=self.is_clock,
        )
        self.skew = duration(self.settings.get("max_future_skew", "24h"))
        max_rows = self.settings.get("max_rows_per_group") if self.query.keeps_rows else None
        limits = Limits(self.lateness, self.settings.get("max_groups"), max_rows)
        self.kind = make_kind(
            statement.window, limits, is_clock=self.is_clock, emit_on_close=statement.emit_on_close
        )
        self.clock_us: int | None = None
        self.arrived = self.epoch = 0
        self.first_seen: dict[str, int] = {}
        self.counts: Counter[str] = Counter()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.query.columns)

    def batch(self, rows: Sequence[tuple], clock_us: int) -> Outcome:
        """Rows arrive at a clock."""
        before = self.watermark.value
        self._move_clock(clock_us)
        outcome = Outcome()
        frame = Frame(self.fields, tuple((row, row) for row in rows))
        arrived = self.query.relation({**self.tables, self.stream: frame}).rows
        self.counts["rows_in"] += len(arrived)
        placed = [
            row
            for values, original in arrived
            if (row := self._classify(values, original, outcome))
        ]
        self._account(self.kind.place(placed, before), outcome)
        return self._advance(outcome)

    def clock(self, clock_us: int) -> Outcome:
        """Time passes."""
        self._move_clock(clock_us)
        return self._advance(Outcome())

    def drain(self) -> Outcome:
        """The end of the stream: everything goes out, and the watermark moves past it."""
        outcome = Outcome()
        closed, past = self.kind.drain()
        if past is not None:
            self.watermark.raise_to(past)
        self._emit(closed, outcome)
        return self._finish(outcome)

    def flush(self) -> Outcome:
        """Open state windows go out."""
        outcome = Outcome()
        self._emit(self.kind.flush(), outcome)
        return self._finish(outcome)

    def _first(self, from_statement: int | None, name: str) -> int:
        return (
            from_statement
            if from_statement is not None
            else duration(self.settings.get(name, "0s"))
        )

    def _setting_expression(self, name: str) -> Built | None:
        text = self.settings.get(name)
        return None if text is None else self.query.scalar(str(text), name)

    def _dedup_key(self) -> Built | None:
        if "dedup_key" in self.settings and "dedup_horizon" not in self.settings:
            raise Refused("dedup_key needs dedup_horizon")
        return self._setting_expression("dedup_key")

    def _event_time(self) -> Built | None:
        """By authority: the statement, the setting, the source's metadata; None: the clock."""
        if self.settings.get("time") == "processing":
            return None
        statement = self.query.statement
        text = statement.event_time or self.settings.get("event_time_field") or self._metadata()
        if text is not None:
            return self._micros_of(str(text), self.settings.get("event_time_unit"))
        if statement.has_watermark:
            raise Refused("WATERMARK needs an event time: write ON column, or set event_time_field")
        return None

    def _fallback(self) -> Built | None:
        """The metadata's time, for rows without an event time."""
        text = self._metadata()
        asked = self.settings.get("null_event_time") == "fallback"
        return self._micros_of(text, None) if asked and text is not None else None

    def _micros_of(self, text: str, unit: object) -> Built:
        built = self.query.scalar(text, "ON")
        if not is_number(built.type):
            return Built("BIGINT", lambda row: _as_micros(built.run(row), built.type))
        if unit not in UNITS_NS:
            raise Refused(f"{text} is a number: name its unit with event_time_unit, e.g. ms")
        scale = UNITS_NS[str(unit)]
        return Built("BIGINT", lambda row: _scaled(built.run(row), scale))

    def _metadata(self) -> str | None:
        """The column in which the source says when a row came."""
        names = {f.name.lower(): f.name for f in self.query.rows.fields}
        kafka = ("timestamp",) if names.keys() >= KAFKA_COLUMNS else ()
        found = next((names[name] for name in (*kafka, *METADATA) if name in names), None)
        return None if found is None else f"`{found}`"

    def _move_clock(self, clock_us: int) -> None:
        self.clock_us = clock_us if self.clock_us is None else max(self.clock_us, clock_us)

    def _time_of(self, values: tuple) -> tuple[int, str | None]:
        """The time of a row and, when it has none that counts, the reason.

        A row that falls back on another time has it for its windows only: W follows event times.
        """
        assert self.clock_us is not None
        if self.event_time is None:
            return self.clock_us, None
        time = _tried(self.event_time, values)
        if time is None:
            if self.settings.get("null_event_time") != "fallback":
                return self.clock_us, "null_event_time"
            found = None if self.fallback is None else _tried(self.fallback, values)
            return (self.clock_us if found is None else found), None
        if time > self.clock_us + self.skew:
            return time, "future_event_time"
        shard = None if self.shard is None else _tried(self.shard, values)
        self.watermark.see(repr(shard), time, self.clock_us)
        return time, None

    def _classify(self, values: tuple, original: tuple, outcome: Outcome) -> Row | None:
        self.arrived += 1
        time, reason = self._time_of(values)
        try:
            if reason is not None:
                raise RowError(reason)
            if self.query.where is not None and self.query.where.run(values) is not True:
                self.counts["filtered"] += 1
                return None
            self.query.check_row(values)
            duplicate = self._is_duplicate(values, time)
        except RowError as error:
            if self.policy == "fail" and reason is None:
                raise QueryFailed(error.reason) from error
            self._side(outcome, "error", error.reason, original)
            return None
        if duplicate:
            self._side(outcome, "duplicate", "duplicate_key", original)
            return None
        keys = tuple(built.run(values) for _, built in self.query.keys)
        partition = tuple(built.run(values) for _, built in self.query.partition)
        flags = {name: built.run(values) is True for name, built in self.query.conditions.items()}
        return Row(
            values=values,
            original=original,
            time=time,
            order=self.arrived,
            keys=keys,
            key_text=repr([order_key(key) for key in keys]),
            partition=partition,
            partition_text=repr([order_key(key) for key in partition]),
            flags=flags,
        )

    def _is_duplicate(self, values: tuple, time: int) -> bool:
        """Whether the key was first seen at most the horizon before; a NULL key is never a duplicate."""
        key = None if self.dedup_key is None else self.dedup_key.run(values)
        if key is None:
            return False
        text = repr(order_key(key))
        if text in self.first_seen and time - self.first_seen[text] <= self.horizon:
            return True
        self.first_seen[text] = time
        return False

    def _side(
        self,
        outcome: Outcome,
        kind: str,
        reason: str,
        original: tuple,
        late_by_ms: int | None = None,
    ) -> None:
        self.counts[kind] += 1
        named = {f.name: value for f, value in zip(self.fields, original, strict=True)}
        outcome.side.append(Side(kind, reason, named, late_by_ms))

    def _account(self, placement: Placement, outcome: Outcome) -> None:
        for row, late_by_ms in placement.late:
            self._side(outcome, "late", ALLOWED, row.original, late_by_ms)
        for row, reason in placement.evicted:
            self._side(outcome, "evicted", reason, row.original)
        self.counts["outside_windows"] += placement.outside
        self.counts["partial"] += placement.partial
        self.counts["accumulated"] += placement.accumulated

    def _advance(self, outcome: Outcome) -> Outcome:
        assert self.clock_us is not None
        self.watermark.advance(self.clock_us)
        watermark = self.watermark.value
        self._emit(self.kind.close(watermark), outcome)
        self.first_seen = {
            key: time
            for key, time in self.first_seen.items()
            if not passed(watermark, time + self.horizon + self.lateness)
        }
        return self._finish(outcome)

    def _finish(self, outcome: Outcome) -> Outcome:
        self.epoch += 1
        outcome.watermark_us = self.watermark.value
        return outcome

    def _emit(self, closed: list[Closed], outcome: Outcome) -> None:
        for window in sorted(closed, key=lambda w: (w.end, w.start)):
            outcome.emitted.extend(self._results(window, outcome))

    def _results(self, window: Closed, outcome: Outcome) -> list[dict[str, object]]:
        rows = []
        for env in self._groups(window):
            try:
                if self.query.having is not None and self.query.having.run(env) is not True:
                    continue
                order = [item.value.run(env) for item in self.query.order]
                rows.append((order, [item.run(env) for item in self.query.items]))
            except RowError as error:
                if self.policy == "fail":
                    raise QueryFailed(error.reason) from error
                outcome.side.append(Side("error", error.reason, None))
        for i, item in reversed(list(enumerate(self.query.order))):
            rows.sort(key=lambda row, i=i: order_key(row[0][i]), reverse=item.descending)
            # The default of Spark is what sorting NULL as the least value gives.
            rows.sort(key=lambda row, i=i, item=item: (row[0][i] is None) is not item.nulls_first)
        return [
            dict(zip(self.columns, values, strict=True))
            for _, values in rows[: self.query.statement.limit]
        ]

    def _groups(self, window: Closed) -> list[GroupEnv]:
        """The groups of a window in the order of their first rows; for a row query its rows."""
        bounds = (
            f"{window.start} {window.end} {window.rows[0].partition_text} {window.rows[0].order}"
        )
        shown = {
            "window_start": moment(window.start),
            "window_end": moment(window.end),
            "window_trigger": None if window.trigger is None else moment(window.trigger),
            "window_id": md5(bounds.encode(), usedforsecurity=False).hexdigest(),
            "emit_epoch": self.epoch,
        }
        ordered = window.rows if self.is_clock else sorted(window.rows, key=lambda row: row.place)
        partition = ordered[0].partition
        if self.query.is_row_query:
            return [GroupEnv(partition=partition, row=row.values, window=shown) for row in ordered]
        groups: dict[str, list[Row]] = {}
        for row in ordered:
            groups.setdefault(row.key_text, []).append(row)
        envs = []
        for rows in groups.values():
            values = [row.values for row in rows]
            results = tuple(self._aggregate(call, values) for call in self.query.calls)
            envs.append(
                GroupEnv(keys=rows[0].keys, partition=partition, results=results, window=shown)
            )
        return envs

    def _aggregate(self, call: Call, rows: list[tuple]) -> object:
        """The result of an aggregate, or the error that it ended with (NULL under that policy)."""
        try:
            return call.compute(rows)
        except RowError as error:
            return None if self.policy == "null" else error


def _as_micros(value: object, kind: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, str | date) and not isinstance(value, datetime):
        value = cast(value, kind, "TIMESTAMP")
    assert isinstance(value, datetime)
    return micros(value)


def _scaled(value: object, nanoseconds: int) -> int | None:
    return None if value is None else math.floor(Decimal(value) * nanoseconds / 1000)


def _tried(built: Built, values: tuple) -> object:
    """A value, or NULL when it cannot be computed."""
    try:
        return built.run(values)
    except RowError:
        return None
