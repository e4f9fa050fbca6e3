"""Windows that were seen open, and when each of them closed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.inspection.next_windows import NextWindow, NextWindows
from tidegate.monitor.history import Point

# Closed windows that are remembered.
MOST_CLOSED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWindow:
    """A window that was seen open.

    Attributes:
        window: as it was last seen.
        is_closed: whether it has closed since.
        closed_in: the epoch that closed it; None while it is open, or if that is not known.
        closed_us: the clock of that epoch.
    """

    window: NextWindow
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

    def windows(self, bound_us: int | None, points: Sequence[Point]) -> list[SeenWindow]:
        """Return closed windows, then open ones, each in order of their end.

        Args:
            bound_us: the bound of the newest epoch, whose state may not have been read yet; what
                lies before it is not shown as open.
            points: the history, which knows when windows closed.
        """
        self._closed = [_dated(each, points) for each in self._closed]
        still_open = [each for each in self._open if not _is_before(each, bound_us)]
        return [*self._closed, *(SeenWindow(window=window) for window in still_open)]

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


def _is_before(window: NextWindow, bound_us: int | None) -> bool:
    return bound_us is not None and window.end_us <= bound_us


def _dated(seen: SeenWindow, points: Iterable[Point]) -> SeenWindow:
    if seen.closed_in is not None:
        return seen
    for point in points:
        if _is_before(seen.window, point.bound_us):
            return replace(seen, closed_in=point.epoch, closed_us=point.clock_us)
    return seen
