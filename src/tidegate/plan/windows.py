"""The window kinds, one frozen dataclass each: the only description of a window.

Sizes are whole numbers of ``time_unit``, as the user wrote them; the ``*_us`` properties are
microseconds. The arithmetic of bounds is in ``engine/windows/panes/grid.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import gcd
from typing import ClassVar, TypeAlias, get_args

from tidegate.plan.columns import EMIT, OPEN, WHEN, partition_key
from tidegate.time import TimeUnit


class WindowKind(ABC):
    """The facts about a kind of window that planner, EXPLAIN and engine need.

    A kind without one of them cannot be instantiated, and mypy reports that where the statement is
    read. Expressions are Spark SQL text over the source's columns.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def kind(self) -> str:
        """The name of the kind in EXPLAIN, messages, metrics and the state's fingerprint."""

    @property
    @abstractmethod
    def keeps_rows(self) -> bool:
        """Whether the state always holds whole rows, whatever the aggregates are."""

    @property
    @abstractmethod
    def needs_order(self) -> bool:
        """Whether windows or their ids depend on the order of arrival."""

    @property
    @abstractmethod
    def waits_for_clock(self) -> bool:
        """Whether the passing of time alone can close a window."""

    @property
    @abstractmethod
    def goes_out_at_once(self) -> bool:
        """Whether a row can close a window without the watermark (EMIT ON WINDOW CLOSE waits)."""

    @property
    def partition_keys(self) -> dict[str, str]:
        """The expressions of OVER (PARTITION BY ..), by the names of their prepared columns."""
        return {}

    @property
    def conditions(self) -> dict[str, str]:
        """The BOOLEAN expressions of the window, by the names of their prepared columns."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tumbling(WindowKind):
    """Consecutive windows ``[s, s + size)``, with ``s = offset + n * size``."""

    kind: ClassVar[str] = "tumbling"
    keeps_rows: ClassVar[bool] = False
    needs_order: ClassVar[bool] = False
    waits_for_clock: ClassVar[bool] = True
    goes_out_at_once: ClassVar[bool] = False

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
class Hopping(WindowKind):
    """Windows ``[s, s + size)`` with ``s = offset + n * slide``.

    ``size`` need not be a multiple of ``slide``; a slide greater than the size leaves gaps.
    """

    kind: ClassVar[str] = "hopping"
    keeps_rows: ClassVar[bool] = False
    needs_order: ClassVar[bool] = False
    waits_for_clock: ClassVar[bool] = True
    goes_out_at_once: ClassVar[bool] = False

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
        """The width of a pane: the greatest that no window boundary divides."""
        return gcd(self.size_us, self.slide_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cumulate(WindowKind):
    """Windows ``[S, S + k * step)``, ``k = 1 .. size / step``, with ``S = offset + n * size``."""

    kind: ClassVar[str] = "cumulate"
    keeps_rows: ClassVar[bool] = False
    needs_order: ClassVar[bool] = False
    waits_for_clock: ClassVar[bool] = True
    goes_out_at_once: ClassVar[bool] = False

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
class Session(WindowKind):
    """Rows of a key that follow each other at most ``gap`` apart: ``[first, last + gap)``."""

    kind: ClassVar[str] = "session"
    keeps_rows: ClassVar[bool] = False
    needs_order: ClassVar[bool] = False
    waits_for_clock: ClassVar[bool] = True
    goes_out_at_once: ClassVar[bool] = False

    time_unit: TimeUnit
    gap: int

    @property
    def gap_us(self) -> int:
        return self.gap * self.time_unit.micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding(WindowKind):
    """One window for each triggering row at ``t``.

    It is ``[t - lookback, t + lookahead]``, both ends included. If ``lookahead`` is None, it is
    emitted at once. ``when`` (a BOOLEAN expression) selects the rows that trigger;
    ``partition_by`` separates streams. Expressions are Spark SQL text over the source's columns.
    """

    kind: ClassVar[str] = "sliding"
    keeps_rows: ClassVar[bool] = False
    needs_order: ClassVar[bool] = True
    waits_for_clock: ClassVar[bool] = True

    time_unit: TimeUnit
    lookback: int
    lookahead: int | None = None
    when: str | None = None
    partition_by: tuple[str, ...] = ()

    @property
    def goes_out_at_once(self) -> bool:
        return self.lookahead is None

    @property
    def conditions(self) -> dict[str, str]:
        return {} if self.when is None else {WHEN: self.when}

    @property
    def partition_keys(self) -> dict[str, str]:
        return _numbered(self.partition_by)

    @property
    def lookback_us(self) -> int:
        return self.lookback * self.time_unit.micros

    @property
    def lookahead_us(self) -> int:
        return (self.lookahead or 0) * self.time_unit.micros


@dataclass(frozen=True, slots=True, kw_only=True)
class State(WindowKind):
    """Rows of a partition from one where ``open`` holds to one where ``emit`` holds."""

    kind: ClassVar[str] = "state"
    keeps_rows: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    waits_for_clock: ClassVar[bool] = False
    goes_out_at_once: ClassVar[bool] = True

    open: str
    emit: str
    partition_by: tuple[str, ...] = ()

    @property
    def conditions(self) -> dict[str, str]:
        return {OPEN: self.open, EMIT: self.emit}

    @property
    def partition_keys(self) -> dict[str, str]:
        return _numbered(self.partition_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(WindowKind):
    """Every ``count`` rows; with ``every``, the last ``count`` rows at each ``every``-th row."""

    kind: ClassVar[str] = "count"
    keeps_rows: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    waits_for_clock: ClassVar[bool] = False
    goes_out_at_once: ClassVar[bool] = True

    count: int
    every: int | None = None
    partition_by: tuple[str, ...] = ()

    @property
    def partition_keys(self) -> dict[str, str]:
        return _numbered(self.partition_by)


def _numbered(expressions: tuple[str, ...]) -> dict[str, str]:
    return {partition_key(number): sql for number, sql in enumerate(expressions)}


PaneWindow: TypeAlias = Tumbling | Hopping | Cumulate
Window: TypeAlias = Tumbling | Hopping | Cumulate | Session | Sliding | State | Count

# The dataclasses of all kinds.
WINDOWS: tuple[type[Window], ...] = get_args(Window)
