"""The time range that the windows of a batch share, and the panes that cover it.

All ranges are half-open, microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.engine.windows.sliding.range_join import Reach
from tidegate.time import floor_to

# The narrowest pane is the reach divided by this; each wider one is FANOUT times as wide.
NARROWEST = 1024
FANOUT = 8
WIDTHS = 3


@dataclass(frozen=True, slots=True)
class Range:
    """``[start_us, end_us)``."""

    start_us: int
    end_us: int

    def aligned(self, width_us: int) -> Range:
        """The part that panes of a width fill completely; empty if there is no such pane."""
        start_us = -floor_to(-self.start_us, width_us)
        return Range(start_us, max(start_us, floor_to(self.end_us, width_us)))

    def without(self, inner: Range) -> tuple[Range, ...]:
        """The remainders on both sides of an inner range; the whole range if that is empty."""
        if not inner:
            return (self,) if self else ()
        sides = (Range(self.start_us, inner.start_us), Range(inner.end_us, self.end_us))
        return tuple(side for side in sides if side)

    def __bool__(self) -> bool:
        return self.start_us < self.end_us


@dataclass(frozen=True, slots=True)
class PaneRange:
    """The panes of one width that start in a range."""

    width_us: int
    range: Range

    @staticmethod
    def around(range_: Range, width_us: int) -> PaneRange:
        """The panes of one width that a range touches."""
        start_us = floor_to(range_.start_us, width_us)
        return PaneRange(width_us, Range(start_us, -floor_to(-range_.end_us, width_us)))

    @property
    def starts(self) -> Sequence[int]:
        return range(self.range.start_us, self.range.end_us, self.width_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The time that the windows of a batch cover, split into what all share and the rest.

    Attributes:
        shared: ranges that lie in every window, except the range of the triggers themselves.
        whole: the rest, which is read row by row.
        panes: the panes that cover ``shared``.
        at_us: a time that lies in every window, if there are shared ranges.
    """

    shared: tuple[Range, ...]
    whole: tuple[Range, ...]
    panes: tuple[PaneRange, ...]
    at_us: int

    @staticmethod
    def of(reach: Reach, first_us: int, last_us: int) -> Parts:
        """Return the parts for triggers from ``first_us`` to ``last_us``, both inclusive."""
        narrowest = widths(reach.us)[-1]
        # From the start of the last window to the first trigger, and from the last trigger to the
        # end of the first window.
        before = Range(last_us - reach.lookback_us, first_us).aligned(narrowest)
        after = Range(last_us + 1, first_us + reach.lookahead_us + 1).aligned(narrowest)
        shared = tuple(each for each in (before, after) if each)
        start_us, last_moment_us = reach.span(first_us, last_us)
        # The ends of the shared ranges, in order, are also the ends of the gaps between them.
        ends = [start_us, *(end for each in shared for end in (each.start_us, each.end_us))]
        ends.append(last_moment_us + 1)
        left = (Range(*pair) for pair in zip(ends[::2], ends[1::2], strict=True))
        whole = tuple(each for each in left if each)
        panes = tuple(pane for each in shared for pane in _cover(each, widths(reach.us)))
        return Parts(shared=shared, whole=whole, panes=panes, at_us=last_us - reach.lookback_us)


def widths(reach_us: int) -> tuple[int, ...]:
    """The widths of panes, the widest first; each is a multiple of the next."""
    # A pane is wider than a microsecond: see ``is_one_of``.
    narrowest = max(2, reach_us // NARROWEST)
    return tuple(narrowest * FANOUT**power for power in reversed(range(WIDTHS)))


def _cover(range_: Range, widths_us: tuple[int, ...]) -> Iterator[PaneRange]:
    """The fewest panes that cover a range which starts and ends on the narrowest of them."""
    if not range_:
        return
    width_us, narrower = widths_us[0], widths_us[1:]
    inner = range_.aligned(width_us)
    if inner:
        yield PaneRange(width_us, inner)
    for side in range_.without(inner):
        yield from _cover(side, narrower)
