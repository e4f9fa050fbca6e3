"""The open windows of a checkpoint: their bounds, their groups, and the state rows of each.

Every kind of window follows the same rules as its operator in ``engine/windows``, in plain Python
over the few columns that it needs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from tidegate.engine.windows.panes.grid import PaneGrid, pane_grid
from tidegate.inspection.fingerprint import window_of
from tidegate.plan.columns import AFTER, CAME, EMIT, OPEN, ORDER, PANE, TIME
from tidegate.plan.windows import Count, Cumulate, Hopping, Session, Sliding, State, Tumbling
from tidegate.state.manifest import Manifest
from tidegate.state.plan_file import PlanFile
from tidegate.state.reader import StateReader

Row: TypeAlias = Mapping[str, Any]

# Columns of state rows that only one operator has.
_FIRST, _LAST = "_first", "_last"  # the times of a span of a session
_TRIGGER, _WIDTH = "_trigger", "_width"  # of a sliding window: a trigger; a pane, 0 for a row
_ORDINAL = "_ordinal"  # of a count window: the number of the row in its partition


@dataclass(slots=True, kw_only=True)
class OpenWindow:
    """A window that is open.

    Attributes:
        start_us: its start; for a session, a state or a count window the time of its first row.
        end_us: its end, exclusive; of a sliding window inclusive, of a state or a count window the
            time of its last row so far.
        groups: its state rows by the values of their keys (and partition), in order of arrival.
    """

    start_us: int
    end_us: int
    groups: dict[str, list[Row]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many state rows it has."""
        return sum(map(len, self.groups.values()))

    def add(self, group: Sequence[str], row: Row) -> None:
        """Add a state row to its group."""
        self.groups.setdefault(repr([row[name] for name in group]), []).append(row)


@dataclass(frozen=True, slots=True)
class OpenWindows:
    """Finds the open windows of a state.

    Args:
        reader: the checkpoint.
        manifest: one of its manifests.
        plan: what its columns mean.
        counts_only: rows need have no other columns than those of groups.
    """

    reader: StateReader
    manifest: Manifest
    plan: PlanFile
    counts_only: bool = False

    def all(self, start_us: int | None = None) -> list[OpenWindow]:
        """Return the windows in order of their end, or only those with a given start.

        Raises:
            StateError: a file is damaged, or pyarrow is not installed.
        """
        window = window_of(self.plan.fingerprint)
        match window:
            case Tumbling() | Hopping() | Cumulate():
                found = self._panes(pane_grid(window), start_us)
            case Session():
                found = self._sessions(window.gap_us)
            case Sliding():
                found = self._pending(window)
            case State():
                found = self._of_partitions(_machine)
            case Count(count=count, every=every):
                found = self._of_partitions(lambda rows: _last_rows(rows, count, every or count))
            case _:
                assert_never(window)
        windows = [each for each in found if start_us is None or each.start_us == start_us]
        return sorted(windows, key=lambda each: (each.end_us, each.start_us))

    @property
    def _group(self) -> list[str]:
        """The columns that separate the groups of a window."""
        return group_columns(self.manifest, self.plan)

    @property
    def _partition(self) -> list[str]:
        return partition_columns(self.plan)

    def _is_open(self, end_us: int) -> bool:
        return self.manifest.bound_us is None or end_us > self.manifest.bound_us

    def _panes(self, grid: PaneGrid, start_us: int | None) -> Iterable[OpenWindow]:
        within = None if start_us is None else (PANE, start_us, start_us + grid.size_us)
        windows: dict[int, OpenWindow] = {}
        for row in self._rows(PANE, *self._stored(AFTER), within=within):
            pane_us, after_us = row[PANE], row.get(AFTER)
            last_us = grid.last_end(pane_us)
            first_us = first_end(grid, pane_us)
            for end_us in range(first_us, last_us + 1, grid.stride_us):
                if self._is_open(end_us) and (after_us is None or end_us > after_us):
                    window = windows.get(end_us)
                    if window is None:
                        start = start_of(grid, end_us)
                        window = windows[end_us] = OpenWindow(start_us=start, end_us=end_us)
                    window.add(self._group, row)
        return windows.values()

    def _sessions(self, gap_us: int) -> Iterator[OpenWindow]:
        due_us = None if self.manifest.bound_us is None else self.manifest.bound_us - gap_us
        came = self._stored(AFTER, CAME, ORDER)
        rows = self._rows(_FIRST, _LAST, *came if AFTER in came else ())
        spans = [row for row in rows if due_us is None or row[_LAST] >= due_us]
        for of_key in _by(self._group, spans):
            if any(self._came_behind(span) for span in of_key):
                yield from self._followed(of_key, gap_us)
                continue
            window: OpenWindow | None = None
            last_us = 0
            for span in sorted(of_key, key=lambda span: (span[_FIRST], span[_LAST])):
                if window is None or span[_FIRST] > last_us + gap_us:
                    if window is not None:
                        yield window
                    window = OpenWindow(start_us=span[_FIRST], end_us=0)
                    last_us = span[_LAST]
                last_us = max(last_us, span[_LAST])
                window.end_us = last_us + gap_us
                window.add(self._group, span)
            if window is not None:
                yield window

    def _came_behind(self, span: Row) -> bool:
        """Whether sessions may have parted when a span came, see ``sessions/record.py``."""
        after_us, bound_us = span.get(AFTER), self.manifest.bound_us
        return after_us is not None and (bound_us is None or after_us > bound_us)

    def _followed(self, spans: Iterable[Row], gap_us: int) -> Iterator[OpenWindow]:
        """The sessions of a key, of which some have parted."""
        sessions: list[_Session] = []
        for span in sorted(spans, key=_arrival):
            own = _Session.of(span)
            after_us = span[AFTER] if self._came_behind(span) else None
            joined = [
                each
                for each in sessions
                if own.first_us <= each.last_us + gap_us
                and own.last_us >= each.first_us - gap_us
                and (after_us is None or each.last_us + gap_us >= after_us)
            ]
            sessions = [each for each in sessions if each not in joined]
            sessions.append(_Session.united([*joined, own]))
        for each in sessions:
            window = OpenWindow(start_us=each.first_us, end_us=each.last_us + gap_us)
            for span in each.spans:
                window.add(self._group, span)
            yield window

    def _pending(self, sliding: Sliding) -> Iterator[OpenWindow]:
        if self.plan.fingerprint.get("emit") != "on_close":
            return  # A window goes out with the batch of its row.
        bound_us = self.manifest.bound_us
        rows = [row for row in self._rows() if row.get(_WIDTH, 0) == 0]
        for of_partition in _by(self._partition, rows):
            of_partition.sort(key=lambda row: (row[TIME], _place(row)))
            times = [row[TIME] for row in of_partition]
            for row in of_partition:
                closes_us = row[TIME] + sliding.lookahead_us + 1
                if not row[_TRIGGER] or (bound_us is not None and closes_us <= bound_us):
                    continue
                window = OpenWindow(
                    start_us=row[TIME] - sliding.lookback_us,
                    end_us=row[TIME] + sliding.lookahead_us,
                )
                first = bisect_left(times, window.start_us)
                for other in of_partition[first : bisect_right(times, window.end_us)]:
                    after_us = other.get(AFTER)
                    if after_us is None or window.end_us >= after_us:
                        window.add(self._group, other)
                yield window

    def _of_partitions(self, open_rows: Callable[[list[Row]], list[Row]]) -> Iterator[OpenWindow]:
        carried = list(self.reader.rows(self.manifest.tables.log))
        for rows in _by(self._partition, carried):
            still_open = open_rows(sorted(rows, key=_place))
            if still_open:
                times = [row[TIME] for row in still_open]
                window = OpenWindow(start_us=min(times), end_us=still_open[-1][TIME])
                for row in still_open:
                    window.add(self._group, row)
                yield window

    def _stored(self, *names: str) -> list[str]:
        """Those of some columns that the state has."""
        return [name for name in names if name in self.manifest.schema]

    def _rows(self, *needed: str, within: tuple[str, int, int] | None = None) -> Iterator[Row]:
        """The state rows of windows, or those in a range; ``needed`` are columns of the kind."""
        segments = self.manifest.tables.windows
        if within is not None:
            _, first_us, end_us = within
            segments = tuple(s for s in segments if s.first_us < end_us and s.last_us >= first_us)
        columns = [*needed, *self._group] if needed and self.counts_only else None
        return self.reader.rows(segments, columns=columns, within=within)


def group_columns(manifest: Manifest, plan: PlanFile) -> list[str]:
    """Return the columns that separate the groups of a window."""
    names = (*partition_columns(plan), *plan.keys)
    return [name for name in names if name in manifest.schema]


def partition_columns(plan: PlanFile) -> list[str]:
    """Return the columns of PARTITION BY."""
    return [name for name in plan.columns if name.startswith("_p")]


def _machine(rows: list[Row]) -> list[Row]:
    """Return the rows of the machine that is active after some rows, in their order."""
    active: list[Row] = []
    for row in rows:
        if active:
            active = [] if row[EMIT] else [*active, row]
        elif row[OPEN]:
            active = [row]
    return active


def _last_rows(rows: list[Row], count: int, every: int) -> list[Row]:
    """Return the rows that the next count window shows so far; none if it has no row of its own."""
    numbered = [row for row in rows if row[_ORDINAL] is not None]
    reached = max((row[_ORDINAL] for row in numbered), default=0)
    if reached % every == 0:
        return []
    after = (reached // every + 1) * every - count
    return [row for row in numbered if row[_ORDINAL] > after]


def _place(row: Row) -> tuple[int, ...]:
    return tuple(row[ORDER].values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """A session of a key, or a part of one: its times and its spans."""

    first_us: int
    last_us: int
    spans: tuple[Row, ...]

    @staticmethod
    def of(span: Row) -> _Session:
        """A span alone, with the times of its own rows."""
        if CAME in span:
            return _Session(first_us=span[_FIRST], last_us=span[CAME]["l"], spans=(span,))
        time_us = span[ORDER]["t"]
        return _Session(first_us=time_us, last_us=time_us, spans=(span,))

    @staticmethod
    def united(parts: Sequence[_Session]) -> _Session:
        """One session of several parts."""
        return _Session(
            first_us=min(part.first_us for part in parts),
            last_us=max(part.last_us for part in parts),
            spans=tuple(span for part in parts for span in part.spans),
        )


def _arrival(span: Row) -> tuple[int, int]:
    came = span[CAME] if CAME in span else span[ORDER]
    return came["b"], came["i"]


def _by(names: Sequence[str], rows: Iterable[Row]) -> Iterable[list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(repr([row[name] for name in names]), []).append(row)
    return groups.values()


def first_end(grid: PaneGrid, pane_us: int) -> int:
    """Return the end of the first window that holds a pane."""
    if grid.cumulating:
        return pane_us + grid.pane_us
    return grid.next_end(pane_us)


def start_of(grid: PaneGrid, end_us: int) -> int:
    """Return the start of the window that ends at a time."""
    if grid.cumulating:
        return grid.last_end(end_us - 1) - grid.size_us
    return end_us - grid.size_us
