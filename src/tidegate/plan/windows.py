"""The window kinds, one frozen dataclass each: the only description of a window there is.

Sizes are whole numbers of ``time_unit``, as the user wrote them; the ``*_us`` properties are
microseconds. The arithmetic of bounds lives in ``engine/windows/panes/grid.py``; here is only what
a window *is*.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from tidegate.time import TimeUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class Tumbling:
    """Windows ``[s, s + size)`` side by side, ``s`` on the grid of ``size`` moved by ``offset``."""

    time_unit: TimeUnit
    size: int
    offset: int = 0

    @property
    def size_us(self) -> int:
        return self.size * self.time_unit.micros

    @property
    def offset_us(self) -> int:
        return self.offset * self.time_unit.micros

    @property
    def pane_us(self) -> int:
        """The width of a pane: the window itself."""
        return self.size_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Hopping:
    """Windows ``[s, s + size)`` with ``s`` on the grid of ``slide``, moved by ``offset``.

    ``size`` need not be a multiple of ``slide``; a slide greater than the size leaves gaps.
    """

    time_unit: TimeUnit
    size: int
    slide: int
    offset: int = 0

    @property
    def size_us(self) -> int:
        return self.size * self.time_unit.micros

    @property
    def slide_us(self) -> int:
        return self.slide * self.time_unit.micros

    @property
    def offset_us(self) -> int:
        return self.offset * self.time_unit.micros

    @property
    def pane_us(self) -> int:
        """The width of a pane: the greatest that no window bound cuts."""
        return gcd(self.size_us, self.slide_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cumulate:
    """Windows ``[S, S + k * step)`` for ``k = 1 .. size / step``, ``S`` on the grid of ``size``."""

    time_unit: TimeUnit
    size: int
    step: int
    offset: int = 0

    @property
    def size_us(self) -> int:
        return self.size * self.time_unit.micros

    @property
    def step_us(self) -> int:
        return self.step * self.time_unit.micros

    @property
    def offset_us(self) -> int:
        return self.offset * self.time_unit.micros

    @property
    def pane_us(self) -> int:
        """The width of a pane: the step."""
        return self.step_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Rows of a key chain while at most ``gap`` apart; shown as ``[first, last + gap)``."""

    time_unit: TimeUnit
    gap: int

    @property
    def gap_us(self) -> int:
        return self.gap * self.time_unit.micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding:
    """One window for each triggering row at ``t``.

    It is ``[t - lookback, t + lookahead]``, both ends in. ``lookahead`` is None when the statement
    gave none: the window goes out at once. ``when`` (a BOOLEAN expression) picks the rows that
    trigger; ``partition_by`` separates streams. Expressions are Spark SQL text over the source's
    columns.
    """

    time_unit: TimeUnit
    lookback: int
    lookahead: int | None = None
    when: str | None = None
    partition_by: tuple[str, ...] = ()

    @property
    def lookback_us(self) -> int:
        return self.lookback * self.time_unit.micros

    @property
    def lookahead_us(self) -> int:
        return (self.lookahead or 0) * self.time_unit.micros


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Rows of a partition from the one where ``open`` holds to the one where ``emit`` holds."""

    open: str
    emit: str
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Every ``count`` rows; with ``every``, on every ``every``-th row the last ``count`` rows."""

    count: int
    every: int | None = None
    partition_by: tuple[str, ...] = ()


PaneWindow: TypeAlias = Tumbling | Hopping | Cumulate
Window: TypeAlias = Tumbling | Hopping | Cumulate | Session | Sliding | State | Count

# The word of each kind in EXPLAIN, messages and metrics.
WINDOW_KINDS: dict[type, str] = {
    Tumbling: "tumbling",
    Hopping: "hopping",
    Cumulate: "cumulate",
    Session: "session",
    Sliding: "sliding",
    State: "state",
    Count: "count",
}
