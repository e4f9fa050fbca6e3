"""Windows that were seen open, and when each of them closed.

Some open and close between two looks. Where a step closed as many windows as there can be between
its bound and the one before, all of them are known, though not their sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tidegate.engine.windows.panes.grid import PaneGrid
from tidegate.inspection.next_windows import NextWindow, NextWindows
from tidegate.inspection.open_windows import start_of
from tidegate.monitor.history import Point

# Closed windows that are remembered.
MOST_CLOSED = 200

# Steps, and windows of a step, that are looked at for windows that nobody has seen.
MOST_INFERRED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedWindow:
    """A window that nobody has seen open; its size is not known."""

    start_us: int
    end_us: int
    rows: int | None = None
    groups: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWindow:
    """A window that was seen open.

    Attributes:
        window: as it was last seen.
        is_closed: whether it has closed since.
        closed_in: the epoch that closed it; None while it is open, or if that is not known.
        closed_us: the clock of that epoch.
    """

    window: NextWindow | ClosedWindow
    is_closed: bool = False
    closed_in: int | None = None
    closed_us: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it for the page."""
        return {
            "start_us": self.window.start_us,
            "end_us": self.window.end_us,
            "rows": self.window.rows,
            "groups": self.window.groups,
            "closed": self.is_closed,
            "closed_in": self.closed_in,
            "closed_us": self.closed_us,
        }


class Timeline:
    """The windows of a transform around its watermark."""

    def __init__(self) -> None:
        self._open: tuple[NextWindow, ...] = ()
        self._closed: list[SeenWindow] = []

    def windows(
        self, bound_us: int | None, points: Sequence[Point], grid: PaneGrid | None = None
    ) -> list[SeenWindow]:
        """Return closed windows, then open ones, each in order of their end.

        Args:
            bound_us: the bound of the newest epoch, whose state may not have been read yet: what
                lies before it is not open any more.
            points: the history, which knows when windows closed.
            grid: the grid on which all windows lie, None where there is none; then the end of a
                window may have moved since it was seen.
        """
        self._closed = [_dated(each, points) for each in self._closed]
        closed, still_open = list(self._closed), []
        for window in self._open:
            if not _is_before(window, bound_us):
                still_open.append(SeenWindow(window=window))
            elif grid is not None:
                closed.append(_dated(SeenWindow(window=window, is_closed=True), points))
        if grid is not None:
            known = {(each.window.start_us, each.window.end_us) for each in closed}
            unseen = unseen_windows(points[-MOST_INFERRED:], grid)
            closed += [w for w in unseen if (w.window.start_us, w.window.end_us) not in known]
        closed.sort(key=lambda each: each.window.end_us)
        return [*closed[-MOST_CLOSED:], *still_open]

    def see(self, found: NextWindows, bound_us: int | None, *, growing: bool) -> None:
        """Take in the open windows of a newer state.

        Args:
            found: the windows.
            bound_us: the bound up to which windows have closed.
            growing: whether their ends move while they are open, as those of sessions do.
        """
        now = {(window.start_us, window.end_us) for window in found.windows}
        starts = {window.start_us for window in found.windows} if growing else ()
        self._closed += [
            SeenWindow(window=window, is_closed=True)
            for window in self._open
            # One that is gone and lies after the bound is only not among those listed.
            if _is_before(window, bound_us)
            and (window.start_us, window.end_us) not in now
            and window.start_us not in starts
        ]
        self._closed = self._closed[-MOST_CLOSED:]
        self._open = tuple(found.windows)

    def forget(self) -> None:
        """Begin again, after a rollback."""
        self._open, self._closed = (), []


def unseen_windows(points: Sequence[Point], grid: PaneGrid) -> list[SeenWindow]:
    """Return the windows of the steps that closed every window of the grid up to their bound."""
    found = []
    for before, point in pairwise(points):
        if before.bound_us is None or point.bound_us is None:
            continue
        ends = range(grid.next_end(before.bound_us), point.bound_us + 1, grid.stride_us)
        if point.epoch == before.epoch + 1 and len(ends) == point.emitted.closed_windows:
            found += [
                SeenWindow(
                    window=ClosedWindow(start_us=start_of(grid, end_us), end_us=end_us),
                    is_closed=True,
                    closed_in=point.epoch,
                    closed_us=point.clock_us,
                )
                for end_us in ends[-MOST_INFERRED:]
            ]
    return found


def _is_before(window: NextWindow | ClosedWindow, bound_us: int | None) -> bool:
    return bound_us is not None and window.end_us <= bound_us


def _dated(seen: SeenWindow, points: Iterable[Point]) -> SeenWindow:
    if seen.closed_in is not None:
        return seen
    for point in points:
        if _is_before(seen.window, point.bound_us):
            return replace(seen, closed_in=point.epoch, closed_us=point.clock_us)
    return seen
