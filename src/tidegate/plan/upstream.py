"""What a statement is told of the transform that it reads, and the watermark that follows from it.

A window closes once. So when a transform has closed its windows up to a bound, the results that are
still to come have greater ends, and that bounds their times:

    time of a result         kinds on a grid        session             sliding
    LAST   its last instant  >= bound               >= bound - 1        >= bound
    END    ``window_end()``  >= bound + 1           >= bound            >= bound
    START  ``window_start()``  the first window     -                   >= bound less the length
                             that is open

In processing time a further row may have the clock of the batch before, which is one microsecond
less than the bound. State and count windows close when a row says so, which bounds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidegate.plan.settings import TimeMode
from tidegate.plan.windows import (
    Count,
    Cumulate,
    Hopping,
    Session,
    Sliding,
    State,
    Tumbling,
    Window,
)
from tidegate.time import floor_to


class ResultTime(Enum):
    """Which time of its window is the time of a result; the value is the text for EXPLAIN."""

    LAST = "the last instant of its window"
    END = "the end of its window"
    START = "the start of its window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A transform whose results a statement reads.

    Attributes:
        name: its name in FROM.
        window: its windows.
        mode: the time of its windows.
        at_once: whether rows close its windows without the watermark.
        early: whether it shows provisional results.
        columns: which of its columns is a time of the window, by the name in lower case.
    """

    name: str
    window: Window
    mode: TimeMode
    at_once: bool
    early: bool
    columns: Mapping[str, ResultTime] = field(default_factory=dict)

    @property
    def times(self) -> tuple[ResultTime, ...]:
        """The times of a window that closing bounds, for results that are still to come."""
        match self.window:
            case State() | Count():
                return ()
            case Session():
                return ResultTime.LAST, ResultTime.END
            case _:
                return tuple(ResultTime)


@dataclass(frozen=True, slots=True, kw_only=True)
class Follows:
    """A watermark that follows from the closing of another transform.

    Attributes:
        upstream: that transform.
        time: what the time of a row is; one of ``upstream.times``.
    """

    upstream: Upstream
    time: ResultTime

    def watermark_us(self, bound_us: int | None) -> int | None:
        """Return the watermark once the windows with an end up to a bound have closed."""
        if bound_us is None:
            return None
        window, time = self.upstream.window, self.time
        match window:
            case Tumbling() | Hopping() | Cumulate() if time is ResultTime.START:
                return _first_open_start(window, bound_us)
            case Tumbling() | Hopping() | Cumulate():
                return bound_us + (time is ResultTime.END)
            case Session():
                return bound_us - (time is ResultTime.LAST)
            case Sliding():
                length_us = window.lookback_us + window.lookahead_us
                behind_us = length_us if time is ResultTime.START else 0
                is_live = self.upstream.at_once and self.upstream.mode is TimeMode.PROCESSING
                return bound_us - behind_us - is_live
            case State() | Count():
                raise AssertionError("their closing bounds nothing")


def _first_open_start(window: Tumbling | Hopping | Cumulate, bound_us: int) -> int:
    """The least start of a window that ends after a bound; windows that share it count once."""
    every_us = window.slide_us if isinstance(window, Hopping) else window.size_us
    return floor_to(bound_us - window.size_us, every_us, window.offset_us) + every_us
