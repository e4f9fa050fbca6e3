"""Panes: the slices of time that tumbling, hopping and cumulating windows are made of.

A window kind is a ``PaneGrid``: rows fall into panes of ``pane_us``, and the windows that contain a
pane have the ends ``first_end, first_end + stride_us .. last_end``. Everything else (which rows are
late, which windows are due, what can leave the state) follows from these, so the three kinds share
one code path, and each row is accumulated only once.

    size 10, slide 5:    pane  |--5--|--5--|--5--|        pane 5 is in windows ending at 10 and 15
                         [0        10)
                               [5        15)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.plan.windows import Cumulate, Hopping, PaneWindow, Tumbling
from tidegate.time import floor_to


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneGrid:
    """The geometry of a window kind; all fields are microseconds.

    Attributes:
        pane_us: the width of a pane.
        stride_us: the distance between the ends of neighboring windows.
        size_us: the length of the longest window.
        start_us: the distance between possible starts of windows (the slide, or the size).
        offset_us: by how much all grids are shifted.
        cumulating: the windows that contain a pane share their start instead of their length.
    """

    pane_us: int
    stride_us: int
    size_us: int
    start_us: int
    offset_us: int
    cumulating: bool

    def pane_sql(self, time: str) -> str:
        """The start of the pane that holds ``time``."""
        return _floor_sql(time, self.pane_us, self.offset_us)

    def first_end_sql(self, pane: str) -> str:
        """The end of the first window that holds the pane."""
        if self.cumulating:
            return f"{pane} + {self.pane_us}"
        before = _floor_sql(f"({pane} - {self.size_us})", self.start_us, self.offset_us)
        return f"{before} + {self.start_us + self.size_us}"

    def last_end_sql(self, pane: str) -> str:
        """The end of the last window that holds the pane; before ``first_end`` when none does."""
        return f"{_floor_sql(pane, self.start_us, self.offset_us)} + {self.size_us}"

    def end_sql(self, time: str) -> str:
        """The last end of any window that is not after ``time``."""
        return _floor_sql(time, self.stride_us, self.offset_us + self.size_us)

    def start_of_end_sql(self, end: str) -> str:
        """The start of the window that ends at ``end``."""
        if self.cumulating:
            return _floor_sql(f"({end} - 1)", self.start_us, self.offset_us)
        return f"{end} - {self.size_us}"

    @property
    def has_gaps(self) -> bool:
        """Whether a row can be in no window at all (the slide is greater than the size)."""
        return self.start_us > self.size_us

    @property
    def single(self) -> bool:
        """Whether every pane is in exactly one window and is that window (tumbling)."""
        return self.pane_us == self.size_us == self.start_us

    def next_end(self, after_us: int) -> int:
        """The first end of any window that is greater than ``after_us``."""
        return floor_to(after_us, self.stride_us, self.offset_us + self.size_us) + self.stride_us

    def last_end(self, pane_us: int) -> int:
        """The end of the last window that holds the pane: ``last_end_sql`` in plain Python."""
        return floor_to(pane_us, self.start_us, self.offset_us) + self.size_us

    def first_open(self, bound_us: int) -> int:
        """Panes from here on are in a window that ends after the bound; earlier ones are not."""
        return floor_to(bound_us - self.size_us, self.start_us, self.offset_us) + self.start_us

    def first_whole(self, bound_us: int) -> int:
        """All windows of panes from here on end after the bound; some of earlier panes do not."""
        if self.cumulating:
            return bound_us - self.pane_us + 1
        return floor_to(bound_us - self.size_us, self.start_us, self.offset_us) + self.size_us


def pane_grid(window: PaneWindow) -> PaneGrid:
    """Return the geometry of a tumbling, hopping or cumulating window."""
    slide_us = window.slide_us if isinstance(window, Hopping) else window.size_us
    cumulating = isinstance(window, Cumulate)
    match window:
        case Tumbling():
            stride_us = window.size_us
        case Hopping():
            stride_us = window.slide_us
        case Cumulate():
            stride_us = window.step_us
    return PaneGrid(
        pane_us=window.pane_us,
        stride_us=stride_us,
        size_us=window.size_us,
        start_us=slide_us,
        offset_us=window.offset_us,
        cumulating=cumulating,
    )


def shared_ranges(bounds: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges covered by at least two of the given ones, inclusive and ascending."""
    shared: list[tuple[int, int]] = []
    covered_to: int | None = None
    for first, last in sorted(bounds):
        if covered_to is not None and first <= covered_to:
            overlap = (first, min(last, covered_to))
            if shared and overlap[0] <= shared[-1][1]:
                overlap = (shared[-1][0], max(shared[-1][1], overlap[1]))
                shared.pop()
            shared.append(overlap)
        covered_to = last if covered_to is None else max(covered_to, last)
    return shared


def _floor_sql(value: str, size_us: int, offset_us: int) -> str:
    """``floor_to`` as Spark SQL."""
    # pmod is exact on BIGINT, where floor(x / y) goes through DOUBLE.
    moved = value if offset_us == 0 else f"({value} - {offset_us})"
    return f"({value} - pmod({moved}, {size_us}))"
