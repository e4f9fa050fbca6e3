"""The oracle: the whole contract, record by record.

A batch: rows are classified in arrival order (null or future time, WHERE, row error, duplicate),
placed against the watermark before the batch (late, evicted), then the watermark advances, then
windows close.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .built import Built
from .kinds import Sliding
from .parse import Refused
from .placing import ALLOWED, Closed, Limits, Placement, Row, passed
from .query import Query
from .relation import Field, Frame
from .results import window_results
from .times import duration, event_time_of, fallback_of, tried
from .values import RowError, order_key
from .watermark import Watermark
from .windows import make_kind

YEAR_1_US = -62_135_596_800_000_000
YEAR_10000_US = 253_402_300_800_000_000


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
    """The output of one step."""

    emitted: list[dict[str, object]] = field(default_factory=list)
    side: list[Side] = field(default_factory=list)
    watermark_us: int | None = None


class Oracle:
    """A query over one stream and static tables. Rows are tuples in the order of the columns."""

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
        self.event_time = event_time_of(self.query, self.settings)
        self.fallback = fallback_of(self.query, self.settings)
        self.is_clock = self.event_time is None
        self.by_record = self.settings.get("lateness") == "record" and not self.is_clock
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
        max_groups = self.settings.get("max_groups")
        if max_groups is not None and isinstance(statement.window, Sliding):
            raise Refused(
                f"max_groups = {max_groups}: a row is in the sliding windows of all rows near it, "
                "later ones among them, so it cannot be evicted when it comes"
            )
        limits = Limits(self.lateness, max_groups, max_rows)
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
        before, clock_before = self.watermark.value, self.clock_us
        self._move_clock(clock_us)
        outcome = Outcome()
        frame = Frame(self.fields, tuple((row, row) for row in rows))
        arrived = self.query.relation({**self.tables, self.stream: frame}).rows
        self.counts["rows_in"] += len(arrived)
        if self.by_record:
            for values, original in arrived:
                self._take(values, original, before, outcome)
            return self._advance(outcome, clock_before)
        placed = [
            row
            for values, original in arrived
            if (row := self._classify(values, original, outcome))
        ]
        self._account(self.kind.place(placed, before), outcome)
        return self._advance(outcome, clock_before)

    def _take(
        self, values: tuple, original: tuple, before_batch: int | None, outcome: Outcome
    ) -> None:
        """Take a row by itself: it is judged by the watermark at its place.

        The order of rows of several shards is none, so each is judged by those of its own, and
        windows close with the batch.
        """
        before = self.watermark.value
        if self.shard is not None:
            own = self.watermark.own(repr(tried(self.shard, values)))
            before = max((w for w in (before_batch, own) if w is not None), default=None)
        row = self._classify(values, original, outcome, before)
        if row is not None:
            self._account(self.kind.join(row, before), outcome)
        if self.shard is None:
            assert self.clock_us is not None
            self.watermark.advance(self.clock_us)
            self._emit(self.kind.close(self.watermark.value), outcome)

    def clock(self, clock_us: int) -> Outcome:
        """Time passes."""
        clock_before = self.clock_us
        self._move_clock(clock_us)
        return self._advance(Outcome(), clock_before)

    def drain(self) -> Outcome:
        """End the stream: emit every window, and move the watermark past them."""
        outcome = Outcome()
        closed, past = self.kind.drain()
        if past is not None:
            self.watermark.raise_to(past)
        self._emit(closed, outcome)
        return self._finish(outcome)

    def flush(self) -> Outcome:
        """Emit open state windows."""
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

    def _move_clock(self, clock_us: int) -> None:
        self.clock_us = clock_us if self.clock_us is None else max(self.clock_us, clock_us)

    def _time_of(self, values: tuple) -> tuple[int, str | None]:
        """Return the time of a row or, if it has no valid one, the reason.

        A fallback time counts for the row's windows only; W follows event times.
        """
        assert self.clock_us is not None
        if self.event_time is None:
            return self.clock_us, None
        time = tried(self.event_time, values)
        if time is None:
            if self.settings.get("null_event_time") != "fallback":
                return self.clock_us, "null_event_time"
            found = None if self.fallback is None else tried(self.fallback, values)
            return (self.clock_us if found is None else found), None
        if not YEAR_1_US <= time < YEAR_10000_US:
            return time, "event_time_out_of_range"
        if time > self.clock_us + self.skew:
            return time, "future_event_time"
        shard = None if self.shard is None else tried(self.shard, values)
        self.watermark.see(repr(shard), time, self.clock_us)
        return time, None

    def _classify(
        self, values: tuple, original: tuple, outcome: Outcome, before: int | None = None
    ) -> Row | None:
        """Return a row that is to be placed; ``before`` is the watermark at its place."""
        self.arrived += 1
        time, reason = self._time_of(values)
        try:
            if reason is not None:
                raise RowError(reason)
            if self.query.where is not None and self.query.where.run(values) is not True:
                self.counts["filtered"] += 1
                return None
            self.query.check_row(values)
            duplicate = self._is_duplicate(values, time, before)
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

    def _is_duplicate(self, values: tuple, time: int, before: int | None) -> bool:
        """Return whether the key was first seen within the horizon; a NULL key is never seen.

        A row finds a key forgotten by the watermark at its place. One that is forgotten for a shard
        and not for another keeps the latest time at which it was seen anew.
        """
        key = None if self.dedup_key is None else self.dedup_key.run(values)
        if key is None:
            return False
        text = repr(order_key(key))
        seen = self.first_seen.get(text)
        if seen is None:
            self.first_seen[text] = time
            return False
        is_forgotten = passed(before, seen + self.horizon + self.lateness)
        if time - seen <= self.horizon and not is_forgotten:
            return True
        self.first_seen[text] = max(seen, time)
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

    def _advance(self, outcome: Outcome, clock_before: int | None) -> Outcome:
        assert self.clock_us is not None
        self.watermark.advance(self.clock_us)
        watermark = self.watermark.value
        self._emit(self.kind.close(watermark), outcome)
        every = self.query.statement.early_us
        if every and clock_before is not None and clock_before // every < self.clock_us // every:
            self._emit(self.kind.early(), outcome, final=False)
        return self._finish(outcome)

    def _finish(self, outcome: Outcome) -> Outcome:
        self.epoch += 1
        self.first_seen = {
            key: time
            for key, time in self.first_seen.items()
            if not passed(self.watermark.value, time + self.horizon + self.lateness)
        }
        outcome.watermark_us = self.watermark.value
        return outcome

    def _emit(self, closed: list[Closed], outcome: Outcome, *, final: bool = True) -> None:
        """Emit windows in the order of their ends."""

        def on_error(error: RowError) -> None:
            if self.policy == "fail":
                raise QueryFailed(error.reason) from error
            if final:
                outcome.side.append(Side("error", error.reason, None))

        for window in sorted(closed, key=lambda w: (w.end, w.start)):
            outcome.emitted.extend(
                window_results(self.query, window, self.epoch, on_error, final=final)
            )
