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
        closed_in: the epoch that closed it, or the first that is known to come after that; None
            while it is open.
        closed_us: the clock of that epoch.
    """

    window: NextWindow
    closed_in: int | None = None
    closed_us: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it for the page."""
        return {
            "start_us": self.window.start_us,
            "end_us": self.window.end_us,
            "rows": self.window.rows,
            "groups": self.window.groups,
            "closed_in": self.closed_in,
            "closed_us": self.closed_us,
        }


class Timeline:
    """The windows of a transform around its watermark."""

    def __init__(self) -> None:
        self._open: tuple[NextWindow, ...] = ()
        self._closed: list[SeenWindow] = []

    @property
    def windows(self) -> list[SeenWindow]:
        """Closed ones, then those that are open, each in order of their end."""
        return [*self._closed, *(SeenWindow(window=window) for window in self._open)]

    def see(self, found: NextWindows, bound_us: int | None) -> None:
        """Take in the open windows of a newer state, and the bound up to which windows closed."""
        now = {(window.start_us, window.end_us) for window in found.windows}
        # A window that is gone and lies after the bound has grown, or is not among those listed.
        gone = [
            window
            for window in self._open
            if (window.start_us, window.end_us) not in now
            and bound_us is not None
            and window.end_us <= bound_us
        ]
        self._closed += [SeenWindow(window=window) for window in gone]
        self._closed = self._closed[-MOST_CLOSED:]
        self._open = tuple(found.windows)

    def date(self, points: Sequence[Point]) -> None:
        """Note when windows closed, by the points of the history."""
        self._closed = [
            each if each.closed_in is not None else _dated(each, points) for each in self._closed
        ]

    def forget(self) -> None:
        """Begin again, after a rollback."""
        self._open, self._closed = (), []


def _dated(seen: SeenWindow, points: Iterable[Point]) -> SeenWindow:
    end_us = seen.window.end_us
    for point in points:
        if point.bound_us is not None and point.bound_us >= end_us:
            return replace(seen, closed_in=point.epoch, closed_us=point.clock_us)
    return seen
