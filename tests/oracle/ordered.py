"""State and count windows: rows are processed one by one, in order."""

from __future__ import annotations

from collections.abc import Callable

from .kinds import Count, State
from .placing import Closed, Kind, Limits, Placement, Row, passed


class OrderedKind(Kind):
    """State and count windows: rows wait until the watermark has passed them."""

    def __init__(self, limits: Limits, *, is_clock: bool) -> None:
        super().__init__(limits)
        self.is_clock = is_clock
        self.waiting: list[Row] = []

    def step(self, row: Row) -> list[Row] | None:
        """Take the next row; return the rows of a window if it ends here."""
        raise NotImplementedError

    def leftovers(self) -> list[list[Row]]:
        """Return the rows of the windows that are still open, and forget them."""
        raise NotImplementedError

    def place(self, rows: list[Row], before: int | None) -> Placement:
        result = Placement()
        for row in rows:
            if not self.is_clock and passed(before, row.time + self.limits.lateness):
                result.add_late(row, before, row.time + self.limits.lateness)
            else:
                self.waiting.append(row)
                result.accumulated += 1
        return result

    def close(self, watermark: int | None) -> list[Closed]:
        return self._release(
            lambda row: self.is_clock or passed(watermark, row.time + self.limits.lateness)
        )

    def drain(self) -> tuple[list[Closed], int | None]:
        moments = [row.time + self.limits.lateness + 1 for row in self.waiting]
        closed = self._release(lambda row: True)
        return closed + [_whole(rows) for rows in self.leftovers()], max(moments, default=None)

    def _release(self, is_ready: Callable[[Row], bool]) -> list[Closed]:
        ready = [row for row in self.waiting if is_ready(row)]
        self.waiting = [row for row in self.waiting if not is_ready(row)]
        # In processing time rows are in arrival order already.
        ready.sort(key=lambda row: row.order if self.is_clock else row.place)
        return [_whole(window) for row in ready if (window := self.step(row)) is not None]


def _whole(rows: list[Row]) -> Closed:
    return Closed(rows[0].time, rows[-1].time, rows)


class StateKind(OrderedKind):
    """A machine for each partition: the rows since it opened; no entry when it is inactive."""

    def __init__(self, window: State, limits: Limits, *, is_clock: bool) -> None:
        super().__init__(limits, is_clock=is_clock)
        self.active: dict[str, list[Row]] = {}

    def step(self, row: Row) -> list[Row] | None:
        machine = row.partition_text
        if machine not in self.active:
            if row.flags["open"]:
                self.active[machine] = [row]
            return None
        self.active[machine].append(row)
        return self.active.pop(machine) if row.flags["emit"] else None

    def leftovers(self) -> list[list[Row]]:
        rows, self.active = list(self.active.values()), {}
        return rows

    def flush(self) -> list[Closed]:
        return [_whole(rows) for rows in self.leftovers()]


class CountKind(OrderedKind):
    """A counter for each partition, with the rows that a coming window may show."""

    def __init__(self, window: Count, limits: Limits, *, is_clock: bool) -> None:
        super().__init__(limits, is_clock=is_clock)
        self.size = window.count
        self.every = window.every or window.count
        self.kept: dict[str, list[Row]] = {}
        self.counters: dict[str, int] = {}

    def step(self, row: Row) -> list[Row] | None:
        key = row.partition_text
        self.counters[key] = self.counters.get(key, 0) + 1
        self.kept[key] = [*self.kept.get(key, []), row][-self.size :]
        if self.counters[key] % self.every:
            return None
        return self.kept[key]

    def leftovers(self) -> list[list[Row]]:
        """Return the rows after the last window or, if windows overlap, the last rows."""
        result = []
        for key, counter in self.counters.items():
            since = counter % self.every
            if since:
                result.append(
                    self.kept[key][-self.size :]
                    if self.every != self.size
                    else self.kept[key][-since:]
                )
        self.kept, self.counters = {}, {}
        return result
