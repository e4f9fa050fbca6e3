"""Sliding windows: one for each row that triggers."""

from __future__ import annotations

from collections.abc import Callable

from .kinds import Sliding
from .placing import Closed, Kind, Limits, Placement, Row, passed


class SlidingKind(Kind):
    """One window for each row that triggers; ``at_once``: it does not wait for W."""

    def __init__(self, window: Sliding, limits: Limits, *, at_once: bool, is_clock: bool) -> None:
        super().__init__(limits)
        self.is_clock = is_clock
        self.window = window
        self.lookahead = window.lookahead or 0
        self.at_once = at_once
        self.rows: list[Row] = []
        self.triggers: list[Row] = []
        # The watermark by which each row was judged, by its order.
        self.judged: dict[int, int | None] = {}

    def place(self, rows: list[Row], before: int | None) -> Placement:
        result = Placement()
        for row in rows:
            own_end = row.time + self.lookahead + self.limits.lateness
            last_end = own_end + self.window.lookback
            if not self.is_clock and passed(before, last_end):
                result.add_late(row, before, last_end)
                continue
            self.rows.append(row)
            self.judged[row.order] = before
            result.accumulated += 1
            if not self.is_clock and passed(before, own_end):
                result.partial += 1
            elif row.flags.get("when", True):
                self.triggers.append(row)
        return result

    def close(self, watermark: int | None) -> list[Closed]:
        def is_due(trigger: Row) -> bool:
            return self.at_once or passed(
                watermark, trigger.time + self.lookahead + self.limits.lateness
            )

        closed = self._take(is_due)
        reach = self.window.lookback + self.lookahead + self.limits.lateness
        # More rows may come at the same clock, one microsecond before W.
        horizon = None if watermark is None else watermark - self.is_clock
        self.rows = [row for row in self.rows if not passed(horizon, row.time + reach)]
        return closed

    def drain(self) -> tuple[list[Closed], int | None]:
        moments = [row.time + self.lookahead + self.limits.lateness + 1 for row in self.triggers]
        return self._take(lambda trigger: True), max(moments, default=None)

    def _take(self, is_due: Callable[[Row], bool]) -> list[Closed]:
        due = [trigger for trigger in self.triggers if is_due(trigger)]
        self.triggers = [trigger for trigger in self.triggers if not is_due(trigger)]
        return [self._window(trigger) for trigger in sorted(due, key=lambda r: r.place)]

    def _window(self, trigger: Row) -> Closed:
        start, end = trigger.time - self.window.lookback, trigger.time + self.lookahead
        rows = [
            row
            for row in self.rows
            if start <= row.time <= end
            and row.partition_text == trigger.partition_text
            and not self._came_after(row, end)
        ]
        rows = self._within_quota(sorted(rows, key=lambda r: r.place))
        return Closed(start, end, rows, trigger.time)

    def _came_after(self, row: Row, end: int) -> bool:
        """Whether a window had closed for the row when it came, though not yet for all shards."""
        return not self.is_clock and passed(self.judged[row.order], end + self.limits.lateness)

    def _within_quota(self, rows: list[Row]) -> list[Row]:
        if self.limits.max_groups is None:
            return rows
        seen = list(dict.fromkeys(row.key_text for row in rows))[: self.limits.max_groups]
        return [row for row in rows if row.key_text in seen]
